"""Kernels k(w, x) between a basis W and a block of rows X, with their derivatives by W.

To add one, write a class with the methods of :class:`Kernel`, and try it with :func:`check_kernel`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from clusterica.arrays import Array, namespace_of
from clusterica.ops.kernels import Kernel, Pull
from clusterica.ops.linalg import row_energies


class KernelOverflowError(ValueError, OverflowError):
    """The values are too large for a kernel: an error for rows; a descent takes a shorter step."""


def _check_positive(name: str, value: float) -> None:
    if not 0 < value < np.inf:
        raise ValueError(f"{name}={value!r} must be a positive number, such as 1.0")


# --- Kernels of the distance -----------------------------------------------------------------------


class _Radial(ABC):
    """k = f(r) with r = |x - w|², so that dk/dw = 2 f'(r) (w - x)."""

    unit_diagonal = True

    def __call__(self, X: Array, W: Array) -> Array:
        # Distances do not see a shift, and the difference of squares keeps its digits near the origin.
        mean = namespace_of(W).mean(W, axis=0)
        return self.near_origin(X - mean, W - mean)

    def near_origin(self, X: Array, W: Array) -> Array:
        """Return the values for rows that are not far from the origin, in their own units."""
        xp = namespace_of(X)
        # Written so that only one array of this size is made.
        r = X @ W.T
        r *= -2
        r += row_energies(X)[:, None]
        r += row_energies(W)[None, :]
        # Rounding may make the difference negative where x is near w; the roots of r would then be NaN.
        return self._of_squares(xp.maximum(r, xp.zeros((), dtype=r.dtype, device=r.device)))

    def diagonal(self, X: Array) -> Array:
        return namespace_of(X).ones(X.shape[0], dtype=X.dtype, device=X.device)

    def pull(self, X: Array, W: Array, values: Array, Q: Array) -> Pull:
        # From the values that are there already, so that distances are not computed twice.
        Q = Q * self._twice_slope(values)
        return Pull(namespace_of(Q).sum(Q, axis=0), Q.T @ X)

    def diagonal_pull(self, W: Array, q: Array) -> Pull:
        return Pull(0 * q, 0 * W)

    @abstractmethod
    def _of_squares(self, r: Array) -> Array:
        """Return f(r); r may be overwritten."""

    @abstractmethod
    def _twice_slope(self, values: Array) -> Array:
        """Return 2 f'(r) from f(r)."""


@dataclass(frozen=True)
class Gaussian(_Radial):
    """``k(x, w) = exp(-γ |x - w|²)``.

    Parameters
    ----------
    gamma : float, default=1.0
        The γ: the larger, the nearer a row must be to a basis vector to be like it.
    """

    gamma: float = 1.0

    def __post_init__(self) -> None:
        _check_positive("gamma", self.gamma)

    def _of_squares(self, r: Array) -> Array:
        r *= -self.gamma
        return namespace_of(r).exp(r)

    def _twice_slope(self, values: Array) -> Array:
        return -2 * self.gamma * values


@dataclass(frozen=True)
class InverseDistance(_Radial):
    """``k(x, w) = 1 / (1 + b |x - w|)``; at x = w, where it has a peak, its derivative counts as 0.

    Parameters
    ----------
    b : float, default=1.0
        Scale of the distance.
    """

    b: float = 1.0

    def __post_init__(self) -> None:
        _check_positive("b", self.b)

    def _of_squares(self, r: Array) -> Array:
        return 1 / (1 + self.b * namespace_of(r).sqrt(r))

    def _twice_slope(self, values: Array) -> Array:
        # f'(r) = -b k² / (2 √r), and √r = (1 - k) / (b k).
        xp = namespace_of(values)
        rest = 1 - values
        away = rest > 0
        return xp.where(away, -(self.b**2) * values**3 / xp.where(away, rest, 1), 0)


