"""The walk over images: the features of every block, by threads on the CPU, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import starmap
from math import ceil
from typing import NamedTuple

import numpy as np

from clusterica.arrays import Array, active_config, in_order, is_cpu_tensor, namespace_of, to_host
from clusterica.images._convolve import Coder, Shape
from clusterica.images._sampling import Box
from clusterica.images._source import Block, Images, Part
from clusterica.ops.pool import Cell, Grid, grid_cells

_BLOCKS_PER_THREAD = 4  # enough that threads of uneven speed end together
_FEWEST_PATCHES = 2**12  # under this a block costs more to hand out than to compute


@dataclass(frozen=True)
class Region:
    """Where patches of one coder are in an image of a given height and width, and their cells."""

    coder: Coder
    box: Callable[[int, int], Box]
    cells: Callable[[int, int], list[Cell]]


class Plan(NamedTuple):
    """Images of a block, and rows of patches that are worked on at once."""

    n_images: int
    band: int


def region_box(cell: Cell, shape: Shape) -> Box:
    """Return the pixels of the patches at the places of a cell."""
    p, s = shape.patch_size, shape.stride
    height, width = (cell.bottom - cell.top - 1) * s + p, (cell.right - cell.left - 1) * s + p
    return Box(cell.top * s, cell.left * s, height, width)


def make_regions(
    coders: Sequence[Coder], regions: Grid, grids: Sequence[Grid], shape: Shape
) -> list[Region]:
    """Return the regions of a grid of them, each with its coder and its own cells."""

    def region(i: int, coder: Coder) -> Region:
        def box(height: int, width: int) -> Box:
            return region_box(grid_cells(shape.places(height, width), [regions])[i], shape)

        def cells(height: int, width: int) -> list[Cell]:
            inside = box(height, width)
            return grid_cells(shape.places(inside.height, inside.width), grids)

        return Region(coder, box, cells)

    return [region(i, coder) for i, coder in enumerate(coders)]


def encode_images(
    images: Images, regions: Sequence[Region], shape: Shape, n_codes: Sequence[int], n_cells: int
) -> Array:
    """Return the features of all images, float32, in the library and on the device of the images.

    Parameters
    ----------
    images : Images
    regions : sequence of Region
    shape : Shape
    n_codes : sequence of int
        Number of codes of a patch, for every region.
    n_cells : int
        Number of cells of a region.

    Returns
    -------
    features : array of shape (n_images, sum(n_codes) * n_cells)
        Region by region, and cell by cell within a region.
    """
    threaded = images.place.is_numpy and all(region.coder.threaded for region in regions)
    threads = active_config().n_threads if threaded else 1
    ends = n_cells * np.cumsum([0, *n_codes])
    features = _empty_features(images, int(ends[-1]))

    n_features = shape.patch_size**2 * images.n_channels
    row_bytes = max(
        region.coder.row_bytes(n_features, n) for region, n in zip(regions, n_codes, strict=True)
    )
    plans = {
        part.start: _plan(images, part, shape, row_bytes, int(ends[-1]), threads)
        for part in images.parts
    }

    def run(block: Block) -> None:
        pixels, (height, width, _) = block.load(), block.part.shape
        band = plans[block.part.start].band
        for r, region in enumerate(regions):
            top, left, down, across = region.box(height, width)
            inside = pixels[:, top : top + down, left : left + across, :]
            values = region.coder(inside, region.cells(height, width), band)
            values = to_host(values) if isinstance(features, np.ndarray) else values
            features[block.start : block.stop, int(ends[r]) : int(ends[r + 1])] = values

    tasks = ((block,) for block in images.blocks(lambda part: plans[part.start].n_images))
    # Without threads of our own, those of BLAS share the work.
    for _ in in_order(run, tasks) if threaded else starmap(run, tasks):
        pass
    return images.home.put(features)


def _plan(
    images: Images, part: Part, shape: Shape, row_bytes: int, n_columns: int, threads: int
) -> Plan:
    """Return blocks that fit the memory budget, and that divide well among the threads."""
    height, width, channels = part.shape
    down, across = shape.places(height, width)
    budget = images.place.memory // (threads + 1 if images.place.is_numpy else 1)
    pixels = 4 * height * width * channels
    image_bytes = pixels + 4 * n_columns + down * across * row_bytes
    most = budget // image_bytes
    if most == 0:
        band = max(1, (budget - pixels) // max(1, across * row_bytes))
        return Plan(1, min(down, band))
    if images.place.is_numpy:
        even = ceil(images.n_images / (_BLOCKS_PER_THREAD * threads))
        most = min(most, max(even, ceil(_FEWEST_PATCHES / (down * across))))
    return Plan(most, down)


def _empty_features(images: Images, n_columns: int) -> Array:
    """Return room for the features: in host memory, or on the device if the images are there."""
    reference = images.home.like
    shape = (images.n_images, n_columns)
    if isinstance(reference, np.ndarray) or is_cpu_tensor(reference):
        return np.empty(shape, np.float32)
    xp = namespace_of(reference)
    return xp.empty(shape, dtype=xp.float32, device=reference.device)
