"""From host memory to a device and back: blocks sent one ahead of the work, and rows that stay there.

While a device works on a block, a thread reads the next one, copies it to page-locked memory and sends it
from there, on a stream of its own: reading, sending and computing overlap. The device then holds two blocks.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any

import array_api_compat
import numpy as np
import scipy.sparse as sp

from clusterica.arrays._place import Array, Place, active_config, namespace_of

if TYPE_CHECKING:
    from clusterica.arrays._rows import Block, Rows

# Bytes of a block on its way to a device. At 64 MiB the time to start a transfer is a few in a thousand of
# the transfer itself, at 50 GB/s; larger blocks would only take page-locked memory, twice.
BLOCK_BYTES = 2**26


class KeptRows:
    """All rows on their device, for learners that walk over them many times.

    Sent again for each walk, they took 55 of the 61 s of features and a classifier of CIFAR-10 on an H200.
    """

    def __init__(self, rows: Rows) -> None:
        like = rows.place.like
        xp = namespace_of(like)
        shape, dtype = (rows.n_rows, rows.n_features), getattr(xp, rows.dtype.name)
        self._values = xp.empty(shape, dtype=dtype, device=array_api_compat.device(like))
        for start, stop, load in streamed(rows, most_rows(rows)):
            self._values[start:stop, ...] = load()

    def blocks(self, size: int) -> Iterator[Block]:
        """Yield blocks of at most ``size`` rows, in order."""
        n = int(self._values.shape[0])
        for start in range(0, n, size):
            stop = min(start + size, n)
            yield start, stop, partial(self._cut, start, stop)

    def _cut(self, start: int, stop: int) -> Array:
        return self._values[start:stop, ...]


def most_rows(rows: Rows) -> int:
    """Return how many rows are sent at a time."""
    return max(1, BLOCK_BYTES // (rows.n_features * rows.dtype.itemsize))


def streamed(rows: Rows, size: int) -> Generator[Block, None, None]:
    """Yield blocks on the device of the rows, each sent while the one before is worked on."""
    sender = Sender(rows.place)
    return _one_ahead(
        (start, stop, partial(sender.send, load)) for start, stop, load in rows.source_blocks(size)
    )


def fits(rows: Rows) -> bool:
    """Whether all rows may stay on the device: in half of its free memory, or of the budget if one is set."""
    return rows.n_rows * rows.n_features * rows.dtype.itemsize <= _room(rows.place)


def _room(place: Place) -> int:
    config = active_config()
    on_cuda = array_api_compat.is_torch_array(place.like) and place.like.device.type == "cuda"
    if config.memory_is_set or not on_cuda:
        return config.memory // 2
    import torch

    free: int = torch.cuda.mem_get_info(place.like.device)[0]
    return free // 2


def _one_ahead(blocks: Iterator[Block]) -> Generator[Block, None, None]:
    """Yield blocks whose loading began while the one before was worked on, in a thread of its own."""

    def begin() -> tuple[int, int, Future[Array]] | None:
        block = next(blocks, None)
        if block is None:
            return None
        start, stop, load = block
        # The thread has the settings of the caller.
        return start, stop, thread.submit(copy_context().run, load)

    with ThreadPoolExecutor(1, "clusterica-stream") as thread:
        coming = begin()
        while coming is not None:
            start, stop, future = coming
            # It has arrived before the next one is sent for: two blocks at a time, no more.
            value = future.result()
            coming = begin()
            yield start, stop, partial(_arrived, value)


def _arrived(value: Any) -> Array:
    """Return a block; work on the device that is asked for from now on waits for its transfer."""
    if not isinstance(value, _OnItsWay):
        return value
    import torch

    stream = torch.cuda.current_stream(value.tensor.device)
    stream.wait_event(value.event)
    # Else its memory could be given to another tensor while the work still reads it.
    value.tensor.record_stream(stream)
    return value.tensor


class _OnItsWay:
    """A tensor whose transfer has been asked for, and the event that ends it."""

    def __init__(self, tensor: Any, event: Any) -> None:
        self.tensor, self.event = tensor, event


class Sender:
    """Sends blocks to a place: to CUDA devices from page-locked memory, in turn from two buffers."""

    def __init__(self, place: Place) -> None:
        self._place = place
        like = place.like
        self._pinned = array_api_compat.is_torch_array(like) and like.device.type == "cuda"
        self._buffers: list[Any] = [None, None]
        self._events: list[Any] = [None, None]
        self._turn = 0
        if self._pinned:
            import torch

            self._stream = torch.cuda.Stream(like.device)

    def send(self, load: Callable[[], Array]) -> Any:
        """Load a block on the host and send it."""
        block = load()
        # The array API has no sparse arrays: a block at a time becomes dense.
        block = block.toarray() if sp.issparse(block) else block
        if not (self._pinned and isinstance(block, np.ndarray)):
            return self._place.put(block)
        import torch

        self._turn = turn = 1 - self._turn
        if self._events[turn] is not None:
            self._events[turn].synchronize()  # the buffer is still being sent
        # By its address: torch warns of arrays that are read-only, as those of memory maps are.
        raw = (ctypes.c_byte * block.nbytes).from_address(block.ctypes.data)
        source = torch.frombuffer(raw, dtype=torch.uint8)
        if self._buffers[turn] is None or self._buffers[turn].numel() < source.numel():
            self._buffers[turn] = torch.empty(source.numel(), dtype=torch.uint8, pin_memory=True)
        staged = self._buffers[turn][: source.numel()]
        staged.copy_(source)  # by all threads of torch: one thread would be slower than the link
        with torch.cuda.stream(self._stream):
            sent = staged.to(self._place.like.device, non_blocking=True)
            event = torch.cuda.Event()
            event.record(self._stream)
        self._events[turn] = event
        dtype = getattr(torch, block.dtype.name)
        return _OnItsWay(sent.view(dtype).view(block.shape), event)
