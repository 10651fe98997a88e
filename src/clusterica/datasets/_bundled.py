"""Data that comes with scikit-learn: handwritten digits, and random patches photo[i:i+p, j:j+p]."""

from __future__ import annotations

from typing import Any

import numpy as np

from clusterica.arrays import as_generator
from clusterica.datasets._common import ImageSet, check_count

# Weights of red, green and blue in the luminance (ITU-R BT.601).
LUMINANCE = np.array([0.299, 0.587, 0.114], dtype=np.float32)


def load_digits_images() -> ImageSet:
    """Return scikit-learn's handwritten digits as images.

    scikit-learn gives them in levels from 0 to 16. Here they are scaled to whole numbers from 0 to 255,
    the range of photographs, for which the defaults of this library are meant. Nothing is downloaded.

    Returns
    -------
    ImageSet
        ``images`` of shape (1797, 8, 8).

    Examples
    --------
    >>> from clusterica.datasets import load_digits_images
    >>> digits = load_digits_images()
    >>> digits.images.shape, int(digits.images.max())
    ((1797, 8, 8), 255)
    """
    from sklearn.datasets import load_digits

    digits = load_digits()
    # The file has 17 levels, 0 to 16.
    images = np.rint(digits.images * (255 / 16)).astype(np.uint8)
    return ImageSet(images, digits.target.astype(np.int64), tuple(map(str, digits.target_names)))


def photo_patches(
    n_patches: int,
    patch_size: int,
    *,
    color: bool = False,
    random_state: Any = None,
) -> np.ndarray:
    """Draw patches from the two photographs that come with scikit-learn.

    Each patch comes from either photograph with equal chance, at a place drawn uniformly among
    all that fit. Nothing is downloaded.

    Parameters
    ----------
    n_patches : int
        Number of patches.
    patch_size : int
        Side of a patch in pixels, at most the height of the photographs (427).
    color : bool, default=False
        Keep red, green and blue. Otherwise a pixel is its luminance.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the draw; an integer gives the same patches every time.

    Returns
    -------
    ndarray of shape (n_patches, patch_size * patch_size [* 3]), float32
        Pixel intensities from 0 to 255. Reshape a row to ``(patch_size, patch_size)``, or to
        ``(patch_size, patch_size, 3)`` with color, to see the patch.

    Examples
    --------
    >>> from clusterica.datasets import photo_patches
    >>> photo_patches(1000, 8, random_state=0).shape
    (1000, 64)
    """
    from sklearn.datasets import load_sample_images

    try:
        images = load_sample_images().images
    except ImportError as error:
        raise ImportError(
            "photo_patches reads JPEG files with Pillow, which is not installed. "
            'Install it with: pip install "clusterica[plot]"'
        ) from error
    photos = [np.asarray(image, dtype=np.float32) for image in images]
    if not color:
        photos = [(photo @ LUMINANCE)[:, :, np.newaxis] for photo in photos]
    check_count("n_patches", n_patches)
    smallest = min(min(photo.shape[:2]) for photo in photos)
    check_count("patch_size", patch_size, largest=smallest, what="the height of the photographs")
    rng = as_generator(random_state)

    # One draw a patch, in the order of the rows: the first m of n patches do not depend on n.
    spot = rng.random((n_patches, 3))
    which = (spot[:, 0] * len(photos)).astype(np.intp)
    patches = np.empty((n_patches, patch_size * patch_size * photos[0].shape[2]), np.float32)
    for index, photo in enumerate(photos):
        rows = np.flatnonzero(which == index)
        free = np.array(photo.shape[:2]) - patch_size + 1
        top, left = (spot[rows, 1:] * free).astype(np.intp).T
        windows = np.lib.stride_tricks.sliding_window_view(photo, (patch_size, patch_size), (0, 1))
        # A window is (channels, p, p); a flattened patch keeps the channels of a pixel together.
        cut = windows[top, left].transpose(0, 2, 3, 1)
        patches[rows] = cut.reshape(len(rows), patches.shape[1])
    return patches
