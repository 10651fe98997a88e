"""L-BFGS over gradients that are summed by row blocks: ``p <- p - α H g``, H from the last few moves.

Parameters may live on a curved space: the caller says how a move is made (`retract`), and what stands
in for the inverse second derivative before any move is known (`precondition`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from clusterica.arrays import namespace_of
from clusterica.arrays._namespace import Array
from clusterica.optim._loop import Step
from clusterica.optim._two_loops import two_loops

_SUFFICIENT = 1e-4  # share of the promised decrease that a move must keep (Armijo)
_MOST_TRIALS = 12
_BLIND = (
    0.1  # longest move where nothing tells how far to go, in units of the size of the parameters
)
_COARSE = 8  # by which such a move is shortened, and may grow
_TINY = np.finfo(float).tiny
_NOISE = 1e-9  # rise of the objective, relative to its size, that is put down to rounding


Moves = tuple[tuple[Array, Array, float], ...]  # s, y and 1 / sᵀy of each move, oldest first


class Evaluation(NamedTuple):
    """The objective at some parameters, its gradient, and whatever the preconditioner needs."""

    objective: float
    gradient: Array
    extra: Any = None


class Position(NamedTuple):
    """Where L-BFGS stands: parameters, what they evaluate to, and its last moves (s, y, 1 / sᵀy)."""

    params: Any
    evaluation: Evaluation
    moves: Moves = ()
    share: float = 1.0
    """How much of the last direction was gone."""
    length: float = np.inf
    """Length of the last move."""


def _added(params: Array, move: Array) -> Array:
    return params + move


def _dot(a: Array, b: Array) -> float:
    return float(namespace_of(a).sum(a * b))


def _squared_length(a: Array) -> float:
    return _dot(a, a)


def _length(a: Array) -> float:
    """Return the length of an array, whose square may be larger or smaller than any number."""
    largest = float(namespace_of(a).max(abs(a)))
    return largest * _squared_length(a / largest) ** 0.5 if 0 < largest < np.inf else largest


@dataclass(frozen=True)
class LBFGS:
    """One step of L-BFGS, for :func:`clusterica.optim.iterate`; float64 arrays of any library.

    Parameters
    ----------
    evaluate : callable
        From parameters to an :class:`Evaluation`: one walk over the rows. Where it raises OverflowError a
        move was too long.
    retract : callable, default: addition
        ``retract(params, move)`` returns the parameters after a move.
    precondition : callable, optional
        ``precondition(gradient, extra)`` applies a symmetric positive estimate of the inverse second
        derivative at the point where ``extra`` was evaluated. Without it that is a multiple of the
        identity, as large as the last move tells; the first move is down the gradient, a tenth of the
        size of the parameters or an eighth of that, and so on.
    size : callable, default: the squared length of the parameters
        What the squared length of a move is compared with, to tell convergence.
    memory : int, default=8
        How many moves are remembered. With 0 every step is the preconditioner's, and the search along it
        begins at twice the share that the last one took, or all of it.
    longest : float, default=inf
        Longest move of a row of the parameters, a matrix, in one step; a longer one shortens all moves.
    """

    evaluate: Callable[[Any], Evaluation]
    retract: Callable[[Any, Array], Any] = _added
    precondition: Callable[[Array, Any], Array] | None = None
    size: Callable[[Any], float] = _squared_length
    memory: int = 8
    longest: float = np.inf

    def start(self, params: Any) -> Position:
        """Return the position to begin with; costs one evaluation."""
        found = self.evaluate(params)
        xp = namespace_of(found.gradient)
        if not (np.isfinite(found.objective) and bool(xp.all(xp.isfinite(found.gradient)))):
            raise ValueError(
                f"the objective at the start is {found.objective:g}, or its gradient is not finite; scale "
                "the rows down, or use a penalty that grows more slowly"
            )
        return Position(params, found)

    def step(self, old: Position) -> Step:
        """Move along the L-BFGS direction as far as the objective falls enough."""
        here, blind = old.evaluation, self.precondition is None and not old.moves
        new = self._from_gradient(old) if blind else self._from_memory(old)
        if new is None and old.moves:
            # What is remembered misleads: begin anew from the gradient.
            old = old._replace(moves=())
            new = self._from_gradient(old)
        if new is None:
            return Step(old, here.objective, 0.0)  # nothing lowers it any more
        params, there, move, share = new
        moves = old.moves
        bend = there.gradient - here.gradient
        product = _dot(move, bend)
        if product > 0 and self.memory > 0:
            moves = (*moves, (move, bend, 1 / product))[-self.memory :]
        # The length of a first move is arbitrary, so that a short one does not tell that this is the end.
        squared = _squared_length(move)
        change = np.inf if blind else squared / max(self.size(params), _TINY)
        return Step(Position(params, there, moves, share, squared**0.5), there.objective, change)

    def _from_memory(self, old: Position) -> tuple[Any, Evaluation, Array, float] | None:
        """Search along the direction of L-BFGS, if it leads down."""
        move = -self._inverse_hessian(old.evaluation, old.moves)
        share = 1.0 if self.memory > 0 else min(1.0, 2 * old.share)
        if not _slope(old.evaluation, move) < 0:
            return None
        return self._search(old.params, old.evaluation, move, share)

    def _from_gradient(self, old: Position) -> tuple[Any, Evaluation, Array, float] | None:
        """Search down the gradient, or what the preconditioner makes of it, without any memory."""
        if self.precondition is not None:
            return self._from_memory(old)
        gradient = old.evaluation.gradient
        steepness = _length(gradient)
        if not 0 < steepness < np.inf:
            return None
        longest = min(_BLIND * (self.size(old.params) ** 0.5 or 1.0), _COARSE * old.length)
        move = -(gradient / steepness) * longest
        return self._search(old.params, old.evaluation, move, shorten=_COARSE)

    def _inverse_hessian(self, here: Evaluation, moves: Moves) -> Array:
        """Apply the inverse second derivative to the gradient, by the two-loop recursion."""
        return two_loops(here.gradient, moves, lambda q, _: self._first_guess(q, here, moves), _dot)

    def _first_guess(self, q: Array, here: Evaluation, moves: Moves) -> Array:
        if self.precondition is not None:
            return self.precondition(q, here.extra)
        _, y, scale = moves[-1]
        bend = _length(y)
        return (q / bend) / (scale * bend)

    def _search(
        self,
        params: Any,
        here: Evaluation,
        move: Array,
        share: float = 1.0,
        shorten: float = 2,
    ) -> tuple[Any, Evaluation, Array, float] | None:
        """Shorten the move until the objective falls enough; None if it never does."""
        if self.longest < np.inf:
            xp = namespace_of(move)
            length = float(xp.max(xp.sum(move * move, axis=-1))) ** 0.5
            move = move * min(1.0, self.longest / max(length, _TINY))
        slope = _slope(here, move)
        noise = _NOISE * abs(here.objective)
        for _ in range(_MOST_TRIALS):
            trial = self.retract(params, share * move)
            there = self._evaluated(trial)
            # Written so that a NaN fails.
            if there.objective <= here.objective + _SUFFICIENT * share * slope + noise:
                return trial, there, share * move, share
            share /= shorten
        return None

    def _evaluated(self, trial: Any) -> Evaluation:
        """Evaluate a trial, which may be too far out to have a value."""
        try:
            return self.evaluate(trial)
        except OverflowError:
            return Evaluation(np.inf, trial)


def _slope(here: Evaluation, move: Array) -> float:
    return _dot(here.gradient, move)
