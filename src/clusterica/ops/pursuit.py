"""Projection pursuit: sums of ``G(p), G'(p) (x - mean), G''(p)`` over projections ``p = f·(x - mean)``.

A contrast is turned (`orient`) so that ``±(E G(p) - E G(normal))`` is negative for sub-Gaussian p.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

import numpy as np

from clusterica.arrays import Array, in_tiles, namespace_of, working_memory
from clusterica.ops.contrast import Contrast, Derivatives


class PursuitSums(NamedTuple):
    """Sums over the rows of a block, for every direction."""

    value: Array
    """Sum of G(p), shape (n_directions,)."""
    gradient: Array
    """Sum of G'(p) (x - mean), shape (n_directions, n_features)."""
    curvature: Array
    """Sum of G''(p), shape (n_directions,)."""


@working_memory(lambda row, F, mean: (2 * row.n_features + 6 * F.shape[0]) * row.itemsize)
@in_tiles(lambda X, F, mean: max(F.shape))
def pursuit_sums(X: Array, F: Array, mean: Array, *, contrast: Contrast) -> PursuitSums:
    """Return the sums of a block.

    Parameters
    ----------
    X : (n_rows, n_features) array
    F : (n_directions, n_features) array
        Directions to project on, whitening included.
    mean : (n_features,) array
    contrast : callable
        ``y -> (G(y), G'(y), G''(y))``.
    """
    xp = namespace_of(X)
    centred = X - mean
    G = Derivatives(*contrast(centred @ F.T))
    return PursuitSums(
        # In float64: a line search compares values that differ by less than the digits of float32.
        value=xp.sum(G.value, axis=0, dtype=xp.float64),
        gradient=G.first.T @ centred,
        curvature=xp.sum(G.second, axis=0, dtype=xp.float64),
    )


@working_memory(lambda row, mean, scale: 2 * row.n_features * row.itemsize)
def column_fourths(X: Array, mean: Array, scale: Array) -> tuple[Array]:
    """Return the sum over rows of ``((x - mean) / scale)⁴`` of every column, shape (n_features,)."""
    xp = namespace_of(X)
    squares = ((X - mean) / scale) ** 2
    return (xp.sum(squares * squares, axis=0, dtype=xp.float64),)


@dataclass(frozen=True)
class OrientedContrast:
    """A contrast with the sign that makes its excess over a normal variable negative for sub-Gaussian ones.

    Parameters
    ----------
    contrast : callable
        ``y -> (G(y), G'(y), G''(y))``.
    sign : float
        1 or -1.
    normal_mean : float
        E G of a normal variable of unit variance.
    slope, bend : float
        The parts of G along y and along ``y² - 1``, in the mean over a normal variable y.
    spread, skew : float
        Standard deviation and skewness of what is left of G without its parts in ``1, y, y²``: the mean of G
        over n normal values scaled to mean 0 and variance 1 has the standard error ``spread / √n``.
    squared : bool
        Whether the excess is reported as a negentropy, squared and in nats.
    """

    contrast: Contrast
    sign: float
    normal_mean: float
    slope: float
    bend: float
    spread: float
    skew: float
    squared: bool = False

    def excess(self, mean: np.ndarray) -> np.ndarray:
        """Return the oriented excess ``±(E G(p) - E G(normal))`` of means E G(p)."""
        return self.sign * (mean - self.normal_mean)

    def reported(self, excess: np.ndarray) -> np.ndarray:
        """Return the number to report for an excess: itself, or ``± excess² / (2 spread²)`` if squared."""
        return np.sign(excess) * excess**2 / (2 * self.spread**2) if self.squared else excess

    def noise_level(self, n_rows: int, n_dims: int, side: float) -> float:
        """Return the excess that the best direction may reach on Gaussian rows; side is -1 or 1.

        Over all directions of d dimensions the extreme lies about ``1.8 √d`` standard errors from zero,
        and one more is allowed for its scatter. Upwards a direction may also seek out single rows, the more
        so the fewer there are; one at ``2.2 d^(3/8)`` makes up for what was seen. Downwards the mean of a
        contrast that is skewed, as fourth powers are, does not come as far.
        """
        error = (1.8 * sqrt(n_dims) + 1) / sqrt(n_rows)
        if side < 0:
            # For fourth powers, whose skewness is 14.7, the 7.2 makes it a level on the scale of 1 / (κ + 3).
            return -error * self.spread / (1 + max(0.0, self.skew - 3) * error / 7.2)
        y = np.array([2.2 * n_dims**0.375])
        rest = Derivatives(*self.contrast(y)).value - self.slope * y - self.bend * (y * y - 1)
        row = max(0.0, float(self.excess(rest)[0]))
        return error * self.spread * (1 + sqrt(n_dims / n_rows)) + row / n_rows


def orient(G: Contrast, *, squared: bool = False) -> OrientedContrast:
    """Return a contrast with its orientation; see :class:`OrientedContrast` for `squared`.

    The sign is that for which a uniform variable, which is sub-Gaussian, has a negative excess.
    """
    # The sum over an even grid is exact to rounding for smooth functions under a Gaussian weight.
    y = np.linspace(-9, 9, 1801)
    weights = np.exp(-0.5 * y * y)
    weights /= weights.sum()
    value = np.asarray(Derivatives(*G(y)).value, dtype=np.float64)
    normal_mean = float(weights @ value)
    # The parts of G along y and y² - 1 do not vary over rows of mean 0 and variance 1: only the rest is
    # noise.
    slope, bend = float(weights @ (value * y)), float(weights @ (value * (y * y - 1))) / 2
    rest = value - normal_mean - slope * y - bend * (y * y - 1)
    spread = sqrt(float(weights @ rest**2))
    # A uniform variable of unit variance lies in ±√3; Gauss-Legendre integrates G over it.
    nodes, shares = np.polynomial.legendre.leggauss(64)
    uniform_mean = float(shares @ Derivatives(*G(sqrt(3) * nodes)).value) / 2
    gap = uniform_mean - normal_mean
    # An odd or quadratic G has the same mean for all distributions of mean 0 and variance 1, up to rounding.
    if abs(gap) <= 1e-6 * sqrt(float(weights @ value**2)):
        raise ValueError(
            f"the contrast has the mean {normal_mean:.6g} for a normal and for a uniform variable of unit "
            "variance alike, so that it can't tell them apart; use another, such as an even one that grows "
            "faster or slower than y²"
        )
    sign = -float(np.sign(gap))
    skew = sign * float(weights @ rest**3) / spread**3
    return OrientedContrast(G, sign, normal_mean, slope, bend, spread, skew, squared)
