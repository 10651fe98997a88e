"""The strength of a head, chosen on held-out rows: a climb along a grid of strengths, half a decade apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

_PATIENCE = 2  # strengths on either side of the best one that must be known before the climb ends
_MOST_STEPS = 12  # to either side: six decades
_ENOUGH = 10_000  # rows held out, over all folds, that tell strengths apart


class Search(NamedTuple):
    """The steps of the grid that were tried, in rising order, with their scores, and the best of them."""

    best: int
    steps: np.ndarray
    scores: np.ndarray

    @property
    def top(self) -> float:
        """The top of a parabola through the scores around the best step, at most a step away from it.

        The score of a single step is a matter of chance to some tenths of a percent; several are less.
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
    codes: np.ndarray, weights: np.ndarray, share: float, rng: np.random.Generator
) -> list[np.ndarray]:
    """Return the rows to hold out, as masks of shape (n_rows,), one for each fold.

    A fold takes a share of every class, at least one row and never all of them. There are as many
    folds as give 10,000 rows together, but no more than hold out every row once. Rows without weight
    are not taken.
    """
    n_out = max(1.0, share * np.count_nonzero(weights))
    n_folds = max(1, min(int(1 / share + 1e-9), int(np.ceil(_ENOUGH / n_out))))
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
    """Return the step with the best score, found by walking from the first one up and down.

    The walk ends when the scores of the two steps on either side of the best one are known and not
    better, and the lowest step is worse by more than chance. Upwards scores may stay level for good, once
    every row is told apart; downwards they come to an end, and the best ones may lie behind a level stretch.

    Parameters
    ----------
    score : callable
        From steps of the grid, integers, to their scores. Of equal scores the first one tried wins.
    n_rows : float
        Number of rows that a score is a share of.
    first : int, default=0
        Where to begin.
    at_once : int, default=1
        How many steps are asked for together.
    """
    scores: dict[int, float] = {}
    best, steps = first, range(first, first + at_once)
    while steps:
        for step, value in zip(steps, score(list(steps)), strict=True):
            scores[step] = value
            best = step if value > scores[best] else best
        low, high = min(scores), max(scores)
        chance = (max(scores[best] * (1 - scores[best]), 0) / n_rows) ** 0.5
        level = scores[low] > scores[best] - chance
        # Both sides, even after a rise: a rise of a few rows held out is a matter of chance.
        if high < _MOST_STEPS and high - best < _PATIENCE:
            steps = range(high + 1, min(high + at_once, _MOST_STEPS) + 1)
        elif low > -_MOST_STEPS and (best - low < _PATIENCE or level):
            steps = range(low - 1, max(low - at_once, -_MOST_STEPS) - 1, -1)
        else:
            steps = range(0)
    tried = np.array(sorted(scores))
    return Search(best, tried, np.array([scores[int(s)] for s in tried]))
