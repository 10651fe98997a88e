"""Pooled codes of all patches of a block of images, ``pool(code(F n(x) - b))``, all of it compiled.

Patches are gathered as rows ``P`` of a tile, contrast-normalised there and multiplied by some of the
filters, ``S = P Fᵀ``. The responses S are added to the cells of the grid while they are in cache;
nothing of size patches x filters leaves it. Whitening ``T (x - m)`` costs nothing where it can be part of
the filters: ``D T (x - m) = F x - b`` with ``F = D T`` and ``b = F m``.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from itertools import pairwise
from math import ceil
from typing import NamedTuple

import numpy as np

from clusterica.ops.cpu.compiling import compiled, compiler, inlined
from clusterica.ops.patch import (
    Cell,
    CellPooling,
    GaussianWeights,
    around,
    cut_at_borders,
    gaussian_weights,
    join_pieces,
    make_tiling,
)

# A tile has about one MiB of float32 responses, so that it stays in the second cache.
_RESPONSES = 2**18
# Rows of a tile, from and to: with fewer BLAS does not run well.
_TILE_ROWS = (48, 1024)
# Numbers in the patches of a tile at most, of rows of hundreds of maps: these too stay in the second cache.
_GATHERED = 2**18

# Sums and largest values along one row may be taken in any order, so that they vectorise.
compiled_sum = compiler(fastmath={"reassoc", "contract", "nnan", "nsz"})


class Code(IntEnum):
    """Codes that have a compiled form; s are the responses of a patch, z its distances to the atoms."""

    POSITIVE = 0  # max(0, s - alpha)
    BOTH_SIGNS = 1  # max(0, s - alpha), and max(0, -s - alpha) after it
    SIGMOID = 2  # 1 / (1 + exp(-s + alpha))
    ONE_HOT = 3  # 1 at the largest s
    TRIANGLE = 4  # max(0, mean(z) - z)

    @property
    def n_sides(self) -> int:
        """Number of codes that a filter gives."""
        return 2 if self is Code.BOTH_SIGNS else 1

    @property
    def couples_filters(self) -> bool:
        """Whether a code depends on the responses of all filters."""
        return self in (Code.ONE_HOT, Code.TRIANGLE)


# Plain integers: compiled code is cached with them, where an enumeration could not be.
_POSITIVE, _BOTH_SIGNS, _SIGMOID, _ONE_HOT, _TRIANGLE = (int(code) for code in Code)
_MAX, _L2, _GAUSSIAN = (int(CellPooling[name]) for name in ("MAX", "L2", "GAUSSIAN"))


class Filters(NamedTuple):
    """What is applied to a normalised patch x: ``s = F y - bias``, with ``y = x`` or ``y = T x - shift``.

    Shapes (n_filters, n_inputs), (n_filters,), (n_inputs, n_features) and (n_inputs,). T and shift are
    None where whitening is part of F. For TRIANGLE bias holds the squared lengths of the atoms F, and
    T must be given where there is whitening, since distances need the whitened patch itself.
    """

    F: np.ndarray
    bias: np.ndarray
    T: np.ndarray | None = None
    shift: np.ndarray | None = None


def pooled_codes(
    images: np.ndarray,
    filters: Filters,
    cells: Sequence[Cell],
    *,
    patch_size: int,
    stride: int,
    eps: float | None,
    code: Code,
    alpha: float,
    pooling: CellPooling,
) -> np.ndarray:
    """Encode and pool all patches of a block of images.

    Parameters
    ----------
    images : (n_images, height, width, channels) array, float32
    filters : Filters
    cells : sequence of Cell
        The cells over which codes are pooled; together they cover all places of patches.
    patch_size, stride : int
    eps : float or None
        Added to the variance of a patch by contrast normalisation; None leaves patches as they are.
    code : Code
    alpha : float
        Threshold of the codes that have one.
    pooling : CellPooling

    Returns
    -------
    features : (n_images, n_cells * n_codes) array, float32
    """
    k = filters.F.shape[0]
    most_rows = int(np.clip(_GATHERED // (patch_size**2 * images.shape[3]), *_TILE_ROWS))
    if code.couples_filters:  # a tile needs the responses of all filters, and so has fewer patches
        most_rows = min(most_rows, int(np.clip(_RESPONSES // k, *_TILE_ROWS)))
    gaussian = pooling is CellPooling.GAUSSIAN
    # Every place counts for every cell: the rows of places are cut only where tiles end.
    tiling = make_tiling((around(cells),) if gaussian else tuple(cells), most_rows)
    n_places = int(tiling.runs[:, 2].sum())
    group = max(1, most_rows // n_places)  # images that share a tile, if they are small
    width = k
    if not code.couples_filters:  # equal parts of the filters, of whole vectors of 16 numbers
        n_parts = ceil(k * min(n_places * group, most_rows) / _RESPONSES)
        width = ceil(k / n_parts / 16) * 16
    first = -np.inf if pooling is CellPooling.MAX else 0.0
    n_pieces = len(cells) if gaussian else len(tiling.pieces)
    pieces = np.full((len(images), n_pieces, code.n_sides * k), first, np.float32)
    _encode(
        np.ascontiguousarray(images, np.float32),
        # Compiled code takes arrays of one type: an empty one stands for None.
        tuple(
            np.ascontiguousarray(np.empty((0,) * n_axes) if a is None else a, np.float32)
            for a, n_axes in zip(filters, (2, 1, 2, 1), strict=True)
        ),
        tiling[:3],
        (patch_size, stride, group, width),
        (int(code), int(pooling), eps is not None),
        (np.float32(eps or 0), np.float32(alpha)),
        _weights(cells, pooling),
        pieces,
    )
    if gaussian:
        return pieces.reshape(len(images), -1)
    return join_pieces(pieces, tiling.pieces, cells, pooling=pooling)


def _weights(cells: Sequence[Cell], pooling: CellPooling) -> tuple[np.ndarray, ...]:
    """Return the weights of Gaussian pooling; compiled code takes arrays, needed or not."""
    weights = GaussianWeights(np.empty((0, 0)), np.empty((0, 0)), np.empty(0, int))
    if pooling is CellPooling.GAUSSIAN:
        weights = gaussian_weights(tuple(cells), around(cells).right)
    # Copies: read-only arrays are of another type for the compiler, which would compile all twice.
    dtypes = np.float32, np.float32, np.int64
    return tuple(values.astype(dtype) for values, dtype in zip(weights, dtypes, strict=True))


def n_pieces_joined(cells: Sequence[Cell], pooling: CellPooling) -> int:
    """Return how many numbers `pooled_codes` holds for a code of an image, besides its features."""
    boxes = cut_at_borders(cells)
    return 0 if pooling is CellPooling.GAUSSIAN or boxes == list(cells) else len(boxes)


def split_channels(images: np.ndarray, groups: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return copies of the channels of every group, each of shape (n_images, height, width, n_channels).

    Pixel by pixel for all groups: with hundreds of channels the images are read from memory once, and not
    once for each group.
    """
    ends = np.cumsum([0, *map(len, groups)])
    n_places = int(np.prod(images.shape[:3]))
    split = np.empty(n_places * int(ends[-1]), np.float32)
    pixels = np.ascontiguousarray(images, np.float32).reshape(n_places, -1)
    _split(pixels, np.concatenate(groups).astype(np.int64), ends, split)
    return [
        split[n_places * start : n_places * end].reshape(*images.shape[:3], -1)
        for start, end in pairwise(ends)
    ]


