"""Checks that matplotlib is installed, and creates axes."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
