"""Two solvers of ICA from a start: the symmetric fixed point, and the maximum of the likelihood.

The fixed point is ``W <- polar((E[G'(y) yᵀ] - diag E[G''(y)]) W)`` for white z, ``y = W z``. It rests where
every ``E G(y_j)`` is a minimum or a maximum for its contrast G, and so finds sources that are sparser than
Gaussian ones and sources that are flatter.

The likelihood is maximised as ``min -log|det W| + sum_j E G(y_j)`` over ``y = W B0 x``. Relative moves ``W
<- (I + E) W`` make the second derivative almost block-diagonal, with a block ``[[h_ij, 1], [1, h_ji]]`` for
every pair of components, ``h_ij = E[G''(y_i)] E[y_j²]``. It is exact where the sources are independent, so
that near the answer a few quasi-Newton steps suffice; L-BFGS corrects it on data that no independent
sources explain.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from clusterica.arrays import Rows, map_reduce, to_host
from clusterica.contrasts import Contrast, Derivatives
from clusterica.ops.likelihood import LikelihoodSums, likelihood_sums
from clusterica.ops.linalg import polar_factor
from clusterica.ops.score import ScoreSums, score_sums
from clusterica.optim import (
    LBFGS,
    Evaluation,
    LoopResult,
    LoopState,
    Position,
    Progress,
    Step,
    iterate,
)

# --- The symmetric fixed point ----------------------------------------------------------------------


def symmetric_fixed_point(
    rows: Rows,
    start: np.ndarray,
    *,
    contrast: Contrast,
    max_iter: int,
    tol: float,
    whitening: np.ndarray | None = None,
    mean: np.ndarray | None = None,
    progress: Progress | None = None,
    fitted: Callable[[np.ndarray], dict[str, Any]] | None = None,
) -> LoopResult:
    """Return orthonormal directions of white rows, shape (n_dims, n_dims), whose responses are independent.

    Parameters
    ----------
    rows : Rows
        The rows x.
    start : ndarray of shape (n_dims, n_dims)
        Directions to begin with.
    contrast : callable
        ``y -> (G(y), G'(y), G''(y))``.
    max_iter : int
        Maximum number of iterations, each a walk over the rows.
    tol : float
        Ends when no direction turns by more than an angle with ``1 - cos`` of this.
    whitening, mean : ndarray of shape (n_dims, n_features) and (n_features,), optional
        ``z = whitening (x - mean)`` is white: of mean 0 and with ``E[z zᵀ] = I``. Without them the rows are.
    progress : Progress, optional
        Task of which the steps are parts.
    fitted : callable, optional
        From directions to fitted attributes, for callbacks.
    """
    whitening = np.eye(rows.n_features) if whitening is None else whitening
    mean = np.zeros(rows.n_features) if mean is None else mean
    fn = partial(likelihood_sums, contrast=contrast)

    def step(W: np.ndarray) -> Step:
        of = LikelihoodSums(*means_of(fn, rows, W @ whitening, mean))
        M = (of.gradient - np.diag(of.curvature)) @ W
        new = to_host(polar_factor(rows.place.put(M)))
        # A direction may change its sign from step to step, which is no move.
        change = float(np.abs(1 - np.abs((new * W).sum(axis=1))).max())
        return Step(new, float(of.value), change)

    state = LoopState(0, polar_factor(start))
    return iterate(step, state, max_iter=max_iter, tol=tol, progress=progress, fitted=fitted)


# --- Maximum likelihood -----------------------------------------------------------------------------


def check_density(contrast: Contrast) -> None:
    """Raise an error if ``e^{-G}`` of a contrast is not a density, so that the likelihood has no maximum.

    At the best scale of a source y, ``E[y G'(y)] = 1``; a bounded G never gets there, and the longer the
    filters, the larger the likelihood. It is tried on normal sources of many scales.
    """
    # Quantiles of a normal distribution in place of draws, so that the answer is always the same.
    levels = (np.arange(1000) + 0.5) / 1000
    y = np.logspace(-4, 4, 81)[:, None] * stats.norm.ppf(levels)
    with np.errstate(all="ignore"):  # at the largest scales
        reached = np.mean(y * Derivatives(*contrast(y)).first, axis=1)
    if np.nanmax(reached) < 1:
        raise ValueError(
            f"refine={contrast!r} can't be used: e^-G is not a density where G stays bounded, and the "
            "likelihood grows with the length of the filters; use SmoothedLaplace() or LogCosh()"
        )


def maximize_likelihood(
    rows: Rows,
    B0: np.ndarray,
    mean: np.ndarray,
    *,
    contrast: Contrast | None = None,
    max_iter: int,
    progress: Progress | None = None,
) -> LoopResult:
    """Return the unmixing matrix W B0, shape (n_components, n_features), of largest likelihood.

    Parameters
    ----------
    rows : Rows
        The data.
    B0 : ndarray of shape (n_components, n_features)
        Unmixing matrix to start from, with as many rows as the data has dimensions; without a contrast
        its sources have unit variance.
    mean : ndarray of shape (n_features,)
        Mean of the data.
    contrast : callable or None, default=None
        Minus the log-density of all sources, with derivatives. None fits a distribution to every source
        of the start.
    max_iter : int
        Maximum number of iterations.
    progress : Progress, optional
        Task of which the steps are parts.
    """

    def evaluate(W: np.ndarray) -> Evaluation:
        # The mean loss, its relative gradient, and the curvatures h: one walk over the rows.
        fn = partial(likelihood_sums, contrast=contrast)
        mean_of = LikelihoodSums(*means_of(fn, rows, W @ B0, mean))
        # E[G''(y_i) y_j²] is the product of the means for independent sources; exact on the diagonal.
        h = np.outer(mean_of.curvature, mean_of.energy)
        np.fill_diagonal(h, mean_of.diagonal)
        objective = float(mean_of.value) - np.linalg.slogdet(W).logabsdet
        return Evaluation(objective, mean_of.gradient - np.eye(len(W)), h)

    solver = LBFGS(
        evaluate=_FittedLikelihood(rows, B0, mean) if contrast is None else evaluate,
        retract=lambda W, E: W + E @ W,
        precondition=_quasi_newton,
        size=len,  # the squared length of the identity, which a relative move is compared with
    )
    start = solver.start(np.eye(B0.shape[0]))
    state = LoopState(0, start, (start.evaluation.objective,))
    # An entry of W has a sampling variance of about 1 / 4n where sources are far from Gaussian, more
    # where not. The last step may move it by a tenth of that error, a hundredth of the variance.
    tol = 0.01 * len(B0) / (4 * rows.n_rows)

    def step(old: Position) -> Step:
        result = solver.step(old)
        move = solver.direction(result.params)
        if not (move * move).sum() <= tol * len(B0):
            return result
        # So short a move is made without a walk over the rows that would confirm it.
        last = result.params._replace(params=solver.retract(result.params.params, move))
        return Step(last, result.objective, 0.0)

    result = iterate(step, state, max_iter=max_iter, tol=tol, progress=progress)
    B = result.params.params @ B0
    growth = np.linalg.norm(B) / np.linalg.norm(B0)
    if not 1e-8 < growth < 1e8:  # nor is NaN
        raise ValueError(
            f"the likelihood of {contrast!r} has no maximum on this data, and the filters grow without "
            "bound; check that e^-G is a density, or use SmoothedLaplace() or LogCosh()"
        )
    return result._replace(params=B)


class _FittedLikelihood:
    """The mean loss with a distribution for every source, fitted at the first evaluation and then kept."""

    def __init__(self, rows: Rows, B0: np.ndarray, mean: np.ndarray) -> None:
        self._rows, self._B0, self._mean = rows, B0, mean
        self._scores: Scores | None = None

    def __call__(self, W: np.ndarray) -> Evaluation:
        """Return the mean loss, its relative gradient, and the curvatures h, one walk over the rows."""
        mean_of = ScoreSums(*means_of(score_sums, self._rows, W @ self._B0, self._mean))
        # Scores that changed on the way would change the objective, and mislead the line search.
        if self._scores is None:
            self._scores = fit_scores(mean_of)
        a, b = self._scores
        gradient = a[:, None] * mean_of.second + np.einsum("ki,kij->ij", b, mean_of.gradient)
        energy = np.diag(mean_of.second)
        h = np.outer(a + (b * mean_of.curvature).sum(axis=0), energy)
        np.fill_diagonal(h, a * energy + (b * mean_of.diagonal).sum(axis=0))
        value = float((a * energy / 2 + (b * mean_of.size).sum(axis=0)).sum())
        objective = value - np.linalg.slogdet(W).logabsdet
        return Evaluation(objective, gradient - np.eye(len(W)), h)


def means_of(fn: Any, rows: Rows, B: np.ndarray, mean: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the means over rows of what an op sums, of the sources ``B (x - mean)``."""
    B, mean = (np.asarray(a, dtype=rows.dtype) for a in (B, mean))
    total = map_reduce(fn, rows, B, mean)
    return tuple(to_host(value) / rows.n_rows for value in total)


def _quasi_newton(gradient: np.ndarray, h: np.ndarray) -> np.ndarray:
    """Solve ``[[h_ij, 1], [1, h_ji]] (E_ij, E_ji) = (g_ij, g_ji)`` for every pair of components.

    On the diagonal it is ``(h_ii + 1) E_ii = g_ii``. Blocks that are not safely positive are shifted until
    they are.
    """
    least = (h + h.T - np.sqrt((h - h.T) ** 2 + 4)) / 2
    # Two Gaussian sources would have a block with an eigenvalue of 0.
    h = h + np.maximum(0.01 - least, 0)
    E: np.ndarray = (h.T * gradient - gradient.T) / (h * h.T - 1)
    np.fill_diagonal(E, np.diag(gradient) / (np.diag(h) + 1))
    return E


# --- Distributions of sources ---------------------------------------------------------------------
#
# A distribution is fitted by its score, ``ψ = a y + sum_k b_k g_k(y)``, the nearest one to that of the data.
#
# The score of a density p is ``φ = -p'/p``. Integration by parts gives ``E[φ h] = E[h']`` for every h, so
# that the projection of φ on functions h solves ``E[h hᵀ] c = E[h']``: it needs no density (Pham and
# Garat, "Blind separation of mixture of independent sources through a quasi-maximum likelihood approach",
# 1997). As y is among the functions, ``E[ψ y] = 1``, and ``κ = E[ψ'] = E[ψ²] >= 1``, with 1 for a Gaussian
# one: the estimate of a pair of sources has the variance ``κ_i / (κ_i κ_j - 1) / n``, the least that these
# functions allow.


class Scores(NamedTuple):
    """Coefficients of the scores: a of shape (n_components,), b of shape (n_widths, n_components)."""

    linear: np.ndarray
    roots: np.ndarray


def fit_scores(mean_of: ScoreSums) -> Scores:
    """Return the scores nearest to those of sources of unit variance, from means over rows.

    Each is the score of a density: its linear term is not negative, and left out where tails are so heavy
    that it would be. A density with heavy tails has no dip beside its peak either, as a negative wide term
    would make it: that would fit sparse sources best, but its likelihood has many local optima on image
    patches.
    """
    wide_first = np.diagonal(mean_of.gradient[0]) / np.diag(mean_of.second)
    heavy = mean_of.curvature[0] > wide_first  # the criterion of extended infomax
    both = _fit(mean_of, np.array([True, True]))
    narrow = _fit(mean_of, np.array([False, True]))
    dips = heavy & (both.roots[0] < 0)
    return Scores(*(np.where(dips, *pair) for pair in zip(narrow, both, strict=True)))


def _fit(mean_of: ScoreSums, used: np.ndarray) -> Scores:
    """Return the scores with some of the roots, and a linear term that is not negative."""
    products = np.moveaxis(mean_of.products, -1, 0)[:, used][:, :, used]
    # E[g_k y] and E[g_k'], of shape (n_components, n_used)
    with_y = np.diagonal(mean_of.gradient, axis1=1, axis2=2).T[:, used]
    slopes, energy = mean_of.curvature.T[:, used], np.diag(mean_of.second)[:, None]
    # Relative to the products: on a source with two values the functions depend on each other. With 0.03 the
    # error on uniform sources is a fifth larger, with 0.001 nothing is lost.
    ridge = 1e-3 * products * np.eye(used.sum())
    # What is left of the functions once their linear part is taken away.
    rest = products - with_y[:, :, None] * with_y[:, None, :] / energy[..., None] + ridge
    b = np.linalg.solve(rest, (slopes - with_y / energy)[..., None])[..., 0]
    a = (1 - (b * with_y).sum(axis=1)) / energy[:, 0]
    # Without the linear term, and scaled until E[ψ y] = 1.
    bounded = np.linalg.solve(products + ridge, slopes[..., None])[..., 0]
    scale = (bounded * with_y).sum(axis=1)
    # A score that falls at infinity belongs to no density; then the first root alone has to do.
    falls = (scale <= 0) | (bounded.sum(axis=1) <= 0)
    bounded[falls] = np.eye(used.sum())[0]
    scale = np.where(falls, with_y[:, 0], scale)
    roots = np.zeros_like(mean_of.curvature)
    roots[used] = np.where(a[:, None] < 0, bounded / scale[:, None], b).T
    return Scores(np.maximum(a, 0), roots)
