"""The vectors that an estimator learned, one a row, where they lie in the space of its input."""

from __future__ import annotations

from typing import Any

from clusterica.arrays import Array
from clusterica.preprocessing import KernelWhitener

# Where estimators of this library and of scikit-learn keep them.
_NAMES = ("cluster_centers_", "components_")


def learned_vectors(estimator: Any) -> list[Array]:
    """Return the matrices of vectors that a fitted estimator learned, centroids first.

    Parameters
    ----------
    estimator : object
        Fitted, of any library.

    Returns
    -------
    list of array, each of shape (n_vectors, n_features)
        Empty if there are none in the space of the input. The components of KernelICA are not: they are of
        the output of its kernel whitener.
    """
    if isinstance(getattr(estimator, "whitener_", None), KernelWhitener):
        return []
    found = (getattr(estimator, name, None) for name in _NAMES)
    return [vectors for vectors in found if vectors is not None]
