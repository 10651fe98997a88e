"""The best centre of every row, ``argmax_j <x, c_j> - b_j``, without an array of rows x centres.

A program takes a tile of rows, and tiles of centres pass by. Products stay in registers: each column of a
tile remembers its best score and the number of the tile it came from, so that lanes exchange values only
once, at the end. Of equal scores the lowest index wins, as in the reference.

Products are of float32 (``ieee`` or ``tf32``) or of halves (float16, bfloat16), summed in float32. Rows and
centres are first divided by powers of two, so that halves neither overflow nor lose small rows.

A screen is a product of halves with a bound on its error. For a row y, a centre c and their rounded copies
y', c', the inequality of Cauchy and Schwarz gives

    |<y, c> - <y', c'>|  <=  |y - y'| |c| + |y'| |c - c'|,

so that only centres whose score is within twice the bound of the best can be the best. If there is one such
centre, it is the label; of two, float32 decides; a row with more is left open.

Features are not padded in memory. A tile holds them as up to four chunks whose widths are powers of two
(108 = 64 + 32 + 16, 4 of them masked); more than 256 features are read again for each tile of centres.
"""

# Triton compiles these functions, and has no types for them.
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls

from __future__ import annotations

import triton
import triton.language as tl

# What `other` says where it is not a second candidate.
SURE = tl.constexpr(-1)
OPEN = tl.constexpr(-2)


@triton.jit
def _features(X, shift, rows, inside, stride, d, first, WIDTH: tl.constexpr, SHIFTED: tl.constexpr):
    """Load a chunk of features of a tile of rows, minus the shift."""
    f = first + tl.arange(0, WIDTH)
    mask = inside[:, None] & (f[None, :] < d)
    x = tl.load(X + rows[:, None] * stride + f[None, :], mask=mask, other=0.0)
    if SHIFTED:
        x = tl.where(mask, x - tl.load(shift + f, mask=f < d, other=0.0)[None, :], 0.0)
    return x


@triton.jit
def _inverse_power(largest):
    """One over the power of two at or below a magnitude, from 2^-126 to 2^60.

    With more biases would overflow, and less would be a denormal, or zero.
    """
    exponent = tl.maximum(largest.to(tl.int32, bitcast=True) & 0x7F800000, 67 << 23)
    exponent = tl.minimum(exponent, 253 << 23)
    return ((254 << 23) - exponent).to(tl.float32, bitcast=True)


@triton.jit
def _products(
    x, C, c_stride, first, start, total, BN: tl.constexpr, WIDTH: tl.constexpr, DOT: tl.constexpr
):
    """Add the products of a chunk of features of a tile of rows and of a tile of centres."""
    j = start + tl.arange(0, BN)
    f = first + tl.arange(0, WIDTH)
    c = tl.load(C + j[None, :] * c_stride + f[:, None])
    return tl.dot(x.to(c.dtype), c, total, input_precision=DOT)


@triton.jit
def _keep_best(
    s,
    t,
    bias,
    factor,
    best,
    tile,
    second,
    SIGNLESS: tl.constexpr,
    BIASED: tl.constexpr,
    SCREEN: tl.constexpr,
):
    """Compare the scores of a tile of centres with the best so far, column by column."""
    if SIGNLESS:
        size, old = tl.abs(s), tl.abs(best)
    else:
        if BIASED:
            s -= factor[:, None] * bias[None, :]
        size, old = s, best
    better = size > old
    if SCREEN:
        second = tl.maximum(second, tl.minimum(size, old))
    return tl.where(better, s, best), tl.where(better, t, tile), second


@triton.jit
def _store_labels(
    labels,
    other,
    rows,
    inside,
    best,
    tile,
    second,
    margin,
    BN: tl.constexpr,
    SIGNLESS: tl.constexpr,
    SCREEN: tl.constexpr,
):
    """Find the best of the columns, and under a screen whether it is sure."""
    size = tl.abs(best) if SIGNLESS else best
    j = tile * BN + tl.arange(0, BN)[None, :]
    top = tl.max(size, axis=1)
    label = tl.min(tl.where(size == top[:, None], j, 2147483647), axis=1)
    tl.store(labels + rows, label, mask=inside)
    if SCREEN:
        near = size >= (top - margin)[:, None]
        crowded = tl.max(second, axis=1) >= top - margin
        rival = tl.max(tl.where(near & (j != label[:, None]), j, SURE), axis=1)
        is_open = crowded | (tl.sum(near.to(tl.int32), axis=1) > 2)
        tl.store(other + rows, tl.where(is_open, OPEN, rival), mask=inside)


