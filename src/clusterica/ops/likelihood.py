"""Sums over rows of the ICA likelihood: ``-log|det W| + sum_j E G(y_j)`` with ``y = B (x - mean)``.

The gradient for a relative move ``B <- (I + E) B`` is ``E[G'(y) yᵀ] - I``; its second derivative is,
where the sources are independent, ``E[G''(y_i)] E[y_j²]`` for E_ij, and 1 for the pair E_ij, E_ji.
"""

from __future__ import annotations

from typing import NamedTuple

from clusterica.arrays import Array, in_tiles, namespace_of, working_memory
from clusterica.ops.contrast import Contrast, Derivatives
from clusterica.ops.linalg import project


class LikelihoodSums(NamedTuple):
    """Sums over the rows of a block."""

    value: Array
    """Sum of G(y) over rows and components, a number."""
    gradient: Array
    """Sum of G'(y_i) y_j, shape (n_components, n_components)."""
    curvature: Array
    """Sum of G''(y_i), shape (n_components,)."""
    diagonal: Array
    """Sum of G''(y_i) y_i², shape (n_components,)."""
    energy: Array
    """Sum of y_i², shape (n_components,)."""


@working_memory(lambda row, B, mean: (row.n_features + 7 * B.shape[0]) * row.itemsize)
@in_tiles(lambda X, B, mean: max(B.shape))
def likelihood_sums(X: Array, B: Array, mean: Array, *, contrast: Contrast) -> LikelihoodSums:
    """Return the sums of a block.

    Parameters
    ----------
    X : (n_rows, n_features) array
    B : (n_components, n_features) array
        The unmixing matrix, whitening included.
    mean : (n_features,) array
    contrast : callable
        ``y -> (G(y), G'(y), G''(y))``.
    """
    xp = namespace_of(X)
    Y = project(X, B, mean)
    G = Derivatives(*contrast(Y))
    # In float64: a line search compares values that differ by less than the digits of float32.
    value = xp.sum(G.value, dtype=xp.float64)
    gradient, curvature = G.first.T @ Y, xp.sum(G.second, axis=0)
    squares = Y * Y
    energy = xp.sum(squares, axis=0)
    squares *= G.second  # in place: the energy is summed already
    return LikelihoodSums(value, gradient, curvature, xp.sum(squares, axis=0), energy)
