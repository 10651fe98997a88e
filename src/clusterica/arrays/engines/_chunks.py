"""Rows on a cluster: what an engine can do, the chunks that it holds, and the walk over them.

A walk is one task for each chunk, ``f(chunk)``, and a tree of tasks that add up what these return. Rows never
leave the cluster, and only the last sum is fetched. Nothing above this file knows about engines.
"""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from operator import getitem, itemgetter
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from clusterica.arrays._place import (
    Array,
    active_config,
    config_context,
    get_config,
    to_host,
    working_dtype,
)
from clusterica.arrays._rows import ArrayRows, Block, Rows, as_rows, fetched, host_block
from clusterica.arrays._walk import map_rows_reduce, only_sums, rebuild

Handle = Any
"""Stands for a value on the cluster, or for one that will be computed there."""


class Engine(ABC):
    """A cluster that holds chunks of rows and runs tasks beside them: all that the walk asks of it."""

    @abstractmethod
    def send(self, value: Any) -> Handle:
        """Send a value to the cluster once, for any number of tasks; it must survive the loss of a worker."""

    @abstractmethod
    def submit(self, fn: Callable[..., Any], *args: Any) -> Handle:
        """Run ``fn(*args)`` on the cluster, now or when it is fetched; the result stays there.

        Handles among the arguments stand for their values. If a worker is lost, its tasks run on another.
        """

    @abstractmethod
    def fetch(self, handles: list[Handle]) -> list[Any]:
        """Return values."""

    @abstractmethod
    def join(self, handles: list[Handle], lengths: tuple[int, ...], like: np.ndarray) -> Array:
        """Return chunks of results as users of the engine expect them; ``like`` has one row of the result."""

    @abstractmethod
    def keep(self, handles: list[Handle], nbytes: int) -> list[Handle] | None:
        """Return handles whose values are computed once and stay in memory; None if there is no room."""


