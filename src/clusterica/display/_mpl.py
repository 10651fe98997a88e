"""Checks that matplotlib is installed, creates axes, and draws rows of tiles on them."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage


def check_matplotlib(what: str) -> None:
    """Raise an error if matplotlib is not installed.

    Parameters
    ----------
    what : str
        What needs matplotlib; the message starts with it.
    """
    try:
        found = importlib.util.find_spec("matplotlib") is not None
    except ValueError:  # a half-initialised or blocked module
        found = False
    if not found:
        raise ImportError(
            f"{what} needs matplotlib, which is not installed. "
            'Install it with: pip install "clusterica[plot]"'
        )


def axes_or_new(ax: Axes | None, *, what: str, size: tuple[float, float] | None = None) -> Axes:
    """Return the given axes, or those of a new pyplot figure, of a size in inches."""
    check_matplotlib(what)
    if ax is not None:
        return ax
    # Only here: pyplot chooses a backend, which may need a screen.
    from matplotlib import pyplot

    return pyplot.subplots(figsize=size, layout="constrained")[1]


def draw_rows_of_tiles(
    picture: np.ndarray,
    names: Sequence[str],
    *,
    ax: Axes | None,
    what: str,
    title: str | None,
    tile_height: int,
    pad: int,
) -> AxesImage:
    """Draw tiles with a name at the left of each row.

    Parameters
    ----------
    picture : ndarray of shape (height, width) or (height, width, 3)
        The tiles as one image, of :func:`clusterica.display.tile_images`.
    names : sequence of str
        Names of the rows.
    ax : matplotlib Axes or None
        Where to draw; None makes a figure that is as wide and low as the picture.
    what : str
        Name of the display, for the error if matplotlib is missing.
    title : str or None
        Title of the axes.
    tile_height, pad : int
        Pixels of a tile and between tiles.
    """
    height = 0.6 + 7.0 * picture.shape[0] / picture.shape[1]
    ax = axes_or_new(ax, what=what, size=(8.0, height))
    image = ax.imshow(picture, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    middles = pad + tile_height / 2 - 0.5 + (tile_height + pad) * np.arange(len(names))
    ax.set_yticks(middles, names)
    ax.set_xticks([])
    ax.tick_params(axis="y", length=0)
    ax.spines[:].set_visible(False)
    if title is not None:
        ax.set_title(title)
    return image
