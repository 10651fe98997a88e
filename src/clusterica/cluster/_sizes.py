"""How many rows each cluster has, and which have next to none: ``n_j <= max(1, 0.01 mean(n))``."""

from __future__ import annotations

from typing import Any

import numpy as np

from clusterica.arrays import to_host

NEAR_EMPTY = 0.01  # share of the mean size under which a cluster is near-empty


def cluster_sizes(estimator: Any) -> np.ndarray | None:
    """Return the sizes of the clusters of a fitted estimator, or None if it has no clusters.

    Parameters
    ----------
    estimator : object
        Of this library, with ``counts_``, or of another, with ``cluster_centers_`` and ``labels_``.

    Returns
    -------
    ndarray of shape (n_clusters,) or None
        Numbers of rows, or their weights.
    """
    counts = getattr(estimator, "counts_", None)
    if counts is not None:
        return np.asarray(to_host(counts))
    centers, labels = (getattr(estimator, name, None) for name in ("cluster_centers_", "labels_"))
    if centers is None or labels is None:
        return None
    labels = np.asarray(to_host(labels))
    return np.bincount(labels[labels >= 0], minlength=len(centers))


def near_empty(sizes: np.ndarray) -> np.ndarray:
    """Return which clusters hold next to nothing: a single row, or a hundredth of the mean size.

    Parameters
    ----------
    sizes : ndarray of shape (n_clusters,)
        Numbers of rows.

    Returns
    -------
    ndarray of bool, shape (n_clusters,)
    """
    return sizes <= max(1.0, NEAR_EMPTY * float(sizes.mean()))
