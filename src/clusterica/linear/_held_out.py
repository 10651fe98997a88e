"""What held-out rows decide: the strength of the loss, ``argmax_C accuracy(C)``, and probabilities.

The strength is searched on a grid of half decades. Probabilities are ``softmax(decisions / T)``, with the
temperature T of the smallest log loss on the held-out rows [1]_ [2]_.

References
----------
.. [1] J. Platt, "Probabilistic outputs for support vector machines", 1999.
.. [2] C. Guo, G. Pleiss, Y. Sun and K. Q. Weinberger, "On calibration of modern neural networks", 2017.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from clusterica.arrays import Array, namespace_of, to_host
from clusterica.linear._problem import HostArray, Problem, Solution, Solver, Task
from clusterica.ops.margin import winners
from clusterica.optim import Progress


class StrengthSearch(NamedTuple):
    """The steps of the grid that were tried, in increasing order, with their scores, and the best of them."""

    best: int
    steps: HostArray
    scores: HostArray

    @property
    def top(self) -> float:
        """The maximum of a parabola through the scores around the best step, at most a step away from it.

        The score of a single step is noisy by some tenths of a percent; a fit through several is less so.
        """
        near = (np.abs(self.steps - self.best) <= 2) & np.isfinite(self.scores)
        away = self.steps[near] - self.best
        if len(away) < 3:
            return float(self.best)
        bend, slope, _ = np.polyfit(away, self.scores[near], 2)
        return (
            self.best + float(np.clip(-slope / (2 * bend), -1, 1)) if bend < 0 else float(self.best)
        )


def held_out(
    codes: HostArray, weights: HostArray, share: float, rng: np.random.Generator
) -> list[HostArray]:
    """Return the rows to hold out, as masks of shape (n_rows,), one for each fold.

    A fold takes a share of every class, at least one row and never all of them. There are as many folds as
    give 10,000 rows together, whose accuracy has a standard error of half a percent, but no more than hold
    out every row once. Rows of weight 0 are not taken.
    """
    n_out = max(1.0, share * np.count_nonzero(weights))
    # 1e-9, so that a share of 0.2 gives 5 folds in spite of rounding.
    n_folds = max(1, min(int(1 / share + 1e-9), int(np.ceil(10_000 / n_out))))
    folds = [np.zeros(len(codes), dtype=bool) for _ in range(n_folds)]
    for code in np.unique(codes):
        members = rng.permutation(np.flatnonzero((codes == code) & (weights > 0)))
        size = min(max(1, round(share * len(members))), len(members) - 1)
        for i, fold in enumerate(folds):
            # Folds take one part after the other, and begin again where a class is small.
            taken = np.arange(i * size, (i + 1) * size) % max(1, len(members))
            fold[members[taken]] = True
    return [fold for fold in folds if fold.any()]


def check_fold(validation: Any, codes: HostArray, weights: HostArray) -> HostArray:
    """Return a given mask of rows to hold out; some must be, and rows of two classes left to fit."""
    mask = np.asarray(to_host(validation))
    if mask.shape != codes.shape or mask.dtype != np.bool_:
        raise ValueError(
            f"validation is an array of {mask.dtype} of shape {mask.shape}; it must be a share of the "
            f"rows, or an array of bool that says which of the {len(codes)} rows to hold out"
        )
    counted = weights > 0
    n_classes = len(np.unique(codes[counted & ~mask]))
    if not (counted & mask).any() or n_classes < 2:
        raise ValueError(
            f"validation holds out {np.count_nonzero(mask)} of {len(mask)} rows and leaves {n_classes} "
            "classes to fit; it must hold out some rows, and leave rows of two classes at least"
        )
    return mask


def climb(
    score: Callable[[list[int]], list[float]], *, n_rows: float, first: int = 0, at_once: int = 1
) -> StrengthSearch:
    """Return the step with the best score, searched from the first one up and down.

    The search ends when the two steps on either side of the best one are known and not better, and the lowest
    step is worse by more than chance. Upwards scores may stay level for ever, once all rows are separated;
    downwards they end, and the best ones may lie behind a level stretch.

    Parameters
    ----------
    score : callable
        From steps of the grid, integers, to their scores. Of equal scores the first one tried wins.
    n_rows : float
        Number of rows that a score is averaged over.
    first : int, default=0
        Where to begin.
    at_once : int, default=1
        How many steps are asked for together.
    """
    patience, last = 2, 12  # steps beyond the best one, and to either side in all: six decades
    scores: dict[int, float] = {}
    best, steps = first, range(first, first + at_once)
    while steps:
        for step, value in zip(steps, score(list(steps)), strict=True):
            scores[step] = value
            best = step if value > scores[best] else best
        low, high = min(scores), max(scores)
        chance = (max(scores[best] * (1 - scores[best]), 0) / n_rows) ** 0.5
        level = scores[low] > scores[best] - chance
        # Both sides, even after a rise: it may be due to a few of the rows held out.
        if high < last and high - best < patience:
            steps = range(high + 1, min(high + at_once, last) + 1)
        elif low > -last and (best - low < patience or level):
            steps = range(low - 1, max(low - at_once, -last) - 1, -1)
        else:
            steps = range(0)
    tried = np.array(sorted(scores))
    return StrengthSearch(best, tried, np.array([scores[int(s)] for s in tried]))


class HeldOutScores:
    """Accuracies on held-out rows, each solve started from the nearest strength before it.

    ``solutions`` maps a step of the grid to its solutions, fold by fold. A fold is fitted with the same
    strength, the weight of the mean loss: in terms of ``LinearSVC.C``, C times all rows over the rows that
    are fitted. ``decisions`` are those of the best step, each row's by a solution that was fitted without it,
    shape (n_rows, n_targets); NaN for rows that no fold holds out.
    """

    def __init__(
        self,
        solver: Solver,
        problem: Problem,
        weights: HostArray,
        folds: list[HostArray],
        tol: float,
        max_iter: int,
        progress: Progress,
    ) -> None:
        self._solver, self._problem, self._weights, self._folds = solver, problem, weights, folds
        self._tol, self._max_iter = max(tol, solver.search_tol), max_iter
        self._progress = progress
        self.solutions: dict[int, list[Solution]] = {}
        self.decisions: HostArray = np.empty((0, 0))
        self._best_score = -np.inf

    def scores(self, strengths: dict[int, float]) -> list[float]:
        """Return the scores of these strengths, given with their steps."""
        if any(solution.stopped for tried in self.solutions.values() for solution in tried):
            return [-np.inf] * len(strengths)  # a callback asked to stop: the rest is not tried
        n = len(self._folds)
        tasks: list[Task] = []
        starts: list[Solution | None] = []
        for step, strength in strengths.items():
            # The nearest strength has the most similar weights: the fewest iterations from there.
            near = min(self.solutions, key=lambda s: abs(s - step), default=None)
            starts += [None] * n if near is None else self.solutions[near]
            for i, out in enumerate(self._folds):
                kept = np.where(out, 0, self._weights)
                tasks.append(Task(strength, kept / kept.sum(), self._tol, self._max_iter, part=i))
        solutions = self._solver.solve_all(tasks, starts, self._progress, show_iterations=False)
        for i, step in enumerate(strengths):
            self.solutions[step] = solutions[i * n : (i + 1) * n]
        scores = []
        for step in strengths:
            # The weighted share of held-out rows whose class is predicted, over all folds.
            right = counted = 0.0
            unseen = np.full((len(self._weights), len(self._problem.targets)), np.nan, np.float32)
            # A search that was stopped has fewer solutions than folds.
            for out, solution in zip(self._folds, self.solutions[step], strict=False):
                found = self._solver.decisions(solution)[out]
                right += float(self._weights[out] @ (winners(found) == self._problem.codes[out]))
                counted += float(self._weights[out].sum())
                unseen[out] = found
            scores.append(right / counted)
            # As in `climb`, of equal scores the first one tried is the best.
            if scores[-1] > self._best_score:
                self._best_score, self.decisions = scores[-1], unseen
        return scores


def every_fifth(codes: HostArray) -> HostArray:
    """Return which rows to hold out: every fifth of each class, from its second on, as a mask of bool.

    A class keeps its first row, so a classifier of the others has rows of every class.

    Parameters
    ----------
    codes : ndarray of int, shape (n_samples,)
        Class of each row, from 0 on.

    Returns
    -------
    is_held : ndarray of bool, shape (n_samples,)

    Examples
    --------
    >>> import numpy as np
    >>> from clusterica.linear import every_fifth
    >>> np.flatnonzero(every_fifth(np.array([0, 1, 0, 1, 2, 0])))
    array([2, 3])
    """
    is_held = np.zeros(len(codes), dtype=bool)
    for code in np.unique(codes):
        is_held[np.flatnonzero(codes == code)[1::5]] = True
    return is_held


def fit_temperature(decisions: Any, codes: Any, *, sample_weight: Any = None) -> float:
    """Return the temperature T at which ``softmax(decisions / T)`` has the smallest log loss.

    For two classes that is the sigmoid of the one decision, divided by T. The order of the classes stays that
    of the decisions, so probabilities agree with predictions.

    Parameters
    ----------
    decisions : array of shape (n_samples,) for two classes, or (n_samples, n_classes)
        Decisions of a classifier on rows that it was not fitted on. Rows with NaN do not count.
    codes : array of int, shape (n_samples,)
        The class of each row: its place in ``classes_``.
    sample_weight : array of shape (n_samples,), optional
        Weight of each row.

    Returns
    -------
    temperature : float
        Positive; large where decisions are uncertain.

    Examples
    --------
    >>> import numpy as np
    >>> from clusterica.linear import fit_temperature, probabilities
    >>> rng = np.random.default_rng(0)
    >>> decisions = rng.normal(size=20_000)
    >>> codes = (rng.random(20_000) < 1 / (1 + np.exp(-decisions / 0.5))).astype(int)
    >>> round(fit_temperature(decisions, codes), 1)
    0.5
    >>> probabilities(np.array([0.0]), 0.5)
    array([[0.5, 0.5]])
    """
    found, codes = (
        _as_scores(np.asarray(to_host(decisions), np.float64)),
        np.asarray(to_host(codes)),
    )
    weights = np.ones(len(codes)) if sample_weight is None else np.asarray(to_host(sample_weight))
    seen = np.isfinite(found).all(axis=1) & (weights > 0)
    n, n_classes = int(seen.sum()), found.shape[1]
    if not n:
        raise ValueError(
            "no row was held out to calibrate probabilities by; give two rows of a class at least"
        )
    if codes.max() >= n_classes:
        raise ValueError(
            f"decisions have {n_classes} columns and there are {codes.max() + 1} classes; give one decision "
            "for each class (for two classes, one in all)"
        )
    found, weights = found[seen], weights[seen] / weights[seen].sum()
    # Where all rows are right, the log loss falls as long as T does. Targets a little below 1 prevent that,
    # as in [1]: as if every class had been seen once more where the decisions say nothing.
    targets = np.full((n, n_classes), 1 / (n + n_classes))
    targets[np.arange(n), codes[seen]] += n / (n + n_classes)
    scale = float(found.std()) or 1.0

    def loss(log_t: float) -> float:
        logs = log_softmax(found / (scale * np.exp(log_t)), axis=1)
        return -float(weights @ (targets * logs).sum(axis=1))

    # The loss is convex in 1 / T, so that it has one minimum in log T as well. Beyond a factor of 1000,
    # probabilities are all equal, or 0 and 1.
    return scale * float(np.exp(minimize_scalar(loss, bounds=(-7, 7), method="bounded").x))


def probabilities(decisions: Array, temperature: float) -> Array:
    """Return ``softmax(decisions / temperature)``, the probabilities of the classes.

    Parameters
    ----------
    decisions : array of shape (n_samples,) for two classes, or (n_samples, n_classes)
        NumPy array or tensor.
    temperature : float
        As :func:`fit_temperature` returns it.

    Returns
    -------
    probabilities : array of shape (n_samples, n_classes)
        In the library and on the device of ``decisions``.
    """
    scores = _as_scores(decisions) / temperature
    xp = namespace_of(scores)
    # Without the largest, so that no exponential overflows.
    scores = xp.exp(scores - xp.max(scores, axis=1, keepdims=True))
    return scores / xp.sum(scores, axis=1, keepdims=True)


def _as_scores(decisions: Array) -> Array:
    """Return decisions with a column for each class; a single decision is that of the second class."""
    if decisions.ndim == 2 and decisions.shape[1] > 1:
        return decisions
    xp = namespace_of(decisions)
    one = xp.reshape(decisions, (-1, 1))
    return xp.concat([xp.zeros_like(one), one], axis=1)
