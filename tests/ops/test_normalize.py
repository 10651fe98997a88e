"""Contrast of rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterica.arrays import to_host
from clusterica.ops.patch import extremes, normalize_contrast


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("eps", [0.0, 0.5, 10.0])
def test_contrast_against_a_loop(put, rng, dtype, eps):
    X = (rng.standard_normal((20, 6)) * 30 + 100).astype(dtype)
    expected = [(x - x.mean()) / np.sqrt(x.var() + eps) for x in X.astype(np.float64)]
    found = to_host(normalize_contrast(put(X), eps=eps))
    assert found.dtype == dtype
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_contrast_by_hand(put):
    found = normalize_contrast(put(np.array([[1.0, 3.0], [5.0, 5.0]])), eps=3.0)
    np.testing.assert_allclose(to_host(found), [[-0.5, 0.5], [0, 0]])


@given(
    value=st.floats(-1e6, 1e6, width=32),
    n_features=st.integers(1, 200),
    dtype=st.sampled_from(["float32", "float64"]),
)
def test_a_flat_row_without_eps_stays_zero(value, n_features, dtype):
    X = np.full((1, n_features), value, dtype)
    np.testing.assert_allclose(normalize_contrast(X, eps=0.0), 0, atol=1e-6)


@given(seed=st.integers(0, 2**16), shift=st.floats(-100, 100), scale=st.floats(0.01, 100))
def test_contrast_ignores_brightness_and_scale(seed, shift, scale):
    X = np.random.default_rng(seed).standard_normal((5, 8))
    np.testing.assert_allclose(
        normalize_contrast(scale * X + shift, eps=0.0), normalize_contrast(X, eps=0.0), atol=1e-6
    )


def test_extremes(put, rng):
    X = rng.standard_normal((9, 4))
    np.testing.assert_array_equal(
        to_host(extremes(put(X))), np.stack([X.min(axis=1), X.max(axis=1)], axis=1)
    )
