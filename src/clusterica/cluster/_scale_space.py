"""Modes of a binned density under every smoothing: ``f_σ = f * φ_σ``, whose modes only merge as σ grows."""

from __future__ import annotations

from itertools import groupby
from math import exp, log, sqrt
from typing import NamedTuple

import numpy as np

from clusterica.ops.density import (
    Merge,
    Turns,
    merges,
    smoothed,
    spectrum_of,
    standard_errors,
    turns,
)

# A mode counts if it holds this share of the rows, or stands this many standard errors over its
# valley. Samples of one normal, Laplace or Cauchy law rarely have a second mode that does.
_SHARE = 0.05
_ERRORS = 5.0
# In samples of one law, even uniform, a number of modes rarely lives longer than a factor e of σ.
_LIFETIME = 1.0
_N_SCALES = 96
_NODES_PER_SIGMA = 8  # for the search; the error of the density is then under 1e-3 of it


class Level(NamedTuple):
    """A density at one smoothing, with its modes and how they merge.

    ``real`` tells the valleys that are deeper than the error of the binning; at each of them, two
    modes meet and the lower one is described by ``merge``.
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
        while coarse and 2 * stride * self.step <= sigma / _NODES_PER_SIGMA and n_nodes > 64:
            n_nodes, stride = n_nodes // 2, 2 * stride
        f = smoothed(self._spectrum, self.step, sigma, n_nodes)
        t = turns(f)
        cuts = np.interp(stride * t.valleys, np.arange(len(self.weight)), self._below)
        merge = merges(t, np.diff(cuts, prepend=0.0, append=1.0))
        # Linear binning moves the second moment of a row by up to (step / 2)²; so much is not real.
        error = 1e-9 + (stride * self.step / (2 * sigma)) ** 2
        real = merge.persistence > error * merge.height
        stands_out = standard_errors(merge, self.n, sigma) >= _ERRORS
        counts = real & ((merge.share >= _SHARE) | stands_out)
        return Level(sigma, f, stride * self.step, t, merge, real, counts)

    def largest_sigma(self, n: int, low: float, high: float) -> float | None:
        """Return the largest sigma from low to high at which there are n modes or more, if any."""
        if self.at(low, coarse=True).n_modes < n:
            return None
        if self.at(high, coarse=True).n_modes >= n:
            return high
        for _ in range(20):
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


def lifetimes(density: GridDensity, low: float, high: float) -> list[Lifetime]:
    """Return how long each number of modes that count lives, from fine to coarse."""
    grid = np.exp(np.linspace(log(low), log(high), num=_N_SCALES))
    half_step = exp(log(high / low) / (2 * (_N_SCALES - 1)))
    numbers = [(1 + int(density.at(s, coarse=True).counts.sum()), s) for s in grid]
    runs = [(n, [s for _, s in run]) for n, run in groupby(numbers, key=lambda pair: pair[0])]
    return [Lifetime(n, max(low, s[0] / half_step), min(high, s[-1] * half_step)) for n, s in runs]


def longest_lived(density: GridDensity, low: float, high: float) -> Lifetime:
    """Return the number of modes that lives longest, which may be one.

    Two or more must live for a factor e of sigma, or there is one: the modes of noise live shorter.
    """
    found = lifetimes(density, low, high)
    best = max(found, key=lambda life: life.length)
    if best.n == 1 or best.length >= _LIFETIME:
        return best
    ones = [life for life in found if life.n == 1]
    return max(ones, key=lambda life: life.length, default=Lifetime(1, high, high))
