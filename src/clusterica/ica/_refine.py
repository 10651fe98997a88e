"""From directions of clusters to sources of largest likelihood: rotate a sample, then maximise over all rows.

1. A rotation of a sample of white rows, from the directions of the clusters, by the symmetric fixed point
   with ``G(y) = √(y² + 4)``, which is bounded in its derivative and turns to sources with heavy and with
   light tails alike. Clusters lie along sources with heavy tails, and do not show the others. There the
   fixed point may rest at four sources in equal shares, each time with another sign: it is a local optimum
   for light tails. Such mixtures give themselves away by their energies, which depend on each other.
2. A distribution for every source, fitted on the sample, and the maximum of its likelihood.
3. The same on all rows.
4. If that ends with copies of a source, as it may where a source has no variance, the rotation of all rows in
   its place, whose sources are uncorrelated.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from clusterica.arrays import Array, LazyRows, Rows, as_rows, to_host, warn_user
from clusterica.contrasts import Contrast, SmoothedL1
from clusterica.ica._likelihood import maximize_likelihood, means_of, symmetric_fixed_point
from clusterica.ops.likelihood import LikelihoodSums, likelihood_sums
from clusterica.ops.linalg import polar_factor, unit_rows
from clusterica.ops.score import EnergyProducts, energy_products
from clusterica.optim import LoopResult, Progress
from clusterica.preprocessing import Whitener
from clusterica.preprocessing.whitening import moments_about_mean

# Share of the largest variance below which a direction of the white rows has none.
_LEAST_VARIANCE = 1e-8
# Wide, as light tails ask for: on two draws of 25 triangular sources a width of 1 took 20 and 60 steps, a
# width of 2 took 18 and 29.
_CONTRAST = SmoothedL1(2.0)


class WhiteMap(NamedTuple):
    """The map ``z = R T (x - mean)`` with ``E[z zᵀ] = I``, also where the whitener is regularised."""

    T: np.ndarray
    """Whitening matrix, shape (n_white, n_features)."""
    R: np.ndarray
    """Inverse root of ``E[y yᵀ]`` for ``y = T (x - mean)``, symmetric."""
    mean: np.ndarray


def white_map(whitener: Whitener) -> WhiteMap | None:
    """Return the white space of a fitted whitener, or None if it has directions without variance."""
    T, mean = (to_host(a).astype(np.float64) for a in (whitener.whitening_, whitener.mean_))
    if min(whitener.rank_, whitener.n_components or len(T)) < len(T):
        return None
    R = np.eye(len(T))
    if whitener.eps_ > 0:
        n, _, second = whitener._moments  # in float64, as covariance_ need not be
        values, vectors = np.linalg.eigh(T @ (second / (n - 1)) @ T.T)
        if values[0] <= _LEAST_VARIANCE * values[-1]:
            return None
        R = (vectors / np.sqrt(values)) @ vectors.T
    return WhiteMap(T, R, mean)


def find_start(
    rows: Rows,
    sample: Array,
    directions: np.ndarray,
    *,
    space: WhiteMap,
    contrast: Contrast | None,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return filters of white rows z that the likelihood starts from, unit rows, shape (n_white, n_white).

    Parameters
    ----------
    rows : Rows
        The data.
    sample : array or blocks of shape (n_rows, n_white)
        White rows that the clusterer has seen.
    directions : ndarray of shape (n_directions, n_white)
        Directions of clusters, at most n_white of them; the others are drawn at random.
    space : WhiteMap
        Where they lie.
    contrast : callable or None
        With one, which is for sources that clusters lie along, the directions are not turned any further.
    rng : Generator
        For what is drawn at random.
    """
    missing = space.R.shape[0] - len(directions)
    filled = np.concatenate([directions, rng.normal(size=(missing, space.R.shape[0]))])
    # A filter c of the white rows y is the filter c R^-1 of z = R y.
    back = np.linalg.inv(space.R)
    W: np.ndarray = polar_factor(filled @ back)
    if contrast is not None:
        return W
    # All rows, where the sample is blocks that are computed again on every walk, or has directions without
    # variance. Otherwise the sample, made exactly white, which weak sources need.
    white = WhiteRows(rows, space.R @ space.T, space.mean)
    if not isinstance(sample, LazyRows):
        Y = as_rows(sample)
        n, mean, second = (to_host(m) for m in moments_about_mean(Y))
        values, vectors = np.linalg.eigh(second / n)
        if values[0] > _LEAST_VARIANCE * values[-1]:
            white = WhiteRows(Y, (vectors / np.sqrt(values)) @ vectors.T, mean)
    W = find_rotation(white, W, rng=rng)
    if white.rows is rows:
        return W
    # With 50 sources of 100,000 rows, steps on the sample save two of five on all rows, and cost half of one.
    B = maximize_likelihood(white.rows, W @ white.whitening, white.mean, max_iter=10).params
    found: np.ndarray = unit_rows(B @ back)
    # A sample has not quite the covariance of all rows.
    if _has_copies(found):
        found = polar_factor(W @ white.whitening @ back)
    return found


