"""L-BFGS for many convex functions at once, ``p_k <- p_k - α_k H_k g_k``, from one walk over the rows a step.

Row k of the parameters belongs to function k, which has its own moves and step lengths: a step that is too
long for one function does not slow down the others. Every step costs one evaluation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from clusterica.arrays import Array, namespace_of
from clusterica.optim._lbfgs import SUFFICIENT, two_loops
from clusterica.optim._loop import Step

# Each rejected trial shortens the step to 0.7 or less. After 5 in a row the direction must be bad, and the
# memory is cleared; after 10 no step lowers the function any more, and it counts as solved.
_MISSES_TO_RESTART, _MISSES_TO_END = 5, 10


class Values(NamedTuple):
    """The objectives, shape (n_functions,), and their gradients, shape (n_functions, n_params)."""

    objective: Array
    gradient: Array


class Move(NamedTuple):
    """An accepted move of every function: s, the change y of the gradient, ``M⁻¹ y``, and ``1 / sᵀy``.

    All are zero for a function whose trial was rejected in that step.
    """

    s: Array
    y: Array
    inverse_y: Array
    scale: Array


class Positions(NamedTuple):
    """State of all functions.

    ``inverse_gradient`` is ``M⁻¹ g``; ``direction`` and ``length`` are the next trial; ``gap`` is the
    expected remaining decrease, ``gᵀ H g / 2``, relative to the objective; ``misses`` counts trials
    rejected in a row.
    """

    params: Array
    values: Values
    inverse_gradient: Array
    direction: Array
    length: Array
    factor: Array
    gap: Array
    misses: Array
    moves: tuple[Move, ...] = ()

    @property
    def objective(self) -> Array:
        """The objectives."""
        return self.values.objective


@dataclass(frozen=True)
class ManyLBFGS:
    """One step of L-BFGS on every function, for :func:`clusterica.optim.iterate` with ``tol=0``.

    The change that a step reports is the largest gap, and 0 once every function is done.

    Parameters
    ----------
    evaluate : callable
        From parameters, shape (n_functions, n_params), to :class:`Values`: one walk over the rows.
    precondition : callable
        ``G -> M⁻¹ G`` row by row, M symmetric positive definite and close to the Hessian.
    tol : float
        A function has converged when its expected remaining decrease is at most tol of its objective.
    noise : float, default=1e-13
        Relative rise of an objective that may be rounding; below it the slopes decide whether a move
        is accepted.
    memory : int, default=6
        Number of moves to keep.
    floor : float, default=0.0
        Smallest objective that the remaining decrease is compared with.
    """

    evaluate: Callable[[Array], Values]
    precondition: Callable[[Array], Array]
    tol: float
    noise: float = 1e-13
    memory: int = 6
    floor: float = 0.0

    def start(self, params: Array) -> Positions:
        """Return the first positions; costs one evaluation."""
        values = self.evaluate(params)
        ones = values.objective * 0 + 1
        inverse = self.precondition(values.gradient)
        here = Positions(params, values, inverse, -inverse, ones, ones, ones, ones * 0)
        return self._aimed(here, ones > 0)

    def done(self, here: Positions) -> Array:
        """Return which functions have converged, by their gap or because rounding stops them."""
        return (here.gap <= self.tol) | (here.misses >= _MISSES_TO_END)

    def step(self, old: Positions) -> Step:
        """Try the next move of every function; accept those that lower it enough, shorten the others."""
        xp = namespace_of(old.params)
        trial = old.params + old.length[:, None] * old.direction
        there = self.evaluate(trial)
        slope = _dots(old.values.gradient, old.direction)
        end_slope = _dots(there.gradient, old.direction)
        moving = ~self.done(old)
        # Accept a trial that lowers the objective enough; near the minimum, where values are rounded, one
        # whose slope has fallen. On a parabola the two are equivalent (Hager & Zhang, 2005).
        fall = there.objective - old.values.objective
        lower = fall <= SUFFICIENT * old.length * slope
        level = fall <= self.noise * abs(old.values.objective)
        kept = moving & (lower | (level & (end_slope <= (2 * SUFFICIENT - 1) * slope)))
        new = self._moved(old, trial, there, kept)
        missed = moving & ~kept
        # After a rejected trial: the slope of a convex function rises, so the zero of its secant is a good
        # guess. The bounds keep a step from stalling: neither hardly shorter, nor so short that it gains
        # nothing. Without a usable slope, as after a NaN, it is a tenth.
        rises = end_slope > slope
        chord = old.length * slope / xp.where(rises, slope - end_slope, -1.0)
        chord = xp.clip(chord, min=1e-3 * old.length, max=0.7 * old.length)
        shorter = xp.where(rises, chord, 0.1 * old.length)
        new = new._replace(
            length=xp.where(kept, 1.0, xp.where(missed, shorter, old.length)),
            misses=xp.where(kept, 0.0, old.misses + xp.astype(missed, old.misses.dtype)),
        )
        new = self._aimed(new, kept)
        # Functions whose directions were bad forget their moves.
        bad = missed & (new.misses == _MISSES_TO_RESTART)
        if bool(xp.any(bad)):
            new = new._replace(
                moves=tuple(m._replace(scale=xp.where(bad, 0.0, m.scale)) for m in new.moves),
                factor=xp.where(bad, 1.0, new.factor),
                length=xp.where(bad, 1.0, new.length),
            )
            new = self._aimed(new, bad)
        left = xp.where(self.done(new), 0.0, new.gap)
        return Step(new, float(xp.sum(new.values.objective)), float(xp.max(left)))

    def _moved(self, old: Positions, trial: Array, there: Values, kept: Array) -> Positions:
        """Move the functions whose trial was accepted, and store the move."""
        xp = namespace_of(trial)
        column = kept[:, None]
        params = xp.where(column, trial, old.params)
        gradient = xp.where(column, there.gradient, old.values.gradient)
        objective = xp.where(kept, there.objective, old.values.objective)
        inverse = xp.where(column, self.precondition(gradient), old.inverse_gradient)
        s, y = params - old.params, gradient - old.values.gradient
        inverse_y = inverse - old.inverse_gradient
        product, size = _dots(s, y), _dots(y, inverse_y)
        # One over a smaller number overflows; and no curvature is learned from a move that is not kept.
        least = float(xp.finfo(product.dtype).smallest_normal)
        bent = kept & (product > least) & (size > least)
        scale = xp.where(bent, 1 / xp.where(bent, product, 1.0), 0.0)
        factor = xp.where(bent, product / xp.where(bent, size, 1.0), old.factor)
        moves = (*old.moves, Move(s, y, inverse_y, scale))[-self.memory :]
        return old._replace(
            params=params,
            values=Values(objective, gradient),
            inverse_gradient=inverse,
            factor=factor,
            moves=moves,
        )

    def _aimed(self, here: Positions, which: Array) -> Positions:
        """Set the direction of some functions by the two-loop recursion, and their gap."""
        xp = namespace_of(here.params)

        def guess(q: Array, shares: list[Array]) -> Array:
            r = here.inverse_gradient
            for move, share in zip(reversed(here.moves), shares, strict=True):
                r = r - share * move.inverse_y  # becomes M⁻¹ q, without another solve
            return r * here.factor[:, None]

        moves = [(move.s, move.y, move.scale[:, None]) for move in here.moves]
        direction = -two_loops(
            here.values.gradient, moves, guess, lambda a, b: _dots(a, b)[:, None]
        )
        promised = -_dots(direction, here.values.gradient)
        by_metric = _dots(here.inverse_gradient, here.values.gradient)
        # Close to the minimum rounding may turn a direction uphill.
        direction = xp.where((promised > 0)[:, None], direction, -here.inverse_gradient)
        gap = xp.where(promised > by_metric, promised, by_metric) / 2
        size = xp.clip(here.values.objective, min=self.floor)
        # An objective of zero cannot be divided by; its gap stays absolute.
        gap = xp.where(gap > 0, gap / xp.where(size > 0, size, 1.0), 0.0)
        return here._replace(
            direction=xp.where(which[:, None], direction, here.direction),
            gap=xp.where(which, gap, here.gap),
        )


def _dots(a: Array, b: Array) -> Array:
    return namespace_of(a).sum(a * b, axis=1)
