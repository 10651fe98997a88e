"""Patches of images as rows, their contrast, and the pooling of their codes over the cells of a grid.

Row (i, y, x) is ``images[i, y s : y s + p, x s : x s + p]``, flattened. Codes are pooled as their sum, mean,
maximum or ``(sum of squares)^(1/2)`` over the places of a cell, or as a mean over all places with Gaussian
weights about the middle of the cell. A grid of r x c divides the places of the patches into cells as
`numpy.array_split` does: where r does not divide their number, the first cells are one larger. 27 places
make two halves of 14 and 13.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from functools import lru_cache
from itertools import pairwise
from math import ceil
from typing import NamedTuple

import numpy as np

from clusterica.arrays import Array, namespace_of, to_like, working_memory


def n_places(length: int, *, patch_size: int, stride: int = 1) -> int:
    """Return in how many places a patch fits along a side of an image; 0 where it does not fit."""
    return max(0, (length - patch_size) // stride + 1)


def extract_patches(images: Array, *, patch_size: int, stride: int = 1) -> Array:
    """Return all patches of a block of images.

    Parameters
    ----------
    images : array of shape (n_images, height, width, channels)
    patch_size : int
        Side of a patch in pixels.
    stride : int, default=1
        Step from one patch to the next, in pixels.

    Returns
    -------
    patches : array of shape (n_images, n_rows, n_columns, patch_size * patch_size * channels)
        Row by row of the patch; the channels of a pixel stay together.
    """
    n, height, width, channels = images.shape
    rows = n_places(height, patch_size=patch_size, stride=stride)
    columns = n_places(width, patch_size=patch_size, stride=stride)
    shape = (n, rows, columns, patch_size * patch_size * channels)
    if hasattr(images, "unfold"):  # torch: windows without a copy, then one copy
        windows = images.unfold(1, patch_size, stride).unfold(2, patch_size, stride)
        return windows.permute(0, 1, 2, 4, 5, 3).reshape(shape)
    xp = namespace_of(images)
    # A strided view for every pixel of a patch, so that one stack copies all patches.
    shifted = [
        images[
            :,
            dy : dy + (rows - 1) * stride + 1 : stride,
            dx : dx + (columns - 1) * stride + 1 : stride,
            :,
        ]
        for dy in range(patch_size)
        for dx in range(patch_size)
    ]
    return xp.reshape(xp.stack(shifted, axis=3), shape)


def take_patches(images: Array, which: Array, top: Array, left: Array, *, patch_size: int) -> Array:
    """Return single patches: image `which`, upper left corner at (`top`, `left`).

    Parameters
    ----------
    images : array of shape (n_images, height, width, channels)
    which, top, left : integer arrays of shape (n_patches,)
    patch_size : int

    Returns
    -------
    patches : array of shape (n_patches, patch_size * patch_size * channels)
        In the dtype of the images, flattened as by `extract_patches`.
    """
    xp = namespace_of(images)
    n, height, width, channels = images.shape
    # A line of a patch is contiguous in its image: patch_size * channels numbers.
    line = xp.arange(patch_size * channels, device=images.device)
    down = xp.arange(patch_size, device=images.device) * (width * channels)
    inside = xp.reshape(down[:, None] + line[None, :], (-1,))
    corner = ((which * height + top) * width + left) * channels
    flat = xp.reshape(images, (n * height * width * channels,))
    places = xp.reshape(corner[:, None] + inside[None, :], (-1,))
    return xp.reshape(xp.take(flat, places, axis=0), (which.shape[0], inside.shape[0]))


@working_memory(lambda row: 3 * row.n_features * row.itemsize)
def normalize_contrast(X: Array, *, eps: float) -> Array:
    """Return ``(x - mean(x)) / sqrt(var(x) + eps)`` of every row of a block (var divides by n_features)."""
    xp = namespace_of(X)
    limits = xp.finfo(X.dtype)
    largest = xp.max(xp.abs(X), axis=1, keepdims=True)
    # In units in which squares neither overflow nor vanish, unless beside eps; powers of two lose no digit.
    unit = xp.clip(largest, min=max(eps**0.5, float(limits.smallest_normal)))
    unit = 2.0 ** xp.floor(xp.log2(unit))
    centred = (X / unit) - xp.mean(X / unit, axis=1, keepdims=True)
    variance = xp.mean(centred * centred, axis=1, keepdims=True)
    # A flat row has no contrast to normalise, only the rounding of its mean; it becomes zero.
    flat = variance <= (4 * limits.eps * (largest / unit)) ** 2
    # Divided twice: eps / unit² could vanish where unit² does not fit.
    spread = xp.sqrt(xp.where(flat, 1, variance + eps / unit / unit))
    return xp.where(flat, 0, centred / spread)


@working_memory(lambda row: 2 * row.nbytes)
def sum_of_variances(X: Array) -> tuple[Array, Array]:
    """Return the sum of the variances within rows of a block, and the number of rows."""
    xp = namespace_of(X)
    return xp.sum(xp.var(X, axis=1)), xp.asarray(float(X.shape[0]), device=X.device)


def extremes(X: Array) -> Array:
    """Return the least and the largest value of every row, shape (n_rows, 2)."""
    xp = namespace_of(X)
    return xp.stack([xp.min(X, axis=1), xp.max(X, axis=1)], axis=1)


# --- Pooling ----------------------------------------------------------------------------------------

Grid = tuple[int, int]


class CellPooling(IntEnum):
    """How the codes of the patches of a cell become one."""

    SUM = 0
    MEAN = 1
    MAX = 2
    L2 = 3
    GAUSSIAN = 4


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


def around(cells: Sequence[Cell]) -> Cell:
    """Return the cell of all places."""
    return Cell(0, max(cell.bottom for cell in cells), 0, max(cell.right for cell in cells))


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


class GaussianWeights(NamedTuple):
    """Weights of places for cells, which are a product of one for the row and one for the column.

    down : (n_down, n_rows) array
        Weights of rows of places, for all the heights at which cells lie. Each adds up to one.
    across : (n_across, n_columns) array
        The same for columns.
    pairs : (n_cells,) integers
        ``n_across * i + j`` for a cell with the weights ``down[i]`` and ``across[j]``.
    """

    down: np.ndarray
    across: np.ndarray
    pairs: np.ndarray


@lru_cache(maxsize=256)
def gaussian_weights(cells: tuple[Cell, ...], n_columns: int) -> GaussianWeights:
    """Return weights about the middle of every cell, whose standard deviations are half its sides.

    Cells cover all rows of places, of which each has n_columns.
    """

    def along(sides: list[tuple[int, int]], n: int) -> np.ndarray:
        start, stop = np.array(sides, float).T[:, :, None]
        # exp(-d² / (2 σ²)) with σ = (stop - start) / 2
        W: np.ndarray = np.exp(-2 * ((np.arange(n) - (start + stop - 1) / 2) / (stop - start)) ** 2)
        W /= W.sum(axis=1, keepdims=True)
        return W

    down = sorted({(cell.top, cell.bottom) for cell in cells})
    across = sorted({(cell.left, cell.right) for cell in cells})
    pairs = [
        len(across) * down.index((cell.top, cell.bottom)) + across.index((cell.left, cell.right))
        for cell in cells
    ]
    n_rows = max(cell.bottom for cell in cells)
    weights = GaussianWeights(along(down, n_rows), along(across, n_columns), np.array(pairs))
    for values in weights:
        values.setflags(write=False)  # all callers share them
    return weights


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

    Returns for every cell its sum, weighted or not, maximum or sum of squares, shape (n_images, n_codes), or
    None while no band has reached it; `finish_cells` makes features of them.
    """
    reduced = so_far or [None] * len(cells)
    end = first_row + codes.shape[1]
    if pooling is CellPooling.GAUSSIAN:
        sums = _weighted_sums(codes, cells, first_row)
        return [
            value if before is None else before + value
            for value, before in zip(sums, reduced, strict=True)
        ]
    for i, cell in enumerate(cells):
        top, bottom = max(cell.top, first_row), min(cell.bottom, end)
        if top < bottom:
            part = codes[:, top - first_row : bottom - first_row, cell.left : cell.right, :]
            xp, before = namespace_of(part), reduced[i]
            if pooling is CellPooling.MAX:
                value = xp.max(part, axis=(1, 2))
                reduced[i] = value if before is None else xp.maximum(before, value)
            else:
                value = xp.sum(part * part if pooling is CellPooling.L2 else part, axis=(1, 2))
                reduced[i] = value if before is None else before + value
    return reduced


