"""The walk over a Dask array: one task for each chunk, rows stay lazy, sums are added up in a tree."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

import numpy as np

from clusterica.arrays._place import Array, active_config, config_context, to_host
from clusterica.arrays._rows import DaskRows, as_rows
from clusterica.arrays._walk import map_rows_reduce, one_blas_thread, rebuild

# Sums that a task of the tree adds up. Pairs take seven times as many tasks, and each costs the scheduler
# about as much as one over a chunk.
_FAN_IN = 8


def walk_dask(
    fn: Callable[..., Any],
    rows: DaskRows,
    params: tuple[Any, ...],
    aligned: tuple[np.ndarray, ...],
) -> tuple[Array, Any]:
    """Return the lazy values of all rows, and the computed sums, of :func:`map_rows_reduce`."""
    import dask
    import dask.array as da

    params = tuple(None if p is None else to_host(p) for p in params)
    config = active_config()
    # A worker of Dask runs several tasks at a time; threads of ours would compete with them.
    settings = {"threads": 1, "device": config.device}
    if config.memory_is_set:
        settings["memory"] = config.memory
    sizes = rows.array.chunks[0]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    cuts = [[a[i:j] for a in aligned] for i, j in pairwise(starts)]
    chunks = rows.array.to_delayed()[:, 0]
    results = [
        dask.delayed(_walk_chunk, nout=2)(fn, chunk, rows.dtype, params, cut, settings)
        for chunk, cut in zip(chunks, cuts, strict=True)
    ]
    # A lazy array must know the shape and dtype of the values: one row gives them.
    one = np.ones((1, rows.n_features), rows.dtype)
    first = [a[:1] for a in aligned]
    probe, sums = _walk_chunk(fn, one, rows.dtype, params, first, settings)
    per_row = None
    if probe is not None:
        parts = [
            da.from_delayed(r[0], shape=(n, *probe.shape[1:]), dtype=probe.dtype)
            for r, n in zip(results, sizes, strict=True)
        ]
        per_row = da.concatenate(parts, axis=0)
    if sums is None:
        return per_row, None
    # A tree on the workers: no task holds more than a few sums, and the order of additions is fixed.
    level = [r[1] for r in results]
    while len(level) > 1:
        groups = [level[i : i + _FAN_IN] for i in range(0, len(level), _FAN_IN)]
        level = [dask.delayed(_add)(*g) if len(g) > 1 else g[0] for g in groups]
    with one_blas_thread():
        return per_row, level[0].compute()


def _walk_chunk(
    fn: Callable[..., Any],
    chunk: Array,
    dtype: Any,
    params: tuple[Any, ...],
    aligned: Iterable[np.ndarray],
    settings: dict[str, Any],
) -> tuple[Array, Any]:
    """Walk over one chunk, inside a task."""
    with config_context(**settings):
        rows = as_rows(chunk, dtype)
        aligned = tuple(aligned)
        values, sums = map_rows_reduce(fn, rows, *params, aligned=aligned)
    return values, None if sums is None else rebuild(sums, [to_host(s) for s in sums])


def _add(*sums: tuple[Any, ...]) -> Any:
    return rebuild(sums[0], [sum(values[1:], values[0]) for values in zip(*sums, strict=True)])
