"""One Lloyd step on float32 rows whose scores never leave the registers: ``max_c <x, c> - bias_c``.

For processors with AVX-512 but without products of bfloat16. BLAS would write the scores of a tile, from
which the best are then searched; and it packs rows and centres into another order in every call, which
costs much where they are few or short. Here the centres are packed once for a block of rows, and the scores
of 32 rows with 12 centres stay in registers until the best of them are known. Labels are those of the plain
step, up to scores that are equal within the rounding of float32, and of equal scores the lowest index.
"""

from __future__ import annotations

from math import ceil

import numpy as np

from clusterica.ops.cpu import avx512
from clusterica.ops.cpu.adding import StepArrays, add_rows, invert_lengths
from clusterica.ops.cpu.avx512 import (
    LANES,
    PANEL_CENTERS,
    PANEL_ROWS,
    at,
    best_of_panel,
    transpose_words,
)
from clusterica.ops.cpu.compiling import compiled, inlined

# A step took .80 to .95 of the time of tiles and BLAS (both AVX-512) on 2,048 to 8,192 rows of 50 to 384
# features, .77 with 6,000 centres, and as long on 512 features: rows then do not stay in the first cache.
# On 1,024 features it took 1.1 of that time, and so on 300 rows, which do not pay for the packing.
_FEWEST_ROWS, _MOST_FEATURES = 1024, 512


def can_use_panels(X: np.ndarray) -> bool:
    """Whether the processor has the instructions, and these rows gain by them."""
    fits = X.shape[0] >= _FEWEST_ROWS and 1 <= X.shape[1] <= _MOST_FEATURES
    return fits and X.dtype == np.float32 and X.flags.c_contiguous and avx512.has_float32()


def panel_step(X: np.ndarray, C: np.ndarray, shift: np.ndarray, step: StepArrays) -> float:
    """Assign rows and add them to the sums and counts; return the gain."""
    k, d = C.shape
    n_panels = ceil(k / PANEL_CENTERS)
    centers = np.zeros((n_panels * PANEL_CENTERS, d), np.float32)
    centers[:k] = C
    # A panel has its centres side by side, feature after feature.
    packed = np.ascontiguousarray(centers.reshape(n_panels, PANEL_CENTERS, d).transpose(0, 2, 1))
    bias = np.full(n_panels * PANEL_CENTERS, np.nan, np.float32)
    bias[:k] = step.bias
    # At most 256 KiB: the rows of a tile are still in the second cache when they are added to their centres.
    size = int(np.clip(2**18 // (4 * d) // PANEL_ROWS, 1, 8)) * PANEL_ROWS
    return float(_panel_tiles(X, packed, shift, bias, k, size, *step[1:]))


@compiled
def _panel_tiles(  # type: ignore[no-untyped-def]
    X, centers, shift, bias, k, size, weights, labels, scores, rule, sums, counts
):
    n, d = X.shape
    width = (d + LANES - 1) // LANES * LANES
    flat = np.zeros((LANES, width), np.float32)
    columns = np.zeros((size // PANEL_ROWS, width, PANEL_ROWS), np.float32)
    top, score = np.empty(size, np.float32), np.empty(size, np.float32)
    best, inverse = np.empty(size, np.int32), np.empty(size, np.float32)
    negatives = k if rule.both_signs else 0
    gain = 0.0
    for start in range(0, n, size):
        stop = min(start + size, n)
        b = stop - start
        tile, label = X[start:stop], labels[start:stop]
        _turn_panels(tile, shift, flat, columns)
        top[:] = -np.inf
        # Where no score is a number, the score is none either.
        score[:] = np.nan if rule.ignores_sign else -np.inf
        best[:] = 0
        _best_of_tile(columns, centers, bias, b, d, rule, top, score, best)
        for i in range(b):
            scores[start + i] = score[i]
            label[i] = best[i] + negatives * (score[i] < 0)
        if sums.shape[0]:
            w = weights[start:stop]
            if rule.unit_rows:
                _lengths(columns, d, inverse)
                invert_lengths(tile, shift, inverse)
            gain += add_rows(tile, shift, best, score, inverse, w, rule, sums)
            for i in range(b):
                counts[label[i]] += w[i]
    return gain


@inlined
def _turn_panels(X, shift, flat, columns):  # type: ignore[no-untyped-def]
    """Write the rows minus the shift as columns, sixteen at a time, panel after panel."""
    (n, d), width = X.shape, flat.shape[1]
    for first in range(0, n, LANES):
        for r in range(min(LANES, n - first)):
            for f in range(d):
                flat[r, f] = X[first + r, f] - shift[f]
        panel, lane = divmod(first, PANEL_ROWS)
        for f in range(0, width, LANES):
            place = (panel * width + f) * PANEL_ROWS + lane
            transpose_words(at(flat.view(np.int32), f), width, at(columns.view(np.int32), place))


@inlined
def _best_of_tile(columns, centers, bias, n_rows, d, rule, top, score, best):  # type: ignore[no-untyped-def]
    stride = columns.shape[1] * PANEL_ROWS
    n_row_panels = (n_rows + PANEL_ROWS - 1) // PANEL_ROWS
    # The rows of a panel stay in the first cache while all centres pass by.
    for r in range(n_row_panels):
        for p in range(centers.shape[0]):
            first = p * PANEL_CENTERS
            best_of_panel(
                at(columns, r * stride),
                at(centers, first * d),
                at(bias, first),
                d,
                np.int32(first),
                rule.ignores_sign,
                at(top, r * PANEL_ROWS),
                at(score, r * PANEL_ROWS),
                at(best, r * PANEL_ROWS),
            )


@inlined
def _lengths(columns, d, energy):  # type: ignore[no-untyped-def]
    """Squared lengths of all rows of a tile."""
    energy[:] = 0
    for panel in range(columns.shape[0]):
        first = panel * PANEL_ROWS
        for f in range(d):
            for i in range(PANEL_ROWS):
                energy[first + i] += columns[panel, f, i] ** 2
