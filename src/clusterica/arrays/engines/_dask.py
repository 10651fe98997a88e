"""The engine of Dask arrays: tasks of the current client, or of Dask's scheduler in this process."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from clusterica.arrays._place import Array, active_config
from clusterica.arrays._scheduler import one_blas_thread
from clusterica.arrays.engines._chunks import Chunks, Engine, Handle


class DaskEngine(Engine):
    """Tasks that are computed with their result, by the client or, if that is None, by this process."""

    def __init__(self, client: Any) -> None:
        self.client = client

    def send(self, value: Any) -> Handle:
        """Return a future of the value. It is the result of a task, which can run again, not scattered."""
        import dask

        if self.client is None:
            return dask.delayed(value, traverse=False, pure=False)
        import cloudpickle

        # Dask warns of tasks with more than 10 MB of data in them: larger values are sent in several.
        data, size = cloudpickle.dumps(value), 2**22
        pieces = [data[i : i + size] for i in range(0, len(data), size)]
        # `bytes` of bytes are the same bytes: each piece is sent to a worker as it is.
        sent = [self.client.submit(bytes, piece, pure=False) for piece in pieces]
        return self.client.submit(_joined, *sent, pure=False)

    def submit(self, fn: Callable[..., Any], *args: Any) -> Handle:
        """Return a task, to be run together with all that is fetched at the same time."""
        import dask

        return dask.delayed(fn, pure=False)(*args)

    def fetch(self, handles: list[Handle]) -> list[Any]:
        """Compute all handles as one graph."""
        import dask

        if self.client is not None:
            return list(self.client.gather(self.client.compute(handles)))
        # A scheduler of this process runs our tasks on its threads.
        with one_blas_thread():
            return list(dask.compute(*handles))

    def join(self, handles: list[Handle], lengths: tuple[int, ...], like: np.ndarray) -> Array:
        """Return a lazy Dask array."""
        import dask.array as da

        shapes = [(n, *like.shape[1:]) for n in lengths]
        parts = [
            da.from_delayed(handle, shape=shape, dtype=like.dtype)
            for handle, shape in zip(handles, shapes, strict=True)
        ]
        return da.concatenate(parts, axis=0)

    def keep(self, handles: list[Handle], nbytes: int) -> list[Handle] | None:
        """Compute the chunks where they are worked on, unless that takes too much memory."""
        import dask

        if self.client is None:
            room: float = active_config().memory
        else:

            def memory_of_workers(dask_scheduler: Any) -> float:
                limits = [worker.memory_limit for worker in dask_scheduler.workers.values()]
                return sum(limits) if all(limits) else math.inf  # a worker without a limit says 0

            # A quarter of the memory of all workers: a fit keeps up to two arrays of the size of its data,
            # and workers write to disk from 60 % on.
            room = 0.25 * self.client.run_on_scheduler(memory_of_workers)
        if nbytes > room:
            return None
        return list(dask.persist(*handles, scheduler=self.client))


def dask_chunks(X: Array) -> Chunks:
    """Return the chunks of a Dask array, of whole rows."""
    import dask.base

    if np.isnan(X.shape[0]):
        raise ValueError(
            "the Dask array does not know how many rows it has; call X.compute_chunk_sizes() first"
        )
    # A chunk holds whole rows, and none is empty: an op sees at least one row.
    whole = {axis: -1 for axis in range(1, X.ndim)}
    X = X.rechunk({0: tuple(n for n in X.chunks[0] if n), **whole})
    handles = list(X.to_delayed().reshape(-1))
    # The current client registers itself as the scheduler of Dask.
    scheduler = dask.base.get_scheduler(collections=[X])
    client = getattr(scheduler, "__self__", None)
    engine = DaskEngine(client if hasattr(client, "scheduler_info") else None)
    return Chunks(engine, handles, X.chunks[0], X.shape[1:], np.dtype(X.dtype))


def _joined(*pieces: bytes) -> Any:
    import cloudpickle

    return cloudpickle.loads(b"".join(pieces))
