"""Newton's method, for few rows or fewer rows than features.

With more features than rows it works on ``w = sum_i a_i z_i``. Where the residuals of the rows A are
positive, the minimum over a and b solves ``(K_AA + diag(1 / (2 C s))) a_A + b = t_A`` and ``sum a = 0``, with
``K = Z Zᵀ`` and a = 0 outside A. The method solves that, sees which residuals are positive now, and ends when
they are the same [1]_. With fewer features, or where K is singular, it solves the same equations for w.

References
----------
.. [1] O. Chapelle, "Training a support vector machine in the primal", 2007.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NamedTuple

import numpy as np

from clusterica.arrays import to_host, worker_pool
from clusterica.arrays._namespace import Array
from clusterica.linear._factor import SingularError
from clusterica.linear._solvers import Problem, Solution, Solver, Task
from clusterica.linear._spaces import FeatureSpace, RowSpace
from clusterica.ops.margin import winners
from clusterica.optim import LoopState, Progress, Step, iterate

Group = tuple[np.ndarray, np.ndarray]  # targets, and the rows that are active for all of them

# Up to here the factors, of a third of the rows or so, are small: a GPU spends more time on starting its
# kernels than the cores of its host need for the work, one core for a class.
_MOST_ROWS_ON_HOST = 5000
_WORTH_THREADS = 10**7  # multiplications of the factors, times three
_FLAT = 0.1  # share of the slope at the start that a step may leave
_MOST_TRIALS = 40  # of lengths of a step


class State(NamedTuple):
    """Coefficients of the weights and intercepts b, with the margins ``Z w + b`` they give.

    ``a`` has the shape (space.size, n_targets): what it means is for the space to say. The shape of b,
    ``objective`` and ``gap`` is (n_targets,), that of the margins (n_rows, n_targets). All are on the host.
    """

    space: RowSpace | FeatureSpace
    a: np.ndarray
    b: np.ndarray
    margins: np.ndarray
    objective: np.ndarray
    gap: np.ndarray


def kernel_bytes(n_rows: int) -> int:
    """Return the memory that the solver takes: K and the factor of a part of it, in float64."""
    return 16 * n_rows * n_rows


class KernelSolver(Solver):
    """Solves for the coefficients of the rows; after two or three walks, the data is not read any more.

    K is made where the rows are, once for all strengths and folds. Up to 5,000 rows it is moved to the
    host and solved with there; only larger ones stay on a device.
    """

    # The gap is that of the point before the last step, and a step of Newton's method leaves far less.
    search_tol: ClassVar[float] = 1e-3

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        rows = problem.rows
        few = rows.n_rows <= _MOST_ROWS_ON_HOST
        place: Callable[[Any], Array] = to_host if few else rows.place
        tall = rows.n_features < rows.n_rows  # then K has no inverse
        self._space = FeatureSpace(problem) if tall else RowSpace(problem, place)
        self._read = 0  # passes of a space before this one
        self._signs = np.where(problem.codes[:, None] == problem.targets, 1.0, -1.0)

    @property
    def n_passes(self) -> int:  # type: ignore[override]
        """How often all rows were read so far."""
        return self._read + self._space.n_passes

    def solve(self, task: Task, start: Solution | None, progress: Progress | None) -> Solution:
        """Minimise, from where an earlier solution stands if there is one."""
        known = start is not None and start.state.space is self._space
        begin = self._measured(start.state if known and start else self._zeros(), task)
        with worker_pool() as pool:
            if self._space.on_host:
                pool.limit_blas()  # factors are small, and there is one for every class to work on
            result = iterate(
                lambda old: self._step(old, task),
                LoopState(0, begin),
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

    def _leave_products(self, task: Task) -> None:
        """Go on with the rows themselves, where their products do not determine the weights."""
        rows = self._problem.rows
        needed = (
            3 * 8 * rows.n_rows * rows.n_features
        )  # Z, a centred part of it, and singular vectors
        if needed > rows.memory:
            raise ValueError(
                f"the products of rows are singular to working precision at C={task.C:.3g} (RidgeClassifier: sum "
                "of weights / (2 alpha)): rows are linearly dependent, or a few features are much larger "
                "than all others. Regularise more, standardize or drop very large features, or allow "
                f"{needed / 2**20:.0f} MiB with clusterica.config_context(memory=...)"
            )
        self._read = self._space.n_passes
        self._space = FeatureSpace(self._problem)

    def classifiers(self, solution: Solution) -> tuple[Array, Array]:
        """Return weights of standardised features, (n_targets, n_features), and intercepts."""
        state = solution.state
        return state.space.weights(state.a), self._problem.rows.place(state.b)

    def predicted(self, solution: Solution) -> np.ndarray:
        """Return the codes of the classes that the solution gives to all rows, on the host."""
        return winners(solution.state.margins)

    def _step(self, old: State, task: Task) -> Step:
        """Solve for the rows whose residual is positive, and go there as far as the objective falls."""
        open_ = np.flatnonzero(old.gap > task.tol)
        active = self._active(old.margins, task)
        try:
            aim = self._aim(old, active, open_, task)
        except SingularError:
            self._leave_products(task)
            return self._step(self._measured(self._zeros(), task), task)
        slope, length = _search(*self._slopes(old, aim, task))
        new = _between(old, aim, length)
        gap, full = np.maximum(-slope / 2, 0) / np.maximum(old.objective, task.floor), length == 1
        # The same rows again: these equations were the right ones, and the minimum is reached.
        same = (self._active(new.margins, task) == active).all(axis=0)
        gap = np.where(old.gap <= task.tol, old.gap, np.where(full & same, 0.0, gap))
        new = new._replace(objective=self._objectives(new, task), gap=gap)
        return Step(new, float(new.objective.sum()), float(np.where(gap > task.tol, gap, 0).max()))

    def _aim(self, old: State, active: np.ndarray, open_: np.ndarray, task: Task) -> State:
        """Return where the equations of the active rows put the open targets; the others stay."""
        a, b, margins = old.a.copy(), old.b.copy(), old.margins.copy()
        for batch in _batches(_groups(active, open_), len(active)):
            for (columns, _), solved in zip(batch, self._all_solved(batch, b, task), strict=True):
                a[:, columns], b[columns] = solved
        margins[:, open_] = self._space.products(a[:, open_]) + b[open_]
        return old._replace(a=a, b=b, margins=margins)

    def _all_solved(
        self, batch: list[Group], b: np.ndarray, task: Task
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        work = sum(len(indices) ** 3 for _, indices in batch)
        if len(batch) == 1 or work < _WORTH_THREADS or not self._space.on_host:
            return [self._solved(*group, b, task) for group in batch]
        with worker_pool() as pool:
            futures = [pool.submit(self._solved, *group, b, task) for group in batch]
            return [future.result() for future in futures]

    def _solved(
        self, columns: np.ndarray, indices: np.ndarray, b: np.ndarray, task: Task
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return coefficients and intercepts for targets that share their active rows."""
        if not len(indices):
            return np.zeros((self._space.size, len(columns))), b[columns]
        signs = self._signs[indices[:, None], columns]
        return self._space.solve(indices, signs, 2 * task.C * task.shares[indices])

    def _slopes(
        self, old: State, aim: State, task: Task
    ) -> tuple[Callable[[np.ndarray], np.ndarray], int]:
        """Return the derivatives of the objectives along the way to the aim, and their number.

        On the way ``|w|²`` is a parabola and the residuals are straight lines, cut off at 0.
        """
        way, pulled = aim.a - old.a, (aim.margins - aim.b) - (old.margins - old.b)
        inner = self._space.inner
        level, bend = inner(old.a, way, pulled), inner(way, way, pulled)
        residual = 1 - self._signs * old.margins
        fall = self._signs * (old.margins - aim.margins)
        weighted = 2 * task.C * task.shares[:, None] * fall

        def slopes(length: np.ndarray) -> np.ndarray:
            by_loss = (weighted * self._cut(residual + length * fall)).sum(axis=0)
            return level + length * bend + by_loss

        return slopes, len(level)

    def _cut(self, residual: np.ndarray) -> np.ndarray:
        return np.maximum(residual, 0) if self._problem.hinge else residual

    def _active(self, margins: np.ndarray, task: Task) -> np.ndarray:
        counted = (task.shares > 0)[:, None]
        if not self._problem.hinge:
            return counted & (margins == margins)
        return counted & (self._signs * margins < 1)

    def _objectives(self, state: State, task: Task) -> np.ndarray:
        squares = self._space.inner(state.a, state.a, state.margins - state.b)
        residual = self._cut(1 - self._signs * state.margins)
        return squares / 2 + task.C * (task.shares @ residual**2)

    def _zeros(self) -> State:
        n, k = self._signs.shape
        a, nothing = np.zeros((self._space.size, k)), np.zeros(k)
        return State(self._space, a, nothing, np.zeros((n, k)), nothing, nothing)

    def _measured(self, state: State, task: Task) -> State:
        """Return the same coefficients with the objective of this task, and a gap not yet known."""
        unknown = np.full(len(self._problem.targets), np.inf)
        return state._replace(objective=self._objectives(state, task), gap=unknown)


def _search(
    slopes: Callable[[np.ndarray], np.ndarray], n_targets: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the slope of every target at the start, and the share of the way that it goes.

    The objectives are convex, so that slopes rise: a target goes all the way if the slope is near zero
    there or still falling, else to where it is near zero, found by halving.
    """
    start = slopes(np.zeros(n_targets))
    flat = _FLAT * np.abs(start)
    length, low, high = np.ones(n_targets), np.zeros(n_targets), np.ones(n_targets)
    slope = slopes(length)
    sought = slope > flat
    for _ in range(_MOST_TRIALS):
        if not sought.any():
            break
        low, high = np.where(slope > 0, low, length), np.where(slope > 0, length, high)
        length = np.where(sought, (low + high) / 2, length)
        slope = slopes(length)
        sought &= np.abs(slope) > flat
    return start, np.where(sought, low, length)


def _between(old: State, aim: State, share: np.ndarray) -> State:
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
