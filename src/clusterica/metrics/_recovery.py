"""Distances of estimated from true sources: max_j |e_j - c_(n_j)|_∞, and Amari's, of P = W A."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from clusterica.arrays import to_host


def recovery_distance(centroids: Any, basis: Any) -> float:
    r"""Return the largest error of a coordinate after centroids were matched with a basis.

    This is the distance of [1]_, section 6.1,

    .. math::
        \mathrm{dist}(c, e) = \max_j \| e_j - c_{n_j} \|_\infty ,

    where all rows are first scaled to unit length and the matching n gives each row of the basis a
    centroid of its own, such that the sum of squared Euclidean distances is least.

    Parameters
    ----------
    centroids : array or tensor of shape (n_centroids, n_features)
        Estimated vectors, one per row, of any length.
    basis : array or tensor of shape (n_vectors, n_features)
        True vectors, one per row, of any length; at most as many as centroids.

    Returns
    -------
    float
        0 where every vector of the basis has a centroid on it, at most 2.

    Notes
    -----
    Signs count where centroids come as ± pairs:

    - with exactly twice as many centroids as vectors (k = 2d), the basis stands for the pairs
      :math:`\{e_j, -e_j\}`, and every centroid has its vector;
    - a basis that holds the negative of each of its rows is matched as it stands.

    In all other cases a centroid matches a vector up to its sign, since ICA does not determine signs.
    Centroids without a vector are ignored.

    References
    ----------
    .. [1] A. Vinnikov and S. Shalev-Shwartz, "K-means recovers ICA filters when independent components
       are sparse", 2014.

    Examples
    --------
    >>> from clusterica.metrics import recovery_distance
    >>> basis = [[1, 0], [0, 1]]
    >>> recovery_distance([[0, 3], [-2, 0], [0, -1], [5, 0]], basis)  # both signs of both axes
    0.0
    >>> recovery_distance([[0, -3], [4, 3]], basis)  # up to sign; one is (0.8, 0.6)
    0.6
    """
    # Lengths do not count: a source has no scale.
    C, B = checked_unit_rows("centroids", centroids), checked_unit_rows("basis", basis)
    if C.shape[1] != B.shape[1]:
        raise ValueError(
            f"centroids have {C.shape[1]} features and basis has {B.shape[1]}; both must have "
            "the same number. Vectors are rows: transpose a matrix that holds them as columns."
        )
    if len(C) < len(B):
        raise ValueError(
            f"{len(C)} centroids are too few for a basis of {len(B)} vectors, each of which needs "
            "one of its own; find more clusters, or leave out vectors."
        )
    # Twice as many centroids as vectors: a clusterer that finds both signs of every source.
    if len(C) == 2 * len(B):
        return matched_distance(C, np.concatenate([B, -B]), signed=True)
    # A basis that contains the negative of each row, up to rounding, is matched with its signs.
    has_negatives = bool(((B @ B.T).min(axis=1) < -1 + 1e-9).all())
    return matched_distance(C, B, signed=has_negatives)


def matched_distance(C: np.ndarray, B: np.ndarray, *, signed: bool) -> float:
    """Match each unit row of B with a unit row of C and return the largest error of a coordinate.

    Parameters
    ----------
    C : ndarray of shape (n_centroids, n_features)
        Unit rows, at least as many as in B.
    B : ndarray of shape (n_vectors, n_features)
        Unit rows.
    signed : bool
        Whether a row of C may not be turned into its negative.
    """
    cosines = B @ C.T
    # |b - c|² = 2 - 2 <b, c> for unit vectors, and 2 - 2 |<b, c>| up to sign.
    rows, columns = linear_sum_assignment(cosines if signed else np.abs(cosines), maximize=True)
    # The best one-to-one matching, not the nearest centroid of each: two vectors must not share one.
    found = C[columns]
    if not signed:
        found = found * np.where(cosines[rows, columns] < 0, -1.0, 1.0)[:, np.newaxis]
    return float(np.abs(B - found).max())


def amari_distance(W: Any, A: Any) -> float:
    r"""Return Amari's distance of P = W A from a scaled permutation.

    It is

    .. math::
        \frac{1}{2 n (n - 1)} \sum_{i} \left[
            \Big( \frac{\sum_j |p_{ij}|}{\max_j |p_{ij}|} - 1 \Big) +
            \Big( \frac{\sum_j |p_{ji}|}{\max_j |p_{ji}|} - 1 \Big) \right]

    for the n x n matrix P, after [1]_: how much of the other sources each filter passes, and how much each
    source leaks into other filters.

    Parameters
    ----------
    W : array or tensor of shape (n_sources, n_features)
        Estimated filters, one per row; ``components_`` of an ICA.
    A : array or tensor of shape (n_features, n_sources)
        Mixing matrix, one source per column.

    Returns
    -------
    float
        From 0, where and only where W finds every source up to order and scale, to 1, where all
        entries of P are equally large. For a single source it is 0.

    Notes
    -----
    Other libraries take p² in place of :math:`|p|`, or divide by 2n, under the same name: compare numbers
    only within one of them.

    References
    ----------
    .. [1] S. Amari, A. Cichocki and H. H. Yang, "A new learning algorithm for blind signal separation",
       1996.

    Examples
    --------
    >>> from clusterica.metrics import amari_distance
    >>> amari_distance([[0, -2], [5, 0]], [[1, 0], [0, 1]])  # a scaled permutation
    0.0
    >>> amari_distance([[1, 1], [1, -1]], [[1, 0], [0, 1]])
    1.0
    """
    W, A = _matrix("W", W), _matrix("A", A)
    if W.shape != A.shape[::-1]:
        raise ValueError(
            f"W has shape {W.shape} and A has shape {A.shape}; W must have a row, and A a column, "
            "for each source, and both the same number of features."
        )
    # Scale and sign of a source are free: only the sizes of the entries count.
    P = np.abs(W @ A)
    if not (P.any(axis=0).all() and P.any(axis=1).all()):
        raise ValueError(
            "W A has a row or a column of zeros: a filter passes no source, or a source "
            "reaches no filter. Amari's distance is not defined there; W and A must be invertible."
        )
    n = len(P)
    # A filter that passes one source only has sum = max in its row; and a source its column.
    leaks = (P.sum(axis=1) / P.max(axis=1) - 1).sum() + (P.sum(axis=0) / P.max(axis=0) - 1).sum()
    # max: a single source has no others to leak into.
    return float(leaks / max(2 * n * (n - 1), 1))


def _matrix(name: str, values: Any) -> np.ndarray:
    """Return finite numbers in two dimensions as a float64 array on the host."""
    # Tensors of a device come to the host, and integers become floats.
    M = np.asarray(to_host(values), dtype=np.float64)
    if M.ndim != 2 or 0 in M.shape:
        raise ValueError(
            f"{name} has shape {M.shape}; it must be a matrix of at least one row and one column."
        )
    if not np.isfinite(M).all():
        raise ValueError(f"{name} contains NaN or infinity; every entry must be a finite number.")
    return M


def checked_unit_rows(name: str, values: Any) -> np.ndarray:
    """Return rows of unit length; a row of zeros has no direction."""
    M = _matrix(name, values)
    # Divided by the largest entry first: the squares of large or tiny numbers are not finite.
    largest = np.abs(M).max(axis=1, keepdims=True)
    if not largest.all():
        raise ValueError(
            f"{name} has a row of zeros (row {int(np.argmin(largest))}), which has no direction; "
            "leave it out."
        )
    M = M / largest
    unit: np.ndarray = M / np.linalg.norm(M, axis=1, keepdims=True)
    return unit
