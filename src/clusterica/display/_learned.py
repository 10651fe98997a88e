"""The rows that an estimator learned, as a NumPy matrix on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from clusterica.arrays import to_host

# Where estimators of this library and of scikit-learn keep one learned vector a row.
ATTRIBUTES = ("cluster_centers_", "components_")


def learned_rows(estimator: Any) -> np.ndarray:
    """Return the centroids or components of a fitted estimator.

    Parameters
    ----------
    estimator : object
        A fitted estimator with ``cluster_centers_`` or ``components_``.

    Returns
    -------
    ndarray of shape (n_rows, n_features)
    """
    check_is_fitted(estimator)
    for name in ATTRIBUTES:
        if hasattr(estimator, name):
            return np.asarray(to_host(getattr(estimator, name)))
    raise TypeError(
        f"{type(estimator).__name__} has neither cluster_centers_ nor components_, so there is "
        "nothing to show. Pass an estimator that learns one vector a row."
    )


def learned_patterns(estimator: Any) -> np.ndarray:
    """Return what each learned vector looks like in the data.

    Of an ICA that is a column of ``mixing_``, since the filters in ``components_`` look like what they
    respond to only if they are orthogonal; of all others it is the vector itself.

    Parameters
    ----------
    estimator : object
        A fitted estimator with ``mixing_``, ``cluster_centers_`` or ``components_``.

    Returns
    -------
    ndarray of shape (n_rows, n_features)
    """
    check_is_fitted(estimator)
    if hasattr(estimator, "mixing_"):
        return np.asarray(to_host(estimator.mixing_)).T
    return learned_rows(estimator)


def learned_centers(estimator: Any) -> np.ndarray:
    """Return where the centroids lie in the data; the patterns of an estimator without centroids.

    Parameters
    ----------
    estimator : object
        A fitted estimator with ``mixing_centroids_``, ``cluster_centers_``, ``mixing_`` or
        ``components_``.

    Returns
    -------
    ndarray of shape (n_rows, n_features)
    """
    check_is_fitted(estimator)
    if hasattr(estimator, "mixing_centroids_"):
        return np.asarray(to_host(estimator.mixing_centroids_))
    return learned_patterns(estimator)
