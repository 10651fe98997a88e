"""Features of blocks of images: ``pool(encode(whiten(normalise(all patches))))``, in bounded memory.

`Staged` is the text of the computation, for every library, encoder and learner. `Fused` is its compiled
twin for NumPy blocks and the encoders that have a compiled form, `Rectified` one with fewer passes over
memory for soft thresholds on a device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from clusterica.arrays import Array, Place, namespace_of, to_host
from clusterica.images._bank import Bank, apply_step
from clusterica.ops.code import center
from clusterica.ops.cpu.encode import Code, Filters, pooled_codes
from clusterica.ops.linalg import project, row_energies
from clusterica.ops.normalize import normalize_contrast
from clusterica.ops.patch import extract_patches, n_places
from clusterica.ops.pool import Cell, CellPooling, finish_cells, reduce_cells
from clusterica.preprocessing import ContrastNormalizer, Whitener


@dataclass(frozen=True)
class Shape:
    """How patches are cut and pooled."""

    patch_size: int
    stride: int
    pooling: CellPooling

    def places(self, height: int, width: int) -> tuple[int, int]:
        """Return the rows and columns of places of patches in an image."""
        down, across = (
            n_places(n, patch_size=self.patch_size, stride=self.stride) for n in (height, width)
        )
        return down, across


def encode_function(bank: Bank, place: Place) -> Callable[[Array], Array]:
    """Return the function from a block of whitened rows to their codes."""
    D = None if bank.filters is None else np.asarray(to_host(bank.filters), np.float32)
    prepared = [place.put(values) for values in bank.encoder.prepare(D)]
    return lambda rows: bank.encoder.encode(rows, *prepared)


def stages(bank: Bank, place: Place) -> list[tuple[str, Callable[[Array], Array]]]:
    """Return what is done to rows of pixels before they are encoded: names and functions of a block."""
    steps: list[tuple[str, Callable[[Array], Array]]] = []
    if type(bank.normalizer) is ContrastNormalizer:
        steps.append(("normalized", partial(normalize_contrast, eps=bank.normalizer.eps_)))
    elif bank.normalizer is not None:
        steps.append(("normalized", partial(apply_step, bank.normalizer)))
    if type(bank.whitener) is Whitener:
        T, mean = (place.put(to_host(a)) for a in (bank.whitener.whitening_, bank.whitener.mean_))
        steps.append(("whitened", partial(project, B=T, mean=mean)))
    elif bank.whitener is not None:
        steps.append(("whitened", partial(apply_step, bank.whitener)))
    return steps


class Staged:
    """One step after the other on all patches of a block of images."""

    def __init__(self, bank: Bank, place: Place, shape: Shape) -> None:
        self._steps = [step for _, step in stages(bank, place)]
        self._encode = encode_function(bank, place)
        self._shape, self._code_bytes = shape, bank.code_bytes()
        # Estimators have threads of their own.
        self.threaded = not bank.by_learner and is_plain(bank)

    def row_bytes(self, n_features: int, n_codes: int) -> int:
        """Return the working memory for each patch."""
        return 16 * n_features + 4 * n_codes + self._code_bytes

    def __call__(self, images: Array, cells: Sequence[Cell], band: int) -> Array:
        """Return the features of a block of images, a band of so many rows of patches after the other."""
        p, s, n_down = self._shape.patch_size, self._shape.stride, max(c.bottom for c in cells)
        reduced: list[Array] | None = None
        for top in range(0, n_down, band):
            bottom = min(top + band, n_down)
            lines = images[:, top * s : (bottom - 1) * s + p, :, :]
            codes = self._codes(extract_patches(lines, patch_size=p, stride=s))
            reduced = reduce_cells(
                codes, cells, pooling=self._shape.pooling, first_row=top, so_far=reduced
            )
        return finish_cells(reduced or [], cells, pooling=self._shape.pooling)

    def _codes(self, patches: Array) -> Array:
        xp = namespace_of(patches)
        rows = xp.reshape(patches, (-1, patches.shape[3]))
        for step in self._steps:
            rows = step(rows)
        return xp.reshape(self._encode(rows), (*patches.shape[:3], -1))


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

    def row_bytes(self, n_features: int, n_codes: int) -> int:
        """Return the working memory for each patch: pixels three times, responses and the larger of two."""
        n_filters = int(self._F.shape[0])
        return 12 * n_features + 8 * n_filters

    def __call__(self, images: Array, cells: Sequence[Cell], band: int) -> Array:
        """Return the features of a block of images, a band of so many rows of patches after the other."""
        p, s, n_down = self._shape.patch_size, self._shape.stride, max(c.bottom for c in cells)
        sides: list[list[Array] | None] = [None, None]
        for top in range(0, n_down, band):
            bottom = min(top + band, n_down)
            lines = images[:, top * s : (bottom - 1) * s + p, :, :]
            S = self._responses(extract_patches(lines, patch_size=p, stride=s))
            xp = namespace_of(S)
            sides[0] = self._summed(xp.clip(S, min=self._upper), cells, top, sides[0])
            if self._two_sided:
                sides[1] = self._summed(xp.clip(S, max=self._lower), cells, top, sides[1])
        per_cell = zip(cells, sides[0] or [], sides[1] or [None] * len(cells), strict=True)
        sums = [self._codes(*args) for args in per_cell]
        return finish_cells(sums, cells, pooling=self._shape.pooling)

    def _responses(self, patches: Array) -> Array:
        xp = namespace_of(patches)
        rows = xp.reshape(patches, (-1, patches.shape[3]))
        for step in self._normalize:
            rows = step(rows)
        return xp.reshape(rows @ self._F.T, (*patches.shape[:3], -1))

    def _summed(
        self, values: Array, cells: Sequence[Cell], top: int, so_far: list[Array] | None
    ) -> list[Array]:
        return reduce_cells(values, cells, pooling=CellPooling.SUM, first_row=top, so_far=so_far)

    def _codes(self, cell: Cell, above: Array, below: Array | None) -> Array:
        """Return the sums of the codes of a cell from those of the clipped responses."""
        xp, n = namespace_of(above), cell.size
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

    def row_bytes(self, n_features: int, n_codes: int) -> int:
        """Return the working memory for each patch: none but that of the tiles."""
        return 0

    def __call__(self, images: np.ndarray, cells: Sequence[Cell], band: int) -> np.ndarray:
        """Return the features of a block of images; tiles take the place of bands."""
        return pooled_codes(
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


Coder = Staged | Rectified | Fused


def make_coder(bank: Bank, place: Place, shape: Shape) -> Coder:
    """Return the compiled coder where there is one for these steps and this data, else the staged one."""
    # An encoder of the user's own need not have a compiled form.
    fused = bank.encoder.compiled_form() if hasattr(bank.encoder, "compiled_form") else None
    if fused is None or not is_plain(bank):
        return Staged(bank, place, shape)
    code, alpha = fused
    if place.is_numpy:
        return Fused(bank, code, alpha, shape)
    sums = shape.pooling in (CellPooling.SUM, CellPooling.MEAN)
    if sums and code in (Code.BOTH_SIGNS, Code.POSITIVE):
        return Rectified(bank, code, alpha, place, shape)
    return Staged(bank, place, shape)


def is_plain(bank: Bank) -> bool:
    """Return whether the steps before the encoder are those of this library, or left out."""
    return type(bank.normalizer) in (ContrastNormalizer, type(None)) and type(bank.whitener) in (
        Whitener,
        type(None),
    )


def fused_filters(bank: Bank, code: Code) -> Filters:
    """Return what is applied to normalised patches: D T x - D T m, with distances on whitened ones."""
    D = np.asarray(to_host(bank.filters), np.float64)
    d = D.shape[1]
    T = np.eye(d) if bank.whitener is None else np.asarray(to_host(bank.whitener.whitening_), float)
    mean = np.zeros(d) if bank.whitener is None else np.asarray(to_host(bank.whitener.mean_), float)
    shift = T @ mean
    if code.couples_filters:  # by distances, which do not change if a point is taken from all
        D, point = center(D)
        shift = shift + point
    if code is Code.TRIANGLE:
        return Filters(D, row_energies(D), T, shift)
    bias = D @ shift
    return Filters(D @ T, bias + row_energies(D) / 2 if code is Code.ONE_HOT else bias)
