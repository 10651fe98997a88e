"""Sums for distributions of sources on a CUDA tensor: a twin of :func:`clusterica.ops.score.score_sums`.

The plain operations launch some 30 kernels for a block of 131,072 rows. For 10 million rows of 64 channels
these launches take 12 ms at 5 µs each, by count, and the four products of an evaluation 8 ms at 40 TFLOP/s.
Here one kernel keeps a tile of rows in registers up to the products ``Σ g_k(y) yᵀ`` and ``Σ y yᵀ``, and
another up to the sums per component. Each computes the responses y anew: one more product, since the
registers do not hold all sums. A program adds up `PIECE` rows in order, and the sums of programs are added in
float64: the same bits in every run.
"""

# Triton compiles some of these functions, and has no types for them.
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls

from __future__ import annotations

import torch
import triton
import triton.language as tl

from clusterica.arrays import Array, Row, working_memory
from clusterica.ops import score as reference
from clusterica.ops.gpu.tiling import DOT
from clusterica.ops.score import WIDTHS, ScoreSums

# Rows that a program adds up in float32, and rows of a tile. Matrix units cut off the last digits of a sum at
# every step: over 4,096 rows that biases it by some 1e-5 of itself, which misled the line search with ten
# million rows (28 walks, by chance, in place of 5). By the compiler, tiles of 64 rows would spill registers.
PIECE, TILE = 512, 32
# Features and components of a tile that fits the registers; with more, the plain operations do it.
MOST = 64
# Rows that the plain operations add up in float32, as in blocks of other ops.
PLAIN_ROWS = 2**17


@triton.jit
def _responses(
    X, B, mean, r, inside, stride, d, m, D: tl.constexpr, M: tl.constexpr, DOT: tl.constexpr
):
    """Return ``y = B (x - mean)`` of a tile of rows, 0 for rows that are not inside."""
    f, i = tl.arange(0, D), tl.arange(0, M)
    mask = inside[:, None] & (f < d)[None, :]
    x = tl.load(X + r[:, None] * stride + f[None, :], mask=mask, other=0.0)
    x = tl.where(mask, x - tl.load(mean + f, mask=f < d, other=0.0)[None, :], 0.0)
    b = tl.load(
        B + i[None, :] * d + f[:, None], mask=(i < m)[None, :] & (f < d)[:, None], other=0.0
    )
    return tl.dot(x, b, input_precision=DOT)


@triton.jit
def _products(
    X, B, mean, out, n, d, m, stride, W0: tl.constexpr, W1: tl.constexpr, PIECE: tl.constexpr,
    TILE: tl.constexpr, D: tl.constexpr, M: tl.constexpr, DOT: tl.constexpr,
):  # fmt: skip
    """Sums of ``g_0(y) yᵀ``, ``g_1(y) yᵀ`` and ``y yᵀ`` over a piece of the rows."""
    start = tl.program_id(0).to(tl.int64) * PIECE
    wide, narrow = tl.zeros((M, M), tl.float32), tl.zeros((M, M), tl.float32)
    second = tl.zeros((M, M), tl.float32)
    for at in tl.range(start, tl.minimum(start + PIECE, n), TILE):
        r = at + tl.arange(0, TILE)
        y = _responses(X, B, mean, r, r < n, stride, d, m, D, M, DOT)
        wide = tl.dot(tl.trans(y / tl.sqrt(y * y + W0 * W0)), y, wide, input_precision=DOT)
        narrow = tl.dot(tl.trans(y / tl.sqrt(y * y + W1 * W1)), y, narrow, input_precision=DOT)
        second = tl.dot(tl.trans(y), y, second, input_precision=DOT)
    i, j = tl.arange(0, M), tl.arange(0, M)
    mask = (i < m)[:, None] & (j < m)[None, :]
    place = out + tl.program_id(0).to(tl.int64) * 3 * m * m + i[:, None] * m + j[None, :]
    tl.store(place, wide, mask=mask)
    tl.store(place + m * m, narrow, mask=mask)
    tl.store(place + 2 * m * m, second, mask=mask)


@triton.jit
def _add_powers(size, once, twice, thrice, y, inside, W: tl.constexpr):
    """Add the sums of r - w and of 1 / r, 1 / r² and 1 / r³ for one width."""
    root = tl.sqrt(y * y + W * W)
    inverse = tl.where(inside[:, None], 1.0 / root, 0.0)
    # Rows that are not inside have y = 0, and so r = w.
    size += tl.sum((root - W).to(tl.float64), axis=0)
    once += tl.sum(inverse, axis=0)
    twice += tl.sum(inverse * inverse, axis=0)
    thrice += tl.sum(inverse * inverse * inverse, axis=0)
    return size, once, twice, thrice, y * inverse