def _weighted_sums(codes: Array, cells: Sequence[Cell], first_row: int) -> list[Array]:
    """Return the weighted sums over a band of rows of places, cell by cell."""
    n, n_rows, n_columns, n_codes = codes.shape
    xp, found = namespace_of(codes), []
    # Grid by grid, each of which begins in the corner: a grid has no more columns of cells than there are of
    # places, and no pairs of heights and widths without a cell, so that no array is larger than the codes.
    begins = [i for i, cell in enumerate(cells) if i == 0 or cell.top == cell.left == 0]
    for start, stop in pairwise([*begins, len(cells)]):
        down, across, pairs = gaussian_weights(tuple(cells[start:stop]), n_columns)
        down, across = (
            xp.astype(to_like(W, codes), codes.dtype, copy=False)
            for W in (down[:, first_row : first_row + n_rows], across)
        )
        lines = xp.reshape(across @ codes, (n, n_rows, -1))
        sums = xp.reshape(down @ lines, (n, -1, n_codes))
        found += [sums[:, int(pair), :] for pair in pairs]
    return found


def finish_cells(reduced: Sequence[Array], cells: Sequence[Cell], *, pooling: CellPooling) -> Array:
    """Return the features of all cells side by side: what is left to do is the mean, and the root."""
    xp = namespace_of(*reduced)
    if pooling is CellPooling.MEAN:
        reduced = [total / cell.size for total, cell in zip(reduced, cells, strict=True)]
    elif pooling is CellPooling.L2:
        reduced = [xp.sqrt(total) for total in reduced]
    return xp.concat(list(reduced), axis=1)


