"""A random sample of the rows that count, in host memory: what initialisations look at."""

from __future__ import annotations

import numpy as np

from clusterica.arrays import Rows
from clusterica.arrays._namespace import Array


def draw_rows(
    rows: Rows, weights: np.ndarray, n: int, rng: np.random.Generator
) -> tuple[Array, np.ndarray]:
    """Draw up to n different rows of positive weight, in random order, as NumPy or CSR, with weights."""
    # Weights that are all one number take no memory, and need none to draw from.
    if weights.strides == (0,):
        chosen = rng.choice(rows.n_rows, size=min(n, rows.n_rows), replace=False)
    else:
        candidates = np.flatnonzero(weights > 0)
        chosen = rng.choice(candidates, size=min(n, len(candidates)), replace=False)
    order = np.argsort(chosen)
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    return rows.take(chosen[order])[back], weights[chosen]
