"""A scatter plot of two-dimensional rows x, with each centroid d as an arrow from the origin or the mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from clusterica.arrays import to_host
from clusterica.display._learned import learned_centers
from clusterica.display._mpl import axes_or_new

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class CentersDisplay:
    """A scatter plot of rows with two features, and the centroids learned from them.

    Make one with :meth:`from_estimator`, or from a matrix of rows and one of centroids.

    Parameters
    ----------
    X : array of shape (n_samples, 2)
        Rows.
    centers : array of shape (n_clusters, 2)
        Centroids.
    origin : array of shape (2,), default=(0, 0)
        Start of the arrows; centroids are relative to it.

    Attributes
    ----------
    points_ : matplotlib PathCollection
        The rows.
    arrows_ : list of matplotlib Annotation
        One arrow per centroid.
    ax_ : matplotlib Axes
        Axes with both.
    figure_ : matplotlib Figure
        Figure that holds them.
    """

    def __init__(self, X: ArrayLike, centers: ArrayLike, *, origin: ArrayLike = (0.0, 0.0)) -> None:
        self.X = X
        self.centers = centers
        self.origin = origin

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        max_points: int = 3000,
        length: float | None = None,
        title: str | None = None,
        ax: Axes | None = None,
    ) -> CentersDisplay:
        """Show the centroids of a fitted estimator on its rows.

        Parameters
        ----------
        estimator : object
            An estimator fitted on two features, with ``cluster_centers_``, ``components_``, or both
            signs of every source in ``mixing_centroids_``. Arrows begin at its ``mean_``, where it has one.
        X : array of shape (n_samples, 2)
            Rows to show.
        max_points : int, default=3000
            Maximum number of rows to draw; of more, an evenly spaced subset is drawn.
        length : float, default=None
            Length of the arrows, for centroids that are directions. By default an arrow ends at
            its centroid.
        title : str, default=None
            Title of the axes.
        ax : matplotlib Axes, default=None
            Where to draw; a new figure by default.

        Returns
        -------
        CentersDisplay
        """
        # Filters of centred data are relative to the mean.
        centers, mean = learned_centers(estimator), getattr(estimator, "mean_", None)
        display = cls(to_host(X), centers, origin=(0.0, 0.0) if mean is None else to_host(mean))
        return display.plot(ax=ax, max_points=max_points, length=length, title=title)

    def plot(
        self,
        *,
        ax: Axes | None = None,
        max_points: int = 3000,
        length: float | None = None,
        title: str | None = None,
    ) -> CentersDisplay:
        """Draw the rows and the arrows.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new figure by default.
        max_points : int, default=3000
            Maximum number of rows to draw; of more, an evenly spaced subset is drawn.
        length : float, default=None
            Length of the arrows; by default an arrow ends at its centroid.
        title : str, default=None
            Title of the axes.

        Returns
        -------
        CentersDisplay
            Itself, with ``points_``, ``arrows_``, ``ax_`` and ``figure_``.
        """
        rows, tips = _planar("X", self.X), _planar("centers", self.centers)
        if max_points < 1:
            raise ValueError(f"max_points is {max_points!r}; it must be at least 1.")
        if length is not None:
            # Directions: their own lengths mean nothing next to the rows.
            tips = length * tips / np.linalg.norm(tips, axis=1, keepdims=True)
        origin = np.asarray(self.origin, dtype=np.float64)
        # Every so many rows, not the first ones: rows may be sorted.
        shown = rows[:: -(-len(rows) // max_points)]

        self.ax_ = axes_or_new(ax, what="CentersDisplay")
        self.figure_ = self.ax_.figure
        self.points_ = self.ax_.scatter(
            shown[:, 0], shown[:, 1], s=4, alpha=0.35, linewidths=0, color="#4c78a8"
        )
        # Annotations, not quiver: their heads keep a size that is independent of the scale of the data.
        style = {
            "arrowstyle": "-|>",
            "color": "#d62728",
            "linewidth": 2.2,
            "shrinkA": 0,
            "shrinkB": 0,
        }
        self.arrows_ = [
            self.ax_.annotate("", tuple(origin + tip), tuple(origin), arrowprops=style)
            for tip in tips
        ]
        # The axes are centred on the origin. A few outliers of a heavy tail may fall outside, else the rest
        # would be too small to see.
        reach = max(np.quantile(np.abs(shown - origin), 0.998), np.abs(tips).max()) * 1.08
        x, y = origin
        self.ax_.set(xlim=(x - reach, x + reach), ylim=(y - reach, y + reach), aspect="equal")
        self.ax_.axhline(y, color="0.75", linewidth=0.6, zorder=0)
        self.ax_.axvline(x, color="0.75", linewidth=0.6, zorder=0)
        if title is not None:
            self.ax_.set_title(title)
        return self


def _planar(name: str, rows: ArrayLike) -> np.ndarray:
    """Return rows as an array; raise an error if they do not have two features."""
    array = np.asarray(rows, dtype=np.float64)
    if array.ndim != 2 or array.shape[1] != 2 or len(array) == 0:
        raise ValueError(
            f"{name} has shape {array.shape}; CentersDisplay draws rows of two features. "
            "Choose two columns, or use FiltersDisplay."
        )
    return array
