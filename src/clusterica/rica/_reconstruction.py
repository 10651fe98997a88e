"""The problem of reconstruction ICA: ``min_W E |WᵀW x / t - x|² + λ E g(W x) + α E d(W x)``, x centred.

Reconstruction and discrimination need second moments only, which are summed once; each step of L-BFGS
walks over the rows for the penalty.

Basis vectors of length one need care on two sides. More of them than the n directions in which the data
varies have WᵀW = t I there at best, with t = K / n; with WᵀW in place of WᵀW / t the error would be least
where most of them point to where the data varies least, out of the way. And they are kept out of directions
in which the data does not vary at all, where they would cost nothing and have no information.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from clusterica.arrays import Array, Rows, map_reduce, namespace_of, to_host
from clusterica.ops.discrimination import Discrimination
from clusterica.ops.linalg import row_energies, unit_rows
from clusterica.ops.penalty import PenaltyFunction
from clusterica.ops.rica import penalty_sums, reconstruction
from clusterica.optim import (
    LBFGS,
    Evaluation,
    LoopResult,
    LoopState,
    Progress,
    iterate,
    stored_with,
)


class Supervision(NamedTuple):
    """The discrimination term, its weight α, and the sums of x xᵀ over the rows of every class."""

    term: Discrimination
    weight: float
    moments: Array


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """The objective over some rows; all arrays are float64, and lie where the rows are worked on.

    Parameters
    ----------
    rows : Rows
        The data.
    mean : array of shape (n_features,)
        Taken from every row.
    covariance : array of shape (n_features, n_features)
        Mean of (x - mean)(x - mean)ᵀ.
    penalty : callable
        The g.
    sparsity : float
        The λ.
    unit_norm : bool
        Whether every basis vector has length one.
    null : array of shape (n, n_features)
        Orthonormal directions that unit vectors are kept out of.
    supervision : Supervision, optional
        The part with labels.
    tight : bool, default=True
        Whether t is K / n for more unit vectors than the n directions in which the data varies; else it is 1.
    """

    rows: Rows
    mean: Array
    covariance: Array
    penalty: PenaltyFunction
    sparsity: float
    unit_norm: bool
    null: Array
    supervision: Supervision | None = None
    tight: bool = True

    def evaluate(self, W: Array) -> Evaluation:
        """Return the objective, its gradient (tangent to the unit vectors) and the terms, as extra."""
        xp, rows = namespace_of(W), self.rows
        tightness = 1.0
        if self.unit_norm and self.tight:
            # n counts the directions in which the data varies.
            tightness = max(1.0, float(W.shape[0] / (W.shape[1] - self.null.shape[0])))
        # E |WᵀW x / t - x|² depends on the rows by their covariance alone: no walk.
        value, gradient = reconstruction(W, self.covariance, tightness)
        terms = {"reconstruction": value, "penalty": 0.0}
        if self.sparsity > 0:  # the only term that needs a walk over the rows
            # Codes of float32 rows are float32; their sums are float64 again.
            params = (xp.astype(a, getattr(xp, rows.dtype.name)) for a in (W, self.mean))
            sums = map_reduce(partial(penalty_sums, penalty=self.penalty), rows, *params)
            weight = self.sparsity / rows.n_rows
            terms["penalty"] = weight * float(sums.value)
            gradient = gradient + weight * sums.gradient
        if self.supervision is not None:
            # d is a quadratic form of the codes W x, so that second moments by class are enough.
            term, weight, moments = self.supervision
            value, slope = term.of_moments(W, moments)
            terms["discrimination"] = weight * value / rows.n_rows
            gradient = gradient + (weight / rows.n_rows) * slope
        if self.unit_norm:
            # Along the tangents of the sphere only: L-BFGS must not learn from moves that retract undoes.
            gradient = self._within(gradient)
            gradient = gradient - xp.sum(gradient * W, axis=1, keepdims=True) * W
        return Evaluation(sum(terms.values()), gradient, terms)

    def retract(self, W: Array, move: Array) -> Array:
        """Return the basis after a move."""
        return unit_rows(self._within(W + move), W) if self.unit_norm else W + move

    def start(self, W: np.ndarray) -> Array:
        """Return the basis to begin with, for one that was drawn or given."""
        W = self.rows.place.put(W)
        if not self.unit_norm:
            return W
        # A direction outside stays as it is: projected, it would be rounding scaled up to unit length.
        return unit_rows(namespace_of(W).where(self.outside(W)[:, None], W, self._within(W)))

    def outside(self, W: Array) -> Array:
        """Return which rows are, up to rounding, directions in which the data does not vary."""
        # Energies are squares: this is a length of about 1e-8 of that of the row.
        return row_energies(self._within(W)) <= float(np.finfo(np.float64).eps) * row_energies(W)

    def _within(self, V: Array) -> Array:
        """Return rows without their part along which the data does not vary."""
        return V - (V @ self.null.T) @ self.null if self.null.shape[0] else V


class Minimum(NamedTuple):
    """Where the loop ended, with the basis on the host, and every term at the start and after each step."""

    result: LoopResult
    terms: dict[str, np.ndarray]


def minimize(
    problem: Reconstruction,
    W: np.ndarray,
    *,
    max_iter: int,
    tol: float,
    progress: Progress | None = None,
    fitted: Callable[[Array], dict[str, Any]] | None = None,
) -> Minimum:
    """Return the basis that L-BFGS reaches from W; fitted turns a basis into attributes for callbacks."""
    # After a move unit vectors are scaled back to the sphere; the gradient is tangent to it already.
    solver = LBFGS(evaluate=problem.evaluate, retract=problem.retract)
    start = solver.start(problem.start(W))
    seen = [start.evaluation.extra]
    result = iterate(
        solver.step,
        LoopState(0, start, (start.evaluation.objective,)),
        max_iter=max_iter,
        tol=tol,
        progress=progress,
        fitted=None if fitted is None else lambda position: fitted(position.params),
        hook=lambda state: seen.append(state.params.evaluation.extra),
        stored=stored_with(seen),
    )
    terms = {name: np.array([term[name] for term in seen]) for name in seen[0]}
    return Minimum(result._replace(params=to_host(result.params.params)), terms)
