"""Moments of blocks, put together in any way, are those of all rows."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from clusterica.arrays import as_rows, map_reduce, to_host
from clusterica.ops.assign import energy
from clusterica.ops.moments import Moments, about_mean, merge, moments, winning_energies


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_moments_against_a_loop(put, rng, dtype):
    X, about = rng.integers(-3, 4, size=(20, 3)).astype(dtype), np.array([1, -1, 0], dtype)
    first, second = np.zeros(3), np.zeros((3, 3))
    for x in X:
        first += x - about
        second += np.outer(x - about, x - about)
    found = moments(put(X), put(about))
    assert float(found.n) == 20
    np.testing.assert_array_equal(to_host(found.first), first)
    np.testing.assert_array_equal(to_host(found.second), second)


@pytest.mark.parametrize("about", [np.zeros(3), np.array([5.0, -2.0, 100.0])])
def test_mean_and_products_about_any_point(put, rng, about):
    X = rng.standard_normal((50, 3)) @ rng.standard_normal((3, 3)) + [5, -2, 100]
    rows = as_rows(put(X))
    n, mean, second = about_mean(map_reduce(moments, rows, about), rows.place.put(about))
    np.testing.assert_allclose(to_host(mean), X.mean(axis=0), rtol=1e-10)
    np.testing.assert_allclose(to_host(second), 49 * np.cov(X.T), rtol=1e-8, atol=1e-6)
    np.testing.assert_array_equal(to_host(second), to_host(second).T)
    assert float(n) == 50


@pytest.mark.parametrize("n", [20, 5000])
def test_every_row_gives_its_energy_to_the_largest_response(put, rng, n):
    X, B, mean = rng.normal(size=(n, 3)), rng.normal(size=(7, 3)), rng.normal(size=3)
    expected = np.zeros(7)
    for x in X:
        responses = B @ (x - mean)
        expected[responses.argmax()] += responses.max() ** 2
    (found,) = winning_energies(put(X), put(B), put(mean))
    np.testing.assert_allclose(to_host(found), expected, rtol=1e-10)


def centred_moments(X):
    mean = X.mean(axis=0)
    return Moments(np.float64(len(X)), mean, (X - mean).T @ (X - mean))


@given(
    sizes=st.lists(st.integers(1, 30), min_size=2, max_size=5),
    offset=st.sampled_from([0, 1, 1e4]),
    seed=st.integers(0, 2**16),
)
def test_merged_moments_are_those_of_all_rows(sizes, offset, seed):
    rng = np.random.default_rng(seed)
    parts = [rng.standard_normal((n, 3)) + offset * rng.standard_normal(3) for n in sizes]
    merged = centred_moments(parts[0])
    for part in parts[1:]:
        merged = merge(merged, centred_moments(part))
    for value, wanted in zip(merged, centred_moments(np.concatenate(parts)), strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-9, atol=1e-9)


def test_merge_in_every_library(put, rng):
    a, b = rng.standard_normal((7, 3)), rng.standard_normal((4, 3))
    merged = merge(*(Moments(*map(put, centred_moments(X))) for X in (a, b)))
    for value, wanted in zip(merged, centred_moments(np.concatenate([a, b])), strict=True):
        np.testing.assert_allclose(to_host(value), wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shifted", [False, True])
def test_energy(put, rng, dtype, shifted):
    X, weights = rng.integers(-2, 3, size=(30, 2)).astype(dtype), np.arange(30).astype(dtype)
    shift = np.array([1, 2], dtype) if shifted else None
    total = weight = 0.0
    for x, w in zip(X if shift is None else X - shift, weights, strict=True):
        total += w * x @ x
        weight += w * x.any()
    found = energy(put(X), None if shift is None else put(shift), put(weights))
    assert (float(found.energy), float(found.weight)) == (total, weight)
    assert 0 < weight < weights.sum()
    if shift is None:
        found = energy(sp.csr_array(X), None, weights)
        assert (float(found.energy), float(found.weight)) == (total, weight)
