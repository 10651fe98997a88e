"""One Lloyd step on a block: the best centre of every row, and the sums from which centres are renewed.

The rules and their equations are in :mod:`clusterica.ops.rules`. This is the reference text, in the
array API; NumPy and CSR blocks go to its compiled twin in :mod:`clusterica.ops.cpu.assign`, and where the
configuration asks for it, CUDA tensors to that in :mod:`clusterica.ops.gpu.assign`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import array_api_extra as xpx
import numpy as np
import scipy.sparse as sp

from clusterica.arrays import Array, Row, gpu_twin, is_host_array, namespace_of, working_memory
from clusterica.ops.cpu import assign as cpu
from clusterica.ops.linalg import inverse_lengths, row_energies, sum_by_label, wide_row_energies
from clusterica.ops.rules import Assignment, LloydSums, Rule


class FitSums(NamedTuple):
    """Sums over rows: the weight of each label, shape (n_labels,), and the loss, or the gain if maximised."""

    counts: Array
    objective: Array


def _on_gpu(name: str) -> Callable[[], Callable[..., Any]]:
    # Triton is imported when the twin is first used.
    return lambda: getattr(import_module("clusterica.ops.gpu.assign"), name)


def assign_bytes(row: Row, C: Array, shift: Array | None) -> int:
    """Return the memory of an assignment: compiled code works in tiles, the reference makes all scores."""
    if row.is_numpy:
        return row.nbytes
    return 2 * row.nbytes + 2 * int(C.shape[0]) * row.itemsize


@working_memory(assign_bytes)
def assign(X: Array, C: Array, shift: Array | None, *, rule: Rule) -> Assignment:
    """Assign every row of a block to its best centre.

    Parameters
    ----------
    X : (n_rows, n_features) array, dense or CSR
    C : (n_centers, n_features) array
        Under the Euclidean rule the centres minus the shift.
    shift : (n_features,) array or None
        Taken from every row first: distances do not change, and float32 keeps its digits when the
        data lies far from the origin.
    rule : Rule
    """
    if is_host_array(X):
        return cpu.assign(X, C, shift, rule=rule)
    return _best(X if shift is None else X - shift, C, rule)


@gpu_twin(_on_gpu("best_labels"))
@working_memory(assign_bytes)
def best_labels(X: Array, C: Array, shift: Array | None, *, rule: Rule) -> Array:
    """Return the label of every row of a block, shape (n_rows,); the parameters are those of `assign`."""
    return assign(X, C, shift, rule=rule).labels


@working_memory(assign_bytes)
def lloyd_sums(
    X: Array, C: Array, shift: Array | None, weights: Array, *, rule: Rule
) -> tuple[Array, LloydSums]:
    """Assign a block and return its labels and its sums; the parameters are those of `assign`."""
    if is_host_array(X):
        return cpu.lloyd_sums(X, C, shift, weights, rule=rule)
    return lloyd_sums_reference(X, C, shift, weights, rule=rule)


@gpu_twin(_on_gpu("center_sums"))
@working_memory(assign_bytes)
def center_sums(
    X: Array, C: Array, shift: Array | None, weights: Array, *, rule: Rule
) -> LloydSums:
    """Return the sums of `lloyd_sums` without the labels, which a walk would keep for all rows."""
    return lloyd_sums(X, C, shift, weights, rule=rule)[1]


@gpu_twin(_on_gpu("fit_sums"))
@working_memory(assign_bytes)
def fit_sums(
    X: Array, C: Array, shift: Array | None, weights: Array, *, rule: Rule
) -> tuple[Array, FitSums]:
    """Assign a block and return its labels and how well the centres fit it.

    The loss is summed row by row from what the centre leaves of the row, not as a difference of large
    sums, so that it keeps its digits where clusters are tight. Only CSR rows, which must not become
    dense, take the difference. Parameters as in `assign`.
    """
    labels, best = assign(X, C, shift, rule=rule)
    xp = namespace_of(best)
    if rule.maximized:
        value = rule.gains(best, None)
    else:
        value = losses(X, C, shift, labels, best, rule)
    n = rule.n_labels(C.shape[0])
    if is_host_array(X):
        counts = np.bincount(labels, weights, minlength=n)
    else:
        counts = _segment_sum(weights[:, None], labels, n)[:, 0]
    return labels, FitSums(counts, xp.sum(value * weights, dtype=xp.float64))


@gpu_twin(_on_gpu("row_losses"))
@working_memory(lambda row, C, shift: 2 * (row.n_features + C.shape[0]) * row.itemsize)
def row_losses(X: Array, C: Array, shift: Array | None, *, rule: Rule) -> Array:
    """Return what the best centre leaves of every row, shape (n_rows,); parameters as in `assign`.

    It is the squared distance, ``|x|^2 - score^2``, ``1 - cosine``, and under AXIS ``|x| - |score|``.
    """
    labels, best = assign(X, C, shift, rule=rule)
    return losses(X, C, shift, labels, best, rule)


def losses(
    X: Array, C: Array, shift: Array | None, labels: Array, best: Array, rule: Rule
) -> Array:
    """Return what is left of every row by its centre, given its label and score; see `row_losses`."""
    if sp.issparse(X):
        value = rule.gains(best, inverse_lengths(X) if rule.unit_rows else None)
        return np.maximum(rule.whole(X) - value, 0)
    if rule.maximized:  # losses are not squares, and keep their digits as differences
        return rule.whole(X if shift is None else X - shift) - rule.gains(best, None)
    if is_host_array(X):
        return cpu.losses(X, C, shift, labels, best, rule=rule)
    return losses_reference(X, C, shift, labels, best, rule=rule)


def losses_reference(
    X: Array, C: Array, shift: Array | None, labels: Array, best: Array, *, rule: Rule
) -> Array:
    """Return the squares that the best centre leaves of every row, ``|x - share c|^2``.

    Of rows at unit length it is half of that, one minus the cosine, and 0 for a row of zeros.
    """
    xp = namespace_of(X)
    X = X if shift is None else X - shift
    centers = xp.take(C, labels, axis=0)
    if rule.unit_rows:
        inverse = inverse_lengths(X)
        nonzero = xp.astype(inverse > 0, X.dtype)
        return nonzero * row_energies(X * inverse[:, None] - centers) / 2
    return row_energies(X - rule.shares(best, None)[:, None] * centers)


def lloyd_sums_reference(
    X: Array, C: Array, shift: Array | None, weights: Array, *, rule: Rule
) -> tuple[Array, LloydSums]:
    """Reference in the array API; faster versions are tested against it."""
    X = X if shift is None else X - shift
    xp = namespace_of(X)
    labels, scores = _best(X, C, rule)
    inverse = inverse_lengths(X) if rule.unit_rows else None
    centers = labels % C.shape[0]
    gain = xp.sum(weights * rule.gains(scores, inverse), dtype=xp.float64)
    shared = X * (weights * rule.shares(scores, inverse))[:, None]
    sums = _segment_sum(shared, centers, C.shape[0])
    counts = _segment_sum(weights[:, None], labels, rule.n_labels(C.shape[0]))[:, 0]
    return labels, LloydSums(sums, counts, gain)


def _best(X: Array, C: Array, rule: Rule) -> Assignment:
    xp = namespace_of(X)
    S = X @ C.T
    if not rule.unit_centers:  # else all biases are the same, and a pass over the scores is saved
        S -= rule.center_bias(C)
    labels = xp.argmax(xp.abs(S) if rule.ignores_sign else S, axis=1)
    scores = xp.take_along_axis(S, labels[:, None], axis=1)[:, 0]
    # A row on the negative side of an axis has the label of the opposite centre.
    if rule.both_signs:
        labels = xp.where(scores < 0, labels + C.shape[0], labels)
    return Assignment(xp.astype(labels, xp.int32), scores)


def _segment_sum(X: Array, labels: Array, n_segments: int) -> Array:
    """Sum the rows of X that have the same label, in float64, shape (n_segments, n_columns)."""
    xp = namespace_of(X)
    X = xp.astype(X, xp.float64)
    if hasattr(X, "index_add"):  # torch: one pass over X in place of a second matrix product
        return sum_by_label(X, labels, n_segments)
    return xpx.one_hot(labels, n_segments, dtype=X.dtype, xp=xp).T @ X


class Energy(NamedTuple):
    """Weighted sum of squared lengths, and the weight of nonzero rows: the inertia without centres."""

    energy: Array
    weight: Array


@working_memory(lambda row, shift: 2 * row.n_features * row.itemsize)
def energy(X: Array, shift: Array | None, weights: Array) -> Energy:
    """Return ``sum w |x - shift|^2`` of a block and the weight of its nonzero rows."""
    energies = wide_row_energies(X if shift is None else X - shift)
    xp = namespace_of(energies)
    weights = xp.astype(weights, xp.float64)
    return Energy(xp.sum(energies * weights), xp.sum(xp.where(energies > 0, weights, 0)))


@working_memory(lambda row, C: 2 * C.shape[0] * row.itemsize)
def scores(X: Array, C: Array) -> Array:
    """Return the inner products of all rows with all centres, shape (n_rows, n_centers)."""
    return np.asarray(X @ C.T) if is_host_array(X) else X @ C.T


# The scores, their negatives, and both side by side.
@working_memory(lambda row, C: 4 * C.shape[0] * row.itemsize)
def scores_of_both_signs(X: Array, C: Array) -> Array:
    """Return the inner products with all centres and then with their negatives, (n_rows, 2 n_centers)."""
    S = scores(X, C)
    return namespace_of(S).concat([S, -S], axis=1)


@working_memory(lambda row, C: 2 * C.shape[0] * row.itemsize)
def cosines(X: Array, C: Array) -> Array:
    """Return the cosines of all rows with unit centres; 0 for a row of zeros."""
    return scores(X, C) * inverse_lengths(X)[:, None]


@working_memory(lambda row, C, shift: 8 * (row.n_features + 4 * C.shape[0]))  # in float64
def distances(X: Array, C: Array, shift: Array | None) -> Array:
    """Return the distances of all rows minus the shift to all centres, shape (n_rows, n_centers)."""
    # In float64, as scikit-learn does: the difference of squares would leave float32 few digits.
    xp, dtype = namespace_of(C), C.dtype
    X, C = (X if shift is None else X - shift), xp.astype(C, xp.float64)
    X = X.astype(np.float64) if is_host_array(X) else xp.astype(X, xp.float64)
    # Rounding may leave a tiny negative number, of which there is no root.
    squared = row_energies(X)[:, None] + row_energies(C)[None, :] - 2 * scores(X, C)
    return xp.astype(xp.sqrt(xp.clip(squared, min=0)), dtype)
