"""Synthetic images: x = Σ_j s_j d_j of sparse sources s (Coates & Ng), and rectangles as mixing matrices."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from clusterica.arrays import as_generator, one_blas_thread
from clusterica.datasets._common import brief, check_choice, check_count


class SparseImages(NamedTuple):
    """Images and the dictionary they were made from."""

    images: np.ndarray
    """float32 array of shape (n_samples, size, size)."""
    dictionary: np.ndarray
    """float32 array of shape (n_atoms, size, size), each atom of unit length."""

    def __repr__(self) -> str:
        return brief(self)


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
    distribution with variance one. These are the three kinds of images of Coates & Ng, figure 3.

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
    check_count("n_samples", n_samples)
    check_count("size", size)
    check_choice("kind", kind, ("pixels", "gratings", "gabors"))
    if not 0 < density <= 1:
        raise ValueError(f"density is {density!r}; it must be above 0 and at most 1.")
    if n_atoms is None:
        n_atoms = size * size
    check_count("n_atoms", n_atoms)
    if kind != "gabors" and n_atoms != size * size:
        raise ValueError(
            f"n_atoms is {n_atoms}, but {kind} of {size} by {size} images are {size * size} atoms; leave it "
            "None, or choose kind='gabors'."
        )
    rng = as_generator(random_state)
    if kind == "pixels":
        D = np.eye(size * size)
    else:
        D = _gratings(size) if kind == "gratings" else _gabors(size, n_atoms, rng)
    D = D.astype(np.float32)
    X = np.empty((n_samples, size * size), np.float32)
    scale = math.sqrt(0.5 / density)  # a Laplace distribution has variance 2 scale²
    # Coefficients are drawn block by block, so that they are never in memory as a whole: 32 MiB at a time.
    step = max(1, 2**22 // n_atoms)
    for start in range(0, n_samples, step):
        rows = min(step, n_samples - start)
        S = rng.laplace(scale=scale, size=(rows, n_atoms))
        if density < 1:
            S *= rng.random((rows, n_atoms)) < density
        # Drawn in float64, as NumPy does, so that the draw does not depend on the dtype of the result.
        codes = S.astype(np.float32)
        X[start : start + rows] = codes if kind == "pixels" else codes @ D
    return SparseImages(X.reshape(n_samples, size, size), D.reshape(n_atoms, size, size))


def _gratings(size: int) -> np.ndarray:
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
    return _unit_rows(np.array(atoms).reshape(size * size, size * size))


def _gabors(size: int, n_atoms: int, rng: np.random.Generator) -> np.ndarray:
    """Draw Gabor functions of unit length, and keep those that are most independent of each other."""
    from scipy.linalg import qr

    chosen: list[np.ndarray] = []
    # Eight candidates for each place in a basis keep the condition number near 30 for 16 x 16 pixels.
    n = 8 * size * size
    for start in range(0, n_atoms, size * size):  # one round gives at most a basis
        spot = rng.uniform(-0.5, size - 0.5, (2, n, 1, 1))
        angle = rng.uniform(0, np.pi, (n, 1, 1))
        # From 0.1 cycles a pixel to 0.5, the most that pixels carry; uniform in octaves, to prefer no scale.
        frequency = np.exp(rng.uniform(math.log(0.1), math.log(0.5), (n, 1, 1)))
        phase = rng.uniform(0, 2 * np.pi, (n, 1, 1))
        down = np.arange(size)[:, np.newaxis] - spot[0]
        right = np.arange(size) - spot[1]
        across = right * np.cos(angle) + down * np.sin(angle)
        along = down * np.cos(angle) - right * np.sin(angle)
        # The envelope has a deviation of 0.4 wavelengths across the stripes, so that about one and a half
        # waves are visible, and is 1.5 times as long along them.
        width = 0.4 / frequency
        envelope = np.exp(-(across**2 + (along / 1.5) ** 2) / (2 * width**2))
        waves = envelope * np.cos(2 * np.pi * frequency * across + phase)
        drawn = _unit_rows(waves.reshape(n, -1))
        with one_blas_thread():  # many small steps, in which threads wait for each other
            _, order = qr(drawn.T, mode="r", pivoting=True)
        chosen.append(drawn[np.sort(order[: min(size * size, n_atoms - start)])])
    return np.concatenate(chosen)


def _unit_rows(D: np.ndarray) -> np.ndarray:
    """Scale rows to length one; a narrow Gabor whose zero falls on the only pixel it covers stays zero."""
    lengths = np.linalg.norm(D, axis=1, keepdims=True)
    unit: np.ndarray = D / np.maximum(lengths, np.finfo(D.dtype).tiny)
    return unit


def make_rectangles(
    side: int = 10, *, n_rectangles: int | None = None, random_state: Any = None
) -> np.ndarray:
    """Draw a mixing matrix of rectangles, the columns linearly independent.

    Height and width are drawn uniformly from 1 to ``side``, then the place among all that fit. As many
    random rectangles as pixels almost never make an invertible matrix, so one is kept only if it
    raises the rank of those before it.

    Parameters
    ----------
    side : int, default=10
        Side of the square images in pixels.
    n_rectangles : int, default=None
        Number of columns, at most ``side * side``; None takes that many, and the matrix is invertible.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the draw; an integer gives the same rectangles every time.

    Returns
    -------
    ndarray of shape (side * side, n_rectangles)
        Zeros and ones. Reshape a column to ``(side, side)`` to see its rectangle.

    Examples
    --------
    >>> import numpy as np
    >>> from clusterica.datasets import make_rectangles
    >>> A = make_rectangles(4, random_state=0)
    >>> A.shape, int(np.linalg.matrix_rank(A))
    ((16, 16), 16)
    """
    check_count("side", side)
    n = side * side if n_rectangles is None else n_rectangles
    check_count("n_rectangles", n, largest=side * side, what="the number of pixels")
    rng = as_generator(random_state)

    A = np.empty((side * side, n))
    Q = np.zeros((side * side, n))  # orthonormal columns of the same span; zeros add nothing
    found = 0
    while found < n:
        height, width = rng.integers(1, side, size=2, endpoint=True)
        top, left = rng.integers(0, (side - height, side - width), endpoint=True)
        filled = np.zeros((side, side))
        filled[top : top + height, left : left + width] = 1
        image = filled.ravel()
        new = image - Q @ (Q.T @ image)
        new -= Q @ (Q.T @ new)  # once more, against rounding
        length = np.linalg.norm(new)
        # A rectangle in the span of the others leaves rounding errors only, far below 1e-6 of its length.
        if length > 1e-6 * np.linalg.norm(image):
            A[:, found], Q[:, found] = image, new / length
            found += 1
    return A