@triton.jit
def _component_sums(
    X, B, mean, out, n, d, m, stride, W0: tl.constexpr, W1: tl.constexpr, PIECE: tl.constexpr,
    TILE: tl.constexpr, D: tl.constexpr, M: tl.constexpr, DOT: tl.constexpr,
):  # fmt: skip
    """Sums per component over a piece of the rows: four for each width, and that of ``g_0 g_1``."""
    start = tl.program_id(0).to(tl.int64) * PIECE
    size0, size1 = tl.zeros((M,), tl.float64), tl.zeros((M,), tl.float64)
    once0, once1 = tl.zeros((M,), tl.float32), tl.zeros((M,), tl.float32)
    twice0, twice1 = tl.zeros((M,), tl.float32), tl.zeros((M,), tl.float32)
    thrice0, thrice1 = tl.zeros((M,), tl.float32), tl.zeros((M,), tl.float32)
    across = tl.zeros((M,), tl.float32)
    for at in tl.range(start, tl.minimum(start + PIECE, n), TILE):
        r = at + tl.arange(0, TILE)
        inside = r < n
        y = _responses(X, B, mean, r, inside, stride, d, m, D, M, DOT)
        size0, once0, twice0, thrice0, g0 = _add_powers(
            size0, once0, twice0, thrice0, y, inside, W0
        )
        size1, once1, twice1, thrice1, g1 = _add_powers(
            size1, once1, twice1, thrice1, y, inside, W1
        )
        across += tl.sum(g0 * g1, axis=0)
    i = tl.arange(0, M)
    place = out + tl.program_id(0).to(tl.int64) * 9 * m + i
    tl.store(place, size0, mask=i < m)
    tl.store(place + m, once0.to(tl.float64), mask=i < m)
    tl.store(place + 2 * m, twice0.to(tl.float64), mask=i < m)
    tl.store(place + 3 * m, thrice0.to(tl.float64), mask=i < m)
    tl.store(place + 4 * m, size1, mask=i < m)
    tl.store(place + 5 * m, once1.to(tl.float64), mask=i < m)
    tl.store(place + 6 * m, twice1.to(tl.float64), mask=i < m)
    tl.store(place + 7 * m, thrice1.to(tl.float64), mask=i < m)
    tl.store(place + 8 * m, across.to(tl.float64), mask=i < m)


def _row_bytes(row: Row, B: Array, mean: Array) -> int:
    if max(row.n_features, B.shape[0]) > MOST:
        stated: int = reference.score_sums.row_bytes(row, B, mean)  # type: ignore[attr-defined]
        return stated
    return int(1 + (12 * B.shape[0] + 72) * B.shape[0] // PIECE)


@working_memory(_row_bytes, wide_sums=True)
def score_sums(X: Array, B: Array, mean: Array, *, precision: str) -> ScoreSums:
    """Return the sums of a block; the parameters are those of the reference.

    All precisions count as float32: three products of TF32, which matrix units multiply with its digits.
    Fewer digits mislead the line search: with single products of TF32 a fit took 103 walks in place of 5.
    """
    (n, d), m = X.shape, B.shape[0]
    if max(d, m) > MOST:
        parts = [reference.score_sums(part, B, mean) for part in torch.split(X, PLAIN_ROWS)]
        pairs = zip(*parts, strict=True)
        return ScoreSums(*(torch.stack(sums).sum(dim=0, dtype=torch.float64) for sums in pairs))
    X = X if X.stride(1) == 1 else X.contiguous()
    B, mean = (a.to(torch.float32).contiguous() for a in (B, mean))
    n_pieces = triton.cdiv(n, PIECE)
    products = torch.empty((n_pieces, 3, m, m), device=X.device)
    sums = torch.empty((n_pieces, 9, m), dtype=torch.float64, device=X.device)
    settings = {
        "W0": WIDTHS[0], "W1": WIDTHS[1], "PIECE": PIECE, "TILE": TILE,
        "D": max(16, triton.next_power_of_2(d)), "M": max(16, triton.next_power_of_2(m)),
        "DOT": DOT["float32"], "num_warps": 4, "num_stages": 2,
    }  # fmt: skip
    for kernel, out in ((_products, products), (_component_sums, sums)):
        kernel[(n_pieces,)](X, B, mean, out, n, d, m, X.stride(0), **settings)
    wide, narrow, second = torch.sum(products, dim=0, dtype=torch.float64)
    per_component = torch.sum(sums, dim=0)
    size, once, twice, thrice = torch.stack((per_component[:4], per_component[4:8]), dim=1)
    w2 = torch.asarray(WIDTHS, dtype=torch.float64, device=X.device)[:, None] ** 2
    curvature = w2 * thrice  # g' = w² / r³
    own = n - w2 * twice  # g² = 1 - w² / r²
    across = per_component[8]
    return ScoreSums(
        size,
        torch.stack((wide, narrow)),
        curvature,
        w2 * (once - curvature),  # g' y² = w² / r - w² g'
        torch.stack((torch.stack((own[0], across)), torch.stack((across, own[1])))),
        second,
    )
