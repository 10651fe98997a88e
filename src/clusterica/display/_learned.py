"""Centres, components or filters of a fitted estimator, as a NumPy matrix in the space to be shown."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from clusterica.arrays import to_host
from clusterica.cluster import learned_vectors


def refuse_pipeline(estimator: Any) -> None:
    """Raise an error that names the steps of a pipeline: one of them has what is to be shown."""
    if hasattr(estimator, "named_steps"):
        names = list(estimator.named_steps)
        raise TypeError(
            f"a pipeline has nothing to show itself; pass the step that learned it, such as "
            f"pipeline[{names[0]!r}]. Its steps are {', '.join(map(repr, names))}"
        )


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
    refuse_pipeline(estimator)
    found = learned_vectors(estimator)
    if not found:
        raise TypeError(
            f"{type(estimator).__name__} has neither cluster_centers_ nor components_ in the space of its "
            "input, so there is nothing to show. Pass an estimator that learns vectors."
        )
    return np.asarray(to_host(found[0]))


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
        # Sources are the columns of a mixing matrix.
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
    # An ICA without centroids has one arrow for each source.
    return learned_patterns(estimator)


def image_filters(features: Any, *, show: str, region: int = 0) -> np.ndarray:
    """Return the filters of fitted image features, as rows that look like patches.

    Parameters
    ----------
    features : ImageFeatures
        Fitted.
    show : {"patterns", "filters", "whitened"}
        Patterns of pixels that whiten to the filters, filters of pixels, or filters of whitened patches.
    region : int, default=0
        Index of the region, if there are filters for several regions.

    Returns
    -------
    ndarray of shape (n_filters, patch_size * patch_size * channels)
    """
    if show == "whitened":
        rows = np.asarray(to_host(of_region(features.filters_, region)))
        return turned_to_zca(rows, of_region(features.whitener_, region))
    found = features.pixel_patterns_ if show == "patterns" else features.pixel_filters_
    return np.asarray(to_host(of_region(found, region)))


def of_region(values: Any, region: int) -> Any:
    """Return the entry of a region, if there is one for each region."""
    return values[region] if isinstance(values, list) else values


def picture_shape(patch_shape: tuple[int, int, int]) -> tuple[int, ...]:
    """Return the shape of a patch as a picture: without channels if it is grey."""
    if patch_shape[2] not in (1, 3):
        raise ValueError(
            f"patches have {patch_shape[2]} channels; those of 1 or 3 make a picture. Fit on some of the "
            "channels, or choose columns yourself and draw them with tile_images."
        )
    return patch_shape[:2] if patch_shape[2] == 1 else patch_shape


def turned_to_zca(rows: np.ndarray, whitener: Any) -> np.ndarray:
    """Rotate whitened rows to the space of ZCA whitening, so that they look like the data.

    All whitening matrices differ by a rotation: T = Q T_zca, where Q is the orthogonal factor of the
    transposed inverse. Rows of a step without an inverse matrix are returned unchanged.
    """
    if getattr(whitener, "dewhitening_", None) is None:
        return rows
    back = np.asarray(to_host(whitener.dewhitening_), dtype=np.float64)
    # With T⁻¹ = U S Vᵀ, Q = (U Vᵀ)ᵀ: what is left of the inverse without its stretching.
    U, _, Vt = np.linalg.svd(back, full_matrices=False)
    turned: np.ndarray = rows @ (U @ Vt).T
    return turned
