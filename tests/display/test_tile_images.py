"""Tiles lie where they should, in values worked by hand."""

import numpy as np
import pytest

from clusterica.display import tile_images


def test_two_grey_tiles():
    filters = [[2, -1, 0, 1], [0, 0, 0, -4]]
    expected = [
        [1, 1, 1, 1, 1, 1, 1],
        [1, 1, 0.25, 1, 0.5, 0.5, 1],
        [1, 0.5, 0.75, 1, 0.5, 0, 1],
        [1, 1, 1, 1, 1, 1, 1],
    ]
    np.testing.assert_allclose(tile_images(filters), expected)


def test_scale_all_keeps_weak_filters_faint():
    picture = tile_images([[2.0], [-4.0]], pad=0, scale="all")
    np.testing.assert_allclose(picture, [[0.75, 0.0]])


def test_color_tile():
    picture = tile_images([[1, 0, -1]], pad=0)
    assert picture.shape == (1, 1, 3)
    np.testing.assert_allclose(picture[0, 0], [1, 0.5, 0])


def test_columns_pad_and_background():
    picture = tile_images(np.ones((3, 4)), n_columns=2, pad=2, background=0.0)
    assert picture.shape == (2 * 4 + 2, 2 * 4 + 2)
    assert (picture[6:, 6:] == 0).all()  # the fourth place is empty
    assert picture.sum() == 3 * 4


def test_default_grid_is_as_square_as_it_can_be():
    assert tile_images(np.ones((5, 1)), pad=0).shape == (2, 3)


def test_shape_of_a_filter():
    assert tile_images([[1, 2, 3, 4, 5, 6]], shape=(2, 3), pad=0).shape == (2, 3)
    assert tile_images([[1, 2, 3, 4, 5, 6]], shape=(1, 2, 3), pad=0).shape == (1, 2, 3)


def test_filter_of_zeros_is_grey():
    assert (tile_images(np.zeros((1, 4)), pad=0) == 0.5).all()


@pytest.mark.parametrize(
    ("filters", "settings", "message"),
    [
        ([1, 2, 3], {}, r"shape \(3,\)"),
        (np.ones((0, 4)), {}, r"shape \(0, 4\)"),
        ([[1, np.nan]], {}, "NaN"),
        ([[1, 2]], {}, "n_features=2.*shape="),
        ([[1, 2, 3, 4]], {"shape": (3, 2)}, r"shape is \(3, 2\).*n_features=4"),
        ([[1, 2, 3, 4]], {"shape": (2, 1, 2)}, r"shape is \(2, 1, 2\)"),
        ([[1.0]], {"scale": "some"}, "scale is 'some'"),
        ([[1.0]], {"pad": -1}, "pad is -1"),
        ([[1.0]], {"n_columns": 0}, "n_columns is 0"),
    ],
)
def test_errors(filters, settings, message):
    with pytest.raises(ValueError, match=message):
        tile_images(filters, **settings)
