"""Adam: a step from the gradients of batches, ``-m / √v`` with running means m of g and v of g²."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Averages(NamedTuple):
    """Number of steps, and the running means of the gradient and of its square."""

    n_steps: int
    gradient: np.ndarray
    square: np.ndarray


def no_averages(params: np.ndarray) -> Averages:
    """Return the averages before the first step."""
    return Averages(0, np.zeros_like(params), np.zeros_like(params))


def adam(
    old: Averages, gradient: np.ndarray, *, decay: float = 0.9, decay_of_squares: float = 0.999
) -> tuple[Averages, np.ndarray]:
    """Return the averages updated by a gradient, and the step; each entry of it is about one or smaller.

    Both means start at zero; dividing by ``1 - decay**n`` removes that bias. The default decays are those of
    Kingma & Ba (2015).
    """
    n = old.n_steps + 1
    new = Averages(
        n,
        decay * old.gradient + (1 - decay) * gradient,
        decay_of_squares * old.square + (1 - decay_of_squares) * gradient**2,
    )
    mean = new.gradient / (1 - decay**n)
    spread = np.sqrt(new.square / (1 - decay_of_squares**n))
    # A parameter whose gradient was always zero does not move.
    return new, -mean / (spread + np.finfo(float).tiny)
