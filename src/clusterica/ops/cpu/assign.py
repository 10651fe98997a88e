"""One Lloyd step on a NumPy or CSR block: scores by tiles that stay in cache, the rest compiled.

A tile of scores ``S = C Xᵀ`` has the centres along its outer axis, so that the search for the best
centre is a plain select over rows, which vectorises. The rows of the tile are still in cache when
they are added to their centres. Nothing of size rows x centres leaves the cache.
"""

from __future__ import annotations

from collections.abc import Iterator

import numba
import numpy as np
import scipy.sparse as sp

from clusterica.arrays._namespace import Array
from clusterica.ops.rules import Assignment, LloydSums, Rule, center_bias, n_labels

_TILE_BYTES = 4 * 1024**2  # of scores: a small part of the last-level cache
_TILE_ROWS = (128, 4096)  # fewer rows and BLAS repacks the centres too often
_FEW_FEATURES = 64  # up to here BLAS is faster on rows that were transposed for it

# Plain integers: compiled code is cached with them, where an enumeration could not be.
_EUCLIDEAN, _GAIN_SHAPE, _DIRECTION, _AXIS = (int(rule) for rule in Rule)

compiled = numba.njit(nogil=True, cache=True, error_model="numpy")


def assign(X: Array, C: Array, shift: Array | None, *, rule: Rule) -> Assignment:
    """Assign every row; see :func:`clusterica.ops.assign.assign`."""
    labels = np.empty(X.shape[0], np.int32)
    scores = np.empty(X.shape[0], X.dtype)
    for rows, _, tile_labels, tile_scores in _assigned_tiles(X, C, _or_zero(shift, X), rule):
        negative = rule is Rule.AXIS and tile_scores < 0
        labels[rows] = tile_labels + C.shape[0] * np.int32(negative)
        scores[rows] = tile_scores
    return Assignment(labels, scores)


def lloyd_sums(
    X: Array, C: Array, shift: Array | None, weights: Array, *, rule: Rule
) -> tuple[Array, LloydSums]:
    """Assign and sum; see :func:`clusterica.ops.assign.lloyd_sums`."""
    labels = np.empty(X.shape[0], np.int32)
    sums = np.zeros(
        C.shape
    )  # in float64: thousands of equal rows would all be rounded the same way
    counts = np.zeros(n_labels(C, rule))
    gain = 0.0
    shift = _or_zero(shift, X)
    for rows, tile, best, score in _assigned_tiles(X, C, shift, rule):
        per_row = (best, score, weights[rows], labels[rows])
        if sp.issparse(tile):
            csr = (tile.data, tile.indices, tile.indptr)
            gain += _add_sparse_rows(*csr, *per_row, int(rule), sums, counts)
        else:
            gain += _add_rows(tile, shift, *per_row, int(rule), sums, counts)
    return labels, LloydSums(sums, counts, np.float64(gain))


def losses(
    X: np.ndarray, C: Array, shift: Array | None, labels: Array, best: Array, *, rule: Rule
) -> np.ndarray:
    """Return what the best centre leaves of every row; see the reference in clusterica.ops.assign."""
    if rule is Rule.AXIS:
        return abs(best)
    result = np.empty(X.shape[0], X.dtype)
    C = np.ascontiguousarray(C, X.dtype)
    _losses(X, C, _or_zero(shift, X), labels, best, int(rule), result)
    return result


def _or_zero(shift: Array | None, X: Array) -> np.ndarray:
    return np.zeros(X.shape[1], X.dtype) if shift is None else shift.astype(X.dtype, copy=False)


def _assigned_tiles(
    X: Array, C: Array, shift: Array, rule: Rule
) -> Iterator[tuple[slice, Array, np.ndarray, np.ndarray]]:
    """Yield (slice of the block, its rows, their best centres, the scores) tile by tile."""
    C = np.ascontiguousarray(C, X.dtype)
    bias = center_bias(C, rule)
    (n_rows, d), k = X.shape, C.shape[0]
    size = max(1, min(_tile_rows(k, X.dtype.itemsize), n_rows))
    S, best, score = np.empty(k * size, X.dtype), np.empty(size, np.int32), np.empty(size, X.dtype)
    sparse = sp.issparse(X)
    turn = not sparse and (d <= _FEW_FEATURES or shift.any())
    turned = np.empty(d * size if turn else 0, X.dtype)
    by_feature = np.ascontiguousarray(C.T) if sparse else C.T
    for start in range(0, n_rows, size):
        rows = slice(start, min(start + size, n_rows))
        tile = X[rows]
        b = tile.shape[0]
        if sparse:
            by_row = S[: k * b].reshape(b, k)
            _sparse_scores(tile.data, tile.indices, tile.indptr, by_feature, by_row)
            _best_of_row(by_row, bias, rule.ignores_sign, best[:b], score[:b])
        else:
            columns = turned[: d * b].reshape(d, b) if turn else tile.T
            if turn:
                _turn(tile, shift, columns)
            by_center = S[: k * b].reshape(k, b)
            np.matmul(C, columns, out=by_center)
            _best_of_column(by_center, bias, rule.ignores_sign, best[:b], score[:b])
        yield rows, tile, best[:b], score[:b]


