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
