"""Restarts: the best of several runs from different starts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

from clusterica.optim._progress import Progress

R = TypeVar("R")


def best_of(
    run: Callable[[Progress], R],
    n_init: int,
    *,
    objective: Callable[[R], float],
    n_subtasks: int,
    progress: Progress,
) -> R:
    """Run n_init times and keep the result with the largest objective (the first of equals).

    Parameters
    ----------
    run : callable
        Takes the progress task of a start and returns a result.
    n_init : int
        Number of starts. A callback may stop after any of them.
    objective : callable
        From a result to the number that is maximised.
    n_subtasks : int
        Maximum number of subtasks of a start, for the progress bar.
    progress : Progress
        Task of the fit; every start is a subtask of it.
    """
    best, most = None, -math.inf
    for _ in range(n_init):
        task = progress.subtask("start", n_subtasks)
        result = run(task)
        value = objective(result) if n_init > 1 else 0.0  # it may cost a pass over the data
        if best is None or value > most or math.isnan(most):
            best, most = result, value
        if task.end():
            break
    assert best is not None
    return best
