"""Pooled codes by Triton kernels against the compiled code of the CPU; test_gpu_assign says how they run."""

from unittest.mock import patch

import numpy as np
import pytest

from clusterica import config_context
from clusterica.images import ImageFeatures
from clusterica.ops.cpu.encode import Code, Filters
from clusterica.ops.cpu.encode import pooled_codes as cpu_pooled_codes
from clusterica.ops.patch import CellPooling, grid_cells, n_places

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from clusterica.ops.gpu import encode as gpu  # noqa: E402  # after the check that Triton is there
from clusterica.ops.gpu.tiling import KernelTiling  # noqa: E402

pytestmark = pytest.mark.usefixtures("interpreter")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CODES = list(gpu.CODES)
POOLINGS = [p for p in CellPooling if p is not CellPooling.GAUSSIAN]  # that has no kernel
# How far features may be off, of the largest: halves round rows and filters of a few units.
ERRORS = {"float32": 1e-5, "tf32": 3e-3, "bfloat16": 3e-2, "float16": 3e-3}


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    monkeypatch.setattr(gpu, "tiling_of_codes", lambda *args: KernelTiling(16, 16, 32, 4, 2))


def check(images, filters, precision="float32", **settings):
    """Compare the features of images with those of the CPU, twice with the same bits."""
    _, height, width, _ = images.shape
    p, s = settings["patch_size"], settings["stride"]
    grids = settings.pop("grids", [(2, 2)])
    sides = tuple(n_places(n, patch_size=p, stride=s) for n in (height, width))
    cells = grid_cells(sides, grids)
    expected = cpu_pooled_codes(images, filters, cells, **settings)
    tensor = torch.asarray(images, device=DEVICE)
    prepared = gpu.prepare(filters, DEVICE, precision)
    found, again = (gpu.pooled_codes(tensor, prepared, cells, **settings) for _ in range(2))
    assert torch.equal(found, again)
    scale = max(1e-3, float(np.abs(expected).max()))
    np.testing.assert_allclose(found.cpu().numpy(), expected, atol=ERRORS[precision] * scale)


def draw(code, n_filters=21, patch_size=4, channels=3, size=(2, 9, 8)):
    rng = np.random.default_rng()
    images = rng.random((*size, channels)).astype(np.float32)
    d = patch_size**2 * channels
    F = rng.standard_normal((n_filters, d)) / d**0.5
    if code is Code.TRIANGLE:
        T, shift = rng.standard_normal((d, d)) / d**0.5, rng.standard_normal(d)
        return images, Filters(F, (F**2).sum(axis=1), T, shift)
    return images, Filters(F, 0.1 * rng.standard_normal(n_filters))


SETTINGS = {"patch_size": 4, "stride": 1, "eps": 0.1, "alpha": 0.25, "pooling": CellPooling.SUM}


@pytest.mark.parametrize("precision", ERRORS)
@pytest.mark.parametrize("code", CODES, ids=lambda code: code.name)
def test_codes_in_every_precision(code, precision):
    check(*draw(code), precision, **SETTINGS, code=code)


@pytest.mark.parametrize("pooling", POOLINGS, ids=lambda pooling: pooling.name)
@pytest.mark.parametrize("code", [Code.BOTH_SIGNS, Code.TRIANGLE], ids=lambda code: code.name)
def test_poolings(code, pooling):
    check(*draw(code), **SETTINGS | {"pooling": pooling}, code=code)


@pytest.mark.parametrize(
    ("patch_size", "channels", "stride", "grids"),
    [
        (1, 1, 1, [(1, 1)]),
        (3, 2, 2, [(2, 2), (1, 1)]),
        (5, 3, 3, [(3, 1)]),
        (6, 3, 1, [(1, 1), (2, 2), (3, 3)]),
        (8, 5, 1, [(1, 1)]),
    ],
)
def test_shapes_of_patches_and_grids(patch_size, channels, stride, grids):
    images, filters = draw(Code.BOTH_SIGNS, patch_size=patch_size, channels=channels)
    settings = SETTINGS | {"patch_size": patch_size, "stride": stride}
    check(images, filters, **settings, code=Code.BOTH_SIGNS, grids=grids)


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_images_that_are_not_normalised(precision):
    images, filters = draw(Code.POSITIVE)
    check(1e6 * images, filters, precision, **SETTINGS | {"eps": None}, code=Code.POSITIVE)


def test_flat_patches_and_black_images():
    images, filters = draw(Code.BOTH_SIGNS)
    images[0], images[1, :6] = 0, 0.5
    check(images, filters, **SETTINGS | {"eps": 0.0}, code=Code.BOTH_SIGNS)


def test_filters_that_halves_cannot_hold():
    images, (F, bias, *_) = draw(Code.POSITIVE)
    settings = SETTINGS | {"alpha": 0.25e6}
    check(images, Filters(1e6 * F, 1e6 * bias), "float16", **settings, code=Code.POSITIVE)


def test_a_part_of_the_images():
    images, filters = draw(Code.POSITIVE, size=(2, 12, 13))
    cells = grid_cells((5, 6), [(2, 2)])
    prepared = gpu.prepare(filters, DEVICE, "float32")
    settings = SETTINGS | {"code": Code.POSITIVE}
    whole = torch.asarray(images, device=DEVICE)
    found = gpu.pooled_codes(whole[:, 2:10, 3:12], prepared, cells, **settings)
    expected = cpu_pooled_codes(images[:, 2:10, 3:12], filters, cells, **settings)
    np.testing.assert_allclose(found.cpu().numpy(), expected, rtol=1e-4, atol=1e-4)


def learned(**settings):
    """Return images, features learned from them, and what these are without kernels."""
    images = np.random.default_rng(0).random((6, 10, 10, 3)).astype(np.float32)
    features = ImageFeatures(8, patch_size=4, n_patches=200, random_state=0, **settings)
    return images, features.fit(images), features.transform(images)


@pytest.mark.parametrize(
    "settings", [{"encoder": "hard"}, {"pooling": "gaussian"}, {"encoder": "omp"}], ids=str
)
def test_what_the_documentation_excepts_from_the_kernels(settings, monkeypatch):
    """Plain operations in float32, though kernels and a precision of theirs are asked for by name."""
    images, features, expected = learned(**settings)
    monkeypatch.setattr("clusterica.images._convolve.why_no_kernels", lambda like: None)
    with (
        config_context(device=DEVICE, gpu_kernels="triton", precision="float16"),
        patch.object(gpu, "pooled_codes", wraps=gpu.pooled_codes) as used,
    ):
        found = features.transform(images)
    assert used.call_count == 0
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * abs(expected).max())


@pytest.mark.parametrize("encoder", ["soft-threshold", "triangle"])
def test_image_features_use_the_kernels(encoder, monkeypatch):
    images, features, expected = learned(encoder=encoder)
    monkeypatch.setattr("clusterica.images._convolve.why_no_kernels", lambda like: None)
    with (
        config_context(device=DEVICE, gpu_kernels="triton", precision="tf32"),
        patch.object(gpu, "pooled_codes", wraps=gpu.pooled_codes) as used,
    ):
        found = features.transform(images)
        assert used.call_count == 1
        # An image over the memory budget is left to the plain operations, which cut it into bands.
        with config_context(memory="64KiB"):
            banded = features.transform(np.tile(images[:1], (1, 4, 4, 1)))
        assert used.call_count == 1
    np.testing.assert_allclose(found, expected, atol=3e-3 * abs(expected).max())
    whole = features.transform(np.tile(images[:1], (1, 4, 4, 1)))
    np.testing.assert_allclose(banded, whole, rtol=1e-3, atol=1e-3)
