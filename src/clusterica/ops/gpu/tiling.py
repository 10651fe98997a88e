"""Sizes of the tiles of the kernels, and what a device can run."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch


class KernelTiling(NamedTuple):
    """Rows and centres of a tile, features of a chunk, warps of a program, and tiles loaded ahead."""

    rows: int
    centers: int
    features: int
    warps: int
    stages: int


def chunk_widths(n_features: int) -> tuple[int, ...] | None:
    """Return powers of two from 16 up whose sum is the number of features rounded up to 16; None if too many.

    Tiles have sizes of powers of two only: 108 features in one chunk would be multiplied as 128, in chunks
    of 64, 32 and 16 as 112.
    """
    # A tile of rows and centres with 256 features stays in registers; more are read in chunks.
    if n_features > 256:
        return None
    sixteens = -(-n_features // 16)
    return tuple(16 << i for i in reversed(range(5)) if sixteens >> i & 1)


# Features that are multiplied at a time where there are too many to hold: with 64, programs spill registers.
CHUNK = 32


def tiling_of_codes(device: Any, precision: str, n_features: int) -> KernelTiling:
    """Return the sizes for pooled codes: patches and filters of a tile."""
    # By the compiler, with 108 features: no spills, and two to four programs on a multiprocessor. float32
    # outside matrix units would spill with tiles of 64 x 64, and in 4 warps of 32 x 64. Not timed yet.
    rows, warps = (32, 8) if precision in ("float32", "screened") else (64, 4)
    return smaller(
        KernelTiling(rows, 64, CHUNK, warps, 3), precision, n_features, _shared_memory(device)
    )


def tiling_for(device: Any, precision: str, n_features: int) -> KernelTiling:
    """Return the sizes for the assignment: rows and centres of a tile."""
    # By what the compiler says (benchmarks.kernel_resources): with 50, 108 and 300 features none spills
    # registers, and two or three programs share a multiprocessor, so that one multiplies while another
    # compares. A screen and float32 outside matrix units need more registers. Not timed yet: that is for
    # benchmarks.kmeans_gpu --sweep.
    centers = 32 if precision in ("screened", "float32") else 64
    return smaller(
        KernelTiling(64, centers, CHUNK, 4, 2), precision, n_features, _shared_memory(device)
    )


def smaller(tiling: KernelTiling, precision: str, n_features: int, limit: int) -> KernelTiling:
    """Return the tiling with fewer centres or rows where a program has less shared memory than it needs.

    It holds a tile of rows and, for each stage, one of centres, and a few hundred bytes: so the compiler
    reports for Hopper GPUs.
    """
    widths = chunk_widths(n_features)
    wide = tiling.features if widths is None else sum(widths)
    itemsize = 2 if precision in ("bfloat16", "float16", "screened") else 4
    while True:
        rows, centers, *_, stages = tiling
        if (rows + stages * centers) * wide * itemsize <= limit - 2048 or rows == centers == 16:
            return tiling
        if centers > 16:
            tiling = tiling._replace(centers=centers // 2)
        else:
            tiling = tiling._replace(rows=rows // 2)


def _shared_memory(device: Any) -> int:
    """Return the bytes of shared memory that a program may have."""
    device = torch.device(device)
    if device.type != "cuda":  # the interpreter
        return 2**30
    return int(torch.cuda.get_device_properties(device).shared_memory_per_block_optin)
