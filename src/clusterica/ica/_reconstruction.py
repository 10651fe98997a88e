"""The problem of reconstruction ICA: ``min_W E |WᵀW x - x|² + λ E g(W x) + α E d(W x)``, x about its mean.

Reconstruction and discrimination need second moments only, which are summed once; each step of L-BFGS
walks over the rows for the penalty.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from clusterica.arrays import Rows, map_reduce, to_host
from clusterica.ops.discrimination import Discrimination
from clusterica.ops.penalty import PenaltyFunction
from clusterica.ops.rica import ClassMoments, class_moments, penalty_sums, reconstruction
from clusterica.optim import LBFGS, Evaluation, LoopResult, LoopState, Progress, iterate


class Supervision(NamedTuple):
    """The discrimination term, its weight α, and the sums of x xᵀ over the rows of every class."""

    term: Discrimination
    weight: float
    moments: np.ndarray


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """The objective over some rows.

    Parameters
    ----------
    rows : Rows
        The data.
    mean : ndarray of shape (n_features,)
        Taken from every row.
    covariance : ndarray of shape (n_features, n_features)
        Mean of (x - mean)(x - mean)ᵀ.
    penalty : callable
        The g.
    sparsity : float
        The λ.
    unit_norm : bool
        Whether every basis vector has length one.
    supervision : Supervision, optional
        The part with labels.
    """

    rows: Rows
    mean: np.ndarray
    covariance: np.ndarray
    penalty: PenaltyFunction
    sparsity: float
    unit_norm: bool
    supervision: Supervision | None = None

    def evaluate(self, W: np.ndarray) -> Evaluation:
        """Return the objective, its gradient (tangent to the unit vectors) and the terms, as extra."""
        value, gradient = reconstruction(W, self.covariance)
        terms = {"reconstruction": value}
        if self.sparsity > 0:
            sums = self._penalty(W)
            terms["penalty"] = self.sparsity * float(sums[0])
            gradient += self.sparsity * sums[1]
        if self.supervision is not None:
            term, weight, moments = self.supervision
            value, slope = term.of_moments(W, moments)
            terms["discrimination"] = weight * value / self.rows.n_rows
            gradient += (weight / self.rows.n_rows) * slope
        if self.unit_norm:
            gradient -= (gradient * W).sum(axis=1, keepdims=True) * W
        return Evaluation(sum(terms.values()), gradient, terms)

    def retract(self, W: np.ndarray, move: np.ndarray) -> np.ndarray:
        """Return the basis after a move."""
        W = W + move
        return W / np.linalg.norm(W, axis=1, keepdims=True) if self.unit_norm else W

    def _penalty(self, W: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean penalty of the rows, and its gradient by W."""
        rows = self.rows
        params = (np.asarray(a, dtype=rows.dtype) for a in (W, self.mean))
        fn = partial(penalty_sums, penalty=self.penalty)
        row_bytes = (rows.n_features + 5 * len(W)) * rows.dtype.itemsize
        total = map_reduce(fn, rows, *params, row_bytes=row_bytes)
        value, gradient = (to_host(part) / rows.n_rows for part in total)
        return value, gradient


class Minimum(NamedTuple):
    """Where the loop ended, and every term of the objective at the start and after each step."""

    result: LoopResult
    terms: dict[str, np.ndarray]


def minimize(
    problem: Reconstruction,
    W: np.ndarray,
    *,
    max_iter: int,
    tol: float,
    progress: Progress | None = None,
) -> Minimum:
    """Return the basis that L-BFGS reaches from W; its params are the basis itself."""
    solver = LBFGS(evaluate=problem.evaluate, retract=problem.retract)
    start = solver.start(W)
    seen = [start.evaluation.extra]
    result = iterate(
        solver.step,
        LoopState(0, start, (start.evaluation.objective,)),
        max_iter=max_iter,
        tol=tol,
        progress=progress,
        fitted=lambda position: {"components_": position.params},
        hook=lambda state: seen.append(state.params.evaluation.extra),
    )
    terms = {name: np.array([term[name] for term in seen]) for name in seen[0]}
    return Minimum(result._replace(params=result.params.params), terms)


def moments_by_class(
    rows: Rows, places: np.ndarray, mean: np.ndarray, n_classes: int
) -> np.ndarray:
    """Return the sums of (x - mean)(x - mean)ᵀ over every class, shape (n_classes, n, n)."""
    fn = partial(class_moments, n_classes=n_classes)
    total = map_reduce(fn, rows, mean, aligned=(places,), row_bytes=24 * rows.n_features)
    return to_host(ClassMoments(*total).second)
