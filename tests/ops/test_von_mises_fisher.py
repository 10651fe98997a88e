"""The ops of von Mises-Fisher mixtures, against loops over rows."""

import numpy as np
import pytest
from scipy import sparse, special, stats

from clusterica.arrays import to_host
from clusterica.ops.bessel import log_bessel
from clusterica.ops.von_mises_fisher import (
    Mixture,
    MixtureSums,
    best_components,
    concentration,
    log_constant,
    log_densities,
    memberships,
    mixture_sums,
    offsets,
    renew,
)


def unit(X):
    return X / np.linalg.norm(X, axis=1)[:, None]


def draw(n_features, n_components=3):
    rng = np.random.default_rng()
    return Mixture(
        unit(rng.normal(size=(n_components, n_features))),
        n_features * rng.uniform(0.1, 3, n_components),
        rng.dirichlet(np.ones(n_components)),
    )


def by_loop(X, mixture, weights):
    """Return the log-densities, memberships and sums, row by row."""
    densities, P = [], []
    R, counts = np.zeros_like(mixture.means), np.zeros(len(mixture.kappa))
    constants = log_constant(X.shape[1], mixture.kappa)
    for x, w in zip(X, weights, strict=True):
        if not x.any():
            densities.append(0.0)
            P.append(mixture.weights)
            continue
        x = x / np.sqrt(x @ x)
        terms = np.log(mixture.weights) + constants + mixture.kappa * (mixture.means @ x)
        densities.append(special.logsumexp(terms))
        P.append(np.exp(terms - densities[-1]))
        R += w * P[-1][:, None] * x
        counts += w * P[-1]
    return np.array(densities), np.array(P), R, counts


@pytest.mark.parametrize("d", [2, 3, 7, 60])
def test_the_constant_is_that_of_scipy(d):
    rng = np.random.default_rng()
    mu = unit(rng.normal(size=(1, d)))[0]
    kappa = rng.uniform(0.1, 50)
    x = unit(rng.normal(size=(5, d)))
    expected = stats.vonmises_fisher(mu, kappa).logpdf(x)
    np.testing.assert_allclose(log_constant(d, np.array([kappa])) + kappa * (x @ mu), expected)


@pytest.mark.parametrize("d", [2, 3, 1000])
def test_no_concentration_is_the_uniform_distribution(d):
    area = np.log(2) + d / 2 * np.log(np.pi) - special.gammaln(d / 2)
    np.testing.assert_allclose(log_constant(d, np.array([0.0])), -area, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("d", [2, 3, 4, 10, 300, 5000])
def test_concentration_solves_its_equation(d):
    kappa = 10 ** np.random.default_rng().uniform(-3, 5, 200)
    r = log_bessel(d / 2 - 1, kappa).ratio
    found = concentration(d, r, largest=1e10)
    np.testing.assert_allclose(log_bessel(d / 2 - 1, found).ratio, r, rtol=1e-12)
    # 1 - r has lost digits where rows lie together closely.
    np.testing.assert_allclose(found, kappa, rtol=1e-8)


def test_concentration_of_one_direction_and_of_none():
    found = concentration(5, np.array([0.0, 1.0, 1 + 1e-15]), largest=1e6)
    np.testing.assert_allclose(found, [0, 1e6, 1e6], atol=1e-10)


def test_concentration_is_never_smaller_for_longer_means():
    for d in (2, 3, 30, 1000):
        r = np.concatenate([np.linspace(0, 1, 400), 1 - 10.0 ** np.arange(-15, 0)[::-1]])
        assert (np.diff(concentration(d, np.sort(r), largest=1e10)) >= 0).all()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("d", [2, 5, 1200])
def test_a_block(put, d, dtype):
    rng = np.random.default_rng()
    mixture = draw(d)
    X, weights = rng.normal(size=(40, d)), rng.uniform(size=40)
    X[:20] += 4 * mixture.means[rng.integers(3, size=20)] * d**0.5
    X[3] = 0
    densities, P, R, counts = by_loop(X, mixture, weights)
    offset, constant = offsets(mixture)
    params = [put(a.astype(dtype)) for a in (mixture.means, mixture.kappa, offset)]
    block, w = put(X.astype(dtype)), put(weights.astype(dtype))
    atol = 1e-9 if dtype == "float64" else 2e-6 * mixture.kappa.max()
    prior = put(mixture.weights.astype(dtype))
    np.testing.assert_allclose(to_host(memberships(block, *params, prior)), P, atol=atol)
    total = mixture_sums(block, *params, w)
    nonzero = np.arange(40) != 3
    expected = MixtureSums(
        R, counts, weights[nonzero] @ (densities[nonzero] - constant), weights[nonzero].sum()
    )
    for value, wanted in zip(total, expected, strict=True):
        np.testing.assert_allclose(to_host(value), wanted, atol=40 * atol, rtol=1e-5)
    found = log_densities(block, *params, put(np.array([constant])))
    np.testing.assert_allclose(to_host(found), densities, atol=atol, rtol=1e-6)
    if dtype == "float64":
        np.testing.assert_array_equal(
            to_host(best_components(block, *params))[nonzero], P[nonzero].argmax(axis=1)
        )


def test_csr_is_the_same():
    rng = np.random.default_rng()
    mixture = draw(30)
    X = rng.normal(size=(50, 30)) * (rng.random((50, 30)) < 0.1)
    params = (mixture.means, mixture.kappa, offsets(mixture)[0], rng.uniform(size=50))
    for a, b in zip(
        mixture_sums(sparse.csr_array(X), *params), mixture_sums(X, *params), strict=True
    ):
        assert isinstance(a, np.ndarray | np.floating)
        np.testing.assert_allclose(a, b)


@pytest.mark.parametrize("tied", [False, True])
def test_the_m_step_is_the_maximum(tied):
    """Of the expected log-likelihood, over moves of every parameter."""
    rng = np.random.default_rng()
    d, old = 6, draw(6)
    X = unit(rng.normal(size=(200, d)) + 2)
    _, P, R, counts = by_loop(X, old, np.ones(200))
    new = renew(MixtureSums(R, counts, 0.0, 200.0), old, tied=tied, largest=1e6)

    def expected(means, kappa, weights):
        terms = np.log(weights) + log_constant(d, kappa) + kappa * (X @ means.T)
        return (P * terms).sum()

    best = expected(*new)
    assert best >= expected(*old)
    for _ in range(20):
        means = unit(new.means + 0.05 * rng.normal(size=new.means.shape))
        factors = np.exp(0.1 * rng.normal(size=1 if tied else 3))
        weights = new.weights * np.exp(0.1 * rng.normal(size=3))
        assert expected(means, new.kappa, new.weights) < best
        assert expected(new.means, new.kappa * factors, new.weights) < best
        assert expected(new.means, new.kappa, weights / weights.sum()) < best


def test_a_component_without_rows_stays():
    old = draw(4)
    R, counts = 5 * old.means * [[1], [0], [0.5]], np.array([6.0, 0, 4])
    new = renew(MixtureSums(R, counts, 0.0, 10.0), old, tied=False, largest=1e6)
    np.testing.assert_array_equal(new.means[1], old.means[1])
    assert new.kappa[1] == old.kappa[1]
    assert new.weights.tolist() == [0.6, 0, 0.4]
    found, _ = offsets(new)
    assert found[1] == -np.inf
