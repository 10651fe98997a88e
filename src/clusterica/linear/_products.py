"""Products of standardised rows, ``K = Z Zᵀ``, and their sums ``w = sum_i a_i z_i``, by walks over rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from clusterica.arrays import map_reduce, map_rows, namespace_of
from clusterica.arrays._namespace import Array
from clusterica.linear._solvers import Problem
from clusterica.linear._standard import standardised_pull, standardised_rows
from clusterica.ops.margin import weighted_rows

_PANEL = 512  # columns of K at a time


def row_products(problem: Problem, place: Callable[[Any], Array]) -> tuple[Array, int]:
    """Return K in float64, and the number of walks: one for every panel of its columns."""
    rows, n = problem.rows, problem.rows.n_rows
    mean, scale = problem.standard.mean, problem.standard.scale
    K = place(np.empty((n, n)))
    starts = range(0, n, _PANEL)
    for start in starts:
        indices = np.arange(start, min(start + _PANEL, n))
        Z = standardised_rows(rows, problem.standard, indices, np.dtype(np.float64))
        row_bytes = 2 * 8 * rows.n_features + 8 * len(indices)
        panel = map_rows(_products_of_block, rows, mean, scale, Z, row_bytes=row_bytes)
        K[:, start : start + len(indices)] = place(panel)
    return K, len(starts)


def sums_of_rows(problem: Problem, a: np.ndarray) -> Array:
    """Return ``sum_i a_i z_i`` for coefficients of shape (n_rows, n_targets), from one walk."""
    rows, about = problem.rows, problem.standard.about
    a = np.ascontiguousarray(a, dtype=rows.dtype)
    row_bytes = 0 if about is None else rows.row_nbytes
    sums = map_reduce(weighted_rows, rows, about, aligned=(a,), row_bytes=row_bytes)
    pull, lift = (rows.place(s) for s in sums)
    return standardised_pull(problem.standard, pull, lift)


def _products_of_block(X: Array, mean: Array, scale: Array, Z: Array) -> Array:
    xp = namespace_of(X)
    return ((xp.astype(X, xp.float64) - mean) / scale) @ Z.T
