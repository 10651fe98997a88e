"""The linear equations of a Newton step, ``min |w|² + sum_i p_i (t_i - w z_i - b)²`` over some of the rows.

:class:`RowEquations` has ``w = sum_i a_i z_i`` and needs only the Gram matrix ``K = Z Zᵀ`` of the rows:
fast where rows are fewer than features. But K has the squared condition number of Z: where rows are
linearly dependent and the penalty is weak, the coefficients a cancel and w is noise.
:class:`FeatureEquations` keeps Z in memory and solves for w itself, if necessary by its singular values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg

from clusterica.arrays import Array, map_rows, namespace_of, to_host
from clusterica.linear._problem import HostArray, Problem, standardised_rows, sums_of_rows


class SingularError(Exception):
    """A matrix is singular to working precision."""


class RowEquations:
    """Solves for the coefficients a of the rows, with the Gram matrix K where ``place`` puts it."""

    # Inverse condition number below which a factor of K is not used: w keeps about 5 digits. The remedy,
    # solving for w itself, needs memory for all rows in float64.
    least = 1e-11

    def __init__(self, problem: Problem, place: Callable[[Any], Array]) -> None:
        self._problem, self._place = problem, place
        self.K, self.n_passes = row_products(problem, place)
        self.size = problem.rows.n_rows
        self.on_host = isinstance(self.K, np.ndarray)

    def products(self, a: HostArray) -> Array:
        """Return ``Z w`` of shape (n_rows, n_targets), on the host."""
        return to_host(self.K @ self._place(np.ascontiguousarray(a)))

    def inner(self, a: HostArray, other: HostArray, products: HostArray) -> Array:
        """Return ``w · w'`` for every target, where ``products`` is ``Z w'``."""
        return (a * products).sum(axis=0)

    def solve(
        self, indices: HostArray, signs: HostArray, strengths: HostArray
    ) -> tuple[HostArray, HostArray]:
        """Return coefficients and intercepts at the minimum over the rows at these indices.

        Parameters
        ----------
        indices : ndarray of shape (n,)
            The rows.
        signs : ndarray of shape (n, n_targets)
            Their targets t.
        strengths : ndarray of shape (n,)
            Weights p of their squares.

        Raises
        ------
        SingularError
            The factor of K would have too few correct digits.
        """
        a = np.zeros((self.size, signs.shape[1]))
        a[indices], b = _by_products(
            self.K, self._place, indices, signs, strengths, self._problem.intercept, self.least
        )
        return a, b

    def weights(self, a: HostArray) -> Array:
        """Return w of shape (n_targets, n_features), from one pass over the rows."""
        self.n_passes += 1
        return sums_of_rows(self._problem, a)


class FeatureEquations:
    """Solves for the weights w, with the standardised rows Z in float64 on the host."""

    on_host = True

    def __init__(self, problem: Problem) -> None:
        rows = problem.rows
        Z = standardised_rows(rows, problem.standard, np.arange(rows.n_rows), np.dtype(np.float64))
        self._Z, self._intercept, self._place = to_host(Z), problem.intercept, rows.place.put
        self._K = self._Z @ self._Z.T if rows.n_rows > rows.n_features else None
        self.n_passes = 1
        self.size = rows.n_features

    def products(self, w: HostArray) -> Array:
        """Return ``Z w`` of shape (n_rows, n_targets), on the host."""
        return self._Z @ w

    def inner(self, w: HostArray, other: HostArray, products: HostArray) -> Array:
        """Return ``w · w'`` for every target."""
        return (w * other).sum(axis=0)

    def solve(
        self, indices: HostArray, signs: HostArray, strengths: HostArray
    ) -> tuple[HostArray, HostArray]:
        """Return weights and intercepts at the minimum over some rows; see :meth:`RowEquations.solve`."""
        Z, root = self._Z[indices], np.sqrt(strengths)[:, None]
        # Up to 1.5 rows a feature K is factored sooner than the Gram matrix of features: a search on 450 x
        # 400 rows of 10 classes took four times as long without. Z is here anyway, so 8 digits are asked
        # for.
        if self._K is not None and len(indices) < 1.5 * self.size:
            try:
                a, b = _by_products(
                    self._K, to_host, indices, signs, strengths, self._intercept, 1e-8
                )
                return Z.T @ a, b
            except SingularError:
                pass
        if not self._intercept:
            return _ridge(root * Z, root * signs), np.zeros(signs.shape[1])
        # At the minimum b is the weighted mean of t - w z.
        mean = np.average(Z, axis=0, weights=strengths)
        level = np.average(signs, axis=0, weights=strengths)
        w = _ridge(root * (Z - mean), root * (signs - level))
        return w, level - mean @ w

    def weights(self, w: HostArray) -> Array:
        """Return w of shape (n_targets, n_features), where the rows are."""
        return self._place(np.ascontiguousarray(w.T))


def row_products(problem: Problem, place: Callable[[Any], Array]) -> tuple[Array, int]:
    """Return ``K = Z Zᵀ`` in float64, and the number of passes over the rows: one for 512 columns of K."""
    rows, n = problem.rows, problem.rows.n_rows
    mean, scale = problem.standard.mean, problem.standard.scale

    def products(X: Array, mean: Array, scale: Array, Z: Array) -> Array:
        xp = namespace_of(X)
        return ((xp.astype(X, xp.float64) - mean) / scale) @ Z.T

    K = place(np.empty((n, n)))
    starts = range(0, n, 512)  # so many standardised rows are kept in float64
    for start in starts:
        indices = np.arange(start, min(start + 512, n))
        Z = standardised_rows(rows, problem.standard, indices, np.dtype(np.float64))
        row_bytes = 2 * 8 * rows.n_features + 8 * len(indices)
        panel = map_rows(products, rows, mean, scale, Z, row_bytes=row_bytes)
        K[:, start : start + len(indices)] = place(panel)
    return K, len(starts)


