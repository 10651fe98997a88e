r"""Energy correlations ``corr(z_j², z_k²)`` of white inputs: dependency that no correlation shows.

Coates & Ng 2012, section 5.1, define them for inputs of unit variance. With an eps in the whitening the
variances are below one, so the means of :math:`z^2` are measured and taken off: independent inputs score 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from clusterica.arrays import Array, namespace_of, working_memory
from clusterica.ops.linalg import project


class EnergySums(NamedTuple):
    """Sums over rows of ``z_j²`` and of ``z_j² z_k²``."""

    n: Array
    energies: Array
    products: Array


@working_memory(lambda row, T, mean: row.itemsize * (row.n_features + 2 * T.shape[0]))
def energy_sums(X: Array, T: Array, mean: Array) -> EnergySums:
    """Return the sums for the whitened rows ``z = T (x - mean)`` of a block."""
    xp = namespace_of(X)
    E = project(X, T, mean) ** 2
    n = xp.asarray(float(X.shape[0]), device=X.device)
    return EnergySums(n, xp.sum(E, axis=0, dtype=xp.float64), E.T @ E)


def energy_correlations(total: EnergySums) -> np.ndarray:
    """Return ``corr(z_j², z_k²)`` of all inputs, from sums on the host; 0 for constant inputs."""
    n, means = float(total.n), total.energies / float(total.n)
    covariance = total.products / n - np.outer(means, means)
    return _correlations(covariance, np.diag(covariance), np.diag(covariance), means, means)


class ColumnSums(NamedTuple):
    """Sums over rows of ``x - a``, its square and its fourth power, each of shape (n_features,)."""

    first: Array
    second: Array
    fourth: Array


@working_memory(lambda row, about: 8 * 3 * row.n_features)
def column_sums(X: Array, about: Array) -> ColumnSums:
    """Return the moments of every input of a block about a point, in float64."""
    xp = namespace_of(X)
    Y = xp.astype(X, xp.float64) - xp.astype(about, xp.float64)
    Y2 = Y * Y
    return ColumnSums(xp.sum(Y, axis=0), xp.sum(Y2, axis=0), xp.sum(Y2 * Y2, axis=0))


class PairSums(NamedTuple):
    """Sums over rows of the products of seeds u and inputs v, each of shape (n_seeds, n_inputs)."""

    uv: Array
    u2v2: Array
    u3v: Array
    uv3: Array


@working_memory(
    lambda row, mean, scale, seeds: row.itemsize * 3 * (row.n_features + seeds.shape[0])
)
def pair_sums(X: Array, mean: Array, scale: Array, seeds: Array) -> PairSums:
    """Return the sums over the rows of a block, of inputs scaled to unit variance."""
    xp = namespace_of(X)
    V = (X - mean) * scale
    U = xp.take(V, seeds, axis=1)
    V2, U2 = V * V, U * U
    return PairSums(U.T @ V, U2.T @ V2, (U2 * U).T @ V, U.T @ (V2 * V))


def pair_energy_correlations(
    total: PairSums, n: int, fourth: np.ndarray, seeds: np.ndarray, *, eps: float
) -> np.ndarray:
    r"""Return ``corr(z_j², z_k²)`` of seeds and inputs, where each pair is whitened by itself.

    For inputs of unit variance and correlation r, whitening a pair is
    :math:`z_j = a u + b v,\ z_k = b u + a v` with
    :math:`a \pm b = (1 \pm r + \epsilon)^{-1/2}`, so that all moments follow from those of u and v.

    Parameters
    ----------
    total : PairSums
        Sums over the rows, on the host.
    n : int
        Number of rows.
    fourth : (n_inputs,) array
        Means of ``v⁴``; 0 marks a constant input.
    seeds : (n_seeds,) array
        Indices of the seeds.
    eps : float
        Added to the eigenvalues of a pair, which are 2 together.

    Returns
    -------
    d : (n_seeds, n_inputs) array
        1 where an input is the seed.
    """
    r, u2v2, u3v, uv3 = (np.asarray(s) / n for s in total)
    itself = np.arange(len(seeds)), seeds
    r[itself] = 0  # there is nothing to whiten
    u4, v4 = fourth[seeds][:, None], fourth[None, :]
    along, across = (1 / np.sqrt(np.clip(1 + s * r, 0, None) + eps) for s in (1, -1))
    a, b = (along + across) / 2, (along - across) / 2
    ab, squares = a * b, a * a + b * b
    # The mean of z_j² z_k².
    both = ab**2 * (u4 + v4) + 2 * ab * squares * (u3v + uv3) + (squares**2 + 2 * ab**2) * u2v2
    fourth_j = a**4 * u4 + 4 * a**3 * b * u3v + 6 * ab**2 * u2v2 + 4 * a * b**3 * uv3 + b**4 * v4
    fourth_k = b**4 * u4 + 4 * a * b**3 * u3v + 6 * ab**2 * u2v2 + 4 * a**3 * b * uv3 + a**4 * v4
    mean = squares + 2 * ab * r  # of both z_j² and z_k²
    d = _correlations(both - mean**2, fourth_j - mean**2, fourth_k - mean**2, mean, mean)
    # Constant inputs depend on nothing.
    d[:, fourth == 0] = 0
    d[itself] = 1
    return d


def _correlations(
    covariance: np.ndarray,
    variance_j: np.ndarray,
    variance_k: np.ndarray,
    mean_j: np.ndarray,
    mean_k: np.ndarray,
) -> np.ndarray:
    """Divide covariances by standard deviations; variances that are rounding errors of the means give 0."""
    if variance_j.ndim == 1:
        variance_j, mean_j = variance_j[:, None], mean_j[:, None]
    # Sums of float32 products may leave this much variance to a constant input.
    least = np.finfo(np.float32).eps
    is_random = (variance_j > least * mean_j**2) & (variance_k > least * mean_k**2)
    scale = np.sqrt(np.where(is_random, variance_j * variance_k, 1))
    return np.where(is_random, covariance / scale, 0.0)
