"""Moments of a block about a fixed point a: n, sum (x - a), sum (x - a)(x - a)ᵀ; sums of them add up.

They are taken in float64 whatever the rows are: whitening divides by the root of the smallest eigenvalue,
and a product of float32 numbers loses it where the features are far from independent.
"""

from __future__ import annotations

from typing import NamedTuple

from clusterica.arrays import Array, namespace_of
from clusterica.ops.linalg import project, wide_row_energies
from clusterica.ops.tiles import sum_tiles


class Moments(NamedTuple):
    """Sums over rows about a point, which is near the mean so that digits are kept."""

    n: Array
    first: Array
    second: Array


def moments(X: Array, about: Array) -> Moments:
    """Return the moments of a block: count, shape (n_features,), shape (n_features, n_features)."""
    return sum_tiles(_moments, X, about, width=2 * X.shape[1])


def _moments(X: Array, about: Array) -> Moments:
    xp = namespace_of(X)
    centred = xp.astype(X, xp.float64, copy=False) - xp.astype(about, xp.float64, copy=False)
    n = xp.asarray(float(X.shape[0]), device=X.device)
    return Moments(n, xp.sum(centred, axis=0), centred.T @ centred)


def about_mean(total: Moments, about: Array) -> Moments:
    """Turn moments about a point into moments about the mean; their `first` is the mean itself."""
    shift = total.first / total.n
    second = total.second - total.n * shift[:, None] * shift[None, :]
    return Moments(total.n, about + shift, (second + second.T) / 2)


def merge(a: Moments, b: Moments) -> Moments:
    """Return the moments about the mean of two sets of rows together, from those of each."""
    n = a.n + b.n
    gap = b.first - a.first
    second = a.second + b.second + (a.n * b.n / n) * gap[:, None] * gap[None, :]
    return Moments(n, a.first + gap * (b.n / n), second)


class Energy(NamedTuple):
    """Weighted sum of squared lengths, and the weight of the rows that are not zero."""

    energy: Array
    weight: Array


def energy(X: Array, shift: Array | None, weights: Array) -> Energy:
    """Return ``sum w |x - shift|^2`` of a block and the weight of its nonzero rows."""
    energies = wide_row_energies(X if shift is None else X - shift)
    xp = namespace_of(energies)
    weights = xp.astype(weights, xp.float64)
    return Energy(xp.sum(energies * weights), xp.sum(xp.where(energies > 0, weights, 0)))


class ResponseMoments(NamedTuple):
    """Sums over rows of y² and y⁴, each of shape (n_components,)."""

    second: Array
    fourth: Array


def response_moments(X: Array, B: Array, mean: Array) -> ResponseMoments:
    """Return the even moments of the responses ``y = (x - mean) Bᵀ`` of a block."""
    return sum_tiles(_response_moments, X, B, mean, width=max(B.shape))


def _response_moments(X: Array, B: Array, mean: Array) -> ResponseMoments:
    xp = namespace_of(X)
    squares = project(X, B, mean) ** 2
    return ResponseMoments(xp.sum(squares, axis=0), xp.sum(squares**2, axis=0))


class WinningEnergies(NamedTuple):
    """Sums of the squared largest responses of rows, for that which was the largest; (n_components,)."""

    energies: Array


def winning_energies(X: Array, B: Array, mean: Array) -> WinningEnergies:
    """Return the energy that each of the responses ``y = (x - mean) Bᵀ`` has in rows where it is largest."""
    return sum_tiles(_winning_energies, X, B, mean, width=max(B.shape))


def _winning_energies(X: Array, B: Array, mean: Array) -> WinningEnergies:
    xp = namespace_of(X)
    responses = project(X, B, mean)
    winners = xp.argmax(responses, axis=1)[:, None]
    wins = winners == xp.arange(B.shape[0], device=winners.device)[None, :]
    return WinningEnergies(xp.sum(xp.where(wins, responses**2, 0), axis=0, dtype=xp.float64))
