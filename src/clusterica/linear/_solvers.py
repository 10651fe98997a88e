"""What the solvers of a linear head have in common: the problem, and the form of a solution.

A head minimises, for every target class, ``0.5 |w|² + C sum_i s_i r_i²`` over w and the intercept, where
``r = 1 - t (z w + b)``, cut off at 0 for the hinge, and the shares s of the rows add up to one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from clusterica.arrays import Rows
from clusterica.arrays._namespace import Array
from clusterica.linear._standard import Standard
from clusterica.optim import Progress


@dataclass(frozen=True)
class Problem:
    """Rows with the codes of their classes, and the loss that a head is to minimise over them."""

    rows: Rows
    codes: np.ndarray
    targets: np.ndarray
    standard: Standard
    hinge: bool
    intercept: bool


class Task(NamedTuple):
    """One solve: strength C of the loss, shares of the rows in float64, and when to stop."""

    C: float
    shares: np.ndarray
    tol: float
    max_iter: int

    @property
    def floor(self) -> float:
        """An objective that is all but zero, beside that of weights of zero.

        A class without a row of positive share has a minimum of zero, relative to which no gap is small.
        """
        return 1e-6 * self.C * float(self.shares.sum())


class Solution(NamedTuple):
    """Where a solver ended; ``state`` is its own, to start the next solve from.

    ``gap`` is the decrease of each target's objective that is still promised, relative to it.
    """

    state: Any
    objective: np.ndarray
    gap: np.ndarray
    n_iter: int
    converged: bool
    stopped: bool = False


class Solver(ABC):
    """Solves a problem for different strengths and shares, one after the other.

    ``search_tol`` is the gap at which a solve is good enough to tell strengths apart by their held-out
    score; ``strengths_at_once`` is how many of them a search had better give it together; ``n_passes``
    says how often all rows were read so far.
    """

    search_tol: ClassVar[float]
    strengths_at_once: int = 1
    n_passes: int

    @abstractmethod
    def solve(self, task: Task, start: Solution | None, progress: Progress | None) -> Solution:
        """Minimise, from where an earlier solution stands if there is one."""

    def solve_all(
        self, tasks: list[Task], starts: list[Solution | None], progress: Progress
    ) -> list[Solution]:
        """Solve tasks that differ in their strengths and shares, as parts of the progress.

        One after the other: a task without a start begins where the last one ended, and none begins
        after a callback has asked to stop.
        """
        solutions: list[Solution] = []
        for task, start in zip(tasks, starts, strict=True):
            part = progress.subtask("strength", task.max_iter)
            begin = solutions[-1] if start is None and solutions else start
            solution = self.solve(task, begin, part)
            stopped = part.end() or solution.stopped
            solutions.append(solution._replace(stopped=stopped))
            if stopped:
                break
        return solutions

    @abstractmethod
    def classifiers(self, solution: Solution) -> tuple[Array, Array]:
        """Return weights of standardised features, (n_targets, n_features), and intercepts."""

    @abstractmethod
    def predicted(self, solution: Solution) -> np.ndarray:
        """Return the codes of the classes that the solution gives to all rows, on the host."""
