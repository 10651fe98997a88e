"""Features of images against a slow and plain computation, wherever the images live."""

import tracemalloc

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from clusterica import config_context
from clusterica.arrays import Row, row_bytes_of, to_host
from clusterica.encoders import SoftThresholdEncoder, SparseEncoder, TriangleEncoder
from clusterica.images import ImageFeatures, _features
from clusterica.images._convolve import Fused, Rectified, Staged
from clusterica.ops.patch import grid_cells
from clusterica.preprocessing import ContrastNormalizer

ENCODERS = ["hard", "triangle", "soft-threshold", "sigmoid", "sparse", "omp"]
POOLINGS = ["sum", "mean", "max", "l2", "gaussian"]
GRIDS = [(1, 1), (2, 2), (3, 2), [(1, 1), (2, 2)]]


def small(**settings):
    settings = {"patch_size": 4, "n_patches": 600, "random_state": 0, **settings}
    return ImageFeatures(9, **settings)


@pytest.fixture
def staged(monkeypatch):
    """Take the compiled code away."""
    monkeypatch.setattr(_features, "make_coder", Staged)


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("pooling", POOLINGS)
def test_encoders_and_poolings(images, slow_features, encoder, pooling):
    model = small(encoder=encoder, pooling=pooling, n_patches=150).fit(images)
    found = model.transform(images[:4])
    assert found.dtype == np.float32
    assert found.shape == (4, model.n_features_out_)
    expected = slow_features(model, images[:4])
    np.testing.assert_allclose(found, expected, rtol=2e-3, atol=2e-3 * abs(expected).max())


@pytest.mark.parametrize("threads", [1, 2])
def test_warns_once_of_codes_that_do_not_converge(images, threads):
    encoder = SparseEncoder(alpha=1e-3, transform_max_iter=1, tol=1e-9)
    model = small(encoder=encoder).fit(images)
    with (
        pytest.warns(ConvergenceWarning, match=r"the codes of \d+ rows") as found,
        config_context(memory="1MiB", threads=threads),
    ):
        model.transform(images)
    assert len(found) == 1
    assert found[0].filename == __file__
    with pytest.warns(ConvergenceWarning):
        model.stages(np.random.default_rng(0).random((20, 48)))


@pytest.mark.parametrize("encoder", ["soft-threshold", "triangle", "omp"])
@pytest.mark.parametrize("grid", GRIDS, ids=str)
@pytest.mark.parametrize("stride", [1, 2])
def test_grids_and_strides(images, slow_features, encoder, grid, stride):
    model = small(encoder=encoder, grid=grid, stride=stride).fit(images)
    expected = slow_features(model, images[:3])
    found = model.transform(images[:3])
    np.testing.assert_allclose(found, expected, rtol=2e-3, atol=2e-3 * abs(expected).max())


@pytest.mark.parametrize("encoder", ["hard", "triangle", "soft-threshold", "sigmoid"])
@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("settings", [{}, {"whitener": None}, {"normalizer": None}], ids=str)
def test_the_compiled_twin_is_the_staged_text(images, monkeypatch, encoder, pooling, settings):
    images = images / 255
    model = small(encoder=encoder, pooling=pooling, **settings).fit(images)
    fused = model.transform(images)
    monkeypatch.setattr(_features, "make_coder", Staged)
    staged = model.transform(images)
    np.testing.assert_allclose(fused, staged, rtol=1e-3, atol=1e-4 * abs(staged).max())


def test_which_steps_are_compiled(images):
    def coder(**settings):
        chosen = []
        model = small(**settings).fit(images)
        with pytest.MonkeyPatch.context() as patch:
            original = _features.make_coder
            patch.setattr(
                _features, "make_coder", lambda *args: chosen.append(original(*args)) or chosen[-1]
            )
            model.transform(images)
        return type(chosen[0])

    assert coder() is Fused
    assert coder(encoder=SoftThresholdEncoder(alpha=0.5, two_sided=False)) is Fused
    assert coder(encoder="omp") is Staged

    class MyTriangle(TriangleEncoder):
        """May do anything."""

    assert coder(encoder=MyTriangle()) is Staged


def test_an_encoder_with_settings(images):
    one = small(encoder=SoftThresholdEncoder(alpha=1.0, two_sided=False)).fit(images)
    both = small(encoder=SoftThresholdEncoder(alpha=1.0)).fit(images)
    found = both.transform(images).reshape(12, 4, 2, 9)
    np.testing.assert_allclose(one.transform(images).reshape(12, 4, 9), found[:, :, 0], rtol=1e-5)
    assert found[:, :, 1].max() > 0


