"""The walk: sum over blocks of f(block), or f(block) for every row, wherever the rows live.

On the CPU the blocks run on a pool of threads with one BLAS thread each, so that the part of an op
that is not BLAS scales too. Results are folded in the order of the blocks, in float64: the same
input and settings give the same bits on the CPU, whatever thread finished first.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from contextvars import ContextVar
from functools import cache
from itertools import pairwise
from threading import Lock
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from clusterica.arrays._config import active_config, config_context
from clusterica.arrays._namespace import Array, namespace_of, to_host
from clusterica.arrays._rows import DaskRows, Rows, as_rows

# float32 sums inside a block stay accurate up to about this many rows; float64 takes over between.
_MOST_ROWS_ON_HOST = 2**15
_MOST_ROWS_ON_DEVICE = 2**17
_BLOCKS_PER_THREAD = 4  # enough that threads of uneven speed end together
# Under these a block costs more to hand out than to compute; products are those of its rows with the
# parameters, or with each other.
_FEWEST_ROWS = 1024
_FEWEST_PRODUCTS = 2**23


def map_reduce(
    fn: Callable[..., tuple],
    rows: Rows,
    *params: Array | None,
    aligned: tuple[np.ndarray, ...] = (),
    row_bytes: int = 0,
) -> Any:
    """Return the sum over blocks of ``fn(block, *params, *aligned_blocks)``, a tuple of arrays.

    Parameters
    ----------
    fn : callable
        Pure function of a block; returns a tuple (or NamedTuple) of arrays, summed one by one.
    rows : Rows
        Where the rows are.
    *params : arrays
        Small arrays that every block needs; moved to where the blocks are, once.
    aligned : tuple of ndarray of shape (n_rows,)
        Arrays with a value per row, such as weights, cut as the rows are.
    row_bytes : int
        Working memory that fn needs for each row, besides the row; decides the block size.

    Returns
    -------
    tuple of float64 arrays, of the type that fn returns
    """
    return map_rows_reduce(_Sums(fn), rows, *params, aligned=aligned, row_bytes=row_bytes)[1]


def map_rows(
    fn: Callable[..., Array],
    rows: Rows,
    *params: Array | None,
    aligned: tuple[np.ndarray, ...] = (),
    row_bytes: int = 0,
) -> Array:
    """Return ``fn(block, *params, *aligned_blocks)`` of all blocks, joined along the rows.

    The parameters are those of :func:`map_reduce`. The result is in the library and on the device
    of the data; for a Dask array it is a Dask array, computed when asked for.
    """
    return map_rows_reduce(_PerRow(fn), rows, *params, aligned=aligned, row_bytes=row_bytes)[0]


def map_rows_reduce(
    fn: Callable[..., tuple[Array, tuple | None]],
    rows: Rows,
    *params: Array | None,
    aligned: tuple[np.ndarray, ...] = (),
    row_bytes: int = 0,
) -> tuple[Array, Any]:
    """Do both in one walk: fn returns ``(per_row, sums)``, either of which may be None."""
    params = tuple(None if p is None else rows.place(p) for p in params)
    if isinstance(rows, DaskRows):
        return _walk_dask(fn, rows, params, aligned, row_bytes)
    per_row, total = None, None
    with closing(_results(fn, rows, params, aligned, row_bytes)) as results:
        for start, stop, (values, sums) in results:
            if values is not None:
                # Block by block: the whole may not fit where the blocks are.
                values = rows.export(values)
                if per_row is None:
                    per_row = _empty_rows(values, rows.n_rows)
                per_row[start:stop, ...] = values
            if sums is not None:
                total = _fold(total, sums)
    return per_row, total


class _Sums:
    """A function of a block that gives sums only."""

    def __init__(self, fn: Callable[..., tuple]) -> None:
        self._fn = fn

    def __call__(self, *args: Any) -> tuple[None, tuple]:
        return None, self._fn(*args)


class _PerRow:
    """A function of a block that gives values per row only."""

    def __init__(self, fn: Callable[..., Array]) -> None:
        self._fn = fn

    def __call__(self, *args: Any) -> tuple[Array, None]:
        return self._fn(*args), None


def block_size(rows: Rows, row_bytes: int, n_parameters: int = 0) -> int:
    """Return how many rows a block may have for the blocks in flight to fit the memory budget.

    On the host no more blocks are made of them than are worth their while; the number of parameters, all
    their entries, says how much there is to do.
    """
    config = active_config()
    threads = config.n_threads if rows.on_host else 1
    in_flight = threads + 1 if rows.on_host else 1
    fits = rows.memory // (in_flight * (row_bytes + rows.row_nbytes))
    most = max(1, min(fits, _MOST_ROWS_ON_HOST if rows.on_host else _MOST_ROWS_ON_DEVICE))
    if not rows.on_host:
        return most
    # Equal blocks, as many as divide well among the threads.
    even = -(-rows.n_rows // (_BLOCKS_PER_THREAD * threads))
    worth = _FEWEST_PRODUCTS // (rows.n_features**2 + n_parameters)
    n_blocks = -(-rows.n_rows // min(most, max(even, worth, _FEWEST_ROWS)))
    if n_blocks > 1:
        n_blocks = -(-n_blocks // threads) * threads
    return max(1, min(most, -(-rows.n_rows // n_blocks)))


def _results(
    fn: Callable, rows: Rows, params: tuple, aligned: tuple, row_bytes: int
) -> Generator[tuple[int, int, Any], None, None]:
    """Yield (start, stop, result) of every block, in order, with a bounded number in flight."""
    size = block_size(rows, row_bytes, sum(math.prod(p.shape) for p in params if p is not None))
    threads = active_config().n_threads

    def run(start: int, stop: int, load: Callable) -> Any:
        return fn(load(), *params, *(_cut(rows, a, start, stop) for a in aligned))

    with worker_pool() as pool:
        if rows.on_host and threads == 1:
            pool.limit_blas()
        if not rows.on_host or threads == 1 or size >= rows.n_rows:
            for start, stop, load in rows.blocks(size):
                yield start, stop, run(start, stop, load)
            return
        pending: deque = deque()
        try:
            for start, stop, load in rows.blocks(size):
                pending.append((start, stop, pool.submit(run, start, stop, load)))
                if len(pending) > threads + 1:
                    first, last, future = pending.popleft()
                    yield first, last, future.result()
            while pending:
                first, last, future = pending.popleft()
                yield first, last, future.result()
        finally:
            for _, _, future in pending:
                future.cancel()


def _cut(rows: Rows, values: np.ndarray, start: int, stop: int) -> Array:
    """Return the values of some rows, where the rows are."""
    if values.strides == (0,) and not rows.on_host:
        one = rows.place(values[:1].copy())  # one number repeated: no need to send it for every row
        return namespace_of(one).broadcast_to(one, (stop - start,))
    return rows.place(np.ascontiguousarray(values[start:stop]))


@cache
def _blas_libraries() -> ThreadpoolController:
    """Return what controls the BLAS of NumPy and SciPy; looking for it takes milliseconds and memory."""
    return ThreadpoolController()


class _BlasLimit:
    """The limit of BLAS to one thread, shared by all fits of the process that run at the same time."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._users = 0
        self._limits: Any = None

    def enter(self) -> None:
        with self._lock:
            if self._users == 0:
                self._limits = _blas_libraries().limit(limits=1, user_api="blas")
            self._users += 1

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0 and self._limits is not None:
                self._limits.restore_original_limits()


