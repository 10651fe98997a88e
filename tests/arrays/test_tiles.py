"""Sums by tiles are the sums of the block, wherever it lives."""

from typing import NamedTuple

import numpy as np
import pytest

from clusterica.arrays import _walk, namespace_of, sum_tiles, to_host


class Two(NamedTuple):
    total: object
    products: object


def sums(X, shift):
    xp = namespace_of(X)
    return Two(xp.sum(X - shift, axis=0), (X - shift).T @ (X - shift))


@pytest.mark.usefixtures("tiles_of_seven_rows")
@pytest.mark.parametrize("n_rows", [0, 1, 6, 7, 8, 50])
def test_tiles_add_up(put, rng, n_rows):
    X, shift = rng.standard_normal((n_rows, 2)), np.array([1.0, -2.0])
    found = sum_tiles(sums, put(X), put(shift), width=2)
    assert isinstance(found, Two)
    for value, right in zip(found, sums(X, shift), strict=True):
        np.testing.assert_allclose(to_host(value), right, atol=1e-12)


def test_float32_tiles_are_added_in_float64(monkeypatch):
    monkeypatch.setattr(_walk, "TILE_ROWS", 2)
    monkeypatch.setattr(_walk, "TILE", 2)
    X = np.full((2000, 1), 1 + 2**-20, np.float32)
    found = sum_tiles(sums, X, np.zeros(1, np.float32), width=1)
    assert found.total.dtype == np.float64
    np.testing.assert_allclose(found.total, 2000 * (1 + 2**-20), rtol=1e-9)


def test_tiles_of_a_small_block_are_a_quarter_of_it():
    seen = []

    def count(X):
        seen.append(len(X))
        return sums(X, 0.0)

    sum_tiles(count, np.ones((10_000, 2)), width=2)
    assert seen == [2500] * 4
    seen.clear()
    sum_tiles(count, np.ones((3000, 2)), width=2)
    assert seen == [2048, 952]


def test_tiles_of_wide_rows_are_not_thin():
    """Each would have few rows, and adding up products of all features would take longer than they do."""
    seen = []

    def count(X):
        seen.append(len(X))
        return sums(X, 0.0)

    sum_tiles(count, np.ones((1000, 300)), width=300_000)
    assert seen == [256, 256, 256, 232]
