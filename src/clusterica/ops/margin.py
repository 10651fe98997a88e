"""Sums over rows for linear classifiers with margins ``m = x Aᵀ + c``: loss ``sum s r²`` and ``sum s t r x``.

The residuals are ``r = 1 - t m`` for targets ``t = ±1``, cut off at 0 for the hinge.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from clusterica.arrays import Array, namespace_of, working_memory
from clusterica.ops.cpu import margin as cpu


class FeatureSums(NamedTuple):
    """Weighted sums over rows about a point: of ones, of features, and of their squares."""

    weight: Array
    first: Array
    second: Array


@working_memory(lambda row, about: 2 * row.itemsize * row.n_features)
def feature_sums(X: Array, about: Array, weights: Array) -> FeatureSums:
    """Return ``sum w``, ``sum w (x - a)`` and ``sum w (x - a)²``, the last two of shape (n_features,)."""
    xp = namespace_of(X)
    centred = X - about
    # In float64: a float32 sum of many small weights would stop growing.
    weight = xp.sum(xp.astype(weights, xp.float64))
    return FeatureSums(weight, weights @ centred, weights @ (centred * centred))


@working_memory(lambda row, about: 3 * 8 * row.n_features)
def wide_feature_sums(X: Array, about: Array, weights: Array) -> FeatureSums:
    """Return :func:`feature_sums` in float64: squares of float32 numbers below 1e-22 would be zero."""
    xp = namespace_of(X)
    return feature_sums(*(xp.astype(a, xp.float64) for a in (X, about, weights)))


class MarginSums(NamedTuple):
    """Loss of every class, its pull ``sum s t r x`` on the weights, and ``sum s t r`` on the intercept.

    Shapes (n_targets,), (n_targets, n_features) and (n_targets,).
    """

    loss: Array
    pull: Array
    lift: Array


# Margins, residuals and four more arrays of their shape, and a copy of the row to subtract ``about``.
@working_memory(
    lambda row, A, c, about, targets: (
        6 * row.itemsize * A.shape[0] + (0 if about is None else row.nbytes)
    )
)
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
    # Measured: the compiled version beats BLAS up to about 20 classifiers, and from about 2**18 numbers on
    # (a MiB of float32): below, its call costs more than it saves.
    if isinstance(X, np.ndarray) and len(A) <= 20 and X.size >= 2**18:
        return MarginSums(*cpu.margin_sums(X, A, c, targets, codes, weights, hinge=hinge))
    sign = 2 * xp.astype(codes[:, None] == targets[None, :], X.dtype) - 1
    residual = 1 - sign * (X @ A.T + c)
    if hinge:
        residual = xp.clip(residual, min=0)
    weighted = residual * weights[:, None]
    loss = xp.sum(xp.astype(weighted * residual, xp.float64), axis=0)
    weighted = weighted * sign
    return MarginSums(loss, weighted.T @ X, xp.sum(xp.astype(weighted, xp.float64), axis=0))


@working_memory(lambda row, A, c, targets: 8 * (row.n_features + 4 * A.shape[0]))
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


@working_memory(lambda row, mean, scale, Z: 8 * (2 * row.n_features + Z.shape[0]))
def products_with(X: Array, mean: Array, scale: Array, Z: Array) -> Array:
    """Return ``((x - mean) / scale) Zᵀ`` in float64, shape (n_rows, len(Z))."""
    xp = namespace_of(X)
    return ((xp.astype(X, xp.float64) - mean) / scale) @ Z.T


@working_memory(lambda row, mean: 2 * 8 * row.n_features)
def weighted_rows(X: Array, mean: Array, weights: Array) -> tuple[Array]:
    """Return ``sum a (x - mean)`` for weights a of shape (n_rows, n_targets), in float64.

    Large weights may cancel: sums in float32 would lose all their digits.
    """
    xp = namespace_of(X)
    return (weights.T @ (xp.astype(X, xp.float64, copy=False) - mean),)


@working_memory(
    lambda row, A, c, about: 2 * row.itemsize * A.shape[0] + (0 if about is None else row.nbytes)
)
def decisions(X: Array, A: Array, c: Array, about: Array | None) -> Array:
    """Return the margins of a block, shape (n_rows, n_targets)."""
    return (X if about is None else X - about) @ A.T + c


@working_memory(
    lambda row, A, c, about: 2 * row.itemsize * A.shape[0] + (0 if about is None else row.nbytes)
)
def shown_decisions(X: Array, A: Array, c: Array, about: Array | None) -> Array:
    """Return the margins of a block as scikit-learn shows them: of two classes one, shape (n_rows,)."""
    scores = decisions(X, A, c, about)
    return scores[:, 0] if A.shape[0] == 1 else scores


@working_memory(
    lambda row, A, c, about, classes: (
        2 * row.itemsize * A.shape[0] + (0 if about is None else row.nbytes)
    )
)
def predicted(X: Array, A: Array, c: Array, about: Array | None, classes: Array) -> Array:
    """Return the class of every row of a block; the classes are numbers, shape (n_classes,)."""
    return namespace_of(X).take(classes, winners(decisions(X, A, c, about)), axis=0)


def winners(scores: Array) -> Array:
    """Return the code of the class with the largest margin; of two classes, by the sign of the one."""
    xp = namespace_of(scores)
    # Two classes have one classifier, positive on the side of the second.
    if scores.shape[1] == 1:
        return xp.astype(scores[:, 0] > 0, xp.int64)
    return xp.astype(xp.argmax(scores, axis=1), xp.int64)
