"""The compiled pooled codes against patches of scikit-learn and plain NumPy in float64."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.image import extract_patches_2d

from clusterica.ops.cpu import encode
from clusterica.ops.cpu.encode import Code, Filters, pooled_codes, split_channels
from clusterica.ops.patch import CellPooling, grid_cells, make_tiling, pool

every_code = pytest.mark.parametrize("code", Code, ids=lambda code: code.name)
every_pooling = pytest.mark.parametrize("pooling", CellPooling, ids=lambda pooling: pooling.name)


def problem(rng, *, shape=(3, 9, 10, 2), n_filters=7, patch_size=3):
    d = patch_size**2 * shape[3]
    images = rng.integers(0, 256, size=shape).astype(np.float32)
    return images, rng.standard_normal((n_filters, d)) / d**0.5, rng.standard_normal(n_filters) / 4


def codes_of(S, Y, F, bias, code, alpha):
    """Return the codes of rows Y with responses S = Y Fᵀ."""
    if code is Code.TRIANGLE:
        Z = np.linalg.norm(Y[:, None, :] - F, axis=2)
        return np.maximum(0, Z.mean(axis=1, keepdims=True) - Z)
    S = S - bias
    if code is Code.ONE_HOT:
        return np.eye(len(F))[np.argmax(S, axis=1)]
    if code is Code.SIGMOID:
        return 1 / (1 + np.exp(alpha - S))
    positive = np.maximum(0, S - alpha)
    return positive if code is Code.POSITIVE else np.hstack([positive, np.maximum(0, -S - alpha)])


def plain(images, filters, grids, *, patch_size, stride, eps, code, alpha, pooling):
    """Return the pooled codes, image by image."""
    F, bias, T, shift = filters
    down, across = ((n - patch_size) // stride + 1 for n in images.shape[1:3])
    features = []
    for image in images.astype(np.float64):
        patches = extract_patches_2d(image, (patch_size, patch_size))
        all_places = [n - patch_size + 1 for n in image.shape[:2]]
        P = patches.reshape(*all_places, -1)[::stride, ::stride].reshape(down * across, -1)
        if eps is not None:
            P = (P - P.mean(axis=1, keepdims=True)) / np.sqrt(P.var(axis=1, keepdims=True) + eps)
        Y = P if T is None else P @ T.T - shift
        codes = codes_of(Y @ F.T, Y, F, bias, code, alpha).reshape(1, down, across, -1)
        features.append(pool(codes, grid_cells((down, across), grids), pooling=pooling)[0])
    return np.array(features)


def check(images, filters, grids=((2, 2),), **settings):
    settings = {"patch_size": 3, "stride": 1, "eps": 10.0, "alpha": 0.25, **settings}
    p, s = settings["patch_size"], settings["stride"]
    places = [(n - p) // s + 1 for n in images.shape[1:3]]
    found = pooled_codes(images, filters, grid_cells(places, grids), **settings)
    assert found.dtype == np.float32
    np.testing.assert_allclose(
        found, plain(images, filters, grids, **settings), rtol=1e-4, atol=1e-4
    )


def filters_for(code, F, bias):
    return Filters(F, (F**2).sum(axis=1)) if code is Code.TRIANGLE else Filters(F, bias)


@every_code
@every_pooling
def test_codes_and_poolings(rng, code, pooling):
    images, F, bias = problem(rng)
    check(images, filters_for(code, F, bias), code=code, pooling=pooling)


@every_code
@pytest.mark.parametrize("grids", [[(1, 1)], [(3, 2)], [(1, 1), (2, 2), (3, 3)]], ids=str)
def test_grids(rng, code, grids):
    images, F, bias = problem(rng)
    check(images, filters_for(code, F, bias), grids, code=code, pooling=CellPooling.MEAN)


@every_code
@pytest.mark.parametrize("stride", [2, 3])
def test_strides(rng, code, stride):
    images, F, bias = problem(rng, shape=(2, 11, 9, 3))
    check(images, filters_for(code, F, bias), code=code, stride=stride, pooling=CellPooling.SUM)


@every_code
def test_explicit_whitening_and_no_normalisation(rng, code):
    images, F, bias = problem(rng)
    images = images / 255
    T, shift = rng.standard_normal((18, 18)), rng.standard_normal(18)
    filters = Filters(*filters_for(code, F, bias)[:2], T, shift)
    check(images, filters, code=code, eps=None, pooling=CellPooling.SUM)


@every_code
@pytest.mark.parametrize(
    "pooling",
    [CellPooling.SUM, CellPooling.MAX, CellPooling.GAUSSIAN],
    ids=lambda pooling: pooling.name,
)
@pytest.mark.parametrize(("most_rows", "responses"), [(5, 32), (17, 200), (1000, 10**6)])
def test_tiles_of_every_size(monkeypatch, rng, code, pooling, most_rows, responses):
    """Tiles smaller than a cell, than an image, and with several images; filters in several parts."""
    monkeypatch.setattr(encode, "_TILE_ROWS", (min(4, most_rows), most_rows))
    monkeypatch.setattr(encode, "_RESPONSES", responses)
    images, F, bias = problem(rng, shape=(5, 8, 7, 1), n_filters=37)
    grids = [(1, 1), (2, 3)]
    check(images, filters_for(code, F, bias), grids, code=code, pooling=pooling)


@given(
    places=st.tuples(st.integers(4, 20), st.integers(4, 20)),
    grids=st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=3),
    most_rows=st.integers(1, 500),
)
def test_a_tiling_covers_every_place_once(places, grids, most_rows):
    cells = grid_cells(places, grids)
    tiling = make_tiling(tuple(cells), most_rows)
    seen = np.zeros(places, int)
    piece_of = np.full(places, -1)
    for i, piece in enumerate(tiling.pieces):
        piece_of[piece.top : piece.bottom, piece.left : piece.right] = i
    order = []
    for y, x, length in tiling.runs:
        seen[y, x : x + length] += 1
        order.extend(piece_of[y, x : x + length])
    np.testing.assert_array_equal(seen, 1)
    starts = np.concatenate([[0], np.cumsum(tiling.runs[:, 2])])[tiling.tiles]
    assert np.diff(starts).max() <= most_rows
    covered = []
    for tile, start, stop, piece in tiling.segments:
        part = order[starts[tile] + start : starts[tile] + stop]
        assert stop > start
        assert set(part) == {piece}
        covered.extend(range(starts[tile] + start, starts[tile] + stop))
    assert covered == list(range(seen.size))


def test_flat_patches_without_eps_become_zero():
    images = np.full((1, 4, 4, 1), 77, np.float32)
    filters = Filters(np.ones((1, 9)), np.array([-2.0]))
    settings = {"patch_size": 3, "stride": 1, "eps": 0.0, "code": Code.POSITIVE, "alpha": 0.5}
    found = pooled_codes(
        images, filters, grid_cells((2, 2), [(1, 1)]), **settings, pooling=CellPooling.SUM
    )
    np.testing.assert_allclose(found, [[4 * 1.5]])


def test_sigmoid_of_any_size(rng):
    values = np.concatenate([np.linspace(-30, 30, 95), [-1e6, 0, 1e6]]).astype(np.float32)
    c = np.empty_like(values)
    encode._sigmoid(values, np.zeros_like(values), np.float32(0), c)
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(c, 1 / (1 + np.exp(-values.astype(np.float64))), atol=4e-6)


def test_ties_go_to_the_first_filter():
    images = np.arange(9, dtype=np.float32).reshape(1, 3, 3, 1)
    filters = Filters(np.ones((20, 9)), np.zeros(20))
    settings = {"patch_size": 3, "stride": 1, "eps": 1.0, "code": Code.ONE_HOT, "alpha": 0.0}
    found = pooled_codes(
        images, filters, grid_cells((1, 1), [(1, 1)]), **settings, pooling=CellPooling.SUM
    )
    np.testing.assert_array_equal(found[0], np.eye(20)[0])


def test_channels_of_groups(rng):
    """Copies of the channels of each group; a channel may be in several."""
    images = rng.normal(size=(4, 5, 6, 7)).astype(np.float32)
    groups = [np.array([6, 0, 2]), np.array([2]), np.arange(7)]
    for found, group in zip(split_channels(images, groups), groups, strict=True):
        np.testing.assert_array_equal(found, images[..., group])
        assert found.flags.c_contiguous
