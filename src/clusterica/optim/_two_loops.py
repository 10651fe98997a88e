"""The two-loop recursion of L-BFGS: an estimate of the inverse Hessian, applied to a gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from clusterica.arrays import Array


def two_loops(
    gradient: Array,
    moves: Sequence[tuple[Array, Array, Any]],
    guess: Callable[[Array, list[Any]], Array],
    dot: Callable[[Array, Array], Any],
) -> Array:
    """Return ``H g``, H from moves s with changes y of the gradient (Nocedal and Wright, algorithm 7.4).

    Parameters
    ----------
    gradient : array
        The gradient g, of one function or of many.
    moves : sequence of (s, y, 1 / sᵀy)
        The moves, oldest first; the last number is 0 for a move to ignore.
    guess : callable
        ``guess(q, shares)`` applies a first estimate of H to ``q = g - sum of shares y``; the shares are
        those of the moves, newest first.
    dot : callable
        The inner product, in a shape that multiplies a move.
    """
    q, shares = gradient, []
    for s, y, scale in reversed(moves):
        shares.append(scale * dot(s, q))
        q = q - shares[-1] * y
    r = guess(q, shares)
    for (s, y, scale), share in zip(moves, reversed(shares), strict=True):
        r = r + s * (share - scale * dot(y, r))
    return r
