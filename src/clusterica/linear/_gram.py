"""Steps of kernel ridge: ``A = (K + alpha I)^-1 Y`` from a Gram matrix K of rows, and searches on a list."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from clusterica.arrays import Array, namespace_of


class Gram(NamedTuple):
    """Products of standardised rows with all rows or landmarks, and the squared length of each row."""

    products: Array
    squares: Array


class Outcome(NamedTuple):
    """A solution for one alpha and gamma; A is None where there is none."""

    score: tuple[float, float]
    alpha: float
    gamma: float | None
    A: Array | None


def climb(score: Callable[[int], Outcome], first: int, n: int) -> tuple[Outcome, int]:
    """Return the best of n values on a list and its place, going up from the first until it gets worse."""
    best, at = score(first), first
    for step in (1, -1):
        i = first + step
        while 0 <= i < n and (i - at) * step <= 2:  # past one that is worse: scores are noisy
            one = score(i)
            if one.score > best.score:
                best, at = one, i
            i += step
        if at != first:
            break
    return best, at


def inverse_of(G: Array, strength: float) -> Array | None:
    """Return ``(G + strength I)^-1``, or None if that is not positive definite; G is overwritten."""
    if isinstance(G, np.ndarray):
        G.flat[:: len(G) + 1] += strength
        # G is symmetric: its transpose is the same matrix in the order that LAPACK takes without a copy.
        factor, info = scipy.linalg.lapack.dpotrf(G.T, lower=1, overwrite_a=1)
        if info != 0:
            return None
        inverse, info = scipy.linalg.lapack.dpotri(factor, lower=1, overwrite_c=1)
        if info != 0:
            return None
        lower = np.tril(inverse, -1)
        return np.tril(inverse) + lower.T
    import torch

    factor, info = torch.linalg.cholesky_ex(
        G + strength * torch.eye(len(G), dtype=G.dtype, device=G.device)
    )
    return None if int(info) else torch.cholesky_inverse(factor)


def mean_diagonal(G: Array) -> float:
    """Return the mean of the diagonal."""
    xp = namespace_of(G)
    return float(xp.mean(xp.linalg.diagonal(G)))


def energies(F: Array) -> Array:
    """Return the squared lengths of rows, in float64."""
    return namespace_of(F).sum(wide(F * F), axis=1)


def wide(F: Array) -> Array:
    """Return an array in float64."""
    xp = namespace_of(F)
    return xp.astype(F, xp.float64, copy=False)


def rbf(D: Array, gamma: float | None) -> Array:
    """Return ``exp(-gamma D)`` of squared distances, which rounding may leave below zero."""
    xp = namespace_of(D)
    return xp.exp(-(gamma or 0.0) * xp.clip(D, min=0))


def check_block(F: Any, n_rows: int) -> None:
    """Refuse a block of features that is no matrix of finite numbers with a row for every sample."""
    if getattr(F, "ndim", 0) != 2 or F.shape[0] != n_rows:
        raise ValueError(
            f"features(X) gave a block of shape {getattr(F, 'shape', None)}; it must be (n_samples, n_block) "
            f"with {n_rows} rows"
        )
    if not bool(namespace_of(F).all(namespace_of(F).isfinite(F))):
        raise ValueError("features(X) gave NaN or infinity; all features must be finite")
