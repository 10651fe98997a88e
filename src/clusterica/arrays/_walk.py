"""The walk: sum over blocks of f(block), or f(block) for every row, wherever the rows live.

Results are folded in the order of the blocks, in float64: the same input and settings give the same
bits on the CPU, whatever thread finished first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from contextlib import closing
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np

from clusterica.arrays._config import active_config
from clusterica.arrays._namespace import Array, namespace_of
from clusterica.arrays._rows import DaskRows, Rows
from clusterica.arrays._schedule import in_order

Op = TypeVar("Op", bound=Callable[..., Any])


class Row(NamedTuple):
    """A row of a block, as :func:`working_memory` describes it to an op."""

    n_features: int
    itemsize: int
    """Bytes of a number."""
    nbytes: int
    """Bytes of the row; the mean of them for CSR."""
    is_numpy: bool
    """Whether blocks are NumPy or CSR, for which compiled code needs less."""


def working_memory(row_bytes: Callable[..., int]) -> Callable[[Op], Op]:
    """State, beside an op, the bytes that it needs for each row; they decide the size of blocks.

    Parameters
    ----------
    row_bytes : callable
        ``row_bytes(row, *params)`` returns the bytes for intermediate arrays and the result, without
        the row itself. ``row`` is a :class:`Row`, and the parameters are those of the walk; a method
        gets its ``self`` first.

    Examples
    --------
    >>> from clusterica.arrays import working_memory
    >>> @working_memory(lambda row, W: row.itemsize * len(W))
    ... def responses(X, W):
    ...     return X @ W.T
    """

    def state(op: Op) -> Op:
        op.row_bytes = row_bytes  # type: ignore[attr-defined]
        return op

    return state


def map_reduce(
    fn: Callable[..., tuple],
    rows: Rows,
    *params: Array | None,
    aligned: tuple[np.ndarray, ...] = (),
    row_bytes: int | None = None,
) -> Any:
    """Return the sum over blocks of ``fn(block, *params, *aligned_blocks)``, a tuple of arrays.

    Parameters
    ----------
    fn : callable
        Pure function of a block that states its :func:`working_memory`; returns a tuple (or NamedTuple)
        of arrays, summed one by one.
    rows : Rows
        Where the rows are.
    *params : arrays
        Small arrays that every block needs; moved to where the blocks are, once.
    aligned : tuple of ndarray of shape (n_rows,)
        Arrays with a value per row, such as weights, cut as the rows are.

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
    row_bytes: int | None = None,
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
    row_bytes: int | None = None,
) -> tuple[Array, Any]:
    """Do both in one walk: fn returns ``(per_row, sums)``, either of which may be None."""
    if isinstance(rows, DaskRows):
        from clusterica.arrays._dask import walk_dask

        return walk_dask(fn, rows, params, aligned, row_bytes)
    params = tuple(None if p is None else rows.place.put(p) for p in params)
    per_row, total = None, None
    with closing(_results(fn, rows, params, aligned, row_bytes)) as results:
        for start, stop, (values, sums) in results:
            if values is not None:
                # Block by block: the whole may not fit where the blocks are.
                values = rows.home.put(values)
                if per_row is None:
                    per_row = _empty_rows(values, rows.n_rows)
                per_row[start:stop, ...] = values
            if sums is not None:
                total = _fold(total, sums)
    return per_row, total


class _Sums:
    """A function of a block that gives sums only."""

    def __init__(self, fn: Callable[..., tuple]) -> None:
        self.fn = fn

    def __call__(self, *args: Any) -> tuple[None, tuple]:
        return None, self.fn(*args)


class _PerRow:
    """A function of a block that gives values per row only."""

    def __init__(self, fn: Callable[..., Array]) -> None:
        self.fn = fn

    def __call__(self, *args: Any) -> tuple[Array, None]:
        return self.fn(*args), None


def row_bytes_of(fn: Callable[..., Any], rows: Rows, params: tuple[Any, ...]) -> int:
    """Return the bytes that an op says it needs for each row; two copies in float64 if it says nothing."""
    if isinstance(fn, _Sums | _PerRow):
        return row_bytes_of(fn.fn, rows, params)
    if isinstance(fn, partial):
        return row_bytes_of(fn.func, rows, (*fn.args, *params))
    row = Row(rows.n_features, rows.dtype.itemsize, rows.row_nbytes, rows.place.is_numpy)
    stated = getattr(fn, "row_bytes", None)
    if stated is None:
        return 16 * rows.n_features
    itself = (fn.__self__,) if hasattr(fn, "__self__") else ()
    return int(stated(*itself, row, *params))


