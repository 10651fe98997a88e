"""The best centre of every row, ``argmax_j <x, c_j> - b_j``, without an array of rows x centres.

A program takes a tile of rows, and tiles of centres pass by. Products are of float32 (three products of TF32
each, which have its digits), of TF32, or of halves (float16, bfloat16), summed in float32. Rows and centres
of halves are first divided by powers of two, so that they neither overflow nor lose small rows.

Under float32 each column of a tile remembers its best score and the number of its tile, so that lanes
exchange values only once, at the end; of equal scores the lowest index wins, as in the reference. Under the
others the column takes the place of the last bits of a score, fewer than their rounding: then one maximum a
tile gives score and column, and a row needs two registers in place of two for each column of its tile.

A screen is a product of halves with a bound on its error. For a row y, a centre c and their rounded copies
y', c', the inequality of Cauchy and Schwarz gives

    |<y, c> - <y', c'>|  <=  |y - y'| |c| + |y'| |c - c'|,

so that only centres whose score is within twice the bound of the best can be the best. If there is one such
centre, it is the label; other rows, 2 to 7 % of Gaussian ones, are listed, and scored again in float32.

Features are not padded in memory. A tile holds them as up to four chunks whose widths are powers of two
(108 = 64 + 32 + 16, 4 of them masked); more than 256 features are read again for each tile of centres.
"""

# Triton compiles these functions, and has no types for them.
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls

from __future__ import annotations

import triton
import triton.language as tl


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
def _compared(
    s, bias, factor, start, BN: tl.constexpr, SIGNLESS: tl.constexpr, BIASED: tl.constexpr
):
    """Return the scores of a tile of centres as they are compared."""
    if BIASED:
        s -= factor[:, None] * tl.load(bias + start + tl.arange(0, BN))[None, :]
    return tl.abs(s) if SIGNLESS else s


@triton.jit
def _whole(s, BN: tl.constexpr):
    """Return scores without the last bits, which hold a column."""
    return (s.to(tl.int32, bitcast=True) & -BN).to(tl.float32, bitcast=True)


