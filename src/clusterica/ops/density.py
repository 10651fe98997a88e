"""Density of one column, ``f(x) = 1/n Σ w_i φ_σ(x - x_i)`` with n = Σ w_i, on a grid, and its modes.

A block of rows only adds its weights to cells of a grid; all that follows works on the grid: the
Gaussian is applied by the FFT, and its width can be chosen by Improved Sheather-Jones from the DCT.
"""

from __future__ import annotations

from math import factorial, log, pi, sqrt
from typing import NamedTuple

import numpy as np
from scipy import fft, optimize

from clusterica.arrays import Array, is_host_array, namespace_of, working_memory
from clusterica.ops.linalg import sum_by_label

# Cells whose width grows with the distance from a point: this many for each factor of e, so that a cell is
# 1.6 % of its distance wide.
_CELLS_PER_E = 64


class Spread(NamedTuple):
    """Weight and ``Σ w (x - a)`` in each cell, with ``Σ w (x - a)²`` of all rows."""

    weight: Array
    first: Array
    square: Array


def n_cells_of_spread(unit: float) -> int:
    """Return how many cells hold every float64: cell k has its edges at ``a ± unit sinh(k / 64)``."""
    reach = log(2) + log(np.finfo(np.float64).max) - log(unit)
    return 2 * (int(reach * _CELLS_PER_E) + 2)


# Numbers in float64 and integer indices, eight for each row.
@working_memory(lambda row, about, unit: 64)
def spread(X: Array, about: Array, unit: Array, weights: Array, *, n_cells: int) -> Spread:
    """Return how a block is spread about a point, in cells that grow with the distance from it.

    Parameters
    ----------
    X : (n_rows, 1) array
    about, unit : (1,) arrays
        The point a, and the width below which distances from it need no more digits.
    weights : (n_rows,) array
    n_cells : int
        See `n_cells_of_spread`.
    """
    xp = namespace_of(X)
    x = xp.astype(X[:, 0], xp.float64) - about
    w = xp.astype(weights, xp.float64)
    place = xp.floor(xp.asinh(x / unit) * _CELLS_PER_E) + n_cells // 2
    cell = xp.astype(xp.clip(place, 0, n_cells - 1), xp.int64)
    return Spread(_sum_at(cell, w, n_cells), _sum_at(cell, w * x, n_cells), xp.sum(w * x * x))


class Nodes(NamedTuple):
    """Weight at each node of a grid."""

    weight: Array


@working_memory(lambda row, low, step: 64)
def node_weights(X: Array, low: Array, step: Array, weights: Array, *, n_nodes: int) -> Nodes:
    """Share the weight of each row of a block between the two nodes beside it (linear binning).

    The node ``low + j step`` gets ``w (1 - u)`` and the next one ``w u``, where u is how far the row
    has gone from the one to the other. Rows outside of the grid are left out.

    Parameters
    ----------
    X : (n_rows, 1) array
    low, step : (1,) arrays
        First node, and distance between nodes.
    weights : (n_rows,) array
    n_nodes : int
    """
    xp = namespace_of(X)
    place = (xp.astype(X[:, 0], xp.float64) - low) / step
    inside = xp.astype((place >= 0) & (place < n_nodes - 1), xp.float64)
    left = xp.clip(xp.floor(place), 0, n_nodes - 2)
    w = xp.astype(weights, xp.float64) * inside
    right_share = w * (place - left)
    node = xp.astype(left, xp.int64)
    total = _sum_at(node, w - right_share, n_nodes) + _sum_at(node + 1, right_share, n_nodes)
    return Nodes(total)


def _sum_at(index: Array, values: Array, size: int) -> Array:
    """Return the sum of the float64 values that have the same index, shape (size,)."""
    if is_host_array(values):
        return np.bincount(index, values, minlength=size)
    xp = namespace_of(values)
    if hasattr(values, "index_add"):  # torch
        return sum_by_label(values, index, size)
    order = xp.argsort(index, stable=True)
    sums = xp.cumulative_sum(xp.take(values, order), include_initial=True)
    every = xp.arange(size + 1, dtype=index.dtype, device=index.device)
    ends = xp.searchsorted(xp.take(index, order), every)
    return xp.take(sums, ends[1:]) - xp.take(sums, ends[:-1])


@working_memory(lambda row, cuts: 12)
def labels_between(X: Array, cuts: Array) -> Array:
    """Return how many of the rising cuts are at or below each row of a block, shape (n_rows,)."""
    xp = namespace_of(X)
    return xp.astype(xp.searchsorted(cuts, X[:, 0], side="right"), xp.int32)


