"""Parts of reconstruction ICA, ``E |WᵀW x - x|² + λ E g(W x)``, for rows x about their mean.

The first part depends on the rows by their covariance C alone: with ``E = WᵀW - I`` it is ``tr(E C E)``, and
its gradient is ``2 W (C E + E C)``. Only the penalty needs a walk over the rows.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from clusterica.arrays import namespace_of
from clusterica.arrays._namespace import Array
from clusterica.ops.penalty import PenaltyFunction
from clusterica.ops.tiles import sum_tiles


def reconstruction(W: np.ndarray, C: np.ndarray) -> tuple[float, np.ndarray]:
    """Return ``tr(E C E)`` with ``E = WᵀW - I``, and its gradient by W.

    Parameters
    ----------
    W : ndarray of shape (n_components, n_features)
    C : ndarray of shape (n_features, n_features)
        Covariance of the rows.
    """
    E = W.T @ W
    E.flat[:: len(E) + 1] -= 1
    CE = C @ E
    return float((E * CE).sum()), 2 * (W @ (CE + CE.T))


class PenaltySums(NamedTuple):
    """Sum of g(W x) over the rows of a block, a number, and its gradient by W."""

    value: Array
    gradient: Array


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
    return sum_tiles(partial(_penalty_sums, penalty=penalty), X, W, mean, width=max(W.shape))


def _penalty_sums(X: Array, W: Array, mean: Array, *, penalty: PenaltyFunction) -> PenaltySums:
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


def class_moments(X: Array, about: Array, labels: Array, *, n_classes: int) -> ClassMoments:
    """Return the moments of a block, class by class, in float64; labels are 0 .. n_classes - 1."""
    xp = namespace_of(X)
    X = xp.astype(X, xp.float64) - xp.astype(about, xp.float64)
    parts = [X[labels == c, :] for c in range(n_classes)]
    return ClassMoments(
        xp.stack([xp.asarray(float(P.shape[0]), device=X.device) for P in parts]),
        xp.stack([xp.sum(P, axis=0) for P in parts]),
        xp.stack([P.T @ P for P in parts]),
    )
