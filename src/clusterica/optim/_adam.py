"""Adam: a step from the gradients of batches, ``-m / √v`` with running means m of g and v of g²."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

_DECAY, _DECAY_OF_SQUARES = 0.9, 0.999


class Averages(NamedTuple):
    """Number of steps so far, and the running means of the gradient and of its square."""

    n_steps: int
    gradient: np.ndarray
    square: np.ndarray


def no_averages(params: np.ndarray) -> Averages:
    """Return the averages before the first step."""
    return Averages(0, np.zeros_like(params), np.zeros_like(params))


def adam(old: Averages, gradient: np.ndarray) -> tuple[Averages, np.ndarray]:
    """Return the averages with one more gradient, and the step to take, of size one in each number or less.

    Both means begin at zero, and are divided by the weight that they have gathered so far.
    """
    n = old.n_steps + 1
    new = Averages(
        n,
        _DECAY * old.gradient + (1 - _DECAY) * gradient,
        _DECAY_OF_SQUARES * old.square + (1 - _DECAY_OF_SQUARES) * gradient**2,
    )
    mean = new.gradient / (1 - _DECAY**n)
    spread = np.sqrt(new.square / (1 - _DECAY_OF_SQUARES**n))
    # A number whose gradient was always zero stays where it is.
    return new, -mean / (spread + np.finfo(float).tiny)
