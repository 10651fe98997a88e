"""Moments of a block about a fixed point a: n, sum (x - a), sum (x - a)(x - a)ᵀ; and what whitens by them.

Moments are taken in float64 whatever the rows are: whitening divides by the root of the smallest eigenvalue,
and a product of float32 numbers loses it where the features are far from independent.

A whitening matrix T of a covariance has ``T (cov + eps I) Tᵀ = I``. With ``V diag(e) Vᵀ = cov``: zca
``T = V (e + eps)^(-1/2) Vᵀ``, pca ``T = (e + eps)^(-1/2) Vᵀ``, and cholesky ``T = L⁻¹`` where
``L Lᵀ = cov + eps I``. They differ by a rotation only.
"""

from __future__ import annotations

from typing import NamedTuple

from clusterica.arrays import Array, in_tiles, namespace_of, working_memory
from clusterica.ops.linalg import project


class Moments(NamedTuple):
    """Sums over rows about a point, which is near the mean so that digits are kept."""

    n: Array
    first: Array
    second: Array


@working_memory(lambda row, about: 16 * row.n_features)
@in_tiles(lambda X, about: 2 * X.shape[1])
def moments(X: Array, about: Array) -> Moments:
    """Return the moments of a block: count, shape (n_features,), shape (n_features, n_features)."""
    xp = namespace_of(X)
    centred = xp.astype(X, xp.float64, copy=False) - xp.astype(about, xp.float64, copy=False)
    n = xp.asarray(float(X.shape[0]), device=X.device)
    return Moments(n, xp.sum(centred, axis=0), centred.T @ centred)


def about_mean(total: Moments, about: Array) -> Moments:
    """Turn moments about a point into moments about the mean; their `first` is the mean itself."""
    shift = total.first / total.n
    second = total.second - total.n * shift[:, None] * shift[None, :]
    # Exactly symmetric, as eigenvalue solvers expect it.
    return Moments(total.n, about + shift, (second + second.T) / 2)


def merge(a: Moments, b: Moments) -> Moments:
    """Return the moments about the mean of two sets of rows together, from those of each."""
    # The parallel update of Chan, Golub and LeVeque (1979): no large numbers are subtracted.
    n = a.n + b.n
    gap = b.first - a.first
    second = a.second + b.second + (a.n * b.n / n) * gap[:, None] * gap[None, :]
    return Moments(n, a.first + gap * (b.n / n), second)


class ResponseMoments(NamedTuple):
    """Sums over rows of y² and y⁴, each of shape (n_components,)."""

    second: Array
    fourth: Array


@working_memory(lambda row, B, mean: (row.n_features + 3 * B.shape[0]) * row.itemsize)
@in_tiles(lambda X, B, mean: max(B.shape))
def response_moments(X: Array, B: Array, mean: Array) -> ResponseMoments:
    """Return the even moments of the responses ``y = (x - mean) Bᵀ`` of a block."""
    xp = namespace_of(X)
    squares = project(X, B, mean) ** 2
    return ResponseMoments(xp.sum(squares, axis=0), xp.sum(squares**2, axis=0))


class WinningEnergies(NamedTuple):
    """Sums of the squared largest responses of rows, for that which was the largest; (n_components,)."""

    energies: Array


@working_memory(lambda row, B, mean: (row.n_features + 4 * B.shape[0]) * row.itemsize)
@in_tiles(lambda X, B, mean: max(B.shape))
def winning_energies(X: Array, B: Array, mean: Array) -> WinningEnergies:
    """Return the energy that each of the responses ``y = (x - mean) Bᵀ`` has in rows where it is largest."""
    xp = namespace_of(X)
    responses = project(X, B, mean)
    winners = xp.argmax(responses, axis=1)[:, None]
    # A mask in place of a scatter, which the array API does not have.
    wins = winners == xp.arange(B.shape[0], device=winners.device)[None, :]
    return WinningEnergies(xp.sum(xp.where(wins, responses**2, 0), axis=0, dtype=xp.float64))


# --- Whitening ---------------------------------------------------------------------------------------


class Whitening(NamedTuple):
    """T, shape (n_components, n_features), and its (pseudo-)inverse, shape (n_features, n_components)."""

    whitening: Array
    dewhitening: Array


class Spectrum(NamedTuple):
    """Eigenvalues in decreasing order, shape (n_features,), and eigenvectors as columns.

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
    # Added to the variance, not to its root: small eigenvalues are mostly noise, and stay small.
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
