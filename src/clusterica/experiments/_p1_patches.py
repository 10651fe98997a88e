"""Patches x = image[i:i+p, j:j+p] of natural images: those of BSDS500, or two photographs."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from clusterica.datasets import load_image_folder, photo_patches
from clusterica.experiments._context import Context

FOLDER = "BSDS500"


class PatchSource:
    """Natural images to draw patches from.

    Parameters
    ----------
    ctx : Context
        With a folder of data, the images in its folder BSDS500 are used; without, the two
        photographs of scikit-learn.
    color : bool, default=False
        Keep red, green and blue. Otherwise a pixel is its luminance.

    Attributes
    ----------
    name : str
        What the images are, for the settings of a run.
    """

    def __init__(self, ctx: Context, *, color: bool = False) -> None:
        self.color = color
        self._images = None if ctx.data is None else _read(ctx.data / FOLDER, color=color)
        count = 0 if self._images is None else len(self._images)
        self.name = f"{count} images of {FOLDER}" if count else "two photographs of scikit-learn"

    def draw(self, n_patches: int, size: int, *, rng: np.random.Generator) -> np.ndarray:
        """Draw patches, each from an image at random and at a place at random.

        Parameters
        ----------
        n_patches : int
            Number of patches.
        size : int
            Side of a patch in pixels.
        rng : Generator
            Random numbers.

        Returns
        -------
        ndarray of shape (n_patches, size * size [* 3]), float32
            Intensities from 0 to 255; the colours of a pixel are together.
        """
        if self._images is None:
            return photo_patches(n_patches, size, color=self.color, random_state=rng)
        which = rng.integers(len(self._images), size=n_patches)
        spots = rng.random((n_patches, 2))
        patches = np.empty((n_patches, size * size * (3 if self.color else 1)), np.float32)
        for index, image in enumerate(self._images):
            rows = np.flatnonzero(which == index)
            top, left = (spots[rows] * (np.array(image.shape[:2]) - size + 1)).astype(np.intp).T
            windows = np.lib.stride_tricks.sliding_window_view(image, (size, size), axis=(0, 1))
            cut = windows[top, left]
            # In colour a window is (3, p, p); a flattened patch keeps the colours of a pixel together.
            cut = cut.transpose(0, 2, 3, 1) if self.color else cut
            patches[rows] = cut.reshape(len(rows), patches.shape[1])
        return patches


def _read(folder: Path, *, color: bool) -> list[np.ndarray]:
    """Read all images of a folder, and of the folders in it."""
    if not folder.is_dir():
        raise NotADirectoryError(
            f"{folder} is not there; put the images of {FOLDER} into it, or leave the data folder out to "
            "work on the two photographs of scikit-learn."
        )
    return list(load_image_folder(folder, color="rgb" if color else "grey").images)
