"""A figure with panels side by side, without pyplot and its windows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def side_by_side(n_panels: int, *, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """Make a figure with panels in a row.

    Parameters
    ----------
    n_panels : int
        Number of panels.
    width, height : float
        Size of the figure in inches; an inch is 150 pixels.

    Returns
    -------
    figure : matplotlib Figure
    panels : list of matplotlib Axes
    """
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    layout = ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08)
    figure = Figure(figsize=(width, height), dpi=150, layout=layout)
    return figure, list(figure.subplots(1, n_panels, squeeze=False)[0])
