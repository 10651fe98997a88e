"""Sums for fitted scores against a loop over rows, and the distributions that are fitted to them."""

import numpy as np
import pytest

from clusterica.arrays import to_host
from clusterica.ica._likelihood import fit_scores
from clusterica.ops.score import (
    WIDTHS,
    EnergyProducts,
    ScoreSums,
    energy_products,
    score_sums,
)


@pytest.fixture
def problem(rng):
    X = rng.laplace(size=(50, 4)) + 1
    return X, rng.normal(size=(3, 4)), X.mean(axis=0)


def looped(X, B, mean):
    k, n = len(WIDTHS), len(B)
    shapes = [(k, n), (k, n, n), (k, n), (k, n), (k, k, n), (n, n)]
    size, gradient, curvature, diagonal, products, second = (np.zeros(shape) for shape in shapes)
    for x in X:
        y = B @ (x - mean)
        roots = [np.sqrt(y**2 + w**2) for w in WIDTHS]
        for i, (w, r) in enumerate(zip(WIDTHS, roots, strict=True)):
            size[i] += r - w
            gradient[i] += np.outer(y / r, y)
            curvature[i] += w**2 / r**3
            diagonal[i] += w**2 / r**3 * y**2
            for j, other in enumerate(roots):
                products[i, j] += (y / r) * (y / other)
        second += np.outer(y, y)
    return ScoreSums(size, gradient, curvature, diagonal, products, second)


def assert_same(sums, expected, rtol):
    for name, value, right in zip(expected._fields, sums, expected, strict=True):
        np.testing.assert_allclose(to_host(value), right, rtol=rtol, atol=rtol, err_msg=name)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_sums_are_those_of_a_loop(put, problem, dtype):
    arrays = [put(a.astype(dtype)) for a in problem]
    rtol = 1e-12 if dtype == "float64" else 2e-4
    assert_same(score_sums.__wrapped__(*arrays), looped(*problem), rtol)
    assert_same(score_sums(*arrays), looped(*problem), rtol)


def test_energies_are_those_of_a_loop(put, problem):
    X, B, mean = problem
    F = np.array([1 - 1 / (1 + (B @ (x - mean)) ** 2) for x in X])
    expected = EnergyProducts(F.sum(axis=0), F.T @ F)
    assert_same(energy_products(*(put(a) for a in problem)), expected, 1e-12)


@pytest.mark.usefixtures("tiles_of_seven_rows")
def test_tiles_add_up(problem):
    assert_same(score_sums(*problem), looped(*problem), 1e-12)


DISTRIBUTIONS = {
    "gaussian": lambda rng, n: rng.normal(size=n),
    "laplace": lambda rng, n: rng.laplace(size=n),
    "uniform": lambda rng, n: rng.uniform(-1, 1, n),
    "binary": lambda rng, n: rng.choice([-1.0, 1.0], n),
    "cauchy": lambda rng, n: rng.standard_cauchy(n),
}


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_a_fitted_score_is_that_of_a_density_of_the_right_scale(distribution):
    """E[ψ y] = 1, and ψ(y) > 0 far out; κ = E[ψ'] is 1 for a Gaussian distribution, and more for others."""
    y = DISTRIBUTIONS[distribution](np.random.default_rng(0), 50_000)[:, None]
    y = (y - y.mean()) / y.std()
    sums = score_sums(y, np.eye(1), np.zeros(1))
    (a,), b = fit_scores(ScoreSums(*(value / len(y) for value in sums)))

    def psi(t):
        return a * t + sum(
            c * t / np.sqrt(t**2 + w**2) for c, w in zip(b[:, 0], WIDTHS, strict=True)
        )

    assert a >= 0
    assert psi(1e6) > 0
    assert (psi(y) * y).mean() == pytest.approx(1)
    step = 1e-6
    kappa = ((psi(y + step) - psi(y - step)) / (2 * step)).mean()
    if distribution == "gaussian":
        assert kappa == pytest.approx(1, abs=0.01)
    else:
        assert kappa > 1.2


def test_the_score_of_a_laplace_distribution_is_found():
    """√2 sign(y), but for what is rounded near 0."""
    y = np.random.default_rng(0).laplace(size=(200_000, 1)) / np.sqrt(2)
    sums = score_sums(y, np.eye(1), np.zeros(1))
    (a,), b = fit_scores(ScoreSums(*(value / len(y) for value in sums)))
    for t in (0.5, 1.0, 2.0, 4.0):
        psi = a * t + (b[:, 0] * t / np.sqrt(t**2 + np.square(WIDTHS))).sum()
        assert psi == pytest.approx(np.sqrt(2), rel=0.2)
