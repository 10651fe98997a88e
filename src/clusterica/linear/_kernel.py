"""The head in the space of rows, for fewer rows than features: Newton's method on ``w = sum_i a_i z_i``.

Where the residuals of the rows A are positive, the minimum over a and b solves
``(K_AA + diag(1 / (2 C s))) a_A + b = t_A`` and ``sum a = 0``, with ``K = Z Zᵀ`` and a = 0 outside A. The
method solves that, sees which residuals are positive now, and ends when they are the same [1]_.

References
----------
.. [1] O. Chapelle, "Training a support vector machine in the primal", 2007.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from clusterica.arrays import map_reduce, map_rows, namespace_of, to_host, worker_pool
from clusterica.arrays._namespace import Array
from clusterica.linear._factor import add_to_diagonal, positive_solver
from clusterica.linear._solvers import Problem, Solution, Task
from clusterica.linear._standard import standardised_pull, standardised_rows
from clusterica.ops.margin import weighted_rows, winners
from clusterica.optim import LoopState, Progress, Step, iterate

Group = tuple[np.ndarray, np.ndarray]  # targets, and the rows that are active for all of them

_PANEL = 512  # columns of K at a time
_WORTH_THREADS = 10**9  # multiplications of the factors, times three
_HALVINGS = 40  # of the way to the next aim


class Duals(NamedTuple):
    """Coefficients a of the rows and intercepts b, with the margins ``K a + b`` they give.

    Shapes (n_rows, n_targets), (n_targets,) and (n_rows, n_targets). ``objective`` and ``gap``, of shape
    (n_targets,), are those of the coefficients.
    """

    a: Array
    b: Array
    margins: Array
    objective: np.ndarray
    gap: np.ndarray


def kernel_bytes(n_rows: int) -> int:
    """Return the memory that the solver takes: K and the factor of a part of it, in float64."""
    return 16 * n_rows * n_rows


class KernelSolver:
    """Solves for the coefficients of the rows; after two or three walks, the data is not read any more."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self.n_passes = 0
        self._K = self._products()
        self._signs = problem.rows.place(self._signs_of(slice(None), slice(None)))

    def solve(self, task: Task, start: Solution | None, progress: Progress | None) -> Solution:
        """Minimise, from where an earlier solution stands if there is one."""
        duals = self._from_zero(task) if start is None else self._measured(start.state, task)
        loop = LoopState(0, duals)
        with worker_pool() as pool:
            if self._problem.rows.on_host:
                pool.limit_blas()  # factors are small, and there is one for every class to work on
            result = iterate(
                lambda old: self._step(old, task),
                loop,
                max_iter=task.max_iter,
                tol=0.0,
                progress=progress,
            )
        end = result.params
        return Solution(
            end,
            end.objective,
            end.gap,
            result.n_iter,
            bool((end.gap <= task.tol).all()),
            result.stopped,
        )

    def classifiers(self, solution: Solution) -> tuple[Array, Array]:
        """Return weights of standardised features, (n_targets, n_features), and intercepts."""
        problem, duals = self._problem, solution.state
        rows, about = problem.rows, problem.standard.about
        a = np.ascontiguousarray(to_host(duals.a), dtype=rows.dtype)
        row_bytes = 0 if about is None else rows.row_nbytes
        sums = map_reduce(weighted_rows, rows, about, aligned=(a,), row_bytes=row_bytes)
        self.n_passes += 1
        pull, lift = (rows.place(s) for s in sums)
        return standardised_pull(problem.standard, pull, lift), duals.b

    def predicted(self, solution: Solution) -> np.ndarray:
        """Return the codes of the classes that the solution gives to all rows, on the host."""
        return to_host(winners(solution.state.margins))

    def _step(self, old: Duals, task: Task) -> Step:
        """Solve for the rows whose residual is positive, and go there as far as the objective falls."""
        open_ = np.flatnonzero(old.gap > task.tol)
        active = to_host(self._active(old.margins, task))
        a, b = np.array(to_host(old.a)), np.array(to_host(old.b))
        for batch in _batches(_groups(active, open_), len(active)):
            for (columns, indices), rest in zip(
                batch, self._all_at_rest(batch, b, task), strict=True
            ):
                a[:, columns] = 0
                a[indices[:, None], columns], b[columns] = rest
        aim = self._with_margins(a, b)
        slope, length = self._search(old, aim, task)
        new = _between(old, aim, self._problem.rows.place(length))
        gap, full = -slope / 2 / old.objective, length == 1
        # The same rows again: these equations were the right ones, and the minimum is reached.
        same = (to_host(self._active(new.margins, task)) == active).all(axis=0)
        gap = np.where(old.gap <= task.tol, old.gap, np.where(full & same, 0.0, gap))
        new = new._replace(objective=self._objectives(new, task), gap=gap)
        return Step(new, float(new.objective.sum()), float(np.where(gap > task.tol, gap, 0).max()))

    def _all_at_rest(
        self, batch: list[Group], b: np.ndarray, task: Task
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        work = sum(len(indices) ** 3 for _, indices in batch)
        if len(batch) == 1 or work < _WORTH_THREADS or not self._problem.rows.on_host:
            return [self._at_rest(*group, b, task) for group in batch]
        with worker_pool() as pool:
            futures = [pool.submit(self._at_rest, *group, b, task) for group in batch]
            return [future.result() for future in futures]

    def _at_rest(
        self, columns: np.ndarray, indices: np.ndarray, b: np.ndarray, task: Task
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return coefficients of the active rows and intercepts, for targets that share the rows."""
        if not len(indices):
            return np.zeros((0, len(columns))), b[columns]
        place, picked = self._problem.rows.place, self._problem.rows.place(indices)
        xp = namespace_of(self._K)
        ridge = place(1 / (2 * task.C * task.shares[indices].astype(np.float64)))
        M = xp.take(xp.take(self._K, picked, axis=0), picked, axis=1)
        solve = positive_solver(add_to_diagonal(M, ridge))
        signs = self._signs_of(indices, columns)
        ones = np.ones((len(indices), 1))
        solved = to_host(solve(place(np.concatenate([signs, ones], axis=1))))
        by_signs, by_ones = solved[:, :-1], solved[:, -1:]
        if not self._problem.intercept:
            return by_signs, np.zeros(len(columns))
        lift = by_signs.sum(axis=0) / by_ones.sum()
        return by_signs - by_ones * lift, lift

    def _search(self, old: Duals, aim: Duals, task: Task) -> tuple[np.ndarray, np.ndarray]:
        """Return the slope towards the aim at the start, and the share of the way that is gone."""
        slope = self._slopes(old, aim, 0.0 * old.objective, task)
        end = self._slopes(old, aim, 0.0 * old.objective + 1, task)
        # Convex, so that the slope rises: go all the way if it ends near zero, else to where it does.
        overshot = end > 0.1 * np.abs(slope)
        low, high = np.zeros_like(slope), np.ones_like(slope)
        for _ in range(_HALVINGS if overshot.any() else 0):
            middle = (low + high) / 2
            rising = self._slopes(old, aim, middle, task) > 0
            low, high = np.where(rising, low, middle), np.where(rising, middle, high)
        return slope, np.where(overshot, low, 1.0)

    def _slopes(self, old: Duals, aim: Duals, length: np.ndarray, task: Task) -> np.ndarray:
        """Return the derivative of every objective along the way to the aim."""
        xp = namespace_of(old.a)
        at = _between(old, aim, self._problem.rows.place(length))
        pulled = at.a - 2 * task.C * self._weighted_residuals(at.margins, task)
        way = aim.margins - old.margins
        by_weights = xp.sum(pulled * (way - (aim.b - old.b)), axis=0)
        by_intercept = (aim.b - old.b) * xp.sum(pulled - at.a, axis=0)
        return to_host(by_weights + by_intercept)

    def _weighted_residuals(self, margins: Array, task: Task) -> Array:
        """Return ``s t r``, shape (n_rows, n_targets)."""
        xp = namespace_of(margins)
        shares = xp.astype(self._problem.rows.place(task.shares), xp.float64)
        residual = 1 - self._signs * margins
        if self._problem.hinge:
            residual = xp.clip(residual, min=0)
        return residual * self._signs * shares[:, None]

    def _active(self, margins: Array, task: Task) -> Array:
        counted = self._problem.rows.place(task.shares > 0)[:, None]
        if not self._problem.hinge:
            return counted & (margins == margins)
        return counted & (self._signs * margins < 1)

    def _objectives(self, duals: Duals, task: Task) -> np.ndarray:
        xp = namespace_of(duals.a)
        squares = xp.sum(duals.a * (duals.margins - duals.b), axis=0)
        shares = xp.astype(self._problem.rows.place(task.shares), xp.float64)
        residual = 1 - self._signs * duals.margins
        if self._problem.hinge:
            residual = xp.clip(residual, min=0)
        return to_host(squares / 2 + task.C * xp.sum(shares[:, None] * residual**2, axis=0))

    def _from_zero(self, task: Task) -> Duals:
        n, k = self._problem.rows.n_rows, len(self._problem.targets)
        return self._measured(self._with_margins(np.zeros((n, k)), np.zeros(k)), task)

    def _measured(self, duals: Duals, task: Task) -> Duals:
        """Return the same coefficients with the objective of this task, and a gap not yet known."""
        unknown = np.full(len(self._problem.targets), np.inf)
        return duals._replace(objective=self._objectives(duals, task), gap=unknown)

    def _with_margins(self, a: np.ndarray, b: np.ndarray) -> Duals:
        coefficients, intercepts = self._problem.rows.place(a), self._problem.rows.place(b)
        margins = self._K @ coefficients + intercepts
        return Duals(coefficients, intercepts, margins, np.empty(0), np.empty(0))

    def _products(self) -> Array:
        """Return K in float64, from one walk for every panel of its columns."""
        problem = self._problem
        rows, n = problem.rows, problem.rows.n_rows
        mean, scale = problem.standard.mean, problem.standard.scale
        K = rows.place(np.empty((n, n)))
        for start in range(0, n, _PANEL):
            indices = np.arange(start, min(start + _PANEL, n))
            Z = standardised_rows(rows, problem.standard, indices, np.dtype(np.float64))
            row_bytes = 2 * 8 * rows.n_features + 8 * len(indices)
            panel = map_rows(_products_of_block, rows, mean, scale, Z, row_bytes=row_bytes)
            K[:, start : start + len(indices)] = rows.place(panel)
            self.n_passes += 1
        return K

    def _signs_of(self, rows: Any, columns: Any) -> np.ndarray:
        """Return t for some rows and targets, on the host."""
        same = self._problem.codes[rows, None] == self._problem.targets[columns]
        return np.where(same, 1.0, -1.0)


def _products_of_block(X: Array, mean: Array, scale: Array, Z: Array) -> Array:
    xp = namespace_of(X)
    return ((xp.astype(X, xp.float64) - mean) / scale) @ Z.T


def _between(old: Duals, aim: Duals, share: Array) -> Duals:
    """Return the duals a share of the way from one to the other, for every target its own."""
    a = old.a + share * (aim.a - old.a)
    b = old.b + share * (aim.b - old.b)
    return old._replace(a=a, b=b, margins=old.margins + share * (aim.margins - old.margins))


def _groups(active: np.ndarray, open_: np.ndarray) -> list[Group]:
    """Return targets that share their active rows, with those rows: they need one factor."""
    groups: dict[bytes, list[int]] = {}
    for k in open_:
        groups.setdefault(active[:, k].tobytes(), []).append(int(k))
    return [(np.array(g), np.flatnonzero(active[:, g[0]])) for g in groups.values()]


def _batches(groups: list[Group], n_rows: int) -> Iterator[list[Group]]:
    """Yield groups whose factors together take no more memory than one of all rows."""
    batch: list[Group] = []
    taken = 0
    for group in groups:
        size = len(group[1]) ** 2
        if batch and taken + size > n_rows**2:
            yield batch
            batch, taken = [], 0
        batch.append(group)
        taken += size
    if batch:
        yield batch