# --- Where the images live ---------------------------------------------------------------------------


@pytest.mark.parametrize("encoder", ["soft-threshold", "triangle", "omp"])
def test_tensors_give_the_features_of_arrays(images, encoder):
    torch = pytest.importorskip("torch")
    model = small(encoder=encoder).fit(images)
    expected = model.transform(images)
    of_tensor = small(encoder=encoder).fit(torch.asarray(images))
    found = of_tensor.transform(torch.asarray(images))
    assert isinstance(found, torch.Tensor)
    assert isinstance(of_tensor.filters_, torch.Tensor)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(model.transform(torch.asarray(images)).numpy(), expected)


@pytest.mark.parametrize(
    ("encoder", "dtype"),
    [
        ("soft-threshold", "uint8"),
        ("triangle", "float64"),
        ("omp", "uint16"),
        ("sparse", "float32"),
    ],
)
def test_streamed_through_a_device(images, encoder, dtype):
    """The CPU as a torch device: blocks are tensors there, and the features come back as NumPy."""
    pytest.importorskip("torch")
    images = images.astype(dtype)
    model = small(encoder=encoder).fit(images)
    expected = model.transform(images)
    with config_context(device="cpu"):
        found = model.transform(images)
        again = small(encoder=encoder).fit(images)
    assert isinstance(found, np.ndarray)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3 * expected.max())
    np.testing.assert_allclose(again.filters_, model.filters_, atol=1e-4)


def test_memory_maps(images, tmp_path):
    np.save(tmp_path / "images.npy", images)
    mapped = np.load(tmp_path / "images.npy", mmap_mode="r")
    np.testing.assert_array_equal(small().fit_transform(mapped), small().fit_transform(images))


@pytest.mark.parametrize("encoder", ["soft-threshold", "triangle", "omp"])
def test_a_list_of_different_sizes(images, slow_features, encoder):
    listed = [images[0], images[1, :8], images[2, :8], images[3, :, :7], images[4]]
    model = small(encoder=encoder, pooling="mean").fit(listed)
    found = model.transform(listed)
    expected = slow_features(model, listed)
    np.testing.assert_allclose(found, expected, rtol=2e-3, atol=2e-3 * abs(expected).max())
    holder = np.empty(5, object)
    holder[:] = listed
    np.testing.assert_array_equal(model.transform(holder), found)


def test_a_list_of_tensors(images):
    torch = pytest.importorskip("torch")
    listed = [torch.asarray(images[0]), torch.asarray(images[1, :8].copy())]
    found = small(n_patches=90).fit_transform(listed)
    assert isinstance(found, torch.Tensor)
    expected = small(n_patches=90).fit_transform([image.numpy() for image in listed])
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5)


def test_grey_images(images, slow_features):
    grey = images.mean(axis=3)
    model = small().fit(grey)
    assert model.patch_shape_ == (4, 4, 1)
    np.testing.assert_allclose(
        model.transform(grey), slow_features(model, grey), rtol=2e-3, atol=2e-2
    )
    np.testing.assert_array_equal(model.transform(grey[..., None]), model.transform(grey))
    np.testing.assert_array_equal(model.transform(list(grey)), model.transform(grey))
    np.testing.assert_array_equal(model.transform(grey.tolist()), model.transform(grey))


