"""Measures in values worked by hand."""

import numpy as np
import pytest

from clusterica.experiments._measures import (
    excess_kurtosis,
    low_frequency_share,
    mean_absolute_cosine,
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


def test_excess_kurtosis():
    two_points = [-1.0, 1.0] * 4  # fourth moment 1, variance 1
    rare = [0.0] * 6 + [1.0, -1.0]  # fourth moment 1/4, variance 1/4
    kurtosis = excess_kurtosis(np.array([two_points, rare], dtype=np.float32).T)
    np.testing.assert_allclose(kurtosis, [-2, 1])


def test_worst_axis_angle():
    axes = np.eye(2)
    assert worst_axis_angle(np.array([[-5.0, 0.0], [0.0, 2.0]]), axes) == pytest.approx(0)
    turned = np.array([[1.0, 0.0], [1.0, np.sqrt(3)]])  # 0 and 60 degrees
    assert worst_axis_angle(turned, axes) == pytest.approx(30)
    missing = np.array([[1.0, 0.0], [2.0, 0.0]])
    assert worst_axis_angle(missing, axes) == pytest.approx(90)
