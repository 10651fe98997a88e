"""Contrast of rows: subtract a row's mean and divide by ``sqrt(var + eps)``; and the range of values."""

from __future__ import annotations

from clusterica.arrays import Array, namespace_of


def normalize_contrast(X: Array, *, eps: float) -> Array:
    """Return ``(x - mean(x)) / sqrt(var(x) + eps)`` of every row of a block (var divides by n_features)."""
    xp = namespace_of(X)
    centred = X - xp.mean(X, axis=1, keepdims=True)
    variance = xp.mean(centred * centred, axis=1, keepdims=True)
    # A flat row has no contrast to normalise, only the rounding of its mean; it becomes zero.
    rounding = 4 * xp.finfo(X.dtype).eps * xp.max(xp.abs(X), axis=1, keepdims=True)
    flat = variance <= rounding**2
    return xp.where(flat, 0, centred / xp.sqrt(xp.where(flat, 1, variance + eps)))


def extremes(X: Array) -> Array:
    """Return the least and the largest value of every row, shape (n_rows, 2)."""
    xp = namespace_of(X)
    return xp.stack([xp.min(X, axis=1), xp.max(X, axis=1)], axis=1)
