"""L-BFGS for many convex functions at once, ``p_k <- p_k - α_k H_k g_k``, from one walk over the rows a step.

Row k of the parameters belongs to function k, which has its own moves and step lengths: a step that is too
long for one function does not slow down the others. Every step costs one evaluation.

The directions come from the compact form of L-BFGS [1]_: two triangular systems of the inner products of the
moves, which are a dozen pieces of work for a GPU where two loops over ten moves are 140.

References
----------
.. [1] R. Byrd, J. Nocedal and R. Schnabel, "Representations of quasi-Newton matrices and their use in limited
   memory methods", Mathematical Programming 63, 1994.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from clusterica.arrays import Array, device_of, namespace_of
from clusterica.optim._lbfgs import SUFFICIENT
from clusterica.optim._loop import Step

# Each rejected trial shortens the step to 0.7 or less. After 5 in a row the direction must be bad, and the
# memory is cleared; after 10 no step lowers the function any more, and it counts as solved.
_MISSES_TO_RESTART, _MISSES_TO_END = 5, 10


class Values(NamedTuple):
    """The objectives, shape (n_functions,), and their gradients, shape (n_functions, n_params)."""

    objective: Array
    gradient: Array


class Moves(NamedTuple):
    """The last accepted moves of every function, oldest first, and their inner products.

    s, y, inverse_y : arrays of shape (n_functions, n_moves, n_params)
        The moves, the changes of the gradient, and ``M⁻¹ y``.
    used : array of shape (n_functions, n_moves)
        1 for a move, 0 for a place without one.
    bends, sizes : arrays of shape (n_functions, n_moves, n_moves)
        ``s_i · y_j`` for i <= j, 0 for the others; and ``y_i · M⁻¹ y_j``.
    """

    s: Array
    y: Array
    inverse_y: Array
    used: Array
    bends: Array
    sizes: Array

    def bare(self) -> Moves:
        """Return s, y and used alone, from which another solve can start."""
        none = self.bends[:, :0, :]
        return Moves(self.s, self.y, self.s[:, :0, :], self.used, none, none)


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
    gap: Array
    misses: Array
    moves: Moves

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
    memory : int, default=10
        Number of moves to keep. With 6 a search for C on features of CIFAR-10 took a fifth more passes,
        with 16 hardly fewer.
    floor : float, default=0.0
        Smallest objective that the remaining decrease is compared with.
    """

    evaluate: Callable[[Array], Values]
    precondition: Callable[[Array], Array]
    tol: float
    noise: float = 1e-13
    memory: int = 10
    floor: float = 0.0

    def start(self, params: Array, moves: Moves | None = None) -> Positions:
        """Return the first positions; costs one evaluation.

        Moves of functions that bend alike, with their changes y as of these functions, save the steps that
        would find them.
        """
        values = self.evaluate(params)
        ones = values.objective * 0 + 1
        inverse = self.precondition(values.gradient)
        remembered = self._no_moves(params) if moves is None else self._completed(moves)
        here = Positions(params, values, inverse, -inverse, ones, ones, ones * 0, remembered)
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
        misses = xp.where(kept, 0.0, old.misses + xp.astype(missed, old.misses.dtype))
        # Functions whose directions were bad forget their moves.
        bad = missed & (misses == _MISSES_TO_RESTART)
        used = xp.where(bad[:, None], 0.0, new.moves.used)
        new = new._replace(
            length=xp.where(missed & ~bad, shorter, xp.where(kept | bad, 1.0, old.length)),
            misses=misses,
            moves=new.moves._replace(used=used),
        )
        new = self._aimed(new, kept | bad)
        left = xp.where(self.done(new), 0.0, new.gap)
        told = xp.stack([xp.sum(new.values.objective), xp.max(left)])  # a device is waited for once
        return Step(new, float(told[0]), float(told[1]))

    def _moved(self, old: Positions, trial: Array, there: Values, kept: Array) -> Positions:
        """Move the functions whose trial was accepted, and store the move."""
        xp = namespace_of(trial)
        column = kept[:, None]
        params = xp.where(column, trial, old.params)
        gradient = xp.where(column, there.gradient, old.values.gradient)
        objective = xp.where(kept, there.objective, old.values.objective)
        inverse = xp.where(column, self.precondition(gradient), old.inverse_gradient)
        s, y = params - old.params, gradient - old.values.gradient
        return old._replace(
            params=params,
            values=Values(objective, gradient),
            inverse_gradient=inverse,
            moves=_with_move(old.moves, s, y, inverse - old.inverse_gradient, kept),
        )

    def _no_moves(self, params: Array) -> Moves:
        """Return empty places for moves."""
        xp, (k, n), m = namespace_of(params), params.shape, self.memory

        def zeros(*shape: int) -> Array:
            return xp.zeros((k, *shape), dtype=params.dtype, device=device_of(params))

        return Moves(zeros(m, n), zeros(m, n), zeros(m, n), zeros(m), zeros(m, m), zeros(m, m))

    def _completed(self, moves: Moves) -> Moves:
        """Return moves of which s, y and used are given with what follows from them."""
        xp, (k, m, n) = namespace_of(moves.y), moves.y.shape
        inverse_y = xp.reshape(self.precondition(xp.reshape(moves.y, (-1, n))), (k, m, n))
        bends = moves.s @ xp.matrix_transpose(moves.y)
        sizes = moves.y @ xp.matrix_transpose(inverse_y)
        bent = _is_bent(_diagonal(bends), _diagonal(sizes))
        used = xp.where(bent, moves.used, 0.0)
        return Moves(moves.s, moves.y, inverse_y, used, xp.triu(bends), sizes)

    def _aimed(self, here: Positions, which: Array) -> Positions:
        """Set the direction of some functions, and their gap."""
        xp = namespace_of(here.params)
        direction = _direction(here)
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


