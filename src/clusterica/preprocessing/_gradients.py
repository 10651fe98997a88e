"""Descriptors of patches: histograms of their gradients, ``x -> v / |v|``, in SIFT's layout."""

from __future__ import annotations

from math import isqrt
from numbers import Integral, Real
from typing import Any, ClassVar, Self

from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from clusterica.arrays import (
    Array,
    Estimator,
    FloatOutputMixin,
    Interval,
    check_rows,
    fit_context,
    transform_rows,
)
from clusterica.ops.gradients import GradientHistograms


class GradientDescriptor(
    FloatOutputMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, Estimator
):
    """Describe patches by histograms of the orientations of their gradients, as SIFT does.

    A patch is divided into 4 x 4 cells. The gradients of the pixels of a cell are counted by 8 orientations,
    each by its length: 128 numbers [1]_. A pixel counts for neighbouring cells and orientations too, by its
    distance from them, and a Gaussian fades the border of the patch. The histogram is scaled to unit length,
    entries over 0.2 are cut off, and it is scaled again.

    In :class:`clusterica.images.ImageFeatures` it takes the place of the normaliser, with no whitening:
    ``ImageFeatures(patch_size=16, stride=6, normalizer=GradientDescriptor(), whitener=None)`` has dense
    descriptors in place of patches.

    Parameters
    ----------
    patch_shape : tuple (height, width, channels) or None, default=None
        How the numbers of a row make up a patch; None is a square of one or three channels. Channels are
        averaged.
    n_cells : int, default=4
        Cells along each side.
    n_orientations : int, default=8
        Orientations.
    clip : float, default=0.2
        Largest entry before a descriptor is scaled for the second time.
    floor : float, default=0.0
        Histograms that are shorter are not scaled to unit length but divided by this, so that the noise of
        flat patches is not amplified. 1 is a usual choice for pixels in 0..1, 255 for pixels in 0..255.

    Attributes
    ----------
    patch_shape_ : tuple (height, width, channels)
        The shape in use.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has column names.

    References
    ----------
    .. [1] D. G. Lowe, "Distinctive image features from scale-invariant keypoints", 2004.

    Examples
    --------
    >>> import numpy as np
    >>> from clusterica.preprocessing import GradientDescriptor
    >>> edge = np.repeat([[0.0] * 8 + [1.0] * 8], 16, axis=0).reshape(
    ...     1, -1
    ... )  # dark left, light right
    >>> V = GradientDescriptor().fit_transform(edge).reshape(4, 4, 8)
    >>> V.sum(axis=(0, 1)).round(2)  # all gradients point to the right
    array([2.83, 0.  , 0.  , 0.  , 0.  , 0.  , 0.  , 0.  ])
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "patch_shape": [tuple, list, None],
        "n_cells": [Interval(Integral, 1, None, closed="left")],
        "n_orientations": [Interval(Integral, 1, None, closed="left")],
        "clip": [Interval(Real, 0, None, closed="neither")],
        "floor": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        patch_shape: tuple[int, int, int] | None = None,
        *,
        n_cells: int = 4,
        n_orientations: int = 8,
        clip: float = 0.2,
        floor: float = 0.0,
    ) -> None:
        self.patch_shape = patch_shape
        self.n_cells = n_cells
        self.n_orientations = n_orientations
        self.clip = clip
        self.floor = floor

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Check that the rows are patches.

        Parameters
        ----------
        X : array-like, tensor, Dask array or iterable of blocks, (n_samples, n_features)
            Patches, such as :func:`clusterica.images.sample_patches` gives.
        y : ignored

        Returns
        -------
        self
        """
        rows = check_rows(self, X, reset=True)
        self.patch_shape_ = self._shape(rows.n_features)
        self._n_features_out = self.n_cells**2 * self.n_orientations
        return self

    def transform(self, X: Any) -> Array:
        """Return the descriptors of the patches.

        Parameters
        ----------
        X : as in fit, (n_samples, n_features)
            Patches.

        Returns
        -------
        V : array of shape (n_samples, n_cells * n_cells * n_orientations)
            Cell by cell, row by row of cells; in the library and on the device of X.
        """
        check_is_fitted(self, "patch_shape_")
        rows = check_rows(self, X, reset=False)
        histograms = GradientHistograms(
            *self.patch_shape_,
            n_cells=self.n_cells,
            n_orientations=self.n_orientations,
            clip=float(self.clip),
            floor=float(self.floor),
        )
        return transform_rows(histograms.describe, rows)

    def _shape(self, n: int) -> tuple[int, int, int]:
        """Return height, width and channels of patches of n numbers."""
        if self.patch_shape is not None:
            shape = tuple(self.patch_shape)
            whole = len(shape) == 3 and all(isinstance(s, Integral) and s > 0 for s in shape)
            if not whole or shape[0] * shape[1] * shape[2] != n:
                raise ValueError(
                    f"patch_shape={self.patch_shape} must be (height, width, channels) of a patch of "
                    f"{n} numbers"
                )
            return (int(shape[0]), int(shape[1]), int(shape[2]))
        for channels in (1, 3):  # squares, grey or in colours
            side = isqrt(n // channels)
            if channels * side * side == n:
                return (side, side, channels)
        raise ValueError(
            f"rows of {n} numbers are not square patches of one or three channels; give "
            "patch_shape=(height, width, channels)"
        )
