"""Random patches of images: one place from each of n equal shares of all places at which a patch fits."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from clusterica.arrays import Array, as_generator, get_config, namespace_of, to_like
from clusterica.images._source import Images, Part
from clusterica.images._validation import check_images
from clusterica.ops.patch import n_places, take_patches

_AT_ONCE = 2**14  # patches that are cut together; their indices take 8 bytes a number


class Box(NamedTuple):
    """A rectangle of pixels of an image."""

    top: int
    left: int
    height: int
    width: int


class Sample(NamedTuple):
    """Patches as rows, shape (n_patches, n_features), float32, and the image that each is of."""

    patches: Array
    images: np.ndarray


def sample_patches(
    X: Any, n_patches: int, *, patch_size: int = 6, random_state: Any = None
) -> Array:
    """Cut patches out of images at random places.

    All places at which a patch fits, of all images, are divided into n_patches shares of equal size, and
    one place is drawn from each. So no patch comes twice, every image gives its share, and large
    images give more than small ones. The images are read in order, block by block.

    Parameters
    ----------
    X : array of shape (n, height, width) or (n, height, width, channels), or list of images
        NumPy array, memory map or tensor; a list may hold images of different sizes.
    n_patches : int
        Number of patches; all there are, if they are fewer.
    patch_size : int, default=6
        Side of a patch in pixels.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the draw; the same places for every library and device.

    Returns
    -------
    patches : array of shape (n_patches, patch_size * patch_size * channels), float32
        In random order, in the library and on the device of X. Reshape a row to ``(patch_size,
        patch_size, channels)`` to see the patch.

    Examples
    --------
    >>> import numpy as np
    >>> from clusterica.images import sample_patches
    >>> X = np.arange(2 * 8 * 8).reshape(2, 8, 8)
    >>> sample_patches(X, 10, patch_size=4, random_state=0).shape
    (10, 16)
    """
    for name, value in (("n_patches", n_patches), ("patch_size", patch_size)):
        if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
            raise ValueError(f"{name} is {value!r}; it must be a whole number of at least 1")
    images = check_images(X, patch_size=patch_size, caller="sample_patches")
    rng = as_generator(random_state)
    return draw(images, n_patches, patch_size=patch_size, rng=rng).patches


def draw(
    images: Images,
    n_patches: int,
    *,
    patch_size: int,
    rng: np.random.Generator,
    box: Callable[[Part], Box] | None = None,
) -> Sample:
    """Draw patches from the boxes of all images, in the library and on the device of the images."""
    boxes = [Box(0, 0, *part.shape[:2]) if box is None else box(part) for part in images.parts]
    per_image = [_n_places(b, patch_size) for b in boxes]
    sizes = [part.n_images * n for part, n in zip(images.parts, per_image, strict=True)]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    total = int(offsets[-1])
    n = min(int(n_patches), total)
    shares = np.arange(n + 1) * total // n
    picks = shares[:-1] + (rng.random(n) * np.diff(shares)).astype(np.int64)
    ends = np.searchsorted(picks, offsets)
    patches, which = [], []
    for i, part in enumerate(images.parts):
        mine = picks[ends[i] : ends[i + 1]] - offsets[i]
        which.append(part.start + mine // per_image[i])
        image, place = mine // per_image[i], mine % per_image[i]
        patches.extend(_cut(part, boxes[i], image, place, patch_size))
    order = rng.permutation(n)
    xp = namespace_of(*patches)
    rows = xp.take(xp.concat(patches, axis=0), to_like(order, patches[0]), axis=0)
    rows = images.home.put(xp.astype(rows, xp.float32, copy=False))
    return Sample(rows, np.concatenate(which)[order])


def _n_places(box: Box, patch_size: int) -> int:
    down, across = (n_places(n, patch_size=patch_size) for n in (box.height, box.width))
    return down * across


def _cut(
    part: Part, box: Box, image: np.ndarray, place: np.ndarray, patch_size: int
) -> list[Array]:
    """Return the patches at the places, which are numbered row by row of the box; images in order."""
    across = n_places(box.width, patch_size=patch_size)
    top, left = box.top + place // across, box.left + place % across
    image_bytes = 8 * int(np.prod(part.shape))
    most = max(1, get_config()["memory"] // (4 * image_bytes))
    patches, i = [], 0
    while i < len(image):
        # As many as are cut at once, from as many images as fit the memory.
        j = min(i + _AT_ONCE, int(np.searchsorted(image, image[i] + most)))
        block = part.cut(int(image[i]), int(image[j - 1]) + 1)
        places = (to_like(a[i:j], block) for a in (image - image[i], top, left))
        patches.append(take_patches(block, *places, patch_size=patch_size))
        i = j
    return patches