def _by_products(
    K: Array,
    place: Callable[[Any], Array],
    indices: HostArray,
    signs: HostArray,
    strengths: HostArray,
    intercept: bool,
    least: float,
) -> tuple[HostArray, HostArray]:
    """Return coefficients of the rows at the indices, and intercepts; see :meth:`RowEquations.solve`."""
    xp, picked = namespace_of(K), place(indices)
    # With b = 0, or sum a = 0: (I + R K R) (a / R) = R (t - b). In this form the penalty is 1 for every row.
    R = np.sqrt(strengths)[:, None]
    M = xp.take(xp.take(K, picked, axis=0), picked, axis=1)
    if intercept:
        # Adds 0 to the equations, as sum a = 0, and makes M regular along the direction that centring
        # removes.
        M += float(xp.linalg.trace(M)) / len(indices)
    placed, sides = place(R), place(np.concatenate([R * signs, R], axis=1))
    if isinstance(M, np.ndarray):
        M *= R
        M *= R.T
        solved = R * checked_solver(add_to_diagonal(M, 1.0), least)(sides)
    else:
        M = add_to_diagonal(M * placed * placed.T, 1.0)
        try:
            solved = R * to_host(solve_positive(M, sides))
        except Exception as error:  # every library of arrays has its own LinAlgError
            if "LinAlgError" not in type(error).__name__:
                raise
            raise SingularError from error
    by_signs, by_ones = solved[:, :-1], solved[:, -1:]
    if not intercept:
        return by_signs, np.zeros(signs.shape[1])
    b = by_signs.sum(axis=0) / by_ones.sum()
    return by_signs - by_ones * b, b


def _ridge(A: HostArray, B: HostArray) -> Array:
    """Return the minimum of ``|w|² + |B - A w|²`` for every column of B.

    From the smaller of the matrices I + Aᵀ A and I + A Aᵀ; by singular values where its factor is not good.
    """
    tall = A.shape[0] > A.shape[1]
    try:
        # Two steps of refinement make up for such a low limit: objectives agree with those by QR on random
        # rows with duplicates, weights from 1e-20 to 1e20 and a column of 7e8.
        solve = checked_solver(add_to_diagonal(A.T @ A if tall else A @ A.T, 1.0), least=1e-13)
    except SingularError:
        U, sigma, Vt = scipy.linalg.svd(A, full_matrices=False, check_finite=False)
        noise = max(A.shape) * np.finfo(np.float64).eps * sigma[0]
        shrunk = np.where(sigma > noise, sigma / (1 + sigma**2), 0.0)
        return Vt.T @ (shrunk[:, None] * (U.T @ B))
    if tall:
        w = solve(A.T @ B)
        for _ in range(2):
            w += solve(A.T @ (B - A @ w) - w)
        return w
    a = solve(B)
    for _ in range(2):
        a += solve(B - a - A @ (A.T @ a))
    return A.T @ a


def positive_solver(M: Array) -> Callable[[Array], Array]:
    """Factor a symmetric positive matrix, which is overwritten on the host, and return ``B -> M⁻¹ B``.

    On the host the Cholesky factor L is applied by triangular solves. On a device those are slow for the few
    columns of B, so L⁻¹ is kept: two products apply it, and ``L⁻ᵀ L⁻¹`` is symmetric and positive in spite of
    rounding, as an inverse of M would not be.
    """
    xp = namespace_of(M)
    if xp is np:
        # M.T has the Fortran order that LAPACK needs, so no copy is made.
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
    """Return ``M⁻¹ B`` for a matrix that is used once; on the host it is overwritten."""
    xp = namespace_of(M)
    if xp is np:
        return positive_solver(M)(B)
    if hasattr(xp, "cholesky_solve"):  # torch; not in the array API standard
        return xp.cholesky_solve(B, xp.linalg.cholesky(M))
    return xp.linalg.solve(M, B)


def checked_solver(M: HostArray, least: float) -> Callable[[HostArray], HostArray]:
    """Return ``B -> M⁻¹ B`` for a symmetric positive float64 matrix on the host, which is overwritten.

    Raises SingularError where there is no Cholesky factor L, or ``min(L_ii)² / |M|`` is below ``least``. That
    estimates 1 / condition number; LAPACK's better estimate takes as long as the factor of 500 rows.
    """
    size = scipy.linalg.lapack.dlange("1", M.T)
    factor, info = scipy.linalg.lapack.dpotrf(M.T, lower=True, overwrite_a=True, clean=False)
    # "not >=" instead of "<": a NaN must raise, too.
    if info != 0 or not float(factor.diagonal().min()) ** 2 >= least * size:
        raise SingularError
    return lambda B: scipy.linalg.cho_solve((factor, True), B, check_finite=False)


def add_to_diagonal(M: Array, value: float) -> Array:
    """Return M with a value added to its diagonal; in place on the host."""
    xp = namespace_of(M)
    if xp is np:
        M.flat[:: M.shape[0] + 1] += value
        return M
    return M + value * xp.eye(M.shape[0], dtype=M.dtype, device=M.device)
