"""What computes on which data, and the device that kernels are launched on; a fake tensor is on the GPU."""

from contextlib import contextmanager
from functools import wraps

import numpy as np
import pytest

from clusterica import config_context, describe_kernels
from clusterica.arrays import (
    Place,
    _twins,
    as_rows,
    map_reduce,
    working_memory,
)
from clusterica.images import ImageFeatures
from clusterica.images._convolve import Fused

torch = pytest.importorskip("torch")
pytest.importorskip("triton")


@pytest.fixture
def on_gpu(monkeypatch):
    """A tensor of the second CUDA device, without a value."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Large GPU")
    with FakeTensorMode():
        return torch.empty(0, device="cuda:1")


def test_host_arrays_are_described_where_they_are_worked_on(on_gpu, monkeypatch):
    monkeypatch.setattr(Place, "of_work", lambda home: Place(on_gpu) if home.on_host else home)
    with config_context(gpu_kernels="triton", precision="tf32"):
        for like in (np.zeros(3, np.float32), np.zeros(3, np.uint8), on_gpu):
            assert describe_kernels(like) == "Triton kernels, products in tf32"
        # Integers of 32 bits need the digits of float64.
        for dtype in (np.float64, np.int32):
            described = describe_kernels(np.zeros(3, dtype))
            assert described.startswith("plain array operations: kernels take float32, and ")


def test_an_old_gpu_is_named(on_gpu, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
    with config_context(gpu_kernels="triton"):
        assert describe_kernels(on_gpu) == (
            "plain array operations: Large GPU has compute capability 7.5, and kernels need 8.0"
        )


@pytest.mark.parametrize("precision", ["tf32", "bfloat16", "float16"])
def test_a_precision_of_the_kernels_without_triton(on_gpu, monkeypatch, precision):
    monkeypatch.setattr(_twins, "_has_triton", lambda: False)
    plain = "plain array operations: "
    assert describe_kernels(on_gpu) == plain + "Triton is not installed (pip install triton)"
    with config_context(precision=precision):
        with pytest.raises(ImportError, match=f"precision='{precision}' needs Triton; install it"):
            describe_kernels(on_gpu)
        # The setting is of CUDA devices only.
        assert describe_kernels(np.zeros(3, np.float32)).startswith(plain)
    with (
        config_context(gpu_kernels="triton"),
        pytest.raises(ImportError, match="gpu_kernels='triton' needs Triton; install it"),
    ):
        describe_kernels(on_gpu)


def test_gpus_of_another_maker_keep_plain_operations(on_gpu, monkeypatch):
    monkeypatch.setattr(torch.version, "hip", "7.0")
    with config_context(gpu_kernels="triton"):
        assert describe_kernels(on_gpu).endswith("kernels are for GPUs of NVIDIA")


def test_the_device_of_a_place_is_the_current_one(on_gpu, monkeypatch):
    entered = []

    @contextmanager
    def device(which):
        entered.append(str(which))
        yield

    monkeypatch.setattr(torch.cuda, "device", device)
    for place in (Place(on_gpu), Place(), Place(torch.empty(0))):
        with place.launching():
            pass
    assert entered == ["cuda:1"]


def test_blocks_are_worked_on_with_their_device_as_the_current_one(monkeypatch):
    inside = []

    @contextmanager
    def entered(place):
        inside.append(place)
        yield
        inside.pop()

    @working_memory(lambda row: 0)
    def total(X):
        assert len(inside) == 1
        return (X.sum(axis=0),)

    monkeypatch.setattr(Place, "launching", entered)
    X = np.random.default_rng(0).random((40, 6), np.float32)
    map_reduce(total, as_rows(X))

    @wraps(Fused.features)
    def features(self, *args):
        assert len(inside) == 1
        return fused(self, *args)

    images, fused = X.reshape(4, 6, 10), Fused.features
    model = ImageFeatures(4, patch_size=3, n_patches=50, random_state=0).fit(images)
    monkeypatch.setattr(Fused, "features", features)
    model.transform(images)
