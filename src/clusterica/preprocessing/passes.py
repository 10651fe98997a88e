"""One pass over rows: their mean and covariance, or a linear map, ``(x - mean) Bᵀ`` or ``s Aᵀ + mean``."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from clusterica.arrays import Array, Rows, map_reduce, map_rows, to_host
from clusterica.ops.moments import Moments, about_mean, moments


def moments_about_mean(rows: Rows) -> Moments:
    """Return n, the mean, and the sums of products about it, in float64."""
    # Sums about a point near the mean keep their digits, and a few rows are enough to find one.
    about = rows.glance(100).mean(axis=0, dtype=np.float64)
    total = map_reduce(moments, rows, about)
    return about_mean(total, rows.place.put(about))


def apply_map(fn: Callable[..., Array], rows: Rows, matrix: Array, mean: Array) -> Array:
    """Return ``fn(block, matrix, mean)`` of all rows, in the library and on the device of the data."""
    params = [np.asarray(to_host(a), dtype=rows.dtype) for a in (matrix, mean)]
    return map_rows(fn, rows, *params)
