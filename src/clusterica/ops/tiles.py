"""Sums over the rows of a block, tile by tile, so that what is made on the way stays in the cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np

from clusterica.arrays import Array, is_host_array

Sums = TypeVar("Sums", bound=NamedTuple)

# Numbers in the widest array that a function makes of a tile: a few such arrays fit the cache.
TILE = 2**15
# Tiles of a small block are a quarter of it, so that they take less memory than it does, but not under this.
_LEAST_TILE = 2**12


def sum_tiles(fn: Callable[..., Sums], X: Array, *params: Array, width: int) -> Sums:
    """Return the sum over tiles of ``fn(tile, *params)``, in float64; on a device, of the block as one.

    Parameters
    ----------
    fn : callable
        Returns a named tuple of sums over rows.
    X : (n_rows, n_features) array
        The block.
    *params : arrays
        Passed on.
    width : int
        Numbers that fn makes for a row, in its widest array.
    """
    numbers = min(TILE, max(_LEAST_TILE, X.shape[0] * width // 4))
    size = max(1, numbers // width)
    if not is_host_array(X) or X.shape[0] <= size:
        return fn(X, *params)
    total: Any = None
    for start in range(0, X.shape[0], size):
        sums = fn(X[start : start + size], *params)
        if total is None:
            total = [np.array(value, dtype=np.float64) for value in sums]
        else:
            for t, value in zip(total, sums, strict=True):
                t += value
    return type(sums)(*total)
