"""Mean and covariance of rows: ``n, mean, sum (x - mean)(x - mean)ᵀ``, from one walk."""

from __future__ import annotations

import numpy as np

from clusterica.arrays import Rows, map_reduce
from clusterica.ops.moments import Moments, about_mean, moments


def moments_about_mean(rows: Rows) -> Moments:
    """Return n, the mean, and the sums of products about it, in float64."""
    # Sums about a point near the mean keep their digits, and a few rows are enough to find one.
    about = rows.glance(100).mean(axis=0, dtype=np.float64)
    total = map_reduce(moments, rows, about)
    return about_mean(total, rows.place.put(about))