@dataclass(frozen=True)
class InverseSquareDistance(_Radial):
    """``k(x, w) = 1 / (1 + b |x - w|²)``.

    Parameters
    ----------
    b : float, default=1.0
        Scale of the squared distance.
    """

    b: float = 1.0

    def __post_init__(self) -> None:
        _check_positive("b", self.b)

    def _of_squares(self, r: Array) -> Array:
        return 1 / (1 + self.b * r)

    def _twice_slope(self, values: Array) -> Array:
        # f'(r) = -b / (1 + b r)² = -b k².
        return -2 * self.b * values * values


# --- Others ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Polynomial:
    """``k(x, w) = (1 + xᵀw)^b``.

    Parameters
    ----------
    degree : int, default=3
        The b, 1 at least.
    """

    degree: int = 3
    unit_diagonal = False

    def __post_init__(self) -> None:
        if int(self.degree) != self.degree or self.degree < 1:
            raise ValueError(
                f"degree={self.degree!r} must be a whole number, 1 at least, such as 3"
            )

    def __call__(self, X: Array, W: Array) -> Array:
        """Return k(w_p, x_i), shape (n_rows, n_basis)."""
        return (1 + X @ W.T) ** self.degree

    def diagonal(self, X: Array) -> Array:
        """Return k(x_i, x_i), shape (n_rows,)."""
        return (1 + row_energies(X)) ** self.degree

    def pull(self, X: Array, W: Array, values: Array, Q: Array) -> Pull:
        """Return ``sum_i Q_ip dk(w_p, x_i)/dw_p``."""
        # Products again, not a root of the values: an even power has lost the sign.
        Q = Q * (self.degree * (1 + X @ W.T) ** (self.degree - 1))
        return Pull(0 * Q[0, :], -(Q.T @ X))

    def diagonal_pull(self, W: Array, q: Array) -> Pull:
        """Return ``q_p dk(w_p, w_p)/dw_p``."""
        # d(wᵀw)/dw = 2 w.
        slope = 2 * self.degree * (1 + row_energies(W)) ** (self.degree - 1)
        return Pull(q * slope, 0 * W)


@dataclass(frozen=True)
class HistogramIntersection:
    """``k(x, w) = Σ_f min(exp(b x_f), exp(b w_f))``; where the two are equal, half of the derivative counts.

    Parameters
    ----------
    b : float, default=1.0
        Scale of the features; exp(b x) must not overflow.
    """

    b: float = 1.0
    unit_diagonal = False

    def __post_init__(self) -> None:
        _check_positive("b", self.b)

    def __call__(self, X: Array, W: Array) -> Array:
        """Return k(w_p, x_i), shape (n_rows, n_basis)."""
        xp = namespace_of(X)
        E, V = self._exp(X), self._exp(W)
        # Feature by feature, so that no array is larger than the result.
        total = xp.minimum(E[:, :1], V[:, 0][None, :])
        for f in range(1, X.shape[1]):
            total += xp.minimum(E[:, f : f + 1], V[:, f][None, :])
        return total

    def diagonal(self, X: Array) -> Array:
        """Return k(x_i, x_i), shape (n_rows,)."""
        return namespace_of(X).sum(self._exp(X), axis=1)

    def pull(self, X: Array, W: Array, values: Array, Q: Array) -> Pull:
        """Return ``sum_i Q_ip dk(w_p, x_i)/dw_p``."""
        xp = namespace_of(X)
        sides = []
        for f in range(X.shape[1]):
            side = xp.sign(X[:, f : f + 1] - W[:, f][None, :])
            side *= Q
            sides.append(xp.sum(side, axis=0, dtype=xp.float64))
        # The derivative counts where x exceeds w: half of the sum of all, and of those by their sides.
        slopes = (xp.sum(Q, axis=0, dtype=xp.float64)[:, None] + xp.stack(sides, axis=1)) / 2
        return Pull(0 * Q[0, :], -self.b * self._exp(W) * xp.astype(slopes, W.dtype))

    def diagonal_pull(self, W: Array, q: Array) -> Pull:
        """Return ``q_p dk(w_p, w_p)/dw_p``."""
        return Pull(0 * q, -self.b * q[:, None] * self._exp(W))

    def _exp(self, X: Array) -> Array:
        # The limit leaves room for the sum over features.
        xp = namespace_of(X)
        largest = self.b * float(xp.max(X))
        limit = float(np.log(xp.finfo(X.dtype).max)) - float(np.log(X.shape[1]))
        if largest > limit:
            raise KernelOverflowError(
                f"exp(b x) overflows: b times the largest feature is {largest:.3g}, and {X.dtype} holds "
                f"exponents up to {limit:.3g}; scale the rows (normalize=True), or lower b={self.b:g}"
            )
        return xp.exp(self.b * X)


