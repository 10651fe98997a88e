"""Images x = Σ_j s_j d_j of sparse sources s; the atoms d are pixels, gratings or Gabors (Coates & Ng)."""

from __future__ import annotations

import math
import numbers
from typing import Any, NamedTuple

import numpy as np

from clusterica.arrays import as_generator

BLOCK = 2**22  # coefficients drawn at a time
CANDIDATES = 8  # Gabor functions drawn for each one that is used
LOWEST, HIGHEST = 0.1, 0.5  # spatial frequency of Gabor functions, in cycles a pixel
SPREAD = 0.4  # deviation of the envelope across the stripes, in wavelengths
ELONGATION = 1.5  # deviation along the stripes by that across them


class SparseImages(NamedTuple):
    """Images and the dictionary they were made from."""

    images: np.ndarray
    """float32 array of shape (n_samples, size, size)."""
    dictionary: np.ndarray
    """float32 array of shape (n_atoms, size, size), each atom of unit length."""


def make_sparse_images(
    n_samples: int,
    *,
    kind: str = "pixels",
    size: int = 16,
    n_atoms: int | None = None,
    density: float = 1.0,
    random_state: Any = None,
) -> SparseImages:
    r"""Draw images that are sparse mixtures of known atoms.

    An image is :math:`x = \sum_j s_j d_j`, where the coefficients are independent draws of a Laplace
    law with variance one. These are the three kinds of images of Coates & Ng, figure 3.

    Parameters
    ----------
    n_samples : int
        Number of images.
    kind : {"pixels", "gratings", "gabors"}, default="pixels"
        The atoms. "pixels": each is one pixel. "gratings": cosine and sine waves over the whole image, of
        every direction and frequency, that is the real Fourier basis, which is orthonormal.
        "gabors": waves under a Gaussian envelope at random places, directions, frequencies and
        phases, which are not orthogonal.
    size : int, default=16
        Side of the images in pixels.
    n_atoms : int or None, default=None
        Number of Gabor functions; None is ``size * size``, a basis. Pixels and gratings are always
        that many.
    density : float, default=1.0
        Share of coefficients that are not zero. Below 1, each is zero with chance ``1 - density`` and
        the rest are scaled up, so that the variance stays one: the tails grow heavier.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the draw; an integer gives the same draw every time.

    Returns
    -------
    SparseImages
        The named tuple ``(images, dictionary)``.

    Notes
    -----
    Gabor functions drawn at random may be nearly mixtures of one another. Of 8 times as many draws those are
    used that are least so, one after the other (a QR decomposition with pivots). For 16 by 16 pixels
    that keeps the condition number of the dictionary near 30.

    Examples
    --------
    >>> from clusterica.datasets import make_sparse_images
    >>> images, dictionary = make_sparse_images(100, kind="gabors", size=8, random_state=0)
    >>> images.shape, dictionary.shape
    ((100, 8, 8), (64, 8, 8))
    """
    _check_whole("n_samples", n_samples)
    _check_whole("size", size)
    if kind not in KINDS:
        raise ValueError(f"kind is {kind!r}; it must be one of {', '.join(map(repr, KINDS))}.")
    if not 0 < density <= 1:
        raise ValueError(f"density is {density!r}; it must be above 0 and at most 1.")
    if n_atoms is None:
        n_atoms = size * size
    _check_whole("n_atoms", n_atoms)
    if kind != "gabors" and n_atoms != size * size:
        raise ValueError(
            f"n_atoms is {n_atoms}, but {kind} of {size} by {size} images are {size * size} atoms; leave it "
            "None, or choose kind='gabors'."
        )
    rng = as_generator(random_state)
    D = KINDS[kind](size, n_atoms, rng).astype(np.float32)
    X = _mix(n_samples, None if kind == "pixels" else D, density=density, rng=rng, size=size)
    return SparseImages(X.reshape(n_samples, size, size), D.reshape(n_atoms, size, size))


