"""Pooled codes of all patches of a block of images on a CUDA device; see :mod:`clusterica.ops.cpu.encode`.

Normalised patches are multiplied by the filters, in which whitening is folded, encoded and pooled in one
kernel. The triangle code needs two: its threshold is the mean distance of a patch to all atoms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import triton

from clusterica.arrays import Array
from clusterica.ops.cpu.encode import Code, Filters
from clusterica.ops.gpu import pooling as kernels
from clusterica.ops.gpu.tiling import CHUNK, DOT, chunk_widths, tiling_of_codes
from clusterica.ops.patch import Cell, CellPooling, make_tiling

CODES = {
    Code.POSITIVE: "positive",
    Code.BOTH_SIGNS: "both",
    Code.SIGMOID: "sigmoid",
    Code.TRIANGLE: "triangle",
}
_POOLINGS = {CellPooling.MAX: "max", CellPooling.L2: "squares"}
_WORDS = {"bfloat16": torch.bfloat16, "float16": torch.float16}


class Prepared(NamedTuple):
    """Filters on a device: as they are multiplied, padded; and what is added to their responses."""

    words: Array
    bias: Array
    T: Array | None
    shift: Array | None
    scale: Array
    """Power of two by which the words were multiplied, so that halves do not overflow."""
    n_filters: int
    precision: str


def prepare(filters: Filters, device: Any, precision: str) -> Prepared:
    """Bring filters to a device."""

    def put(values: np.ndarray) -> Array:
        return torch.asarray(np.asarray(values, np.float32), device=device)

    F, bias = put(filters.F), put(filters.bias)
    T = None if filters.T is None else put(filters.T)
    shift = None if filters.shift is None else put(filters.shift)
    k, d = F.shape
    dtype = _WORDS.get(precision, torch.float32)
    scale = torch.ones(1, device=device)
    if dtype != torch.float32:
        largest = torch.clamp(F.abs().amax(), min=2.0**-100)
        scale = torch.exp2(-torch.floor(torch.log2(largest)))[None]
    tile = tiling_of_codes(device, precision, d).centers
    n_words = -(-k // tile) * tile
    width = sum(chunk_widths(d) or (-(-d // CHUNK) * CHUNK,))  # with what fills up its chunks
    words = torch.zeros((n_words, width), dtype=dtype, device=device)
    words[:k, :d] = F * scale
    return Prepared(words, bias, T, shift, scale, k, precision)


def pooled_codes(
    images: Array,
    filters: Prepared,
    cells: Sequence[Cell],
    *,
    patch_size: int,
    stride: int,
    eps: float | None,
    code: Code,
    alpha: float,
    pooling: CellPooling,
) -> Array:
    """Encode and pool all patches of a block of images, (n_images, height, width, channels), float32.

    The parameters are those of :func:`clusterica.ops.cpu.encode.pooled_codes`, whose result this is.
    """
    n_images = images.shape[0]
    # One tile: only its order of places and pieces is used.
    tiling = make_tiling(tuple(cells), 2**20)
    rows, scale, energies = _rows(images, filters, tiling.runs, patch_size, stride, eps, code)
    ends = np.cumsum([0] + [piece.size for piece in tiling.pieces])
    n_pieces, n_places, k = len(tiling.pieces), int(ends[-1]), filters.n_filters
    unscale = 1 / (scale * filters.scale)
    tiles = tiling_of_codes(images.device, filters.precision, filters.words.shape[1])
    settings: dict[str, Any] = {
        "BM": tiles.rows, "BN": tiles.centers, "num_warps": tiles.warps, "num_stages": tiles.stages,
        "DOT": DOT.get(filters.precision, "ieee"),
    }  # fmt: skip
    wide, means = filters.words.shape[1], energies
    widths = (*(chunk_widths(wide) or (CHUNK, -1)), 0, 0, 0)[:4]
    settings |= {f"W{i}": width for i, width in enumerate(widths)}
    if code is Code.TRIANGLE:
        means = torch.empty_like(energies)
        kernels.mean_distances[(triton.cdiv(len(rows), tiles.rows),)](
            rows,
            filters.words,
            filters.bias,
            energies,
            means,
            unscale,
            len(rows),
            k,
            wide,
            **settings,
        )
    pieces = torch.empty((n_images, n_pieces, code.n_sides * k), device=images.device)
    kernels.pooled[(n_images * n_pieces, triton.cdiv(k, tiles.centers))](
        rows, filters.words, filters.bias, energies, means, unscale,
        torch.asarray(ends, device=images.device), pieces, n_places, n_pieces, k, wide, float(alpha),
        CODE=CODES[code], POOLING=_POOLINGS.get(pooling, "sum"), **settings,
    )  # fmt: skip
    return _joined(pieces, tiling.pieces, cells, pooling)


def _rows(
    images: Array,
    filters: Prepared,
    runs: np.ndarray,
    patch_size: int,
    stride: int,
    eps: float | None,
    code: Code,
) -> tuple[Array, Array, Array]:
    """Return normalised patches in the precision of the products, their scale, and for distances |y|^2."""
    n_images, _, _, channels = images.shape
    if images.stride(3) != 1:
        images = images.contiguous()
    d, wide = patch_size**2 * channels, filters.words.shape[1]
    # Pixels of the corner of every place, along the runs.
    places = np.concatenate([[(y, x + i) for i in range(length)] for y, x, length in runs])
    places = torch.asarray(places.astype(np.int32) * stride, device=images.device)
    n_rows, half = n_images * len(places), filters.words.dtype != torch.float32
    scale = torch.ones(1, device=images.device)
    triangle = code is Code.TRIANGLE
    if half and not triangle and eps is None:  # normalised patches are small numbers as they are
        largest = torch.clamp(images.abs().amax(), min=2.0**-100)
        scale = torch.exp2(-torch.floor(torch.log2(largest)))[None]
    columns, dtype = (d, torch.float32) if triangle else (wide, filters.words.dtype)
    rows = torch.empty((n_rows, columns), dtype=dtype, device=images.device)
    width = triton.next_power_of_2(max(columns, 16))
    tile = max(1, 4096 // width)
    kernels.patch_rows[(triton.cdiv(n_rows, tile),)](
        images, places, rows, scale, n_rows, len(places), d, columns, *images.stride()[:3], channels,
        patch_size, float(eps or 0), max(float(eps or 0) ** 0.5, float(np.finfo(np.float32).tiny)),
        BM=tile, WIDTH=width, NORMALIZE=eps is not None,
    )  # fmt: skip
    if not triangle:
        return rows, scale, scale
    white = rows if filters.T is None else rows @ filters.T.T - filters.shift
    if half:
        largest = torch.clamp(white.abs().amax(), min=2.0**-100)
        scale = torch.exp2(-torch.floor(torch.log2(largest)))[None]
    words = torch.zeros((n_rows, wide), dtype=filters.words.dtype, device=images.device)
    words[:, : white.shape[1]] = white * scale
    return words, scale, torch.sum(white * white, dim=1)


def _joined(pieces: Array, boxes: list[Cell], cells: Sequence[Cell], pooling: CellPooling) -> Array:
    """Join pieces to cells, and finish what pooling leaves to the end: the mean, the root."""
    joined = []
    for cell in cells:
        # No border of a cell crosses a box: it lies within if its corner does.
        within = [
            i
            for i, box in enumerate(boxes)
            if cell.top <= box.top < cell.bottom and cell.left <= box.left < cell.right
        ]
        parts = pieces[:, within]
        total = parts.amax(dim=1) if pooling is CellPooling.MAX else parts.sum(dim=1)
        joined.append(total / cell.size if pooling is CellPooling.MEAN else total)
    features = torch.cat(joined, dim=1)
    return torch.sqrt(features) if pooling is CellPooling.L2 else features
