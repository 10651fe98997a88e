"""Pooling of codes over cells of the image: their sum, mean, maximum or ``(sum of squares)^(1/2)``.

A grid of r x c divides the places of the patches into cells as `numpy.array_split` does: where r does
not divide their number, the first cells are one larger. 27 places make two halves of 14 and 13.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from itertools import pairwise
from typing import NamedTuple

from clusterica.arrays import Array, namespace_of

Grid = tuple[int, int]


class CellPooling(IntEnum):
    """How the codes of the patches of a cell become one."""

    SUM = 0
    MEAN = 1
    MAX = 2
    L2 = 3


class Cell(NamedTuple):
    """Places of patches from `top` up to `bottom` and from `left` up to `right`, the latter not included."""

    top: int
    bottom: int
    left: int
    right: int

    @property
    def size(self) -> int:
        """Number of places."""
        return (self.bottom - self.top) * (self.right - self.left)


def cuts(n_places: int, n_cells: int) -> list[int]:
    """Return where the cells along a side begin, and its end: n_cells + 1 numbers."""
    size, larger = divmod(n_places, n_cells)
    return [i * size + min(i, larger) for i in range(n_cells + 1)]


def grid_cells(places: Grid, grids: Sequence[Grid]) -> list[Cell]:
    """Return the cells of all grids over (rows, columns) of places, grid by grid and row by row."""
    return [
        Cell(top, bottom, left, right)
        for n_down, n_across in grids
        for top, bottom in pairwise(cuts(places[0], n_down))
        for left, right in pairwise(cuts(places[1], n_across))
    ]


def pool(codes: Array, cells: Sequence[Cell], *, pooling: CellPooling) -> Array:
    """Pool the codes of a block of images.

    Parameters
    ----------
    codes : array of shape (n_images, n_rows, n_columns, n_codes)
    cells : sequence of Cell
        None of them empty.
    pooling : CellPooling

    Returns
    -------
    features : array of shape (n_images, n_cells * n_codes)
        All codes of the first cell, then those of the second, and so on.
    """
    return finish_cells(reduce_cells(codes, cells, pooling=pooling), cells, pooling=pooling)


def reduce_cells(
    codes: Array,
    cells: Sequence[Cell],
    *,
    pooling: CellPooling,
    first_row: int = 0,
    so_far: list[Array | None] | None = None,
) -> list[Array | None]:
    """Reduce a band of rows of places that begins at `first_row`, and join it to what bands before it gave.

    Returns for every cell its sum, maximum or sum of squares, shape (n_images, n_codes), or None while
    no band has reached it; `finish_cells` makes features of them.
    """
    reduced = so_far or [None] * len(cells)
    end = first_row + codes.shape[1]
    for i, cell in enumerate(cells):
        top, bottom = max(cell.top, first_row), min(cell.bottom, end)
        if top < bottom:
            part = codes[:, top - first_row : bottom - first_row, cell.left : cell.right, :]
            reduced[i] = _joined(reduced[i], _reduced(part, pooling), pooling)
    return reduced


def finish_cells(reduced: Sequence[Array], cells: Sequence[Cell], *, pooling: CellPooling) -> Array:
    """Return the features of all cells side by side: what is left to do is the mean, and the root."""
    xp = namespace_of(*reduced)
    if pooling is CellPooling.MEAN:
        reduced = [total / cell.size for total, cell in zip(reduced, cells, strict=True)]
    elif pooling is CellPooling.L2:
        reduced = [xp.sqrt(total) for total in reduced]
    return xp.concat(list(reduced), axis=1)


def _reduced(codes: Array, pooling: CellPooling) -> Array:
    xp = namespace_of(codes)
    if pooling is CellPooling.MAX:
        return xp.max(codes, axis=(1, 2))
    return xp.sum(codes * codes if pooling is CellPooling.L2 else codes, axis=(1, 2))


def _joined(a: Array | None, b: Array, pooling: CellPooling) -> Array:
    if a is None:
        return b
    return namespace_of(a).maximum(a, b) if pooling is CellPooling.MAX else a + b