def block_size(rows: Rows, row_bytes: int, n_parameters: int = 0) -> int:
    """Return how many rows a block may have for the blocks in flight to fit the memory budget.

    On the host small blocks are joined until each is worth handing to a thread; the number of
    parameters, all their entries, says how much work a row is.
    """
    is_numpy = rows.place.is_numpy
    threads = active_config().n_threads if is_numpy else 1
    in_flight = threads + 1 if is_numpy else 1
    fits = rows.place.memory // (in_flight * (row_bytes + rows.row_nbytes))
    # float32 sums inside a block stay accurate up to about this many rows; float64 takes over between.
    most = max(1, min(fits, 2**15 if is_numpy else 2**17))
    if not is_numpy:
        return most
    # Equal blocks, four for each thread: enough that threads of uneven speed end together. Blocks of
    # fewer than 1024 rows or 2**23 products (of rows with parameters, or with each other) cost more to
    # hand out than to compute: measured with K-means and moments of 5,000 x 20 to 100,000 x 20 rows.
    even = -(-rows.n_rows // (4 * threads))
    worth = 2**23 // (rows.n_features**2 + n_parameters)
    n_blocks = -(-rows.n_rows // min(most, max(even, worth, 1024)))
    if n_blocks > 1:
        n_blocks = -(-n_blocks // threads) * threads
    return max(1, min(most, -(-rows.n_rows // n_blocks)))


def _results(
    fn: Callable[..., Any],
    rows: Rows,
    params: tuple[Any, ...],
    aligned: tuple[np.ndarray, ...],
    row_bytes: int | None,
) -> Generator[tuple[int, int, Any], None, None]:
    """Yield (start, stop, result) of every block, in order, with a bounded number in flight."""
    row_bytes = row_bytes_of(fn, rows, params) if row_bytes is None else row_bytes
    size = block_size(rows, row_bytes, sum(math.prod(p.shape) for p in params if p is not None))

    def run(start: int, stop: int, load: Callable[[], Array]) -> tuple[int, int, Any]:
        values = (_cut(rows, a, start, stop) for a in aligned)
        return start, stop, fn(load(), *params, *values)

    # One block stays in this thread and leaves BLAS its own, unless the user asked for one thread.
    if rows.place.is_numpy and (size < rows.n_rows or active_config().n_threads == 1):
        yield from in_order(run, rows.blocks(size))
    else:
        for block in rows.blocks(size):
            yield run(*block)


def _cut(rows: Rows, values: np.ndarray, start: int, stop: int) -> Array:
    """Return the values of some rows, where the rows are."""
    if values.strides == (0,) and not rows.place.is_numpy:
        one = rows.place.put(
            values[:1].copy()
        )  # one number repeated: no need to send it for every row
        return namespace_of(one).broadcast_to(one, (stop - start,))
    return rows.place.put(np.ascontiguousarray(values[start:stop]))


def _fold(total: Any, sums: tuple) -> Any:
    """Add the sums of a block to the total, in float64."""
    if total is None:
        return rebuild(sums, [_float64(value) for value in sums])
    if all(isinstance(t, np.ndarray) for t in total):
        for t, value in zip(total, sums, strict=True):
            np.add(t, value, out=t)
        return total
    return rebuild(sums, [t + _float64(v) for t, v in zip(total, sums, strict=True)])


def _float64(value: Array) -> Array:
    if isinstance(value, float | np.ndarray | np.generic):
        return np.array(value, dtype=np.float64)
    xp = namespace_of(value)
    return xp.astype(value, xp.float64)


def rebuild(like: tuple[Any, ...], values: list[Any]) -> Any:
    """Return the values as a tuple of the same type, which may be a NamedTuple."""
    return type(like)(*values) if hasattr(like, "_fields") else tuple(values)


def _empty_rows(values: Array, n_rows: int) -> Array:
    shape = (n_rows, *values.shape[1:])
    if isinstance(values, np.ndarray):
        return np.empty(shape, values.dtype)
    xp = namespace_of(values)
    return xp.empty(shape, dtype=values.dtype, device=values.device)
