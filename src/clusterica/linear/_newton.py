"""Newton's method, for few rows: solve for the rows with a positive residual until they stay the same.

Where the residuals of the rows A are positive, the minimum over w and b is that of a ridge regression on
these rows. The method solves it, sees which residuals are positive now, and ends when these are the same
rows [1]_. With fewer rows than features it works in the dual: ``w = sum_i a_i z_i``, and ``(K_AA + diag(1 /
(2 C s))) a_A + b = t_A`` with ``K = Z Zᵀ``, ``sum a = 0``, and a = 0 outside A.

:class:`RowEquations` needs only the Gram matrix K: fast where rows are fewer than features. But K has the
squared condition number of Z: where rows are linearly dependent and the penalty is weak, the coefficients a
cancel and w is noise. :class:`FeatureEquations` keeps Z in memory and solves for w itself, if necessary by
its singular values.

References
----------
.. [1] O. Chapelle, "Training a support vector machine in the primal", 2007.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any, ClassVar, NamedTuple

import numpy as np

from clusterica.arrays import Array, in_order, namespace_of, one_blas_thread, to_host
from clusterica.linear._problem import (
    HostArray,
    Problem,
    Solution,
    Solver,
    Task,
    row_products,
    standardised_rows,
    sums_of_rows,
)
from clusterica.ops import linalg
from clusterica.ops.linalg import SingularError, add_to_diagonal
from clusterica.optim import LoopState, Progress, Step, Stored, iterate

Group = tuple[HostArray, HostArray]  # targets, and the rows that are active for all of them


class State(NamedTuple):
    """Coefficients of the weights and intercepts b, with their margins ``Z w + b``, all on the host.

    ``a`` has the shape (equations.size, n_targets): coefficients of the rows, or the weights w themselves. b,
    ``objective`` and ``gap`` have the shape (n_targets,), the margins (n_rows, n_targets).
    """

    equations: RowEquations | FeatureEquations
    a: HostArray
    b: HostArray
    margins: HostArray
    objective: HostArray
    gap: HostArray


class NewtonSolver(Solver):
    """Newton's method on all targets; after two or three passes, the rows are not read any more.

    The Gram matrix K is computed where the rows are, once for all C and folds. Up to 5,000 rows it is moved
    to the host: its factors, of a third of the rows or so, are small, and a GPU spends more time on
    starting kernels than the cores of its host need for the work, one core for a class.
    """

    # The gap is that of the point before the last step, and a Newton step leaves a much smaller one.
    search_tol: ClassVar[float] = 1e-3
    most_rows_on_host: ClassVar[int] = 5000

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        rows = problem.rows
        few = rows.n_rows <= self.most_rows_on_host
        place: Callable[[Any], Array] = to_host if few else rows.place.put
        # With fewer features than rows K has no inverse.
        tall = rows.n_features < rows.n_rows
        self._equations = FeatureEquations(problem) if tall else RowEquations(problem, place)
        self._earlier_passes = 0  # of equations that were given up
        self._signs = np.where(problem.codes[:, None] == problem.targets, 1.0, -1.0)

    @staticmethod
    def memory(n_rows: int) -> int:
        """Return the bytes that the solver needs: K and the factor of a part of it, in float64."""
        return 16 * n_rows * n_rows

    @property
    def n_passes(self) -> int:  # type: ignore[override]
        """Passes over all rows so far."""
        return self._earlier_passes + self._equations.n_passes

    def solve(self, task: Task, start: Solution | None, progress: Progress | None) -> Solution:
        """Minimise, from an earlier solution if there is one."""
        known = start is not None and start.state.equations is self._equations
        begin = self._measured(start.state if known and start else None, task)

        def pack(state: State) -> Any:
            # The equations are made again from the rows.
            return state._replace(equations=None), self._earlier_passes > 0  # type: ignore[arg-type]

        def unpack(packed: Any) -> State:
            state, gave_up = packed
            if gave_up and self._earlier_passes == 0:
                self._keep_rows(task)
            return State(*state)._replace(equations=self._equations)

        # Factors are small, and there is one for every class to work on.
        with one_blas_thread() if self._equations.on_host else nullcontext():
            result = iterate(
                lambda old: self._step(old, task),
                LoopState(0, begin),
                max_iter=task.max_iter,
                tol=0.0,
                progress=progress,
                stored=Stored(pack, unpack),
            )
        end = result.params
        converged = bool((end.gap <= task.tol).all())
        return Solution(end, end.objective, end.gap, result.n_iter, converged, result.stopped)

    def classifiers(self, solution: Solution) -> tuple[Array, Array]:
        """Return weights of standardised features, (n_targets, n_features), and intercepts."""
        state = solution.state
        return state.equations.weights(state.a), self._problem.rows.place.put(state.b)

    def decisions(self, solution: Solution) -> HostArray:
        """Return ``z Wᵀ + b`` of every row, shape (n_rows, n_targets), on the host."""
        return np.asarray(solution.state.margins)

    def _step(self, old: State, task: Task) -> Step:
        """Solve for the rows whose residual is positive, and go there as far as the objective falls."""
        open_ = np.flatnonzero(old.gap > task.tol)
        active = self._active(old.margins, task)
        try:
            aim = self._aim(old, active, open_, task)
        except SingularError:
            # Start again from zero, with equations that can be solved.
            self._keep_rows(task)
            return self._step(self._measured(None, task), task)
        # On the way to the aim ``|w|²`` is a parabola, and residuals are straight lines, cut off at 0.
        way, pulled = aim.a - old.a, (aim.margins - aim.b) - (old.margins - old.b)
        inner = self._equations.inner
        level, bend = inner(old.a, way, pulled), inner(way, way, pulled)
        residual = 1 - self._signs * old.margins
        fall = self._signs * (old.margins - aim.margins)
        weighted = 2 * task.C * task.shares[:, None] * fall

        def slopes(length: HostArray) -> Array:
            by_loss = (weighted * self._cut(residual + length * fall)).sum(axis=0)
            return level + length * bend + by_loss

        slope, length = _line_search(slopes, len(level))
        new = old._replace(
            a=old.a + length * (aim.a - old.a),
            b=old.b + length * (aim.b - old.b),
            margins=old.margins + length * (aim.margins - old.margins),
        )
        gap, full = np.maximum(-slope / 2, 0) / np.maximum(old.objective, task.floor), length == 1
        # The same rows again: these equations were the right ones, and the minimum is reached.
        same = (self._active(new.margins, task) == active).all(axis=0)
        gap = np.where(old.gap <= task.tol, old.gap, np.where(full & same, 0.0, gap))
        new = new._replace(objective=self._objectives(new, task), gap=gap)
        return Step(new, float(new.objective.sum()), float(np.where(gap > task.tol, gap, 0).max()))

    def _keep_rows(self, task: Task) -> None:
        """Go on with the rows themselves, where their Gram matrix does not determine the weights."""
        rows = self._problem.rows
        # Z, a centred part of it, and singular vectors
        needed = 3 * 8 * rows.n_rows * rows.n_features
        if needed > rows.place.memory:
            raise ValueError(
                "the Gram matrix of the rows is singular to working precision at C times the sum of all "
                f"weights = {task.C:.3g} (RidgeClassifier: that sum / (2 alpha)): rows are linearly "
                "dependent, or a few features are much larger than all others. Regularise more, standardize "
                f"or drop very large features, or allow {needed / 2**20:.0f} MiB with "
                "clusterica.config_context(memory=...)"
            )
        self._earlier_passes = self._equations.n_passes
        self._equations = FeatureEquations(self._problem)

    def _aim(self, old: State, active: HostArray, open_: HostArray, task: Task) -> State:
        """Return the solution of the equations of the active rows for the open targets; the others stay."""
        a, b, margins = old.a.copy(), old.b.copy(), old.margins.copy()
        for batch in _batches(active, open_):
            # Threads pay off from about 3 million multiplications a factor: n³ / 3.
            work = sum(len(indices) ** 3 for _, indices in batch)
            if len(batch) > 1 and work >= 10**7 and self._equations.on_host:
                results = list(in_order(self._solved, ((*group, b, task) for group in batch)))
            else:
                results = [self._solved(*group, b, task) for group in batch]
            for (columns, _), solved in zip(batch, results, strict=True):
                a[:, columns], b[columns] = solved
        margins[:, open_] = self._equations.products(a[:, open_]) + b[open_]
        return old._replace(a=a, b=b, margins=margins)

    def _solved(
        self, columns: HostArray, indices: HostArray, b: HostArray, task: Task
    ) -> tuple[HostArray, HostArray]:
        """Return coefficients and intercepts for targets that share their active rows."""
        if not len(indices):
            return np.zeros((self._equations.size, len(columns))), b[columns]
        signs = self._signs[indices[:, None], columns]
        return self._equations.solve(indices, signs, 2 * task.C * task.shares[indices])

    def _cut(self, residual: HostArray) -> HostArray:
        return np.maximum(residual, 0) if self._problem.hinge else residual

    def _active(self, margins: HostArray, task: Task) -> HostArray:
        counted = (task.shares > 0)[:, None]
        if not self._problem.hinge:
            return np.broadcast_to(counted, margins.shape)
        return counted & (self._signs * margins < 1)

    def _objectives(self, state: State, task: Task) -> Array:
        squares = self._equations.inner(state.a, state.a, state.margins - state.b)
        residual = self._cut(1 - self._signs * state.margins)
        return squares / 2 + task.C * (task.shares @ residual**2)

    def _measured(self, state: State | None, task: Task) -> State:
        """Return the coefficients of a state, or zeros, with the objective of this task and no gap yet."""
        n, k = self._signs.shape
        if state is None:
            a, zeros = np.zeros((self._equations.size, k)), np.zeros(k)
            state = State(self._equations, a, zeros, np.zeros((n, k)), zeros, zeros)
        unknown = np.full(k, np.inf)
        return state._replace(objective=self._objectives(state, task), gap=unknown)


def _line_search(
    slopes: Callable[[HostArray], HostArray], n_targets: int
) -> tuple[HostArray, HostArray]:
    """Return the slope of every target at the start, and the share of the way to go.

    The objectives are convex, so slopes rise: a target goes all the way if the slope there is near zero or
    still negative, otherwise to where it is near zero, found by bisection.
    """
    start = slopes(np.zeros(n_targets))
    # A tenth of the first slope is near zero: the next Newton step gains more than a longer search.
    flat = 0.1 * np.abs(start)
    length, low, high = np.ones(n_targets), np.zeros(n_targets), np.ones(n_targets)
    slope = slopes(length)
    sought = slope > flat
    for _ in range(40):  # after which low and high differ by rounding
        if not sought.any():
            break
        low, high = np.where(slope > 0, low, length), np.where(slope > 0, length, high)
        length = np.where(sought, (low + high) / 2, length)
        slope = slopes(length)
        sought &= np.abs(slope) > flat
    return start, np.where(sought, low, length)


def _batches(active: HostArray, open_: HostArray) -> Iterator[list[Group]]:
    """Group open targets that share their active rows, since one factor serves them all, and yield batches.

    The factors of a batch together take no more memory than one of all rows.
    """
    groups: dict[bytes, list[int]] = {}
    # Bytes of a mask can be a key.
    for k in open_:
        groups.setdefault(active[:, k].tobytes(), []).append(int(k))
    batch: list[Group] = []
    taken = 0
    for targets in groups.values():
        indices = np.flatnonzero(active[:, targets[0]])
        if batch and taken + len(indices) ** 2 > len(active) ** 2:
            yield batch
            batch, taken = [], 0
        batch.append((np.array(targets), indices))
        taken += len(indices) ** 2
    if batch:
        yield batch


class RowEquations:
    """Solves for the coefficients a of the rows, with the Gram matrix K where ``place`` puts it."""

    # Inverse condition number below which a factor of K is not used: w keeps about 5 digits. The remedy,
    # solving for w itself, needs memory for all rows in float64.
    least = 1e-11

    def __init__(self, problem: Problem, place: Callable[[Any], Array]) -> None:
        self._problem, self._place = problem, place
        self.K, self.n_passes = row_products(problem, place)
        self.size = problem.rows.n_rows
        self.on_host = isinstance(self.K, np.ndarray)

    def products(self, a: HostArray) -> Array:
        """Return ``Z w`` of shape (n_rows, n_targets), on the host."""
        return to_host(self.K @ self._place(np.ascontiguousarray(a)))

    def inner(self, a: HostArray, other: HostArray, products: HostArray) -> Array:
        """Return ``w · w'`` for every target, where ``products`` is ``Z w'``."""
        return (a * products).sum(axis=0)

    def solve(
        self, indices: HostArray, signs: HostArray, strengths: HostArray
    ) -> tuple[HostArray, HostArray]:
        """Return coefficients and intercepts at the minimum over the rows at these indices.

        Parameters
        ----------
        indices : ndarray of shape (n,)
            The rows.
        signs : ndarray of shape (n, n_targets)
            Their targets t.
        strengths : ndarray of shape (n,)
            Weights p of their squares.

        Raises
        ------
        SingularError
            The factor of K would have too few correct digits.
        """
        a = np.zeros((self.size, signs.shape[1]))
        a[indices], b = _by_products(
            self.K, self._place, indices, signs, strengths, self._problem.intercept, self.least
        )
        return a, b

    def weights(self, a: HostArray) -> Array:
        """Return w of shape (n_targets, n_features), from one pass over the rows."""
        self.n_passes += 1
        return sums_of_rows(self._problem, a)


class FeatureEquations:
    """Solves for the weights w, with the standardised rows Z in float64 on the host."""

    on_host = True

    def __init__(self, problem: Problem) -> None:
        rows = problem.rows
        Z = standardised_rows(rows, problem.standard, np.arange(rows.n_rows), np.dtype(np.float64))
        self._Z, self._intercept, self._place = to_host(Z), problem.intercept, rows.place.put
        self._K = self._Z @ self._Z.T if rows.n_rows > rows.n_features else None
        self.n_passes = 1
        self.size = rows.n_features

    def products(self, w: HostArray) -> Array:
        """Return ``Z w`` of shape (n_rows, n_targets), on the host."""
        return self._Z @ w

    def inner(self, w: HostArray, other: HostArray, products: HostArray) -> Array:
        """Return ``w · w'`` for every target."""
        return (w * other).sum(axis=0)

    def solve(
        self, indices: HostArray, signs: HostArray, strengths: HostArray
    ) -> tuple[HostArray, HostArray]:
        """Return weights and intercepts at the minimum over some rows; see :meth:`RowEquations.solve`."""
        Z, root = self._Z[indices], np.sqrt(strengths)[:, None]
        # Up to 1.5 rows a feature K is factored sooner than the Gram matrix of features: a search on 450 x
        # 400 rows of 10 classes took four times as long without. Z is here anyway, so 8 digits are asked
        # for.
        if self._K is not None and len(indices) < 1.5 * self.size:
            try:
                a, b = _by_products(
                    self._K, to_host, indices, signs, strengths, self._intercept, 1e-8
                )
                return Z.T @ a, b
            except SingularError:
                pass
        if not self._intercept:
            return linalg.solve_ridge(root * Z, root * signs), np.zeros(signs.shape[1])
        # At the minimum b is the weighted mean of t - w z.
        mean = np.average(Z, axis=0, weights=strengths)
        level = np.average(signs, axis=0, weights=strengths)
        w = linalg.solve_ridge(root * (Z - mean), root * (signs - level))
        return w, level - mean @ w

    def weights(self, w: HostArray) -> Array:
        """Return w of shape (n_targets, n_features), where the rows are."""
        return self._place(np.ascontiguousarray(w.T))


