"""The head in the space of features: L-BFGS over sums of margins, preconditioned by a sampled Gram matrix."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import ClassVar

import numpy as np

from clusterica.arrays import map_reduce, map_rows, namespace_of, to_host, worker_pool
from clusterica.arrays._namespace import Array
from clusterica.linear._descent import descend
from clusterica.linear._precondition import SampledGram
from clusterica.linear._solvers import Problem, Solution, Solver, Task
from clusterica.linear._standard import affine, standardised_pull
from clusterica.ops.margin import decisions, margin_sums, winners
from clusterica.optim import ManyLBFGS, Progress, Values

_FEW_NUMBERS = 10**7  # in the rows


class PrimalSolver(Solver):
    """Solves for weights and intercepts, in one array of shape (n_targets, n_features + 1).

    A step is one walk over the rows; see :class:`clusterica.optim.ManyLBFGS`.
    """

    search_tol: ClassVar[float] = 1e-4

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self.n_passes = 0
        self._last: tuple[float, Callable[[Array], Array]] | None = None

    @cached_property
    def gram(self) -> SampledGram:
        """The preconditioner; reads some of the rows once."""
        return SampledGram(self._problem.rows, self._problem.standard)

    def solve(self, task: Task, start: Solution | None, progress: Progress | None) -> Solution:
        """Minimise, from where an earlier solution stands if there is one."""
        rows = self._problem.rows
        task = task._replace(shares=task.shares.astype(rows.dtype))
        if start is None:
            shape = (len(self._problem.targets), rows.n_features + 1)
            params = rows.place(np.zeros(shape))
        else:
            params = start.state
        lbfgs = ManyLBFGS(
            evaluate=partial(self.evaluate, task=task),
            precondition=self._preconditioner(task.C),
            tol=task.tol,
            floor=task.floor,
            noise=4 * float(np.finfo(rows.dtype).eps),
        )
        # One pool for the loop only: in it BLAS runs on one thread a block, and outside on all.
        with worker_pool() as pool:
            if rows.on_host and rows.n_rows * rows.n_features <= _FEW_NUMBERS:
                pool.limit_blas()  # products so small that threads would mostly wait for each other
            end = descend(lbfgs, params, task, progress, float(np.finfo(rows.dtype).eps))
        return Solution(
            state=end.params,
            objective=end.objective,
            gap=end.gap,
            n_iter=end.n_iter,
            converged=bool(end.close.all()),
            stopped=end.stopped,
        )

    def _preconditioner(self, C: float) -> Callable[[Array], Array]:
        """Return that of the last solve if the strength is the same: another fold, or all rows."""
        if self._last is None or self._last[0] != C:
            self._last = None  # its memory is needed
            self._last = (C, self.gram.at(C, intercept=self._problem.intercept))
        return self._last[1]

    def evaluate(self, params: Array, *, task: Task) -> Values:
        """Return the objective of every target, and its gradient, from one walk over the rows."""
        problem = self._problem
        rows, xp = problem.rows, namespace_of(params)
        W, b = params[:, :-1], params[:, -1]
        A, c = affine(problem.standard, W, b, rows.dtype)
        sums = map_reduce(
            partial(margin_sums, hinge=problem.hinge),
            rows,
            A,
            c,
            problem.standard.about,
            problem.targets,
            aligned=(problem.codes, task.shares),
            row_bytes=self._row_bytes(),
        )
        self.n_passes += 1
        loss, pull, lift = (rows.place(s) for s in sums)
        objective = xp.sum(W * W, axis=1) / 2 + task.C * loss
        slopes = W - 2 * task.C * standardised_pull(problem.standard, pull, lift)
        lift = -2 * task.C * lift if problem.intercept else 0 * lift
        return Values(objective, xp.concat([slopes, lift[:, None]], axis=1))

    def classifiers(self, solution: Solution) -> tuple[Array, Array]:
        """Return weights of standardised features, (n_targets, n_features), and intercepts."""
        return solution.state[:, :-1], solution.state[:, -1]

    def predicted(self, solution: Solution) -> np.ndarray:
        """Return the codes of the classes that the solution gives to all rows, on the host."""
        problem = self._problem
        A, c = affine(problem.standard, *self.classifiers(solution), problem.rows.dtype)
        self.n_passes += 1
        codes = map_rows(
            _predicted_codes,
            problem.rows,
            A,
            c,
            problem.standard.about,
            row_bytes=self._row_bytes(),
        )
        return to_host(codes)

    def _row_bytes(self) -> int:
        """Working memory per row: margins, residuals and their kin, and a shifted row."""
        rows = self._problem.rows
        shifted = 0 if self._problem.standard.about is None else rows.row_nbytes
        return 6 * len(self._problem.targets) * rows.dtype.itemsize + shifted


def _predicted_codes(X: Array, A: Array, c: Array, about: Array | None) -> Array:
    return winners(decisions(X, A, c, about))
