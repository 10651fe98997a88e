"""Where and when steps are recorded, by a stand-in for CUDA that notes the calls.

tests/gpu/test_cuda_kernels.py has recordings of kernels.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext

import pytest

from clusterica.arrays import Replayed

torch = pytest.importorskip("torch")


class Device:
    """What torch.cuda does while a step is recorded and replayed, in a list, beside the current device."""

    def __init__(self, free=100):
        self.current, self.calls, self.free = "cuda:0", [], free

    @contextmanager
    def device(self, which):
        before, self.current = self.current, str(which)
        yield
        self.current = before

    def Stream(self, device):  # the name in torch
        assert str(device) == self.current
        return self

    CUDAGraph = current_stream = lambda self: self

    def wait_stream(self, stream):
        pass

    def stream(self, stream):
        return nullcontext()

    def memory_reserved(self):
        return 80

    def memory_allocated(self):
        return 30

    def mem_get_info(self):
        return self.free, 200

    def empty_cache(self):
        self.calls.append(("empty", self.current))

    def capture_begin(self, capture_error_mode):
        self.calls.append(("begin", self.current))

    def capture_end(self):
        self.calls.append(("end", self.current))

    def replay(self):
        self.calls.append(("replay", self.current))


@pytest.fixture
def cuda(monkeypatch):
    device = Device()
    for name in ("device", "Stream", "CUDAGraph", "current_stream", "stream", "mem_get_info"):
        monkeypatch.setattr(torch.cuda, name, getattr(device, name))
    for name in ("memory_reserved", "memory_allocated", "empty_cache"):
        monkeypatch.setattr(torch.cuda, name, getattr(device, name))
    return device


def test_steps_are_recorded_and_replayed_on_the_device_of_their_tensors(cuda):
    # These are on "cpu", and the current device is another.
    X, step = torch.ones(3), Replayed(lambda x: (2 * x,))
    for _ in range(4):
        step(X)
    assert cuda.calls == [(name, "cpu") for name in ("begin", "end", "replay", "replay")]
    assert cuda.current == "cuda:0"


@pytest.mark.parametrize(("free", "emptied"), [(50, False), (49, True)])
def test_the_cache_is_emptied_where_the_step_may_need_its_memory(cuda, free, emptied):
    cuda.free = free
    X, step = torch.ones(3), Replayed(lambda x: (2 * x,))
    for _ in range(4):
        step(X)
    names = ["empty"] * emptied + ["begin", "end", "replay", "replay"]
    assert [name for name, _ in cuda.calls] == names


def test_threads_record_one_after_the_other(cuda):
    def slow(x):
        time.sleep(0.02)
        return (2 * x,)

    def three_calls(_):
        step = Replayed(slow)
        for _ in range(3):
            step(torch.ones(3))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(three_calls, range(4)))
    recorded = [name for name, _ in cuda.calls if name != "replay"]
    assert recorded == ["begin", "end"] * 4


def test_a_step_that_failed_is_recorded_anew(cuda):
    fails = iter([False, False, True, False])

    def step(x):
        if next(fails):
            raise MemoryError
        return (2 * x,)

    replayed = Replayed(step)
    replayed(torch.ones(3)), replayed(torch.ones(3))
    with pytest.raises(MemoryError):
        replayed(torch.ones(3))
    (result,) = replayed(torch.ones(3))
    assert result.tolist() == [2, 2, 2]
    assert [name for name, _ in cuda.calls] == ["begin", "end", "begin", "end", "replay"]
