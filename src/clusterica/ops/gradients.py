"""Histograms of gradients of patches: ``v[c, o] = sum over pixels p of w_c(p) b_o(θ(p)) |∇(p)|``, as in SIFT.

A pixel counts for the four cells about it and for the two orientations about its own, by its distance from
each (trilinear), and less the farther it is from the middle of the patch (a Gaussian).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from clusterica.arrays import Array, namespace_of, to_like, working_memory
from clusterica.ops.linalg import row_lengths


@dataclass(frozen=True)
class GradientHistograms:
    """Descriptors of patches of one shape.

    Parameters
    ----------
    height, width, channels : int
        Shape of a patch.
    n_cells : int, default=4
        Cells along each side.
    n_orientations : int, default=8
        Orientations of gradients, evenly from 0 to 2π.
    clip : float, default=0.2
        Largest entry of a descriptor of unit length; it is scaled to unit length again.
    floor : float, default=0.0
        Length below which a histogram counts as flat: it is divided by the floor and not by its length.
    """

    height: int
    width: int
    channels: int
    n_cells: int = 4
    n_orientations: int = 8
    clip: float = 0.2
    floor: float = 0.0

    # Three arrays with a number for every pixel and orientation, a few of the pixels, and the descriptors.
    @working_memory(
        lambda self, row: (
            row.itemsize
            * (
                (3 * self.n_orientations + 6) * self.height * self.width
                + row.n_features
                + 4 * self.n_cells**2 * self.n_orientations
            )
        )
    )
    def describe(self, X: Array) -> Array:
        """Return the descriptors of a block, shape (n_rows, n_cells * n_cells * n_orientations).

        The rows of X are patches, shape (n_rows, height * width * channels); channels are averaged.
        """
        xp, n_pixels = namespace_of(X), self.height * self.width
        # In units in which no square overflows or vanishes; lengths are divided out at the end.
        least = max(self.floor, float(xp.finfo(X.dtype).smallest_normal))
        unit = xp.clip(xp.max(xp.abs(X), axis=1, keepdims=True), min=least)
        grey = xp.mean(xp.reshape(X / unit, (-1, self.height, self.width, self.channels)), axis=3)
        down, across = _slopes(grey, 1), _slopes(grey, 2)
        strength = xp.reshape(xp.sqrt(down * down + across * across), (-1, 1, n_pixels))
        angle = xp.reshape(xp.atan2(down, across), (-1, 1, n_pixels))
        # Distance from every orientation, in units of their spacing, around the circle.
        n = self.n_orientations
        centers = to_like(np.arange(n, dtype=np.float32)[None, :, None], X)
        apart = angle * (n / (2 * math.pi)) - xp.astype(centers, X.dtype, copy=False)
        apart = xp.abs(apart - n * xp.round(apart / n))
        oriented = strength * xp.clip(1 - apart, min=0)
        weights = _cell_weights(self.height, self.width, self.n_cells)
        cells = xp.astype(to_like(weights, X), X.dtype, copy=False)
        found = xp.matrix_transpose(oriented @ cells.T)  # (n_rows, n_cells², n_orientations)
        V = xp.reshape(found, (X.shape[0], -1))
        # Unit length without large entries. Rows of zeros, and flat ones, stay short: they would be noise.
        lengths = row_lengths(V)[:, None]
        floor = self.floor / unit
        flat = lengths <= floor
        least = float(xp.finfo(V.dtype).smallest_normal)
        V = xp.clip(V / xp.clip(xp.where(flat, floor, lengths), min=least), max=self.clip)
        again = row_lengths(V)[:, None]
        return xp.where(flat, V, V / xp.where(again > 0, again, 1.0))


def _slopes(images: Array, axis: int) -> Array:
    """Return central differences along an axis, one-sided at the edges; 0 along a side of one pixel."""
    xp, n = namespace_of(images), images.shape[axis]
    if n == 1:
        return xp.zeros_like(images)
    at = [slice(None)] * 3

    def part(start: int, stop: int) -> Array:
        return images[tuple([*at[:axis], slice(start, stop), *at[axis + 1 :]])]

    parts = [
        part(1, 2) - part(0, 1),
        (part(2, n) - part(0, n - 2)) / 2,
        part(n - 1, n) - part(n - 2, n - 1),
    ]
    return xp.concat(parts, axis=axis)


@lru_cache(maxsize=8)
def _cell_weights(height: int, width: int, n_cells: int) -> np.ndarray:
    """Return how much every pixel counts in every cell, shape (n_cells², height * width)."""

    def along(length: int) -> tuple[np.ndarray, np.ndarray]:
        # Middles of pixels and of cells, in units of the side.
        place = (np.arange(length) + 0.5) / length
        centers = (np.arange(n_cells) + 0.5) / n_cells
        weights = np.maximum(0, 1 - n_cells * np.abs(centers[:, None] - place))
        # A standard deviation of half of the side, as in SIFT.
        return weights, np.exp(-((place - 0.5) ** 2) / (2 * 0.5**2))

    (rows, fade_down), (columns, fade_across) = along(height), along(width)
    weights: np.ndarray = np.kron(rows * fade_down, columns * fade_across)
    weights.flags.writeable = False  # shared by all callers
    return weights
