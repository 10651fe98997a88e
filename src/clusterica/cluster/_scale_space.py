"""One column on a grid, and its modes under every smoothing: ``f_σ = f * φ_σ``, whose modes merge as σ grows.

Two walks over the rows put them on the grid: the first finds where they lie, the second adds their
weights at the nodes.
"""

from __future__ import annotations

from functools import partial
from itertools import groupby
from math import exp, floor, log, sqrt
from typing import NamedTuple

import numpy as np

from clusterica.arrays import Rows, map_reduce, to_host
from clusterica.ops.density import (
    Merge,
    Spread,
    Summary,
    Turns,
    merges,
    n_cells_of_spread,
    node_weights,
    smoothed,
    spectrum_of,
    spread,
    standard_errors,
    summarize,
    turns,
)

# Powers of two, for the FFT; the largest grid takes a MiB.
_FEWEST_NODES, MOST_NODES = 2**12, 2**17
# The error of the binning is at most (step / sigma)^2 / 8, here 0.8 % of the height of the Gaussian.
_FEWEST_STEPS_PER_SIGMA = 4


class Level(NamedTuple):
    """A density at one smoothing, with its modes and how they merge.

    ``real`` marks the valleys that are deeper than the error of the binning, and ``counts`` those that count
    where a rule chooses the smoothing. At each valley two modes meet; ``merge`` describes the lower one.
    """

    sigma: float
    f: np.ndarray
    step: float
    turns: Turns
    merge: Merge
    real: np.ndarray
    counts: np.ndarray

    @property
    def n_modes(self) -> int:
        """Number of modes."""
        return 1 + int(self.real.sum())

    def strongest(self, n: int) -> np.ndarray:
        """Return which valleys to cut at for the n modes that stand out most."""
        # Those that count come before those that do not, whatever their height.
        order = np.lexsort((-self.merge.persistence, ~self.counts, ~self.real))
        chosen = np.zeros(len(order), dtype=bool)
        chosen[order[: n - 1]] = True
        return chosen


class GridDensity:
    """Weights on the nodes ``low + j step`` of a grid, to be smoothed by a Gaussian of any width.

    Parameters
    ----------
    low, step : float
        First node, and distance between nodes.
    weight : (n_nodes,) array
        Weights, zero for 8 times the largest sigma at both ends; n_nodes is a power of 2.
    """

    def __init__(self, low: float, step: float, weight: np.ndarray) -> None:
        self.low, self.step, self.weight = low, step, weight
        self.n = float(weight.sum())
        self._spectrum = spectrum_of(weight)
        self._below = np.cumsum(weight) / self.n

    def at(self, sigma: float, *, coarse: bool = False) -> Level:
        """Return the density smoothed by sigma, on all nodes or on as few as do."""
        n_nodes, stride = len(self.weight), 1
        # Eight nodes to a sigma are enough for a search: the error of the density is then under 1e-3 of it.
        while coarse and 2 * stride * self.step <= sigma / 8 and n_nodes > 64:
            n_nodes, stride = n_nodes // 2, 2 * stride
        f = smoothed(self._spectrum, self.step, sigma, n_nodes)
        t = turns(f)
        cuts = np.interp(stride * t.valleys, np.arange(len(self.weight)), self._below)
        merge = merges(t, np.diff(cuts, prepend=0.0, append=1.0))
        # Linear binning moves the second moment of a row by up to (step / 2)²; so much is not real.
        error = 1e-9 + (stride * self.step / (2 * sigma)) ** 2
        real = merge.persistence > error * merge.height
        # A mode counts if it holds 5 % of the rows, or stands 5 standard errors over its valley. Samples of
        # one normal, Laplace or Cauchy distribution rarely have a second mode that does.
        stands_out = standard_errors(merge, self.n, sigma) >= 5
        counts = real & ((merge.share >= 0.05) | stands_out)
        return Level(sigma, f, stride * self.step, t, merge, real, counts)

    def largest_sigma(self, n: int, low: float, high: float) -> float | None:
        """Return the largest sigma from low to high at which there are n modes or more, if any."""
        if self.at(low, coarse=True).n_modes < n:
            return None
        if self.at(high, coarse=True).n_modes >= n:
            return high
        for _ in range(20):  # bisection of log(sigma), to a millionth of its range
            middle = sqrt(low * high)
            if self.at(middle, coarse=True).n_modes >= n:
                low = middle
            else:
                high = middle
        return low


class Lifetime(NamedTuple):
    """A number of modes that lives from one smoothing to another."""

    n: int
    low: float
    high: float

    @property
    def length(self) -> float:
        """How long it lives, as the logarithm of the ratio of both sigmas."""
        return log(self.high / self.low)

    @property
    def middle(self) -> float:
        """The sigma half-way between, in the logarithm."""
        return sqrt(self.low * self.high)


