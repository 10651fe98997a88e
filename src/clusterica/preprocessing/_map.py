"""A linear map of rows, block by block: ``(x - mean) Bᵀ`` or ``s Aᵀ + mean``."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from clusterica.arrays import Array, Rows, map_rows, to_host


def apply_map(fn: Callable[..., Array], rows: Rows, matrix: Array, mean: Array) -> Array:
    """Return ``fn(block, matrix, mean)`` of all rows, in the library and on the device of the data."""
    params = [np.asarray(to_host(a), dtype=rows.dtype) for a in (matrix, mean)]
    row_bytes = (rows.n_features + matrix.shape[0]) * rows.dtype.itemsize
    return map_rows(fn, rows, *params, row_bytes=row_bytes)
