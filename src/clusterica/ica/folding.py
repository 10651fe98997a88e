"""Folding centroids into lines: clusters at both ends of a source's direction become one unit vector.

K-means on white sparse data puts a centroid on each side of every source, ``c`` and ``-c``. Here those
pairs are found, whatever clusterer made them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from clusterica.ops.linalg import row_energies, unit_rows


class Lines(NamedTuple):
    """Unit vectors whose sign means nothing, pairs of centroids before single ones, heavy before light."""

    directions: np.ndarray
    weights: np.ndarray


def fold(centroids: np.ndarray, counts: np.ndarray, n_lines: int) -> np.ndarray:
    """Return n_lines lines, shape (n_lines, n_features).

    Copies of a line come last, so that they are taken only where the clusterer found nothing else.

    Parameters
    ----------
    centroids : ndarray of shape (n_clusters, n_features)
        At most 2 n_lines of them lie on different sides of different lines.
    counts : ndarray of shape (n_clusters,)
        Rows of each cluster.
    n_lines : int
        How many lines to return, or as many as there are.
    """
    lines = _pair(centroids, counts)
    first, copies = _find_copies(lines)
    return lines.directions[(first + copies)[:n_lines]]


def fold_overcomplete(centroids: np.ndarray, energies: np.ndarray, n_lines: int) -> np.ndarray:
    """Return at most n_lines different lines that hold energy: copies are merged, weak lines dropped.

    Of more lines, pairs of centroids are taken before single ones, heavy before light.

    Parameters
    ----------
    centroids : ndarray of shape (n_clusters, n_features)
        Near both ends of the lines, or not on a line.
    energies : ndarray of shape (n_clusters,)
        Energy of the rows along each. With very sparse sources most rows are nearly zero, and lie in one
        cluster, whose centroid has no meaning.
    n_lines : int
        How many lines to return at most.
    """
    lines = _pair(centroids, energies)
    first, copies = _find_copies(lines)
    sums = lines.weights[first, None] * lines.directions[first]
    masses = lines.weights[first].copy()
    for i in copies:
        cosines = lines.directions[first] @ lines.directions[i]
        nearest = int(np.argmax(np.abs(cosines)))
        sums[nearest] += np.sign(cosines[nearest]) * lines.weights[i] * lines.directions[i]
        masses[nearest] += lines.weights[i]
    # A line with less than 5 % of the mean energy is noise.
    lines_kept: np.ndarray = unit_rows(sums[masses >= 0.05 * masses.mean()][:n_lines])
    return lines_kept


def _pair(centroids: np.ndarray, weights: np.ndarray) -> Lines:
    """Join centroids that point in opposite directions, the most opposite first."""
    has_direction = row_energies(centroids) > 0
    U, weights = unit_rows(centroids[has_direction]), weights[has_direction]
    cosines = U @ U.T
    above = np.triu_indices(len(U), k=1)
    order = np.argsort(cosines[above], kind="stable")
    single = np.ones(len(U), dtype=bool)
    pairs = []
    for i, j in zip(above[0][order], above[1][order], strict=True):
        if cosines[i, j] > -0.5:
            break  # less than 120 degrees apart are no pair
        if single[i] and single[j]:
            single[[i, j]] = False
            pairs.append((i, j))
    first, second = np.array(pairs, dtype=np.intp).reshape(-1, 2).T
    # A pair is the direction from one centroid to the other, each as sure as its weight is large.
    both = weights[first] + weights[second]
    share = np.divide(weights[first], both, out=np.full(len(both), 0.5), where=both > 0)[:, None]
    joined = unit_rows(share * U[first] - (1 - share) * U[second])
    masses = np.concatenate([both, weights[single]]).astype(np.float64)
    is_single = np.arange(len(masses)) >= len(pairs)
    order = np.lexsort((-masses, is_single))
    return Lines(np.concatenate([joined, U[single]])[order], masses[order])


def _find_copies(lines: Lines) -> tuple[list[int], list[int]]:
    """Return the indices of lines that differ from all before them, and those of the others."""
    first: list[int] = []
    copies: list[int] = []
    for i, direction in enumerate(lines.directions):
        # Lines at most 18 degrees apart are copies of one.
        is_copy = bool(first) and np.abs(lines.directions[first] @ direction).max() > 0.95
        (copies if is_copy else first).append(i)
    return first, copies
