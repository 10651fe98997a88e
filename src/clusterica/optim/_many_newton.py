"""Newton's method on many functions of margins at once, ``f_k(p) = |p|² / 2 + Σ_i loss_ki(a_i · p)``.

Losses are convex. Row k of the parameters belongs to function k. Directions come from preconditioned
conjugate gradients on all functions together, two thin products for each iteration: a device gets few pieces
of work, and large ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from clusterica.arrays import Array, namespace_of
from clusterica.optim._loop import Step

# A full step is too long where many rows change sides on the way. All lengths are tried at once: a device
# takes hardly longer for ten than for one.
_LENGTHS = (1.0, 0.7, 0.5, 0.3, 0.15, 0.05, 0.015, 4e-3, 5e-4, 1e-5)
# With a residual of a twentieth a step leaves about a four hundredth of what an exact one would gain.
_RESIDUAL, _MOST_ITERATIONS, _CHECK_EVERY = 0.05, 100, 4


class Losses(NamedTuple):
    """The sum of the losses of every function, and their derivatives by every margin."""

    total: Array
    slope: Array
    bend: Array


class Aim(NamedTuple):
    """Where the functions are, and what comes next.

    ``margins`` and ``turns`` are the products of the rows with parameters and directions. ``gap`` is the
    expected remaining decrease relative to the objective; ``stuck`` says where no step lowers the function.
    """

    params: Array
    margins: Array
    objective: Array
    direction: Array
    turns: Array
    gap: Array
    stuck: Array


@dataclass(frozen=True)
class ManyNewton:
    """One Newton step on every function, for :func:`clusterica.optim.iterate` with ``tol=0``.

    The change that a step reports is the largest gap, and 0 once every function is done.

    Parameters
    ----------
    rows : array of shape (n_rows, n_params)
        The a_i.
    penalised : array of shape (n_params,)
        1 for parameters whose square is in the functions, 0 for others.
    losses : callable
        From margins, shape (..., n_functions, n_rows), to :class:`Losses`.
    precondition : array of shape (n_functions, n_params)
        About the inverse of the Hessians, which are nearly diagonal.
    tol : float
        A function has converged when its expected remaining decrease is at most tol of its objective.
    noise : float
        Relative rise of an objective that may be rounding.
    floor : float, default=0.0
        Smallest objective that the remaining decrease is compared with.
    """

    rows: Array
    penalised: Array
    losses: Callable[[Array], Losses]
    precondition: Array
    tol: float
    noise: float
    floor: float = 0.0

    def start(self, params: Array) -> Aim:
        """Return the first directions."""
        return self._aimed(params, params[:, 0] != params[:, 0])

    def done(self, here: Aim) -> Array:
        """Return which functions have converged, by their gap or because rounding stops them."""
        return (here.gap <= self.tol) | here.stuck

    def step(self, old: Aim) -> Step:
        """Move every function by the length that lowers it most, and find its next direction."""
        xp = namespace_of(old.params)
        lengths = xp.stack([0 * old.objective + length for length in _LENGTHS])
        trials = self.losses(old.margins + lengths[:, :, None] * old.turns).total
        free = self.penalised * old.direction
        trials = trials + _dots(self.penalised * old.params, old.params) / 2
        trials = (
            trials + lengths * _dots(free, old.params) + lengths**2 * _dots(free, old.direction) / 2
        )
        # A number that overflows lowers nothing.
        trials = xp.where(xp.isfinite(trials), trials, xp.inf)
        lowest = xp.min(trials, axis=0)
        length = xp.max(xp.where(trials <= lowest, lengths, 0.0), axis=0)
        falls = lowest <= old.objective + self.noise * abs(old.objective)
        moves = falls & ~self.done(old)
        length = xp.where(moves, length, 0.0)
        new = self._aimed(old.params + length[:, None] * old.direction, old.stuck | ~falls)
        left = xp.where(self.done(new), 0.0, new.gap)
        told = xp.stack([xp.sum(new.objective), xp.max(left)])
        return Step(new, float(told[0]), float(told[1]))

    def _aimed(self, params: Array, stuck: Array) -> Aim:
        """Return the objectives at the parameters, the directions there and the gaps."""
        xp = namespace_of(params)
        margins = params @ self.rows.T
        losses = self.losses(margins)
        kept = self.penalised * params
        objective = losses.total + _dots(kept, params) / 2
        gradient = kept + losses.slope @ self.rows
        direction = self._direction(gradient, losses.bend)
        promised = -_dots(direction, gradient) / 2
        size = xp.clip(objective, min=self.floor)
        # An objective of zero cannot be divided by; its gap stays absolute.
        gap = xp.where(promised > 0, promised / xp.where(size > 0, size, 1.0), 0.0)
        return Aim(params, margins, objective, direction, direction @ self.rows.T, gap, stuck)

    def _direction(self, gradient: Array, bend: Array) -> Array:
        """Solve ``H d = -g`` for every function by conjugate gradients, to a part of the gradient."""
        xp = namespace_of(gradient)
        found, residual = 0 * gradient, -gradient
        solved = self.precondition * residual
        towards = solved
        size = first = _dots(residual, solved)
        for i in range(1, _MOST_ITERATIONS + 1):
            bent = self.penalised * towards + (bend * (towards @ self.rows.T)) @ self.rows
            curvature = _dots(towards, bent)
            # A function that is solved to the last digit stays where it is.
            length = xp.where(curvature > 0, size / xp.where(curvature > 0, curvature, 1.0), 0.0)
            found = found + length[:, None] * towards
            residual = residual - length[:, None] * bent
            solved = self.precondition * residual
            before, size = size, _dots(residual, solved)
            if i % _CHECK_EVERY == 0 and not bool(xp.any(size > _RESIDUAL**2 * first)):
                break
            share = xp.where(before > 0, size / xp.where(before > 0, before, 1.0), 0.0)
            towards = solved + share[:, None] * towards
        return found


def _dots(a: Array, b: Array) -> Array:
    return namespace_of(a).sum(a * b, axis=-1)
