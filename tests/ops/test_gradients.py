"""Histograms of gradients, against a loop over pixels."""

import numpy as np
import pytest

from clusterica.arrays import to_host
from clusterica.ops.gradients import PatchShape, gradient_histograms


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
    found = gradient_histograms(X, shape=PatchShape(height, width, 1))
    assert type(found) is type(X)
    expected = [slow_histogram(patch) for patch in patches]
    np.testing.assert_allclose(to_host(found), expected, atol=1e-6)


def test_channels_are_averaged():
    colour = np.random.default_rng().normal(size=(4, 8, 8, 3))
    found = gradient_histograms(colour.reshape(4, -1), shape=PatchShape(8, 8, 3))
    grey = gradient_histograms(colour.mean(axis=3).reshape(4, -1), shape=PatchShape(8, 8, 1))
    np.testing.assert_allclose(found, grey, atol=1e-12)


def test_contrast_and_brightness_do_not_matter_but_for_flat_patches(put):
    rng = np.random.default_rng()
    X, shape = rng.random((5, 64)), PatchShape(8, 8, 1)
    found = to_host(gradient_histograms(put(X), shape=shape))
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1)
    other = to_host(gradient_histograms(put(3 * X + 7), shape=shape))
    np.testing.assert_allclose(other, found, atol=1e-9)
    flat = to_host(gradient_histograms(put(1e-3 * X), shape=shape, floor=1.0))
    assert np.linalg.norm(flat, axis=1).max() < 0.1
    assert not to_host(gradient_histograms(put(np.full((2, 64), 9.0)), shape=shape)).any()


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_a_turned_patch_has_a_turned_descriptor(turns):
    patch = np.random.default_rng().normal(size=(12, 12))
    shape = PatchShape(12, 12, 1)
    first, turned = (
        gradient_histograms(p.reshape(1, -1), shape=shape).reshape(4, 4, 8)
        for p in (patch, np.rot90(patch, -turns))
    )
    expected = np.roll(np.rot90(first, -turns), 2 * turns, axis=2)
    np.testing.assert_allclose(turned, expected, atol=1e-9)
