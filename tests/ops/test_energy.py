"""Energy correlations against their definition."""

import numpy as np
import pytest

from clusterica.arrays import as_rows, map_reduce
from clusterica.ops.energy import (
    PairSums,
    column_sums,
    energy_correlations,
    energy_sums,
    pair_energy_correlations,
    pair_sums,
)
from clusterica.preprocessing import Whitener


def dependent_inputs(rng, n=3000, d=6):
    """Mixed inputs whose variances rise and fall together by pairs."""
    variance = np.repeat(rng.gamma(1.0, size=(n, d // 2)), 2, axis=1)
    return np.sqrt(variance) * rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + 3


@pytest.mark.parametrize("eps", [0.0, 0.5])
def test_energy_correlations_are_correlations_of_squares(rng, eps):
    X = dependent_inputs(rng)
    whitener = Whitener(eps=eps).fit(X)
    total = map_reduce(energy_sums, as_rows(X), whitener.whitening_, whitener.mean_)
    expected = np.corrcoef(whitener.transform(X).T ** 2)
    np.testing.assert_allclose(energy_correlations(total), expected, atol=1e-9)


@pytest.mark.parametrize("eps", [0.0, 0.01])
def test_pairs_are_whitened_by_themselves(rng, eps):
    X = dependent_inputs(rng)
    seeds, n = np.array([4, 1]), len(X)
    mean, scale = X.mean(axis=0), 1 / X.std(axis=0)
    fourth = map_reduce(column_sums, as_rows(X), mean).fourth / n * scale**4
    total = map_reduce(pair_sums, as_rows(X), mean, scale, seeds)
    found = pair_energy_correlations(PairSums(*total), n, fourth, seeds, eps=eps)
    for i, seed in enumerate(seeds):
        for k in range(X.shape[1]):
            if k == seed:
                continue
            V = ((X - mean) * scale)[:, [seed, k]]
            values, vectors = np.linalg.eigh(V.T @ V / n)
            Z = V @ (vectors / np.sqrt(values + eps)) @ vectors.T
            expected = np.corrcoef(Z.T**2)[0, 1]
            assert found[i, k] == pytest.approx(expected, abs=1e-9)


def test_constant_inputs_depend_on_nothing(rng):
    X = rng.normal(size=(500, 3))
    X[:, 1] = 2.5
    whitener = Whitener(eps="1%").fit(X)
    total = map_reduce(energy_sums, as_rows(X), whitener.whitening_, whitener.mean_)
    d = energy_correlations(total)
    assert (d[1] == 0).all()
    assert (d[:, 1] == 0).all()
    assert np.isfinite(d).all()