@triton.jit
def _rounded(x, factor, C):
    """Return the rows as they are multiplied, the energy of them and of what rounding takes from them."""
    scaled = x * factor[:, None]
    half = scaled.to(C.dtype.element_ty)
    error = scaled - half.to(tl.float32)
    return half, tl.sum(scaled * scaled, axis=1), tl.sum(error * error, axis=1)


@triton.jit
def _margin(energy, error, factor, bounds, d):
    """Return twice the bound on the error of a score: the best may be this far below the top.

    `bounds` holds the largest |c|, |c - c'| and bias. Sums may be off by 2^-22 of their size at each of d + 3
    additions, twice what rounding takes, since matrix units cut digits off; and the float32 scores that
    decide in the end by 2^-23. Lengths are computed with such sums themselves, hence the last factor.
    """
    longest, worst, most_bias = tl.load(bounds), tl.load(bounds + 1), tl.load(bounds + 2)
    off = tl.sqrt(error)
    length = tl.sqrt(energy) + off
    rounding = (3 * d + 8) * 2.384185791015625e-07
    bound = off * longest + length * worst + rounding * (length * longest + factor * most_bias)
    return 2.0 * (1.001 + rounding) * bound + 1e-30


@triton.jit
def nearest_held(
    X, C, bias, shift, bounds, index, labels, other, n, d, stride, c_stride, n_centers,
    BM: tl.constexpr, BN: tl.constexpr, W0: tl.constexpr, W1: tl.constexpr, W2: tl.constexpr,
    W3: tl.constexpr, DOT: tl.constexpr, HALF: tl.constexpr, SCREEN: tl.constexpr,
    SIGNLESS: tl.constexpr, BIASED: tl.constexpr, SHIFTED: tl.constexpr, INDEXED: tl.constexpr,
):  # fmt: skip
    """Labels of rows whose features are held while the centres pass by; W0 to W3 are the widths of chunks."""
    place = tl.program_id(0) * BM + tl.arange(0, BM)
    inside = place < n
    rows = tl.load(index + place, mask=inside, other=0) if INDEXED else place.to(tl.int64)
    x0 = _features(X, shift, rows, inside, stride, d, 0, W0, SHIFTED)
    if W1 > 0:
        x1 = _features(X, shift, rows, inside, stride, d, W0, W1, SHIFTED)
    if W2 > 0:
        x2 = _features(X, shift, rows, inside, stride, d, W0 + W1, W2, SHIFTED)
    if W3 > 0:
        x3 = _features(X, shift, rows, inside, stride, d, W0 + W1 + W2, W3, SHIFTED)
    factor = tl.full((BM,), 1.0, tl.float32)
    margin = tl.zeros((BM,), tl.float32)
    if HALF:
        largest = tl.max(tl.abs(x0), axis=1)
        if W1 > 0:
            largest = tl.maximum(largest, tl.max(tl.abs(x1), axis=1))
        if W2 > 0:
            largest = tl.maximum(largest, tl.max(tl.abs(x2), axis=1))
        if W3 > 0:
            largest = tl.maximum(largest, tl.max(tl.abs(x3), axis=1))
        factor = _inverse_power(largest)
        x0, energy, error = _rounded(x0, factor, C)
        if W1 > 0:
            x1, more, lost = _rounded(x1, factor, C)
            energy, error = energy + more, error + lost
        if W2 > 0:
            x2, more, lost = _rounded(x2, factor, C)
            energy, error = energy + more, error + lost
        if W3 > 0:
            x3, more, lost = _rounded(x3, factor, C)
            energy, error = energy + more, error + lost
        if SCREEN:
            margin = _margin(energy, error, factor, bounds, d)
    best = tl.full((BM, BN), 0.0 if SIGNLESS else float("-inf"), tl.float32)
    tile = tl.zeros((BM, BN), tl.int32)
    second = tl.full((BM, BN), float("-inf"), tl.float32) if SCREEN else best
    for start in tl.range(0, n_centers, BN):
        s = tl.zeros((BM, BN), tl.float32)
        s = _products(x0, C, c_stride, 0, start, s, BN, W0, DOT)
        if W1 > 0:
            s = _products(x1, C, c_stride, W0, start, s, BN, W1, DOT)
        if W2 > 0:
            s = _products(x2, C, c_stride, W0 + W1, start, s, BN, W2, DOT)
        if W3 > 0:
            s = _products(x3, C, c_stride, W0 + W1 + W2, start, s, BN, W3, DOT)
        b = tl.load(bias + start + tl.arange(0, BN)) if BIASED else margin
        best, tile, second = _keep_best(
            s, start // BN, b, factor, best, tile, second, SIGNLESS, BIASED, SCREEN
        )
    _store_labels(labels, other, rows, inside, best, tile, second, margin, BN, SIGNLESS, SCREEN)


