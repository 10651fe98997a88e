"""Penalties g of the codes of a block: ``sum_j t_j G(s_j)``, or pooled, ``sum_j t_j √(ε + H_j s²)``; t = ±1.

H is symmetric: every unit j of a pool takes the mean of s² over its neighbours, or over its group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from clusterica.arrays import Array, is_host_array, namespace_of, to_like
from clusterica.ops.contrast import Contrast, first_two
from clusterica.ops.cpu.pools import torus_penalty


class Penalized(NamedTuple):
    """Sum of the penalty over a block, a number in float64, and its derivative by every code."""

    value: Array
    slopes: Array


class Torus(NamedTuple):
    """Codes on a grid whose edges are joined, pooled over ``width`` neighbours in each direction."""

    shape: tuple[int, int]
    width: int


class CodePooling(Protocol):
    """Which codes a pool takes together; one with a ``torus`` of two sides has a compiled version."""

    def check(self, n_codes: int) -> None:
        """Raise a ValueError if the pool does not fit ``n_codes`` codes."""

    def average(self, V: Array) -> Array:
        """Return V H: for every code the mean over its pool, shape (n_rows, n_codes)."""


@dataclass(frozen=True, eq=False)
class Elementwise:
    """``g(s) = sum_j t_j G(s_j)``."""

    contrast: Contrast
    signs: np.ndarray | None = None

    def __call__(self, S: Array) -> Penalized:
        """Return the sum over a block of codes (n_rows, n_codes), and the slopes."""
        value, slopes = first_two(self.contrast, S)
        xp = namespace_of(S)
        if self.signs is None:
            return Penalized(xp.sum(value, dtype=xp.float64), slopes)
        t = _signs_like(self.signs, S)
        return Penalized(xp.sum(value * t, dtype=xp.float64), slopes * t)


@dataclass(frozen=True, eq=False)
class Pooled:
    """``g(s) = sum_j t_j √(ε + H_j s²)``."""

    pooling: CodePooling
    signs: np.ndarray | None = None
    eps: float = 1e-6

    def __call__(self, S: Array) -> Penalized:
        """Return the sum over a block of codes (n_rows, n_codes), and the slopes."""
        # Compiled for NumPy, where the pooling by products or shifts takes several passes over memory.
        torus = getattr(self.pooling, "torus", None)
        if torus is not None and is_host_array(S):
            value, slopes = torus_penalty(S, torus.shape, torus.width, self.eps, self.signs)
            return Penalized(np.float64(value), slopes)
        return self.reference(S)

    def reference(self, S: Array) -> Penalized:
        """Return the same in the array API; the compiled code is tested against it."""
        xp = namespace_of(S)
        # ε keeps the derivative finite where all codes of a pool are zero.
        roots = xp.sqrt(self.pooling.average(S * S) + self.eps)
        if self.signs is None:
            weights = 1 / roots
        else:
            t = _signs_like(self.signs, S)
            weights, roots = t / roots, t * roots
        return Penalized(xp.sum(roots, dtype=xp.float64), S * self.pooling.average(weights))


PenaltyFunction = Elementwise | Pooled


def _signs_like(signs: np.ndarray, S: Array) -> Array:
    # Moved as float32, which all devices have, and holds 1 and -1 exactly.
    return namespace_of(S).astype(to_like(signs.astype(np.float32), S), S.dtype, copy=False)
