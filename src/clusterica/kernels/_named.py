"""Kernels by name, and the γ of the Gaussian one: by a median distance, or by a basis's own kernel matrix."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq
from scipy.spatial.distance import cdist, pdist

from clusterica.kernels._check import check_kernel_on, check_methods
from clusterica.kernels._kernels import (
    Gaussian,
    HistogramIntersection,
    InverseDistance,
    InverseSquareDistance,
    Normalized,
    Polynomial,
)
from clusterica.ops.kernels import Kernel
from clusterica.ops.linalg import row_energies

# With the constants of Xiao, Zhu and Zhao: b = 3 for the polynomial, 1 for the others.
_NAMED: dict[str, Callable[[], Kernel]] = {
    "polynomial": lambda: Normalized(Polynomial()),
    "inverse-distance": InverseDistance,
    "inverse-square-distance": InverseSquareDistance,
    "histogram-intersection": lambda: Normalized(HistogramIntersection()),
}
KERNEL_NAMES = ("rbf", *_NAMED)
# The k that half of the rows have at least with their nearest basis vector. On 800 rows of noise in 100
# dimensions 6 to 10 vectors all died with 0.03 and less, up to 8 with 0.05, and none with 0.1. On digits,
# MNIST, iris, wine, breast cancer and white patches it is 0.18 to 0.97 anyway.
NEAR = 0.1


def make_kernel(
    kernel: str | Kernel,
    *,
    gamma: float | str = "median",
    rows: np.ndarray | None = None,
    rng: np.random.Generator | None = None,
) -> Kernel:
    """Return a kernel, given by name or as an object.

    Parameters
    ----------
    kernel : str or Kernel
        "rbf", "polynomial", "inverse-distance", "inverse-square-distance" or "histogram-intersection", with
        the constants of Xiao, Zhu and Zhao; those without k(x, x) = 1 are normalised. An object is returned
        as it is, once it is checked: on the rows if there are any, else for its methods only.
    gamma : float or "median", default="median"
        The γ of "rbf"; a number is an error with any other kernel. "median" needs rows; see
        :func:`median_gamma`, and :func:`basis_gamma` for another choice.
    rows : ndarray of shape (n_rows, n_features), optional
        Some rows of the data, in host memory.
    rng : Generator, optional
        Draws pairs of rows for "median".
    """
    is_rbf = isinstance(kernel, str) and kernel == "rbf"
    if not (is_rbf or isinstance(gamma, str)):
        raise ValueError(
            f"gamma={gamma!r} is that of kernel='rbf', and kernel={kernel!r} does not read it; use 'rbf', a "
            "kernel object with a constant of its own, such as InverseDistance(b), or leave gamma out"
        )
    # A wrong derivative would show as a bad fit only, so that custom kernels are checked.
    if not isinstance(kernel, str):
        if rows is None:
            check_methods(kernel)
        else:
            check_kernel_on(kernel, rows)
        return kernel
    if not is_rbf:
        if kernel not in _NAMED:
            raise ValueError(
                f"kernel={kernel!r} is not known; use one of {KERNEL_NAMES}, or a kernel"
            )
        return _NAMED[kernel]()
    if not isinstance(gamma, str):
        return Gaussian(float(gamma))
    if gamma != "median":
        raise ValueError(f"gamma={gamma!r} is not known here; use 'median' or a number")
    if rows is None:
        raise ValueError(
            "gamma='median' is computed from rows, and none are given; pass rows, or a number"
        )
    return Gaussian(median_gamma(rows, np.random.default_rng() if rng is None else rng))


def median_gamma(X: np.ndarray, rng: np.random.Generator, *, n_pairs: int = 10_000) -> float:
    """Return one over the median squared distance of random pairs of rows.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
        Some rows, in host memory.
    rng : Generator
        Draws the pairs.
    n_pairs : int, default=10_000
        Number of pairs.
    """
    # Drawn pairs, since all of them would take rows² distances; 10,000 give the median to about a percent.
    first, second = rng.integers(len(X), size=(2, n_pairs))
    squares = row_energies(X[first] - X[second])[first != second]
    squares = squares[squares > 0]  # equal rows say nothing of the scale, and may be many
    if len(squares) == 0:
        raise ValueError(
            "gamma='median' needs rows that differ, and all that were drawn are equal, or nearly so; give a "
            "number"
        )
    median = float(np.median(squares))
    if not 0 < 1 / median < np.inf:
        raise ValueError(
            f"gamma='median' is one over the median of squared distances of rows, which is {median:g}; scale "
            "the rows, as normalize=True does"
        )
    return 1 / median


def near_gamma(X: np.ndarray, W: np.ndarray) -> float:
    """Return the γ with which half of some rows have a k of 0.1 with their nearest basis vector.

    Infinity where half of the rows are basis vectors, up to rounding.
    """
    some = X[:: max(1, len(X) // 1000)]  # enough for a median
    nearest = cdist(some, W, "sqeuclidean").min(axis=1)
    nearest[nearest <= _rounding(some)] = 0
    middle = float(np.median(nearest))
    return -float(np.log(NEAR)) / middle if middle > 0 else np.inf


def _rounding(W: np.ndarray) -> np.ndarray:
    """Return for every row the square of what rounding may make of the distance to an equal one."""
    energies: np.ndarray = row_energies(W.astype(np.float64))
    return (8 * float(np.finfo(W.dtype).eps)) ** 2 * energies


def basis_gamma(W: np.ndarray, *, mean: float = 0.2, rows: np.ndarray | None = None) -> float:
    """Return the γ with which the mean ``k(w_p, w_q)`` of two different basis vectors has a value.

    Parameters
    ----------
    W : ndarray of shape (n_basis, n_features)
        The basis, in host memory; pairs of equal vectors are left out.
    mean : float, default=0.2
        The value, between 0 and 1.
    rows : ndarray of shape (n_rows, n_features), optional
        Some rows of the data. The γ is then at most that with which half of them have a k of 0.1 with their
        nearest basis vector: centres of noise are nearer to each other than to any row.
    """
    squares, rounding = pdist(W, "sqeuclidean"), _rounding(W)
    # Basis vectors that are equal, up to rounding, are alike with every γ.
    p, q = np.triu_indices(len(W), 1)
    squares = squares[squares > np.maximum(rounding[p], rounding[q])]
    if len(squares) == 0:
        raise ValueError(
            "gamma='basis' needs two basis vectors that differ at the start; use more n_components, rows "
            "that differ, gamma='median' or a number"
        )
    # As logarithms, and of distances about 1: the mean of e^{-γ d} is at least e^{-γ mean d}, and at most
    # e^{-γ min d}, so that the root is between these two.
    unit = float(squares.mean())
    if not 0 < 1 / unit < np.inf:
        raise ValueError(
            f"gamma='basis' is about one over the mean squared distance of basis vectors, which is {unit:g}; "
            "scale the rows, as normalize=True does"
        )
    squares /= unit
    low, high = np.log(-np.log(mean) / np.array([1.0, squares.min()]))
    found = brentq(lambda t: np.exp(-np.exp(t) * squares).mean() - mean, low - 1e-9, high + 1e-9)
    gamma = float(np.exp(found)) / unit
    return gamma if rows is None else min(gamma, near_gamma(rows, W))
