"""Parts of reconstruction ICA against the plain loop of its equation, and finite differences."""

import numpy as np
import pytest

from clusterica.arrays import to_host
from clusterica.contrasts import make_penalty
from clusterica.ops.moments import Moments
from clusterica.ops.rica import null_directions, penalty_sums, reconstruction
from clusterica.preprocessing import ContrastNormalizer


@pytest.fixture
def problem():
    rng = np.random.default_rng()
    X = rng.laplace(size=(40, 5)) @ rng.normal(size=(5, 5)) + 2
    return X, rng.normal(size=(7, 5)), X.mean(axis=0)


@pytest.mark.parametrize("tightness", [1.0, 7 / 5])
def test_reconstruction_is_that_of_a_loop(problem, tightness):
    X, W, mean = problem
    C = np.cov(X.T, bias=True)

    def looped(W):
        return np.mean([np.sum((W.T @ W @ x / tightness - x) ** 2) for x in X - mean])

    value, gradient = reconstruction(W, C, tightness)
    np.testing.assert_allclose(value, looped(W))
    move, step = np.random.default_rng().normal(size=W.shape), 1e-5
    slope = (looped(W + step * move) - looped(W - step * move)) / (2 * step)
    # Of the largest slope of any such move: that of this one may be near zero.
    size = np.linalg.norm(gradient) * np.linalg.norm(move)
    np.testing.assert_allclose((gradient * move).sum(), slope, atol=1e-6 * size)


def test_reconstruction_of_white_data_asks_for_orthonormal_filters(rng):
    """On white data it is |WᵀW - I|², and zero for a tight frame of unit vectors at its tightness."""
    W = rng.normal(size=(4, 3))
    np.testing.assert_allclose(reconstruction(W, np.eye(3))[0], ((W.T @ W - np.eye(3)) ** 2).sum())
    angles = np.pi * np.arange(5) / 5
    frame = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    np.testing.assert_allclose(reconstruction(frame, np.eye(2), 5 / 2)[0], 0, atol=1e-14)


@pytest.mark.parametrize("pooling", [None, "1d", [0, 0, 1, 1, 1, 2, 2]])
def test_penalty_sums_are_those_of_a_loop(put, problem, pooling):
    X, W, mean = problem
    g = make_penalty("logcosh", pooling, n_codes=7)

    def looped(W):
        return sum(float(g((W @ (x - mean))[None]).value) for x in X)

    value, gradient = penalty_sums(*(put(a) for a in problem), penalty=g)
    np.testing.assert_allclose(to_host(value), looped(W))
    move, step = np.random.default_rng().normal(size=W.shape), 1e-6
    slope = (looped(W + step * move) - looped(W - step * move)) / (2 * step)
    size = np.linalg.norm(to_host(gradient)) * np.linalg.norm(move)
    np.testing.assert_allclose((to_host(gradient) * move).sum(), slope, atol=1e-6 * size)


@pytest.mark.usefixtures("tiles_of_seven_rows")
def test_tiles_add_up(problem):
    g = make_penalty("l1", None, n_codes=7)
    whole = penalty_sums(*problem, penalty=g)
    for found, right in zip(penalty_sums(*problem, penalty=g), whole, strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-12)


def moments_of(X):
    X = X.astype(np.float64)
    centred = X - X.mean(axis=0)
    return Moments(float(len(X)), X.mean(axis=0), centred.T @ centred)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("away", [0, 1000])
def test_directions_without_variance(rng, dtype, away):
    X = rng.normal(size=(200, 6))
    X[:, :5] -= X[:, :5].mean(axis=1, keepdims=True)
    X[:, 5] = 1
    N = null_directions(moments_of((X + away).astype(dtype)), np.dtype(dtype))
    np.testing.assert_allclose(N @ N.T, np.eye(2), atol=1e-12)
    right = np.array([[1, 1, 1, 1, 1, 0], [0, 0, 0, 0, 0, np.sqrt(5)]]) / np.sqrt(5)
    np.testing.assert_allclose(N.T @ N, right.T @ right, atol=1e-2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_directions_of_little_variance_count(rng, dtype):
    X = (rng.normal(size=(200, 4)) * [1e4, 1, 1, 0.1]).astype(dtype)
    assert null_directions(moments_of(X), np.dtype(dtype)).shape == (0, 4)


def test_the_mean_of_normalised_patches_does_not_vary(rng):
    """Taken away in float32, from patches that are nearly flat as well."""
    patches = rng.uniform(100, 255, size=(500, 1)) + rng.normal(size=(500, 36)) * rng.uniform(
        0, 20, size=(500, 1)
    )
    X = ContrastNormalizer().fit_transform(patches.astype(np.float32))
    N = null_directions(moments_of(X), np.dtype(np.float32))
    np.testing.assert_allclose(np.abs(N), np.full((1, 36), 1 / 6), atol=1e-3)


def test_no_direction_is_without_variance_where_there_is_none():
    assert null_directions(moments_of(np.ones((5, 3))), np.dtype(np.float64)).shape == (0, 3)
