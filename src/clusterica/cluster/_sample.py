"""A random sample of rows in host memory, drawn in proportion to their weights."""

from __future__ import annotations

import numpy as np

from clusterica.arrays import Rows
from clusterica.arrays._namespace import Array

SAMPLE = 10_000  # rows from which k-means++ chooses, if there are not very many centres


def draw_rows(
    rows: Rows, weights: np.ndarray, n: int, rng: np.random.Generator
) -> tuple[Array, np.ndarray]:
    """Draw up to n different rows of positive weight, in proportion to their weights.

    Returns
    -------
    sample : NumPy array or CSR matrix, (n_drawn, n_features)
        In the order of the draws: the first m rows are a sample of m rows.
    weights : ndarray of shape (n_drawn,)
        Weights with which sums over the sample estimate sums over all rows, up to a factor.
    """
    # Weights that are all one number take no memory, and need none to draw from.
    if weights.strides == (0,):
        chosen = rng.choice(rows.n_rows, size=min(n, rows.n_rows), replace=False)
        new_weights = weights[chosen]
    else:
        candidates = np.flatnonzero(weights > 0)
        some, new_weights = _draw(weights[candidates], n, rng)
        chosen = candidates[some]
    order = np.argsort(chosen)
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    return rows.take(chosen[order])[back], new_weights


def _draw(weights: np.ndarray, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw without replacement; each next draw is in proportion to the weights that are left."""
    if weights.min() == weights.max():
        chosen = rng.choice(len(weights), size=min(n, len(weights)), replace=False)
        return chosen, weights[chosen]
    # The smallest of exponential times of these rates are such draws (Efraimidis & Spirakis, 2006).
    times = rng.standard_exponential(len(weights)) / weights
    order = np.argsort(times)
    chosen = order[:n]
    if n >= len(weights):
        return chosen, weights[chosen]
    # Given the next time, a row is in the sample with this probability, and stands for one over it.
    w = weights[chosen].astype(np.float64)
    return chosen, w / -np.expm1(-w * times[order[n]])