@pytest.mark.parametrize("scale", [1e-30, 1e-22, 1e-20, 1e-19, 1e20])
@pytest.mark.filterwarnings("ignore:the images have values")
def test_without_a_constant_the_scale_of_images_does_not_matter(images, scale):
    images = images.astype(np.float32)
    features = small(normalizer=ContrastNormalizer(eps=0.0)).fit(images)
    found = features.transform(images * np.float32(scale))
    np.testing.assert_allclose(found, features.transform(images), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("scale", [1 / 255, 257])
def test_the_range_of_the_pixels_does_not_matter(images, scale):
    """Bytes, floats in [0, 1] and 16 bits: the constant of the normalisation is scaled with them."""
    of_bytes = small().fit(images)
    dtype = np.uint16 if scale > 1 else np.float32
    scaled = (images.astype(float) * scale).astype(dtype)
    other = small().fit(scaled)
    assert of_bytes.normalizer_.eps_ == 10
    np.testing.assert_allclose(other.normalizer_.eps_, 10 * scale**2, rtol=1e-6)
    np.testing.assert_allclose(
        other.transform(scaled), of_bytes.transform(images), rtol=2e-2, atol=5e-2
    )


def test_images_that_are_not_contiguous(images):
    first = np.ascontiguousarray(images.transpose(0, 3, 1, 2))
    moved = first.transpose(0, 2, 3, 1)
    assert not moved.flags.c_contiguous
    np.testing.assert_array_equal(small().fit_transform(moved), small().fit_transform(images))


# --- Blocks and threads ------------------------------------------------------------------------------


@pytest.mark.parametrize("encoder", ["soft-threshold", "triangle", "omp"])
@pytest.mark.parametrize("config", [{"memory": "64KiB"}, {"threads": 1}, {"threads": 3}], ids=str)
def test_blocks_and_threads_do_not_matter(images, encoder, config):
    model = small(encoder=encoder, grid=[(1, 1), (2, 2)]).fit(images)
    expected = model.transform(images)
    with config_context(**config):
        found = model.transform(images)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("encoder", ["soft-threshold", "omp"])
@pytest.mark.parametrize("pooling", POOLINGS)
def test_an_image_larger_than_the_memory(rng, encoder, pooling, staged):
    """Too large to be encoded at once: bands of rows of patches."""
    X = rng.integers(0, 256, size=(2, 40, 30), dtype=np.uint8)
    model = small(encoder=encoder, pooling=pooling, grid=[(2, 2), (3, 1)]).fit(X)
    expected = model.transform(X)
    with config_context(memory="64KiB"):
        found = model.transform(X)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def peak_of(call):
    tracemalloc.start()
    found = call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return found, peak


def wide(pooling, grid):
    return ImageFeatures(
        150, patch_size=6, n_patches=2400, pooling=pooling, grid=grid, random_state=0
    )


PYRAMIDS = [(8, 8), [(n, n) for n in (1, 2, 3, 4)], [(n, n) for n in (1, 2, 4, 8)]]


@pytest.mark.parametrize("pooling", ["sum", "max", "gaussian"])
@pytest.mark.parametrize("grid", PYRAMIDS, ids=str)
def test_memory_is_within_the_budget(rng, pooling, grid):
    """Of fine grids and pyramids the features are larger than all else."""
    X = rng.integers(0, 256, size=(300, 16, 16), dtype=np.uint8)
    model = wide(pooling, grid).fit(X[:50])
    with config_context(memory="4MiB", threads=1):
        model.transform(X[:2])  # compiled, and weights that are kept between calls
        found, peak = peak_of(lambda: model.transform(X))
    assert found.nbytes > 2 * 2**22
    assert peak - found.nbytes < 2**22


@pytest.mark.parametrize("pooling", ["sum", "gaussian"])
@pytest.mark.parametrize("grid", [*PYRAMIDS, [(n, n) for n in range(1, 12)]], ids=str)
@pytest.mark.parametrize("coder", ["rectified", "staged"])
def test_memory_of_a_block_is_as_stated(rng, monkeypatch, pooling, grid, coder):
    """That of coders for devices, on NumPy arrays, whose memory can be traced."""
    X = rng.integers(0, 256, size=(20, 16, 16, 1)).astype(np.float32)
    chosen = []

    def choose(bank, place, shape):
        code = bank.encoder.compiled_form()
        found = (
            Staged(bank, place, shape)
            if coder == "staged"
            else Rectified(bank, *code, place, shape)
        )
        return chosen.append((found, shape)) or found

    monkeypatch.setattr(_features, "make_coder", choose)
    wide(pooling, grid).fit(X).transform(X)
    block, shape = chosen[-1]
    cells = grid_cells((11, 11), shape.grids)
    block.features(X, cells, 11)
    found, peak = peak_of(lambda: block.features(X, cells, 11).values)
    stated = row_bytes_of(block.features, Row(36, 4, 144, True), (cells,))
    assert 0.25 < peak / (20 * 121 * stated + found.nbytes) < 1.02


def test_regions_have_filters_of_their_own(images):
    """Features of regions are those of models of the parts of the image, side by side."""
    model = small(regions=(2, 1), grid=(1, 2), stride=2).fit(images)
    assert [filters.shape for filters in model.filters_] == [(9, 48), (9, 48)]
    found = model.transform(images)
    assert found.shape == (12, 2 * 2 * 18) == (12, model.n_features_out_)
    # 4 rows of places at stride 2: the first two begin at rows 0 and 2, the others at 4 and 6.
    for i, rows in enumerate([slice(0, 6), slice(4, 10)]):
        part = small(grid=(1, 2), stride=2).fit(images[:, rows])
        part.filters_, part.whitener_ = model.filters_[i], model.whitener_[i]
        part.normalizer_ = model.normalizer_[i]
        columns = found[:, 36 * i : 36 * (i + 1)]
        np.testing.assert_allclose(part.transform(images[:, rows]), columns, rtol=1e-4, atol=1e-4)
    assert not np.allclose(model.filters_[0], model.filters_[1])


def test_regions_see_their_part_only(images):
    changed = images.copy()
    changed[:, :5] = 255 - changed[:, 5:]
    one, two = (small(regions=(2, 1), n_patches=100, grid=(1, 1)).fit(X) for X in (images, changed))
    # 7 rows of places: those of the first region, 0 to 3, cover rows 0 to 6, the others 4 to 9.
    assert not np.allclose(one.filters_[0], two.filters_[0])
    rest = images.copy()
    rest[:, :4] = 255 - rest[:, :4]
    three = small(regions=(2, 1), n_patches=100, grid=(1, 1)).fit(rest)
    np.testing.assert_array_equal(one.filters_[1], three.filters_[1])


@pytest.mark.parametrize("settings", [{}, {"encoder": "triangle", "pooling": "max"}], ids=str)
def test_every_library_and_device(put, images, settings):
    settings = {"regions": (1, 2), "grid": [(1, 1), (2, 1)], **settings}
    model = small(**settings).fit(images)
    elsewhere = small(**settings).fit(put(images))
    found = elsewhere.transform(put(images))
    assert type(found) is type(put(images))
    assert found.device == put(images).device
    expected = model.transform(images)
    np.testing.assert_allclose(to_host(found), expected, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(elsewhere.score(put(images)), model.score(images), rtol=1e-3)
    stages = elsewhere.stages(put(images[0, :4, :4].reshape(1, 48).astype(np.float32)))
    assert {type(values) for values in stages.values()} == {type(found)}
    assert elsewhere.pixel_filters_[0].shape == (9, 48)
    listed = elsewhere.transform([put(image) for image in images])
    np.testing.assert_allclose(to_host(listed), expected, rtol=1e-3, atol=1e-3)


def test_another_device_than_in_fit(images):
    strict = pytest.importorskip("array_api_strict")
    there = strict.asarray(images, device=strict.Device("device1"))
    with pytest.raises(ValueError, match="fitted on device 'cpu' and X is on device"):
        small().fit(images).transform(there)


@pytest.mark.gpu
@pytest.mark.parametrize("encoder", ["soft-threshold", "triangle", "omp"])
def test_on_a_gpu(images, encoder):
    torch = pytest.importorskip("torch")
    model = small(encoder=encoder).fit(images)
    expected = model.transform(images)
    there = small(encoder=encoder).fit(torch.asarray(images, device="cuda"))
    found = there.transform(torch.asarray(images, device="cuda"))
    assert found.device.type == there.filters_.device.type == "cuda"
    np.testing.assert_allclose(to_host(found), expected, rtol=1e-3, atol=1e-3 * expected.max())
    with config_context(device="cuda"):
        streamed = model.transform(images)
    np.testing.assert_allclose(streamed, expected, rtol=1e-3, atol=1e-3 * expected.max())


@pytest.mark.parametrize("pooling", ["sum", "mean", "gaussian"])
@pytest.mark.parametrize("two_sided", [True, False])
@pytest.mark.parametrize("memory", ["512MiB", "64KiB"])
def test_sums_on_a_device_need_no_codes(images, monkeypatch, pooling, two_sided, memory):
    """The coder for devices, which sums clipped responses, against the compiled one."""
    pytest.importorskip("torch")
    encoder = SoftThresholdEncoder(alpha=0.3, two_sided=two_sided)
    model = small(encoder=encoder, pooling=pooling, grid=[(1, 1), (2, 3)]).fit(images)
    expected = model.transform(images)
    chosen, original = [], _features.make_coder
    monkeypatch.setattr(
        _features, "make_coder", lambda *args: chosen.append(original(*args)) or chosen[-1]
    )
    with config_context(device="cpu", memory=memory):
        found = model.transform(images)
    assert [type(coder) for coder in chosen] == [Rectified]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * abs(expected).max())
