"""Sizes of clusters in decreasing order, on a logarithmic scale: n_(1) >= n_(2) >= ... >= n_(k)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from clusterica.cluster import cluster_sizes, near_empty
from clusterica.display._learned import of_region, refuse_pipeline
from clusterica.display._mpl import axes_or_new

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class ClusterSizesDisplay:
    """Sizes of clusters from the largest to the smallest, with nearly empty ones marked.

    A cluster is near-empty if it holds one row, or less than a hundredth of the mean size. Many such
    clusters mean that whitening or normalisation are badly set, that there are too many features, or
    too few rows [1]_.

    Make one with :meth:`from_estimator`, or from the sizes.

    Parameters
    ----------
    sizes : array of shape (n_clusters,)
        Number of rows of each cluster, in any order.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The sizes.
    ax_ : matplotlib Axes
        Axes with the line.
    figure_ : matplotlib Figure
        Figure that holds them.

    References
    ----------
    .. [1] A. Coates and A. Y. Ng, "Learning feature representations with K-means", 2012, sections 2.2
       and 3.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from clusterica.display import ClusterSizesDisplay
    >>> ClusterSizesDisplay([400, 1, 250, 0]).plot(ax=Figure().subplots()).ax_.get_title()
    '2 of 4 clusters near-empty (50 %)'
    """

    def __init__(self, sizes: ArrayLike) -> None:
        self.sizes = sizes

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, region: int = 0, title: str | None = None, ax: Axes | None = None
    ) -> ClusterSizesDisplay:
        """Show the clusters of a fitted estimator.

        Parameters
        ----------
        estimator : object
            A clusterer with ``counts_`` or ``labels_``, or image features that learned with one.
        region : int, default=0
            Index of the region, if image features have filters for several regions.
        title : str, default=None
            Title of the axes, by default the share of near-empty clusters.
        ax : matplotlib Axes, default=None
            Where to draw; a new figure by default.

        Returns
        -------
        ClusterSizesDisplay
        """
        check_is_fitted(estimator)
        refuse_pipeline(estimator)
        # Image features keep the clusterer, one for each region.
        learner = of_region(getattr(estimator, "learner_", estimator), region)
        sizes = cluster_sizes(learner)
        if sizes is None:
            raise TypeError(
                f"{type(estimator).__name__} has no clusters to count: there is neither counts_ nor "
                "labels_ with cluster_centers_. Fit a clusterer, with labels."
            )
        return cls(sizes).plot(ax=ax, title=title)

    def plot(self, *, ax: Axes | None = None, title: str | None = None) -> ClusterSizesDisplay:
        """Draw the sizes.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new figure by default.
        title : str, default=None
            Title of the axes, by default the share of near-empty clusters.

        Returns
        -------
        ClusterSizesDisplay
            Itself, with ``line_``, ``ax_`` and ``figure_``.
        """
        sizes = np.sort(np.asarray(self.sizes, dtype=np.float64))[::-1]
        if sizes.ndim != 1 or sizes.size == 0 or not (sizes >= 0).all():
            raise ValueError(
                f"sizes has shape {sizes.shape}; it must hold the number of rows of each cluster, "
                "none below zero."
            )
        ranks, few = np.arange(1, len(sizes) + 1), near_empty(sizes)
        self.ax_ = axes_or_new(ax, what="ClusterSizesDisplay")
        self.figure_ = self.ax_.figure
        # Steps and not bars: there may be thousands of clusters.
        (self.line_,) = self.ax_.step(ranks, sizes, where="mid", color="#2f5d8c", linewidth=1.8)
        # The mean is what "near-empty" is relative to.
        self.ax_.axhline(sizes.mean(), color="0.55", linewidth=0.9, linestyle=(0, (4, 3)))
        self.ax_.annotate(
            "mean",
            (1, sizes.mean()),
            xycoords=("axes fraction", "data"),
            xytext=(-3, 3),
            textcoords="offset points",
            ha="right",
            fontsize="small",
            color="0.35",
        )
        if few.any():
            # Sizes fall, so near-empty clusters are at the end.
            start = ranks[few][0] - 0.5
            self.ax_.axvspan(start, len(sizes) + 0.5, color="#e45756", alpha=0.15, linewidth=0)
        self.ax_.set_yscale("symlog", linthresh=1)  # as a logarithm, and with a place for zero
        self.ax_.set(xlim=(0.5, len(sizes) + 0.5), ylim=(0, 2 * max(sizes[0], 1)))
        self.ax_.set(xlabel="clusters, largest first", ylabel="rows")
        share = round(100 * float(few.mean()), 1)
        default = f"{few.sum()} of {len(few)} clusters near-empty ({share:g} %)"
        self.ax_.set_title(default if title is None else title)
        return self