def _mix(
    n_samples: int,
    D: np.ndarray | None,
    *,
    density: float,
    rng: np.random.Generator,
    size: int,
) -> np.ndarray:
    """Draw ``X = S D`` block by block, so that S never exists as a whole; no D is the identity."""
    n_atoms = size * size if D is None else len(D)
    X = np.empty((n_samples, size * size), np.float32)
    scale = math.sqrt(0.5 / density)  # a Laplace law has variance 2 scale²
    step = max(1, BLOCK // n_atoms)
    for start in range(0, n_samples, step):
        rows = min(step, n_samples - start)
        S = rng.laplace(scale=scale, size=(rows, n_atoms))
        if density < 1:
            S *= rng.random((rows, n_atoms)) < density
        codes = S.astype(np.float32)
        X[start : start + rows] = codes if D is None else codes @ D
    return X


def _pixels(size: int, n_atoms: int, rng: np.random.Generator) -> np.ndarray:
    """Return the identity."""
    return np.eye(size * size)


def _gratings(size: int, n_atoms: int, rng: np.random.Generator) -> np.ndarray:
    """Return the real Fourier basis: cos and sin of 2π(u i + v j) / size, scaled to unit length.

    Of the frequencies (u, v) and (-u, -v), which have the same waves, one is kept. Where they are the
    same one, the sine is zero and only the cosine is kept.
    """
    along = np.arange(size)
    atoms = []
    for u in range(size):
        for v in range(size):
            mirror = (-u % size, -v % size)
            phase = 2 * np.pi * (u * along[:, np.newaxis] + v * along) / size
            if (u, v) <= mirror:
                atoms.append(np.cos(phase))
            if (u, v) < mirror:
                atoms.append(np.sin(phase))
    D = np.array(atoms).reshape(size * size, size * size)
    return D / np.linalg.norm(D, axis=1, keepdims=True)


def _gabors(size: int, n_atoms: int, rng: np.random.Generator) -> np.ndarray:
    """Draw Gabor functions and keep those that are least mixtures of others."""
    from scipy.linalg import qr
    from threadpoolctl import threadpool_limits

    chosen: list[np.ndarray] = []
    missing = n_atoms
    while missing:  # one round gives at most a basis
        count = min(missing, size * size)
        drawn = _draw_gabors(size, CANDIDATES * size * size, rng)
        with threadpool_limits(1):  # many small steps, in which threads wait for each other
            _, order = qr(drawn.T, mode="r", pivoting=True)
        chosen.append(drawn[np.sort(order[:count])])
        missing -= count
    return np.concatenate(chosen)


def _draw_gabors(size: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Draw Gabor functions of unit length at random, of shape (count, size * size)."""
    spot = rng.uniform(-0.5, size - 0.5, (2, count, 1, 1))
    angle = rng.uniform(0, np.pi, (count, 1, 1))
    # Uniform in octaves: no scale is preferred.
    frequency = np.exp(rng.uniform(math.log(LOWEST), math.log(HIGHEST), (count, 1, 1)))
    phase = rng.uniform(0, 2 * np.pi, (count, 1, 1))
    down = np.arange(size)[:, np.newaxis] - spot[0]
    right = np.arange(size) - spot[1]
    across = right * np.cos(angle) + down * np.sin(angle)
    along = down * np.cos(angle) - right * np.sin(angle)
    width = SPREAD / frequency
    envelope = np.exp(-(across**2 + (along / ELONGATION) ** 2) / (2 * width**2))
    D = (envelope * np.cos(2 * np.pi * frequency * across + phase)).reshape(count, -1)
    # A narrow one whose zero falls on the only pixel it covers would be zero.
    return D / np.maximum(np.linalg.norm(D, axis=1, keepdims=True), np.finfo(D.dtype).tiny)


KINDS = {"pixels": _pixels, "gratings": _gratings, "gabors": _gabors}


def _check_whole(name: str, value: int) -> None:
    """Refuse a count that is not a whole number from 1."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 1:
        raise ValueError(f"{name} is {value!r}; it must be a whole number of at least 1.")
