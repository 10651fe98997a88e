"""Check the derivatives of a custom kernel against finite differences of its values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from clusterica.arrays import Array
from clusterica.ops.kernels import Kernel, Pull
from clusterica.ops.linalg import unit_rows

# Rows that a kernel is tried on; pairs of them are blended to four basis vectors.
_N_ROWS = 7


def check_kernel(kernel: Kernel, *, n_features: int = 5, tol: float = 1e-5) -> None:
    """Check the derivatives of a custom kernel against finite differences.

    Parameters
    ----------
    kernel : Kernel
        An object with the methods of :class:`Kernel`.
    n_features : int, default=5
        Number of features of what it is tried on: random rows of unit length, and a basis between them.
        Learners try it on rows of the data.
    tol : float, default=1e-5
        Largest difference allowed, relative to the largest derivative.

    Raises
    ------
    TypeError
        Where a method is missing.
    ValueError
        Where a shape is wrong, a value is not finite, a derivative is not that of the kernel, or all
        derivatives vanish.
    """
    rng = np.random.default_rng(0)
    check_kernel_on(kernel, unit_rows(rng.normal(size=(_N_ROWS, n_features))), tol=tol)


def check_methods(kernel: Kernel) -> None:
    """Raise an error that names a method that the kernel lacks."""
    if isinstance(kernel, type):
        raise TypeError(
            f"the kernel is the class {kernel.__name__}; give an object, {kernel.__name__}()"
        )
    for name in ("__call__", "diagonal", "pull", "diagonal_pull", "unit_diagonal"):
        if not hasattr(kernel, name):
            raise TypeError(
                f"the kernel has no {name}; see clusterica.kernels.Kernel for what it needs"
            )


def check_kernel_on(kernel: Kernel, rows: np.ndarray, *, tol: float = 1e-5) -> None:
    """Check a kernel on some of the rows, with a basis of blends of two of them; see `check_kernel`.

    Between rows that differ a kernel is neither flat, as at its peak, nor as small as it is far away.
    """
    check_methods(kernel)
    rng = np.random.default_rng(0)
    directed = rows[np.any(rows != 0, axis=1)]
    rows = directed if len(directed) else rows  # at zero a kernel of directions may jump
    X = rows[np.resize(rng.permutation(len(rows)), _N_ROWS)].astype(np.float64)
    # No halves: the middle of opposite rows is zero, where a kernel of directions jumps.
    shares = np.array([0.11, 0.23, 0.37, 0.47])[:, None]
    n = len(shares)
    W = X[:n] + shares * (X[1 : n + 1] - X[:n])
    # Random weights: a weighted sum of all derivatives is wrong where any of them is.
    Q, q = rng.normal(size=(_N_ROWS, n)), rng.normal(size=n)
    values, diagonal = kernel(X, W), kernel.diagonal(W)
    _check_values("the kernel", values, (_N_ROWS, n))
    _check_values("the diagonal", diagonal, (n,))
    if not _are_close(diagonal, np.diag(kernel(W, W)), rtol=1e-4):
        raise ValueError("diagonal(W) differs from the diagonal of the kernel's values of W and W")
    if not _are_close(kernel(W, X).T, values, rtol=1e-6):
        raise ValueError("the kernel is not symmetric: k(w, x) differs from k(x, w)")
    if kernel.unit_diagonal and not np.allclose(diagonal, 1):
        raise ValueError("unit_diagonal is true, and k(w, w) is not 1")
    slopes = _Slopes(X, W)
    size = slopes.compare(
        "pull", kernel.pull(X, W, values, Q), lambda p, V: Q[:, p] @ kernel(X, V), tol
    )
    if size == 0:
        raise ValueError(
            "all derivatives of the kernel vanish between the rows that it was tried on: they are equal, or "
            "the kernel is too narrow or too wide for them; scale the rows, or the kernel"
        )
    own = kernel.diagonal_pull(W, q)
    slopes.compare("diagonal_pull", own, lambda p, V: q[p] * kernel.diagonal(V), tol)


def _check_values(name: str, values: Array, shape: tuple[int, ...]) -> None:
    if np.shape(values) != shape:
        raise ValueError(f"{name} has shape {np.shape(values)}; it must be {shape}")
    if not np.isfinite(values).all():
        raise ValueError(f"{name} is not finite for the rows that it was tried on")


def _are_close(a: np.ndarray, b: np.ndarray, *, rtol: float) -> bool:
    return np.allclose(a, b, rtol=rtol, atol=1e-9 * float(np.abs(b).max()))


class _Slopes:
    """Derivatives by a basis W from differences, at places where a kernel of rows X may not have a kink."""

    def __init__(self, X: np.ndarray, W: np.ndarray) -> None:
        self._W = W
        distance = float(np.sqrt(((X[1:] - X[:-1]) ** 2).sum(axis=1).mean()))
        # Short steps are for narrow kernels, which bend within a long one.
        self._steps = [step * distance for step in (1e-4, 3e-6, 1e-7)]
        # 50 features are enough to find a wrong formula; with all of very many it would take long.
        gaps = np.abs(X[:, None] - W[None]).min(axis=0)
        varied = np.argsort(-gaps.max(axis=0), kind="stable")
        self._tried = np.sort(varied[:50])
        # Kernels may have kinks where features of w and x are equal.
        self._clear = gaps[:, self._tried] > 10 * self._steps[0]

    def compare(
        self, name: str, pull: Pull, value: Callable[[int, np.ndarray], np.ndarray], tol: float
    ) -> float:
        """Raise an error if a pull is not the gradient of a value; return the size of the gradient.

        The value is a function of one basis vector: of its place, and of many versions of it, one per row.
        """
        W = self._W
        given = Pull(*pull).gradient(W)
        _check_values(name, given, W.shape)
        # Without a place that is clear of kinks there is nothing to compare.
        if self._steps[0] == 0 or not self._clear.any():
            return 0.0
        shares: list[float] = []
        for h in self._steps:
            slopes, rounding = self._differences(value, h)
            size = float(np.abs(slopes[self._clear]).max())
            off = float(np.abs(given[:, self._tried] - slopes)[self._clear].max())
            if shares and rounding > tol * size:
                break  # too short a step to tell
            if off <= tol * size + rounding:
                return size if size > 10 * rounding else 0.0
            shares.append(off / max(size, float(np.finfo(float).tiny)))
        raise ValueError(
            f"{name} is off by {min(shares):.2g} of its size from finite differences of the kernel, more "
            f"than {tol:g}; correct the formula, and try it with clusterica.kernels.check_kernel"
        )

    def _differences(
        self, value: Callable[[int, np.ndarray], np.ndarray], h: float
    ) -> tuple[np.ndarray, float]:
        """Return the derivatives by steps of h, and by how much rounding may put them off."""
        W = self._W
        slopes, rounding = np.zeros((len(W), len(self._tried))), 0.0
        moves = np.zeros((len(self._tried), W.shape[1]))
        moves[np.arange(len(moves)), self._tried] = h
        for p in range(len(W)):
            # Differences of fourth order, ``Σ c (f(w + a h) - f(w - a h)) / h``.
            for a, c in ((1, 2 / 3), (2, -1 / 12)):
                up, down = value(p, W[p] + a * moves), value(p, W[p] - a * moves)
                slopes[p] += c * (up - down) / h
                # Values may be sums over many features: 100 units in the last place are allowed.
                error = 100 * float(np.finfo(float).eps) * float(np.abs(up).max())
                rounding = max(rounding, error / h)
        return slopes, rounding
