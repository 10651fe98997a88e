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
from clusterica.ops.linalg import inverse_lengths
from clusterica.ops.rules import (
    Assignment,
    LloydSums,
    Rule,
    center_bias,
    gains,
    n_labels,
    shares,
)

_TILE_BYTES = 2 * 1024**2  # of scores: about the second-level cache of a core
_TILE_ROWS = (128, 4096)  # fewer rows and BLAS repacks the centres too often

compiled = numba.njit(nogil=True, cache=True, error_model="numpy")


def assign(X: Array, C: Array, shift: Array | None, *, rule: Rule) -> Assignment:
    """Assign every row; see :func:`clusterica.ops.assign.assign`."""
    labels = np.empty(X.shape[0], np.int32)
    scores = np.empty(X.shape[0], X.dtype)
    for start, stop, _, tile_labels, tile_scores in _assigned_tiles(X, C, shift, rule):
        labels[start:stop] = _signed(tile_labels, tile_scores, C, rule)
        scores[start:stop] = tile_scores
    return Assignment(labels, scores)


def lloyd_sums(
    X: Array, C: Array, shift: Array | None, weights: Array, *, rule: Rule
) -> tuple[Array, LloydSums]:
    """Assign and sum; see :func:`clusterica.ops.assign.lloyd_sums`."""
    labels = np.empty(X.shape[0], np.int32)
    sums = np.zeros(C.shape, X.dtype)
    counts = np.zeros(n_labels(C, rule))
    gain = 0.0
    for start, stop, tile, centers, scores in _assigned_tiles(X, C, shift, rule):
        w = weights[start:stop]
        inverse = inverse_lengths(tile) if rule is Rule.DIRECTION else None
        gain += float(np.sum(w * gains(scores, inverse, rule), dtype=np.float64))
        share = w * shares(scores, inverse, rule)
        if sp.issparse(tile):
            _add_sparse_rows(tile.data, tile.indices, tile.indptr, centers, share, sums)
        else:
            _add_rows(tile, centers, share, sums)
        labels[start:stop] = _signed(centers, scores, C, rule)
        _add_weights(labels[start:stop], w, counts)
    return labels, LloydSums(sums, counts, np.float64(gain))


def _assigned_tiles(
    X: Array, C: Array, shift: Array | None, rule: Rule
) -> Iterator[tuple[int, int, Array, np.ndarray, np.ndarray]]:
    """Yield (start, stop, rows less the shift, best centre, its score) tile by tile."""
    C = np.ascontiguousarray(C, X.dtype)
    bias = center_bias(C, rule)
    n_rows, k = X.shape[0], C.shape[0]
    size = int(np.clip(_TILE_BYTES // (k * X.dtype.itemsize), *_TILE_ROWS))
    sparse = sp.issparse(X)
    by_feature = np.ascontiguousarray(C.T) if sparse else None
    S = np.empty(k * min(size, n_rows), X.dtype)
    best = np.empty(size, np.int32)
    score = np.empty(size, X.dtype)
    for start in range(0, n_rows, size):
        stop = min(start + size, n_rows)
        b = stop - start
        tile = X[start:stop]
        if sparse:
            by_row = S[: k * b].reshape(b, k)
            _sparse_scores(tile.data, tile.indices, tile.indptr, by_feature, by_row)
            _best_of_row(by_row, bias, rule.ignores_sign, best[:b], score[:b])
        else:
            tile = tile if shift is None else tile - shift
            by_center = S[: k * b].reshape(k, b)
            np.matmul(C, tile.T, out=by_center)
            _best_of_column(by_center, bias, rule.ignores_sign, best[:b], score[:b])
        yield start, stop, tile, best[:b], score[:b]


def _signed(centers: np.ndarray, scores: np.ndarray, C: Array, rule: Rule) -> np.ndarray:
    """Return labels: under AXIS a negative score belongs to the negative of the centre."""
    return np.where(scores < 0, centers + C.shape[0], centers) if rule is Rule.AXIS else centers


@compiled
def _best_of_column(S, bias, ignore_sign, best, score):  # type: ignore[no-untyped-def]
    k, n = S.shape
    score[:] = -np.inf
    best[:] = 0
    for j in range(k):
        if ignore_sign:
            for i in range(n):
                value = abs(S[j, i])
                better = value > score[i]
                score[i] = value if better else score[i]
                best[i] = j if better else best[i]
        else:
            b = bias[j]
            for i in range(n):
                value = S[j, i] - b
                better = value > score[i]
                score[i] = value if better else score[i]
                best[i] = j if better else best[i]
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
def _add_rows(X, centers, share, sums):  # type: ignore[no-untyped-def]
    for i in range(X.shape[0]):
        s = share[i]
        c = centers[i]
        for f in range(X.shape[1]):
            sums[c, f] += s * X[i, f]


@compiled
def _add_sparse_rows(data, indices, indptr, centers, share, sums):  # type: ignore[no-untyped-def]
    for i in range(centers.shape[0]):
        for p in range(indptr[i], indptr[i + 1]):
            sums[centers[i], indices[p]] += share[i] * data[p]


@compiled
def _add_weights(labels, weights, counts):  # type: ignore[no-untyped-def]
    for i in range(labels.shape[0]):
        counts[labels[i]] += weights[i]