@compiled
def _split(pixels, channels, ends, split):  # type: ignore[no-untyped-def]
    n = pixels.shape[0]
    for i in range(n):
        pixel = pixels[i]
        for g in range(ends.shape[0] - 1):
            own = channels[ends[g] : ends[g + 1]]
            target = split[n * ends[g] + i * own.shape[0] :]
            for c in range(own.shape[0]):
                target[c] = pixel[own[c]]


@compiled
def _encode(images, filters, tiling, sizes, kinds, constants, weights, pieces):  # type: ignore[no-untyped-def]
    (F, bias, T, shift), (runs, tiles, segments) = filters, tiling
    patch_size, stride, group, width = sizes
    eps, alpha = constants
    (k, n_inputs), d = F.shape, patch_size * patch_size * images.shape[3]
    most = 0
    for t in range(tiles.shape[0] - 1):
        most = max(most, group * runs[tiles[t] : tiles[t + 1], 2].sum())
    gathered = np.empty(most * d, np.float32)
    whitened = np.empty(most * n_inputs if T.shape[0] else 0, np.float32)
    responses = np.empty(most * width, np.float32)
    codes = np.empty(0 if _is_fused(kinds) else most * width, np.float32)
    for i in range(0, images.shape[0], group):
        block = images[i : i + group]
        for t in range(tiles.shape[0] - 1):
            P = _gather(
                block, runs[tiles[t] : tiles[t + 1]], patch_size, stride, kinds[2], eps, gathered
            )
            if T.shape[0]:
                Y = whitened[: P.shape[0] * n_inputs].reshape(P.shape[0], n_inputs)
                np.dot(P, T.T, Y)
                for row in range(Y.shape[0]):
                    for f in range(n_inputs):  # the same in one line takes a second more to compile
                        Y[row, f] -= shift[f]
                P = Y
            for j in range(0, k, width):
                part = F[j : j + width]
                S = responses[: P.shape[0] * part.shape[0]].reshape(P.shape[0], part.shape[0])
                np.dot(P, part.T, S)
                of_part = bias[j : j + width]
                own = runs[tiles[t] : tiles[t + 1]]
                target = pieces[i : i + group]
                _pool_tile(S, P, of_part, alpha, kinds, segments, t, codes, own, weights, target, j)