def refine(
    rows: Rows,
    W: np.ndarray,
    *,
    space: WhiteMap,
    contrast: Contrast | None,
    max_iter: int,
    rng: np.random.Generator,
    progress: Progress,
) -> LoopResult:
    """Return the filters of largest likelihood, starting from filters W of white rows.

    They are the ``params`` of the result, shape (n_components, n_features). ``n_iter`` is 0 where the
    likelihood ended with copies of a source, and a rotation is returned instead.

    Parameters
    ----------
    rows : Rows
        The data.
    W : ndarray of shape (n_white, n_white)
        As :func:`find_start` returns it.
    space : WhiteMap
        Where W lies.
    contrast : callable or None
        Minus the log-density of all sources, or None to fit a distribution to each.
    max_iter : int
        Maximum number of iterations.
    rng : Generator
        For what is drawn at random.
    progress : Progress
        Task of the fit.
    """
    B = space.R @ space.T
    task = progress.subtask("likelihood", max_iter)
    result = maximize_likelihood(
        rows, W @ B, space.mean, contrast=contrast, max_iter=max_iter, progress=task
    )
    task.end()
    if not _has_copies(unit_rows(result.params @ np.linalg.pinv(B))):
        return result
    # Copies of a source: return sources that are uncorrelated, and so not copies of each other.
    if contrast is None:
        W = find_rotation(WhiteRows(rows, B, space.mean), W, rng=rng)
    else:
        warn_user(
            f"the likelihood of refine={contrast!r} ended with two copies of a source, and the sources of "
            "the clusters are kept instead; use refine='ml', which fits a distribution to every source"
        )
    return LoopResult(W @ B, history=(), n_iter=0, converged=True, stopped=False)


def _has_copies(W: np.ndarray) -> bool:
    """Return whether two sources of white rows, of unit variance, are nearly the same."""
    # Sources of finite variance have correlations of about 1 / √n_rows, copies have nearly 1. A NaN is worse.
    return not np.abs(W @ W.T - np.eye(len(W))).max() <= 0.5


# --- The rotation of white rows ---------------------------------------------------------------------


class WhiteRows(NamedTuple):
    """Rows x, and the map ``z = whitening (x - mean)`` that makes them white: ``E[z zᵀ] = I``."""

    rows: Rows
    whitening: np.ndarray
    mean: np.ndarray

    def means(self, fn: Any, W: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return the means over rows of what an op sums, of the sources ``W z``."""
        return means_of(fn, self.rows, W @ self.whitening, self.mean)


def find_rotation(white: WhiteRows, start: np.ndarray, *, rng: np.random.Generator) -> np.ndarray:
    """Return the rotation W of white rows z for which the sources ``W z`` are independent, (n_dims, n_dims).

    Parameters
    ----------
    white : WhiteRows
        The rows.
    start : ndarray of shape (n_dims, n_dims)
        Directions to begin with.
    rng : Generator
        For second starts of what is still mixed.
    """
    W = _turn(white, start)
    tails = _tails(white, W)
    # Six sampling errors 1 / √n_rows show a mixture: the largest correlation over all pairs of 50 independent
    # sources is about 4.5 of them. Four sines in equal shares have a correlation of 0.1.
    noise = 6 / np.sqrt(white.rows.n_rows)
    # Of 30 draws of 25 sawtooths three second starts mend two. Four sines whose frequencies add up
    # (f + g = h + k) may stay in equal shares, 3 draws of 25 sines in 30: their energies do not depend on
    # each other.
    for _ in range(3):
        # Sources without heavy tails whose energies depend on those of others of them are still mixed.
        of = EnergyProducts(*white.means(energy_products, W))
        covariance = of.second - np.outer(of.first, of.first)
        deviations = np.sqrt(np.maximum(np.diag(covariance), np.finfo(float).tiny))
        correlation = np.abs(covariance / np.outer(deviations, deviations))
        np.fill_diagonal(correlation, 0)
        light = tails < noise
        mixed = np.flatnonzero(light & (correlation[light] > noise).any(axis=0))
        if len(mixed) < 2:
            break
        # Only these are turned again, in the space that they span: a small part of the work for all.
        part = WhiteRows(white.rows, W[mixed] @ white.whitening, white.mean)
        again = _turn(part, rng.normal(size=(len(mixed), len(mixed))))
        new_tails = _tails(part, again)
        if np.abs(new_tails).sum() <= np.abs(tails[mixed]).sum():
            break  # they depend on each other, as signals of related frequencies do
        W[mixed], tails[mixed] = again @ W[mixed], new_tails
    return W


def _turn(white: WhiteRows, start: np.ndarray) -> np.ndarray:
    result = symmetric_fixed_point(
        white.rows,
        start,
        whitening=white.whitening,
        mean=white.mean,
        contrast=_CONTRAST,
        # Four to twenty steps are usual with up to 50 sources; what is left after 40 is for the likelihood.
        max_iter=40,
        tol=1e-7,
    )
    W: np.ndarray = result.params
    return W


def _tails(white: WhiteRows, W: np.ndarray) -> np.ndarray:
    """Return ``E[G''(y)] - E[G'(y) y]`` of every source: over 0 for heavy tails, under 0 for light ones.

    Its sign decides what is a maximum of the likelihood (Lee, Girolami and Sejnowski, "Independent
    component analysis using an extended infomax algorithm", 1999); its size is a measure of
    non-Gaussianity that outliers can't move.
    """
    of = LikelihoodSums(*white.means(partial(likelihood_sums, contrast=_CONTRAST), W))
    tails: np.ndarray = of.curvature - np.diag(of.gradient)
    return tails
