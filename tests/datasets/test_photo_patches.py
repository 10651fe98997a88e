"""Patches are true windows of the two photographs, drawn the same way for the same seed."""

import sys

import numpy as np
import pytest
from sklearn.datasets import load_sample_images
from sklearn.utils import Bunch

from clusterica.datasets import photo_patches


@pytest.fixture(scope="module")
def photos():
    return [np.asarray(image, dtype=np.float32) for image in load_sample_images().images]


@pytest.mark.parametrize(("color", "n_features"), [(False, 25), (True, 75)])
def test_shape_type_and_range(color, n_features):
    patches = photo_patches(200, 5, color=color, random_state=0)
    assert patches.shape == (200, n_features)
    assert patches.dtype == np.float32
    assert patches.min() >= 0
    assert patches.max() <= 255
    assert patches.max() > 1


def test_a_color_patch_is_a_window_of_a_photograph(photos):
    patch = photo_patches(1, 6, color=True, random_state=3).reshape(6, 6, 3)
    found = 0
    for photo in photos:
        corners = np.argwhere((photo[:-5, :-5] == patch[0, 0]).all(axis=2))
        found += sum(np.array_equal(photo[i : i + 6, j : j + 6], patch) for i, j in corners)
    assert found >= 1


def test_grey_is_the_luminance_of_the_same_patches():
    grey = photo_patches(50, 4, random_state=1)
    color = photo_patches(50, 4, color=True, random_state=1).reshape(50, 16, 3)
    luminance = 0.299 * color[..., 0] + 0.587 * color[..., 1] + 0.114 * color[..., 2]
    np.testing.assert_allclose(grey, luminance, rtol=1e-5)


def test_patch_as_large_as_the_photographs_allows(photos):
    height = photos[0].shape[0]
    patches = photo_patches(3, height, random_state=0)
    assert patches.shape == (3, height * height)
    with pytest.raises(ValueError, match=rf"patch_size is {height + 1}.*from 1 to {height}"):
        photo_patches(3, height + 1)


def test_every_place_of_both_photographs_is_drawn(monkeypatch):
    low = np.arange(12, dtype=np.uint8).reshape(3, 4)  # a patch of 2 has 2 x 3 places in each
    images = [np.repeat(photo[:, :, np.newaxis], 3, axis=2) for photo in (low, low + 100)]
    monkeypatch.setattr("sklearn.datasets.load_sample_images", lambda: Bunch(images=images))
    patches = photo_patches(600, 2, color=True, random_state=0).reshape(600, 4, 3)[:, :, 0]
    corners, counts = np.unique(patches[:, 0], return_counts=True)
    assert corners.tolist() == [0, 1, 2, 4, 5, 6, 100, 101, 102, 104, 105, 106]
    assert counts.min() > 25  # 50 are expected
    assert (patches - patches[:, :1] == [0, 1, 4, 5]).all()


def test_seeds():
    first = photo_patches(20, 8, random_state=7)
    assert np.array_equal(first, photo_patches(20, 8, random_state=7))
    assert np.array_equal(first, photo_patches(20, 8, random_state=np.random.default_rng(7)))
    assert not np.array_equal(first, photo_patches(20, 8, random_state=8))
    state = np.random.RandomState(7)
    drawn = photo_patches(20, 8, random_state=state)
    assert np.array_equal(drawn, photo_patches(20, 8, random_state=np.random.RandomState(7)))
    assert not np.array_equal(drawn, photo_patches(20, 8, random_state=state))


def test_more_patches_begin_with_the_same_ones():
    few, many = (photo_patches(n, 8, random_state=0) for n in (10, 30))
    assert np.array_equal(many[:10], few)


@pytest.mark.parametrize("value", [0, -1, 2.5, True])
def test_counts_are_checked(value):
    with pytest.raises(ValueError, match="n_patches is"):
        photo_patches(value, 8)
    with pytest.raises(ValueError, match="patch_size is"):
        photo_patches(10, value)


def test_without_pillow_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match=r'pip install "clusterica\[plot\]"'):
        photo_patches(1, 8)
