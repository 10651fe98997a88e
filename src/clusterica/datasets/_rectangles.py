"""Mixing matrices whose columns are images of one filled rectangle each: a_j = 1 inside, 0 outside."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from clusterica.arrays import as_generator

# Share of a rectangle's length outside the span of the others below which it adds nothing to them.
NOTHING_NEW = 1e-6


def make_rectangles(
    side: int = 10, *, n_rectangles: int | None = None, random_state: Any = None
) -> np.ndarray:
    """Draw a mixing matrix of rectangles, the columns linearly independent.

    Height and width are drawn uniformly from 1 to ``side``, then the place among all that fit. As many
    random rectangles as pixels almost never make an invertible matrix, so one is kept only if it
    raises the rank of those before it.

    Parameters
    ----------
    side : int, default=10
        Side of the square images in pixels.
    n_rectangles : int, default=None
        Number of columns, at most ``side * side``; None takes so many, and the matrix is invertible.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the draw; an integer gives the same rectangles every time.

    Returns
    -------
    ndarray of shape (side * side, n_rectangles)
        Zeros and ones. Reshape a column to ``(side, side)`` to see its rectangle.

    Examples
    --------
    >>> import numpy as np
    >>> from clusterica.datasets import make_rectangles
    >>> A = make_rectangles(4, random_state=0)
    >>> A.shape, int(np.linalg.matrix_rank(A))
    ((16, 16), 16)
    """
    _check_whole("side", side, largest=None)
    n = side * side if n_rectangles is None else n_rectangles
    _check_whole("n_rectangles", n, largest=side * side)
    rng = as_generator(random_state)

    A = np.empty((side * side, n))
    Q = np.zeros((side * side, n))  # orthonormal columns of the same span; zeros add nothing
    found = 0
    while found < n:
        image = _rectangle(side, rng)
        new = image - Q @ (Q.T @ image)
        new -= Q @ (Q.T @ new)  # once more, against rounding
        length = np.linalg.norm(new)
        if length > NOTHING_NEW * np.linalg.norm(image):
            A[:, found], Q[:, found] = image, new / length
            found += 1
    return A


def _rectangle(side: int, rng: np.random.Generator) -> np.ndarray:
    """Draw one filled rectangle as a flat image."""
    size = rng.integers(1, side, size=2, endpoint=True)
    top, left = rng.integers(0, side - size, endpoint=True)
    image = np.zeros((side, side))
    image[top : top + size[0], left : left + size[1]] = 1
    return image.ravel()


def _check_whole(name: str, value: int, *, largest: int | None) -> None:
    """Refuse a count that is not a whole number from 1 to ``largest``."""
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if whole and value >= 1 and (largest is None or value <= largest):
        return
    rule = "at least 1" if largest is None else f"from 1 to {largest}, the number of pixels"
    raise ValueError(f"{name} is {value!r}; it must be a whole number {rule}.")
