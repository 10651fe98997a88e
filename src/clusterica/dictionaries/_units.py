"""What learners of units ``sigmoid(w x + b)`` share: advice on rows that lie far from zero."""

from __future__ import annotations

import numpy as np

from clusterica.ops.autoencoder import HostArray


def far_from_zero(mean: HostArray, covariance: HostArray) -> str:
    """Return what to do about rows whose mean is several times as long as they vary, else nothing.

    All rows are then alike to every unit, which is on or off for all of them.
    """
    spread = float(np.sqrt(covariance.diagonal().sum()))
    times = float(np.sqrt(np.square(mean / spread).sum())) if spread > 0 else 0.0
    # Of 20 units on 500 rows of six features 2 died at 3.4, 17 at 10, and none at 1.
    if times < 3:
        return ""
    remedy = "subtract the mean of the rows, as StandardScaler does"
    return f"{remedy}: it is {times:.2g} times as long as they vary"
