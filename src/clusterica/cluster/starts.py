"""Centres of K-means as a start for other learners: ``w_p = mean of the rows nearest to w_p``."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from clusterica.arrays import Rows, to_host
from clusterica.cluster._kmeans import KMeans
from clusterica.optim import Progress


def kmeans_start(
    rows: Rows, sample: np.ndarray, n: int, *, rng: np.random.Generator, progress: Progress
) -> np.ndarray:
    """Return n centres of a sample of rows, in float64 on the host, shape (n, n_features).

    Parameters
    ----------
    rows : Rows
        The data; the sample is clustered in its library and on its device.
    sample : ndarray of shape (n_sample, n_features)
        Rows to cluster, n of them at least.
    n : int
        Number of centres.
    rng : Generator
        Draws the start of K-means.
    progress : Progress
        Task of the fit, to which K-means reports.
    """
    # 50 iterations: a start only has to be near, since the learner moves it on.
    kmeans = KMeans(n, max_iter=50, compute_labels=False, random_state=rng)
    with warnings.catch_warnings(), progress.lend_to(kmeans, "start"):
        # A start need not have converged, and equal rows may share a centre.
        warnings.simplefilter("ignore", ConvergenceWarning)
        kmeans.fit(rows.home.put(sample))
    return np.asarray(to_host(kmeans.cluster_centers_), dtype=np.float64)
