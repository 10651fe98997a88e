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

# A full step is too long where many rows change sides on the way. Where all of these are, the next step is so
# much shorter, down to the least.
_LENGTHS = (1.0, 0.7, 0.5, 0.3, 0.15, 0.05, 0.015, 4e-3, 5e-4)
_SHORTER, _LEAST = 1e-3, 1e-16
# With a residual of a twentieth a step leaves about a four hundredth of what an exact one would gain.
_RESIDUAL, _MOST_ITERATIONS, _CHECK_EVERY = 0.05, 250, 4


class Losses(NamedTuple):
    """The sum of the losses of every function, and their first and second derivatives by every margin.

    Shapes (n_functions,), (n_functions, n_rows) and (n_functions, n_rows).
    """

    total: Array
    slope: Array
    bend: Array


class Aim(NamedTuple):
    """Where the functions are, and what comes next.

    ``margins`` and ``turns`` are the products of the rows with parameters and directions. ``gap`` is the
    expected remaining decrease relative to the objective. ``reach`` is the longest length to try: 1, and less
    after steps that were all too long.
    """

    params: Array
    margins: Array
    objective: Array
    direction: Array
    turns: Array
    gap: Array
    reach: Array


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
        From margins, shape (n_functions, n_rows), to :class:`Losses`.
    precondition : array of shape (n_functions, n_params)
        About the inverse of the Hessians, which are nearly diagonal.
    tol : float
        A function has converged when its expected remaining decrease is at most tol of its objective.
    noise : float
        Relative rise of an objective that may be rounding.
    floor : array of shape (n_functions,)
        Smallest objectives that the remaining decrease is compared with.
    """

    rows: Array
    penalised: Array
    losses: Callable[[Array], Losses]
    precondition: Array
    tol: float
    noise: float
    floor: Array

    def start(self, params: Array) -> Aim:
        """Return the first directions."""
        return self._aimed(params, 1 + 0 * params[:, 0])

    def done(self, here: Aim) -> Array:
        """Return which functions have converged, by their gap or because rounding stops them."""
        return (here.gap <= self.tol) | (here.reach < _LEAST)

    def step(self, old: Aim) -> Step:
        """Move every function by the length that lowers it most, and find its next direction."""
        xp = namespace_of(old.params)
        lowest, best = xp.inf + 0 * old.objective, 0 * old.objective
        for share in _LENGTHS:
            length = share * old.reach
            trial = self._along(old, length)
            better = trial < lowest  # of a number that overflows it is False
            lowest, best = xp.where(better, trial, lowest), xp.where(better, length, best)
        falls = lowest <= old.objective + self.noise * abs(old.objective)
        length = xp.where(falls & ~self.done(old), best, 0.0)
        reach = xp.where(falls, 1.0, _SHORTER * old.reach)
        new = self._aimed(old.params + length[:, None] * old.direction, reach)
        left = xp.where(self.done(new), 0.0, new.gap)
        told = xp.stack([xp.sum(new.objective), xp.max(left)])
        return Step(new, float(told[0]), float(told[1]))

    def _along(self, here: Aim, length: Array) -> Array:
        """Return the objectives at some lengths along the directions."""
        params = self.penalised * (here.params + length[:, None] * here.direction)
        return (
            self.losses(here.margins + length[:, None] * here.turns).total
            + _dots(params, params) / 2
        )

    def _aimed(self, params: Array, reach: Array) -> Aim:
        """Return the objectives at the parameters, the directions there and the gaps."""
        xp = namespace_of(params)
        margins = params @ self.rows.T
        losses = self.losses(margins)
        kept = self.penalised * params
        objective = losses.total + _dots(kept, params) / 2
        gradient = kept + losses.slope @ self.rows
        direction, solved = self._direction(gradient, losses.bend)
        promised = -_dots(direction, gradient) / 2
        size = xp.where(objective > self.floor, objective, self.floor)
        # An objective of zero cannot be divided by; its gap stays absolute.
        gap = xp.where(promised <= 0, 0.0, promised / xp.where(size > 0, size, 1.0))
        # A direction that is not solved promises too little: its function has not converged.
        gap = xp.where(solved | (gap > self.tol), gap, 2 * self.tol)
        return Aim(params, margins, objective, direction, direction @ self.rows.T, gap, reach)

    def _direction(self, gradient: Array, bend: Array) -> tuple[Array, Array]:
        """Return d of ``H d = -g``, solved for every function to a part of the gradient, and where it is."""
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
        return found, size <= _RESIDUAL**2 * first


def _dots(a: Array, b: Array) -> Array:
    return namespace_of(a).sum(a * b, axis=-1)
