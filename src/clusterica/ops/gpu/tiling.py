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


# How Triton is asked for the products of a precision. float32 takes three products of TF32, which have its
# digits and run on matrix units.
DOT = {"tf32": "tf32", "float32": "tf32x3"}


def tiling_of_codes(device: Any, precision: str, n_features: int) -> KernelTiling:
    """Return the sizes for pooled codes: patches and filters of a tile."""
    tiling = KernelTiling(64, 64, CHUNK, 4, 3)
    return smaller(tiling, precision, n_features, _shared_memory(device), rows_pass=True)


def tiling_for(device: Any, precision: str, n_features: int) -> KernelTiling:
    """Return the sizes for the assignment: rows and centres of a tile."""
    # Of 15 tilings the fastest, or within 5 % of it, on an H200 with 108 and 192 features. Triton 3.6
    # compiled them for plain K-means on Hopper GPUs, with 50, 108, 300 and all multiples of 16 features up
    # to 256: registers are spilled by float32 at 208, 240 and 256 features (16 bytes at most) and by a screen
    # at 50, 128 and 256 (1 KB at most). Tiles of float32 are smaller, as scores and tiles of all columns stay
    # in registers.
    half = precision not in ("float32", "tf32")
    if precision == "float32":
        rows, centers, stages = 64, 32, 2
    elif n_features > 192 or (n_features > 128 and precision == "screened"):
        rows, centers, stages = 64, 64, 3
    else:
        rows, centers, stages = 128, 128 if half and n_features <= 128 else 64, 2
    return smaller(
        KernelTiling(rows, centers, CHUNK, 4, stages),
        precision,
        n_features,
        _shared_memory(device),
    )


def smaller(
    tiling: KernelTiling, precision: str, n_features: int, limit: int, *, rows_pass: bool = False
) -> KernelTiling:
    """Return the tiling with fewer centres or rows where a program has less shared memory than it needs."""
    while True:
        rows, centers, *_ = tiling
        needed = shared_bytes(tiling, precision, n_features, rows_pass=rows_pass)
        if needed <= limit - 2048 or rows == centers == 16:
            return tiling
        if centers > 16:
            tiling = tiling._replace(centers=centers // 2)
        else:
            tiling = tiling._replace(rows=rows // 2)


def shared_bytes(
    tiling: KernelTiling, precision: str, n_features: int, *, rows_pass: bool = False
) -> int:
    """Return the shared memory that a program needs for tiles of rows and of centres, in bytes.

    It holds a tile of rows while for each stage there is one of centres: so the compiler reports for Hopper
    GPUs. Three products need the rows twice, and a tile of centres more. `rows_pass` says that there is a
    kernel, too, which holds a tile of centres while rows pass by, one stage fewer. The compiler adds a few
    hundred bytes.
    """
    widths = chunk_widths(n_features)
    wide = tiling.features if widths is None else sum(widths)
    itemsize = 2 if precision in ("bfloat16", "float16", "screened") else 4
    thrice = precision == "float32"
    rows, centers, *_, stages = tiling
    held = (1 + thrice) * rows + (stages + thrice) * centers
    if rows_pass:
        held = max(held, (stages - 1) * rows + (1 + thrice) * centers)
    return held * wide * itemsize


def _shared_memory(device: Any) -> int:
    """Return the bytes of shared memory that a program may have."""
    device = torch.device(device)
    if device.type != "cuda":  # the interpreter
        return 2**30
    return int(torch.cuda.get_device_properties(device).shared_memory_per_block_optin)