def _direction(here: Positions) -> Array:
    """Return ``-H g`` for every function.

    With the moves as rows of S, Y and ``V = Y M⁻¹``, the bends R and the sizes ``N = Y Vᵀ``, the two loops
    are ``R α = S g`` and ``Rᵀ β = diag(R) α - f (V g - N α)``; then ``H g = f (M⁻¹ g - Vᵀ α) + Sᵀ β``. The
    factor f is ``s·y / y·v`` of the last move, or 1 if that is not used.
    """
    xp, moves, used = namespace_of(here.params), here.moves, here.moves.used
    gradient = here.values.gradient[:, :, None]
    places = used[:, :, None] > 0
    both = places & xp.matrix_transpose(places)
    # Places without a move have a 1 on the diagonal, and zeros else.
    R = xp.where(both, moves.bends, xp.eye(used.shape[1], dtype=used.dtype, device=device_of(used)))
    N = xp.where(both, moves.sizes, 0.0)
    last = used[:, -1] > 0
    factor = xp.where(last, R[:, -1, -1] / xp.where(last, N[:, -1, -1], 1.0), 1.0)[:, None, None]
    alpha = _solve_upper(R, xp.where(places, moves.s @ gradient, 0.0))
    right = xp.where(places, moves.inverse_y @ gradient, 0.0) - N @ alpha
    beta = _solve_upper(R, _diagonal(R)[:, :, None] * alpha - factor * right, transposed=True)
    step = here.inverse_gradient[:, None, :] - xp.matrix_transpose(alpha) @ moves.inverse_y
    return -(factor * step + xp.matrix_transpose(beta) @ moves.s)[:, 0, :]


def _with_move(moves: Moves, s: Array, y: Array, inverse_y: Array, kept: Array) -> Moves:
    """Return the moves with one more of the functions that keep it, in place of their oldest."""
    xp = namespace_of(s)
    # On the host the copies cost more than to look; a device would be waited for.
    all_kept = isinstance(kept, np.ndarray) and bool(kept.all())

    def where_kept(new: Array, old: Array) -> Array:
        return (
            new if all_kept else xp.where(xp.reshape(kept, (-1, *[1] * (old.ndim - 1))), new, old)
        )

    all_s, all_y, all_inverse = (
        where_kept(xp.concat([old[:, 1:, :], new[:, None, :]], axis=1), old)
        for old, new in ((moves.s, s), (moves.y, y), (moves.inverse_y, inverse_y))
    )
    bend = all_s @ y[:, :, None]
    size = all_inverse @ y[:, :, None]
    bent = xp.astype(_is_bent(bend[:, -1:, 0], size[:, -1:, 0]), s.dtype)
    bends = xp.concat([moves.bends[:, 1:, 1:], bend[:, :-1, :]], axis=2)
    below = xp.concat([xp.zeros_like(bends[:, :1, 1:]), bend[:, -1:, :]], axis=2)
    sizes = xp.concat([moves.sizes[:, 1:, 1:], size[:, :-1, :]], axis=2)
    return Moves(
        all_s,
        all_y,
        all_inverse,
        where_kept(xp.concat([moves.used[:, 1:], bent], axis=1), moves.used),
        where_kept(xp.concat([bends, below], axis=1), moves.bends),
        where_kept(xp.concat([sizes, xp.matrix_transpose(size)], axis=1), moves.sizes),
    )


def _is_bent(product: Array, size: Array) -> Array:
    """Return where ``s·y`` and ``y·v`` are curvature: one over a smaller number overflows."""
    least = float(namespace_of(product).finfo(product.dtype).smallest_normal)
    return (product > least) & (size > least)


def _solve_upper(R: Array, B: Array, *, transposed: bool = False) -> Array:
    """Return ``R⁻¹ B``, or ``R⁻ᵀ B``, of upper triangles."""
    xp = namespace_of(R)
    A = xp.matrix_transpose(R) if transposed else R
    if hasattr(xp.linalg, "solve_triangular"):
        return xp.linalg.solve_triangular(A, B, upper=not transposed)
    return xp.linalg.solve(A, B)


def _diagonal(M: Array) -> Array:
    return namespace_of(M).linalg.diagonal(M)


def _dots(a: Array, b: Array) -> Array:
    return namespace_of(a).sum(a * b, axis=1)
