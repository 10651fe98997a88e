"""Contrastive divergence of a Gaussian-Bernoulli machine, ``sum h xᵀ - h̃ x̃ᵀ`` for rows and reconstructions.

``P(h_j = 1 | x) = sigmoid((w_j x + b_j) / σ²)`` and ``x | h ~ N(Wᵀ h + a, σ²)``, as in Lee et al. 2008.
"""

from __future__ import annotations

from typing import NamedTuple

from clusterica.arrays import Array, namespace_of, working_memory
from clusterica.ops.autoencoder import activations


class DivergenceSums(NamedTuple):
    """Sums over rows: the ascent directions of W, b and a, the activity of units, and ``|x - x̃|²``."""

    W: Array
    b: Array
    a: Array
    activity: Array
    error: Array


@working_memory(lambda row, W, b, a: (2 * row.n_features + 5 * int(W.shape[0])) * row.itemsize)
def divergence_sums(
    X: Array, W: Array, b: Array, a: Array, draws: Array, *, sigma: float
) -> DivergenceSums:
    """Return the sums of one step of Gibbs sampling (CD-1).

    Parameters
    ----------
    X : (n_rows, n_features) array
    W : (n_units, n_features) array
    b, a : arrays of shape (n_units,) and (n_features,)
    draws : (n_rows, n_units) array
        Uniform random numbers in [0, 1): a unit is on where its probability is larger.
    sigma : float
        The standard deviation of rows given units.
    """
    xp = namespace_of(X)
    scale = 1 / sigma**2
    h = activations(X, scale * W, scale * b)
    on = xp.astype(draws < h, X.dtype)
    # The mean of the reconstruction and not a draw of it: less noise, the same expectation to first order.
    again = on @ W + a
    h_again = activations(again, scale * W, scale * b)
    left = X - again
    return DivergenceSums(
        h.T @ X - h_again.T @ again,
        xp.sum(h - h_again, axis=0),
        xp.sum(left, axis=0),
        xp.sum(h, axis=0),
        xp.sum(left * left, dtype=xp.float64),
    )
