"""The head in principal coordinates of the rows, for a search over strengths on few rows.

With ``K = Z Zᵀ = U diag(λ) Uᵀ`` the rows are those of ``P = U diag(√λ)``, turned: weights v of P with
``w = Zᵀ P (v / λ)`` have the same length and the same margins as w. ``Pᵀ P = diag(λ)``, so that the curvature
of the objective is at most, and nearly, the diagonal ``1 + 2 C λ / n``, whichever rows are held out.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar

import numpy as np
import scipy.linalg

from clusterica.arrays import namespace_of, to_host, worker_pool
from clusterica.arrays._namespace import Array
from clusterica.linear._descent import descend
from clusterica.linear._factor import SingularError
from clusterica.linear._products import row_products, sums_of_rows
from clusterica.linear._solvers import Problem, Solution, Solver, Task
from clusterica.ops.margin import winners
from clusterica.optim import ManyLBFGS, Progress, Values

_EPS = float(np.finfo(np.float64).eps)
_STRENGTHS_ON_DEVICE = (
    4  # a step there takes as long for all of them as for one, which the launches take
)

_LOST = 1e-5  # a feature whose factor is less leaves less than 6 digits of K to the others


def principal_bytes(n_rows: int) -> int:
    """Return the memory that the solver takes: K, its eigenvectors and as much to find them, in float64."""
    return 32 * n_rows * n_rows


class PrincipalSolver(Solver):
    """Solves for v and the intercept, in one array of shape (n_targets, n_coordinates + 1), in float64.

    The eigenvectors of K cost as much as some solves by Newton's method. After them, a step is two thin
    products, for the targets of all folds together, and no solve reads the data.

    Raises SingularError where a feature is so much larger than the others that K says nothing about them.
    """

    # Classes that a strong loss tells apart move little from one strength to the next: 1e-4 mistakes that
    # for the end, and scores come out level.
    search_tol: ClassVar[float] = 1e-5

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        shrink = problem.standard.shrink
        if shrink is not None and float(to_host(shrink).min()) < _LOST:
            raise SingularError
        with worker_pool():
            K, self.n_passes = row_products(problem, problem.rows.place)
        # Outside of the pool, where BLAS runs on all threads.
        self._P, self._spectrum = _principal(K)
        if not isinstance(self._P, np.ndarray):
            self.strengths_at_once = _STRENGTHS_ON_DEVICE
        signs = np.where(problem.codes == problem.targets[:, None], 1.0, -1.0)
        self._signs = problem.rows.place(signs)

    def solve(self, task: Task, start: Solution | None, progress: Progress | None) -> Solution:
        """Minimise, from where an earlier solution stands if there is one."""
        return self._solve_together([task], [start], progress)[0]

    def solve_all(
        self, tasks: list[Task], starts: list[Solution | None], progress: Progress
    ) -> list[Solution]:
        """Solve tasks that differ in their strengths and shares together, as one part of the progress."""
        part = progress.subtask("strength", tasks[0].max_iter)
        solutions = self._solve_together(tasks, starts, part)
        stopped = part.end()
        return [s._replace(stopped=s.stopped or stopped) for s in solutions]

    def classifiers(self, solution: Solution) -> tuple[Array, Array]:
        """Return weights of standardised features, (n_targets, n_features), and intercepts."""
        v, b = solution.state[:, :-1], solution.state[:, -1]
        self.n_passes += 1
        return sums_of_rows(self._problem, to_host(self._P @ (v / self._spectrum).T)), b

    def predicted(self, solution: Solution) -> np.ndarray:
        """Return the codes of the classes that the solution gives to all rows, on the host."""
        v, b = solution.state[:, :-1], solution.state[:, -1]
        return to_host(winners(self._P @ v.T + b))

    def _solve_together(
        self, tasks: list[Task], starts: list[Solution | None], progress: Progress | None
    ) -> list[Solution]:
        xp, task, k = namespace_of(self._P), tasks[0], len(self._problem.targets)
        lbfgs = ManyLBFGS(
            evaluate=self._evaluator(tasks),
            precondition=partial(xp.multiply, self._inverse_curvature(tasks)),
            tol=task.tol,
            floor=task.floor,
            noise=4 * _EPS,
        )
        zeros = self._problem.rows.place(np.zeros((k, self._spectrum.shape[0] + 1)))
        params = xp.concat([zeros if s is None else s.state for s in starts], axis=0)
        end = descend(lbfgs, params, task, progress, _EPS)
        parts = [slice(i * k, (i + 1) * k) for i in range(len(tasks))]
        return [
            Solution(
                state=end.params[part, :],
                objective=end.objective[part],
                gap=end.gap[part],
                n_iter=end.n_iter,
                converged=bool(end.close[part].all()),
                stopped=end.stopped,
            )
            for part in parts
        ]

    def _evaluator(self, tasks: list[Task]) -> Callable[[Array], Values]:
        """Return the objectives and gradients of the targets of all tasks, as a function of v and b."""
        P, hinge = self._P, self._problem.hinge
        xp, place, k = namespace_of(P), self._problem.rows.place, len(self._problem.targets)
        weights = np.stack([task.C * task.shares for task in tasks])
        weights = place(np.repeat(weights, k, axis=0))
        signs = xp.concat([self._signs] * len(tasks), axis=0)
        pull = -2 * weights * signs
        bend = 1.0 if self._problem.intercept else 0.0

        def evaluate(params: Array) -> Values:
            v, b = params[:, :-1], params[:, -1:]
            residual = 1 - signs * (v @ P.T + b)
            residual = xp.clip(residual, min=0) if hinge else residual
            pulled = pull * residual
            objective = xp.sum(v * v, axis=1) / 2 + xp.sum(weights * residual**2, axis=1)
            lift = bend * xp.sum(pulled, axis=1, keepdims=True)
            return Values(objective, xp.concat([v + pulled @ P, lift], axis=1))

        return evaluate

    def _inverse_curvature(self, tasks: list[Task]) -> Array:
        """Return the preconditioner. The shares are 1 / n on average, of the rows of a fold as well."""
        xp, k = namespace_of(self._P), len(self._problem.targets)
        C = self._problem.rows.place(np.repeat([float(task.C) for task in tasks], k)[:, None])
        weights = 1 / (1 + 2 * C / self._problem.rows.n_rows * self._spectrum)
        lift = 1 / (2 * C)
        return xp.concat([weights, lift if self._problem.intercept else 0 * lift], axis=1)


def _principal(K: Array) -> tuple[Array, Array]:
    """Return rows with the products K, overwritten on the host, and their sums of squares by columns."""
    xp = namespace_of(K)
    if xp is np:
        # Fortran order, as LAPACK wants it, so that no copy is made.
        spectrum, U = scipy.linalg.eigh(K.T, overwrite_a=True, driver="evd", check_finite=False)
    else:
        spectrum, U = xp.linalg.eigh(K)
    # Rows that are centred, or repeated, span fewer directions than there are rows.
    n = K.shape[0]
    least = n * _EPS * float(spectrum[-1])
    first = min(int(xp.sum(xp.astype(spectrum <= least, xp.int64))), n - 1)
    spectrum, U = xp.clip(spectrum[first:], min=max(least, _EPS)), U[:, first:]
    if xp is np:
        U *= spectrum**0.5
        return U, spectrum
    return U * spectrum**0.5, spectrum
