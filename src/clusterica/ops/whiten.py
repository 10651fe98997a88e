"""Whitening matrices T of a covariance, with ``T (cov + eps I) Tᵀ = I``, and their inverses.

With ``V diag(e) Vᵀ = cov``: zca ``T = V (e + eps)^(-1/2) Vᵀ``, pca ``T = (e + eps)^(-1/2) Vᵀ``, and
cholesky ``T = L⁻¹`` where ``L Lᵀ = cov + eps I``. They differ by a rotation only.
"""

from __future__ import annotations

from typing import NamedTuple

from clusterica.arrays import Array, namespace_of


class Whitening(NamedTuple):
    """T, shape (n_components, n_features), and its (pseudo-)inverse, shape (n_features, n_components)."""

    whitening: Array
    dewhitening: Array


class Spectrum(NamedTuple):
    """Eigenvalues in falling order, shape (n_features,), and eigenvectors as columns.

    Eigenvalues up to ``rounding`` may be rounding errors; the rank counts those above it.
    """

    values: Array
    vectors: Array
    rank: int
    rounding: float


def spectrum(covariance: Array, *, noise: float = 0.0) -> Spectrum:
    """Return the eigenvalues and eigenvectors of a float64 covariance, and its rank.

    ``noise`` is the variance that the rounding of the data itself may have brought in.
    """
    xp = namespace_of(covariance)
    values, vectors = xp.linalg.eigh(covariance)
    values, vectors = xp.flip(values), xp.flip(vectors, axis=1)
    # The largest entry of an eigenvector is positive, so that two fits can be compared.
    largest = xp.argmax(xp.abs(vectors), axis=0)
    vectors = vectors * xp.sign(xp.take_along_axis(vectors, largest[None, :], axis=0))
    # Rounding of the sums moves an eigenvalue that should be zero by about this much.
    precision = float(xp.finfo(covariance.dtype).eps)
    rounding = float(xp.max(values)) * 4 * covariance.shape[0] ** 0.5 * precision + noise
    rank = int(xp.sum(xp.astype(values > rounding, xp.int64)))
    return Spectrum(xp.clip(values, min=0), vectors, rank, rounding)


def whiten_by_spectrum(
    s: Spectrum, *, eps: float, n_components: int, rotate_back: bool
) -> Whitening:
    """Return the zca (rotate_back) or pca whitening.

    Directions without variance are left out if eps is no larger than the rounding errors of the
    eigenvalues: it would only amplify those.
    """
    xp = namespace_of(s.values)
    V = s.vectors[:, :n_components]
    variance = s.values[:n_components] + eps
    n_kept = s.rank if eps <= s.rounding else n_components
    counts = xp.arange(n_components, device=V.device) < n_kept
    root = xp.sqrt(xp.where(counts, variance, 1.0))
    down = xp.where(counts, 1 / root, 0.0)
    up = xp.where(counts, root, 0.0)
    if rotate_back:
        return Whitening((V * down) @ V.T, (V * up) @ V.T)
    return Whitening((V * down).T, V * up)


def whiten_by_cholesky(
    covariance: Array, *, eps: float, n_components: int | None = None
) -> Whitening:
    """Return the whitening by the first rows of the inverse of the Cholesky factor.

    The factor is triangular, so that they depend on the first features only. The way back predicts all
    features from those by least squares.
    """
    xp = namespace_of(covariance)
    identity = xp.eye(covariance.shape[0], dtype=covariance.dtype, device=covariance.device)
    L = xp.linalg.cholesky(covariance + eps * identity)
    T = xp.tril(xp.linalg.solve(L, identity))
    return Whitening(T[:n_components, :], L[:, :n_components])
