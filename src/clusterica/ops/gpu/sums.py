"""Sums of rows per cluster, ``sum over i with label j of w_i share_i x_i``, the same bits in every run.

Rows are sorted by label, stably, and the rows of a cluster are cut into pieces of at most `PIECE`. A program
adds up a piece in the order of the rows, and another the pieces of a cluster in their order: nothing is
added by atomic operations, whose order differs from run to run, and a large cluster is shared by many
programs.

Per step the rows are read twice, for the labels and for the sums. One-hot products inside the first pass
would read them once, but hold n_centers x n_features sums in registers, which fits few shapes, and multiply
as much again; at 4 TB/s the second reading of 400,000 x 108 rows is 0.04 ms. Sorting moves about 30 bytes a
row, a third of that.
"""

# Triton compiles these functions, and has no types for them.
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls

from __future__ import annotations

import triton
import triton.language as tl

from clusterica.ops.gpu.nearest import _features


@triton.jit
def _scores(
    X, C, shift, rows, inside, centers, stride, d, WIDTH: tl.constexpr, SHIFTED: tl.constexpr,
    UNIT_ROWS: tl.constexpr,
):  # fmt: skip
    """Return ``<x, c>`` of rows and their centres in float32, and `_energies` if UNIT_ROWS."""
    score = tl.zeros(rows.shape, tl.float32)
    energy = tl.zeros(rows.shape, tl.float64)
    for first in tl.range(0, d, WIDTH):
        f = first + tl.arange(0, WIDTH)
        mask = inside[:, None] & (f[None, :] < d)
        x = _features(X, shift, rows, inside, stride, d, first, WIDTH, SHIFTED)
        c = tl.load(C + centers[:, None] * d + f[None, :], mask=mask, other=0.0)
        score += tl.sum(x * c, axis=1)
        if UNIT_ROWS:
            energy += _energies(x)
    return score, energy


@triton.jit
def _energies(x):
    """Return ``|x|^2`` in float64, where the square of no float32 is lost."""
    x = x.to(tl.float64)
    return tl.sum(x * x, axis=1)


@triton.jit
def _gain_and_share(score, energy, CODE: tl.constexpr):
    """Return `gains` and `shares` of a rule by its code; see `clusterica.ops.rules.gain_and_share`."""
    one = tl.full(score.shape, 1.0, tl.float32)
    if CODE == 0:
        return 2 * score, one
    elif CODE == 1:
        return score * score, score
    elif CODE == 2:
        inverse = tl.where(energy > 0, 1.0 / tl.sqrt(tl.where(energy > 0, energy, 1.0)), 0.0)
        inverse = inverse.to(tl.float32)
        return score * inverse, inverse
    else:
        tl.static_assert(CODE == 3, "_gain_and_share in ops/gpu/sums.py needs a line for this code")
        return tl.abs(score), (score > 0).to(tl.float32) - (score < 0).to(tl.float32)


@triton.jit
def row_scores(
    X, C, bias, shift, labels, scores, n, d, stride, n_centers, VEC: tl.constexpr, BM: tl.constexpr,
    WIDTH: tl.constexpr, SHIFTED: tl.constexpr, BOTH_SIGNS: tl.constexpr,
):  # fmt: skip
    """Score of every row and its centre in float32; a negative one changes the label if -c has its own."""
    d, stride = d * VEC, stride * VEC
    rows = (tl.program_id(0) * BM + tl.arange(0, BM)).to(tl.int64)
    inside = rows < n
    centers = tl.load(labels + rows, mask=inside, other=0).to(tl.int64)
    score, _ = _scores(X, C, shift, rows, inside, centers, stride, d, WIDTH, SHIFTED, False)
    score -= tl.load(bias + centers, mask=inside, other=0.0)
    tl.store(scores + rows, score, mask=inside)
    if BOTH_SIGNS:
        tl.store(labels + rows, (centers + n_centers * (score < 0)).to(tl.int32), mask=inside)


