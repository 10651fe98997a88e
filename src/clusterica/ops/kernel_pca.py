"""Kernel PCA over landmarks L: features ``h(x) = K_LL^(-1/2) k(L, x)``, whose products stand for k(x, y).

They are the coordinates of φ(x) in the space that the landmarks span (Nyström).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from clusterica.arrays import Array, namespace_of, working_memory
from clusterica.ops.kernels import Kernel, scale_rows
from clusterica.ops.linalg import project


class Landmarks(NamedTuple):
    """The root P of K_LL^-1, shape (n_dims, n_landmarks), and the variance of rounding in features."""

    root: np.ndarray
    noise: float


class FeatureMoments(NamedTuple):
    """Sums over rows, about a point: of k(L, x), and of the products of features h."""

    first: Array
    second: Array


def landmark_root(kernel: Kernel, L: np.ndarray, dtype: np.dtype) -> Landmarks:
    """Return P with ``Pᵀ P = K_LL^-1`` on the directions that are not zero up to the rounding of the dtype.

    An error ε of k becomes one of ``ε / √λ`` of the feature along an eigenvector of K_LL with the
    eigenvalue λ, and the feature itself is about ``√(λ / m)``.
    """
    K = kernel(L, L)
    K = (K + K.T) / 2
    values, vectors = np.linalg.eigh(K)
    values, vectors = values[::-1], vectors[:, ::-1]  # falling, as a spectrum is everywhere here
    # An eigenvalue counts where the error that it leaves in its feature is well below the feature itself.
    eps = float(np.finfo(dtype).eps) * float(np.abs(K).max())
    least = 16 * eps * len(L) ** 0.5
    n = int((values > least).sum())
    if n == 0:
        raise ValueError(
            "the kernel is zero for all landmarks, so that there are no features; scale the rows, or use "
            "another kernel"
        )
    return Landmarks((vectors[:, :n] / np.sqrt(values[:n])).T, eps**2 / float(values[n - 1]))


def landmark_values(X: Array, L: Array, *, kernel: Kernel, normalize: bool) -> Array:
    """Return k(l, x) of a block, shape (n_rows, n_landmarks)."""
    return kernel(scale_rows(X, normalize=normalize), L)


@working_memory(lambda row, L, about, root: (2 * row.n_features + 6 * L.shape[0]) * row.itemsize)
def feature_moments(
    X: Array, L: Array, about: Array, root: Array, *, kernel: Kernel, normalize: bool
) -> FeatureMoments:
    """Return the sums over a block of ``k - about`` and ``h hᵀ``, with ``h = P (k - about)``."""
    xp = namespace_of(X)
    K = landmark_values(X, L, kernel=kernel, normalize=normalize) - about
    # In float64: whitening divides by the root of the smallest eigenvalue of these sums.
    H = xp.astype(K @ root.T, xp.float64, copy=False)
    return FeatureMoments(xp.sum(K, axis=0, dtype=xp.float64), H.T @ H)


@working_memory(
    lambda row, L, B, mean: (2 * row.n_features + 3 * L.shape[0] + B.shape[0]) * row.itemsize
)
def kernel_project(
    X: Array, L: Array, B: Array, mean: Array, *, kernel: Kernel, normalize: bool
) -> Array:
    """Return ``B (k(L, x) - mean)`` of a block, shape (n_rows, n_components)."""
    return project(landmark_values(X, L, kernel=kernel, normalize=normalize), B, mean)
