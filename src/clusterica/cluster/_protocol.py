"""What we ask of any estimator, ours or scikit-learn's: how many centres, where they are, their sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from clusterica.arrays import Array, to_host
from clusterica.preprocessing import KernelWhitener


def with_n_centers(
    estimator: Any,
    n_centers: int,
    *,
    random_state: int | np.random.Generator | None = None,
    n_classes: int | None = None,
) -> Any:
    """Return an unfitted copy of an estimator that finds ``n_centers`` centres or filters.

    The number is set by the first of these parameters that the estimator has:

    ========================== =================================================================
    ``n_axes``                 half of it, since an axis is a pair of opposite centres
    ``n_clusters``             the number, as in scikit-learn's clusterers
    ``n_components``           the number, as in scikit-learn's decompositions
    ``n_components_per_class`` the number divided by ``n_classes``
    ========================== =================================================================

    An estimator with none of them decides for itself, as scikit-learn's ``MeanShift`` does. A class of
    your own takes part if it has one of these parameters. Of a ``Pipeline`` of scikit-learn the number is of
    the last step, and the steps before it get a seed only.

    Parameters
    ----------
    estimator : estimator
        With scikit-learn's ``get_params`` and ``set_params``. It is not changed.
    n_centers : int
        Number of rows of ``cluster_centers_`` or ``components_`` after fit.
    random_state : int, Generator or None, default=None
        Seed for an estimator whose ``random_state`` is None, or where to draw it from.
    n_classes : int or None, default=None
        Number of classes of the labels, for estimators that learn from them.

    Returns
    -------
    estimator

    Examples
    --------
    >>> from clusterica.cluster import CosineKMeans, with_n_centers
    >>> with_n_centers(CosineKMeans(), 10).n_axes
    5
    >>> from sklearn.cluster import KMeans
    >>> with_n_centers(KMeans(), 10, random_state=0)
    KMeans(n_clusters=10, random_state=0)
    """
    copy = clone(estimator)
    if isinstance(copy, Pipeline):
        *before, (name, last) = copy.steps
        last = with_n_centers(last, n_centers, random_state=random_state, n_classes=n_classes)
        copy.steps = [*((n, _seeded(step, random_state)) for n, step in before), (name, last)]
        return copy
    params = copy.get_params(deep=False)
    # In this order: a class may have more than one of these parameters.
    centers_of_one = {
        "n_axes": 2,
        "n_clusters": 1,
        "n_components": 1,
        "n_components_per_class": n_classes,
    }
    for name, size in centers_of_one.items():
        if name not in params:
            continue
        if size is None:
            raise ValueError(
                f"{type(estimator).__name__} learns from labels; call fit(X, y) with a label for every "
                "sample"
            )
        if n_centers % size:
            raise ValueError(
                f"{type(estimator).__name__} finds {size} centers for each of its {name}, so that it "
                f"can't find {n_centers}; ask for a multiple of {size}"
            )
        copy.set_params(**{name: n_centers // size})
        break
    return _seeded(copy, random_state)


def _seeded(estimator: Any, random_state: int | np.random.Generator | None) -> Any:
    """Give an estimator a seed where it takes one and has none, and return it."""
    takes = hasattr(estimator, "get_params") and "random_state" in estimator.get_params(deep=False)
    if random_state is None or not takes or estimator.random_state is not None:
        return estimator  # a seed that the user gave stays
    if isinstance(random_state, np.random.Generator):
        random_state = int(random_state.integers(2**31))
    return estimator.set_params(random_state=random_state)


def learned_vectors(estimator: Any) -> list[Array]:
    """Return the matrices of vectors that a fitted estimator learned: its centres, then its components.

    Parameters
    ----------
    estimator : object
        Fitted, of any library.

    Returns
    -------
    list of array, each of shape (n_vectors, n_features)
        Empty if there are none in the space of the input. The components of KernelICA are not: they belong
        to the output of its kernel whitener.

    Examples
    --------
    >>> from sklearn.cluster import KMeans
    >>> from clusterica.cluster import learned_vectors
    >>> learned_vectors(KMeans(2).fit([[0.0], [1.0], [9.0]]))[0].shape
    (2, 1)
    """
    # Its components are directions of the kernel's white space, not of the input.
    if isinstance(getattr(estimator, "whitener_", None), KernelWhitener):
        return []
    found = (getattr(estimator, name, None) for name in ("cluster_centers_", "components_"))
    return [vectors for vectors in found if vectors is not None]


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
    # Clusterers of scikit-learn keep labels, and no counts.
    centers, labels = (getattr(estimator, name, None) for name in ("cluster_centers_", "labels_"))
    if centers is None or labels is None:
        return None
    labels = np.asarray(to_host(labels))
    # DBSCAN and similar clusterers label noise with -1.
    return np.bincount(labels[labels >= 0], minlength=len(centers))


def near_empty(sizes: np.ndarray) -> np.ndarray:
    """Return which clusters are nearly empty: they hold one row, or a hundredth of the mean size, or less.

    Parameters
    ----------
    sizes : ndarray of shape (n_clusters,)
        Numbers of rows.

    Returns
    -------
    ndarray of bool, shape (n_clusters,)
    """
    # A centre on one row is an outlier; one of a hundredth of the mean size makes a filter of few patches.
    return sizes <= max(1.0, 0.01 * float(sizes.mean()))