# --- Tiles of places, for compiled code --------------------------------------------------------------


class Tiling(NamedTuple):
    """How the places of an image are cut: pieces that no cell border crosses, and tiles.

    runs : (n_runs, 3) integers
        Top, left and number of neighbouring places, piece after piece.
    tiles : (n_tiles + 1,) integers
        First run of every tile, and their number.
    segments : (n_segments, 4) integers
        Tile, start and stop within it, and piece.
    pieces : list of Cell
    """

    runs: np.ndarray
    tiles: np.ndarray
    segments: np.ndarray
    pieces: list[Cell]


def cut_at_borders(cells: Sequence[Cell]) -> list[Cell]:
    """Cut the places of an image at all borders of cells."""
    down = sorted({y for c in cells for y in (c.top, c.bottom)})
    across = sorted({x for c in cells for x in (c.left, c.right)})
    return [Cell(*rows, *columns) for rows in pairwise(down) for columns in pairwise(across)]


@lru_cache(maxsize=256)
def make_tiling(cells: tuple[Cell, ...], most_rows: int) -> Tiling:
    """Cut the places of an image at all borders of cells, and join what is left into tiles."""
    pieces = cut_at_borders(cells)
    places = sum(p.size for p in pieces)
    # Tiles of about the same number of places; a run may have to be cut in two.
    n_tiles = ceil(places / most_rows)
    ends = [places * (t + 1) // n_tiles for t in range(n_tiles)]
    runs: list[tuple[int, int, int]] = []
    tiles, segments = [0], []
    at = begin = tile = 0
    for i, piece in enumerate(pieces):
        first = at
        for y in range(piece.top, piece.bottom):
            x = piece.left
            while x < piece.right:
                length = min(piece.right - x, ends[tile] - at)
                runs.append((y, x, length))
                x, at = x + length, at + length
                if at == ends[tile]:
                    segments.append((tile, first - begin, at - begin, i))
                    tiles.append(len(runs))
                    tile, begin, first = tile + 1, at, at
        if at > first:
            segments.append((tile, first - begin, at - begin, i))
    return Tiling(np.array(runs), np.array(tiles), np.array(segments), pieces)


def join_pieces(
    pieces: np.ndarray, boxes: list[Cell], cells: Sequence[Cell], *, pooling: CellPooling
) -> np.ndarray:
    """Join pieces to cells and finish what pooling leaves to the end: the mean, the root."""
    if boxes == list(cells):
        pooled = pieces
    else:
        join, first = (np.maximum, -np.inf) if pooling is CellPooling.MAX else (np.add, 0)
        pooled = np.full((len(pieces), len(cells), pieces.shape[2]), first, np.float32)
        for i, cell in enumerate(cells):
            for b, box in enumerate(boxes):
                # No border of a cell crosses a box: it lies within if its corner does.
                if cell.top <= box.top < cell.bottom and cell.left <= box.left < cell.right:
                    # One by one, without a copy: the pieces of a cell of all places are all of them.
                    join(pooled[:, i], pieces[:, b], out=pooled[:, i])
    if pooling is CellPooling.MEAN:
        pooled /= np.array([c.size for c in cells], np.float32)[:, None]
    elif pooling is CellPooling.L2:
        np.sqrt(pooled, out=pooled)
    return pooled.reshape(len(pieces), -1)
