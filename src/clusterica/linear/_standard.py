"""Standardised features ``z = (x - mean) / scale`` that are never stored: classifiers are turned instead.

With ``m = z Wᵀ + b = x Aᵀ + c``: ``A = W / scale`` and ``c = b - A mean``.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from clusterica.arrays import Rows, map_reduce, namespace_of, to_host
from clusterica.arrays._namespace import Array, is_host_array
from clusterica.ops.margin import feature_sums

# The mean may be this many deviations away, times the precision, before products lose digits that count.
_DIGITS_TO_SPARE = 4e-6

# A feature so many times larger than the median leaves float32 Gram matrices 1 digit for the others.
_OUTWEIGHS = 1e3
_GLANCED = 100  # rows that tell the size of a feature


class Standard(NamedTuple):
    """Mean and scale of the features in float64, where the rows are, shape (n_features,).

    ``about`` is the point, in the working dtype, that is taken from every row before products are
    made; None where the mean is near enough to zero to be dealt with afterwards. ``offset`` is the
    mean seen from there. ``shrink`` holds factors, 1 for nearly all features, under which no standardised
    feature hides the others in sums of products; None where all are 1.
    """

    mean: Array
    scale: Array
    about: Array | None
    offset: Array
    shrink: Array | None = None


class Affine(NamedTuple):
    """Classifiers of rows as they are read: ``m = (x - about) Aᵀ + c``, in the working dtype."""

    A: Array
    c: Array


def learn_standard(rows: Rows, weights: np.ndarray, *, centre: bool, scale: bool) -> Standard:
    """Return the standardisation of the rows: which parts of it are wanted is for the caller to say."""
    d = rows.n_features
    mean, deviation = np.zeros(d), np.ones(d)
    if centre or scale:
        mean, deviation = _mean_and_deviation(rows, weights)
    # A feature without variance says nothing once it is centred: infinite steps make it exactly zero.
    steps = np.where(deviation > 0, deviation if scale else 1.0, np.inf if centre else 1.0)
    if not centre:
        mean = np.zeros(d)
    far = np.where(deviation > 0, np.abs(mean), 0.0) / np.where(deviation > 0, deviation, 1.0)
    spare = _DIGITS_TO_SPARE / float(np.finfo(rows.dtype).eps)
    about = mean.astype(rows.dtype) if float(far.max()) > spare else None
    offset = mean if about is None else mean - about
    shrink = None if centre and scale else _shrink(rows, mean, steps)
    place = rows.place
    about, shrink = (None if values is None else place(values) for values in (about, shrink))
    return Standard(place(mean), place(steps), about, place(offset), shrink)


def _shrink(rows: Rows, mean: np.ndarray, scale: np.ndarray) -> np.ndarray | None:
    sizes = np.abs((rows.glance(_GLANCED).astype(np.float64) - mean) / scale).max(axis=0)
    usual = float(np.median(sizes[sizes > 0])) if sizes.any() else 1.0
    large = sizes > _OUTWEIGHS * usual
    return np.where(large, usual / np.where(large, sizes, 1.0), 1.0) if large.any() else None


def _mean_and_deviation(rows: Rows, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    about = rows.glance().mean(axis=0, dtype=np.float64).astype(rows.dtype)
    total, first, second = _feature_sums(rows, about, weights, wide=False)
    limits = np.finfo(rows.dtype)
    if not np.isfinite(second).all():
        j = int(np.flatnonzero(~np.isfinite(second))[0])
        raise ValueError(
            f"the squares of feature {j} are too large for {rows.dtype}; scale the features down, or pass "
            "float64"
        )
    if rows.dtype != np.float64 and (second < total * limits.tiny / limits.eps).any():
        # Features that are constant, or so small that their squares vanish.
        total, first, second = _feature_sums(rows, about, weights, wide=True)
    shift = first / total
    mean = about + shift
    variance = np.clip(second / total - shift**2, 0, None)
    # What is left of a constant feature after rounding is no variance, nor is what weights divided by would
    # overflow.
    noise = np.maximum(8 * limits.eps * np.abs(mean), limits.tiny / limits.eps**0.5)
    return mean, np.where(variance > noise**2, variance, 0.0) ** 0.5


def _feature_sums(
    rows: Rows, about: np.ndarray, weights: np.ndarray, *, wide: bool
) -> tuple[np.ndarray, ...]:
    fn, weights = partial(feature_sums, wide=wide), weights.astype(rows.dtype)
    row_bytes = (24 if wide else 2 * rows.dtype.itemsize) * rows.n_features
    sums = map_reduce(fn, rows, about, aligned=(weights,), row_bytes=row_bytes)
    return tuple(to_host(s) for s in sums)


def affine(standard: Standard, W: Array, b: Array, dtype: np.dtype) -> Affine:
    """Return classifiers of the rows from those of standardised features."""
    xp = namespace_of(W)
    A = W / standard.scale
    c = b - A @ standard.offset
    working = getattr(xp, dtype.name)
    return Affine(xp.astype(A, working), xp.astype(c, working))


def original(
    standard: Standard, W: Array, b: Array, dtype: np.dtype
) -> tuple[np.ndarray, np.ndarray]:
    """Return weights and intercepts for the features as they were given, on the host, rounded to dtype."""
    A = to_host(W / standard.scale).astype(dtype)
    # The intercept makes up for the rounding of the weights, times the mean.
    return A, (to_host(b) - A.astype(np.float64) @ to_host(standard.mean)).astype(dtype)


def standardised_pull(standard: Standard, pull: Array, lift: Array) -> Array:
    """Turn ``sum a (x - about)`` and ``sum a`` into ``sum a z``."""
    return (pull - lift[:, None] * standard.offset) / standard.scale


def standardised_rows(
    rows: Rows, standard: Standard, indices: np.ndarray, dtype: np.dtype
) -> Array:
    """Return some rows, at sorted indices, standardised and where the rows are."""
    X = _taken(rows, indices)
    xp = namespace_of(X)
    working = getattr(xp, dtype.name)
    X = xp.astype(X, working, copy=False)
    mean, scale = xp.astype(standard.mean, working), xp.astype(standard.scale, working)
    if isinstance(X, np.ndarray):
        X -= mean  # a copy already, and a large one
        X /= scale
        return X
    return (X - mean) / scale


def _taken(rows: Rows, indices: np.ndarray) -> Array:
    if rows.on_host or is_host_array(rows.reference):
        return rows.place(rows.take(indices))
    parts = []
    for start, stop, load in rows.blocks(rows.n_rows):
        low, high = np.searchsorted(indices, (start, stop))
        block = load()
        picked = rows.place(indices[low:high] - start)
        parts.append(namespace_of(block).take(block, picked, axis=0))
    return namespace_of(parts[0]).concat(parts, axis=0)
