"""Kernels of pooled codes: patches as normalised rows, and ``pool(code(F x - b))`` of these rows.

Rows of a piece of an image, all of which belong to the same cells, lie side by side. A program takes a tile
of filters and the rows of a piece, and adds up their codes in registers, in the order of the rows: responses
are never written, and two runs give the same bits.

The normalised rows are written once, in the precision of the products. With 1,600 filters these are fifteen
times fewer numbers than responses: 10 GB of halves for 60,000 images of CIFAR-10, or 5 ms of an H200 to write
and to read, while the products take 40 ms at 400 TFLOP/s. Gathering patches anew for each tile of filters
would take half as long as the products.
"""

# Triton compiles these functions, and has no types for them.
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def patch_rows(
    images, places, rows, scale, n_rows, n_places, d, wide, image_stride, line_stride, pixel_stride,
    channels, patch_size, eps, least, BM: tl.constexpr, WIDTH: tl.constexpr, NORMALIZE: tl.constexpr,
):  # fmt: skip
    """Patches as rows in the order of the places, contrast-normalised; see `clusterica.ops.patch`."""
    r = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    inside = r < n_rows
    place = r % n_places
    top = tl.load(places + 2 * place, mask=inside, other=0).to(tl.int64)
    left = tl.load(places + 2 * place + 1, mask=inside, other=0).to(tl.int64)
    f = tl.arange(0, WIDTH)
    line = f // (patch_size * channels)
    within = f % (patch_size * channels)
    corner = (r // n_places) * image_stride + top * line_stride + left * pixel_stride
    offset = line * line_stride + within // channels * pixel_stride + within % channels
    mask = inside[:, None] & (f < d)[None, :]
    x = tl.load(images + corner[:, None] + offset[None, :], mask=mask, other=0.0)
    if NORMALIZE:
        largest = tl.max(tl.abs(x), axis=1)
        # In units in which squares neither overflow nor vanish, unless beside eps.
        unit = 1.0 / tl.maximum(largest, least)
        x = x * unit[:, None]
        x = tl.where(mask, x - (tl.sum(x, axis=1) / d)[:, None], 0.0)
        variance = tl.sum(x * x, axis=1) / d
        rounding = 4.76837158203125e-07 * largest * unit
        flat = variance <= rounding * rounding
        spread = tl.sqrt(tl.where(flat, 1.0, variance + (eps * unit) * unit))
        x = tl.where(flat[:, None], 0.0, x / spread[:, None])
    x = x * tl.load(scale)
    # Columns beyond the features are zeros, so that tiles of products need no masks.
    tl.store(rows + r[:, None] * wide + f[None, :], x, mask=inside[:, None] & (f < wide)[None, :])


@triton.jit
def _products(s, rows, F, r, inside, j, wide, first, WIDTH: tl.constexpr, DOT: tl.constexpr):
    """Add the products of a chunk of features of a tile of rows and of a tile of filters."""
    f = first + tl.arange(0, WIDTH)
    x = tl.load(rows + r[:, None] * wide + f[None, :], mask=inside[:, None], other=0.0)
    w = tl.load(F + j[None, :] * wide + f[:, None])
    return tl.dot(x, w, s, input_precision=DOT)


@triton.jit
def _responses(
    rows, F, r, inside, j, wide, BM: tl.constexpr, BN: tl.constexpr, W0: tl.constexpr,
    W1: tl.constexpr, W2: tl.constexpr, W3: tl.constexpr, DOT: tl.constexpr,
):  # fmt: skip
    """Return the products of a tile of rows and a tile of filters, by chunks of W0 to W3 features.

    W1 < 0 says that all chunks are of W0.
    """
    s = tl.zeros((BM, BN), tl.float32)
    if W1 < 0:
        for first in tl.range(0, wide, W0):
            s = _products(s, rows, F, r, inside, j, wide, first, W0, DOT)
    else:
        s = _products(s, rows, F, r, inside, j, wide, 0, W0, DOT)
        if W1 > 0:
            s = _products(s, rows, F, r, inside, j, wide, W0, W1, DOT)
        if W2 > 0:
            s = _products(s, rows, F, r, inside, j, wide, W0 + W1, W2, DOT)
        if W3 > 0:
            s = _products(s, rows, F, r, inside, j, wide, W0 + W1 + W2, W3, DOT)
    return s


@triton.jit
def _distances(s, energy, lengths):
    """Return the distances of rows and atoms from their products and squared lengths."""
    return tl.sqrt(tl.maximum(energy[:, None] + lengths[None, :] - 2.0 * s, 0.0))


@triton.jit
def mean_distances(
    rows, F, lengths, energies, means, unscale, n_rows, n_filters, wide, BM: tl.constexpr,
    BN: tl.constexpr, W0: tl.constexpr, W1: tl.constexpr, W2: tl.constexpr, W3: tl.constexpr,
    DOT: tl.constexpr,
):  # fmt: skip
    """Mean distance of every row to all atoms, for the triangle code."""
    r = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    inside = r < n_rows
    energy = tl.load(energies + r, mask=inside, other=0.0)
    total = tl.zeros((BM,), tl.float32)
    factor = tl.load(unscale)
    for start in tl.range(0, n_filters, BN):
        j = start + tl.arange(0, BN)
        s = factor * _responses(rows, F, r, inside, j, wide, BM, BN, W0, W1, W2, W3, DOT)
        length = tl.load(lengths + j, mask=j < n_filters, other=0.0)
        z = _distances(s, energy, length)
        total += tl.sum(tl.where((j < n_filters)[None, :], z, 0.0), axis=1)
    tl.store(means + r, total / n_filters, mask=inside)


@triton.jit
def _pool(total, code, inside, POOLING: tl.constexpr):
    """Add codes of a tile of rows to what is pooled so far: sums, largest, or sums of squares."""
    if POOLING == "max":
        return tl.maximum(total, tl.max(tl.where(inside[:, None], code, float("-inf")), axis=0))
    code = tl.where(inside[:, None], code, 0.0)
    if POOLING == "squares":
        code = code * code
    return total + tl.sum(code, axis=0)


@triton.jit
def pooled(
    rows, F, bias, energies, means, unscale, segments, pieces, n_places, n_pieces, n_filters, wide, alpha,
    BM: tl.constexpr, BN: tl.constexpr, W0: tl.constexpr, W1: tl.constexpr, W2: tl.constexpr,
    W3: tl.constexpr, DOT: tl.constexpr, CODE: tl.constexpr, POOLING: tl.constexpr,
):  # fmt: skip
    """Pooled codes of a piece of an image, for a tile of filters."""
    image, piece = tl.program_id(0) // n_pieces, tl.program_id(0) % n_pieces
    first = image.to(tl.int64) * n_places
    start, stop = first + tl.load(segments + piece), first + tl.load(segments + piece + 1)
    j = tl.program_id(1) * BN + tl.arange(0, BN)
    b = tl.load(bias + j, mask=j < n_filters, other=0.0)
    above = tl.full((BN,), float("-inf") if POOLING == "max" else 0.0, tl.float32)
    below = above
    factor = tl.load(unscale)
    for at in tl.range(start, stop, BM):
        r = at + tl.arange(0, BM)
        inside = r < stop
        s = factor * _responses(rows, F, r, inside, j, wide, BM, BN, W0, W1, W2, W3, DOT)
        if CODE == "triangle":
            energy = tl.load(energies + r, mask=inside, other=0.0)
            mean = tl.load(means + r, mask=inside, other=0.0)
            code = tl.maximum(mean[:, None] - _distances(s, energy, b), 0.0)
        elif CODE == "sigmoid":
            code = 1.0 / (1.0 + tl.exp(b[None, :] + alpha - s))
        else:
            s -= b[None, :]
            code = tl.maximum(s - alpha, 0.0)
            if CODE == "both":
                below = _pool(below, tl.maximum(-s - alpha, 0.0), inside, POOLING)
        above = _pool(above, code, inside, POOLING)
    sides = 2 if CODE == "both" else 1
    out = pieces + tl.program_id(0).to(tl.int64) * n_filters * sides + j
    tl.store(out, above, mask=j < n_filters)
    if CODE == "both":
        tl.store(out + n_filters, below, mask=j < n_filters)
