"""Tiles of the places of patches: pieces that no border of a cell crosses, joined to about equal parts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from math import ceil
from typing import NamedTuple

import numpy as np

from clusterica.ops.pool import Cell, CellPooling


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


@lru_cache(maxsize=256)
def make_tiling(cells: tuple[Cell, ...], most_rows: int) -> Tiling:
    """Cut the places of an image at all borders of cells, and join what is left into tiles."""
    down = sorted({y for c in cells for y in (c.top, c.bottom)})
    across = sorted({x for c in cells for x in (c.left, c.right)})
    pieces = [Cell(*rows, *columns) for rows in pairwise(down) for columns in pairwise(across)]
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
        pooled = np.empty((len(pieces), len(cells), pieces.shape[2]), np.float32)
        for i, cell in enumerate(cells):
            parts = pieces[:, [_within(box, cell) for box in boxes]]
            pooled[:, i] = parts.max(axis=1) if pooling is CellPooling.MAX else parts.sum(axis=1)
    if pooling is CellPooling.MEAN:
        pooled /= np.array([c.size for c in cells], np.float32)[:, None]
    elif pooling is CellPooling.L2:
        np.sqrt(pooled, out=pooled)
    return pooled.reshape(len(pieces), -1)


def _within(box: Cell, cell: Cell) -> bool:
    return cell.top <= box.top < cell.bottom and cell.left <= box.left < cell.right
