"""Sums of the ICA likelihood against a loop over rows, and against finite differences."""

import numpy as np
import pytest

from clusterica.arrays import to_host
from clusterica.contrasts import Exponential, LogCosh, Quartic, SmoothedLaplace
from clusterica.ops.likelihood import LikelihoodSums, likelihood_sums

CONTRASTS = [SmoothedLaplace(), SmoothedLaplace(0.5), LogCosh(), Exponential(), Quartic()]


@pytest.fixture
def problem(rng):
    X = rng.laplace(size=(50, 4)) + 1
    return X, rng.normal(size=(3, 4)), X.mean(axis=0)


def looped(X, B, mean, contrast):
    n = len(B)
    value, gradient, curvature, diagonal, energy = (
        0.0,
        np.zeros((n, n)),
        np.zeros(n),
        np.zeros(n),
        np.zeros(n),
    )
    for x in X:
        y = B @ (x - mean)
        G = contrast(y)
        value += G.value.sum()
        gradient += np.outer(G.first, y)
        curvature += G.second
        diagonal += G.second * y**2
        energy += y**2
    return LikelihoodSums(value, gradient, curvature, diagonal, energy)


def assert_same(sums, expected, rtol):
    for name, value, right in zip(LikelihoodSums._fields, sums, expected, strict=True):
        np.testing.assert_allclose(to_host(value), right, rtol=rtol, atol=rtol, err_msg=name)


@pytest.mark.parametrize("contrast", CONTRASTS, ids=str)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_sums_are_those_of_a_loop(put, problem, contrast, dtype):
    arrays = [put(a.astype(dtype)) for a in problem]
    rtol = 1e-12 if dtype == "float64" else 2e-4
    assert_same(
        likelihood_sums.__wrapped__(*arrays, contrast=contrast), looped(*problem, contrast), rtol
    )
    assert_same(likelihood_sums(*arrays, contrast=contrast), looped(*problem, contrast), rtol)


@pytest.mark.usefixtures("tiles_of_seven_rows")
def test_tiles_add_up(problem):
    whole = likelihood_sums.__wrapped__(*problem, contrast=LogCosh())
    assert_same(likelihood_sums(*problem, contrast=LogCosh()), whole, 1e-12)


def test_the_gradient_is_that_of_the_likelihood(rng):
    """Of ``sum_j E G(y_j) - log|det W|`` under W <- (I + E) W, by finite differences."""
    X = rng.laplace(size=(200, 3))
    W, mean, contrast, h = rng.normal(size=(3, 3)), np.zeros(3), SmoothedLaplace(), 1e-6

    def loss(E):
        moved = (np.eye(3) + E) @ W
        return contrast(X @ moved.T).value.sum() / 200 - np.log(abs(np.linalg.det(moved)))

    gradient = likelihood_sums(X, W, mean, contrast=contrast).gradient / 200 - np.eye(3)
    for i, j in np.ndindex(3, 3):
        E = np.zeros((3, 3))
        E[i, j] = h
        assert gradient[i, j] == pytest.approx((loss(E) - loss(-E)) / (2 * h), rel=1e-5, abs=1e-7)
