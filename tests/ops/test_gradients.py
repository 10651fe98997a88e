"""Histograms of gradients, against a loop over pixels."""

import tracemalloc

import numpy as np
import pytest

from clusterica.arrays import Row, row_bytes_of, to_host
from clusterica.ops.gradients import GradientHistograms


def slow_histogram(patch, clip=0.2):
    """A descriptor of one grey patch, pixel by pixel."""
    height, width = patch.shape
    down, across = np.gradient(patch)
    found = np.zeros((4, 4, 8))
    for y in range(height):
        for x in range(width):
            strength = np.hypot(down[y, x], across[y, x])
            angle = np.arctan2(down[y, x], across[y, x]) % (2 * np.pi) / (2 * np.pi) * 8
            v, u = (y + 0.5) / height * 4 - 0.5, (x + 0.5) / width * 4 - 0.5
            # In units of the side, with a standard deviation of half of it.
            apart = ((y + 0.5) / height - 0.5) ** 2 + ((x + 0.5) / width - 0.5) ** 2
            strength *= np.exp(-apart / 0.5)
            for i in range(4):
                for j in range(4):
                    for o in range(8):
                        turn = abs(angle - o)
                        turn = min(turn, 8 - turn)
                        share = [max(0, 1 - abs(d)) for d in (v - i, u - j, turn)]
                        found[i, j, o] += strength * np.prod(share)
    found = found.ravel() / np.linalg.norm(found)
    found = np.minimum(found, clip)
    return found / np.linalg.norm(found)


@pytest.mark.parametrize(("height", "width"), [(16, 16), (8, 11), (3, 2)])
def test_a_loop_over_pixels(put, height, width):
    patches = np.random.default_rng().normal(size=(3, height, width)).cumsum(axis=1)
    X = put(patches.reshape(3, -1))
    found = GradientHistograms(height, width, 1).describe(X)
    assert type(found) is type(X)
    expected = [slow_histogram(patch) for patch in patches]
    np.testing.assert_allclose(to_host(found), expected, atol=1e-6)


def test_channels_are_averaged():
    colour = np.random.default_rng().normal(size=(4, 8, 8, 3))
    found = GradientHistograms(8, 8, 3).describe(colour.reshape(4, -1))
    grey = GradientHistograms(8, 8, 1).describe(colour.mean(axis=3).reshape(4, -1))
    np.testing.assert_allclose(found, grey, atol=1e-12)


def test_contrast_and_brightness_do_not_matter_but_for_flat_patches(put):
    rng = np.random.default_rng()
    X, histograms = rng.random((5, 64)), GradientHistograms(8, 8, 1)
    found = to_host(histograms.describe(put(X)))
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1)
    other = to_host(histograms.describe(put(3 * X + 7)))
    np.testing.assert_allclose(other, found, atol=1e-9)
    flat = to_host(GradientHistograms(8, 8, 1, floor=1.0).describe(put(1e-3 * X)))
    assert np.linalg.norm(flat, axis=1).max() < 0.1
    assert not to_host(histograms.describe(put(np.full((2, 64), 9.0)))).any()


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_a_turned_patch_has_a_turned_descriptor(turns):
    patch = np.random.default_rng().normal(size=(12, 12))
    histograms = GradientHistograms(12, 12, 1)
    first, turned = (
        histograms.describe(p.reshape(1, -1)).reshape(4, 4, 8)
        for p in (patch, np.rot90(patch, -turns))
    )
    expected = np.roll(np.rot90(first, -turns), 2 * turns, axis=2)
    np.testing.assert_allclose(turned, expected, atol=1e-9)


@pytest.mark.parametrize(
    ("side", "channels", "n_orientations"), [(16, 1, 8), (16, 3, 8), (4, 1, 36)]
)
def test_memory_is_as_stated(side, channels, n_orientations):
    histograms = GradientHistograms(side, side, channels, n_orientations=n_orientations)
    X = np.random.default_rng().random((500, side * side * channels)).astype(np.float32)
    histograms.describe(X[:2])  # weights that are kept between calls
    tracemalloc.start()
    histograms.describe(X)
    used = tracemalloc.get_traced_memory()[1] / len(X)
    tracemalloc.stop()
    stated = row_bytes_of(histograms.describe, Row(X.shape[1], 4, X[0].nbytes, True), ())
    assert 0.5 < used / stated < 1.05
