"""What the experiments of Coates & Ng on sparse images and natural patches share: devices, panels, tiles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from clusterica.arrays import on_torch_device
from clusterica.display import tile_images
from clusterica.experiments._context import Context

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GAP = "#a9bcd3"  # between tiles: neither black nor white, which atoms have at their borders


def place(ctx: Context, X: np.ndarray) -> Any:
    """Return rows on the device of the run, or as they are where it has none.

    Parameters
    ----------
    ctx : Context
        Circumstances of the run.
    X : ndarray
        Rows in host memory.

    Returns
    -------
    ndarray or torch tensor
    """
    return X if ctx.device is None else on_torch_device(X, ctx.device)


def panel_grid(
    n_rows: int, n_columns: int, *, width: float, height: float
) -> tuple[Figure, list[list[Axes]]]:
    """Make a figure with panels in rows.

    Parameters
    ----------
    n_rows, n_columns : int
        Number of rows, and of panels in each.
    width, height : float
        Size of the figure in inches; an inch is 150 pixels.

    Returns
    -------
    figure : matplotlib Figure
    panels : list of lists of matplotlib Axes
        A list for every row.
    """
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    layout = ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08)
    figure = Figure(figsize=(width, height), dpi=150, layout=layout)
    grid = figure.subplots(n_rows, n_columns, squeeze=False)
    return figure, [list(row) for row in grid]


def draw_tiles(
    ax: Axes,
    rows: np.ndarray,
    *,
    title: str,
    shape: tuple[int, ...] | None = None,
    n_columns: int | None = None,
) -> None:
    """Draw rows as tiles, each scaled to its own range, with grey for zero.

    Parameters
    ----------
    ax : matplotlib Axes
        Where to draw.
    rows : ndarray of shape (n_tiles, n_pixels)
        One tile a row.
    title : str
        Title of the panel.
    shape : tuple (height, width), default=None
        Shape of a tile, by default a square.
    n_columns : int, default=None
        Number of tiles side by side.
    """
    picture = tile_images(rows, shape=shape, n_columns=n_columns, background=np.nan)
    ax.set_facecolor(GAP)  # NaN is drawn as nothing
    ax.imshow(picture, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    ax.set(xticks=[], yticks=[], title=title)
    ax.spines[:].set_visible(False)
