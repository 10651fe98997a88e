"""The walk: sum over blocks of f(block), or f(block) for every row, wherever the rows are stored.

Results are folded in the order of the blocks, in float64: the same input and settings give the same
bits on the CPU, whatever thread finished first.

An op may add up a block tile by tile, so that what is made on the way stays in the cache: :func:`in_tiles`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from functools import partial, wraps
from typing import Any, NamedTuple, TypeVar

import numpy as np

from clusterica.arrays import _stream
from clusterica.arrays._place import (
    Array,
    active_config,
    device_of,
    is_host_array,
    namespace_of,
)
from clusterica.arrays._rows import Rows
from clusterica.arrays._scheduler import in_order, pieces
from clusterica.arrays._twins import for_place

Op = TypeVar("Op", bound=Callable[..., Any])
Sums = TypeVar("Sums", bound=NamedTuple)


# Rows of a block on the host. float32 sums inside a block stay accurate up to about this many, or four times
# as many on a device; float64 takes over between blocks.
MOST_ROWS = 2**15


class Row(NamedTuple):
    """A row of a block, as :func:`working_memory` describes it to an op."""

    n_features: int
    itemsize: int
    """Bytes of a number."""
    nbytes: int
    """Bytes of the row; the mean of them for CSR."""
    is_numpy: bool
    """Whether blocks are NumPy or CSR, for which compiled code needs less."""


def working_memory(
    row_bytes: Callable[..., int],
    *,
    wide_sums: bool = False,
    marks_overflow: bool | Callable[[Any], bool] = False,
) -> Callable[[Op], Op]:
    """State, beside an op, the bytes that it needs for each row; they decide the size of blocks.

    Parameters
    ----------
    row_bytes : callable
        ``row_bytes(row, *params)`` returns the bytes for intermediate arrays and the result, without
        the row itself. ``row`` is a :class:`Row`, and the parameters are those of the walk; a method
        gets its ``self`` first.
    wide_sums : bool, default=False
        Whether sums inside a block are in float64, so that blocks on a device may have any number of rows.
    marks_overflow : bool or callable, default=False
        Whether the first value of a row is NaN if any is not finite, in NumPy arrays. The walk then looks at
        one column for overflow, and not at all. For a method it may depend on ``self``.

    Examples
    --------
    >>> from clusterica.arrays import working_memory
    >>> @working_memory(lambda row, W: row.itemsize * len(W))
    ... def responses(X, W):
    ...     return X @ W.T
    """

    def state(op: Op) -> Op:
        op.row_bytes = row_bytes  # type: ignore[attr-defined]
        op.wide_sums = wide_sums  # type: ignore[attr-defined]
        op.marks_overflow = marks_overflow  # type: ignore[attr-defined]
        return op

    return state


def map_reduce(
    fn: Callable[..., tuple[Any, ...]],
    rows: Rows,
    *params: Array | None,
    aligned: tuple[np.ndarray, ...] = (),
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
    return map_rows_reduce(_Sums(fn), rows, *params, aligned=aligned)[1]


def map_rows(
    fn: Callable[..., Array],
    rows: Rows,
    *params: Array | None,
    aligned: tuple[np.ndarray, ...] = (),
) -> Array:
    """Return ``fn(block, *params, *aligned_blocks)`` of all blocks, joined along the rows.

    The parameters are those of :func:`map_reduce`. The result is in the library and on the device
    of the data; for a Dask array it is a Dask array, computed when asked for.
    """
    return map_rows_reduce(_PerRow(fn), rows, *params, aligned=aligned)[0]


def map_rows_reduce(
    fn: Callable[..., tuple[Array, tuple[Any, ...] | None]],
    rows: Rows,
    *params: Array | None,
    aligned: tuple[np.ndarray, ...] = (),
) -> tuple[Array, Any]:
    """Do both in one walk: fn returns ``(per_row, sums)``, either of which may be None."""
    if rows.engine is not None:
        from clusterica.arrays.engines import ChunkRows, walk_chunks

        assert isinstance(rows, ChunkRows)
        return walk_chunks(fn, rows, params, aligned)
    if not rows.place.is_numpy:
        fn = for_place(fn, rows.place, rows.dtype)
    params = tuple(None if p is None else rows.place.put(p) for p in params)
    per_row: Any = None
    total: Any = None
    inbox: _stream.Inbox | None = None
    with closing(_results(fn, rows, params, aligned)) as results:
        for start, stop, (values, sums) in results:
            if values is not None and rows.sent and _stream.can_receive(values, rows.home):
                if inbox is None:
                    per_row = _stream.room_for(values, rows.n_rows)
                    inbox = _stream.Inbox(per_row)
                inbox.put(values, slice(start, stop))
            elif values is not None:
                # Block by block: the whole may not fit where the blocks are.
                values = rows.home.put(values)
                if per_row is None:
                    shape = (rows.n_rows, *values.shape[1:])
                    xp = namespace_of(values)
                    per_row = xp.empty(shape, dtype=values.dtype, device=values.device)
                per_row[start:stop, ...] = values
            if sums is None:
                continue
            if total is None:
                total = rebuild(sums, [_float64(value) for value in sums])
            elif all(isinstance(t, np.ndarray) for t in total):
                # In place: a Gram matrix may be as large as the memory budget.
                for t, value in zip(total, sums, strict=True):
                    np.add(t, value, out=t)
            else:
                total = rebuild(sums, [t + _float64(v) for t, v in zip(total, sums, strict=True)])
    if inbox is not None:
        inbox.finish()
    return per_row, total


def transform_rows(fn: Callable[..., Array], rows: Rows, *params: Array | None) -> Array:
    """Return ``fn(block, *params)`` of all blocks, as ``transform`` of an estimator does.

    An array as of :func:`map_rows`, or rows that are computed lazily: the setting ``lazy`` of
    :func:`clusterica.config_context` decides.
    """
    lazy = lazy_rows(fn, rows, *params)
    return map_rows(fn, rows, *params) if lazy is None else lazy


def lazy_rows(fn: Callable[..., Array], rows: Rows, *params: Array | None) -> Array | None:
    """Return the lazy result of :func:`transform_rows`, or None if it is to be an array."""
    config = active_config()
    if rows.engine is not None:
        return map_rows(fn, rows, *params)  # of Dask a lazy array
    # Tensors on a device give tensors there, and arrays in memory give arrays, unless the user asks
    # otherwise.
    if not rows.home.on_host or config.lazy is False or not (config.lazy is True or rows.streamed):
        return None
    from clusterica.arrays._lazy import LazyRows

    lazy = LazyRows(fn, rows, params)
    return lazy if config.lazy is True or lazy.nbytes > config.memory else None


class _Sums:
    """A function of a block that gives sums only."""

    def __init__(self, fn: Callable[..., tuple[Any, ...]]) -> None:
        self.fn = fn

    def __call__(self, *args: Any) -> tuple[None, tuple[Any, ...]]:
        return None, self.fn(*args)


class _PerRow:
    """A function of a block that gives values per row only."""

    def __init__(self, fn: Callable[..., Array]) -> None:
        self.fn = fn

    def __call__(self, *args: Any) -> tuple[Array, None]:
        return self.fn(*args), None


def only_sums(fn: Callable[..., Any]) -> bool:
    """Return whether a function of :func:`map_rows_reduce` is known to give no values per row."""
    return isinstance(fn, _Sums)


def row_bytes_of(fn: Callable[..., Any], row: Row, params: tuple[Any, ...]) -> int:
    """Return the bytes that an op says it needs for each row; two copies in float64 by default."""
    if isinstance(fn, _Sums | _PerRow):
        return row_bytes_of(fn.fn, row, params)
    if isinstance(fn, partial):
        return row_bytes_of(fn.func, row, (*fn.args, *params))
    stated = getattr(fn, "row_bytes", None)
    # Functions of a user need not state anything; two copies are what simple ones make.
    if stated is None:
        return 16 * row.n_features
    # A bound method: the statement was written for the function, which takes self.
    itself = (fn.__self__,) if hasattr(fn, "__self__") else ()
    return int(stated(*itself, row, *params))


def states(fn: Any, name: str) -> bool:
    """Return whether an op states "wide_sums" or "marks_overflow" in its :func:`working_memory`."""
    if isinstance(fn, _Sums | _PerRow):
        return states(fn.fn, name)
    fn = fn.func if isinstance(fn, partial) else fn
    stated = getattr(fn, name, False)
    # What a method states may depend on its object.
    if callable(stated) and hasattr(fn, "__self__"):
        stated = stated(fn.__self__)
    return bool(stated)


def block_size(
    rows: Rows, row_bytes: int, n_parameters: int = 0, *, wide_sums: bool = False
) -> int:
    """Return how many rows a block may have for the blocks in flight to fit the memory budget.

    On the host small blocks are joined until each is worth handing to a thread; the number of
    parameters, all their entries, says how much work a row is.
    """
    is_numpy = rows.place.is_numpy
    threads = active_config().n_threads if is_numpy else 1
    # Each thread has a block, and one more waits for the fold; a device works on one at a time.
    in_flight = threads + 1 if is_numpy else 1
    fits = rows.place.memory // (in_flight * (row_bytes + rows.load_nbytes))
    if rows.sent:
        # A second block is on its way, and half of a budget that was set is for rows that stay there.
        budget = rows.place.memory // (2 if active_config().memory_is_set else 1)
        fits = budget // (row_bytes + 2 * rows.load_nbytes)
        # Rows that are there leave less room for more, and need none.
        stay = rows._kept is not None or _stream.fits(rows)
        fits = fits if stay else min(fits, _stream.most_rows(rows))
    if wide_sums and not is_numpy:
        return max(1, fits)
    most = max(1, min(fits, MOST_ROWS if is_numpy else 2**17))
    if not is_numpy:
        return most
    # Products for each row, of its entries with parameters or with each other; sparse rows have few.
    entries = rows.row_nbytes // (rows.dtype.itemsize + 8) if rows.sparse else rows.n_features
    work = max(1, entries**2 + n_parameters * entries // rows.n_features)
    # At most 2**34 products, half a second on one core, so that Ctrl-C is answered. Not fewer than 4096 rows:
    # the sums of a block may be as large as the parameters, and are added up for each.
    most = min(most, max(4096, 2**34 // work))
    # Equal blocks, four for each thread: enough that threads of uneven speed end together. Blocks of
    # fewer than 1024 rows or 2**23 products cost more to hand out than to compute: measured with K-means
    # and moments of 5,000 x 20 to 100,000 x 20 rows.
    even = -(-rows.n_rows // (4 * threads))
    worth = 2**23 // work
    # Nor less than 64 products for each parameter, as long as every thread has a block: the sums of a block
    # are made and added up for each, which takes as long as 35 products (K-means of TF-IDF, 15,271 x 9,986
    # with 46 words a row and k = 100). Only sparse rows, with few products for a parameter, come near it.
    worth = max(worth, min(64 * n_parameters // work, -(-rows.n_rows // threads)))
    n_blocks = -(-rows.n_rows // min(most, max(even, worth, 1024)))
    if n_blocks > 1:  # a multiple of the threads, so that none is idle at the end
        n_blocks = -(-n_blocks // threads) * threads
    return max(1, min(most, -(-rows.n_rows // n_blocks)))


def _results(
    fn: Callable[..., Any],
    rows: Rows,
    params: tuple[Any, ...],
    aligned: tuple[np.ndarray, ...],
) -> Generator[tuple[int, int, Any], None, None]:
    """Yield (start, stop, result) of every block, in order, with a bounded number in flight."""
    row = Row(rows.n_features, rows.dtype.itemsize, rows.row_nbytes, rows.place.is_numpy)
    row_bytes = row_bytes_of(fn, row, params)
    n_parameters = sum(math.prod(p.shape) for p in params if p is not None)
    size = block_size(rows, row_bytes, n_parameters, wide_sums=states(fn, "wide_sums"))
    marked = states(fn, "marks_overflow")

    def run(start: int, stop: int, load: Callable[[], Array]) -> tuple[int, int, Any]:
        values = []
        for a in aligned:
            if a.strides == (0,) and not rows.place.is_numpy:
                # One number repeated, such as unit weights: the device writes it itself, once.
                xp, like = namespace_of(rows.place.like), rows.place.like
                dtype = getattr(xp, a.dtype.name)
                one = xp.full((1,), a[0].item(), dtype=dtype, device=device_of(like))
                values.append(xp.broadcast_to(one, (stop - start,)))
            else:
                values.append(rows.place.put(np.ascontiguousarray(a[start:stop])))
        # The block is loaded here, in the worker thread: reading a file or copying runs in parallel too.
        block = load()
        # Overflow shows in the result, where it is an error that names the remedy.
        with np.errstate(over="ignore", invalid="ignore"), rows.place.launching():
            result = fn(block, *params, *values)
        # Of tensors the check would wait for the device.
        if isinstance(result[0], np.ndarray):
            check_overflow(result[0][:, :1] if marked else result[0], start)
        return start, stop, result

    # One block stays in this thread and leaves BLAS its own, unless the user asked for one thread.
    if rows.place.is_numpy and (size < rows.n_rows or active_config().n_threads == 1):
        yield from in_order(run, rows.blocks(size))
    else:
        for block in rows.blocks(size):
            yield run(*block)


def check_overflow(
    values: Array,
    start: int,
    what: str = "row",
    remedy: str = "scale X down before fit, or pass float64",
) -> None:
    """Refuse results, from row or image ``start`` on, that are not finite: X is, so that they overflowed."""
    if not isinstance(values, np.ndarray) or values.dtype.kind != "f":
        return
    # One product by BLAS shows that nearly all blocks are finite, in a third of the time of a sum: 1.5 % of
    # whitening 108 features (CPU time). It was 6 % of 800 soft thresholds of them, which are now marked.
    flat = values.ravel(order="K")
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(np.vdot(flat, flat)):
            return
    bad = ~np.isfinite(values.reshape(len(values), -1)).all(axis=1)
    if bad.any():
        raise ValueError(
            f"the result for {what} {start + int(bad.argmax())} of X overflows {values.dtype}: its values, "
            f"or what was learned, are too large; {remedy}"
        )


def _float64(value: Array) -> Array:
    if isinstance(value, int | float | np.ndarray | np.generic):
        return np.array(value, dtype=np.float64)
    xp = namespace_of(value)
    return xp.astype(value, xp.float64, copy=False)


def rebuild(like: tuple[Any, ...], values: list[Any]) -> Any:
    """Return the values as a tuple of the same type, which may be a NamedTuple."""
    return type(like)(*values) if hasattr(like, "_fields") else tuple(values)


# --- Tiles of a block ---------------------------------------------------------------------------------

# Numbers in the widest array that a function makes of a tile: a few such arrays fit the cache.
TILE = 2**15
# Rows that a tile has at least, however wide they are: each tile adds its sums to those before. Moments of
# 3,200 features take a twentieth of the time that they take with tiles of 5 rows, RICA with 1,600 filters of
# 192 pixels two thirds of that with 20 rows; 512 rows were no faster.
TILE_ROWS = 256


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
    # Tiles of a small block are a quarter of it, so that they take less memory than it does; but 4096 numbers
    # at least, so that calls do not outweigh the work.
    numbers = min(TILE, max(2**12, X.shape[0] * width // 4))
    size = max(TILE_ROWS, numbers // width)
    if not is_host_array(X) or X.shape[0] <= size:
        return fn(X, *params)
    return sum_parts(fn(X[part], *params) for part in pieces(X.shape[0], size))


def sum_parts(parts: Iterable[Sums]) -> Sums:
    """Return the sum of named tuples of host arrays, one or more, in float64."""
    total: Any = None
    for sums in parts:
        if total is None:
            total = [np.array(value, dtype=np.float64) for value in sums]
        else:
            for t, value in zip(total, sums, strict=True):
                t += value
    return type(sums)(*total)


def in_tiles(width: Callable[..., int]) -> Callable[[Callable[..., Sums]], Callable[..., Sums]]:
    """Make a function of a block run tile by tile; ``width(X, *params)`` is as in :func:`sum_tiles`.

    The function of the whole block, the reference for tests, is the ``__wrapped__`` of the result.
    """

    def tiled(fn: Callable[..., Sums]) -> Callable[..., Sums]:
        @wraps(fn)
        def run(X: Array, *params: Array, **settings: Any) -> Sums:
            return sum_tiles(partial(fn, **settings), X, *params, width=width(X, *params))

        return run

    return tiled
