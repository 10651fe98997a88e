"""Poolings H of codes: ``(H s²)_j`` is the mean of s² over the neighbours of code j, or over its group.

To add one, write a class with the methods ``check`` and ``average``; H must be symmetric.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod
from numbers import Integral
from typing import Any

import numpy as np

from clusterica.arrays import Array, namespace_of, to_host, to_like
from clusterica.ops.penalty import Torus

_ALL = "one pool of all codes measures no sparsity; use smaller pools, or pooling=None"


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
        given: Any = self.shape  # a single number is taken as a ring
        shape: tuple[Any, ...] = tuple(given) if np.iterable(given) else (given,)
        if not shape or not all(isinstance(n, Integral) and int(n) > 0 for n in shape):
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
        """Raise a ValueError if the layout does not have ``n_codes`` places."""
        if prod(self.shape) != n_codes:
            raise ValueError(
                f"a layout of {self.shape} has {prod(self.shape)} places, and there are {n_codes} "
                "codes; change the shape or n_components"
            )
        if n_codes > 1 and max(self.shape) <= self.width:
            raise ValueError(f"a width of {self.width} takes all of {self.shape} together; {_ALL}")

    @property
    def torus(self) -> Torus | None:
        """The layout as a grid, if it has one or two sides."""
        if len(self.shape) > 2:
            return None
        rows, columns = (1, *self.shape)[-2:]
        return Torus((rows, columns), self.width)

    def average(self, V: Array) -> Array:
        """Return for every code the mean over its neighbours, shape (n_rows, n_codes)."""
        xp = namespace_of(V)
        n_rows, after = V.shape[0], prod(self.shape)
        for length in self.shape:
            after //= length
            V = xp.reshape(V, (-1, length, after))
            # A product with a matrix is one pass over memory, where every shift of the array is another; on
            # sides longer than 64 the product itself costs more.
            if length > max(64, self.width):
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
    band: np.ndarray = near / near.sum(axis=1)
    return band


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
        object.__setattr__(self, "groups", tuple(groups.tolist()))  # hashable, for the caches below

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
        order, back, size, M = _layout(self.groups)
        if M is not None:
            M = xp.astype(to_like(M, V), V.dtype, copy=False)
            return (V @ M) @ M.T
        # Groups of one size: sorted, they are an axis to take means over, which is faster than the product.
        V = xp.reshape(xp.take(V, to_like(order, V), axis=1), (V.shape[0], -1, size))
        V = xp.broadcast_to(xp.mean(V, axis=2, keepdims=True), V.shape)
        return xp.take(xp.reshape(V, (V.shape[0], -1)), to_like(back, V), axis=1)


# Cached, since it is needed for every tile of rows, and depends on the groups only.
@lru_cache(maxsize=8)
def _layout(groups: tuple[Any, ...]) -> tuple[np.ndarray, np.ndarray, int, np.ndarray | None]:
    """Return the codes by group, the place of each among them, the size of groups, and None.

    Where sizes differ the last is a matrix M, shape (n_codes, n_groups), with 1 / √size where a code belongs
    to a group, so that ``M Mᵀ`` takes means over groups.
    """
    _, of, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    order = of.argsort(kind="stable")
    M = None
    if (sizes != sizes[0]).any():
        M = np.zeros((len(of), len(sizes)))
        M[np.arange(len(of)), of] = 1 / np.sqrt(sizes[of])
    return order, order.argsort(), int(sizes[0]), M
