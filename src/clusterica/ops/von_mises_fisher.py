r"""Von Mises-Fisher mixtures: ``f(x) = Σ_j π_j c_d(κ_j) exp(κ_j μ_jᵀ x)`` of unit rows; one step of EM.

A block gives the sums of the E-step (Banerjee et al., 2005). The M-step is small and on the host: the mean
direction is that of the sum of rows, and κ solves ``A_d(κ) = r``, with r the length of their mean and
``A_d = I_{d/2} / I_{d/2-1}``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from clusterica.arrays import Array, Row, is_host_array, namespace_of, working_memory
from clusterica.ops.assign import cosines
from clusterica.ops.bessel import log_bessel
from clusterica.ops.linalg import inverse_lengths, unit_rows

# A concentration below this is zero: the density is that of the uniform distribution to all digits.
_LEAST = 1e-12


class Mixture(NamedTuple):
    """Mean directions (n_components, n_features), concentrations and weights (n_components,).

    In float64 on the host.
    """

    means: np.ndarray
    kappa: np.ndarray
    weights: np.ndarray


class MixtureSums(NamedTuple):
    """Sums over the rows of a block, zeros left out.

    Shapes (n_components, n_features), (n_components,), (), ().
    """

    resultants: Array
    """Sum of the unit rows, each times its membership."""
    counts: Array
    """Sum of the memberships."""
    log_likelihood: Array
    """Sum of the log-densities, each minus a constant; see `offsets`."""
    weight: Array
    """Weight of the rows."""


def log_constant(n_features: int, kappa: np.ndarray) -> np.ndarray:
    """Return ``log c_d(κ)``, the constant of the density on the unit sphere; shape of κ."""
    order, kappa = n_features / 2 - 1, np.maximum(kappa, _LEAST)
    constant: np.ndarray = (
        order * np.log(kappa) - (order + 1) * np.log(2 * np.pi) - log_bessel(order, kappa).log_value
    )
    return constant


def concentration(n_features: int, r: np.ndarray, *, largest: float) -> np.ndarray:
    """Return the κ with ``A_d(κ) = r``, at most `largest`; shape of r.

    Newton's method from the approximation of Banerjee et al. (2005), kept within the bounds of Tanabe et al.
    (2007), ``r (d - 2) / (1 - r²) <= κ <= r d / (1 - r²)``.
    """
    d, r = n_features, np.clip(r, 0.0, 1.0)
    with np.errstate(divide="ignore"):  # the largest κ takes the place of r = 1
        unit = np.minimum(r / (1 - r * r), largest)
    low, high = np.maximum(unit * (d - 2), _LEAST), np.maximum(unit * d, _LEAST)
    kappa = np.clip(unit * (d - r * r), low, high)
    for _ in range(10):  # 3 are enough from d = 10 on; for d = 2 the first guess is off by a tenth
        ratio = log_bessel(d / 2 - 1, kappa).ratio
        slope = 1 - ratio * ratio - (d - 1) / kappa * ratio
        # A slope below 1e-10 has lost its digits, and κ is so large that its limit is exact enough.
        slope = np.where(slope > 1e-10, slope, (d - 1) / (2 * kappa * kappa))
        kappa = kappa - (ratio - r) / slope
        kappa = np.clip(kappa, low, high)
    found: np.ndarray = np.minimum(kappa, largest)
    return found


def offsets(mixture: Mixture) -> tuple[np.ndarray, float]:
    """Return ``log π_j + log c_d(κ_j)`` minus the largest of them, and the largest.

    Both the constants and ``κ μᵀ x`` may be thousands; without the part that all components share, float32
    keeps the digits of their differences.
    """
    with np.errstate(divide="ignore"):  # a component without weight has the offset -inf
        values = np.log(mixture.weights) + log_constant(mixture.means.shape[1], mixture.kappa)
    largest = float(values.max())
    return values - largest, largest


def renew(total: MixtureSums, old: Mixture, *, tied: bool, largest: float) -> Mixture:
    """Return the mixture after the M-step; a component that received nothing stays as it was.

    Parameters
    ----------
    total : MixtureSums
        Over all rows, on the host.
    old : Mixture
        The mixture that the memberships belong to.
    tied : bool
        Whether all components have one concentration.
    largest : float
        The largest concentration allowed.
    """
    lengths = np.sqrt(np.einsum("ij,ij->i", total.resultants, total.resultants))
    d = total.resultants.shape[1]
    if tied:
        r = np.full(len(lengths), lengths.sum() / total.counts.sum())
    else:
        # A component that received nothing is divided by one here, and keeps its old concentration below.
        r = lengths / np.where(total.counts > 0, total.counts, 1)
    kappa = concentration(d, r, largest=largest)
    kappa = np.where(total.counts > 0, kappa, old.kappa)
    means = unit_rows(total.resultants, old.means)
    return Mixture(means, kappa, total.counts / total.counts.sum())


def _bytes(row: Row, means: Array, *others: Array) -> int:
    # Cosines, exponents, memberships, and those times the weights.
    return 4 * int(means.shape[0]) * row.itemsize


@working_memory(_bytes)
def exponents(X: Array, means: Array, kappa: Array, offset: Array) -> Array:
    """Return ``κ_j μ_jᵀ x / |x| + offset_j`` of a block, shape (n_rows, n_components)."""
    return cosines(X, means) * kappa + offset


@working_memory(_bytes)
def best_components(X: Array, means: Array, kappa: Array, offset: Array) -> Array:
    """Return the most probable component of every row of a block, shape (n_rows,)."""
    xp = namespace_of(means)
    return xp.astype(xp.argmax(exponents(X, means, kappa, offset), axis=1), xp.int32)


@working_memory(_bytes)
def memberships(X: Array, means: Array, kappa: Array, offset: Array, prior: Array) -> Array:
    """Return the probabilities of the components for every row; the prior for a row of zeros."""
    xp = namespace_of(means)
    found = _softmax(exponents(X, means, kappa, offset))[0]
    return xp.where((inverse_lengths(X) > 0)[:, None], found, prior)


@working_memory(_bytes)
def log_densities(X: Array, means: Array, kappa: Array, offset: Array, constant: Array) -> Array:
    """Return the log-density of every row of a block, in float64, shape (n_rows,); 0 for a row of zeros.

    The constant, of shape (1,), is the second result of `offsets`.
    """
    found = _softmax(exponents(X, means, kappa, offset))[1] + constant
    return namespace_of(means).where(inverse_lengths(X) > 0, found, 0.0)


@working_memory(_bytes)
def mixture_sums(
    X: Array, means: Array, kappa: Array, offset: Array, weights: Array
) -> MixtureSums:
    """Return the sums of the E-step of a block.

    Parameters
    ----------
    X : (n_rows, n_features) array, dense or CSR
    means : (n_components, n_features) array
        Unit vectors.
    kappa, offset : (n_components,) array
        Concentrations, and the first result of `offsets`.
    weights : (n_rows,) array
    """
    xp = namespace_of(means)
    inverse = inverse_lengths(X)
    P, log_density = _softmax(exponents(X, means, kappa, offset))
    weights = xp.where(inverse > 0, weights, 0)
    counts = xp.sum(P * weights[:, None], axis=0, dtype=xp.float64)
    P = P * (weights * inverse)[:, None]
    # A CSR matrix on the left keeps the product sparse.
    resultants = (X.T @ P).T if is_host_array(X) else P.T @ X
    weights = xp.astype(weights, xp.float64)
    return MixtureSums(resultants, counts, xp.sum(log_density * weights), xp.sum(weights))


def _softmax(E: Array) -> tuple[Array, Array]:
    """Return ``exp(E)`` with rows that sum to one, and the logarithm of the sums, in float64."""
    xp = namespace_of(E)
    # Minus the largest exponent, so that none overflows.
    largest = xp.max(E, axis=1, keepdims=True)
    P = xp.exp(E - largest)
    sums = xp.sum(P, axis=1, keepdims=True)
    logs = xp.astype(largest, xp.float64) + xp.log(xp.astype(sums, xp.float64))
    return P / sums, logs[:, 0]
