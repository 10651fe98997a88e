"""The scheduler: ``fn(*task)`` of every task, in order, on worker threads with one BLAS thread each.

Worker threads make the part of an op that is not BLAS run in parallel too. They live as long as the
process and are shared by all fits; the limit on BLAS threads holds only while tasks run.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

from clusterica.arrays._config import active_config


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
        if n_threads == 1 or getattr(_worker, "is_one", False):
            for task in tasks:
                yield fn(*task)
            return
        pending: deque[Future[Any]] = deque()
        try:
            for task in tasks:
                # Each task has its own copy: a context can't be entered by two threads at a time.
                pending.append(_workers(n_threads).submit(copy_context().run, fn, *task))
                if len(pending) > n_threads + 1:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()


_worker = threading.local()


def _start_worker() -> None:
    _worker.is_one = True


@cache
def _workers(n_threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n_threads, "clusterica", _start_worker)


@cache
def _blas_libraries() -> ThreadpoolController:
    """Return what controls the BLAS of NumPy and SciPy; looking for them takes milliseconds."""
    return ThreadpoolController().select(user_api="blas")


class _BlasLimit:
    """A limit of BLAS to one thread, shared by all threads of the process that ask for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._before: list[tuple[Any, int]] = []

    def enter(self) -> None:
        with self._lock:
            if self._users == 0:
                libraries = _blas_libraries().lib_controllers
                self._before = [(library, library.num_threads) for library in libraries]
                for library in libraries:
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
