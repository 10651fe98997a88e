"""The engine of Ray, for a ``ray.data.Dataset`` or a list of references to arrays in its object store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from clusterica.arrays._place import Array, active_config
from clusterica.arrays.engines._chunks import Chunks, Engine, Handle


@dataclass(frozen=True)
class RayEngine(Engine):
    """Tasks of Ray on one core each, and on one GPU each if the configuration names a CUDA device."""

    as_dataset: bool
    """Whether results are data sets, as the data is, or lists of references."""

    def send(self, value: Any) -> Handle:
        """Put the value into the object store; this process owns it, so that no worker can take it along."""
        import ray

        return ray.put(value)

    def submit(self, fn: Callable[..., Any], *args: Any) -> Handle:
        """Start a task."""
        device = active_config().device
        on_gpu = device is not None and device.startswith("cuda")
        return _remote(1 if on_gpu else 0).remote(fn, *args)

    def fetch(self, handles: list[Handle]) -> list[Any]:
        """Wait for the values."""
        import ray

        return list(ray.get(handles))

    def keep(self, handles: list[Handle], nbytes: int) -> list[Handle]:
        """Return them as they are: Ray keeps results, on disk if memory is short."""
        return list(handles)

    def join(self, handles: list[Handle], lengths: tuple[int, ...], like: np.ndarray) -> Array:
        """Return a data set with a column ``data``, or the references."""
        if not self.as_dataset:
            return handles
        import ray.data

        return ray.data.from_numpy_refs(handles)


def ray_chunks(X: Any) -> Chunks:
    """Return the chunks of a data set or of a list of references."""
    as_dataset = not isinstance(X, list)
    engine = RayEngine(as_dataset)
    handles = X
    if as_dataset:
        handles = [engine.submit(_as_array, block) for block in X.to_numpy_refs()]

    def kind_of(block: np.ndarray) -> tuple[tuple[int, ...], np.dtype[Any]]:
        return tuple(block.shape), block.dtype

    kinds = engine.fetch([engine.submit(kind_of, handle) for handle in handles])
    # Filters leave empty blocks behind; an op sees at least one row.
    full = [(handle, *kind) for handle, kind in zip(handles, kinds, strict=True) if kind[0][0]]
    if not full:
        raise ValueError("the Ray data has no rows; give at least one")
    handles, shapes, dtypes = (list(column) for column in zip(*full, strict=True))
    row_shapes = {shape[1:] for shape in shapes}
    if len(row_shapes) > 1:
        raise ValueError(f"rows of the blocks have shapes {sorted(row_shapes)}; give one shape")
    lengths = tuple(shape[0] for shape in shapes)
    return Chunks(engine, handles, lengths, row_shapes.pop(), np.result_type(*dtypes))


@cache
def _remote(n_gpus: int) -> Any:
    import ray

    return ray.remote(num_cpus=1, num_gpus=n_gpus)(_run)


def _run(fn: Callable[..., Any], *args: Any) -> Any:
    return fn(*args)


def _as_array(block: Any) -> np.ndarray:
    """Return a block of a data set: its only column, or a column of the array for each of its columns."""
    if not isinstance(block, dict):
        return np.asarray(block)
    columns = [np.asarray(column) for column in block.values()]
    return columns[0] if len(columns) == 1 else np.column_stack(columns)
