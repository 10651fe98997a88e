"""Patches of images against scikit-learn's and against a loop."""

import numpy as np
import pytest
from sklearn.feature_extraction.image import extract_patches_2d

from clusterica.arrays import to_host
from clusterica.ops.patch import extract_patches, n_places, take_patches


@pytest.mark.parametrize("shape", [(3, 7, 9, 3), (1, 4, 4, 1), (2, 8, 5, 2)])
@pytest.mark.parametrize("patch_size", [1, 3, 4])
def test_all_patches_as_scikit_learn_gives_them(put, rng, shape, patch_size):
    images = rng.standard_normal(shape)
    patches = to_host(extract_patches(put(images), patch_size=patch_size))
    for image, found in zip(images, patches, strict=True):
        expected = extract_patches_2d(image, (patch_size, patch_size))
        np.testing.assert_array_equal(
            found.reshape(len(expected), -1), expected.reshape(len(expected), -1)
        )
    assert patches.shape[1:3] == (shape[1] - patch_size + 1, shape[2] - patch_size + 1)


@pytest.mark.parametrize("stride", [1, 2, 3, 7])
def test_patches_at_a_stride(put, rng, stride):
    images = rng.integers(0, 256, size=(2, 9, 11, 3))
    patches = to_host(extract_patches(put(images), patch_size=4, stride=stride))
    tops, lefts = range(0, 9 - 4 + 1, stride), range(0, 11 - 4 + 1, stride)
    assert patches.shape == (2, len(tops), len(lefts), 48)
    for i in range(2):
        for y, top in enumerate(tops):
            for x, left in enumerate(lefts):
                expected = images[i, top : top + 4, left : left + 4]
                np.testing.assert_array_equal(patches[i, y, x], expected.ravel())
    assert len(tops) == n_places(9, patch_size=4, stride=stride)


def test_a_patch_that_does_not_fit():
    assert n_places(5, patch_size=6) == 0
    assert n_places(6, patch_size=6) == 1
    assert n_places(1, patch_size=6, stride=2) == 0


def test_single_patches(put, rng):
    images = rng.integers(0, 256, size=(4, 9, 7, 2))
    which, top, left = rng.integers(4, size=20), rng.integers(7, size=20), rng.integers(5, size=20)
    found = take_patches(*map(put, (images, which, top, left)), patch_size=3)
    expected = [
        images[i, y : y + 3, x : x + 3].ravel() for i, y, x in zip(which, top, left, strict=True)
    ]
    np.testing.assert_array_equal(to_host(found), expected)
    assert str(found.dtype).endswith(str(images.dtype))
