"""Small dense algebra: lengths and sums of rows, the polar factor, eigenvalues, positive equations."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import frexp, isqrt, ldexp
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from clusterica.arrays import Array, namespace_of, one_blas_thread, to_host, to_like, working_memory

HostArray = np.ndarray[Any, Any]


def row_energies(X: Array) -> Array:
    """Return the squared length of every row, ``sum_f x_f^2``, shape (n_rows,)."""
    if sp.issparse(X):
        return np.asarray(X.multiply(X).sum(axis=1)).ravel()
    if isinstance(X, np.ndarray):
        return np.einsum("ij,ij->i", X, X)
    return namespace_of(X).vecdot(X, X)


def wide_row_energies(X: Array) -> Array:
    """Return the squared length of every row in float64, where the square of no float32 is lost."""
    if isinstance(X, np.ndarray):
        return np.einsum("ij,ij->i", X, X, dtype=np.float64)
    if sp.issparse(X):
        return row_energies(X.astype(np.float64))
    return row_energies(namespace_of(X).astype(X, namespace_of(X).float64))


def power_of_two(value: float) -> float:
    """Return the largest power of two up to a positive number; 1 for zero. Division by it loses no digit."""
    return ldexp(1.0, frexp(value)[1] - 1) if value > 0 else 1.0


def far_unit(*arrays: Array) -> float:
    """Return a power of two near the largest entry where its square would overflow or vanish, else 1."""
    xp = namespace_of(arrays[0])
    limits = xp.finfo(arrays[0].dtype)
    full = [X for X in arrays if 0 not in X.shape]
    largest = max((max(float(xp.max(X)), -float(xp.min(X))) for X in full), default=0.0)
    # With room for the digits of squares, and for sums over many of them.
    low = float(limits.smallest_normal / limits.eps) ** 0.5
    high = float(limits.max / 2**20) ** 0.5
    return 1.0 if low <= largest <= high else power_of_two(largest)


def row_lengths(X: Array) -> Array:
    """Return the Euclidean length of every row, shape (n_rows,)."""
    return row_energies(X) ** 0.5


def inverse_lengths(X: Array) -> Array:
    """Return one over the length of every row, and 0 for a row of zeros, which has no direction."""
    lengths = wide_row_energies(X) ** 0.5
    xp = namespace_of(lengths)
    inverse = xp.where(lengths > 0, 1 / xp.where(lengths > 0, lengths, 1), 0)
    return xp.astype(inverse, X.dtype)


def unit_rows(X: Array, fallback: Array | None = None) -> Array:
    """Scale every row to unit length; a row of zeros becomes that of the fallback, or stays zero."""
    xp = namespace_of(X)
    largest = xp.maximum(xp.max(X, axis=1, keepdims=True), -xp.min(X, axis=1, keepdims=True))
    # Of numbers up to one, so that no square is lost, nor one over a length.
    unit = X / xp.where(largest > 0, largest, 1)
    unit *= inverse_lengths(unit)[:, None]
    if fallback is None or (isinstance(X, np.ndarray) and largest.all()):
        return unit
    return xp.where(largest > 0, unit, fallback)


def sum_by_label(X: Any, labels: Any, n_labels: int) -> Any:
    """Return the sums of the rows of a tensor that have the same label, shape (n_labels, n_columns).

    X may have one axis, too. Two runs give the same bits, wherever the tensor is.
    """
    if X.device.type == "cpu":
        return X.new_zeros((n_labels, *X.shape[1:])).index_add(0, labels, X)
    # On a GPU this adds by atomic operations, in another order each time.
    return sum_in_order(X, labels, n_labels)


def sum_in_order(X: Any, labels: Any, n_labels: int) -> Any:
    """Return the sums of `sum_by_label`, each added in the order of the rows.

    On a GPU `index_put_` sorts the labels, stably, and adds the rows of each one after the other. So that
    a few large clusters do not leave most of the GPU idle, the rows of a label are dealt out to parts,
    about as many parts as a part has rows, and the sums of the parts are added.
    """
    n_parts = max(1, isqrt(X.shape[0] // n_labels))
    part = namespace_of(X).arange(X.shape[0], device=X.device) % n_parts
    sums = X.new_zeros((n_labels * n_parts, *X.shape[1:]))
    sums.index_put_((labels * n_parts + part,), X, accumulate=True)
    return sums.reshape(n_labels, n_parts, *X.shape[1:]).sum(1)


@working_memory(lambda row, B, mean: (row.n_features + B.shape[0]) * row.itemsize)
def project(X: Array, B: Array, mean: Array) -> Array:
    """Return ``(x - mean) Bᵀ`` for every row, shape (n_rows, n_components)."""
    return (X - mean) @ B.T


@working_memory(lambda row, A, mean: (row.n_features + A.shape[0]) * row.itemsize)
def combine(S: Array, A: Array, mean: Array) -> Array:
    """Return ``s Aᵀ + mean`` for every row, shape (n_rows, n_features): the way back."""
    return S @ A.T + mean


def polar_factor(M: Array) -> Array:
    """Return the matrix with orthonormal rows nearest to M: U Vᵀ of its singular value decomposition.

    Among all C with ``C Cᵀ = I`` it maximises ``trace(C Mᵀ)``.
    """
    if M.shape[0] == M.shape[1] >= 256:  # from here on inverses are faster than a decomposition
        C = _newton_polar(M)
        if C is not None:
            return C
    # Small decompositions are many short steps, one after the other: 64 x 64 take one thread of a host 0.4 ms
    # and two threads 1.2, and a device would be asked for each.
    if max(M.shape) <= 128:
        with one_blas_thread():
            U, _, Vt = np.linalg.svd(to_host(M), full_matrices=False)
        return to_like(U @ Vt, M)
    U, _, Vt = namespace_of(M).linalg.svd(M, full_matrices=False)
    return U @ Vt


def _newton_polar(M: Array) -> Array | None:
    """Return the polar factor by Newton's steps ``X <- (g X + X^-T / g) / 2`` (Higham, 1986).

    Inverses run at nearly the speed of products, and about ten of them are enough. None if there is no
    inverse.
    """
    xp = namespace_of(M)
    X, scaled = M, True
    for _ in range(30):  # about ten are enough; one that takes 30 does not converge
        try:
            Y = xp.linalg.inv(X).T
        except (ValueError, RuntimeError):  # of a singular matrix, by NumPy and by torch
            return None
        g = float(_size(Y) / _size(X)) ** 0.5 if scaled else 1.0
        new = (g * X + Y / g) / 2
        moved = float(xp.linalg.matrix_norm(new - X) / xp.linalg.matrix_norm(new))
        X = new
        if moved < float(xp.finfo(M.dtype).eps) ** 0.5:  # the next step would move by its square
            return X
        scaled = moved > 0.01  # near the end the factor is one
    return None


def _size(X: Array) -> Array:
    """Return the geometric mean of the largest sums of magnitudes along rows and along columns."""
    xp = namespace_of(X)
    return (xp.max(xp.sum(xp.abs(X), axis=0)) * xp.max(xp.sum(xp.abs(X), axis=1))) ** 0.5


class SingularError(Exception):
    """A matrix is singular to working precision."""


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


def gram_of_columns(parts: Iterable[HostArray], n_rows: int) -> HostArray:
    """Return ``sum Z Zᵀ`` in float64 over host arrays Z of shape (n_rows, n_columns).

    BLAS computes one triangle only: half of the multiplications of a product.
    """
    K = np.zeros((n_rows, n_rows), order="F")
    for Z in parts:
        # Z.T has the Fortran order that BLAS needs, so that no copy is made.
        K = scipy.linalg.blas.dsyrk(
            1.0, np.ascontiguousarray(Z).T, beta=1.0, c=K, trans=True, lower=True, overwrite_c=True
        )
    for start in range(0, n_rows, 512):  # of K itself a copy would be as large as K
        stop = start + 512
        K[start:stop, stop:] = K[stop:, start:stop].T
        square = K[start:stop, start:stop]
        square += np.tril(square, -1).T
    return K.T


def add_to_diagonal(M: Array, value: float) -> Array:
    """Return M with a value added to its diagonal; in place on the host."""
    xp = namespace_of(M)
    if xp is np:
        M.flat[:: M.shape[0] + 1] += value
        return M
    return M + value * xp.eye(M.shape[0], dtype=M.dtype, device=M.device)


def solve_ridge(A: HostArray, B: HostArray) -> Array:
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
