"""Maximum likelihood ICA from a good start: minimise ``-log|det W| + sum_j E G(y_j)`` over ``y = W B0 x``.

Relative moves ``W <- (I + E) W`` make the second derivative almost block-diagonal, with a block
``[[h_ij, 1], [1, h_ji]]`` for every pair of components, ``h_ij = E[G''(y_i)] E[y_j²]``. It is exact where
the sources are independent, so that near the answer a few quasi-Newton steps suffice; L-BFGS corrects
it on data that no independent sources explain.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy import stats

from clusterica.arrays import Rows, map_reduce, to_host
from clusterica.ica._laws import Laws, fit_laws
from clusterica.ops.contrast import Contrast, Derivatives
from clusterica.ops.likelihood import LikelihoodSums, likelihood_sums
from clusterica.ops.score import ScoreSums, score_sums
from clusterica.optim import LBFGS, Evaluation, LoopResult, LoopState, Progress, iterate

# Least eigenvalue of a block of the second derivative: two Gaussian sources would have 0.
_LEAST_CURVATURE = 0.01
# Scales of a source at which a contrast is tried, and the quantiles of a normal variable.
_SCALES, _LEVELS = np.logspace(-4, 4, 81), (np.arange(1000) + 0.5) / 1000
# Filters that grow or shrink by this factor run away.
_RUN_AWAY = 1e8
# The last step may move the parameters by a tenth of their sampling error.
_SHARE_OF_SAMPLING_VARIANCE = 0.01


def check_density(contrast: Contrast) -> None:
    """Refuse a contrast G for which ``e^{-G}`` is no density, so that the likelihood has no maximum.

    At the best scale of a source y, ``E[y G'(y)] = 1``; a bounded G never gets there, and the longer the
    filters, the larger the likelihood. It is tried on normal sources of many scales.
    """
    y = _SCALES[:, None] * stats.norm.ppf(_LEVELS)
    with np.errstate(all="ignore"):  # at the largest scales
        reached = np.mean(y * Derivatives(*contrast(y)).first, axis=1)
    if np.nanmax(reached) < 1:
        raise ValueError(
            f"refine={contrast!r} can't be used: e^-G is no density where G stays bounded, and the "
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
        Minus the log-density of all sources, with derivatives. None fits a law of its own to every source of
        the start.
    max_iter : int
        Maximum number of iterations.
    progress : Progress, optional
        Task of which the steps are parts.
    """
    evaluate: Callable[[np.ndarray], Evaluation] = _LikelihoodOfLaws(rows, B0, mean)
    if contrast is not None:
        evaluate = partial(_evaluate, rows=rows, B0=B0, mean=mean, contrast=contrast)
    solver = LBFGS(
        evaluate=evaluate,
        retract=lambda W, E: W + E @ W,
        precondition=_quasi_newton,
        size=len,  # the squared length of the identity, which a relative move is compared with
    )
    start = solver.start(np.eye(B0.shape[0]))
    state = LoopState(0, start, (start.evaluation.objective,))
    # An entry of W has a sampling variance of about 1 / 4n where sources are far from Gaussian, more
    # where not.
    tol = _SHARE_OF_SAMPLING_VARIANCE * len(B0) / (4 * rows.n_rows)
    result = iterate(solver.step, state, max_iter=max_iter, tol=tol, progress=progress)
    B = result.params.params @ B0
    growth = np.linalg.norm(B) / np.linalg.norm(B0)
    if not 1 / _RUN_AWAY < growth < _RUN_AWAY:  # nor is NaN
        raise ValueError(
            f"the likelihood of {contrast!r} has no maximum on this data, and the filters ran away; check "
            "that e^-G is a density, or use SmoothedLaplace() or LogCosh()"
        )
    return result._replace(params=B)


def _evaluate(
    W: np.ndarray, *, rows: Rows, B0: np.ndarray, mean: np.ndarray, contrast: Contrast
) -> Evaluation:
    """Return the mean loss, its relative gradient, and the curvatures h, one walk over the rows."""
    fn = partial(likelihood_sums, contrast=contrast)
    mean_of = LikelihoodSums(*means_of(fn, rows, W @ B0, mean))
    h = np.outer(mean_of.curvature, mean_of.energy)
    np.fill_diagonal(h, mean_of.diagonal)
    objective = float(mean_of.value) - np.linalg.slogdet(W).logabsdet
    return Evaluation(objective, mean_of.gradient - np.eye(len(W)), h)


class _LikelihoodOfLaws:
    """The mean loss with a law for every source, fitted at the first evaluation and kept from then on."""

    def __init__(self, rows: Rows, B0: np.ndarray, mean: np.ndarray) -> None:
        self._rows, self._B0, self._mean = rows, B0, mean
        self._laws: Laws | None = None

    def __call__(self, W: np.ndarray) -> Evaluation:
        """Return the mean loss, its relative gradient, and the curvatures h, one walk over the rows."""
        mean_of = ScoreSums(*means_of(score_sums, self._rows, W @ self._B0, self._mean))
        if self._laws is None:
            self._laws = fit_laws(mean_of)
        a, b = self._laws
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
    row_bytes = (rows.n_features + 7 * len(B)) * rows.dtype.itemsize
    total = map_reduce(fn, rows, B, mean, row_bytes=row_bytes)
    return tuple(to_host(value) / rows.n_rows for value in total)


def _quasi_newton(gradient: np.ndarray, h: np.ndarray) -> np.ndarray:
    """Solve ``[[h_ij, 1], [1, h_ji]] (E_ij, E_ji) = (g_ij, g_ji)`` for every pair of components.

    On the diagonal it is ``(h_ii + 1) E_ii = g_ii``. Blocks that are not safely positive are shifted until
    they are.
    """
    least = (h + h.T - np.sqrt((h - h.T) ** 2 + 4)) / 2
    h = h + np.maximum(_LEAST_CURVATURE - least, 0)
    E = (h.T * gradient - gradient.T) / (h * h.T - 1)
    np.fill_diagonal(E, np.diag(gradient) / (np.diag(h) + 1))
    return E