def _by_products(
    K: Array,
    place: Callable[[Any], Array],
    indices: HostArray,
    signs: HostArray,
    strengths: HostArray,
    intercept: bool,
    least: float,
) -> tuple[HostArray, HostArray]:
    """Return coefficients of the rows at the indices, and intercepts; see :meth:`RowEquations.solve`."""
    xp, picked = namespace_of(K), place(indices)
    # With b = 0, or sum a = 0: (I + R K R) (a / R) = R (t - b). In this form the penalty is 1 for every row.
    R = np.sqrt(strengths)[:, None]
    M = xp.take(xp.take(K, picked, axis=0), picked, axis=1)
    if intercept:
        # Adds 0 to the equations, as sum a = 0, and makes M regular along the direction that centring
        # removes.
        M += float(xp.linalg.trace(M)) / len(indices)
    placed, sides = place(R), place(np.concatenate([R * signs, R], axis=1))
    if isinstance(M, np.ndarray):
        M *= R
        M *= R.T
        solved = R * linalg.checked_solver(add_to_diagonal(M, 1.0), least)(sides)
    else:
        M = add_to_diagonal(M * placed * placed.T, 1.0)
        try:
            solved = R * to_host(linalg.solve_positive(M, sides))
        except Exception as error:  # every library of arrays has its own LinAlgError
            if "LinAlgError" not in type(error).__name__:
                raise
            raise SingularError from error
    by_signs, by_ones = solved[:, :-1], solved[:, -1:]
    if not intercept:
        return by_signs, np.zeros(signs.shape[1])
    b = by_signs.sum(axis=0) / by_ones.sum()
    return by_signs - by_ones * b, b
