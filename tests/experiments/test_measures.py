"""Measures in values worked by hand."""

import subprocess
import sys

import numpy as np
import pytest

from clusterica.experiments._measures import (
    low_frequency_share,
    match_columns,
    mean_absolute_cosine,
    orientation_share,
    spread,
    worst_axis_angle,
)


def wave(*, cycles, side=16):
    """A vertical grating with so many cycles a filter."""
    return np.tile(np.cos(2 * np.pi * cycles * np.arange(side) / side), side)


def test_low_frequency_share():
    slow, fast = wave(cycles=1), wave(cycles=6)  # 1/16 and 6/16 cycles a pixel
    shares = low_frequency_share(np.stack([slow, fast, slow + fast]), cutoff=0.125)
    np.testing.assert_allclose(shares, [1, 0, 0.5], atol=1e-12)


def test_mean_absolute_cosine():
    rows = np.array([[1.0, 0.0], [0.0, -2.0], [-3.0, 0.0]])  # cosines 0, -1, 0
    assert mean_absolute_cosine(rows) == pytest.approx(1 / 3)


def test_worst_axis_angle():
    axes = np.eye(2)
    assert worst_axis_angle(np.array([[-5.0, 0.0], [0.0, 2.0]]), axes) == pytest.approx(0)
    turned = np.array([[1.0, 0.0], [1.0, np.sqrt(3)]])  # 0 and 60 degrees
    assert worst_axis_angle(turned, axes) == pytest.approx(30)
    missing = np.array([[1.0, 0.0], [2.0, 0.0]])
    assert worst_axis_angle(missing, axes) == pytest.approx(90)


def test_orientation_share():
    side = 8
    y, x = np.mgrid[:side, :side] * (2 * np.pi / side)
    gratings = [np.cos(x), np.sin(2 * y), np.cos(x + y), np.cos(x - 2 * y), np.cos(4 * x)]
    crossed = [np.cos(x) + np.cos(y), np.cos(x + 2 * y) + np.cos(2 * x - y)]
    # Half a cycle a pixel upwards is one downwards as well: no way to tell the diagonals apart.
    both_diagonals = [np.cos(4 * x + 4 * y)]
    filters = np.array(gratings + crossed + both_diagonals).reshape(-1, side * side)
    expected = [1] * 5 + [0] * 3
    np.testing.assert_allclose(orientation_share(filters), expected, atol=1e-12)
    np.testing.assert_allclose(orientation_share(filters + 5), expected, atol=1e-12)


def test_match_columns(rng):
    columns = rng.standard_normal((6, 4))
    order, signs = np.array([2, 0, 3, 1]), np.array([1.0, -1.0, -1.0, 1.0])
    found = np.empty((6, 5))
    found[:, order] = columns * signs * [1, 2, 3, 4]
    found[:, 4] = 1e-3  # one too many
    match = match_columns(found, columns)
    np.testing.assert_array_equal(match.order, order)
    np.testing.assert_array_equal(match.signs, signs)
    np.testing.assert_allclose(match.cosines, 1)


def test_match_is_optimal_as_a_whole():
    columns = np.array([[1.0, 0.0], [0.0, 1.0]])
    found = np.array([[0.8, 0.6], [0.6, 0.0]])  # both nearest to the first axis
    match = match_columns(found, columns)
    np.testing.assert_array_equal(match.order, [1, 0])
    np.testing.assert_allclose(match.cosines, [1, 0.6])


def test_peak_memory_counts_what_was_allocated():
    code = (
        "import numpy as np; from clusterica.experiments._measures import peak_memory; "
        "before = peak_memory(); np.ones(2**24); print(before, peak_memory())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    if "None" in done.stdout:
        pytest.skip("this system does not tell")
    before, after = (int(part) / 2**20 for part in done.stdout.split())  # MiB
    assert 10 < before < 2000
    assert 120 < after - before < 160  # 128 were taken


def test_only_noise_spreads_over_pixels_and_frequencies():
    rng = np.random.default_rng()
    noise = np.median(spread(rng.standard_normal((500, 100))))
    assert noise == pytest.approx(1 / 6, abs=0.02)
    x = np.arange(10)
    dot, edge, grating = np.zeros((10, 10)), np.zeros((10, 10)), np.zeros((10, 10))
    dot[3, 4] = 1
    edge[4], edge[5] = 1, -1
    grating[:] = np.sin(2 * np.pi * x / 5)
    clear = spread(np.stack([dot, edge, grating]).reshape(3, -1))
    assert (clear < 0.3 * noise).all()
    np.testing.assert_allclose(clear[[0, 2]], [1 / 100, 2 / 3 * 2 / 100])