@inlined
def _is_fused(kinds):  # type: ignore[no-untyped-def]
    """Whether codes are added up without being written: sums of thresholded responses."""
    return kinds[0] in (_POSITIVE, _BOTH_SIGNS) and kinds[1] not in (_MAX, _L2, _GAUSSIAN)


@inlined
def _pool_tile(  # type: ignore[no-untyped-def]
    S, P, bias, alpha, kinds, segments, t, codes, runs, weights, pieces, first
):
    """Pool a tile of responses of the filters from the given first one on."""
    code, pooling, _ = kinds
    (n, k), fused = S.shape, _is_fused(kinds)
    each = n // pieces.shape[0]
    n_filters = pieces.shape[2] // (2 if code == _BOTH_SIGNS else 1)
    C = codes[: 0 if fused else n * k].reshape(0 if fused else n, k)
    for side in range(1 if fused else pieces.shape[2] // n_filters):
        if not fused:
            _code(S, bias, P, alpha, code, side, C)
        if pooling == _GAUSSIAN:
            for image in range(pieces.shape[0]):
                target = pieces[image, :, side * n_filters + first :][:, :k]
                _pool_weighted(C[image * each : (image + 1) * each], runs, weights, target)
            continue
        for s in range(segments.shape[0]):
            tile, start, stop, piece = segments[s]
            for image in range(pieces.shape[0] if tile == t else 0):
                rows = slice(image * each + start, image * each + stop)
                z = pieces[image, piece, side * n_filters + first :][:k]
                if fused:
                    opposite = pieces[image, piece, n_filters + first :][:k]
                    _add_thresholded(S[rows], bias, alpha, z, opposite)
                else:
                    _pool(C[rows], pooling, z)


@inlined
def _gather(  # type: ignore[no-untyped-def]
    images, runs, patch_size, stride, normalizes, eps, buffer
):
    """Copy the patches of the runs, image after image, to the rows of a tile, and normalise each."""
    n, height, _, channels = images.shape
    d, line = patch_size * patch_size * channels, patch_size * channels
    P = buffer[: n * runs[:, 2].sum() * d].reshape(-1, d)
    at = 0
    for image in range(n):
        lines = images[image].reshape(height, -1)
        for r in range(runs.shape[0]):
            y, x, length = runs[r]
            for i in range(length):
                left = (x + i) * stride * channels
                for dy in range(patch_size):
                    # Slices: indices that cannot be negative are copied in a fifth of the time.
                    source = lines[y * stride + dy, left : left + line]
                    target = P[at, dy * line : (dy + 1) * line]
                    for f in range(line):
                        target[f] = source[f]
                if normalizes:  # while it is in cache
                    _normalize(P[at], eps)
                at += 1
    return P


@compiled_sum
def _normalize(x, eps):  # type: ignore[no-untyped-def]
    """Normalise the contrast of a row; see clusterica.ops.patch."""
    d = x.shape[0]
    zero, one = np.float32(0), np.float32(1)
    share = np.float32(1 / d)
    rounding = np.float32(4 * np.finfo(np.float32).eps)
    least = max(np.float32(np.sqrt(eps)), np.finfo(np.float32).tiny)
    mean = zero
    # The largest of |x|: without their signs floats have the order of their bits, and the maximum of
    # integers is vectorised, which that of floats is not (a tenth of the time of this loop).
    bits, top, no_sign = x.view(np.int32), np.int32(0), np.int32(0x7FFFFFFF)
    for f in range(d):
        mean += x[f]
        top = max(top, bits[f] & no_sign)
    largest = np.int32(top).view(np.float32)
    unit = one
    # Beyond these squares overflow, or are so small that they lose digits. One more pass for all patches
    # would cost 3 % of the features of an image (CPU time, 400 filters, 32 x 32 pixels).
    if not (np.float32(2.0**-40) < largest < np.float32(2.0**50)):
        unit = one / max(largest, least)
        mean = zero
        for f in range(d):
            x[f] *= unit
            mean += x[f]
    mean *= share
    variance = zero
    for f in range(d):
        variance += (x[f] - mean) * (x[f] - mean)
    variance *= share
    flat = variance <= (rounding * largest * unit) * (rounding * largest * unit)
    # In float64: as a float32, the square of this unit may be infinite.
    added = np.float32(np.float64(eps) * np.float64(unit) * np.float64(unit))
    scale = zero if flat else one / np.sqrt(variance + added)
    for f in range(d):
        x[f] = (x[f] - mean) * scale


@inlined
def _add_thresholded(S, bias, alpha, positive, negative):  # type: ignore[no-untyped-def]
    """Add ``max(0, s - alpha)`` to positive and ``max(0, -s - alpha)`` to negative, four rows at a time."""
    n, k = S.shape
    zero = np.float32(0)
    whole = n - n % 4
    for i in range(0, whole, 4):
        S0, S1, S2, S3 = S[i], S[i + 1], S[i + 2], S[i + 3]
        if negative.shape[0]:
            for j in range(k):
                a, b, c, d = S0[j], S1[j], S2[j], S3[j]
                high, low = bias[j] + alpha, bias[j] - alpha
                positive[j] += (max(a - high, zero) + max(b - high, zero)) + (
                    max(c - high, zero) + max(d - high, zero)
                )
                negative[j] += (max(low - a, zero) + max(low - b, zero)) + (
                    max(low - c, zero) + max(low - d, zero)
                )
        else:
            for j in range(k):
                high = bias[j] + alpha
                positive[j] += (max(S0[j] - high, zero) + max(S1[j] - high, zero)) + (
                    max(S2[j] - high, zero) + max(S3[j] - high, zero)
                )
    for i in range(whole, n):
        for j in range(k):
            positive[j] += max(S[i, j] - bias[j] - alpha, zero)
        for j in range(negative.shape[0]):
            negative[j] += max(bias[j] - S[i, j] - alpha, zero)


@compiled
def _code(S, bias, Y, alpha, code, side, C):  # type: ignore[no-untyped-def]
    """Write the codes of a tile of responses to C."""
    n, k = S.shape
    zero = np.float32(0)
    for i in range(n):
        s, c = S[i], C[i]
        if code == _SIGMOID:
            _sigmoid(s, bias, alpha, c)
        elif code == _ONE_HOT:
            _one_hot(s, bias, c)
        elif code == _TRIANGLE:
            _triangle(s, bias, Y[i], c)
        elif side == 0:
            for j in range(k):
                c[j] = max(s[j] - bias[j] - alpha, zero)
        else:
            for j in range(k):
                c[j] = max(bias[j] - s[j] - alpha, zero)


@compiled
def _sigmoid(s, bias, alpha, c):  # type: ignore[no-untyped-def]
    """``1 / (1 + exp(t))``, with ``exp(t) = exp(t / 64)^64`` by a Taylor series, which vectorises."""
    one = np.float32(1)
    c2, c3, c4, c5, c6 = (
        np.float32(1 / 2),
        np.float32(1 / 6),
        np.float32(1 / 24),
        np.float32(1 / 120),
        np.float32(1 / 720),
    )
    for j in range(s.shape[0]):
        # Beyond 20 the code is 0 or 1 to within 2e-9, and t / 64 is small enough for the series.
        t = min(max(bias[j] + alpha - s[j], np.float32(-20)), np.float32(20)) * np.float32(1 / 64)
        e = one + t * (one + t * (c2 + t * (c3 + t * (c4 + t * (c5 + t * c6)))))
        e = e * e
        e = e * e
        e = e * e
        e = e * e
        e = e * e
        e = e * e
        c[j] = one / (one + e)


@compiled_sum
def _one_hot(s, bias, c):  # type: ignore[no-untyped-def]
    top = -np.float32(np.inf)
    for j in range(s.shape[0]):
        c[j] = s[j] - bias[j]
        top = max(top, c[j])
    best = 0
    while c[best] < top:  # the first of several that are equal, as argmax gives it
        best += 1
    c[:] = 0
    c[best] = 1


@compiled_sum
def _triangle(s, bias, y, c):  # type: ignore[no-untyped-def]
    total = energy = np.float32(0)
    for f in range(y.shape[0]):
        energy += y[f] * y[f]
    for j in range(s.shape[0]):
        c[j] = np.sqrt(max(energy + bias[j] - np.float32(2) * s[j], np.float32(0)))
        total += c[j]
    mean = total / np.float32(s.shape[0])
    for j in range(s.shape[0]):
        c[j] = max(mean - c[j], np.float32(0))


@compiled
def _pool_weighted(C, runs, weights, pooled):  # type: ignore[no-untyped-def]
    """Add the codes of runs of places to all cells: along each run, and then over the runs."""
    down, across, pairs = weights
    n_runs, k = runs.shape[0], C.shape[1]
    lines = np.empty((n_runs, across.shape[0] * k), np.float32)
    of_runs = np.empty((down.shape[0], n_runs), np.float32)
    at = 0
    for r in range(n_runs):
        y, x, length = runs[r]
        line = lines[r].reshape(-1, k)
        # Copied, since BLAS takes the columns of a run only if they are contiguous.
        np.dot(across[:, x : x + length].copy(), C[at : at + length], line)
        of_runs[:, r] = down[:, y]
        at += length
    # One height of cells at a time: a pyramid has many more pairs of heights and widths than cells.
    for i in range(down.shape[0]):
        sums = np.dot(of_runs[i], lines).reshape(-1, k)
        for cell in range(pairs.shape[0]):
            height, j = divmod(pairs[cell], across.shape[0])
            if height == i:
                total, added = pooled[cell], sums[j]
                for f in range(k):
                    total[f] += added[f]


@compiled
def _pool(C, pooling, pooled):  # type: ignore[no-untyped-def]
    for i in range(C.shape[0]):
        c = C[i]
        if pooling == _MAX:
            for j in range(c.shape[0]):
                pooled[j] = max(pooled[j], c[j])
        elif pooling == _L2:
            for j in range(c.shape[0]):
                pooled[j] += c[j] * c[j]
        else:
            for j in range(c.shape[0]):
                pooled[j] += c[j]