class Summary(NamedTuple):
    """Summary of the spread of a column: total weight, mean, variance, quartiles, tails and ends.

    The width is the standard deviation of the rows between the tails, if that is not zero.
    """

    n: float
    mean: float
    variance: float
    width: float
    quartiles: tuple[float, float]
    tails: tuple[float, float]
    ends: tuple[float, float]

    @property
    def scale(self) -> float:
        """Standard deviation, or IQR / 1.34 where that is smaller: the same for a normal column."""
        robust = (self.quartiles[1] - self.quartiles[0]) / 1.34
        return min(sqrt(self.variance), robust) if robust > 0 else sqrt(self.variance)


def summarize(total: Spread, *, about: float, unit: float, tail: float) -> Summary:
    """Return the summary of a column from its spread.

    Quantiles are those of rows that lie at the means of their cells, with straight lines between the
    middles of the rows. The ends are edges of cells, up to 1/64 too far.
    """
    n_cells = total.weight.shape[0]
    used = np.flatnonzero(total.weight)
    weight = total.weight[used]
    n = float(weight.sum())
    means = total.first[used] / weight
    below, half_row = np.cumsum(weight), np.minimum(weight, 1) / 2
    ranks = np.stack([below - weight + half_row, below - half_row], axis=1).ravel() / n
    quantiles = np.interp([0.25, 0.75, tail, 1 - tail], ranks, np.repeat(means, 2))
    with np.errstate(over="ignore"):
        edges = unit * np.sinh((used[[0, -1]] + [0, 1] - n_cells // 2) / _CELLS_PER_E)
    offset = float(total.first.sum()) / n
    variance = max(0.0, float(total.square) / n - offset**2)
    low, high, tail_low, tail_high = (float(q) for q in quantiles + about)
    left, right = (float(e) for e in edges + about)
    between = (means >= quantiles[2]) & (means <= quantiles[3])
    center = np.average(means[between], weights=weight[between])
    inner = float(np.average((means[between] - center) ** 2, weights=weight[between]))
    width = sqrt(min(variance, inner) or variance)
    return Summary(
        n, about + offset, variance, width, (low, high), (tail_low, tail_high), (left, right)
    )


def spectrum_of(weights: np.ndarray) -> Array:
    """Return the Fourier transform of weights on a grid, divided by their sum."""
    return fft.rfft(weights) / weights.sum()


def smoothed(spectrum: np.ndarray, step: float, sigma: float, n_nodes: int) -> np.ndarray:
    """Return the density of weights smoothed by a Gaussian, on nodes that fill the same interval.

    Parameters
    ----------
    spectrum : (n / 2 + 1,) array
        Of weights on n nodes that are zero for 8 sigma at both ends, since the grid is a circle here.
    step, sigma : float
        Distance of those nodes, and width of the Gaussian.
    n_nodes : int
        Even number of nodes to return, at most n; 3 to a sigma hold all frequencies that are left.
    """
    length = 2 * (len(spectrum) - 1) * step
    kept = spectrum[: n_nodes // 2 + 1]
    frequency = (2 * pi / length) * np.arange(len(kept))
    f = fft.irfft(kept * np.exp(-0.5 * (frequency * sigma) ** 2), n_nodes) * (n_nodes / length)
    # What rounding in the FFT leaves where the density is zero; far below one row in 1e10.
    f[f < 1e-12 * f.max()] = 0.0
    return np.asarray(f)


def sheather_jones(weights: np.ndarray, step: float, n: float, *, stages: int = 7) -> float | None:
    r"""Return the width of the Gaussian by Improved Sheather-Jones, or None where there is none.

    The best variance for a density f of n rows is :math:`t = (2 n \sqrt\pi \|f''\|^2)^{-2/5}`. The norm is
    estimated with another variance :math:`t_2`, the best of which depends on :math:`\|f'''\|^2`, and
    so on; in the last of the stages the variance is taken to be t again, which makes an equation
    for t (Botev, Grotowski and Kroese 2010). Norms are sums over the coefficients of the DCT.

    Parameters
    ----------
    weights : (n_nodes,) array
        Weights on the nodes of a grid, zero at both ends.
    step : float
        Distance of the nodes.
    n : float
        Number of rows.
    stages : int, default=7
        Number of derivatives estimated one from the other.
    """
    length = len(weights) * step
    squares = (fft.dct(weights)[1:] / weights.sum()) ** 2
    k2 = (pi * np.arange(1, len(weights))) ** 2

    def improved(t: float) -> float:
        """Return the best variance that follows if the last norm is estimated with variance t."""
        for j in range(stages, 0, -1):
            # ‖f^(j+1)‖² of the density with variance t, on an interval of length 1.
            # Of higher frequencies the exponential leaves nothing.
            some = slice(int(sqrt(100 / t) / pi) + 1)
            norm = 0.5 * np.sum(k2[some] ** (j + 1) * squares[some] * np.exp(-k2[some] * t))
            odd = factorial(2 * j) / (2**j * factorial(j))  # 1 · 3 · 5 ··· (2j - 1)
            t = ((1 + 0.5 ** (j + 0.5)) / 3 * odd / (n * sqrt(pi / 2) * norm)) ** (2 / (3 + 2 * j))
        return float((3 / (1 + 2 * sqrt(2))) ** 0.4 * t)

    def excess(log_t: float) -> float:
        return log_t - log(improved(float(np.exp(log_t))))

    # The smallest solution: from one step of the grid upwards.
    tries = np.linspace(log(1 / len(weights) ** 2), log(0.1), num=60)
    values = np.array([excess(log_t) for log_t in tries])
    above = np.flatnonzero((values[:-1] <= 0) & (values[1:] > 0))
    if len(above) == 0:
        return None
    root = optimize.brentq(excess, tries[above[0]], tries[above[0] + 1], xtol=1e-6)
    return length * sqrt(np.exp(root))


class Turns(NamedTuple):
    """Maxima and minima of a density in turn: one maximum more than there are minima.

    Positions are in steps of the grid, with fractions.
    """

    modes: np.ndarray
    heights: np.ndarray
    valleys: np.ndarray
    depths: np.ndarray


def turns(f: np.ndarray) -> Turns:
    """Return the maxima and minima of values on a grid; those of a level stretch lie in its middle."""
    slopes = np.diff(f, prepend=0.0, append=0.0)  # slope i ends at node i; outside, f is zero
    rough = np.flatnonzero(slopes)
    rising = slopes[rough] > 0
    change = np.flatnonzero(rising[1:] != rising[:-1])
    first, last = rough[change], rough[change + 1] - 1  # nodes of the level stretch, mostly one
    place = (first + last) / 2
    single = (first == last) & (first > 0) & (first < len(f) - 1)
    i = first[single]
    # The top of the parabola through three nodes.
    place[single] += 0.5 * (f[i - 1] - f[i + 1]) / (f[i - 1] - 2 * f[i] + f[i + 1])
    peak = rising[change]
    return Turns(place[peak], f[first[peak]], place[~peak], f[first[~peak]])


class Merge(NamedTuple):
    """For each valley the mode that ends there when the level falls, being lower than the other's.

    A mode ends with all rows that it holds by then, those of lower modes beside it included.
    """

    mode: np.ndarray
    height: np.ndarray
    persistence: np.ndarray
    share: np.ndarray


def merges(t: Turns, shares: np.ndarray) -> Merge:
    """Return which mode ends at which valley, and how much it stood out.

    Parameters
    ----------
    t : Turns
    shares : (n_modes,) array
        Share of the rows between the valleys at both sides of each mode.
    """
    n = len(t.valleys)
    top = list(range(n + 1))  # of a set of neighbouring modes, the highest, kept at both its ends
    start, stop = list(range(n + 1)), list(range(n + 1))
    below = np.concatenate([[0.0], np.cumsum(shares)])
    mode, share = np.zeros(n, dtype=np.int64), np.zeros(n)
    for i in np.argsort(-t.depths, kind="stable"):
        left, right = start[i], stop[i + 1]  # ends of the sets that meet at the valley
        a, b = top[left], top[right]
        lower_is_left = t.heights[a] < t.heights[b]
        mode[i] = a if lower_is_left else b
        share[i] = below[i + 1] - below[left] if lower_is_left else below[right + 1] - below[i + 1]
        top[left] = top[right] = b if lower_is_left else a
        stop[left], start[right] = right, left
    return Merge(mode, t.heights[mode], t.heights[mode] - t.depths, share)


def standard_errors(merge: Merge, n: float, sigma: float) -> Array:
    """Return the persistence of each mode in standard errors of the estimated density."""
    # The variance of f̂ is f R / (n σ), with R = 1 / (2 √π) the integral of the squared Gaussian.
    variance = (2 * merge.height - merge.persistence) / (2 * sqrt(pi)) / (n * sigma)
    return merge.persistence / np.sqrt(variance)
