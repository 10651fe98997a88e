"""The scheduler: tasks on worker threads, their results in order, and one BLAS thread for each of them.

With one BLAS thread for each task, the part of an op that is not BLAS runs in parallel as well. Worker
threads live as long as the process and are shared by all fits; the limit on BLAS threads holds only while
tasks run.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import cache, partial
from time import perf_counter
from typing import Any

from threadpoolctl import ThreadpoolController

from clusterica.arrays._place import active_config

_worker = threading.local()
# Set where the caller of in_order has left, by an error or Ctrl-C: running tasks end at their next piece.
_given_up: ContextVar[threading.Event | None] = ContextVar("clusterica_given_up", default=None)


def in_order(
    fn: Callable[..., Any], tasks: Iterable[tuple[Any, ...]]
) -> Generator[Any, None, None]:
    """Yield ``fn(*task)`` of every task, in the order of the tasks.

    As many tasks run at a time as the configuration has threads, and a few wait, so that the tasks
    may be made one by one. Close the generator when you stop early: tasks that wait are cancelled.

    Parameters
    ----------
    fn : callable
        Called from worker threads, with the configuration of the caller. Where it schedules tasks
        itself they run in its own thread.
    tasks : iterable of tuple
        Arguments of the calls.
    """
    n_threads = active_config().n_threads
    with one_blas_thread():
        # In a worker, tasks run at once: if all workers waited for others, none would finish.
        if n_threads == 1 or getattr(_worker, "is_one", False):
            for task in tasks:
                yield fn(*task)
            return
        pending: deque[Future[Any]] = deque()
        given_up = threading.Event()
        try:
            for task in tasks:
                # Each task has its own copy: a context can't be entered by two threads at a time.
                context = copy_context()
                context.run(_given_up.set, given_up)
                pending.append(_workers(n_threads).submit(context.run, fn, *task))
                # Bounded, so that results of finished blocks do not pile up in memory.
                if len(pending) > n_threads + 1:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            given_up.set()
            for future in pending:
                future.cancel()


@cache
def _workers(n_threads: int) -> ThreadPoolExecutor:
    mark = partial(setattr, _worker, "is_one", True)  # runs in every new thread
    return ThreadPoolExecutor(n_threads, "clusterica", mark)


def pieces(n_rows: int, size: int | None = None) -> Iterator[slice]:
    """Yield slices of at most ``size`` rows; stop if the result is no longer needed.

    Compiled code can't be interrupted. An op that takes long for a block works in pieces, so that Ctrl-C, or
    an error in another block, is answered between them. Without a size, the time of each piece decides the
    size of the next one, so that a piece takes about 0.1 s however long a row takes; for ops whose rows do
    not depend on each other, since the pieces of two runs differ.
    """
    start, rows = 0, 8 if size is None else size
    while start < n_rows:
        stop_if_given_up()
        begun = perf_counter()
        yield slice(start, min(start + rows, n_rows))
        start += rows
        if size is None:
            seconds = max(perf_counter() - begun, 1e-6)
            rows = max(1, min(2 * rows, int(rows * 0.1 / seconds)))


def stop_if_given_up() -> None:
    """End the task of this worker if nobody waits for its result any more; a long loop calls it often."""
    given_up = _given_up.get()
    if given_up is not None and given_up.is_set():
        raise CancelledError


class _BlasLimit:
    """A limit of BLAS to one thread, shared by all threads of the process that ask for it.

    The number of threads belongs to the library, not to a thread of ours. So the first user sets it, the
    last one restores it, and the users between only count.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._libraries: list[Any] | None = None
        self._before: list[tuple[Any, int]] = []

    def enter(self) -> None:
        with self._lock:
            if self._users == 0:
                if self._libraries is None:  # looking for them takes milliseconds
                    found = ThreadpoolController().select(user_api="blas")
                    self._libraries = found.lib_controllers
                self._before = [(library, library.num_threads) for library in self._libraries]
                for library, _ in self._before:
                    library.set_num_threads(1)
            self._users += 1

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self.restore()

    def restore(self) -> None:
        for library, n_threads in self._before:
            library.set_num_threads(n_threads)


_blas_limit = _BlasLimit()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread inside the ``with`` block, for small products or many at a time."""
    _blas_limit.enter()
    try:
        yield
    finally:
        _blas_limit.leave()


def _forget_threads() -> None:
    """In a forked child: worker threads and those that limited BLAS exist in the parent only."""
    global _blas_limit
    _workers.cache_clear()
    _blas_limit.restore()
    _blas_limit = _BlasLimit()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_forget_threads)
