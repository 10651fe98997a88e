"""Patches at random places: every place once at most, every image its share, the same for all sources."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterica import config_context
from clusterica.images import _bank, sample_patches


def numbered(n, height, width):
    """Images whose pixels are all different, so that a patch tells where it is from."""
    return np.arange(n * height * width).reshape(n, height, width)


def corners(patches, height, width):
    first = patches[:, 0].astype(int)
    return first // (height * width), first // width % height, first % width


@given(
    n=st.integers(1, 6),
    height=st.integers(3, 9),
    width=st.integers(3, 9),
    n_patches=st.integers(1, 300),
    seed=st.integers(0, 99),
)
def test_patches_are_patches_and_no_place_comes_twice(n, height, width, n_patches, seed):
    X = numbered(n, height, width)
    patches = sample_patches(X, n_patches, patch_size=3, random_state=seed)
    places = n * (height - 2) * (width - 2)
    assert patches.shape == (min(n_patches, places), 9)
    assert patches.dtype == np.float32
    for row, i, y, x in zip(patches, *corners(patches, height, width), strict=True):
        np.testing.assert_array_equal(row.reshape(3, 3), X[i, y : y + 3, x : x + 3])
    assert len(np.unique(patches[:, 0])) == len(patches)


def test_every_image_and_every_place_gets_its_share():
    counts = np.zeros((5, 6, 4))
    for seed in range(200):
        patches = sample_patches(numbered(5, 8, 6), 30, patch_size=3, random_state=seed)
        image, top, left = corners(patches, 8, 6)
        np.testing.assert_array_equal(np.bincount(image, minlength=5), 6)
        np.add.at(counts, (image, top, left), 1)
    # 50 expected at every place, with a deviation of about 6.
    assert counts.min() > 20
    assert counts.max() < 85


def test_patches_come_in_random_order():
    patches = sample_patches(numbered(50, 5, 5), 200, patch_size=3, random_state=0)
    image = corners(patches, 5, 5)[0]
    assert abs(np.corrcoef(image, np.arange(200))[0, 1]) < 0.3


def test_large_images_give_more(rng):
    X = [np.full((4, 4), 1.0), np.full((10, 10), 2.0), np.full((4, 4), 3.0)]
    patches = sample_patches(X, 33, patch_size=3, random_state=0)
    # 4, 64 and 4 places.
    counts = np.bincount(patches[:, 0].astype(int))[1:]
    np.testing.assert_allclose(counts, np.array([4, 64, 4]) * 33 / 72, atol=1)


def test_the_same_patches_wherever_the_images_are(images, tmp_path):
    expected = sample_patches(images, 100, random_state=3)
    np.save(tmp_path / "images.npy", images)
    sources = [
        np.load(tmp_path / "images.npy", mmap_mode="r"),
        list(images),
        images.astype(np.float64),
        np.asfortranarray(images),
        images.tolist(),
    ]
    for X in sources:
        np.testing.assert_array_equal(sample_patches(X, 100, random_state=3), expected)
    with config_context(memory="64KiB"):
        np.testing.assert_array_equal(sample_patches(images, 100, random_state=3), expected)
        np.testing.assert_array_equal(sample_patches(list(images), 100, random_state=3), expected)


def test_the_same_patches_of_tensors(images):
    torch = pytest.importorskip("torch")
    found = sample_patches(torch.asarray(images), 100, random_state=3)
    assert isinstance(found, torch.Tensor)
    assert found.dtype == torch.float32
    np.testing.assert_array_equal(found.numpy(), sample_patches(images, 100, random_state=3))


def test_few_patches_at_once(images, monkeypatch):
    expected = sample_patches(images, 100, random_state=3)
    monkeypatch.setattr(_bank, "_AT_ONCE", 7)
    for source in (images, np.asfortranarray(images), list(images)):
        for threads in (1, 4):
            with config_context(threads=threads):
                found = sample_patches(source, 100, random_state=3)
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("threads", [1, 8])
def test_memory_of_many_threads(threads, rng):
    """Images of lists are copied, one block for each thread: together they keep to the budget."""
    images = [image.astype(np.float64) for image in rng.normal(size=(600, 32, 32, 3))]
    sample_patches(images[:10], 10)
    with config_context(threads=threads, memory="8MiB"):
        tracemalloc.start()
        found = sample_patches(images, 4000, random_state=0)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    # The patches in float64, in order and shuffled, and in float32.
    assert peak < 8 * 2**20 + 5 * found.nbytes


def test_seeds(images):
    one, two = (sample_patches(images, 50, random_state=seed) for seed in (0, 1))
    assert not np.array_equal(one, two)
    generator = np.random.default_rng(0)
    np.testing.assert_array_equal(sample_patches(images, 50, random_state=generator), one)


@pytest.mark.parametrize("value", [0, -1, 2.5, True, "6"])
def test_bad_numbers(images, value):
    with pytest.raises(ValueError, match=r"n_patches is .*at least 1"):
        sample_patches(images, value)
    with pytest.raises(ValueError, match=r"patch_size is .*at least 1"):
        sample_patches(images, 10, patch_size=value)