def lifetimes(
    density: GridDensity, low: float, high: float, *, n_scales: int = 96
) -> list[Lifetime]:
    """Return how long each number of modes that count lives, from fine to coarse, at n_scales sigmas."""
    grid = np.exp(np.linspace(log(low), log(high), num=n_scales))
    half_step = exp(log(high / low) / (2 * (n_scales - 1)))
    numbers = [(1 + int(density.at(s, coarse=True).counts.sum()), s) for s in grid]
    runs = [(n, [s for _, s in run]) for n, run in groupby(numbers, key=lambda pair: pair[0])]
    return [Lifetime(n, max(low, s[0] / half_step), min(high, s[-1] * half_step)) for n, s in runs]


def longest_lived(density: GridDensity, low: float, high: float) -> Lifetime:
    """Return the number of modes that lives longest, which may be one.

    Two or more must live for a factor e of sigma, or there is one: the modes of noise live shorter.
    """
    found = lifetimes(density, low, high)
    best = max(found, key=lambda life: life.length)
    # In samples of one distribution, even a uniform one, a number of modes rarely lives longer than a factor
    # e of sigma.
    if best.n == 1 or best.length >= 1.0:
        return best
    ones = [life for life in found if life.n == 1]
    return max(ones, key=lambda life: life.length, default=Lifetime(1, high, high))


def summary_of(rows: Rows, weights: np.ndarray) -> Summary:
    """Return where the rows of one column lie; a column of one value gets a standard deviation."""
    glance = rows.glance().astype(np.float64)
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            about, width = float(np.median(glance)), float(np.std(glance))
            summary = _summary_about(rows, weights, about, width)
            if summary.variance < 1e-4 * (summary.mean - about) ** 2:
                # The sampled rows lie apart from the others; perhaps they have no weight.
                summary = _summary_about(rows, weights, summary.mean, sqrt(summary.variance))
        size = abs(summary.mean)
        if sqrt(summary.variance) <= 4 * np.finfo(rows.dtype).eps * size:
            # All rows are equal, up to rounding: their size stands in for a standard deviation.
            point = (summary.mean, summary.mean)
            width = size if size > 1e-100 else 1.0  # its square must not vanish
            summary = Summary(summary.n, summary.mean, width**2, width, point, point, point)
        too_large = not np.isfinite(summary.variance)
    except OverflowError:  # by powers of Python's numbers, where NumPy returns infinity
        too_large = True
    if too_large:
        raise ValueError(
            "the rows are so large that their squares overflow; scale them down, for instance divide X by "
            "its largest absolute value"
        )
    return summary


def _summary_about(rows: Rows, weights: np.ndarray, about: float, width: float) -> Summary:
    # Cells are finest near `about`: far finer than the width, but not than the last digit.
    unit = max(1e-9 * width, float(np.spacing(abs(about))), 1e-300)
    fn = partial(spread, n_cells=n_cells_of_spread(unit))
    total = map_reduce(fn, rows, np.array([about]), np.array([unit]), aligned=(weights,))
    total = Spread(*(np.asarray(to_host(sums)) for sums in total))
    return summarize(total, about=about, unit=unit, tail=0.001)  # may be left out at each end


def binned(
    rows: Rows, weights: np.ndarray, summary: Summary, *, fine: float, wide: float
) -> GridDensity:
    """Return the rows on a grid that suits Gaussians from the fine to the wide sigma."""
    low, high = summary.ends
    resolution = 8 * np.finfo(np.float64).eps * max(abs(low), abs(high))
    fine, wide = max(fine, resolution), max(wide, resolution)
    n_nodes, step = _nodes(high - low, fine, wide)
    if step > fine / 8:
        # A few far values make the range: the grid shows the rows without the tails.
        low, high = summary.tails
        n_nodes, step = _nodes(high - low, fine, wide)
    empty = floor((n_nodes - 1 - (high - low) / step) / 2)  # nodes at each end
    first = low - empty * step
    fn = partial(node_weights, n_nodes=n_nodes)
    total = map_reduce(fn, rows, np.array([first]), np.array([step]), aligned=(weights,))
    weight = np.array(to_host(total.weight))
    # Rows of the tails, if those are left out, may lie in the empty room.
    weight[: max(0, empty - 1)] = weight[n_nodes + 1 - empty :] = 0.0
    return GridDensity(first, step, weight)


def finest_sigma(density: GridDensity) -> float:
    """Return the smallest sigma that a grid can show."""
    return _FEWEST_STEPS_PER_SIGMA * density.step


def _nodes(length: float, fine: float, wide: float) -> tuple[int, float]:
    """Return how many nodes to take for data of some length, and their distance."""
    # Empty room of 8 sigma at each end: the FFT joins the ends, and nothing of one may reach the other.
    reached = length + 16 * wide
    wanted = 32 * reached / fine  # 32 steps to a sigma, as long as the most nodes allow
    n_nodes = _FEWEST_NODES
    while n_nodes < min(wanted, MOST_NODES):
        n_nodes *= 2
    # Where this is too coarse for the sigma, the finest sigma needs its room at the ends, too.
    room = 16 * _FEWEST_STEPS_PER_SIGMA
    return n_nodes, max(reached / (n_nodes - 1), length / (n_nodes - 1 - room))
