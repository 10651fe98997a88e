"""Contrast of rows: subtract a row's mean and divide by ``sqrt(var + eps)``; and the range of values."""

from __future__ import annotations

from clusterica.arrays import namespace_of
from clusterica.arrays._namespace import Array


def normalize_contrast(X: Array, *, eps: float) -> Array:
    """Return ``(x - mean(x)) / sqrt(var(x) + eps)`` of every row of a block (var divides by n_features)."""
    xp = namespace_of(X)
    centred = X - xp.mean(X, axis=1, keepdims=True)
    variance = xp.mean(centred * centred, axis=1, keepdims=True)
    # A flat row with eps = 0 has no contrast to normalise; it stays zero.
    scale = xp.sqrt(variance + eps)
    return centred / xp.where(scale > 0, scale, 1)


def extremes(X: Array) -> Array:
    """Return the least and the largest value of every row, shape (n_rows, 2)."""
    xp = namespace_of(X)
    return xp.stack([xp.min(X, axis=1), xp.max(X, axis=1)], axis=1)
