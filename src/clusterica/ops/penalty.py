"""Penalties g of the codes of a block: ``sum_j t_j G(s_j)``, or pooled, ``sum_j t_j √(ε + H_j s²)``; t = ±1.

H is symmetric: every unit j of a pool takes the mean of s² over its neighbours, or over its group.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import isqrt, prod
from numbers import Integral
from typing import Any, NamedTuple, Protocol

import numpy as np

from clusterica.arrays import namespace_of
from clusterica.arrays._namespace import Array, is_host_array, to_host, to_like
from clusterica.ops.contrast import (
    Contrast,
    Exponential,
    LogCosh,
    SmoothedL1,
    check_contrast,
    first_two,
)
from clusterica.ops.cpu.pools import torus_penalty

_WIDTH = 3  # neighbours of a pool that is given by name
# Means over neighbours by a matrix are one pass over memory, where every shift of the array is another; on
# sides longer than this the product itself costs more.
_LONG = 64
_ALL = "one pool of all codes is no sparsity; use smaller pools, or pooling=None"


class Penalized(NamedTuple):
    """Sum of the penalty over a block, a number in float64, and its derivative by every code."""

    value: Array
    slopes: Array


class Pooling(Protocol):
    """Which codes a pool takes together."""

    def check(self, n_codes: int) -> None:
        """Raise a ValueError if the pool is not one of so many codes."""

    def average(self, V: Array) -> Array:
        """Return V H: for every code the mean over its pool, shape (n_rows, n_codes)."""


@dataclass(frozen=True)
class TorusPooling:
    """Pools of neighbours on a ring, or on a grid whose edges are joined.

    Parameters
    ----------
    shape : tuple (n,) or (rows, columns)
        How the codes are laid out, row by row.
    width : int, default=3
        Neighbours in each direction, the code itself included; odd. A side that is no longer than that is
        pooled as a whole.
    """

    shape: tuple[int, ...]
    width: int = 3

    def __post_init__(self) -> None:
        shape = tuple(self.shape) if np.iterable(self.shape) else (self.shape,)
        if not shape or not all(isinstance(n, Integral) and n > 0 for n in shape):
            raise ValueError(
                f"shape={shape} must be one or more numbers of codes, such as (20, 20)"
            )
        if not isinstance(self.width, Integral):
            raise ValueError(f"width={self.width!r} must be an integer; give an odd one, such as 3")
        # Integers of NumPy as those of Python, which can't overflow.
        object.__setattr__(self, "shape", tuple(map(int, shape)))
        object.__setattr__(self, "width", int(self.width))
        if self.width < 1 or self.width % 2 == 0 or self.width > max(self.shape):
            raise ValueError(
                f"width={self.width} must be odd, and at most the longest side of {self.shape}"
            )

    def check(self, n_codes: int) -> None:
        """Raise a ValueError if the layout is not one of so many codes."""
        if prod(self.shape) != n_codes:
            raise ValueError(
                f"a layout of {self.shape} has {prod(self.shape)} places, and there are {n_codes} "
                "codes; change the shape or n_components"
            )
        if n_codes > 1 and max(self.shape) <= self.width:
            raise ValueError(f"a width of {self.width} takes all of {self.shape} together; {_ALL}")

    @property
    def flat(self) -> bool:
        """Whether the layout has one or two sides."""
        return len(self.shape) <= 2

    def average(self, V: Array) -> Array:
        """Return for every code the mean over its neighbours, shape (n_rows, n_codes)."""
        xp = namespace_of(V)
        n_rows, after = V.shape[0], prod(self.shape)
        for length in self.shape:
            after //= length
            V = xp.reshape(V, (-1, length, after))
            if length > max(_LONG, self.width):
                reach = range(1, self.width // 2 + 1)
                V = sum((xp.roll(V, s * r, axis=1) for r in reach for s in (1, -1)), start=V)
                V = V / self.width
                continue
            B = xp.astype(to_like(_band(length, self.width), V), V.dtype, copy=False)
            V = B @ V if after > 1 else V[:, :, 0] @ B
        return xp.reshape(V, (n_rows, -1))


@lru_cache(maxsize=8)
def _band(length: int, width: int) -> np.ndarray:
    """Return the matrix that takes means over neighbours on a ring; over all where there are no more."""
    places = np.arange(length)
    apart = np.abs(places[:, None] - places)
    near = np.minimum(apart, length - apart) <= width // 2
    return near / near.sum(axis=1)


@dataclass(frozen=True)
class GroupPooling:
    """Pools that do not overlap.

    Parameters
    ----------
    groups : tuple of int
        The group of every code.
    """

    groups: tuple[int, ...]

    def __post_init__(self) -> None:
        groups = np.ravel(to_host(self.groups))
        if groups.dtype.kind == "f" and not np.isfinite(groups).all():
            raise ValueError("groups must be finite; give every code the number of its group")
        object.__setattr__(self, "groups", tuple(groups.tolist()))

    def check(self, n_codes: int) -> None:
        """Raise a ValueError if there is not one group for every code."""
        if len(self.groups) != n_codes:
            raise ValueError(
                f"groups name {len(self.groups)} codes, and there are {n_codes}; give one for each"
            )
        if n_codes > 1 and len(set(self.groups)) == 1:
            raise ValueError(f"all codes are in one group; {_ALL}")

    def average(self, V: Array) -> Array:
        """Return for every code the mean over its group, shape (n_rows, n_codes)."""
        xp = namespace_of(V)
        order, back, size = _sorted_groups(self.groups)
        if size:
            V = xp.reshape(xp.take(V, to_like(order, V), axis=1), (V.shape[0], -1, size))
            V = xp.broadcast_to(xp.mean(V, axis=2, keepdims=True), V.shape)
            return xp.take(xp.reshape(V, (V.shape[0], -1)), to_like(back, V), axis=1)
        M = xp.astype(to_like(_membership(self.groups), V), V.dtype, copy=False)
        return (V @ M) @ M.T


# Both are asked for once a tile: a few rows.
@lru_cache(maxsize=8)
def _sorted_groups(groups: tuple) -> tuple[np.ndarray, np.ndarray, int]:
    """Return the codes by group, the place of each among them, and the size of groups, 0 if it differs."""
    _, of, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    order = of.argsort(kind="stable")
    return order, order.argsort(), int(sizes[0]) if (sizes == sizes[0]).all() else 0


@lru_cache(maxsize=8)
def _membership(groups: tuple) -> np.ndarray:
    """Return 1 / √size where a code belongs to a group, shape (n_codes, n_groups)."""
    _, of, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    M = np.zeros((len(of), len(sizes)))
    M[np.arange(len(of)), of] = 1 / np.sqrt(sizes[of])
    return M


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

    pooling: Pooling
    signs: np.ndarray | None = None
    eps: float = 1e-6

    def __call__(self, S: Array) -> Penalized:
        """Return the sum over a block of codes (n_rows, n_codes), and the slopes."""
        if is_host_array(S) and isinstance(self.pooling, TorusPooling) and self.pooling.flat:
            rows, columns = (1, *self.pooling.shape)[-2:]
            value, slopes = torus_penalty(
                S, (rows, columns), self.pooling.width, self.eps, self.signs
            )
            return Penalized(np.float64(value), slopes)
        return self.reference(S)

    def reference(self, S: Array) -> Penalized:
        """The text that the compiled twin is tested against."""
        xp = namespace_of(S)
        roots = xp.sqrt(self.pooling.average(S * S) + self.eps)
        if self.signs is None:
            weights = 1 / roots
        else:
            t = _signs_like(self.signs, S)
            weights, roots = t / roots, t * roots
        return Penalized(xp.sum(roots, dtype=xp.float64), S * self.pooling.average(weights))


PenaltyFunction = Elementwise | Pooled

PENALTIES: dict[str, Contrast] = {
    "logcosh": LogCosh(),
    "l1": SmoothedL1(),
    "exp": Exponential(),
    "sqrt": SmoothedL1(1e-4),
}
DEFAULT = "logcosh"


def make_penalty(
    penalty: str | Contrast, pooling: Any, *, n_codes: int, signs: np.ndarray | None = None
) -> PenaltyFunction:
    """Return the penalty of a name or contrast, or that of the pools if there are any.

    Parameters
    ----------
    penalty : str or contrast
        One of `PENALTIES`, or ``y -> (G(y), G'(y), ...)``.
    pooling : {"1d", "2d"}, array-like of shape (n_codes,), pooling object or None
        Neighbours on a ring or on a grid as square as it can be, 3 wide; or the group of every code.
    n_codes : int
        Number of codes.
    signs : ndarray of shape (n_codes,), optional
        1 for a penalty, -1 for a reward.
    """
    if not isinstance(penalty, str):
        check_contrast(penalty)
    if pooling is None:
        return Elementwise(PENALTIES[penalty] if isinstance(penalty, str) else penalty, signs)
    if penalty != DEFAULT:
        raise ValueError(
            f"penalty={penalty!r} is not used with pooling, whose penalty is the root of the pooled energy; "
            f"give pooling=None with it, or leave penalty at {DEFAULT!r}"
        )
    return Pooled(_make_pooling(pooling, n_codes), signs)


def _make_pooling(pooling: Any, n_codes: int) -> Pooling:
    if isinstance(pooling, str):
        if pooling not in ("1d", "2d"):
            raise ValueError(f"pooling={pooling!r} must be '1d', '2d', groups or a pooling object")
        rows = 1 if pooling == "1d" else _near_square(n_codes)
        if rows == 1 or n_codes // rows <= _WIDTH:  # a grid of 3 x 3 at most would be one pool
            shape: tuple[int, ...] = (n_codes,)
        else:
            shape = (rows, n_codes // rows)
        pooling = TorusPooling(shape, width=_WIDTH if max(shape) > _WIDTH else 1)
    elif not hasattr(pooling, "average"):
        pooling = GroupPooling(pooling)
    pooling.check(n_codes)
    return pooling


def _near_square(n: int) -> int:
    """Return the largest divisor of n up to its root."""
    return next(d for d in range(isqrt(n), 0, -1) if n % d == 0)


def _signs_like(signs: np.ndarray, S: Array) -> Array:
    return namespace_of(S).astype(to_like(signs.astype(np.float32), S), S.dtype, copy=False)
