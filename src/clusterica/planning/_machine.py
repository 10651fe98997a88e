"""How fast this machine multiplies and moves numbers, measured once in a process."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from clusterica.arrays import namespace_of, on_torch_device


class Machine(NamedTuple):
    """Measured constants of a device."""

    products: float
    """Operations a second of a matrix product; a multiplication and an addition are two."""
    bandwidth: float
    """Bytes a second, of reading an array and writing another."""


@cache
def measure(device: str, dtype: str) -> Machine:
    """Return the constants of a device for a dtype, in about a quarter of a second."""

    def put(shape: tuple[int, int]) -> Any:
        values = np.ones(shape, dtype)
        return values if device == "cpu" else on_torch_device(values, device)

    # The shape of a block of patches and a bank of filters: tall and thin, as products are in this library.
    # A GPU needs more to be busy.
    n, d, k = 2**12, 128, 2**10
    scale = 1 if device == "cpu" else 16
    A, B = put((scale * n, d)), put((d, k))
    # 32 MiB and more of float32: larger than the caches of most machines.
    n_numbers = scale * 2**23
    large = put((n_numbers // 8, 8))
    xp = namespace_of(large)
    return Machine(
        products=2.0 * scale * n * d * k / _seconds(lambda: A @ B),
        bandwidth=2.0 * n_numbers * np.dtype(dtype).itemsize / _seconds(lambda: xp.abs(large)),
    )


def _seconds(run: Callable[[], Any]) -> float:
    """Return the least time of a few calls: whatever else the machine does can only add to it."""
    best = np.inf
    for _ in range(5):
        start = perf_counter()
        result = run()
        # A number of the result: a device has finished when the host has it.
        float(result[0, 0])
        best = min(best, perf_counter() - start)
    return float(best)
