"""Patches of images as rows: row (i, y, x) is ``images[i, y s : y s + p, x s : x s + p]``, flattened."""

from __future__ import annotations

from clusterica.arrays import Array, namespace_of


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
