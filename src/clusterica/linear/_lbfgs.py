"""L-BFGS on all classes at once, ``p_k <- p_k - α_k H_k g_k``; Newton's method in principal coordinates.

Over the rows it is preconditioned by ``M = I + 2C (τ I + Zᵀ Z / m)`` over m sampled rows. The loss bends at
most as much as ``I + 2C G``, where G is the Gram matrix of all rows, and nearly as much in most directions.
A sample gives G up to a floor τ, under which its eigenvalues are noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np

from clusterica.arrays import (
    Array,
    Rows,
    fetched,
    map_reduce,
    map_rows,
    namespace_of,
    one_blas_thread,
    to_host,
)
from clusterica.linear._problem import (
    HostArray,
    Problem,
    Solution,
    Solver,
    Standard,
    Task,
    affine,
    row_products,
    standardised_rows,
    sums_of_rows,
)
from clusterica.ops.linalg import (
    SingularError,
    add_to_diagonal,
    positive_solver,
    solve_positive,
)
from clusterica.ops.margin import decisions, margin_sums
from clusterica.optim import (
    LoopState,
    Losses,
    ManyLBFGS,
    ManyNewton,
    Moves,
    Positions,
    Progress,
    Stored,
    Values,
    iterate,
)

# Objectives of float32 rows stop falling at a gap of some tens of precisions: 64 are 8e-6 in float32, and
# 1.4e-14 in float64.
LAST_DIGITS = 64


class LBFGSSolver(Solver):
    """L-BFGS on weights and intercepts, in one array of shape (n_targets, n_features + 1).

    A step is one pass over the rows; see :class:`clusterica.optim.ManyLBFGS`. A solve begins with the moves
    of the one before on the same rows, whose Hessian was ``D + 2C A`` as well, with another C and nearly the
    same A. A search on 50,000 x 3,200 features of CIFAR-10 takes 91 passes so, and 132 without; on 20,000 of
    these rows, in three folds, 205 and 329.

    Four values of C in the same passes were no faster on an H200: without a start nearby the larger ones need
    more steps than all need one after the other, and 50,000 x 12,800 rows took 1.6 s in place of .8.
    """

    search_tol: ClassVar[float] = 1e-4

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self.n_passes = 0
        self._last: tuple[float, Callable[[Array], Array]] | None = None
        # Of every part of the rows, the latest last: C of its last solve, and the moves.
        self._before: dict[int, tuple[float, Moves]] = {}

    @cached_property
    def gram(self) -> SampledGram:
        """The preconditioner; reads some of the rows once."""
        return SampledGram(self._problem.rows, self._problem.standard)

    def solve(self, task: Task, start: Solution | None, progress: Progress | None) -> Solution:
        """Minimise, from an earlier solution if there is one."""
        rows = self._problem.rows
        eps = float(np.finfo(rows.dtype).eps)
        task = task._replace(shares=task.shares.astype(rows.dtype))
        shape = (len(self._problem.targets), rows.n_features + 1)
        params = rows.place.put(np.zeros(shape)) if start is None else start.state
        # Folds and all rows share the preconditioner of a C.
        if self._last is None or self._last[0] != task.C:
            self._last = None  # free its memory before the next one is made
            self._last = (task.C, self.gram.at(task.C, intercept=self._problem.intercept))
        lbfgs = ManyLBFGS(
            evaluate=partial(self.evaluate, task=task),
            precondition=self._last[1],
            tol=task.tol,
            floor=task.floor,
            # Sums over blocks are in float64, so objectives are off by a few roundings.
            noise=4 * eps,
            # A move takes three arrays of the parameters in float64. Those of the start, of a step and of the
            # next one are there at the same time, and copies on the way.
            memory=max(3, min(10, rows.place.memory // (5 * 24 * math.prod(shape)))),
        )

        def pack(positions: Positions) -> Any:
            if bool(to_host(lbfgs.done(positions)).all()):
                positions = positions._replace(moves=positions.moves.bare())
            return positions, self.n_passes

        def unpack(packed: Any) -> Any:
            params, self.n_passes = packed
            return params

        # Products of ten million numbers or less are so small that threads of BLAS would mostly wait for
        # each other.
        few = rows.place.is_numpy and rows.n_rows * rows.n_features <= 10**7
        with one_blas_thread() if few else nullcontext():
            begin = lbfgs.start(params, self._moves_at(task))
            end, solution = _minimum(lbfgs, begin, task, progress, eps, Stored(pack, unpack))
        self._keep_moves(task, end.moves)
        return solution

    def _moves_at(self, task: Task) -> Moves | None:
        """Return the moves of the solve before, as they would have been at this C."""
        latest = next(reversed(self._before), None)
        part = task.part if task.part in self._before else latest
        if part is None:
            return None
        C, moves = self._before[part]
        if part == task.part:
            del self._before[part]  # and its memory
        # y = D s + 2C A s, where D is 1 for the weights and 0 for the intercept.
        xp = namespace_of(moves.s)
        penalised = xp.concat([moves.s[:, :, :-1], 0 * moves.s[:, :, -1:]], axis=2)
        return moves._replace(y=penalised + task.C / C * (moves.y - penalised))

    def _keep_moves(self, task: Task, moves: Moves) -> None:
        """Keep the moves of a part for its next solve, as far as they fit a quarter of the memory."""
        self._before[task.part] = task.C, moves.bare()
        n_kept = max(1, self._problem.rows.place.memory // (4 * 16 * math.prod(moves.s.shape)))
        for part in list(self._before)[:-n_kept]:
            del self._before[part]

    def evaluate(self, params: Array, *, task: Task) -> Values:
        """Return the objective of every target, and its gradient, from one pass over the rows."""
        problem, standard = self._problem, self._problem.standard
        rows, xp = problem.rows, namespace_of(params)
        W, b = params[:, :-1], params[:, -1]
        sums = map_reduce(
            partial(margin_sums, hinge=problem.hinge),
            rows,
            *affine(standard, W, b, rows.dtype),
            standard.about,
            problem.targets,
            aligned=(problem.codes, task.shares),
        )
        self.n_passes += 1
        loss, pull, lift = (rows.place.put(s) for s in sums)
        objective = xp.sum(W * W, axis=1) / 2 + task.C * loss
        # From sums over x - about to sums over z.
        pull = (pull - lift[:, None] * standard.offset) / standard.scale
        # Without an intercept its gradient is zero, so that it stays where it starts, at 0.
        lift = -2 * task.C * lift if problem.intercept else 0 * lift
        return Values(objective, xp.concat([W - 2 * task.C * pull, lift[:, None]], axis=1))

    def classifiers(self, solution: Solution) -> tuple[Array, Array]:
        """Return weights of standardised features, (n_targets, n_features), and intercepts."""
        return solution.state[:, :-1], solution.state[:, -1]

    def decisions(self, solution: Solution) -> HostArray:
        """Return ``z Wᵀ + b`` of every row, shape (n_rows, n_targets), on the host."""
        standard, rows = self._problem.standard, self._problem.rows
        A, c = affine(standard, *self.classifiers(solution), rows.dtype)
        self.n_passes += 1
        return np.asarray(fetched(map_rows(decisions, rows, A, c, standard.about)))


class PrincipalSolver(Solver):
    """Newton's method in principal coordinates of the rows, for a search over C on a device.

    With ``K = Z Zᵀ = U diag(λ) Uᵀ`` the rows are those of ``P = U diag(√λ)``, rotated: weights v of P with
    ``w = Zᵀ P (v / λ)`` have the same length and the same margins as w. ``Pᵀ P = diag(λ)``, so that the
    curvature of the objective is at most, and nearly, the diagonal ``1 + 2C λ / n``, whichever rows are
    held out, and conjugate gradients need few iterations. Each is two thin products for the targets of
    several C together; the rows are not read. All is in float64; the parameters have the shape
    (n_targets, n_coordinates + 1).

    Raises SingularError where a feature is so much larger than the others that K has no digits for them.
    """

    # At a large C weights change little from one C to the next: at 1e-4 the solves end at once and the scores
    # stay level.
    search_tol: ClassVar[float] = 1e-5
    # On a device a step takes as long for four values of C as for one: it waits for launches.
    strengths_at_once = 4

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        shrink = problem.standard.shrink
        # Below 1e-5 fewer than 6 digits of K are left to the other features.
        if shrink is not None and float(to_host(shrink).min()) < 1e-5:
            raise SingularError
        K, self.n_passes = row_products(problem, problem.rows.place.put)
        xp, n = namespace_of(K), problem.rows.n_rows
        eps = float(np.finfo(np.float64).eps)
        spectrum, U = xp.linalg.eigh(K)
        # Centred or repeated rows span fewer directions than there are rows.
        least = n * eps * float(spectrum[-1])
        first = min(int(xp.sum(xp.astype(spectrum <= least, xp.int64))), n - 1)
        self._spectrum = xp.clip(spectrum[first:], min=max(least, eps))
        # P, and the column of the intercept.
        ends = xp.full_like(U[:, :1], 1.0 if problem.intercept else 0.0)
        self._P = xp.concat([U[:, first:] * self._spectrum**0.5, ends], axis=1)
        signs = np.where(problem.codes == problem.targets[:, None], 1.0, -1.0)
        self._signs = problem.rows.place.put(signs)

    @staticmethod
    def memory(n_rows: int) -> int:
        """Return the bytes that the solver needs: K, its eigenvectors, and twice that to find them."""
        return 32 * n_rows * n_rows

    def solve(self, task: Task, start: Solution | None, progress: Progress | None) -> Solution:
        """Minimise, from an earlier solution if there is one."""
        return self._solve_together([task], [start], progress)[0]

    def solve_all(
        self,
        tasks: list[Task],
        starts: list[Solution | None],
        progress: Progress,
        *,
        show_iterations: bool,
    ) -> list[Solution]:
        """Solve tasks that differ in C and shares together, as many as fit the memory."""
        # A task takes some 16 arrays of float64 with a number for each row and target.
        place, k = self._problem.rows.place, len(self._problem.targets)
        size = max(1, place.memory // (128 * self._problem.rows.n_rows * k))
        solutions: list[Solution] = []
        for i in range(0, len(tasks), size):
            part = progress.subtask("strength", tasks[0].max_iter if show_iterations else 0)
            found = self._solve_together(tasks[i : i + size], starts[i : i + size], part)
            stopped = part.end() or found[0].stopped
            solutions += [s._replace(stopped=stopped) for s in found]
            if stopped:
                break
        return solutions

    def classifiers(self, solution: Solution) -> tuple[Array, Array]:
        """Return weights of standardised features, (n_targets, n_features), and intercepts."""
        v, b = solution.state[:, :-1], solution.state[:, -1]
        self.n_passes += 1
        of_rows = self._P[:, :-1] @ (v / self._spectrum).T
        return sums_of_rows(self._problem, to_host(of_rows)), b

    def decisions(self, solution: Solution) -> HostArray:
        """Return ``z Wᵀ + b`` of every row, shape (n_rows, n_targets), on the host."""
        return np.asarray(to_host(self._P @ solution.state.T))

    def _solve_together(
        self, tasks: list[Task], starts: list[Solution | None], progress: Progress | None
    ) -> list[Solution]:
        """Solve the tasks in the same steps, each from its start if it has one."""
        xp, place = namespace_of(self._P), self._problem.rows.place.put
        k, intercept = len(self._problem.targets), self._problem.intercept
        C = place(np.repeat([float(task.C) for task in tasks], k)[:, None])
        # The shares of the rows are 1 / n on average, in a fold as well.
        inverse_curvature = 1 / (1 + 2 * C / self._problem.rows.n_rows * self._spectrum)
        bend = 1 / (2 * C) if intercept else 0 * C
        penalised = xp.concat([xp.ones_like(self._spectrum), 0 * self._spectrum[:1]])
        eps = float(np.finfo(np.float64).eps)
        newton = ManyNewton(
            rows=self._P,
            penalised=penalised,
            losses=self._losses(tasks),
            precondition=xp.concat([inverse_curvature, bend], axis=1),
            tol=tasks[0].tol,
            floor=place(np.repeat([task.floor for task in tasks], k)),
            noise=4 * eps,
        )
        zeros = place(np.zeros((k, self._spectrum.shape[0] + 1)))
        params = xp.concat([zeros if s is None else s.state for s in starts], axis=0)
        _, all_ = _minimum(newton, newton.start(params), tasks[0], progress, eps)
        parts = [slice(i * k, (i + 1) * k) for i in range(len(tasks))]
        return [
            all_._replace(state=all_.state[p, :], objective=all_.objective[p], gap=all_.gap[p])
            for p in parts
        ]

    def _losses(self, tasks: list[Task]) -> Callable[[Array], Losses]:
        """Return the losses of the margins of the targets of all tasks."""
        xp, place = namespace_of(self._P), self._problem.rows.place.put
        k = self._signs.shape[0]
        weights = place(np.repeat(np.stack([task.C * task.shares for task in tasks]), k, axis=0))
        signs, hinge = xp.concat([self._signs] * len(tasks), axis=0), self._problem.hinge

        def losses(margins: Array) -> Losses:
            short = 1 - signs * margins
            if hinge:
                short = xp.clip(short, min=0)
            pull = weights * short
            bend = 2 * weights * xp.astype(short > 0, weights.dtype) if hinge else 2 * weights
            return Losses(xp.sum(pull * short, axis=-1), -2 * signs * pull, bend)

        return losses


def _minimum(
    method: ManyLBFGS | ManyNewton,
    begin: Any,
    task: Task,
    progress: Progress | None,
    eps: float,
    stored: Stored | None = None,
) -> tuple[Any, Solution]:
    """Step until no objective can fall further, or the steps of the task are used up.

    Returns the positions of the method at the end, and the solution.
    """
    done = bool(namespace_of(begin.params).all(method.done(begin)))
    loop = LoopState(0, begin, converged=done)
    result = iterate(
        method.step, loop, max_iter=task.max_iter, tol=0.0, progress=progress, stored=stored
    )
    end: Any = result.params
    gap, ended = to_host(end.gap), to_host(method.done(end))
    # Where no move lowers the objective any more, all the digits of the dtype are used up.
    close = (gap <= task.tol) | (ended & (gap <= LAST_DIGITS * eps))
    return end, Solution(
        state=end.params,
        objective=to_host(end.objective),
        gap=gap,
        n_iter=result.n_iter,
        converged=bool(close.all()),
        stopped=result.stopped,
    )


class SampledGram:
    """The preconditioners of all C, from one sample of the rows.

    With more sampled rows than features, the d x d matrix M is factored; with fewer, one of the m x m
    products of the sample, by Woodbury's identity. Features much larger than all others are scaled down
    first.

    Parameters
    ----------
    rows : Rows
        The data.
    standard : Standard
        How its features are standardised.
    fewest : int, default=4096
        Rows to sample at least: few enough to cost little, enough for a thousand directions.
    chunk : int, default=1024
        Rows that are standardised at a time.
    """

    def __init__(
        self, rows: Rows, standard: Standard, *, fewest: int = 4096, chunk: int = 1024
    ) -> None:
        self._rows, self._standard = rows, standard
        d, budget = rows.n_features, rows.place.memory // rows.dtype.itemsize
        # A factor of m³ should cost about two passes over n x d; and more than 1.5 rows a feature hardly
        # save a pass.
        worth = (200 * rows.n_rows * d) ** (1 / 3)
        m = min(rows.n_rows, max(fewest, int(min(worth, 1.5 * d))))
        # Memory for a matrix and its factor; or for the sample, its products, and their factor.
        self.by_features = m >= d and 2 * d * d <= budget
        if not self.by_features:
            most = int((d * d / 16 + budget / 2) ** 0.5 - d / 4)
            m = max(1, min(m, most))
        # The result does not depend on the sample, so no random_state is needed.
        self._indices = np.sort(np.random.default_rng(0).permutation(rows.n_rows)[:m])
        self.n_sampled, self._chunk = m, chunk

    def at(self, C: float, *, intercept: bool) -> Callable[[Array], Array]:
        """Return ``G -> M⁻¹ G`` for gradients of shape (n_targets, n_features + 1) at this C."""
        # M and the gradient are both divided by 1 + 2C, so no C is too large or too small for float32:
        # M / (1 + 2C) = a I + b Zᵀ Z / m.
        a, b = (1 + 2 * C * self.floor) / (1 + 2 * C), 2 * C / (1 + 2 * C)
        if self.by_features:
            solve = positive_solver(add_to_diagonal(b * self._gram, a))

            def apply(W: Array) -> Array:
                return solve(W.T).T
        else:
            # (a I + b Zᵀ Z)⁻¹ = (I - b Zᵀ (a I + b Z Zᵀ)⁻¹ Z) / a
            Z, b = self._sample, b / self.n_sampled
            solve = positive_solver(add_to_diagonal(b * self._products, a))

            def apply(W: Array) -> Array:
                return (W - b * (solve(Z @ W.T).T @ Z)) / a

        bend = 1 / (2 * C) if intercept else 0.0
        shrink = self._standard.shrink

        def precondition(G: Array) -> Array:
            xp = namespace_of(G)
            W = G[:, :-1] / (1 + 2 * C)
            W = xp.astype(W if shrink is None else W * shrink, getattr(xp, self._rows.dtype.name))
            W = xp.astype(apply(W), G.dtype)
            W = W if shrink is None else W * shrink
            return xp.concat([W, bend * G[:, -1:]], axis=1)

        return precondition

    @cached_property
    def floor(self) -> float:
        """The floor τ: half of what a quarter of the sample leaves unexplained, per row of that quarter."""
        matrix, m = self._gram if self.by_features else self._products, self.n_sampled
        trace = float(namespace_of(matrix).linalg.trace(matrix))
        energy = (trace if self.by_features else trace / m) or 1.0
        least = 4 * float(np.finfo(self._rows.dtype).eps) * energy  # the factor needs that much
        k = min(m // 4, self._rows.n_features)
        tested = min(256, m - k)  # rows that show how much the quarter leaves unexplained
        if m == self._rows.n_rows or k < 1:
            return least
        # Rows of one class may lie together: the two parts are drawn, not cut.
        rng = np.random.default_rng(1)
        drawn = self._standardised(np.sort(rng.permutation(self._indices)[: k + tested]))
        order = self._rows.place.put(rng.permutation(k + tested))
        drawn = namespace_of(drawn).take(drawn, order, axis=0)
        Z, T = drawn[:k, :], drawn[k:, :]
        xp = namespace_of(Z)
        cross = Z @ T.T
        explained = cross * solve_positive(add_to_diagonal(Z @ Z.T, 4 * k * least), cross)
        left = xp.sum(T * T, axis=1) - xp.sum(explained, axis=0)
        return max(least, 0.5 * float(xp.mean(left)) / k)

    @cached_property
    def _gram(self) -> Array:
        # A source without random access is read once, not once a chunk.
        size = self._chunk if self._rows.indexable else self.n_sampled
        total: Array = 0
        for start in range(0, self.n_sampled, size):
            Z = self._standardised(self._indices[start : start + size])
            if start and isinstance(total, np.ndarray):
                total += Z.T @ Z  # in place: it may be large
            else:
                total = total + Z.T @ Z if start else Z.T @ Z
        return total / self.n_sampled

    @cached_property
    def _sample(self) -> Array:
        return self._standardised(self._indices)

    @cached_property
    def _products(self) -> Array:
        return self._sample @ self._sample.T

    def _standardised(self, indices: HostArray) -> Array:
        Z = standardised_rows(self._rows, self._standard, indices, self._rows.dtype)
        if self._standard.shrink is None:
            return Z
        return Z * namespace_of(Z).astype(self._standard.shrink, Z.dtype)
