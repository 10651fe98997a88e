"""Parts of reconstruction ICA, ``E |WᵀW x / t - x|² + λ E g(W x)``, for rows x about their mean.

The first part depends on the rows by their covariance C alone: with ``E = WᵀW / t - I`` it is ``tr(E C E)``,
and its gradient is ``2 W (C E + E C) / t``. Only the penalty needs a walk over the rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from clusterica.arrays import Array, in_tiles, namespace_of, working_memory
from clusterica.ops.moments import Moments
from clusterica.ops.penalty import PenaltyFunction


def reconstruction(W: Array, C: Array, tightness: float = 1.0) -> tuple[float, Array]:
    """Return ``tr(E C E)`` with ``E = WᵀW / t - I``, and its gradient by W.

    Parameters
    ----------
    W : (n_components, n_features) array
    C : (n_features, n_features) array
        Covariance of the rows.
    tightness : float, default=1.0
        The t: K unit vectors that point evenly in all of n directions have WᵀW = (K / n) I.
    """
    xp = namespace_of(W)
    E = (W.T @ W) / tightness - xp.eye(W.shape[1], dtype=W.dtype, device=W.device)
    CE = C @ E
    return float(xp.sum(E * CE)), (2 / tightness) * (W @ (CE + CE.T))


def null_directions(total: Moments, dtype: np.dtype) -> np.ndarray:
    """Return orthonormal directions without variance, shape (n, n_features).

    Parameters
    ----------
    total : Moments
        Of the rows, on the host.
    dtype : dtype
        Precision of the rows. Each feature is measured by its own size, so that small ones count.
    """
    C, eps = total.second / total.n, float(np.finfo(dtype).eps)
    # What may be rounding: 1000 units in the last place of centred rows, which earlier preprocessing may have
    # rounded many times; 10 units of the covariance itself; 10 units of the mean.
    share = max((1000 * eps) ** 2, 10 * float(np.finfo(C.dtype).eps))
    noise = share * np.diag(C) + (10 * eps * total.first) ** 2
    # Eigenvalues in units of this noise: up to 1 a direction can't be told from a constant one.
    scale = np.sqrt(np.where(noise > 0, noise, 1))
    in_noise, V = np.linalg.eigh(C / np.outer(scale, scale))
    # Everything is below the noise: then no direction is more constant than the others.
    if in_noise[-1] <= 1:
        return np.empty((0, len(C)))
    # Back in the units of the features, in which the directions must be orthonormal.
    N, _ = np.linalg.qr(V[:, in_noise <= 1] / scale[:, None])
    return N.T


class PenaltySums(NamedTuple):
    """Sum of g(W x) over the rows of a block, a number, and its gradient by W."""

    value: Array
    gradient: Array


@working_memory(lambda row, W, mean: (row.n_features + 5 * W.shape[0]) * row.itemsize)
@in_tiles(lambda X, W, mean: max(W.shape))
def penalty_sums(X: Array, W: Array, mean: Array, *, penalty: PenaltyFunction) -> PenaltySums:
    """Return the sums of a block.

    Parameters
    ----------
    X : (n_rows, n_features) array
    W : (n_components, n_features) array
    mean : (n_features,) array
    penalty : callable
        From codes to their penalty and its slopes.
    """
    centred = X - mean
    value, slopes = penalty(centred @ W.T)
    return PenaltySums(value, slopes.T @ centred)


class ClassMoments(NamedTuple):
    """Sums over the rows of every class about a point: counts, of x, of x xᵀ."""

    n: Array
    """Shape (n_classes,)."""
    first: Array
    """Shape (n_classes, n_features)."""
    second: Array
    """Shape (n_classes, n_features, n_features)."""


@working_memory(lambda row, about: 24 * row.n_features)
def class_moments(X: Array, about: Array, labels: Array, *, n_classes: int) -> ClassMoments:
    """Return the moments of a block, class by class, in float64; labels are 0 .. n_classes - 1."""
    xp = namespace_of(X)
    # One product for each class: a mask for every class would multiply all rows n_classes times.
    X = xp.astype(X, xp.float64) - xp.astype(about, xp.float64)
    parts = [xp.take(X, xp.nonzero(labels == c)[0], axis=0) for c in range(n_classes)]
    return ClassMoments(
        xp.stack([xp.asarray(float(P.shape[0]), device=X.device) for P in parts]),
        xp.stack([xp.sum(P, axis=0) for P in parts]),
        xp.stack([P.T @ P for P in parts]),
    )
