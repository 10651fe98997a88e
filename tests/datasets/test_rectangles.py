"""Rectangles are filled, random in place and size, and linearly independent."""

import numpy as np
import pytest

from clusterica.datasets import make_rectangles


def rectangle_around(image):
    """The smallest filled rectangle that holds all pixels of an image."""
    rows, columns = np.nonzero(image)
    filled = np.zeros_like(image)
    filled[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1] = 1
    return filled


@pytest.mark.parametrize("side", [1, 2, 5, 10])
def test_invertible_columns_of_filled_rectangles(side):
    A = make_rectangles(side, random_state=side)
    assert A.shape == (side**2, side**2)
    assert np.linalg.matrix_rank(A) == side**2
    for column in A.T:
        image = column.reshape(side, side)
        np.testing.assert_array_equal(image, rectangle_around(image))


def test_sizes_and_places_vary():
    A = make_rectangles(10, n_rectangles=60, random_state=0)
    assert A.shape == (100, 60)
    images = A.T.reshape(-1, 10, 10)
    heights, widths = images.max(axis=2).sum(axis=1), images.max(axis=1).sum(axis=1)
    assert set(heights) == set(widths) == set(range(1, 11))
    assert images.max(axis=0).all()  # every pixel is in one


def test_seeds():
    first, again = (make_rectangles(5, random_state=3) for _ in range(2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, make_rectangles(5, random_state=4))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"side": 0}, "side is 0; it must be a whole number of at least 1"),
        ({"side": 2.5}, "side is 2.5"),
        (
            {"side": 3, "n_rectangles": 10},
            "n_rectangles is 10; .* from 1 to 9, the number of pixels",
        ),
        ({"side": 3, "n_rectangles": 0}, "n_rectangles is 0"),
    ],
)
def test_errors(settings, message):
    with pytest.raises(ValueError, match=message):
        make_rectangles(**settings)