@dataclass(frozen=True)
class Linear:
    """``k(x, w) = xᵀw``: the kernel whose kernel RICA is RICA itself."""

    unit_diagonal = False

    def __call__(self, X: Array, W: Array) -> Array:
        """Return k(w_p, x_i), shape (n_rows, n_basis)."""
        return X @ W.T

    def diagonal(self, X: Array) -> Array:
        """Return k(x_i, x_i), shape (n_rows,)."""
        return row_energies(X)

    def pull(self, X: Array, W: Array, values: Array, Q: Array) -> Pull:
        """Return ``sum_i Q_ip dk(w_p, x_i)/dw_p``."""
        return Pull(0 * Q[0, :], -(Q.T @ X))

    def diagonal_pull(self, W: Array, q: Array) -> Pull:
        """Return ``q_p dk(w_p, w_p)/dw_p``."""
        return Pull(2 * q, 0 * W)


@dataclass(frozen=True)
class Normalized:
    """``k(x, w) / √(k(x, x) k(w, w))``: any kernel, with k(x, x) = 1, or 0 where it was 0.

    Parameters
    ----------
    kernel : Kernel
        Any kernel; its diagonal is not negative.
    """

    kernel: Kernel
    unit_diagonal = True

    def __call__(self, X: Array, W: Array) -> Array:
        """Return the normalised k(w_p, x_i), shape (n_rows, n_basis)."""
        return self.kernel(X, W) * _inverse(self._lengths(X, W))

    def diagonal(self, X: Array) -> Array:
        """Return ones, or zeros where k(x, x) = 0, shape (n_rows,)."""
        return namespace_of(X).astype(self.kernel.diagonal(X) > 0, X.dtype)

    def pull(self, X: Array, W: Array, values: Array, Q: Array) -> Pull:
        """Return ``sum_i Q_ip dk(w_p, x_i)/dw_p``: by the numerator, and by the length of w."""
        # d(k / √(k_x k_w)) = dk / √(k_x k_w) - k / √(k_x k_w) dk_w / (2 k_w).
        lengths = self._lengths(X, W)
        above = self.kernel.pull(X, W, values * lengths, Q * _inverse(lengths))
        weight = namespace_of(X).sum(Q * values, axis=0) * _inverse(-2 * self.kernel.diagonal(W))
        below = self.kernel.diagonal_pull(W, weight)
        return Pull(above.scale + below.scale, above.vector + below.vector)

    def diagonal_pull(self, W: Array, q: Array) -> Pull:
        """Return zero: the diagonal is constant."""
        return Pull(0 * q, 0 * W)

    def _lengths(self, X: Array, W: Array) -> Array:
        xp = namespace_of(X)
        return xp.sqrt(self.kernel.diagonal(X))[:, None] * xp.sqrt(self.kernel.diagonal(W))[None, :]


def _inverse(values: Array) -> Array:
    """Return one over the values, and 0 where they are 0."""
    xp = namespace_of(values)
    is_zero = values == 0
    return xp.where(is_zero, 0.0, 1 / xp.where(is_zero, 1.0, values))
