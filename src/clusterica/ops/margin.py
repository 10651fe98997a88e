"""Sums over rows for linear classifiers with margins ``m = x Aᵀ + c``: loss ``sum s r²`` and ``sum s t r x``.

The residuals are ``r = 1 - t m`` for targets ``t = ±1``, cut off at 0 for the hinge.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from clusterica.arrays import Array, namespace_of
from clusterica.ops.cpu import margin as cpu

# The compiled version of margin_sums is faster than BLAS up to about 20 classifiers, and from about 2**18
# numbers on (a MiB of float32): below, its call costs more than it saves.
_MOST_CLASSIFIERS = 20
_FEWEST_NUMBERS = 2**18


class FeatureSums(NamedTuple):
    """Weighted sums over rows about a point: of ones, of features, and of their squares."""

    weight: Array
    first: Array
    second: Array


def feature_sums(X: Array, about: Array, weights: Array, *, wide: bool = False) -> FeatureSums:
    """Return ``sum w``, ``sum w (x - a)`` and ``sum w (x - a)²``, the last two of shape (n_features,).

    In float64 if wide: squares of float32 numbers below 1e-22 are zero.
    """
    xp = namespace_of(X)
    if wide:
        X, about, weights = (xp.astype(a, xp.float64) for a in (X, about, weights))
    centred = X - about
    weight = xp.sum(xp.astype(weights, xp.float64))
    return FeatureSums(weight, weights @ centred, weights @ (centred * centred))


class MarginSums(NamedTuple):
    """Loss of every class, its pull ``sum s t r x`` on the weights, and ``sum s t r`` on the intercept.

    Shapes (n_targets,), (n_targets, n_features) and (n_targets,).
    """

    loss: Array
    pull: Array
    lift: Array


def margin_sums(
    X: Array,
    A: Array,
    c: Array,
    about: Array | None,
    targets: Array,
    codes: Array,
    weights: Array,
    *,
    hinge: bool,
) -> MarginSums:
    """Return the loss of one-vs-rest margins over a block, and its derivatives.

    Parameters
    ----------
    X : array of shape (n_rows, n_features)
        The block.
    A, c : arrays of shape (n_targets, n_features) and (n_targets,)
        The classifiers: ``m = (x - about) Aᵀ + c``.
    about : array of shape (n_features,) or None
        A point to subtract from the rows first, where their mean is so far away that digits would be lost.
    targets : integer array of shape (n_targets,)
        The class that each classifier separates from the rest.
    codes : integer array of shape (n_rows,)
        The class of each row.
    weights : array of shape (n_rows,)
        Weight s of each row.
    hinge : bool
        Whether a residual below 0 counts as 0: squared hinge; otherwise least squares.
    """
    xp = namespace_of(X)
    X = X if about is None else X - about
    if isinstance(X, np.ndarray) and len(A) <= _MOST_CLASSIFIERS and X.size >= _FEWEST_NUMBERS:
        return MarginSums(*cpu.margin_sums(X, A, c, targets, codes, weights, hinge=hinge))
    sign = 2 * xp.astype(codes[:, None] == targets[None, :], X.dtype) - 1
    residual = 1 - sign * (X @ A.T + c)
    if hinge:
        residual = xp.clip(residual, min=0)
    weighted = residual * weights[:, None]
    loss = xp.sum(xp.astype(weighted * residual, xp.float64), axis=0)
    weighted = weighted * sign
    return MarginSums(loss, weighted.T @ X, xp.sum(xp.astype(weighted, xp.float64), axis=0))


def squared_losses(
    X: Array, A: Array, c: Array, targets: Array, codes: Array, weights: Array, *, hinge: bool
) -> tuple[Array]:
    """Return the loss of :func:`margin_sums` over a block, in float64, as A, c and the weights are."""
    xp = namespace_of(X)
    sign = 2 * xp.astype(codes[:, None] == targets[None, :], xp.float64) - 1
    residual = 1 - sign * (xp.astype(X, xp.float64, copy=False) @ A.T + c)
    if hinge:
        residual = xp.clip(residual, min=0)
    return (xp.sum(weights[:, None] * residual**2, axis=0),)


def weighted_rows(X: Array, mean: Array, weights: Array) -> tuple[Array]:
    """Return ``sum a (x - mean)`` for weights a of shape (n_rows, n_targets), in float64.

    Large weights may cancel: sums in float32 would lose all their digits.
    """
    xp = namespace_of(X)
    return (weights.T @ (xp.astype(X, xp.float64, copy=False) - mean),)


def decisions(X: Array, A: Array, c: Array, about: Array | None) -> Array:
    """Return the margins of a block, shape (n_rows, n_targets)."""
    return (X if about is None else X - about) @ A.T + c


def winners(scores: Array) -> Array:
    """Return the code of the class with the largest margin; of two classes, by the sign of the one."""
    xp = namespace_of(scores)
    if scores.shape[1] == 1:
        return xp.astype(scores[:, 0] > 0, xp.int64)
    return xp.astype(xp.argmax(scores, axis=1), xp.int64)
