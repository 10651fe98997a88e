"""Whether the derivatives of a kernel of one's own are those of its values, by finite differences."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from clusterica.arrays._namespace import Array
from clusterica.ops.kernels import Kernel, Pull

_MOST_TRIED = 50  # features that derivatives are compared by


def check_kernel(kernel: Kernel, *, n_features: int = 5, tol: float = 1e-5) -> None:
    """Check the derivatives of a kernel of your own against finite differences.

    Parameters
    ----------
    kernel : Kernel
        An object with the methods of :class:`Kernel`.
    n_features : int, default=5
        Number of features of what it is tried on: random rows of unit length, and a basis of about that.
    tol : float, default=1e-5
        Largest difference allowed, relative to the size of the derivative.

    Raises
    ------
    TypeError
        Where a method is missing.
    ValueError
        Where a shape is wrong, a value is not finite, or a derivative is not that of the kernel.
    """
    for name in ("__call__", "diagonal", "pull", "diagonal_pull", "unit_diagonal"):
        if not hasattr(kernel, name):
            raise TypeError(
                f"the kernel has no {name}; see clusterica.ica.Kernel for what it needs"
            )
    rng = np.random.default_rng(0)
    X, W = (rng.normal(size=(n, n_features)) for n in (7, 4))
    X, W = (A / np.linalg.norm(A, axis=1, keepdims=True) for A in (X, W))
    W *= np.array(
        [[0.6], [0.8], [1.0], [1.2]]
    )  # a basis that is learned need not be of unit length
    Q, q = rng.normal(size=(7, 4)), rng.normal(size=4)
    values, diagonal = kernel(X, W), kernel.diagonal(W)
    _check_values("the kernel", values, (7, 4))
    _check_values("the diagonal", diagonal, (4,))
    if not np.allclose(diagonal, np.diag(kernel(W, W)), rtol=1e-6, atol=1e-9):
        raise ValueError("diagonal(W) differs from the diagonal of the kernel's values of W and W")
    if not np.allclose(kernel(W, X).T, values, rtol=1e-6, atol=1e-9):
        raise ValueError("the kernel is not symmetric: k(w, x) differs from k(x, w)")
    if kernel.unit_diagonal and not np.allclose(diagonal, 1):
        raise ValueError("unit_diagonal is true, and k(w, w) is not 1")
    _check_pull("pull", kernel.pull(X, W, values, Q), W, lambda V: (Q * kernel(X, V)).sum(), tol)
    pull = kernel.diagonal_pull(W, q)
    _check_pull("diagonal_pull", pull, W, lambda V: (q * kernel.diagonal(V)).sum(), tol)


def _check_values(name: str, values: Array, shape: tuple[int, ...]) -> None:
    if np.shape(values) != shape:
        raise ValueError(f"{name} has shape {np.shape(values)}; it must be {shape}")
    if not np.isfinite(values).all():
        raise ValueError(f"{name} is not finite for rows of about unit length")


def _check_pull(
    name: str, pull: Pull, W: np.ndarray, value: Callable[[np.ndarray], float], tol: float
) -> None:
    """Compare a pull with central differences of the value that it is the gradient of."""
    step = 1e-5
    # Some features tell it: with all of very many it would take long.
    tried = np.unique(np.linspace(0, W.shape[1] - 1, num=_MOST_TRIED, dtype=int))
    given = Pull(*pull).gradient(W)[:, tried]
    slopes = np.empty_like(given)
    for p, f in np.ndindex(slopes.shape):
        move = np.zeros_like(W)
        move[p, tried[f]] = step
        slopes[p, f] = (value(W + move) - value(W - move)) / (2 * step)
    off = np.abs(given - slopes).max() / max(1.0, float(np.abs(slopes).max()))
    if not off <= tol:
        raise ValueError(
            f"{name} is off by {off:.2g} of its size from finite differences of the kernel; check the "
            f"formula, or raise tol={tol:g} if it is only rough"
        )
