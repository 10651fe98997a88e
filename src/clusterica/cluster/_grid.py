"""One column on a grid, by two walks over its rows: where they lie, then their weights at the nodes."""

from __future__ import annotations

from functools import partial
from math import floor, sqrt

import numpy as np

from clusterica.arrays import Rows, map_reduce, to_host
from clusterica.cluster._scale_space import GridDensity
from clusterica.ops.density import (
    Spread,
    Summary,
    n_cells_of_spread,
    node_weights,
    spread,
    summarize,
)

_FEWEST_NODES, MOST_NODES = 2**12, 2**17
_STEPS_PER_SIGMA = 32  # as long as the most nodes suffice
_STEPS_PER_SIGMA_OR_TAILS = 8  # with fewer, the tails are left out
_FEWEST_STEPS_PER_SIGMA = 4
# Empty room at each end, in sigmas: the FFT joins the ends, and nothing of one must reach the other.
_ROOM = 8.0
_TAIL = 0.001  # share of the rows at each end that may be left out


def summary_of(rows: Rows, weights: np.ndarray) -> Summary:
    """Return where the rows of one column lie; a column of one value gets a standard deviation."""
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            summary = _summary(rows, weights)
        too_large = not np.isfinite(summary.variance)
    except OverflowError:
        too_large = True
    if too_large:
        raise ValueError(
            "the rows are so large that their squares overflow; scale them down, for instance divide X by "
            "its largest absolute value"
        )
    return summary


def _summary(rows: Rows, weights: np.ndarray) -> Summary:
    glance = rows.glance().astype(np.float64)
    about = float(np.median(glance))
    summary = _summary_about(rows, weights, about, float(np.std(glance)))
    if summary.variance < 1e-4 * (summary.mean - about) ** 2:
        # The rows that were glanced at lie apart from the others; they have no weight, perhaps.
        summary = _summary_about(rows, weights, summary.mean, sqrt(summary.variance))
    size = abs(summary.mean)
    if sqrt(summary.variance) > 4 * np.finfo(rows.dtype).eps * size:
        return summary
    point = (summary.mean, summary.mean)
    width = size if size > 1e-100 else 1.0  # its square must not vanish
    return Summary(summary.n, summary.mean, width**2, width, point, point, point)


def _summary_about(rows: Rows, weights: np.ndarray, about: float, width: float) -> Summary:
    # Cells are finest near `about`: far finer than the width, but not than the last digit.
    unit = max(1e-9 * width, float(np.spacing(abs(about))), 1e-300)
    fn = partial(spread, n_cells=n_cells_of_spread(unit))
    place = np.array([about]), np.array([unit])
    total = map_reduce(fn, rows, *place, aligned=(weights,), row_bytes=64)
    total = Spread(*(np.asarray(to_host(sums)) for sums in total))
    return summarize(total, about=about, unit=unit, tail=_TAIL)


def binned(
    rows: Rows, weights: np.ndarray, summary: Summary, *, fine: float, wide: float
) -> GridDensity:
    """Return the rows on a grid that suits Gaussians from the fine to the wide sigma."""
    low, high = summary.ends
    resolution = 8 * np.finfo(np.float64).eps * max(abs(low), abs(high))
    fine, wide = max(fine, resolution), max(wide, resolution)
    n_nodes, step = _nodes(high - low, fine, wide)
    if step > fine / _STEPS_PER_SIGMA_OR_TAILS:
        low, high = summary.tails
        n_nodes, step = _nodes(high - low, fine, wide)
    empty = floor((n_nodes - 1 - (high - low) / step) / 2)  # nodes at each end
    first = low - empty * step
    fn = partial(node_weights, n_nodes=n_nodes)
    place = np.array([first]), np.array([step])
    total = map_reduce(fn, rows, *place, aligned=(weights,), row_bytes=64)
    weight = np.array(to_host(total.weight))
    weight[: max(0, empty - 1)] = weight[n_nodes + 1 - empty :] = 0.0
    return GridDensity(first, step, weight)


def finest_sigma(density: GridDensity) -> float:
    """Return the smallest sigma that a grid can show."""
    return _FEWEST_STEPS_PER_SIGMA * density.step


def _nodes(length: float, fine: float, wide: float) -> tuple[int, float]:
    """Return how many nodes to take for data of some length, and their distance."""
    reached = length + 2 * _ROOM * wide
    wanted = reached / fine * _STEPS_PER_SIGMA
    n_nodes = _FEWEST_NODES
    while n_nodes < min(wanted, MOST_NODES):
        n_nodes *= 2
    # Where this is too coarse for the sigma, the finest sigma needs its room at the ends, too.
    room = 2 * _ROOM * _FEWEST_STEPS_PER_SIGMA
    return n_nodes, max(reached / (n_nodes - 1), length / (n_nodes - 1 - room))
