"""Mean and covariance of rows wherever they live, from one walk."""

from __future__ import annotations

import numpy as np

from clusterica.arrays import Rows, map_reduce
from clusterica.ops.moments import Moments, about_mean, moments


def moments_about_mean(rows: Rows) -> Moments:
    """Return n, the mean, and the sums of products about it, in float64."""
    about = rows.glance(100).mean(axis=0, dtype=np.float64)  # near the mean is enough
    total = map_reduce(moments, rows, about, row_bytes=16 * rows.n_features)
    return about_mean(total, rows.place.put(about))
