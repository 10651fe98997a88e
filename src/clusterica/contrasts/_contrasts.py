"""Contrasts: functions G of a response y, whose mean differs for sparse and Gaussian y, with G' and G''.

A contrast is any callable ``y -> Derivatives(G(y), G'(y), G''(y))``, element by element. As minus the
logarithm of a density of the sources it makes a likelihood; its mean is a measure of non-Gaussianity.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from clusterica.arrays import Array, namespace_of
from clusterica.ops.contrast import Contrast, Derivatives


def _check_positive(name: str, value: float) -> None:
    if not value > 0:
        raise ValueError(f"{name}={value!r} must be over 0")


@dataclass(frozen=True)
class SmoothedLaplace:
    """``G(y) = √2 (√(y² + w²) - w)``: minus the log-density of a Laplace distribution, smoothed at 0.

    Parameters
    ----------
    width : float, default=0.1
        Where it turns from a parabola into ``√2 |y|``, in units of the standard deviation.
    """

    width: float = 0.1

    def __post_init__(self) -> None:
        _check_positive("width", self.width)

    def __call__(self, y: Array) -> Derivatives:
        """Return G, G' and G'' at every element of y."""
        root = y * y  # in place from here on, to make few arrays
        root += self.width**2
        root **= 0.5
        first = y / root
        first *= sqrt(2)
        cube = root * root
        cube *= root
        second = sqrt(2) * self.width**2 / cube
        root -= self.width
        root *= sqrt(2)
        return Derivatives(root, first, second)


@dataclass(frozen=True)
class SmoothedL1:
    """``G(y) = √(y² + w²)``: the absolute value of y, smoothed at 0.

    Parameters
    ----------
    width : float, default=0.01
        Where it turns from a parabola into ``|y|``.
    """

    width: float = 0.01

    def __post_init__(self) -> None:
        _check_positive("width", self.width)

    def __call__(self, y: Array) -> Derivatives:
        """Return G, G' and G'' at every element of y."""
        root, first = self.first_two(y)
        return Derivatives(root, first, self.width**2 / (root * root * root))

    def first_two(self, y: Array) -> tuple[Array, Array]:
        """Return G and G' only."""
        root = y * y
        root += self.width**2
        root **= 0.5
        return root, y / root


@dataclass(frozen=True)
class LogCosh:
    """``G(y) = log(cosh(a y)) / a``: for a = 1 minus the log-density of a hyperbolic secant distribution.

    Parameters
    ----------
    scale : float, default=1.0
        The a: how fast it turns from a parabola into ``|y|``. MATLAB's rica has a = 2.
    """

    scale: float = 1.0

    def __post_init__(self) -> None:
        _check_positive("scale", self.scale)

    def __call__(self, y: Array) -> Derivatives:
        """Return G, G' and G'' at every element of y."""
        value, tanh = self.first_two(y)
        return Derivatives(value, tanh, self.scale * (1 - tanh * tanh))

    def first_two(self, y: Array) -> tuple[Array, Array]:
        """Return G and G' only."""
        xp = namespace_of(y)
        scaled = y if self.scale == 1 else self.scale * y
        size = xp.abs(scaled)
        # As log((1 + exp(-2 |ay|)) / 2) + |ay|, where no digits of a small one are lost.
        value = xp.expm1(-2 * size)
        value *= 0.5
        value = xp.log1p(value)
        value += size
        return (value if self.scale == 1 else value / self.scale), xp.tanh(scaled)


@dataclass(frozen=True)
class Exponential:
    """``G(y) = -exp(-y² / 2)``: bounded, so that no outlier counts for much."""

    def __call__(self, y: Array) -> Derivatives:
        """Return G, G' and G'' at every element of y."""
        value, first = self.first_two(y)
        return Derivatives(value, first, (y * y - 1) * value)

    def first_two(self, y: Array) -> tuple[Array, Array]:
        """Return G and G' only."""
        bell = namespace_of(y).exp(-0.5 * y * y)  # shared by G and both derivatives
        return -bell, y * bell


@dataclass(frozen=True)
class Quartic:
    """``G(y) = y⁴``, whose mean over unit variance is the kurtosis plus three."""

    def __call__(self, y: Array) -> Derivatives:
        """Return G, G' and G'' at every element of y."""
        square = y * y
        return Derivatives(square * square, 4 * square * y, 12 * square)


def check_contrast(contrast: Contrast, *, tol: float = 1e-5) -> None:
    """Check the derivatives of a custom contrast against finite differences.

    Parameters
    ----------
    contrast : callable
        ``y -> (G(y), G'(y), G''(y))``.
    tol : float, default=1e-5
        Largest difference allowed, relative to the size of the derivative.

    Raises
    ------
    ValueError
        Where a shape is wrong, a value is not finite, or a derivative is not that of the function.
    """
    # 0, where many contrasts have a kink, is not among them.
    y, step = np.linspace(-4, 4, 102), 1e-5
    if isinstance(contrast, type):
        raise ValueError(
            f"{contrast.__name__} is a class; give an object, such as {contrast.__name__}()"
        )
    found: Any = contrast(y)  # of the user, who may return anything
    if not isinstance(found, tuple | list) or len(found) != 3:
        raise ValueError(
            "a contrast must return three arrays, G(y), G'(y) and G''(y); return "
            "Derivatives(value, first, second)"
        )
    here = Derivatives(*found)
    for name, values in zip(("G", "G'", "G''"), here, strict=True):
        if np.shape(values) != y.shape:
            raise ValueError(
                f"{name} has shape {np.shape(values)}; it must be that of y, {y.shape}"
            )
        if not np.isfinite(values).all():
            raise ValueError(f"{name} is not finite for every y from -4 to 4")
    # Central differences: their error, about step² = 1e-10, is far below tol.
    above, below = Derivatives(*contrast(y + step)), Derivatives(*contrast(y - step))
    slopes = [(above[i] - below[i]) / (2 * step) for i in (0, 1)]
    for name, given, slope in zip(("G'", "G''"), here[1:], slopes, strict=True):
        # Relative, but not for small derivatives, whose differences are mostly rounding.
        off = np.abs(given - slope).max() / max(1.0, float(np.abs(slope).max()))
        if off > tol:
            raise ValueError(
                f"{name} is off by {off:.2g} of its size from the finite differences of the function "
                f"before it; check the formula, or raise tol={tol:g} if it is only rough"
            )
