"""L-BFGS over gradients that are summed by row blocks: ``p <- p - α H g``, H from the last few moves.

Parameters may lie on a manifold: the caller passes how to make a move (`retract`) and an estimate of the
inverse Hessian (`precondition`), which is used until there are moves to learn from.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from clusterica.arrays import Array, namespace_of
from clusterica.optim._loop import Step

SUFFICIENT = 1e-4  # Armijo's constant, with the usual value (Nocedal & Wright, section 3.1)
_TINY = np.finfo(float).tiny


class Evaluation(NamedTuple):
    """The objective at some parameters, its gradient, and data for the preconditioner."""

    objective: float
    gradient: Array
    extra: Any = None


class Position(NamedTuple):
    """State of L-BFGS: the parameters, their evaluation, and the last moves (s, y, 1 / sᵀy)."""

    params: Any
    evaluation: Evaluation
    moves: tuple[tuple[Array, Array, float], ...] = ()
    share: float = 1.0
    """Step length that the last line search accepted."""
    length: float = np.inf
    """Length of the last move."""


def _dot(a: Array, b: Array) -> float:
    return float(namespace_of(a).sum(a * b))


def _squared_length(a: Array) -> float:
    return _dot(a, a)


def _length(a: Array) -> float:
    """Return the norm of an array without overflow or underflow of its square."""
    # Dividing by the largest entry first keeps all squares within range.
    largest = float(namespace_of(a).max(abs(a)))
    return largest * _squared_length(a / largest) ** 0.5 if 0 < largest < np.inf else largest


@dataclass(frozen=True)
class LBFGS:
    """One step of L-BFGS, for :func:`clusterica.optim.iterate`; float64 arrays of any library.

    Parameters
    ----------
    evaluate : callable
        From parameters to an :class:`Evaluation`: one walk over the rows. An OverflowError means that the
        move was too long.
    retract : callable, default: addition
        ``retract(params, move)`` returns the parameters after a move.
    precondition : callable, optional
        ``precondition(gradient, extra)`` applies a positive definite estimate of the inverse Hessian
        at the point where ``extra`` was evaluated. The default is a multiple of the identity, scaled by
        the last move; the first move then follows the gradient, with a length of a tenth of the norm of
        the parameters, an eighth of that, and so on.
    size : callable, default: the squared length of the parameters
        The squared length of a move is compared with it to detect convergence.
    memory : int, default=8
        Number of moves to keep. With 0 every step is that of the preconditioner, and the line search starts
        at twice the last step length, at most 1.
    longest : float, default=inf
        Largest norm of a row of a move, for parameters that are a matrix; longer moves are scaled down.
    """

    evaluate: Callable[[Any], Evaluation]
    retract: Callable[[Any, Array], Any] = operator.add
    precondition: Callable[[Array, Any], Array] | None = None
    size: Callable[[Any], float] = _squared_length
    memory: int = 8
    longest: float = np.inf

    def start(self, params: Any) -> Position:
        """Return the first position; costs one evaluation."""
        found = self.evaluate(params)
        xp = namespace_of(found.gradient)
        if not (np.isfinite(found.objective) and bool(xp.all(xp.isfinite(found.gradient)))):
            raise ValueError(
                f"the objective at the start is {found.objective:g}, or its gradient is not finite; scale "
                "the rows down, or use a penalty that grows more slowly"
            )
        return Position(params, found)

    def step(self, old: Position) -> Step:
        """Make one move along the L-BFGS direction, with a line search."""
        here, blind = old.evaluation, self.precondition is None and not old.moves
        new = self._from_gradient(old) if blind else self._from_memory(old)
        if new is None and old.moves:
            # The moves in memory give no descent direction: restart from the gradient.
            old = old._replace(moves=())
            new = self._from_gradient(old)
        if new is None:
            return Step(old, here.objective, 0.0)  # no move lowers the objective
        params, there, move, share = new
        moves = old.moves
        bend = there.gradient - here.gradient
        product = _dot(move, bend)
        # Only a move along which the gradient rises keeps the estimate of the Hessian positive definite.
        # Where all is nearly zero, the product of two moves has no inverse in float64.
        if product > _TINY and self.memory > 0:
            moves = (*moves, (move, bend, 1 / product))[-self.memory :]
        # The length of a first move is arbitrary: a short one does not mean convergence.
        squared = _squared_length(move)
        change = np.inf if blind else squared / max(self.size(params), _TINY)
        return Step(Position(params, there, moves, share, squared**0.5), there.objective, change)

    def direction(self, old: Position) -> Array:
        """Return the move that comes next, before a line search; without moves in memory, preconditioned.

        These are the two loops of L-BFGS (Nocedal and Wright, algorithm 7.4).
        """
        q, shares = old.evaluation.gradient, []
        for s, y, scale in reversed(old.moves):
            shares.append(scale * _dot(s, q))
            q = q - shares[-1] * y
        if self.precondition is not None:
            r = self.precondition(q, old.evaluation.extra)
        else:
            # ``sᵀy / yᵀy`` of the last move, in two steps so that ``yᵀy`` does not overflow.
            _, y, scale = old.moves[-1]
            bend = _length(y)
            r = (q / bend) / (scale * bend)
        for (s, y, scale), share in zip(old.moves, reversed(shares), strict=True):
            r = r + s * (share - scale * _dot(y, r))
        return -r

    def _from_memory(self, old: Position) -> tuple[Any, Evaluation, Array, float] | None:
        """Search along the L-BFGS direction, if it is a descent direction."""
        move = self.direction(old)
        share = 1.0 if self.memory > 0 else min(1.0, 2 * old.share)
        # Written so that a NaN fails, too.
        if not _dot(old.evaluation.gradient, move) < 0:
            return None
        return self._search(old.params, old.evaluation, move, share)

    def _from_gradient(self, old: Position) -> tuple[Any, Evaluation, Array, float] | None:
        """Search along the negative gradient, preconditioned if possible, without memory."""
        if self.precondition is not None:
            return self._from_memory(old)
        gradient = old.evaluation.gradient
        steepness = _length(gradient)
        if not 0 < steepness < np.inf:
            return None
        # This move has no curvature to scale it: at most a tenth of the norm of the parameters, with a
        # factor of 8 between trials, so that few trials cover many orders of magnitude.
        longest = min(0.1 * (self.size(old.params) ** 0.5 or 1.0), 8 * old.length)
        move = -(gradient / steepness) * longest
        return self._search(old.params, old.evaluation, move, shorten=8)

    def _search(
        self,
        params: Any,
        here: Evaluation,
        move: Array,
        share: float = 1.0,
        shorten: float = 2,
    ) -> tuple[Any, Evaluation, Array, float] | None:
        """Shorten the move until the objective falls enough; return None if it never does."""
        if self.longest < np.inf:
            xp = namespace_of(move)
            length = float(xp.max(xp.sum(move * move, axis=-1))) ** 0.5
            move = move * min(1.0, self.longest / max(length, _TINY))
        slope = _dot(here.gradient, move)
        # A rise that counts as rounding: far above that of float64 sums, far below the default tol of the
        # learners (1e-7 and more).
        noise = 1e-9 * abs(here.objective)
        for _ in range(12):  # halved so often, a move is below 0.1 % of the first trial
            trial = self.retract(params, share * move)
            try:
                there = self.evaluate(trial)
            except OverflowError:  # too far away to have a value
                there = Evaluation(np.inf, trial)
            # Written so that a NaN fails.
            if there.objective <= here.objective + SUFFICIENT * share * slope + noise:
                return trial, there, share * move, share
            share /= shorten
        return None