def _tile_rows(k: int, itemsize: int) -> int:
    """Return how many rows a tile has: an odd multiple of 16, so that its columns share no cache sets."""
    size = int(np.clip(_TILE_BYTES // (k * itemsize), *_TILE_ROWS))
    return size // 32 * 32 + 16


@compiled
def _turn(X, shift, columns):  # type: ignore[no-untyped-def]
    """Transpose the rows less the shift, sixteen at a time: a cache line of every column."""
    n, d = X.shape
    whole = n - n % 16
    for i in range(0, whole, 16):
        for f in range(d):
            s = shift[f]
            for r in range(16):
                columns[f, i + r] = X[i + r, f] - s
    for i in range(whole, n):
        for f in range(d):
            columns[f, i] = X[i, f] - shift[f]


@compiled
def _best_of_column(S, bias, ignore_sign, best, score):  # type: ignore[no-untyped-def]
    k, n = S.shape
    score[:] = -np.inf
    best[:] = 0
    # Four centres in one sweep over the rows: a quarter of the traffic of score and best.
    for j in range(0, k - 3, 4):
        j0, j1, j2, j3 = np.int32(j), np.int32(j + 1), np.int32(j + 2), np.int32(j + 3)
        b0, b1, b2, b3 = bias[j], bias[j + 1], bias[j + 2], bias[j + 3]
        for i in range(n):
            v0, v1, v2, v3 = S[j, i] - b0, S[j + 1, i] - b1, S[j + 2, i] - b2, S[j + 3, i] - b3
            if ignore_sign:
                v0, v1, v2, v3 = abs(v0), abs(v1), abs(v2), abs(v3)
            top, arg = score[i], best[i]
            arg, top = (j0, v0) if v0 > top else (arg, top)
            arg, top = (j1, v1) if v1 > top else (arg, top)
            arg, top = (j2, v2) if v2 > top else (arg, top)
            arg, top = (j3, v3) if v3 > top else (arg, top)
            score[i], best[i] = top, arg
    for j in range(k - k % 4, k):
        for i in range(n):
            value = S[j, i] - bias[j]
            value = abs(value) if ignore_sign else value
            if value > score[i]:
                score[i], best[i] = value, np.int32(j)
    if ignore_sign:
        for i in range(n):
            score[i] = S[best[i], i]


@compiled
def _best_of_row(S, bias, ignore_sign, best, score):  # type: ignore[no-untyped-def]
    n, k = S.shape
    for i in range(n):
        top = -np.inf
        arg = 0
        for j in range(k):
            value = abs(S[i, j]) if ignore_sign else S[i, j] - bias[j]
            if value > top:
                top = value
                arg = j
        best[i] = arg
        score[i] = S[i, arg] - bias[arg]


@compiled
def _sparse_scores(data, indices, indptr, by_feature, S):  # type: ignore[no-untyped-def]
    for i in range(S.shape[0]):
        S[i, :] = 0
        for p in range(indptr[i], indptr[i + 1]):
            value = data[p]
            row = by_feature[indices[p]]
            for j in range(S.shape[1]):
                S[i, j] += value * row[j]


@compiled
def _gain_and_share(score, inverse_length, rule):  # type: ignore[no-untyped-def]
    """The scalars of clusterica.ops.rules: gain of a row, and its factor in the sum of its centre."""
    if rule == _EUCLIDEAN:
        return 2 * score, score - score + 1
    if rule == _GAIN_SHAPE:
        return score * score, score
    if rule == _DIRECTION:
        return score * inverse_length, inverse_length
    return abs(score), score - score + (score > 0) - (score < 0)


@numba.njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})
def _inverse_length(x, shift):  # type: ignore[no-untyped-def]
    energy = 0.0  # in float64, where the square of no float32 is lost
    for f in range(x.shape[0]):
        energy += np.float64(x[f] - shift[f]) ** 2
    inverse = 1 / np.sqrt(energy) if energy > 0 else 0.0
    return x.dtype.type(inverse)


@numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"reassoc", "contract"})
def _losses(X, C, shift, labels, best, rule, result):  # type: ignore[no-untyped-def]
    for i in range(X.shape[0]):
        c = labels[i]
        row_factor = best[i] - best[i] + 1  # one, of the type of the scores
        if rule == _DIRECTION:
            row_factor = _inverse_length(X[i], shift)
        center_factor = best[i] if rule == _GAIN_SHAPE else best[i] - best[i] + 1
        loss = best[i] - best[i]
        for f in range(X.shape[1]):
            loss += (row_factor * (X[i, f] - shift[f]) - center_factor * C[c, f]) ** 2
        if rule == _DIRECTION:
            loss = loss / 2 if row_factor > 0 else loss - loss
        result[i] = loss


@compiled
def _add_rows(  # type: ignore[no-untyped-def]
    X, shift, centers, scores, weights, labels, rule, sums, counts
):
    total = 0.0
    negatives = sums.shape[0] if rule == _AXIS else 0
    for i in range(X.shape[0]):
        c = centers[i]
        inverse = _inverse_length(X[i], shift) if rule == _DIRECTION else scores[i]
        gain, share = _gain_and_share(scores[i], inverse, rule)
        share *= weights[i]
        for f in range(X.shape[1]):
            sums[c, f] += share * (X[i, f] - shift[f])
        total += gain * weights[i]
        labels[i] = c + negatives * (scores[i] < 0)
        counts[labels[i]] += weights[i]
    return total


@compiled
def _add_sparse_rows(  # type: ignore[no-untyped-def]
    data, indices, indptr, centers, scores, weights, labels, rule, sums, counts
):
    total = 0.0
    negatives = sums.shape[0] if rule == _AXIS else 0
    for i in range(centers.shape[0]):
        c = centers[i]
        nonzero = data[indptr[i] : indptr[i + 1]]
        inverse = scores[i]
        if rule == _DIRECTION and len(nonzero):
            inverse = _inverse_length(nonzero, nonzero - nonzero)
        gain, share = _gain_and_share(scores[i], inverse, rule)
        share *= weights[i]
        for p in range(indptr[i], indptr[i + 1]):
            sums[c, indices[p]] += share * data[p]
        total += gain * weights[i]
        labels[i] = c + negatives * (scores[i] < 0)
        counts[labels[i]] += weights[i]
    return total
