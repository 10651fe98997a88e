"""Products of standardised rows, ``K = Z Zᵀ``, sums ``w = sum_i a_i z_i``, and objectives, all in float64."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from clusterica.arrays import map_reduce, map_rows, namespace_of, to_host
from clusterica.arrays._namespace import Array
from clusterica.linear._solvers import Problem, Task
from clusterica.linear._standard import standardised_rows
from clusterica.ops.margin import squared_losses, weighted_rows

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
    """Return ``sum_i a_i z_i`` for coefficients of shape (n_rows, n_targets), from one walk, in float64."""
    rows, standard = problem.rows, problem.standard
    a = np.ascontiguousarray(a, dtype=np.float64)
    row_bytes = 2 * 8 * rows.n_features
    (sums,) = map_reduce(weighted_rows, rows, standard.mean, aligned=(a,), row_bytes=row_bytes)
    return rows.place(sums) / standard.scale


def objectives(problem: Problem, task: Task, A: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Return the objectives of classifiers ``m = x Aᵀ + c`` of rows as they were given, in float64."""
    rows, scale = problem.rows, to_host(problem.standard.scale)
    A, c = A.astype(np.float64), c.astype(np.float64)
    (loss,) = map_reduce(
        partial(squared_losses, hinge=problem.hinge),
        rows,
        A,
        c,
        problem.targets,
        aligned=(problem.codes, task.shares),
        row_bytes=8 * (rows.n_features + 4 * len(A)),
    )
    W = A * np.where(
        np.isfinite(scale), scale, 0.0
    )  # centred features without variance count for nothing
    return (W * W).sum(axis=1) / 2 + task.C * to_host(loss)


def _products_of_block(X: Array, mean: Array, scale: Array, Z: Array) -> Array:
    xp = namespace_of(X)
    return ((xp.astype(X, xp.float64) - mean) / scale) @ Z.T
