"""Solves with one symmetric positive matrix, ``B -> M⁻¹ B``, many times or once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.linalg

from clusterica.arrays import namespace_of
from clusterica.arrays._namespace import Array


def positive_solver(M: Array) -> Callable[[Array], Array]:
    """Factor a symmetric positive matrix, which is overwritten on the host, and return its solver.

    On the host the Cholesky factor is applied by triangular solves. On a device those are slow for the
    few columns of B, so that the inverse L⁻¹ of the factor is kept: two products apply it, and
    ``L⁻ᵀ L⁻¹`` is symmetric and positive in spite of rounding, as no inverse of M would be.
    """
    xp = namespace_of(M)
    if xp is np:
        # Fortran order, as LAPACK wants it, so that no copy is made.
        factor = scipy.linalg.cho_factor(M.T, lower=True, overwrite_a=True, check_finite=False)
        return lambda B: scipy.linalg.cho_solve(factor, B, check_finite=False)
    L = xp.linalg.cholesky(M)
    identity = xp.eye(M.shape[0], dtype=M.dtype, device=M.device)
    if hasattr(xp.linalg, "solve_triangular"):
        inverse = xp.linalg.solve_triangular(L, identity, upper=False)
    else:
        inverse = xp.linalg.solve(L, identity)
    return lambda B: inverse.T @ (inverse @ B)


def solve_positive(M: Array, B: Array) -> Array:
    """Return ``M⁻¹ B`` for a matrix that is used this once; on the host it is overwritten."""
    xp = namespace_of(M)
    if xp is np:
        return positive_solver(M)(B)
    if hasattr(xp, "cholesky_solve"):  # not in the array API standard
        return xp.cholesky_solve(B, xp.linalg.cholesky(M))
    return xp.linalg.solve(M, B)


class SingularError(Exception):
    """A matrix is singular, as far as its digits tell."""


def checked_solver(M: np.ndarray, least: float) -> Callable[[np.ndarray], np.ndarray]:
    """Return the solver of a symmetric positive float64 matrix on the host, which is overwritten.

    Raises SingularError where there is no Cholesky factor L, or ``min(L_ii)² / |M|`` is below ``least``.
    That is an estimate of 1 / condition number; LAPACK's better one takes as long as the factor of 500 rows.
    """
    size = scipy.linalg.lapack.dlange("1", M.T)
    factor, info = scipy.linalg.lapack.dpotrf(M.T, lower=True, overwrite_a=True, clean=False)
    # Written so that a NaN raises.
    if info != 0 or not float(factor.diagonal().min()) ** 2 >= least * size:
        raise SingularError
    return lambda B: scipy.linalg.cho_solve((factor, True), B, check_finite=False)


def add_to_diagonal(M: Array, values: float | Array) -> Array:
    """Return M with values added along its diagonal; in place on the host."""
    xp = namespace_of(M)
    if xp is np:
        M.flat[:: M.shape[0] + 1] += values
        return M
    return M + values * xp.eye(M.shape[0], dtype=M.dtype, device=M.device)