@triton.jit
def piece_sums(
    X, C, bias, shift, weights, order, offsets, first_pieces, clusters, sums, counts, gains, d,
    stride, weight_stride, n_centers, PIECE: tl.constexpr, VEC: tl.constexpr, BM: tl.constexpr,
    WIDTH: tl.constexpr, CODE: tl.constexpr, UNIT_ROWS: tl.constexpr, SHIFTED: tl.constexpr,
    ONE_CHUNK: tl.constexpr,
):  # fmt: skip
    """Sums over one piece of a cluster, for one chunk of features; counts of either sign, and the gain."""
    d, stride = d * VEC, stride * VEC
    p, chunk = tl.program_id(0), tl.program_id(1)
    j = tl.load(clusters + p)
    if j < n_centers:  # there are at most n / PIECE + n_centers pieces, often fewer
        start = tl.load(offsets + j) + (p - tl.load(first_pieces + j)) * PIECE
        stop = tl.minimum(start + PIECE, tl.load(offsets + j + 1))
        f = chunk * WIDTH + tl.arange(0, WIDTH)
        b = tl.load(bias + j)
        c = tl.load(C + j * d + f, mask=f < d, other=0.0)
        # Each row of a tile has sums of its own, at most PIECE / BM numbers: lanes exchange them at the end.
        total = tl.zeros((BM, WIDTH), tl.float32)
        gain, above, below = (
            tl.zeros((BM,), tl.float32),
            tl.zeros((BM,), tl.float32),
            tl.zeros((BM,), tl.float32),
        )
        for begin in tl.range(start, stop, BM):
            place = begin + tl.arange(0, BM)
            inside = place < stop
            rows = tl.load(order + place, mask=inside, other=0)
            # One weight for all rows has a stride of 0.
            w = tl.load(weights + rows * weight_stride, mask=inside, other=0.0)
            x = _features(X, shift, rows, inside, stride, d, chunk * WIDTH, WIDTH, SHIFTED)
            if ONE_CHUNK:
                score, energy = tl.sum(x * c[None, :], axis=1), tl.zeros((BM,), tl.float64)
                if UNIT_ROWS:
                    energy = _energies(x)
            else:  # the score needs all features
                centers = tl.zeros((BM,), tl.int64) + j
                score, energy = _scores(
                    X, C, shift, rows, inside, centers, stride, d, WIDTH, SHIFTED, UNIT_ROWS
                )
            score -= b
            g, share = _gain_and_share(score, energy, CODE)
            total += x * (w * share)[:, None]
            gain += w * g
            negative = score < 0
            below += tl.where(negative, w, 0.0)
            above += tl.where(negative, 0.0, w)
        tl.store(sums + p.to(tl.int64) * d + f, tl.sum(total.to(tl.float64), axis=0), mask=f < d)
        if chunk == 0:
            tl.store(gains + p, tl.sum(gain.to(tl.float64)))
            tl.store(counts + 2 * p, tl.sum(above.to(tl.float64)))
            tl.store(counts + 2 * p + 1, tl.sum(below.to(tl.float64)))


@triton.jit
def joined_pieces(
    piece_totals, piece_counts, first_pieces, sums, counts, d, n_centers, BP: tl.constexpr,
    WIDTH: tl.constexpr, BOTH_SIGNS: tl.constexpr,
):  # fmt: skip
    """Sums over the pieces of one cluster, for one chunk of features: every BP-th piece, then these."""
    j, chunk = tl.program_id(0), tl.program_id(1)
    f = chunk * WIDTH + tl.arange(0, WIDTH)
    total = tl.zeros((BP, WIDTH), tl.float64)
    above, below = tl.zeros((BP,), tl.float64), tl.zeros((BP,), tl.float64)
    stop = tl.load(first_pieces + j + 1)
    for begin in tl.range(tl.load(first_pieces + j), stop, BP):
        p = begin + tl.arange(0, BP)
        inside = p < stop
        mask = inside[:, None] & (f < d)[None, :]
        total += tl.load(piece_totals + p[:, None] * d + f[None, :], mask=mask, other=0.0)
        above += tl.load(piece_counts + 2 * p, mask=inside, other=0.0)
        below += tl.load(piece_counts + 2 * p + 1, mask=inside, other=0.0)
    tl.store(sums + j.to(tl.int64) * d + f, tl.sum(total, axis=0), mask=f < d)
    if chunk == 0:
        if BOTH_SIGNS:
            tl.store(counts + j, tl.sum(above))
            tl.store(counts + n_centers + j, tl.sum(below))
        else:
            tl.store(counts + j, tl.sum(above) + tl.sum(below))