@triton.jit
def _keep_best(
    s, start, n_centers, best, tile, second, BN: tl.constexpr, EVEN: tl.constexpr,
    PACKED: tl.constexpr, SCREEN: tl.constexpr,
):  # fmt: skip
    """Compare the scores of a tile of centres with the best so far, and under a screen the second best."""
    column = tl.arange(0, BN)
    if PACKED:
        # The first of equal columns has the largest bits.
        bits = (s.to(tl.int32, bitcast=True) & -BN) | (BN - 1 - column)[None, :]
        s = bits.to(tl.float32, bitcast=True)
    if not EVEN:
        s = tl.where((start + column < n_centers)[None, :], s, float("-inf"))
    if PACKED:
        top = tl.max(s, axis=1)
        if SCREEN:
            runner_up = tl.max(tl.where(s == top[:, None], float("-inf"), s), axis=1)
            second = tl.maximum(second, tl.maximum(runner_up, tl.minimum(top, best)))
        better = _whole(top, BN) > _whole(best, BN)
    else:
        top, better = s, s > best
    return tl.where(better, top, best), tl.where(better, start // BN, tile), second


@triton.jit
def _store_labels(
    labels, index, n_open, rows, inside, best, tile, second, margin, n_centers, BN: tl.constexpr,
    PACKED: tl.constexpr, SCREEN: tl.constexpr,
):  # fmt: skip
    """Store the labels, and list the rows of which a screen is not sure."""
    if PACKED:
        label = tile * BN + BN - 1 - (best.to(tl.int32, bitcast=True) & (BN - 1))
    else:
        j = tile * BN + tl.arange(0, BN)[None, :]
        label = tl.min(tl.where(best == tl.max(best, axis=1)[:, None], j, 2147483647), axis=1)
    # Scores that overflow have no column, and labels must not lead beyond the centres.
    tl.store(labels + rows, tl.minimum(label, n_centers - 1), mask=inside)
    if SCREEN:
        is_open = inside & (second >= best - margin)
        count = is_open.to(tl.int32)
        # Programs append in any order: each row is then decided by itself.
        first = tl.atomic_add(n_open, tl.sum(count, axis=0))
        tl.store(index + first + tl.cumsum(count, axis=0) - 1, rows.to(tl.int32), mask=is_open)


@triton.jit
def _rounded(x, factor, C):
    """Return the rows as they are multiplied, the energy of them and of what rounding takes from them."""
    scaled = x * factor[:, None]
    half = scaled.to(C.dtype.element_ty)
    error = scaled - half.to(tl.float32)
    return half, tl.sum(scaled * scaled, axis=1), tl.sum(error * error, axis=1)


@triton.jit
def _margin(energy, error, factor, bounds, d, BN: tl.constexpr):
    """Return twice the bound on the error of a score: the best may be this far below the top.

    `bounds` holds the largest |c|^2, |c - c'|^2 and bias. Sums may be off by 2^-22 of their size at each of
    d + 3 additions, twice what rounding takes, since matrix units cut digits off; the column that takes the
    place of the last bits is worth BN units of 2^-23; and the float32 scores that decide may be off
    by 2^-23. Lengths are computed with such sums themselves, hence the last factor.
    """
    longest, worst = tl.sqrt(tl.load(bounds)), tl.sqrt(tl.load(bounds + 1))
    most_bias = tl.load(bounds + 2)
    off = tl.sqrt(error)
    length = tl.sqrt(energy) + off
    rounding = (3 * d + 8) * 2.384185791015625e-07 + BN * 1.1920928955078125e-07
    bound = off * longest + length * worst + rounding * (length * longest + factor * most_bias)
    return 2.0 * (1.001 + rounding) * bound + 1e-30


@triton.jit
def nearest_held(
    X, C, bias, shift, bounds, index, n_open, labels, n, d, stride, c_stride, n_centers,
    VEC: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, W0: tl.constexpr, W1: tl.constexpr,
    W2: tl.constexpr, W3: tl.constexpr, DOT: tl.constexpr, PACKED: tl.constexpr,
    HALF: tl.constexpr, SCREEN: tl.constexpr, SIGNLESS: tl.constexpr, BIASED: tl.constexpr,
    EVEN: tl.constexpr, SHIFTED: tl.constexpr, INDEXED: tl.constexpr,
):  # fmt: skip
    """Labels of rows whose features are held while the centres pass by; W0 to W3 are the widths of chunks."""
    d, stride = d * VEC, stride * VEC
    place = tl.program_id(0) * BM + tl.arange(0, BM)
    if INDEXED:
        n = tl.load(n_open)
        if tl.program_id(0) * BM >= n:
            return
    inside = place < n
    rows = (
        tl.load(index + place, mask=inside, other=0).to(tl.int64) if INDEXED else place.to(tl.int64)
    )
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
            margin = _margin(energy, error, factor, bounds, d, BN)
    best = tl.full((BM,) if PACKED else (BM, BN), float("-inf"), tl.float32)
    tile = tl.zeros((BM,) if PACKED else (BM, BN), tl.int32)
    second = best
    for start in tl.range(0, n_centers, BN):
        s = tl.zeros((BM, BN), tl.float32)
        s = _products(x0, C, c_stride, 0, start, s, BN, W0, DOT)
        if W1 > 0:
            s = _products(x1, C, c_stride, W0, start, s, BN, W1, DOT)
        if W2 > 0:
            s = _products(x2, C, c_stride, W0 + W1, start, s, BN, W2, DOT)
        if W3 > 0:
            s = _products(x3, C, c_stride, W0 + W1 + W2, start, s, BN, W3, DOT)
        s = _compared(s, bias, factor, start, BN, SIGNLESS, BIASED)
        best, tile, second = _keep_best(
            s, start, n_centers, best, tile, second, BN, EVEN, PACKED, SCREEN
        )
    _store_labels(
        labels, index, n_open, rows, inside, best, tile, second, margin, n_centers, BN, PACKED,
        SCREEN,
    )  # fmt: skip


@triton.jit
def nearest_looped(
    X, C, bias, shift, bounds, index, n_open, labels, n, d, stride, c_stride, n_centers,
    VEC: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, WIDTH: tl.constexpr,
    DOT: tl.constexpr, PACKED: tl.constexpr, HALF: tl.constexpr, SCREEN: tl.constexpr, SIGNLESS: tl.constexpr,
    BIASED: tl.constexpr, EVEN: tl.constexpr, SHIFTED: tl.constexpr, INDEXED: tl.constexpr,
):  # fmt: skip
    """Labels of rows with any number of features, which are read again for each tile of centres."""
    d, stride = d * VEC, stride * VEC
    place = tl.program_id(0) * BM + tl.arange(0, BM)
    if INDEXED:
        n = tl.load(n_open)
        if tl.program_id(0) * BM >= n:
            return
    inside = place < n
    rows = (
        tl.load(index + place, mask=inside, other=0).to(tl.int64) if INDEXED else place.to(tl.int64)
    )
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
        margin = _margin(energy, error, factor, bounds, d, BN)
    best = tl.full((BM,) if PACKED else (BM, BN), float("-inf"), tl.float32)
    tile = tl.zeros((BM,) if PACKED else (BM, BN), tl.int32)
    second = best
    for start in tl.range(0, n_centers, BN):
        s = tl.zeros((BM, BN), tl.float32)
        centers = C + start * c_stride.to(tl.int64)  # a million centres may have over 2^31 numbers
        for f in tl.range(0, d, WIDTH):
            x = _features(X, shift, rows, inside, stride, d, f, WIDTH, SHIFTED)
            if HALF:
                x = (x * factor[:, None]).to(C.dtype.element_ty)
            s = _products(x, centers, c_stride, f, 0, s, BN, WIDTH, DOT)
        s = _compared(s, bias, factor, start, BN, SIGNLESS, BIASED)
        best, tile, second = _keep_best(
            s, start, n_centers, best, tile, second, BN, EVEN, PACKED, SCREEN
        )
    _store_labels(
        labels, index, n_open, rows, inside, best, tile, second, margin, n_centers, BN, PACKED,
        SCREEN,
    )  # fmt: skip


@triton.jit
def round_tile(
    C, bias, largest, words, word_bias, bounds, k, d, wide, BN: tl.constexpr, WIDTH: tl.constexpr,
    SCALED: tl.constexpr,
):  # fmt: skip
    """Round a tile of centres to words and their biases; for a screen |c|^2, |c - c'|^2 and bias of each.

    Words beyond the centres and their features are zeros.
    """
    j = tl.program_id(0) * BN + tl.arange(0, BN)
    scale = _inverse_power(tl.load(largest)) if SCALED else 1.0
    energy, error = tl.zeros((BN,), tl.float32), tl.zeros((BN,), tl.float32)
    for first in tl.range(0, wide, WIDTH):
        f = first + tl.arange(0, WIDTH)
        mask = (j < k)[:, None] & (f < d)[None, :]
        place = j.to(tl.int64)[:, None]
        c = tl.load(C + place * d + f[None, :], mask=mask, other=0.0) * scale
        word = c.to(words.dtype.element_ty)
        tl.store(words + place * wide + f[None, :], word, mask=(f < wide)[None, :])
        off = c - word.to(tl.float32)
        energy += tl.sum(c * c, axis=1)
        error += tl.sum(off * off, axis=1)
    # Scores have the scale once, and so has what is taken from them.
    b = (tl.load(bias + j, mask=j < k, other=0.0) * scale).to(tl.float32)
    tl.store(word_bias + j, b)
    tl.store(bounds + 3 * j, energy)
    tl.store(bounds + 3 * j + 1, error)
    tl.store(bounds + 3 * j + 2, tl.abs(b))