@dataclass(frozen=True)
class Chunks:
    """An array on a cluster, cut into chunks along its first axis: rows, or images."""

    engine: Engine
    handles: list[Handle]
    lengths: tuple[int, ...]
    row_shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def __len__(self) -> int:
        return sum(self.lengths)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the whole array."""
        return len(self), *self.row_shape

    @property
    def starts(self) -> np.ndarray:
        """Place of the first row of every chunk."""
        return np.cumsum([0, *self.lengths[:-1]])

    def map(self, fn: Callable[..., Any], *shared: Any) -> list[Handle]:
        """Submit ``fn(chunk, *shared)`` for every chunk; the shared values are sent once."""
        job = self.engine.send((fn, shared))
        return [self.engine.submit(_apply, job, handle) for handle in self.handles]

    def kept(self) -> Chunks:
        """Return the same chunks, computed once and kept on the cluster; themselves if it has no room."""
        nbytes = len(self) * int(np.prod(self.row_shape)) * self.dtype.itemsize
        handles = self.engine.keep(self.handles, nbytes)
        return self if handles is None else replace(self, handles=handles)

    def pick(self, indices: np.ndarray) -> Chunks:
        """Return the rows at sorted indices, on the cluster."""
        ends = np.searchsorted(indices, [*self.starts, len(self)])
        parts = [
            (handle, indices[low:high] - start)
            for handle, start, low, high in zip(
                self.handles, self.starts, ends[:-1], ends[1:], strict=True
            )
            if high > low
        ]
        handles = [self.engine.submit(getitem, handle, own) for handle, own in parts]
        return replace(self, handles=handles, lengths=tuple(len(own) for _, own in parts))

    def fetch(self) -> Any:
        """Return all rows in host memory, as NumPy or CSR."""
        parts = [to_host(part) for part in self.engine.fetch(self.handles)]
        if not parts:
            return np.empty(self.shape, self.dtype)
        return sp.vstack(parts, format="csr") if sp.issparse(parts[0]) else np.concatenate(parts)


def map_chunks(
    fn: Callable[..., Array], chunks: Chunks, *shared: Any, like: np.ndarray, keep: bool = False
) -> Array:
    """Return ``fn(chunk, *shared)`` of every chunk, joined along the rows, as an array of the engine.

    ``fn`` runs inside a task, with one thread. ``like`` has a row of the result, for its shape and dtype.
    With ``keep`` the result stays in the memory of the cluster, if there is room.
    """

    def run(chunk: Array, settings: dict[str, Any], *shared: Any) -> Any:
        with config_context(**settings):
            return fn(chunk, *shared)

    handles = chunks.map(run, _task_settings(), *shared)
    result = replace(chunks, handles=handles, row_shape=like.shape[1:], dtype=like.dtype)
    result = result.kept() if keep else result
    return chunks.engine.join(result.handles, chunks.lengths, like)


class ChunkRows(Rows):
    """Rows of an array on a cluster; each chunk is a task of its engine."""

    def __init__(self, chunks: Chunks, dtype: Any = None) -> None:
        super().__init__()
        self.place = self.home  # the tasks send their own chunks to a device, if there is one
        self.engine, self.chunks = chunks.engine, chunks
        self.n_rows, self.n_features = chunks.shape
        self.dtype = working_dtype(chunks.dtype) if dtype is None else np.dtype(dtype)
        self._kept_chunks: Chunks | None = None
        self._sent: list[tuple[weakref.ref[np.ndarray], list[Handle]]] = []

    @property
    def kept(self) -> Chunks:
        """The chunks, in the memory of the cluster, if it has room, once they have been asked for."""
        if self._kept_chunks is None:
            self._kept_chunks = self.chunks.kept()
        return self._kept_chunks

    @property
    def indexable(self) -> bool:  # type: ignore[override]
        """Whether single rows can be reached without computing all of them: those that are kept can."""
        return self.kept is not self.chunks

    def _blocks(self, size: int) -> Iterator[Block]:
        for start, handle in zip(self.chunks.starts, self.kept.handles, strict=True):
            rows = ArrayRows(to_host(self.engine.fetch([handle])[0]), self.dtype)
            for first, last, load in rows._blocks(size):
                yield int(start) + first, int(start) + last, load

    def take(self, indices: np.ndarray) -> Array:
        """Return the rows at the sorted indices in host memory, as NumPy or CSR."""
        return host_block(self.kept.pick(indices).fetch(), self.dtype)

    def subset(self, indices: np.ndarray) -> Rows:
        """Return the rows at the sorted indices as rows that stay on the cluster."""
        return ChunkRows(self.kept.pick(indices), self.dtype)

    def in_model(self, values: Array) -> Array:
        """Return values of rows as a NumPy array, so that a fitted model needs no cluster."""
        return fetched(values)

    def send_aligned(self, values: np.ndarray) -> list[Handle]:
        """Return handles of the values of each chunk, one value per row; an array is sent only once.

        It must not be changed while it is in use: a fit makes new weights rather than changing old ones.
        """
        self._sent = [(known, handles) for known, handles in self._sent if known() is not None]
        for known, handles in self._sent:
            if known() is values:
                return handles
        if values.strides == (0,):
            # One number repeated, such as unit weights.
            handles = [self.engine.send(values[:1].copy())] * len(self.chunks.lengths)
        else:
            ends = self.chunks.starts + self.chunks.lengths
            pairs = zip(self.chunks.starts, ends, strict=True)
            handles = [self.engine.send(np.ascontiguousarray(values[i:j])) for i, j in pairs]
        self._sent.append((weakref.ref(values), handles))
        return handles


class _Job(NamedTuple):
    """What all tasks of a walk share."""

    fn: Callable[..., Any]
    params: tuple[Any, ...]
    dtype: np.dtype[Any]
    settings: dict[str, Any]


def walk_chunks(
    fn: Callable[..., Any],
    rows: ChunkRows,
    params: tuple[Any, ...],
    aligned: tuple[np.ndarray, ...],
) -> tuple[Array, Any]:
    """Return the values of all rows, joined by the engine, and the sums, of :func:`map_rows_reduce`."""
    engine = rows.engine
    host = tuple(None if p is None else to_host(p) for p in params)
    job = _Job(fn, host, rows.dtype, _task_settings())
    like = sums = None
    if not only_sums(fn):
        # What a row gives must be known before it is computed: a row of ones shows it.
        one = np.ones((1, rows.n_features), rows.dtype)
        like, sums = _both(job, one, *(a[:1] for a in aligned))
    if like is None:
        return None, _total(engine, _results(_sums, job, rows, rows.kept, aligned))
    like = to_host(like)
    if sums is None:
        # Lazy where the engine is: so of the data as it is given, not of what is kept for this fit.
        handles = _results(_values, job, rows, rows.chunks, aligned)
        return engine.join(handles, rows.chunks.lengths, like), None
    both = _results(_both, job, rows, rows.kept, aligned)
    both = engine.keep(both, rows.n_rows * like.nbytes) or both
    values = [engine.submit(itemgetter(0), pair) for pair in both]
    total = _total(engine, [engine.submit(itemgetter(1), pair) for pair in both])
    return engine.join(values, rows.chunks.lengths, like), total


def _results(
    task: Callable[..., Any],
    job: _Job,
    rows: ChunkRows,
    chunks: Chunks,
    aligned: tuple[np.ndarray, ...],
) -> list[Handle]:
    """Submit a task for every chunk."""
    shared = rows.engine.send(job)
    beside = zip(*(rows.send_aligned(a) for a in aligned), strict=True) if aligned else None
    cuts = [()] * len(chunks.handles) if beside is None else list(beside)
    return [
        rows.engine.submit(task, shared, handle, *cut)
        for handle, cut in zip(chunks.handles, cuts, strict=True)
    ]


def _total(engine: Engine, level: list[Handle]) -> Any:
    """Add up in a tree: no task holds more than a few sums, and the order of additions is fixed."""
    while len(level) > 1:
        # Pairs would take seven times as many tasks as groups of eight, and each costs the scheduler about as
        # much as one over a chunk.
        groups = [level[i : i + 8] for i in range(0, len(level), 8)]
        level = [engine.submit(_add, *g) if len(g) > 1 else g[0] for g in groups]
    return engine.fetch(level)[0]


# --- Inside a task ------------------------------------------------------------------------------------


def _task_settings() -> dict[str, Any]:
    """Return the settings of the caller that hold in a task."""
    config = active_config()
    # An engine runs a task on every core; threads of ours would compete with them.
    settings: dict[str, Any] = get_config() | {"threads": 1, "lazy": False}
    if not config.memory_is_set:
        del settings["memory"]  # a GPU of the worker may have more
    return settings


def _both(job: _Job, chunk: Array, *aligned: np.ndarray) -> tuple[Any, Any]:
    """Walk over one chunk, and return the values of its rows and the sums."""
    with config_context(**job.settings):
        rows = as_rows(chunk, job.dtype)
        # Unit weights come as one number.
        beside = tuple(np.broadcast_to(a, (rows.n_rows, *a.shape[1:])) for a in aligned)
        values, sums = map_rows_reduce(job.fn, rows, *job.params, aligned=beside)
    return values, None if sums is None else rebuild(sums, [to_host(s) for s in sums])


def _values(job: _Job, chunk: Array, *aligned: np.ndarray) -> Any:
    return _both(job, chunk, *aligned)[0]


def _sums(job: _Job, chunk: Array, *aligned: np.ndarray) -> Any:
    return _both(job, chunk, *aligned)[1]


def _add(*sums: tuple[Any, ...]) -> Any:
    return rebuild(sums[0], [sum(values[1:], values[0]) for values in zip(*sums, strict=True)])


def _apply(job: tuple[Callable[..., Any], tuple[Any, ...]], chunk: Array) -> Any:
    fn, shared = job
    return fn(chunk, *shared)
