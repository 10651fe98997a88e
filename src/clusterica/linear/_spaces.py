"""The equations of a Newton step, ``min |w|² + sum_i p_i (t_i - w z_i - b)²`` over some rows, in two spaces.

In :class:`RowSpace` the weights are ``w = sum_i a_i z_i`` and only the products ``K = Z Zᵀ`` of rows are
known: that is fast where rows are fewer than features. But K has the square of the condition number of Z.
Where rows are linearly dependent and the penalty is weak, the coefficients a cancel and w is noise.
:class:`FeatureSpace` keeps Z in memory and solves for w itself, if need be by its singular values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg

from clusterica.arrays import namespace_of, to_host
from clusterica.arrays._namespace import Array
from clusterica.linear._factor import SingularError, add_to_diagonal, checked_solver, solve_positive
from clusterica.linear._products import row_products, sums_of_rows
from clusterica.linear._solvers import Problem
from clusterica.linear._standard import standardised_rows

# Inverse condition numbers under which a Cholesky factor is not used. Weights have about -log10(eps / limit)
# correct digits: 5 where the other way needs memory for all rows in float64, 8 where they are there anyway.
# Two steps of refinement make up for the last limit: objectives agree with those by QR on random rows with
# duplicates, weights from 1e-20 to 1e20 and a column of 7e8.
_SINGULAR_PRODUCTS = 1e-11
_INEXACT_PRODUCTS = 1e-8
_SINGULAR_GRAM = 1e-13
# Up to so many rows a feature, their products are factored sooner than the Gram matrix of features: a search
# on 450 x 400 rows of 10 classes took four times as long without.
_FEW_ROWS = 1.5
_REFINEMENTS = 2


class RowSpace:
    """Coefficients a of the rows, from K, which is made where ``place`` puts it."""

    def __init__(self, problem: Problem, place: Callable[[Any], Array]) -> None:
        self._problem, self._place = problem, place
        self.K, self.n_passes = row_products(problem, place)
        self.size = problem.rows.n_rows
        self.on_host = isinstance(self.K, np.ndarray)

    def products(self, a: np.ndarray) -> np.ndarray:
        """Return ``Z w`` of shape (n_rows, n_targets), on the host."""
        return to_host(self.K @ self._place(np.ascontiguousarray(a)))

    def inner(self, a: np.ndarray, other: np.ndarray, products: np.ndarray) -> np.ndarray:
        """Return ``w · w'`` for every target, where w' has these products with the rows."""
        return (a * products).sum(axis=0)

    def solve(
        self, indices: np.ndarray, signs: np.ndarray, strengths: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
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
            The factor of the matrix of products would have too few correct digits.
        """
        a = np.zeros((self.size, signs.shape[1]))
        a[indices], b = _by_products(
            self.K,
            self._place,
            indices,
            signs,
            strengths,
            self._problem.intercept,
            _SINGULAR_PRODUCTS,
        )
        return a, b

    def weights(self, a: np.ndarray) -> Array:
        """Return w of shape (n_targets, n_features), from a walk over the rows."""
        self.n_passes += 1
        return sums_of_rows(self._problem, a)


class FeatureSpace:
    """The weights w, from the standardised rows Z in float64 on the host."""

    on_host = True

    def __init__(self, problem: Problem) -> None:
        rows = problem.rows
        Z = standardised_rows(rows, problem.standard, np.arange(rows.n_rows), np.dtype(np.float64))
        self._Z, self._intercept, self._place = to_host(Z), problem.intercept, rows.place
        self._K = self._Z @ self._Z.T if rows.n_rows > rows.n_features else None
        self.n_passes = 1
        self.size = rows.n_features

    def products(self, w: np.ndarray) -> np.ndarray:
        """Return ``Z w`` of shape (n_rows, n_targets), on the host."""
        return self._Z @ w

    def inner(self, w: np.ndarray, other: np.ndarray, products: np.ndarray) -> np.ndarray:
        """Return ``w · w'`` for every target."""
        return (w * other).sum(axis=0)

    def solve(
        self, indices: np.ndarray, signs: np.ndarray, strengths: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return weights and intercepts at the minimum over some rows; see :meth:`RowSpace.solve`."""
        Z, root = self._Z[indices], np.sqrt(strengths)[:, None]
        if self._K is not None and len(indices) < _FEW_ROWS * self.size:
            try:
                a, b = _by_products(
                    self._K, to_host, indices, signs, strengths, self._intercept, _INEXACT_PRODUCTS
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

    def weights(self, w: np.ndarray) -> Array:
        """Return w of shape (n_targets, n_features), where the rows are."""
        return self._place(np.ascontiguousarray(w.T))


def _by_products(
    K: Array,
    place: Callable[[Any], Array],
    indices: np.ndarray,
    signs: np.ndarray,
    strengths: np.ndarray,
    intercept: bool,
    least: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Return coefficients of the rows at the indices, and intercepts; see :meth:`RowSpace.solve`."""
    xp, picked = namespace_of(K), place(indices)
    # With b = 0, or sum a = 0: (I + R K R) (a / R) = R (t - b). In this form the penalty is 1 for every row.
    R = np.sqrt(strengths)[:, None]
    M = xp.take(xp.take(K, picked, axis=0), picked, axis=1)
    if intercept:
        # Adds 0 to the equations, as sum a = 0, and fills the direction that centring leaves empty.
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


def _ridge(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Return the minimum of ``|w|² + |B - A w|²`` for every column of B.

    From the smaller of the matrices I + Aᵀ A and I + A Aᵀ; by singular values where its factor is not good.
    """
    tall = A.shape[0] > A.shape[1]
    try:
        solve = checked_solver(add_to_diagonal(A.T @ A if tall else A @ A.T, 1.0), _SINGULAR_GRAM)
    except SingularError:
        U, sigma, Vt = scipy.linalg.svd(A, full_matrices=False, check_finite=False)
        noise = max(A.shape) * np.finfo(np.float64).eps * sigma[0]
        shrunk = np.where(sigma > noise, sigma / (1 + sigma**2), 0.0)
        return Vt.T @ (shrunk[:, None] * (U.T @ B))
    if tall:
        w = solve(A.T @ B)
        for _ in range(_REFINEMENTS):
            w += solve(A.T @ (B - A @ w) - w)
        return w
    a = solve(B)
    for _ in range(_REFINEMENTS):
        a += solve(B - a - A @ (A.T @ a))
    return A.T @ a
