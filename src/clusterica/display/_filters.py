"""An image of learned filters: centroids d, or their pixel-space filters Wᵀd and patterns W⁻¹d."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from clusterica.arrays import to_host
from clusterica.display._learned import (
    image_filters,
    learned_patterns,
    learned_rows,
    picture_shape,
    turned_to_zca,
)
from clusterica.display._mpl import axes_or_new
from clusterica.display._tiles import tile_images

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWS = ("patterns", "filters", "whitened")


class FiltersDisplay:
    """Learned filters as tiles of one image.

    Make one with :meth:`from_estimator`, or from any matrix with one filter per row.

    Parameters
    ----------
    filters : array of shape (n_filters, n_features)
        One filter per row.
    shape : tuple (height, width) or (height, width, 3), default=None
        Shape of a filter as a picture, by default a square.

    Attributes
    ----------
    image_ : matplotlib AxesImage
        The picture.
    ax_ : matplotlib Axes
        Axes with the picture.
    figure_ : matplotlib Figure
        Figure that holds them.
    """

    def __init__(self, filters: ArrayLike, *, shape: tuple[int, ...] | None = None) -> None:
        self.filters = filters
        self.shape = shape

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        whitener: Any = None,
        show: str = "patterns",
        shape: tuple[int, ...] | None = None,
        region: int = 0,
        n_columns: int | None = None,
        scale: str = "each",
        title: str | None = None,
        ax: Axes | None = None,
    ) -> FiltersDisplay:
        """Show the filters of a fitted estimator.

        Parameters
        ----------
        estimator : object
            A fitted estimator with ``cluster_centers_`` or ``components_``, such as a clusterer or an
            ICA, or :class:`~clusterica.images.ImageFeatures`, which has a whitener of its own.
        whitener : Whitener, default=None
            The fitted whitener whose output the estimator saw. With it, the rows are brought
            back to pixels; without it, they are shown as they are, which suits ZCA whitening.
        show : {"patterns", "filters", "whitened"}, default="patterns"
            Of an ICA, the columns of ``mixing_`` or the rows of ``components_``. With a whitener,
            the pattern of pixels that whitens to a row d, the filter of pixels whose response is
            that of d to the whitened pixels, or d itself, in the space of whitened pixels. Filters
            carry the high frequencies that whitening amplifies. Without either all are the same.
        shape : tuple (height, width) or (height, width, 3), default=None
            Shape of a filter as a picture, by default that of the patches of image features, else a
            square.
        region : int, default=0
            Index of the region, if image features have filters for several regions.
        n_columns : int, default=None
            Number of tiles side by side.
        scale : {"each", "all"}, default="each"
            Whether each filter fills the range of greys, or the strongest one does.
        title : str, default=None
            Title of the axes.
        ax : matplotlib Axes, default=None
            Where to draw; a new figure by default.

        Returns
        -------
        FiltersDisplay
        """
        _check_show(show)
        if hasattr(estimator, "patch_shape_"):  # fitted image features
            # They have a whitener of their own, so that no other is needed to show pixels.
            rows = image_filters(estimator, show=show, region=region)
            shape = picture_shape(estimator.patch_shape_) if shape is None else shape
        else:
            # For an ICA the two differ; for a clusterer both are its centres.
            rows = learned_patterns(estimator) if show == "patterns" else learned_rows(estimator)
        if whitener is not None:
            rows = to_pixels(rows, whitener=whitener, show=show)
        display = cls(rows, shape=shape)
        return display.plot(ax=ax, n_columns=n_columns, scale=scale, title=title)

    def plot(
        self,
        *,
        ax: Axes | None = None,
        n_columns: int | None = None,
        pad: int = 1,
        scale: str = "each",
        title: str | None = None,
    ) -> FiltersDisplay:
        """Draw the tiles.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new figure by default.
        n_columns : int, default=None
            Number of tiles side by side.
        pad : int, default=1
            Pixels between tiles.
        scale : {"each", "all"}, default="each"
            Whether each filter fills the range of greys, or the strongest one does.
        title : str, default=None
            Title of the axes.

        Returns
        -------
        FiltersDisplay
            Itself, with ``image_``, ``ax_`` and ``figure_``.
        """
        picture = tile_images(
            self.filters, shape=self.shape, n_columns=n_columns, pad=pad, scale=scale
        )
        self.ax_ = axes_or_new(ax, what="FiltersDisplay")
        self.figure_ = self.ax_.figure
        # Fixed limits: a picture of weak filters must not be stretched to full contrast.
        self.image_ = self.ax_.imshow(picture, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        self.ax_.set_axis_off()
        if title is not None:
            self.ax_.set_title(title)
        return self


def to_pixels(rows: np.ndarray, *, whitener: Any, show: str) -> np.ndarray:
    """Bring rows of whitened space back to pixels, as patterns W⁻¹d or filters Wᵀd, or turn them to ZCA."""
    _check_show(show)
    if show == "whitened":
        return turned_to_zca(rows, whitener)
    # Vectors are rows here, so the matrices of the formula are transposed.
    back = whitener.dewhitening_.T if show == "patterns" else whitener.whitening_
    pixels: np.ndarray = rows @ to_host(back)
    return pixels


def _check_show(show: str) -> None:
    if show not in SHOWS:
        raise ValueError(f"show is {show!r}; it must be one of {', '.join(SHOWS)}.")