@triton.jit
def nearest_looped(
    X, C, bias, shift, bounds, index, labels, other, n, d, stride, c_stride, n_centers,
    BM: tl.constexpr, BN: tl.constexpr, WIDTH: tl.constexpr, DOT: tl.constexpr, HALF: tl.constexpr,
    SCREEN: tl.constexpr, SIGNLESS: tl.constexpr, BIASED: tl.constexpr, SHIFTED: tl.constexpr,
    INDEXED: tl.constexpr,
):  # fmt: skip
    """Labels of rows with any number of features, which are read again for each tile of centres."""
    place = tl.program_id(0) * BM + tl.arange(0, BM)
    inside = place < n
    rows = tl.load(index + place, mask=inside, other=0) if INDEXED else place.to(tl.int64)
    factor = tl.full((BM,), 1.0, tl.float32)
    margin = tl.zeros((BM,), tl.float32)
    if HALF:
        largest = tl.zeros((BM,), tl.float32)
        for f in tl.range(0, d, WIDTH):
            x = _features(X, shift, rows, inside, stride, d, f, WIDTH, SHIFTED)
            largest = tl.maximum(largest, tl.max(tl.abs(x), axis=1))
        factor = _inverse_power(largest)
    if SCREEN:
        energy, error = tl.zeros((BM,), tl.float32), tl.zeros((BM,), tl.float32)
        for f in tl.range(0, d, WIDTH):
            x = _features(X, shift, rows, inside, stride, d, f, WIDTH, SHIFTED)
            x, more, lost = _rounded(x, factor, C)
            energy, error = energy + more, error + lost
        margin = _margin(energy, error, factor, bounds, d)
    best = tl.full((BM, BN), 0.0 if SIGNLESS else float("-inf"), tl.float32)
    tile = tl.zeros((BM, BN), tl.int32)
    second = tl.full((BM, BN), float("-inf"), tl.float32) if SCREEN else best
    for start in tl.range(0, n_centers, BN):
        s = tl.zeros((BM, BN), tl.float32)
        centers = C + start * c_stride.to(tl.int64)  # a million centres may have over 2^31 numbers
        for f in tl.range(0, d, WIDTH):
            x = _features(X, shift, rows, inside, stride, d, f, WIDTH, SHIFTED)
            if HALF:
                x = (x * factor[:, None]).to(C.dtype.element_ty)
            s = _products(x, centers, c_stride, f, 0, s, BN, WIDTH, DOT)
        b = tl.load(bias + start + tl.arange(0, BN)) if BIASED else margin
        best, tile, second = _keep_best(
            s, start // BN, b, factor, best, tile, second, SIGNLESS, BIASED, SCREEN
        )
    _store_labels(labels, other, rows, inside, best, tile, second, margin, BN, SIGNLESS, SCREEN)


@triton.jit
def decide(
    X, C, bias, shift, labels, other, n, d, stride, BM: tl.constexpr, WIDTH: tl.constexpr,
    SIGNLESS: tl.constexpr, SHIFTED: tl.constexpr,
):  # fmt: skip
    """Choose between the two candidates of a row by their scores in float32."""
    rows = (tl.program_id(0) * BM + tl.arange(0, BM)).to(tl.int64)
    one = tl.load(labels + rows, mask=rows < n, other=0)
    two = tl.load(other + rows, mask=rows < n, other=SURE)
    # Only these rows are read: the loads of the others are masked.
    unsure = two >= 0
    s1 = -tl.load(bias + one, mask=unsure, other=0.0)
    s2 = -tl.load(bias + two, mask=unsure, other=0.0)
    for first in tl.range(0, d, WIDTH):
        f = first + tl.arange(0, WIDTH)
        mask = unsure[:, None] & (f[None, :] < d)
        x = _features(X, shift, rows, unsure, stride, d, first, WIDTH, SHIFTED)
        c1 = tl.load(C + one[:, None].to(tl.int64) * d + f[None, :], mask=mask, other=0.0)
        c2 = tl.load(C + two[:, None].to(tl.int64) * d + f[None, :], mask=mask, other=0.0)
        s1 += tl.sum(x * c1, axis=1)
        s2 += tl.sum(x * c2, axis=1)
    if SIGNLESS:
        s1, s2 = tl.abs(s1), tl.abs(s2)
    swap = (s2 > s1) | ((s2 == s1) & (two < one))
    tl.store(labels + rows, tl.where(swap, two, one), mask=unsure)
