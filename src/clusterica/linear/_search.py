"""The strength of the loss by held-out rows: ``argmax_C accuracy(C)`` on a grid of half decades."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from clusterica.linear._problem import HostArray, Problem, Solution, Solver, Task
from clusterica.optim import Progress


class Search(NamedTuple):
    """The steps of the grid that were tried, in rising order, with their scores, and the best of them."""

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
    n_folds = max(1, min(int(1 / share + 1e-9), int(np.ceil(10_000 / n_out))))
    folds = [np.zeros(len(codes), dtype=bool) for _ in range(n_folds)]
    for code in np.unique(codes):
        members = rng.permutation(np.flatnonzero((codes == code) & (weights > 0)))
        size = min(max(1, round(share * len(members))), len(members) - 1)
        for i, fold in enumerate(folds):
            taken = np.arange(i * size, (i + 1) * size) % max(1, len(members))
            fold[members[taken]] = True
    return [fold for fold in folds if fold.any()]


def climb(
    score: Callable[[list[int]], list[float]], *, n_rows: float, first: int = 0, at_once: int = 1
) -> Search:
    """Return the step with the best score, searched from the first one up and down.

    The search ends when the two steps on either side of the best one are known and not better, and the lowest
    step is worse by more than chance. Upwards scores may stay level for good, once all rows are separated;
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
    return Search(best, tried, np.array([scores[int(s)] for s in tried]))


class HeldOutScores:
    """Accuracies on held-out rows, each solve started from the nearest strength before it.

    ``solutions`` maps a step of the grid to its solutions, fold by fold. A fold is fitted with the same
    strength, the weight of the mean loss: in terms of ``LinearSVC.C``, C times all rows over the rows that
    are fitted.
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

    def scores(self, strengths: dict[int, float]) -> list[float]:
        """Return the scores of these strengths, given with their steps."""
        if any(solution.stopped for tried in self.solutions.values() for solution in tried):
            return [-np.inf] * len(strengths)  # a callback asked to stop: the rest is not tried
        n = len(self._folds)
        tasks: list[Task] = []
        starts: list[Solution | None] = []
        for step, strength in strengths.items():
            near = min(self.solutions, key=lambda s: abs(s - step), default=None)
            starts += [None] * n if near is None else self.solutions[near]
            for out in self._folds:
                kept = np.where(out, 0, self._weights)
                tasks.append(Task(strength, kept / kept.sum(), self._tol, self._max_iter))
        solutions = self._solver.solve_all(tasks, starts, self._progress)
        for i, step in enumerate(strengths):
            self.solutions[step] = solutions[i * n : (i + 1) * n]
        return [self._score(self.solutions[step]) for step in strengths]

    def _score(self, solutions: list[Solution]) -> float:
        """Return the weighted share of held-out rows whose class is predicted, over all folds."""
        right = counted = 0.0
        for out, solution in zip(self._folds, solutions, strict=False):  # fewer where it stopped
            hits = self._solver.predicted(solution)[out] == self._problem.codes[out]
            right += float(self._weights[out] @ hits)
            counted += float(self._weights[out].sum())
        return right / counted
