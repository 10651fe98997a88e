"""Patches x after every step: raw, normalised, whitened, and ``(dᵀx) d`` of the best filter d."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from clusterica.arrays import to_host
from clusterica.display._learned import of_region, picture_shape, refuse_pipeline, turned_to_zca
from clusterica.display._mpl import draw_rows_of_tiles
from clusterica.display._tiles import image_shape, lay_out

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LABELS = {"raw": "raw", "normalized": "normalised", "whitened": "whitened"}
_BEST = "best filter"


class StagesDisplay:
    """Patches after every step of :class:`~clusterica.images.ImageFeatures`, one patch per column.

    What to look for [1]_: after normalisation, patches of equal contrast; after whitening, sharp edges, no
    noise (a larger eps helps) and no smooth gradients (a smaller eps helps). The last line approximates
    each whitened patch by its best filter, on the same grey scale.

    Make one with :meth:`from_estimator`, or from patches by the names of the steps.

    Parameters
    ----------
    stages : dict of str to array of shape (n_patches, n_features)
        Rows of pixels, by the name of the step they come from, in the order of the steps. The values of
        "raw" fill the range of greys; zero is grey in all other steps.
    shape : tuple (height, width) or (height, width, 3), default=None
        Shape of a patch as a picture, by default a square.

    Attributes
    ----------
    image_ : matplotlib AxesImage
        The picture.
    ax_ : matplotlib Axes
        Axes with the picture; their labels name the steps.
    figure_ : matplotlib Figure
        Figure that holds them.

    References
    ----------
    .. [1] A. Coates and A. Y. Ng, "Learning feature representations with K-means", 2012, section 2.1.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from clusterica.datasets import load_digits_images
    >>> from clusterica.display import StagesDisplay
    >>> from clusterica.images import ImageFeatures, sample_patches
    >>> X = load_digits_images().images
    >>> features = ImageFeatures(16, patch_size=4, n_patches=5000, random_state=0).fit(X)
    >>> patches = sample_patches(X, 12, patch_size=4, random_state=1)
    >>> display = StagesDisplay.from_estimator(features, patches, ax=Figure().subplots())
    >>> list(display.stages)
    ['raw', 'normalized', 'whitened', 'best filter']
    """

    def __init__(
        self, stages: Mapping[str, ArrayLike], *, shape: tuple[int, ...] | None = None
    ) -> None:
        self.stages = stages
        self.shape = shape

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        patches: Any,
        *,
        max_patches: int = 16,
        region: int = 0,
        title: str | None = None,
        ax: Axes | None = None,
    ) -> StagesDisplay:
        """Show patches after every step of fitted image features.

        Parameters
        ----------
        estimator : ImageFeatures
            Fitted.
        patches : array of shape (n_patches, patch_size * patch_size * channels)
            Rows of pixels, for example from :func:`~clusterica.images.sample_patches`.
        max_patches : int, default=16
            Maximum number of patches to show; the first ones are shown.
        region : int, default=0
            Index of the region, if there are filters for several regions.
        title : str, default=None
            Title of the axes.
        ax : matplotlib Axes, default=None
            Where to draw; a new figure by default.

        Returns
        -------
        StagesDisplay
        """
        if max_patches < 1:
            raise ValueError(f"max_patches is {max_patches!r}; it must be at least 1.")
        refuse_pipeline(estimator)
        # Only those that are drawn are processed.
        found = estimator.stages(patches[:max_patches], region=region)
        # In the order of the steps; codes are left out, since they do not look like patches.
        rows = {name: np.asarray(to_host(found[name])) for name in _LABELS if name in found}
        filters = of_region(getattr(estimator, "filters_", None), region)
        if filters is not None:
            # Each row of the last step as a multiple of the filter with the largest absolute response. A
            # filter of zeros has no direction, and explains nothing.
            last, D = list(rows.values())[-1], np.asarray(to_host(filters))
            lengths = np.linalg.norm(D, axis=1, keepdims=True)
            D = np.divide(D, lengths, out=np.zeros_like(D), where=lengths > 0)
            gains = last @ D.T
            best = np.abs(gains).argmax(axis=1)
            rows[_BEST] = gains[np.arange(len(last)), best, np.newaxis] * D[best]
        # Coordinates of PCA do not look like a patch; those of ZCA do.
        for name in {"whitened", _BEST} & set(rows):
            rows[name] = turned_to_zca(rows[name], of_region(estimator.whitener_, region))
        n_features = rows["raw"].shape[1]
        # A step that changes the number of features leaves nothing that looks like a patch.
        shown = {name: values for name, values in rows.items() if values.shape[1] == n_features}
        return cls(shown, shape=picture_shape(estimator.patch_shape_)).plot(ax=ax, title=title)

    def plot(
        self, *, ax: Axes | None = None, pad: int = 1, title: str | None = None
    ) -> StagesDisplay:
        """Draw a line of tiles for every step.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new figure by default.
        pad : int, default=1
            Pixels between tiles.
        title : str, default=None
            Title of the axes.

        Returns
        -------
        StagesDisplay
            Itself, with ``image_``, ``ax_`` and ``figure_``.
        """
        rows = {name: np.asarray(values, np.float64) for name, values in self.stages.items()}
        sizes = {values.shape for values in rows.values()}
        if len(sizes) != 1 or len(next(iter(sizes))) != 2:
            raise ValueError(
                f"stages have the shapes {sorted(sizes)}; all must have one, (n_patches, n_features)."
            )
        ((n, n_features),) = sizes
        # One line of tiles for each step, with as many columns as patches.
        shape = image_shape(n_features, shape=self.shape)
        greys, peak = [], 0.0
        for name, values in rows.items():
            if name == "raw":  # pixels, by their range
                low, width = values.min(), np.ptp(values)
                greys.append((values - low) / width if width > 0 else np.full_like(values, 0.5))
                continue
            # Around zero, which is grey. The best filter has the scale of the whitened patch, so that the two
            # can be compared.
            if name != _BEST or peak == 0.0:
                # The few beyond are black or white.
                peak = float(np.quantile(np.abs(values), 0.995))
            greys.append(0.5 + np.clip(values / peak, -1, 1) / 2 if peak > 0 else 0 * values + 0.5)
        picture = lay_out(np.concatenate(greys), shape=shape, n_columns=n, pad=pad)
        self.image_ = draw_rows_of_tiles(
            picture,
            [_LABELS.get(name, name) for name in rows],
            ax=ax,
            what="StagesDisplay",
            title=title,
            tile_height=shape[0],
            pad=pad,
        )
        self.ax_ = self.image_.axes
        self.figure_ = self.ax_.figure
        return self
