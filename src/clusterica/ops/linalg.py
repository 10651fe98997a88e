"""Small dense algebra that all rules share: lengths, unit rows, the polar factor, eigenvalues."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from clusterica.arrays import Array, namespace_of

_LARGE = 256  # rows of a square matrix from which inverses are faster than a decomposition
_MOST_STEPS = 30


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
    largest = xp.max(xp.abs(X), axis=1, keepdims=True)
    # Of numbers up to one, so that no square is lost, nor one over a length.
    X = X / xp.where(largest > 0, largest, 1)
    unit = X * inverse_lengths(X)[:, None]
    return unit if fallback is None else xp.where(largest > 0, unit, fallback)


def project(X: Array, B: Array, mean: Array) -> Array:
    """Return ``(x - mean) Bᵀ`` for every row, shape (n_rows, n_components)."""
    return (X - mean) @ B.T


def combine(S: Array, A: Array, mean: Array) -> Array:
    """Return ``s Aᵀ + mean`` for every row, shape (n_rows, n_features): the way back."""
    return S @ A.T + mean


def polar_factor(M: Array) -> Array:
    """Return the matrix with orthonormal rows nearest to M: U Vᵀ of its singular value decomposition.

    Among all C with ``C Cᵀ = I`` it maximises ``trace(C Mᵀ)``.
    """
    if M.shape[0] == M.shape[1] >= _LARGE:
        C = _newton_polar(M)
        if C is not None:
            return C
    U, _, Vt = namespace_of(M).linalg.svd(M, full_matrices=False)
    return U @ Vt


def _newton_polar(M: Array) -> Array | None:
    """Return the polar factor by Newton's steps ``X <- (g X + X^-T / g) / 2`` (Higham, 1986).

    Inverses run at nearly the speed of products, and about ten of them are enough. None if there is no
    inverse.
    """
    xp = namespace_of(M)
    X, scaled = M, True
    for _ in range(_MOST_STEPS):
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
        scaled = moved > 0.01
    return None


def _size(X: Array) -> Array:
    """Return the geometric mean of the largest sums of magnitudes along rows and along columns."""
    xp = namespace_of(X)
    return (xp.max(xp.sum(xp.abs(X), axis=0)) * xp.max(xp.sum(xp.abs(X), axis=1))) ** 0.5
