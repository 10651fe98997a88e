"""Natural patches for the filters of P0: contrast-normalised, (x - mean) / sqrt(var + 10), and whitened."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from clusterica.datasets import photo_patches
from clusterica.preprocessing import ContrastNormalizer, Whitener

CONTRAST_EPS = 10.0  # for pixels in 0..255
WHITENING_EPS = 0.1


class Patches(NamedTuple):
    """Patches to learn from, and others to measure on."""

    X: np.ndarray
    """Of shape (n_patches, size * size)."""
    fresh: np.ndarray
    """Of shape (n_fresh, size * size)."""


def natural_patches(n_patches: int, size: int, *, n_fresh: int, seed: int) -> Patches:
    """Draw patches of the two photographs of scikit-learn and normalise their contrast.

    Parameters
    ----------
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
    drawn = (photo_patches(n, size, random_state=rng) for n in (n_patches, n_fresh))
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
