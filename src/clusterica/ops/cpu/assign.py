"""One Lloyd step on a NumPy or CSR block: scores by tiles that stay in cache, all of it compiled.

A tile of scores ``S = C Xᵀ`` has the centres along its outer axis, so that the search for the best
centre is a plain select over rows, which vectorises. The rows of the tile are still in cache when
they are added to their centres. Nothing of size rows x centres leaves the cache.

Where the processor multiplies bfloat16, most float32 rows are assigned by
:mod:`clusterica.ops.cpu.screen`, and the tiles here are left the few that it leaves open. Where it has
AVX-512 without bfloat16, float32 rows are multiplied by :mod:`clusterica.ops.cpu.panels`.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from clusterica.arrays import Array
from clusterica.ops.cpu.adding import StepArrays, add_rows, inverse_length, invert_lengths
from clusterica.ops.cpu.compiling import compiled, compiled_sum, inlined
from clusterica.ops.cpu.panels import can_use_panels, panel_step
from clusterica.ops.cpu.screen import can_screen, screen
from clusterica.ops.rules import Assignment, LloydSums, Rule, gain_and_share


def assign(
    X: Array,
    C: Array,
    shift: Array | None,
    *,
    rule: Rule,
    screened: bool | None = None,
    panelled: bool | None = None,
) -> Assignment:
    """Assign every row; see :func:`clusterica.ops.assign.assign`.

    `screened` says whether bfloat16 chooses the candidates; None does so where it pays. `panelled` says
    whether other rows are multiplied in registers; None does so where the screen would pay.
    """
    return _assign_and_add(X, C, shift, None, rule, screened, panelled)[0]


def lloyd_sums(
    X: Array,
    C: Array,
    shift: Array | None,
    weights: Array,
    *,
    rule: Rule,
    screened: bool | None = None,
    panelled: bool | None = None,
) -> tuple[Array, LloydSums]:
    """Assign and sum; see :func:`clusterica.ops.assign.lloyd_sums`; the last two as in `assign`."""
    assignment, total = _assign_and_add(X, C, shift, weights, rule, screened, panelled)
    return assignment.labels, total


def losses(
    X: np.ndarray, C: Array, shift: Array | None, labels: Array, best: Array, *, rule: Rule
) -> np.ndarray:
    """Return what the best centre leaves of every row; see the reference in clusterica.ops.assign."""
    result = np.empty(X.shape[0], X.dtype)
    C = np.ascontiguousarray(C, X.dtype)
    _losses(X, C, _or_zero(shift, X), labels, best, rule.flags, result)
    return result


def _assign_and_add(
    X: Array,
    C: Array,
    shift: Array | None,
    weights: np.ndarray | None,
    rule: Rule,
    screened: bool | None,
    panelled: bool | None,
) -> tuple[Assignment, LloydSums]:
    """Assign all rows, and add them to their centres if there are weights."""
    C = np.ascontiguousarray(C, X.dtype)
    labels, scores = np.empty(X.shape[0], np.int32), np.empty(X.shape[0], X.dtype)
    # In float64: thousands of equal float32 rows would all be rounded the same way.
    sums = np.zeros(C.shape if weights is not None else (0, C.shape[1]))
    weights = np.empty(0, X.dtype) if weights is None else weights
    counts = np.zeros(rule.n_labels(C.shape[0]))
    step = StepArrays(rule.center_bias(C), weights, labels, scores, rule.flags, sums, counts)
    if screened is None:
        # Few rows do not pay for rounding the centres, few products a row not for rounding the rows.
        screened = X.shape[0] >= 256 and C.size >= 4800
    panelled = screened if panelled is None else panelled
    if sp.issparse(X):
        by_feature = np.ascontiguousarray(C.T)
        gain = _sparse_rows(X.data, X.indices, X.indptr, by_feature, *step)
    elif screened and can_screen(X, C):
        found = screen(X, C, _or_zero(shift, X), step)
        gain = found.gain
        # Then the rows that the screen left open, and those that it did not come to.
        for rows in (np.flatnonzero(found.open), slice(found.stop, None)):
            rest = step.of(rows)
            if len(rest.labels):
                gain += _dense_rows(X[rows], C, shift, rest)
                labels[rows], scores[rows] = rest.labels, rest.scores
    elif panelled and can_use_panels(X):
        gain = panel_step(X, C, _or_zero(shift, X), step)
    else:
        gain = _dense_rows(X, C, shift, step)
    return Assignment(labels, scores), LloydSums(sums, counts, np.float64(gain))


def _dense_rows(X: np.ndarray, C: np.ndarray, shift: Array | None, step: StepArrays) -> float:
    size, turn = _tiling(C, shift)
    return float(_dense_tiles(X, C, _or_zero(shift, X), size, turn, *step))


def _tiling(C: np.ndarray, shift: Array | None) -> tuple[int, bool]:
    """Return the rows of a tile, and whether to transpose them before they are multiplied."""
    k, d = C.shape
    # OpenBLAS multiplies up to 10^6 pairs without packing its operands into another order first. The rows
    # must then be transposed, which our loop does faster; with fewer than 48 rows the calls would weigh more
    # than the products.
    small = 10**6 // (k * d)
    if small >= 48:
        return min(small, 656) // 16 * 16, True
    # Else about two MiB of scores (2^19), which stay in the cache. With fewer than 176 rows BLAS packs the
    # centres too often; but never more than 16 MiB, however many centres there are.
    size = max(1, min(int(np.clip(2**19 // k, 176, 656)), 2**22 // k))
    # An odd multiple of 16, so that the rows of S do not compete for the same places in the cache.
    return size // 32 * 32 + 16, shift is not None


def _or_zero(shift: Array | None, X: Array) -> np.ndarray:
    return np.zeros(X.shape[1], X.dtype) if shift is None else shift.astype(X.dtype, copy=False)


@compiled
def _dense_tiles(  # type: ignore[no-untyped-def]
    X, C, shift, size, turn, bias, weights, labels, scores, rule, sums, counts
):
    (n, d), k = X.shape, C.shape[0]
    S = np.empty(k * size, X.dtype)
    turned = np.empty(d * size if turn else 0, X.dtype)
    best, inverse = np.empty(size, np.int32), np.empty(size, X.dtype)
    negatives = k if rule.both_signs else 0
    gain = 0.0
    for start in range(0, n, size):
        stop = min(start + size, n)
        b = stop - start
        tile = X[start:stop]
        by_center = S[: k * b].reshape(k, b)
        width = b if turn else 0
        columns = turned[: d * width].reshape(d, width)
        if turn:
            _turn(tile, shift, columns)
            np.dot(C, columns, by_center)
        else:
            np.dot(C, tile.T, by_center)
        score, label = scores[start:stop], labels[start:stop]
        _best_of_column(by_center, bias, rule.ignores_sign, best[:b], score)
        for i in range(b):
            label[i] = best[i] + negatives * (score[i] < 0)
        if sums.shape[0]:
            w = weights[start:stop]
            if rule.unit_rows:
                _inverse_lengths(tile, shift, columns, inverse[:b])
            gain += add_rows(tile, shift, best, score, inverse, w, rule, sums)
            for i in range(b):
                counts[label[i]] += w[i]
    return gain


@inlined
def _turn(X, shift, columns):  # type: ignore[no-untyped-def]
    """Transpose the rows minus the shift, sixteen at a time: a cache line of every column."""
    n, d = X.shape
    whole = n - n % 16
    for i in range(0, whole, 16):
        for r in range(16):
            for f in range(d):
                columns[f, i + r] = X[i + r, f] - shift[f]
    for i in range(whole, n):
        for f in range(d):
            columns[f, i] = X[i, f] - shift[f]


@inlined
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
def _sparse_rows(  # type: ignore[no-untyped-def]
    data, indices, indptr, by_feature, bias, weights, labels, scores, rule, sums, counts
):
    k = by_feature.shape[1]
    negatives = k if rule.both_signs else 0
    S = np.empty(k, by_feature.dtype)
    total = 0.0
    for i in range(labels.shape[0]):
        S[:] = 0
        for p in range(indptr[i], indptr[i + 1]):
            value = data[p]
            row = by_feature[indices[p]]
            for j in range(k):
                S[j] += value * row[j]
        top, c = -np.inf, 0
        for j in range(k):
            value = abs(S[j]) if rule.ignores_sign else S[j] - bias[j]
            if value > top:
                top, c = value, j
        scores[i] = S[c] - bias[c]
        labels[i] = c + negatives * (scores[i] < 0)
        if sums.shape[0]:
            inverse = scores[i]
            if rule.unit_rows:
                nonzero = data[indptr[i] : indptr[i + 1]]
                inverse = inverse_length(nonzero, nonzero - nonzero)
            gain, share = gain_and_share(scores[i], inverse, rule.code)
            for p in range(indptr[i], indptr[i + 1]):
                sums[c, indices[p]] += share * weights[i] * data[p]
            total += gain * weights[i]
            counts[labels[i]] += weights[i]
    return total


@compiled_sum
def _losses(X, C, shift, labels, best, rule, result):  # type: ignore[no-untyped-def]
    for i in range(X.shape[0]):
        c = labels[i]
        one = best[i] - best[i] + 1  # of the type of the scores
        row_factor = inverse_length(X[i], shift) if rule.unit_rows else one
        _, share = gain_and_share(best[i], row_factor, rule.code)
        center_factor = one if rule.unit_rows else share
        loss = best[i] - best[i]
        for f in range(X.shape[1]):
            loss += (row_factor * (X[i, f] - shift[f]) - center_factor * C[c, f]) ** 2
        if rule.unit_rows:
            loss = loss / 2 if row_factor > 0 else loss - loss
        result[i] = loss


@inlined
def _inverse_lengths(X, shift, columns, inverse):  # type: ignore[no-untyped-def]
    """One over the length of every row, all rows at once where they were turned into columns."""
    if columns.shape[1] == 0:
        for i in range(X.shape[0]):
            inverse[i] = inverse_length(X[i], shift)
        return
    inverse[:] = 0
    for f in range(columns.shape[0]):
        for i in range(columns.shape[1]):
            inverse[i] += columns[f, i] * columns[f, i]
    invert_lengths(X, shift, inverse)
