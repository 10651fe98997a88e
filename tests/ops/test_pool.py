"""Pooling over the cells of grids, against array_split and plain reductions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import gaussian_mean

from clusterica.arrays import to_host
from clusterica.ops.patch import (
    Cell,
    CellPooling,
    cuts,
    finish_cells,
    gaussian_weights,
    grid_cells,
    pool,
    reduce_cells,
)

PLAIN = {
    CellPooling.SUM: np.sum,
    CellPooling.MEAN: np.mean,
    CellPooling.MAX: np.max,
    CellPooling.L2: np.linalg.norm,
}
plain_poolings = pytest.mark.parametrize("pooling", PLAIN, ids=lambda p: p.name)


@given(n_cells=st.integers(1, 9), more=st.integers(0, 40))
def test_cells_are_those_of_array_split(n_cells, more):
    parts = np.array_split(np.arange(n_cells + more), n_cells)
    assert cuts(n_cells + more, n_cells) == [int(p[0]) for p in parts] + [n_cells + more]


def test_halves_of_27_places():
    assert grid_cells((27, 27), [(2, 2)]) == [
        Cell(0, 14, 0, 14),
        Cell(0, 14, 14, 27),
        Cell(14, 27, 0, 14),
        Cell(14, 27, 14, 27),
    ]
    assert [c.size for c in grid_cells((27, 27), [(2, 2)])] == [196, 182, 182, 169]


@plain_poolings
@pytest.mark.parametrize("grids", [[(1, 1)], [(2, 2)], [(3, 2)], [(1, 1), (2, 2), (5, 4)]])
def test_pooling_against_plain_reductions(put, rng, pooling, grids):
    codes = rng.standard_normal((3, 5, 7, 4))
    expected = [
        [
            PLAIN[pooling](cell[:, :, j])
            for n_down, n_across in grids
            for rows in np.array_split(image, n_down, axis=0)
            for cell in np.array_split(rows, n_across, axis=1)
            for j in range(4)
        ]
        for image in codes
    ]
    found = pool(put(codes), grid_cells((5, 7), grids), pooling=pooling)
    np.testing.assert_allclose(to_host(found), expected, rtol=1e-12)


@pytest.mark.parametrize("grids", [[(1, 1)], [(2, 2)], [(3, 2)], [(1, 1), (2, 2), (5, 4)]])
def test_gaussian_pooling_against_plain_means(put, rng, grids):
    codes = rng.standard_normal((3, 5, 7, 4))
    expected = [
        np.concatenate(
            [
                gaussian_mean(image, rows, columns)
                for n_down, n_across in grids
                for rows in np.array_split(np.arange(5), n_down)
                for columns in np.array_split(np.arange(7), n_across)
            ]
        )
        for image in codes
    ]
    found = pool(put(codes), grid_cells((5, 7), grids), pooling=CellPooling.GAUSSIAN)
    np.testing.assert_allclose(to_host(found), expected, rtol=1e-12)


def test_gaussian_weights_worked_by_hand():
    cells = [Cell(0, 1, 2, 4), Cell(0, 1, 0, 2)]
    down, across, pairs = gaussian_weights(tuple(cells), 4)
    # Distances from the middle of a cell of width 2, whose σ is 1: .5, .5, 1.5 and 2.5.
    w = np.exp([-0.125, -0.125, -1.125, -3.125])
    np.testing.assert_allclose(across, np.array([w, w[::-1]]) / w.sum())
    assert down.tolist() == [[1]]
    assert pairs.tolist() == [1, 0]


def test_float32_stays_float32(put):
    codes = put(np.ones((1, 2, 2, 3), np.float32))
    for pooling in CellPooling:
        assert str(pool(codes, [Cell(0, 2, 0, 2)], pooling=pooling).dtype).endswith("float32")


@pytest.mark.parametrize("pooling", CellPooling, ids=lambda p: p.name)
@pytest.mark.parametrize("band", [1, 2, 3, 9])
def test_bands_of_rows_give_the_same(put, rng, pooling, band):
    codes = put(rng.standard_normal((2, 9, 4, 3)))
    cells = grid_cells((9, 4), [(2, 2), (3, 1)])
    reduced = None
    for top in range(0, 9, band):
        part = codes[:, top : min(top + band, 9), :, :]
        reduced = reduce_cells(part, cells, pooling=pooling, first_row=top, so_far=reduced)
    found = finish_cells(reduced, cells, pooling=pooling)
    np.testing.assert_allclose(
        to_host(found), to_host(pool(codes, cells, pooling=pooling)), rtol=1e-12
    )
