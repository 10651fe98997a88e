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
from operator import getitem
from typing import TYPE_CHECKING, Any

import array_api_compat
import numpy as np
import scipy.sparse as sp

from clusterica.arrays._place import (
    Array,
    Place,
    active_config,
    is_cuda_tensor,
    namespace_of,
    to_host,
)

if TYPE_CHECKING:
    from clusterica.arrays._rows import Block, Rows

# Bytes of a block on its way to a device. A step of K-means takes the host 1 ms to launch for a block, and a
# block of 64 MiB 1.2 ms on the link of an H200: with these a pass went at 30 of 55 GB/s. Twice so much
# page-locked memory is taken.
BLOCK_BYTES = 2**28


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
            yield start, stop, partial(getitem, self._values, (slice(start, stop), ...))


def most_rows(rows: Rows) -> int:
    """Return how many rows are sent at a time."""
    return max(1, BLOCK_BYTES // (rows.n_features * rows.dtype.itemsize))


def streamed(rows: Rows, size: int) -> Generator[Block, None, None]:
    """Yield blocks on the device of the rows, each sent while the one before is worked on."""
    sender = Sender(rows.place)
    # The event is made when the block is asked for: after the work on the one before the last was launched.
    return _one_ahead(
        (start, stop, partial(sender.send, load, sender.work_so_far()))
        for start, stop, load in rows.source_blocks(size)
    )


def fits(rows: Rows) -> bool:
    """Whether all rows may stay on the device: in half of its free memory, or of the budget if one is set."""
    config, like = active_config(), rows.place.like
    if config.memory_is_set or not is_cuda_tensor(like):
        room = config.memory
    else:
        import torch

        room = torch.cuda.mem_get_info(like.device)[0]
        # What torch keeps for tensors to come is free, too: without it the second of two fits may not fit.
        room += torch.cuda.memory_reserved(like.device) - torch.cuda.memory_allocated(like.device)
    return rows.n_rows * rows.n_features * rows.dtype.itemsize <= room // 2


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


class _Pinned:
    """Two buffers of page-locked memory, used in turn; each is busy until its event has passed."""

    def __init__(self) -> None:
        self._buffers: list[Any] = [None, None]
        self._events: list[Any] = [None, None]
        self._turn = 0

    def take(self, n_bytes: int) -> Any:
        """Return so many bytes of the buffer whose turn it is, once it is free."""
        import torch

        self._turn = turn = 1 - self._turn
        if self._events[turn] is not None:
            self._events[turn].synchronize()
        if self._buffers[turn] is None or self._buffers[turn].numel() < n_bytes:
            self._buffers[turn] = torch.empty(n_bytes, dtype=torch.uint8, pin_memory=True)
        return self._buffers[turn][:n_bytes]

    def busy_until(self, event: Any) -> None:
        """Say when the buffer that was taken last is free again."""
        self._events[self._turn] = event


class Sender:
    """Sends blocks to a place: to CUDA devices from page-locked memory, in turn from two buffers."""

    def __init__(self, place: Place, *, pinned: bool | None = None) -> None:
        self._place = place
        self._pinned = is_cuda_tensor(place.like) if pinned is None else pinned
        if self._pinned:
            import torch

            self._stream, self._buffers = torch.cuda.Stream(place.like.device), _Pinned()

    def work_so_far(self) -> Any:
        """Return an event that passes when the device has done what it was asked for up to now, or None."""
        if not self._pinned:
            return None
        import torch

        event = torch.cuda.Event()
        event.record(torch.cuda.current_stream(self._place.like.device))
        return event

    def send(self, load: Callable[[], Array], work: Any = None) -> Any:
        """Load a block on the host and send it, once the event `work` has passed."""
        block = load()
        # The array API has no sparse arrays: a block at a time becomes dense.
        block = block.toarray() if sp.issparse(block) else block
        if not (self._pinned and isinstance(block, np.ndarray)):
            return self._place.put(block)
        import torch

        staged = self._buffers.take(block.nbytes)
        # By its address: torch warns of arrays that are read-only, as those of memory maps are.
        raw = (ctypes.c_byte * block.nbytes).from_address(block.ctypes.data)
        # By all threads of torch: one thread would be slower than the link.
        staged.copy_(torch.frombuffer(raw, dtype=torch.uint8))
        # A host that runs ahead of a device that is slower than the link would fill its memory with blocks.
        if work is not None:
            work.synchronize()
        with torch.cuda.stream(self._stream):
            sent = torch.empty_like(staged, device=self._place.like.device)
            sent.copy_(staged, non_blocking=True)
            event = torch.cuda.Event()
            event.record(self._stream)
        self._buffers.busy_until(event)
        return _OnItsWay(sent.view(getattr(torch, block.dtype.name)).view(block.shape), event)


class Receiver:
    """Brings blocks of results from a CUDA device to a NumPy array while the device works on the next.

    A block is copied to page-locked memory at once, and from there to its place when the next one comes.
    """

    def __init__(self, device: Any) -> None:
        import torch

        self._stream, self._buffers = torch.cuda.Stream(device), _Pinned()
        self._coming: tuple[Any, Any, np.ndarray] | None = None

    def receive(self, values: Any, target: np.ndarray) -> None:
        """Begin to copy a tensor to a contiguous array of its shape and dtype."""
        size = max(1, BLOCK_BYTES * len(target) // max(1, target.nbytes))
        for i in range(0, len(target), size):
            self._begin(values[i : i + size], target[i : i + size])

    def _begin(self, values: Any, target: np.ndarray) -> None:
        import torch

        values = values.contiguous()
        staged = self._buffers.take(target.nbytes)
        self._stream.wait_stream(torch.cuda.current_stream(values.device))
        with torch.cuda.stream(self._stream):
            staged.copy_(values.view(-1).view(torch.uint8), non_blocking=True)
            # Else its memory could be given to another tensor while it is copied.
            values.record_stream(self._stream)
            event = torch.cuda.Event()
            event.record(self._stream)
        self._buffers.busy_until(event)
        self.finish()
        self._coming = staged, event, target

    def finish(self) -> None:
        """Put the block that is still coming to its place."""
        if self._coming is None:
            return
        import torch

        staged, event, target = self._coming
        event.synchronize()
        torch.from_numpy(target.reshape(-1).view(np.uint8)).copy_(staged)
        self._coming = None


class Inbox:
    """Puts blocks of results into an array, those of a CUDA device into a NumPy array by a receiver."""

    def __init__(self, target: Array) -> None:
        self._target = target
        self._receiver: Receiver | None = None

    def put(self, values: Array, place: Any) -> None:
        """Put values at an index of the array; they may arrive later, before `finish` returns."""
        if not isinstance(self._target, np.ndarray):
            self._target[place] = values
            return
        part = self._target[place]
        if not (is_cuda_tensor(values) and part.flags.c_contiguous):
            self._target[place] = to_host(values)
            return
        if self._receiver is None:
            self._receiver = Receiver(values.device)
        self._receiver.receive(values, part)

    def finish(self) -> None:
        """Return when all values are in their places."""
        if self._receiver is not None:
            self._receiver.finish()


def room_for(values: Any, n_rows: int) -> np.ndarray:
    """Return an empty NumPy array for all rows, of which the values of a tensor are some."""
    dtype = str(values.dtype).rsplit(".", maxsplit=1)[-1]
    return np.empty((n_rows, *values.shape[1:]), dtype)


def can_receive(values: Array, home: Place) -> bool:
    """Whether values come from a CUDA device to NumPy, which has their dtype."""
    return home.is_numpy and is_cuda_tensor(values) and str(values.dtype) != "torch.bfloat16"
