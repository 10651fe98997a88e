"""A plot of the density f(x) of one column, cut into clusters at its valleys, with the rows below it."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from clusterica.arrays import to_host
from clusterica.display._mpl import axes_or_new

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Colours of the clusters below the curve, and darker ones of the classes below the axis.
_TINTS = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#72b7b2", "#e45756")
_MARKS = ("#1f2d50", "#b8360e", "#2f6b2a", "#7a3b73", "#2b7f7a", "#8c6d00")
_STRIP = 0.07  # height of a strip of rows, as a share of the height of the density


class DensityDisplay:
    """The density of one column, filled cluster by cluster, with its cuts and rows.

    Make one with :meth:`from_estimator`, or from a density on a grid.

    Parameters
    ----------
    grid : array of shape (n_nodes,)
        Values in increasing order.
    density : array of shape (n_nodes,)
        Density at each of them.
    valleys : array of shape (n_clusters - 1,), default=()
        Boundaries between the clusters.
    x : array of shape (n_samples,) or (n_samples, 1), default=None
        Rows to show below the density.
    y : array of shape (n_samples,), default=None
        Classes of the rows; each is drawn in its own strip, with its name at the left.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The density.
    fills_ : list of matplotlib PolyCollection
        The area of each cluster.
    cuts_ : list of matplotlib Line2D
        A dashed line at each valley.
    points_ : list of matplotlib Line2D
        The rows, one entry for each class.
    ax_ : matplotlib Axes
        Axes of the plot.
    figure_ : matplotlib Figure
        Figure that holds them.

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> from clusterica.cluster import DensityClusterer
    >>> from clusterica.display import DensityDisplay
    >>> X = np.random.default_rng(0).normal([0.0, 6.0], size=(100, 2)).reshape(-1, 1)
    >>> model = DensityClusterer().fit(X)
    >>> display = DensityDisplay.from_estimator(model, X, ax=Figure().subplots())
    >>> len(display.fills_), len(display.cuts_)
    (2, 1)
    """

    def __init__(
        self,
        grid: ArrayLike,
        density: ArrayLike,
        *,
        valleys: ArrayLike = (),
        x: ArrayLike | None = None,
        y: ArrayLike | None = None,
    ) -> None:
        self.grid = grid
        self.density = density
        self.valleys = valleys
        self.x = x
        self.y = y

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        *,
        y: ArrayLike | None = None,
        max_points: int = 3000,
        title: str | None = None,
        ax: Axes | None = None,
    ) -> DensityDisplay:
        """Show the density that a clusterer estimated, and where it cut it.

        Parameters
        ----------
        estimator : DensityClusterer or Pipeline
            A fitted clusterer, or a fitted pipeline that ends in one.
        X : array of shape (n_samples, n_features), default=None
            Rows to show below the density. The steps of a pipeline before the clusterer project them.
        y : array of shape (n_samples,), default=None
            Classes of the rows; each is drawn in its own strip, with its name at the left.
        max_points : int, default=3000
            Maximum number of rows to draw; of more, an evenly spaced subset is drawn.
        title : str, default=None
            Title of the axes.
        ax : matplotlib Axes, default=None
            Where to draw; a new figure by default.

        Returns
        -------
        DensityDisplay
        """
        steps = None
        if isinstance(estimator, Pipeline):
            steps, estimator = estimator[:-1], estimator[-1]
        check_is_fitted(estimator)
        if not hasattr(estimator, "density_"):
            raise TypeError(
                f"{type(estimator).__name__} has no density_ to show; pass a DensityClusterer, or a "
                "pipeline that ends in one."
            )
        # A pipeline of the clusterer alone has no step to project by.
        if X is not None and steps is not None and len(steps):
            X = steps.transform(X)
        # Tensors on a device can be drawn too.
        x = None if X is None else to_host(X)
        parts = (to_host(a) for a in (estimator.grid_, estimator.density_, estimator.valleys_))
        grid, density, valleys = parts
        display = cls(grid, density, valleys=valleys, x=x, y=y)
        return display.plot(ax=ax, max_points=max_points, title=title)

    def plot(
        self, *, ax: Axes | None = None, max_points: int = 3000, title: str | None = None
    ) -> DensityDisplay:
        """Draw the density, its cuts and the rows.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new figure by default.
        max_points : int, default=3000
            Maximum number of rows to draw; of more, an evenly spaced subset is drawn.
        title : str, default=None
            Title of the axes.

        Returns
        -------
        DensityDisplay
            Itself, with ``line_``, ``fills_``, ``cuts_``, ``points_``, ``ax_`` and ``figure_``.
        """
        grid = np.asarray(self.grid, dtype=np.float64)
        density = np.asarray(self.density, dtype=np.float64)
        if grid.ndim != 1 or grid.shape != density.shape or len(grid) < 2:
            raise ValueError(
                f"grid and density have shapes {grid.shape} and {density.shape}; they must be one line of "
                "two or more values each, of the same length."
            )
        if not (np.isfinite(density).all() and density.max() > 0):
            raise ValueError("density must be finite, and positive somewhere.")
        strips = _strips(self.x, self.y, max_points)
        valleys = np.asarray(self.valleys, dtype=np.float64)

        self.ax_ = axes_or_new(ax, what="DensityDisplay")
        self.figure_ = self.ax_.figure
        self.fills_ = []
        for i, (left, right) in enumerate(pairwise([grid[0], *valleys, grid[-1]])):
            # A valley may lie between two nodes: the areas end exactly there.
            stretch = np.concatenate([[left], grid[(grid > left) & (grid < right)], [right]])
            height, tint = np.interp(stretch, grid, density), _TINTS[i % len(_TINTS)]
            fill = self.ax_.fill_between(stretch, height, color=tint, alpha=0.4, linewidth=0)
            self.fills_.append(fill)
        self.line_ = self.ax_.plot(grid, density, color="0.15", linewidth=1.4, zorder=3)[0]
        self.cuts_ = [
            self.ax_.axvline(cut, color="0.3", linewidth=1, linestyle=(0, (5, 3)), zorder=2)
            for cut in valleys
        ]
        self.points_ = self._draw_rows(strips, grid, density, valleys)
        if title is not None:
            self.ax_.set_title(title)
        return self

    def _draw_rows(
        self,
        strips: dict[str | None, np.ndarray],
        grid: np.ndarray,
        density: np.ndarray,
        valleys: np.ndarray,
    ) -> list[Any]:
        """Draw each class as a strip of small bars below the density, with its name at the left."""
        n_strips = len(strips)
        top = density.max()
        seen = grid[density > 2e-3 * top]  # less than a pixel high; long tails are cut off
        # Every valley is shown, even one in a tail that is cut off.
        ends = np.array([min(seen[0], *valleys, seen[0]), max(seen[-1], *valleys, seen[-1])])
        margin = 0.02 * (ends[1] - ends[0])
        ax = self.ax_
        ax.set(xlim=(ends[0] - margin, ends[1] + margin), ylabel="density")
        ax.set_ylim(-(n_strips + 0.4) * _STRIP * top if n_strips else 0.0, 1.08 * top)
        # Ticks below zero would look like densities of the strips.
        ax.set_yticks([tick for tick in ax.get_yticks() if 0 <= tick <= 1.08 * top])
        ax.axhline(0, color="0.15", linewidth=0.8, zorder=3)
        ax.spines[["top", "right"]].set_visible(False)
        points, heights = [], [-(i + 0.75) * _STRIP * top for i in range(len(strips))]
        # Without classes all rows are one strip, in grey.
        colors = ["0.25" if None in strips else _MARKS[i % len(_MARKS)] for i in range(len(strips))]
        for values, height, color in zip(strips.values(), heights, colors, strict=True):
            flat = np.full(len(values), height)
            points += self.ax_.plot(values, flat, "|", color=color, alpha=0.8, markersize=7)
        if self.y is not None:
            # Minor ticks: the major ones are those of the density.
            self.ax_.set_yticks(heights, [str(name) for name in strips], minor=True)
            self.ax_.tick_params(axis="y", which="minor", length=0, labelsize="small")
            for text, color in zip(self.ax_.get_yticklabels(minor=True), colors, strict=True):
                text.set_color(color)
        return points


def _strips(
    x: ArrayLike | None, y: ArrayLike | None, max_points: int
) -> dict[str | None, np.ndarray]:
    """Return the rows to show, by the name of their class; None without classes."""
    if max_points < 1:
        raise ValueError(f"max_points is {max_points!r}; it must be at least 1.")
    if x is None:
        if y is not None:
            raise ValueError("y names classes of rows, and there are none; pass X as well.")
        return {}
    rows = np.asarray(x, dtype=np.float64)
    if rows.ndim == 2 and rows.shape[1] == 1:
        rows = rows[:, 0]
    if rows.ndim != 1:
        raise ValueError(f"x has shape {rows.shape}; DensityDisplay draws one column.")
    # Every so many rows, not the first ones: rows may be sorted.
    every = slice(None, None, -(-len(rows) // max_points))
    if y is None:
        return {None: rows[every]}
    names = np.asarray(to_host(y))
    if names.shape != rows.shape:
        raise ValueError(
            f"y has shape {names.shape}; it must have one class for each of {len(rows)} rows."
        )
    return {str(name): rows[every][names[every] == name] for name in np.unique(names)}
