"""Excess kurtosis against SciPy, and where that would lose digits."""

import numpy as np
from scipy import stats

from clusterica.metrics import excess_kurtosis


def test_by_hand():
    two_points, rare = [1, -1, 1, -1, 1, -1, 1, -1], [2, -2, 0, 0, 0, 0, 0, 0]
    kurtosis = excess_kurtosis(np.array([two_points, rare], dtype=np.float32).T)
    np.testing.assert_allclose(kurtosis, [-2, 1])


def test_against_scipy():
    X = np.random.default_rng().laplace(size=(200, 5)) + 3
    np.testing.assert_allclose(excess_kurtosis(X), stats.kurtosis(X), rtol=1e-9, atol=1e-9)


def test_scale_does_not_matter():
    X = np.random.default_rng().laplace(size=(200, 2))
    expected = excess_kurtosis(X)
    for scale in (1e-300, 1e-170, 1e-150, 1e150, 1e160, 1e305):
        np.testing.assert_allclose(excess_kurtosis(scale * X), expected, rtol=1e-9)


def test_constant_columns():
    X = np.column_stack([np.full(9, 7.0), np.arange(9.0)])
    assert np.isnan(excess_kurtosis(X)).tolist() == [True, False]
