"""Patches x = image[i:i+p, j:j+p] of natural images: those of BSDS500, or two photographs."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from clusterica.datasets import load_image_folder, photo_patches
from clusterica.experiments._context import Context
from clusterica.preprocessing import ContrastNormalizer, Whitener

FOLDER = "BSDS500"
# Folders of the training images: as in the official archive, or without the upper folders.
_TRAIN = ("data/images/train", "images/train", "train")
CONTRAST_EPS = 10.0  # for pixels in 0..255, as in Coates & Ng, section 2.1
WHITENING_EPS = 0.1  # the value of the same section for 8 x 8 patches


class PatchSource:
    """Natural images to draw patches from.

    Parameters
    ----------
    ctx : Context
        With a folder of data, the training images in its folder BSDS500 are used; without, the two
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
    """Read the training images of a folder; all of its images where it has no folder for these."""
    if not folder.is_dir():
        raise NotADirectoryError(
            f"{folder} does not exist; put the images of {FOLDER} into it, or leave the data folder out to "
            "work on the two photographs of scikit-learn."
        )
    folders = [folder / name for name in _TRAIN if (folder / name).is_dir()]
    images = load_image_folder([*folders, folder][0], color="rgb" if color else "grey")
    return list(images.images)


class Patches(NamedTuple):
    """Patches to learn from, and others to measure on."""

    X: np.ndarray
    """Of shape (n_patches, size * size)."""
    fresh: np.ndarray
    """Of shape (n_fresh, size * size)."""


def natural_patches(
    source: PatchSource, n_patches: int, size: int, *, n_fresh: int, seed: int
) -> Patches:
    """Draw grey patches and normalise their contrast, (x - mean) / sqrt(var + 10).

    Parameters
    ----------
    source : PatchSource
        The images.
    n_patches, n_fresh : int
        Number of patches of each kind.
    size : int
        Side of a patch in pixels.
    seed : int
        Seed of the draw.

    Returns
    -------
    Patches
    """
    rng = np.random.default_rng(seed)
    normalizer = ContrastNormalizer(eps=CONTRAST_EPS)
    drawn = (source.draw(n, size, rng=rng) for n in (n_patches, n_fresh))
    return Patches(*(normalizer.fit_transform(patches) for patches in drawn))


def patch_whitener(size: int) -> Whitener:
    """Return a regularised whitener for such patches; it leaves out their mean, which is always zero.

    Parameters
    ----------
    size : int
        Side of a patch in pixels.

    Returns
    -------
    Whitener
        Not fitted yet.
    """
    return Whitener("pca", eps=WHITENING_EPS, n_components=size * size - 1)
