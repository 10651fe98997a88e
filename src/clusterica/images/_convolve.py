"""Features of images: ``pool(encode(whiten(normalise(all patches))))``, block by block in bounded memory.

A coder computes the features of a block. `Staged` is the reference, for every library, encoder and learner.
`Fused` is compiled, for NumPy blocks and the encoders that have a compiled form, and `FusedOnGpu` for CUDA
devices, where the configuration asks for it. `Rectified` passes over memory fewer times, for soft thresholds
on a device. `encode_images` applies the coders to all blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import starmap
from math import ceil
from typing import NamedTuple

import numpy as np

from clusterica.arrays import (
    Array,
    Inbox,
    Place,
    Row,
    active_config,
    check_overflow,
    device_of,
    in_order,
    namespace_of,
    row_bytes_of,
    take,
    to_host,
    why_no_kernels,
    working_memory,
)
from clusterica.images._bank import Bank, Box, is_ours, stages
from clusterica.images._source import Block, Images, Part
from clusterica.ops.code import center
from clusterica.ops.cpu.encode import (
    Code,
    Filters,
    n_pieces_joined,
    pooled_codes,
    split_channels,
)
from clusterica.ops.linalg import row_energies
from clusterica.ops.patch import (
    Cell,
    CellPooling,
    Grid,
    around,
    extract_patches,
    finish_cells,
    grid_cells,
    n_places,
    reduce_cells,
)


@dataclass(frozen=True)
class Shape:
    """How patches are cut and pooled: over the cells of the grids, in each region of an image."""

    patch_size: int
    stride: int
    pooling: CellPooling
    regions: Grid
    grids: tuple[Grid, ...]

    @property
    def n_cells(self) -> int:
        """Number of cells of a region."""
        return sum(down * across for down, across in self.grids)

    def places(self, height: int, width: int) -> tuple[int, int]:
        """Return the rows and columns of places of patches in an image."""
        down, across = (
            n_places(n, patch_size=self.patch_size, stride=self.stride) for n in (height, width)
        )
        return down, across

    def box(self, region: int, height: int, width: int) -> Box:
        """Return the pixels of the patches of a region of an image."""
        cell = grid_cells(self.places(height, width), [self.regions])[region]
        p, s = self.patch_size, self.stride
        down, across = (cell.bottom - cell.top - 1) * s + p, (cell.right - cell.left - 1) * s + p
        return Box(cell.top * s, cell.left * s, down, across)


class Encoded(NamedTuple):
    """Codes or features, and the number of patches whose codes did not converge."""

    values: Array
    n_not_converged: int


class PatchEncoder:
    """The encoder of a bank with its filters, where the blocks are worked on."""

    def __init__(self, bank: Bank, place: Place) -> None:
        D = None if bank.filters is None else np.asarray(to_host(bank.filters), np.float32)
        self._encoder = bank.encoder
        self._prepared = tuple(place.put(values) for values in bank.encoder.prepare(D))
        n_features = None if bank.filters is None else int(bank.filters.shape[1])
        self._n_features, self._n_codes = n_features, bank.n_codes

    def row_bytes(self, row: Row) -> int:
        """Return the working memory for each patch; three arrays of codes for an encoder that says less."""
        row = row if self._n_features is None else row._replace(n_features=self._n_features)
        stated = row_bytes_of(self._encoder.encode, row, self._prepared)
        return max(stated, 3 * row.itemsize * self._n_codes)

    def __call__(self, rows: Array) -> Encoded:
        """Return the codes of a block of whitened rows."""
        # An encoder that the user wrote need not count.
        if not hasattr(self._encoder, "encode_and_count"):
            return Encoded(self._encoder.encode(rows, *self._prepared), 0)
        codes, counts = self._encoder.encode_and_count(rows, *self._prepared)
        return Encoded(codes, 0 if counts is None else int(counts[0]))


def _per_place(numbers: int, cells: Sequence[Cell]) -> int:
    """Return how many of the numbers of an image there are for each place of a patch."""
    return ceil(numbers / around(cells).size)


def _joined_numbers(n_codes: int, cells: Sequence[Cell]) -> int:
    """Return the numbers for each patch besides the features while these are put together from cells.

    Each cell is there twice: its sum, and the codes or the mean that follow from it.
    """
    return _per_place(2 * n_codes * len(cells), cells)


class Staged:
    """One step after the other on all patches of a block of images."""

    def __init__(self, bank: Bank, place: Place, shape: Shape) -> None:
        self._steps = [step for _, step in stages(bank, place)]
        self._encode = PatchEncoder(bank, place)
        self._shape, self._n_codes = shape, bank.n_codes
        # Estimators of other libraries may start threads of their own. Ours, if called from a worker, stay in
        # it, and then all steps of a block run in parallel: three quarters of the CPU time with KernelRICA.
        self.threaded = bank.is_plain and (not bank.by_learner or is_ours(bank.learner))

    # The patches four times: as they are, and twice and the result in a step.
    @working_memory(
        lambda self, row, cells: max(
            (4 * row.n_features + self._n_codes) * row.itemsize + self._encode.row_bytes(row),
            (self._n_codes + _joined_numbers(self._n_codes, cells)) * row.itemsize,
        )
    )
    def features(self, images: Array, cells: Sequence[Cell], band: int) -> Encoded:
        """Return the features of a block of images, in bands of ``band`` rows of patches."""
        p, s, n_down = self._shape.patch_size, self._shape.stride, max(c.bottom for c in cells)
        reduced: list[Array] | None = None
        failed = 0
        for top in range(0, n_down, band):
            bottom = min(top + band, n_down)
            lines = images[:, top * s : (bottom - 1) * s + p, :, :]
            codes, n = self._codes(extract_patches(lines, patch_size=p, stride=s))
            failed += n
            reduced = reduce_cells(
                codes, cells, pooling=self._shape.pooling, first_row=top, so_far=reduced
            )
        return Encoded(finish_cells(reduced or [], cells, pooling=self._shape.pooling), failed)

    def _codes(self, patches: Array) -> Encoded:
        xp = namespace_of(patches)
        rows = xp.reshape(patches, (-1, patches.shape[3]))
        for step in self._steps:
            rows = step(rows)
        codes, failed = self._encode(rows)
        return Encoded(xp.reshape(codes, (*patches.shape[:3], -1)), failed)


class Rectified:
    """Sums of n soft-threshold codes from their responses s: ``sum max(0, s - α) = sum max(s, α) - n α``.

    For arrays on a device, where every pass over the responses counts: the codes themselves are never
    written.
    """

    threaded = False

    def __init__(self, bank: Bank, code: Code, alpha: float, place: Place, shape: Shape) -> None:
        F, bias, *_ = fused_filters(bank, code)
        # The bias is taken from the sums, not from all responses.
        bounds = (np.asarray(a, np.float32) for a in (F, bias + alpha, bias - alpha))
        self._F, self._upper, self._lower = (place.put(a) for a in bounds)
        self._normalize = [step for name, step in stages(bank, place) if name == "normalized"]
        self._two_sided, self._shape = code is Code.BOTH_SIGNS, shape
        # The weights of a Gaussian add up to one.
        self._gaussian = shape.pooling is CellPooling.GAUSSIAN

    # The pixels three times, the responses, and a clipped copy of them; of that weighted sums along rows.
    @working_memory(
        lambda self, row, cells: (
            max(
                3 * row.n_features + (3 if self._gaussian else 2) * int(self._F.shape[0]),
                _joined_numbers((2 if self._two_sided else 1) * int(self._F.shape[0]), cells),
            )
            * row.itemsize
        )
    )
    def features(self, images: Array, cells: Sequence[Cell], band: int) -> Encoded:
        """Return the features of a block of images, in bands of ``band`` rows of patches."""
        above, below = self._sums(images, cells, band)
        per_cell = zip(cells, above or [], below or [None] * len(cells), strict=True)
        sums = [self._codes(*args) for args in per_cell]
        return Encoded(finish_cells(sums, cells, pooling=self._shape.pooling), 0)

    def _sums(self, images: Array, cells: Sequence[Cell], band: int) -> list[list[Array] | None]:
        """Return the sums of clipped responses, cell by cell: above the threshold, and below its negative."""
        p, s, n_down = self._shape.patch_size, self._shape.stride, max(c.bottom for c in cells)
        sides: list[list[Array] | None] = [None, None]
        for top in range(0, n_down, band):
            bottom = min(top + band, n_down)
            lines = images[:, top * s : (bottom - 1) * s + p, :, :]
            patches = extract_patches(lines, patch_size=p, stride=s)
            xp = namespace_of(patches)
            rows = xp.reshape(patches, (-1, patches.shape[3]))
            for step in self._normalize:
                rows = step(rows)
            S = xp.reshape(rows @ self._F.T, (*patches.shape[:3], -1))
            sides[0] = self._summed(xp.clip(S, min=self._upper), cells, top, sides[0])
            if self._two_sided:
                sides[1] = self._summed(xp.clip(S, max=self._lower), cells, top, sides[1])
        return sides

    def _summed(
        self, values: Array, cells: Sequence[Cell], top: int, so_far: list[Array] | None
    ) -> list[Array]:
        pooling = CellPooling.GAUSSIAN if self._gaussian else CellPooling.SUM
        return reduce_cells(values, cells, pooling=pooling, first_row=top, so_far=so_far)

    def _codes(self, cell: Cell, above: Array, below: Array | None) -> Array:
        """Return the sums of the codes of a cell from those of the clipped responses."""
        xp, n = namespace_of(above), 1 if self._gaussian else cell.size
        sides = [above - n * self._upper] + ([] if below is None else [n * self._lower - below])
        # Rounding may leave a tiny negative number where no response exceeds the threshold.
        return xp.concat([xp.clip(side, min=0) for side in sides], axis=1)


class Fused:
    """All steps compiled into one, on NumPy blocks."""

    threaded = True

    def __init__(self, bank: Bank, code: Code, alpha: float, shape: Shape) -> None:
        self._filters = fused_filters(bank, code)
        self._eps = None if bank.normalizer is None else bank.normalizer.eps_
        self._code, self._alpha, self._shape = code, alpha, shape
        self._n_codes = bank.n_codes

    # A tile for each thread, whatever the number of patches; and the pieces of which cells are joined.
    @working_memory(
        lambda self, row, cells: (
            _per_place(n_pieces_joined(cells, self._shape.pooling) * self._n_codes, cells)
            * row.itemsize
        )
    )
    def features(self, images: np.ndarray, cells: Sequence[Cell], band: int) -> Encoded:
        """Return the features of a block of images; the compiled code has tiles in place of bands."""
        values = pooled_codes(
            images,
            self._filters,
            cells,
            patch_size=self._shape.patch_size,
            stride=self._shape.stride,
            eps=self._eps,
            code=self._code,
            alpha=self._alpha,
            pooling=self._shape.pooling,
        )
        return Encoded(values, 0)


class FusedOnGpu:
    """All steps in Triton kernels, on blocks of a CUDA device."""

    threaded = False

    def __init__(
        self, bank: Bank, code: Code, alpha: float, place: Place, plain: Staged | Rectified
    ) -> None:
        # Imported here: it needs torch and Triton.
        from clusterica.ops.gpu import encode

        self._plain, shape = plain, plain._shape
        self._encode, precision = encode, active_config().precision
        self._filters = encode.prepare(fused_filters(bank, code), device_of(place.like), precision)
        self._eps = None if bank.normalizer is None else bank.normalizer.eps_
        self._code, self._alpha, self._shape = code, alpha, shape

    # That of the plain coder, which needs more, for images of which one alone is over the memory budget.
    @working_memory(lambda self, row, cells: row_bytes_of(self._plain.features, row, (cells,)))
    def features(self, images: Array, cells: Sequence[Cell], band: int) -> Encoded:
        """Return the features of a block of images; the plain coder cuts bands of large ones."""
        if band < max(cell.bottom for cell in cells):
            return self._plain.features(images, cells, band)
        values = self._encode.pooled_codes(
            images,
            self._filters,
            cells,
            patch_size=self._shape.patch_size,
            stride=self._shape.stride,
            eps=self._eps,
            code=self._code,
            alpha=self._alpha,
            pooling=self._shape.pooling,
        )
        return Encoded(values, 0)


Coder = Staged | Rectified | Fused | FusedOnGpu
# Codes that FusedOnGpu computes; that of the nearest atom is left to the staged coder. Gaussian pooling
# is left to the other coders: tiles of the kernels end where cells do, and cells of a Gaussian overlap.
_CODES_ON_GPU = (Code.POSITIVE, Code.BOTH_SIGNS, Code.SIGMOID, Code.TRIANGLE)


def make_coder(bank: Bank, place: Place, shape: Shape) -> Coder:
    """Return the compiled coder where there is one for these steps and this data, else the staged one."""
    # An encoder of the user's own need not have a compiled form.
    fused = bank.encoder.compiled_form() if hasattr(bank.encoder, "compiled_form") else None
    if fused is None or not bank.is_plain:
        return Staged(bank, place, shape)
    code, alpha = fused
    if place.is_numpy:
        return Fused(bank, code, alpha, shape)
    sums = shape.pooling in (CellPooling.SUM, CellPooling.MEAN, CellPooling.GAUSSIAN)
    rectified = sums and code in (Code.BOTH_SIGNS, Code.POSITIVE)
    plain = Rectified(bank, code, alpha, place, shape) if rectified else Staged(bank, place, shape)
    in_kernels = code in _CODES_ON_GPU and shape.pooling is not CellPooling.GAUSSIAN
    if in_kernels and why_no_kernels(place.like) is None:
        return FusedOnGpu(bank, code, alpha, place, plain)
    return plain


def fused_filters(bank: Bank, code: Code) -> Filters:
    """Return what is applied to normalised patches: D T x - D T m, with distances on whitened ones."""
    # In float64: products of filters and whitening are computed once, and rounded once.
    D = np.asarray(to_host(bank.filters), np.float64)
    d = D.shape[1]
    T = np.eye(d) if bank.whitener is None else np.asarray(to_host(bank.whitener.whitening_), float)
    mean = np.zeros(d) if bank.whitener is None else np.asarray(to_host(bank.whitener.mean_), float)
    shift = T @ mean
    if code.couples_filters:  # by distances, which do not change if a point is taken from all
        D, point = center(D)
        shift = shift + point
    # Its distances need |T x|, so that whitening can't be part of the filters.
    if code is Code.TRIANGLE:
        return Filters(D, row_energies(D), T, shift)
    bias = D @ shift
    return Filters(D @ T, bias + row_energies(D) / 2 if code is Code.ONE_HOT else bias)


# --- All blocks -------------------------------------------------------------------------------------

# Bytes of the channels of groups that are written and read again, of a block: 13 images of 9 x 9 places with
# 3,200 maps in 32 groups of 200. With 2**22, 2**23, 2**24 and 2**25 an image and group take 241, 197, 175
# and 162 µs (CPU time, one busy core): each block costs a call for every group.
_CACHED = 2**25


class Plan(NamedTuple):
    """Images of a block, and rows of patches that are worked on at once."""

    n_images: int
    band: int


def encode_images(
    images: Images,
    coders: Sequence[Coder],
    shape: Shape,
    n_codes: Sequence[int],
    *,
    groups: Sequence[np.ndarray] | None = None,
) -> Encoded:
    """Return the features of all images, float32, in the library and on the device of the images.

    Parameters
    ----------
    images : Images
    coders : sequence of Coder
        One for every region, or one for every group of channels.
    shape : Shape
    n_codes : sequence of int
        Number of codes of a patch, for every coder.
    groups : sequence of integer arrays, optional
        Channels that each coder sees, of the whole image in place of a region.

    Returns
    -------
    Encoded
        Features of shape (n_images, sum(n_codes) * shape.n_cells), coder by coder, and cell by cell within
        those of one; and the number of patches whose codes did not converge.
    """
    threaded = images.place.is_numpy and all(coder.threaded for coder in coders)
    threads = active_config().n_threads if threaded else 1
    # Where the features of every region begin: they stand side by side.
    ends = shape.n_cells * np.cumsum([0, *n_codes])
    # The features are on a device if the images are.
    features = images.home.empty((images.n_images, int(ends[-1])))
    inbox = None if images.place.is_numpy else Inbox(features)
    channels = [images.n_channels] * len(coders) if groups is None else list(map(len, groups))
    split_bytes = 0 if groups is None else 4 * sum(channels)
    plans = {}
    for part in images.parts:
        row_bytes = _row_bytes(images, part, shape, coders, channels)
        plan = _plan(images, part, shape, row_bytes, int(ends[-1]), threads, split_bytes)
        plans[part.start] = plan

    def run(block: Block) -> int:
        pixels, (height, width, _) = block.load(), block.part.shape
        band, failed = plans[block.part.start].band, 0
        parts = [pixels] * len(coders) if groups is None else _split(pixels, groups)
        for r, (coder, pixels) in enumerate(zip(coders, parts, strict=True)):
            top, left, down, across = shape.box(r if groups is None else 0, height, width)
            inside = pixels[:, top : top + down, left : left + across, :]
            cells = grid_cells(shape.places(down, across), shape.grids)
            with images.place.launching():
                values, n = coder.features(inside, cells, band)
            failed += n
            check_overflow(values, block.start, "image", "scale all images down")
            where = slice(block.start, block.stop), slice(int(ends[r]), int(ends[r + 1]))
            if inbox is None:
                features[where] = values
            else:
                inbox.put(values, where)
        return failed

    tasks = ((block,) for block in images.blocks(lambda part: plans[part.start].n_images))
    # Without threads of our own, those of BLAS share the work.
    failed = sum(in_order(run, tasks) if threaded else starmap(run, tasks))
    if inbox is not None:
        inbox.finish()
    return Encoded(images.home.put(features), failed)


def _split(pixels: Array, groups: Sequence[np.ndarray]) -> Sequence[Array]:
    """Return the channels of every group; the pixels themselves where that is all of them."""
    if len(groups) == 1 and np.array_equal(groups[0], np.arange(pixels.shape[3])):
        return [pixels]
    if isinstance(pixels, np.ndarray):
        return split_channels(pixels, groups)
    return [take(pixels, group, axis=3) for group in groups]


def _row_bytes(
    images: Images, part: Part, shape: Shape, coders: Sequence[Coder], channels: Sequence[int]
) -> int:
    """Return the working memory for each patch, of the coder that needs most."""
    height, width, _ = part.shape
    _, _, down, across = shape.box(0, height, width)  # the largest region
    cells = grid_cells(shape.places(down, across), shape.grids)
    most = 0
    # Ops state their memory for rows: here a row is a patch.
    for coder, n_channels in zip(coders, channels, strict=True):
        n_features = shape.patch_size**2 * n_channels
        row = Row(n_features, 4, 4 * n_features, images.place.is_numpy)
        most = max(most, row_bytes_of(coder.features, row, (cells,)))
    return most


def _plan(
    images: Images,
    part: Part,
    shape: Shape,
    row_bytes: int,
    n_columns: int,
    threads: int,
    split_bytes: int,
) -> Plan:
    """Return blocks that fit the memory budget, and that divide well among the threads."""
    height, width, channels = part.shape
    down, across = shape.places(height, width)
    # One block waits while the threads work, as in the walk over rows; a device has one block at a time.
    budget = images.place.memory // (threads + 1 if images.place.is_numpy else 1)
    pixels = (4 * channels + split_bytes) * height * width
    image_bytes = pixels + 4 * n_columns + down * across * row_bytes
    most = budget // image_bytes
    if most == 0:  # an image at a time, and of that a band of rows of patches
        # Patches of one large image may be over the budget by themselves.
        band = max(1, (budget - pixels) // max(1, across * row_bytes))
        return Plan(1, min(down, band))
    if images.place.is_numpy:
        # Four blocks for each thread, so that threads of uneven speed end together; but under 4096 patches
        # a block costs more to hand out than to compute.
        even = ceil(images.n_images / (4 * threads))
        most = min(most, max(even, ceil(4096 / (down * across))))
        # Channels of groups are written and soon read again: those of a few images stay in cache.
        if split_bytes:
            most = max(1, min(most, _CACHED // pixels))
    return Plan(most, down)
