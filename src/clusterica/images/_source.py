"""Images wherever they live, of one size or of several, read as blocks of images of one size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from clusterica.arrays import Array, Place, namespace_of

_GLANCE = 16  # images that tell in what range the values are


class Part(NamedTuple):
    """Images of one size that follow each other: an array of them, or a list of single images.

    The array has shape (n_images, height, width, channels), each image of the list (height, width,
    channels). `start` is the place of the first one among all images.
    """

    start: int
    images: Any

    @property
    def n_images(self) -> int:
        """Number of images."""
        return len(self.images) if isinstance(self.images, list) else int(self.images.shape[0])

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels of an image."""
        one = self.images[0] if isinstance(self.images, list) else self.images
        height, width, channels = one.shape[-3:]
        return int(height), int(width), int(channels)

    def cut(self, start: int, stop: int) -> Array:
        """Return some of the images as one array, in their own dtype; a view where that can be had."""
        if isinstance(self.images, list):
            some = self.images[start:stop]
            return namespace_of(*some).stack(some)
        return self.images[start : min(stop, self.n_images), ...]


class Block(NamedTuple):
    """Images from `start` up to `stop`, the part they belong to, and a function that loads them."""

    start: int
    stop: int
    part: Part
    load: Callable[[], Array]


class Images:
    """All images given to an estimator, known to be valid.

    Parameters
    ----------
    parts : list of Part
        Images that were CPU tensors are NumPy arrays here.
    reference : array
        An array of the library and device in which results are returned.

    Attributes
    ----------
    home, place : Place
        Where results go, and where blocks are worked on.
    """

    def __init__(self, parts: list[Part], reference: Array) -> None:
        self.parts = parts
        self.n_images = sum(part.n_images for part in parts)
        self.n_channels = parts[0].shape[2]
        self.home = Place(reference[:0, ...])
        self.place = Place.of_work(self.home)

    def largest_pixel(self) -> float:
        """Return the largest value in a few images from all over."""
        parts = self.parts[:: -(-len(self.parts) // _GLANCE)]
        few = (part.cut(i, i + 1) for part in parts for i in _spread(part.n_images, len(parts)))
        return max(float(namespace_of(image).max(image)) for image in few)

    def blocks(self, size: Callable[[Part], int]) -> Iterator[Block]:
        """Yield blocks of images of one size, in order, of at most ``size(part)`` images."""
        for part in self.parts:
            most = size(part)
            for start in range(0, part.n_images, most):
                stop = min(start + most, part.n_images)
                load = partial(self._load, part, start, stop)
                yield Block(part.start + start, part.start + stop, part, load)

    def _load(self, part: Part, start: int, stop: int) -> Array:
        """Return a block as float32, where blocks are worked on."""
        block = part.cut(start, stop)
        if self.place.is_numpy:
            return np.ascontiguousarray(block, dtype=np.float32)
        # Bytes are sent as bytes; torch does not know all other types of NumPy.
        if isinstance(block, np.ndarray) and block.dtype not in (np.uint8, np.float32):
            block = block.astype(np.float32)
        block = self.place.put(block)
        xp = namespace_of(block)
        return xp.astype(block, xp.float32, copy=False)


def _spread(n: int, n_parts: int) -> range:
    """Return places of a few images of one among so many parts."""
    return range(0, n, max(1, -(-n * n_parts // _GLANCE)))