_blas_limit = _BlasLimit()


@contextmanager
def _one_blas_thread() -> Iterator[None]:
    _blas_limit.enter()
    try:
        yield
    finally:
        _blas_limit.leave()


class _Pool:
    """Worker threads, started and BLAS limited to one thread each at the first use."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._limited = False
        self._executor: ThreadPoolExecutor | None = None

    def limit_blas(self) -> None:
        # The limit takes time, so a fit enters it once, not once a walk.
        if not self._limited:
            self._stack.enter_context(_one_blas_thread())
            self._limited = True

    def submit(self, *args: Any) -> Any:
        if self._executor is None:
            self.limit_blas()
            executor = ThreadPoolExecutor(active_config().n_threads)
            self._executor = self._stack.enter_context(executor)
        return self._executor.submit(*args)

    def close(self) -> None:
        self._stack.close()


_pool: ContextVar[_Pool | None] = ContextVar("clusterica_pool", default=None)


@contextmanager
def worker_pool() -> Iterator[_Pool]:
    """Keep one pool of worker threads for all walks inside the ``with`` block."""
    outer = _pool.get()
    if outer is not None:
        yield outer
        return
    pool = _Pool()
    token = _pool.set(pool)
    try:
        yield pool
    finally:
        _pool.reset(token)
        pool.close()


def _fold(total: Any, sums: tuple) -> Any:
    """Add the sums of a block to the total, in float64."""
    if total is None:
        return _rebuild(sums, [_float64(value) for value in sums])
    if all(isinstance(t, np.ndarray) for t in total):
        for t, value in zip(total, sums, strict=True):
            np.add(t, value, out=t)
        return total
    return _rebuild(sums, [t + _float64(v) for t, v in zip(total, sums, strict=True)])


def _add(a: tuple, b: tuple) -> Any:
    return _rebuild(a, [x + y for x, y in zip(a, b, strict=True)])


def _float64(value: Array) -> Array:
    if isinstance(value, float | np.ndarray | np.generic):
        return np.array(value, dtype=np.float64)
    xp = namespace_of(value)
    return xp.astype(value, xp.float64)


def _rebuild(like: tuple, values: list) -> Any:
    return type(like)(*values) if hasattr(like, "_fields") else tuple(values)


def _empty_rows(values: Array, n_rows: int) -> Array:
    shape = (n_rows, *values.shape[1:])
    if isinstance(values, np.ndarray):
        return np.empty(shape, values.dtype)
    xp = namespace_of(values)
    return xp.empty(shape, dtype=values.dtype, device=values.device)


def _walk_chunk(
    fn: Callable,
    chunk: Array,
    dtype: Any,
    params: tuple,
    aligned: Iterable[np.ndarray],
    row_bytes: int,
    settings: dict[str, Any],
) -> tuple[Array, Any]:
    """Walk over one chunk of a Dask array, inside a task."""
    with config_context(**settings):
        rows = as_rows(chunk, dtype)
        aligned = tuple(aligned)
        values, sums = map_rows_reduce(fn, rows, *params, aligned=aligned, row_bytes=row_bytes)
    return values, None if sums is None else _rebuild(sums, [to_host(s) for s in sums])


def _walk_dask(
    fn: Callable, rows: DaskRows, params: tuple, aligned: tuple, row_bytes: int
) -> tuple[Array, Any]:
    """Run fn on every chunk as a task: rows stay lazy, sums are added up in a tree and computed."""
    import dask
    import dask.array as da

    config = active_config()
    settings = {"threads": 1, "device": config.device}
    if config.memory_is_set:
        settings["memory"] = config.memory
    sizes = rows.array.chunks[0]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    cuts = [[a[i:j] for a in aligned] for i, j in pairwise(starts)]
    chunks = rows.array.to_delayed()[:, 0]
    results = [
        dask.delayed(_walk_chunk, nout=2)(fn, chunk, rows.dtype, params, cut, row_bytes, settings)
        for chunk, cut in zip(chunks, cuts, strict=True)
    ]
    one = np.ones((1, rows.n_features), rows.dtype)
    first = [a[:1] for a in aligned]
    probe, sums = _walk_chunk(fn, one, rows.dtype, params, first, row_bytes, settings)
    per_row = None
    if probe is not None:
        parts = [
            da.from_delayed(r[0], shape=(n, *probe.shape[1:]), dtype=probe.dtype)
            for r, n in zip(results, sizes, strict=True)
        ]
        per_row = da.concatenate(parts, axis=0)
    if sums is None:
        return per_row, None
    level = [r[1] for r in results]
    while len(level) > 1:
        pairs = [level[i : i + 2] for i in range(0, len(level), 2)]
        level = [dask.delayed(_add)(*p) if len(p) == 2 else p[0] for p in pairs]
    with _one_blas_thread():
        return per_row, level[0].compute()
