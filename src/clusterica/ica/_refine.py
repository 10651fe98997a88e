"""From directions of clusters to sources of largest likelihood: rotate a sample, then maximise over all rows.

1. A rotation of a sample of white rows, from the directions of the clusters (``_rotation``).
2. A law for every source, fitted to it on all rows, and the maximum of the likelihood (``_likelihood``).
3. If that ends with copies of a source, as it may where a law has no variance, the rotation of all rows instead,
   whose sources are uncorrelated.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from clusterica.arrays import Rows, as_rows, to_host
from clusterica.arrays._namespace import Array
from clusterica.ica._centroids import WhiteBlocks
from clusterica.ica._likelihood import maximize_likelihood
from clusterica.ica._rotation import WhiteRows, find_rotation
from clusterica.ops.contrast import Contrast
from clusterica.ops.linalg import polar_factor
from clusterica.optim import Progress
from clusterica.preprocessing import Whitener
from clusterica.preprocessing._moments import moments_about_mean

# Sources of finite variance come out with correlations of about 1 / √n_rows, copies with nearly 1.
_COPIES = 0.5
# Share of the largest variance below which a direction of the white rows has none.
_LEAST_VARIANCE = 1e-8


class WhiteSpace(NamedTuple):
    """The map ``z = R T (x - mean)`` with ``E[z zᵀ] = I``, also where the whitener is regularised."""

    T: np.ndarray
    """Whitening matrix, shape (n_white, n_features)."""
    R: np.ndarray
    """Inverse root of ``E[y yᵀ]`` for ``y = T (x - mean)``, symmetric."""
    mean: np.ndarray


class Refined(NamedTuple):
    """Filters of shape (n_components, n_features), and the steps of the likelihood."""

    filters: np.ndarray
    n_iter: int
    history: tuple[float, ...]


def white_space(whitener: Whitener) -> WhiteSpace | None:
    """Return the white space of a fitted whitener, or None if it has directions without variance."""
    T, covariance, mean = (
        to_host(a).astype(np.float64)
        for a in (whitener.whitening_, whitener.covariance_, whitener.mean_)
    )
    if whitener.rank_ < len(T):
        return None
    R = np.eye(len(T))
    if whitener.eps_ > 0:
        values, vectors = np.linalg.eigh(T @ covariance @ T.T)
        if values[0] <= _LEAST_VARIANCE * values[-1]:
            return None
        R = (vectors / np.sqrt(values)) @ vectors.T
    return WhiteSpace(T, R, mean)


def refine(
    rows: Rows,
    sample: Array,
    directions: np.ndarray,
    *,
    space: WhiteSpace,
    contrast: Contrast | None,
    max_iter: int,
    rng: np.random.Generator,
    progress: Progress,
) -> Refined:
    """Return the filters of largest likelihood.

    Parameters
    ----------
    rows : Rows
        The data.
    sample : array or blocks of shape (n_rows, n_white)
        White rows that the clusterer has seen.
    directions : ndarray of shape (n_directions, n_white)
        Directions of clusters, at most n_white of them; the others are drawn at random.
    space : WhiteSpace
        Where they lie.
    contrast : callable or None
        Minus the log-density of all sources, or None to fit a law to each.
    max_iter : int
        Most steps of the likelihood.
    rng : Generator
        For what is drawn at random.
    progress : Progress
        Task of the fit.
    """
    T, R, mean = space
    # A filter c of the white rows y is the filter c R^-1 of z = R y.
    W = polar_factor(_completed(directions, rng) @ np.linalg.inv(R))
    if contrast is None:
        white = _white_sample(rows, sample, space)
        W = find_rotation(white, W, rng=rng)
        if white.rows is not rows:  # of which a sample has not quite the covariance
            W = polar_factor(W @ white.whitening @ np.linalg.inv(R))
    task = progress.subtask("likelihood", max_iter)
    result = maximize_likelihood(
        rows, W @ R @ T, mean, contrast=contrast, max_iter=max_iter, progress=task
    )
    task.end()
    sources = result.params @ np.linalg.pinv(R @ T)  # as filters of z, whose covariance is the identity
    if _largest_cosine(sources) > _COPIES:
        return _uncorrelated(rows, W, space, contrast, rng)
    if not (result.converged or result.stopped):
        warnings.warn(
            f"the likelihood was still rising after max_iter={max_iter} steps; raise max_iter",
            ConvergenceWarning,
            stacklevel=5,
        )
    return Refined(result.params, result.n_iter, result.history)


def _completed(directions: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return as many directions as dimensions, with random ones where a clusterer found too few."""
    missing = directions.shape[1] - len(directions)
    return np.concatenate([directions, rng.normal(size=(missing, directions.shape[1]))])


def _white_sample(rows: Rows, sample: Array, space: WhiteSpace) -> WhiteRows:
    """Return the white rows of the clusterer, made exactly white, which weak sources need.

    All rows, where the sample is blocks that are made anew on every walk, or has directions without variance.
    """
    if not isinstance(sample, WhiteBlocks):
        Y = as_rows(sample)
        n, mean, second = (to_host(m) for m in moments_about_mean(Y))
        values, vectors = np.linalg.eigh(second / n)
        if values[0] > _LEAST_VARIANCE * values[-1]:
            return WhiteRows(Y, (vectors / np.sqrt(values)) @ vectors.T, mean)
    return WhiteRows(rows, space.R @ space.T, space.mean)


def _largest_cosine(sources: np.ndarray) -> float:
    """Return the largest correlation of two sources, given as filters of white rows."""
    unit = sources / np.linalg.norm(sources, axis=1, keepdims=True)
    return float(np.abs(unit @ unit.T - np.eye(len(unit))).max())


def _uncorrelated(
    rows: Rows,
    W: np.ndarray,
    space: WhiteSpace,
    contrast: Contrast | None,
    rng: np.random.Generator,
) -> Refined:
    """Return sources that are no copies of each other, where the likelihood ended with such."""
    B = space.R @ space.T
    if contrast is None:
        return Refined(find_rotation(WhiteRows(rows, B, space.mean), W, rng=rng) @ B, 0, ())
    warnings.warn(
        f"the likelihood of refine={contrast!r} ended with two copies of a source, and the sources of the clusters "
        "are kept instead; use refine='ml', which fits a law to every source",
        UserWarning,
        stacklevel=6,
    )
    return Refined(W @ B, 0, ())
