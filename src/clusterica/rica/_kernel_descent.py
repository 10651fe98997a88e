"""The objective of kernel RICA over all rows, and three ways to minimise it.

The gradient by w_p is ``c_p w_p - v_p``. Set to zero with c and v as they are, it gives the fixed point
``w_p = v_p / c_p``: the move ``-gradient / c_p``, a descent direction exactly where c_p > 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from clusterica.arrays import (
    Array,
    Rows,
    map_reduce,
    namespace_of,
    one_blas_thread,
    to_host,
    to_like,
)
from clusterica.ops.kernel_rica import Model, kernel_sums, landscape
from clusterica.ops.kernels import gram
from clusterica.ops.linalg import row_lengths
from clusterica.optim import (
    LBFGS,
    Evaluation,
    LoopResult,
    LoopState,
    Progress,
    iterate,
    stored_with,
)

OPTIMIZERS = ("auto", "fixed-point", "lbfgs")


class KernelTerms(NamedTuple):
    """What an evaluation returns besides the gradient: the terms, the c of every basis vector, and the a."""

    terms: dict[str, float]
    scale: np.ndarray
    factor: float


@dataclass(frozen=True, eq=False)
class KernelProblem:
    """The objective over some rows.

    Parameters
    ----------
    rows : Rows
        The data.
    model : Model
        The terms of the objective.
    classes : ndarray of shape (n_rows,), optional
        The index of the class of every row, 0 to c - 1, where the model has a discrimination term.
    """

    rows: Rows
    model: Model
    classes: np.ndarray | None = None

    def evaluate(self, W: Array) -> Evaluation:
        """Return the objective and its gradient by W, float64 and where the blocks are: one walk."""
        rows, model = self.rows, self.model
        xp = namespace_of(W)
        # The basis as the rows see it: rounded to their dtype.
        seen = xp.astype(W, getattr(xp, rows.dtype.name))
        wide = xp.astype(seen, xp.float64)
        G = gram(model.kernel, wide)
        total = map_reduce(
            partial(kernel_sums, model=model),
            rows,
            seen,
            xp.astype(G, seen.dtype),
            aligned=() if self.classes is None else (self.classes,),
        )
        found = landscape(total, wide, G, n_rows=rows.n_rows, model=model)
        # A history for each term: users look at them one by one when codes disappoint.
        terms = {"reconstruction": found.reconstruction, "penalty": found.penalty}
        if model.discrimination is not None:
            terms["discrimination"] = found.discrimination
        gradient = found.pull.gradient(wide)
        extra = KernelTerms(terms, to_host(found.pull.scale), found.factor)
        return Evaluation(found.total, gradient, extra)


class KernelMinimum(NamedTuple):
    """Where it ended, the basis on the host; at the start and after every step the terms, and the c <= 0."""

    result: LoopResult
    terms: dict[str, np.ndarray]
    n_uphill: np.ndarray
    factor: float
    """The a in the end."""


def descend(
    problem: KernelProblem,
    W: np.ndarray,
    *,
    optimizer: str,
    reach: float,
    max_iter: int,
    tol: float,
    progress: Progress | None = None,
    fitted: Callable[[Array], dict[str, Any]] | None = None,
) -> KernelMinimum:
    """Return the basis that is reached from W; the objective never rises on the way.

    Parameters
    ----------
    problem : KernelProblem
        The objective.
    W : ndarray of shape (n_basis, n_features)
        Basis to begin with.
    optimizer : {"auto", "fixed-point", "lbfgs"}
        "fixed-point" moves all basis vectors at once to their fixed points, or down the gradient where c is
        not positive, as far as the objective falls; "auto" goes on by L-BFGS when that slows down.
    reach : float
        Longest move of a basis vector in one step. Where no row is near, the gradient is zero, and a basis
        vector does not come back.
    max_iter, tol, progress
        As in :func:`clusterica.optim.iterate`.
    fitted : callable, optional
        From a basis to fitted attributes, for callbacks.
    """
    # Without a memory L-BFGS is the preconditioned gradient with a line search: the fixed point, made safe.
    by_fixed_point = LBFGS(
        problem.evaluate, precondition=partial(_toward_fixed_point, reach=reach), memory=0
    )
    by_memory = LBFGS(problem.evaluate, longest=reach)
    phases = {
        "fixed-point": [(by_fixed_point, tol)],
        "lbfgs": [(by_memory, tol)],
        # The fixed point is left when a step gains less than a ten-thousandth of the objective.
        "auto": [(by_fixed_point, max(tol, 1e-4)), (by_memory, tol)],
    }[optimizer]
    # Products of matrices of the size of the basis, many times over: threads of BLAS cost more than they gain
    # (CPU time of a fit of 200 basis vectors to the digits on two shared cores: 0.4 of that without).
    with one_blas_thread():
        start = by_memory.start(problem.rows.place.put(W))
        seen: list[KernelTerms] = [start.evaluation.extra]
        result = LoopResult(start, (start.evaluation.objective,), 0, False, False)
        for solver, stop_at in phases:
            # A callback asked to stop in the first phase: the second must not go on.
            if result.stopped:
                break
            result = iterate(
                solver.step,
                # The second phase goes on from the first: one history, one count of iterations, one
                # max_iter.
                LoopState(result.n_iter, result.params, result.history),
                max_iter=max_iter,
                tol=stop_at,
                progress=progress,
                fitted=None if fitted is None else (lambda position: fitted(position.params)),
                hook=lambda state: seen.append(state.params.evaluation.extra),
                stored=stored_with(seen),
            )
    terms = {name: np.array([s.terms[name] for s in seen]) for name in seen[0].terms}
    n_uphill = np.array([int((s.scale <= 0).sum()) for s in seen])
    basis = to_host(result.params.params)
    return KernelMinimum(result._replace(params=basis), terms, n_uphill, seen[-1].factor)


def _toward_fixed_point(gradient: Array, seen: KernelTerms, *, reach: float) -> Array:
    """Return minus the move of every basis vector: gradient / c where c > 0, else a scaled gradient."""
    c = seen.scale
    lengths = to_host(row_lengths(gradient))
    # Only where c > 0 is the fixed point a minimum along w_p, so that the objective falls.
    down = c > 0
    # Without any c to go by, the steepest vector moves as far as one may.
    usual = np.median(c[down]) if down.any() else lengths.max() / reach
    divisor = np.where(down, c, np.maximum(np.abs(c), usual))
    divisor = np.maximum(divisor, lengths / reach)  # no move longer than reach
    return gradient / to_like(np.maximum(divisor, np.finfo(float).tiny), gradient)[:, None]
