"""Sums over rows for distributions of sources with the score ``ψ(y) = a y + sum_k b_k y / √(y² + w_k²)``.

Each term is the derivative of ``√(y² + w²)``, a parabola up to about w and a straight line beyond. A wide and
a narrow one, with a linear term, bend as heavy tails (b > 0), light tails (b < 0) and peaks at 0 ask
for. The sums do not depend on the coefficients, so that one walk serves to fit them and to evaluate the
likelihood with any.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from clusterica.arrays import Array, gpu_twin, in_tiles, namespace_of, working_memory
from clusterica.ops.linalg import project

# In units of the standard deviation of a source. By the asymptotic variance of the estimate (see
# `clusterica.ica._likelihood`) both together lose to tanh with uncorrelated sources on no distribution tried
# (Laplace and its cube, Student t3 and t5, logistic, Bernoulli-Gaussian, exponential, uniform, arcsine,
# triangular, two-valued); a single one loses on some: 0.1 on light tails by 40 times, 1 on light tails
# by 1.2 times.
WIDTHS = (1.0, 0.1)


def _score_sums_on_gpu() -> Callable[..., Any]:
    # Triton is imported when the twin is first used.
    from clusterica.ops.gpu.score import score_sums

    return score_sums


class ScoreSums(NamedTuple):
    """Sums over the rows of a block, for the roots ``r_k = √(y² + w_k²)`` and ``g_k = y / r_k``."""

    size: Array
    """Sum of r_k(y_i) - w_k, shape (n_widths, n_components)."""
    gradient: Array
    """Sum of g_k(y_i) y_j, shape (n_widths, n_components, n_components)."""
    curvature: Array
    """Sum of g_k'(y_i), shape (n_widths, n_components)."""
    diagonal: Array
    """Sum of g_k'(y_i) y_i², shape (n_widths, n_components)."""
    products: Array
    """Sum of g_k(y_i) g_l(y_i), shape (n_widths, n_widths, n_components)."""
    second: Array
    """Sum of y_i y_j, shape (n_components, n_components)."""


@gpu_twin(_score_sums_on_gpu)
@working_memory(lambda row, B, mean: (row.n_features + 7 * B.shape[0]) * row.itemsize)
# Twice the width, since about ten arrays of it are there at once.
@in_tiles(lambda X, B, mean: 2 * max(B.shape))
def score_sums(X: Array, B: Array, mean: Array) -> ScoreSums:
    """Return the sums of a block for the responses ``y = B (x - mean)``.

    Parameters
    ----------
    X : (n_rows, n_features) array
    B : (n_components, n_features) array
        The unmixing matrix, whitening included.
    mean : (n_features,) array
    """
    xp = namespace_of(X)
    Y = project(X, B, mean)
    squares = Y * Y
    ones = xp.ones(X.shape[0], dtype=Y.dtype, device=Y.device)  # a product with them is a fast sum
    parts, firsts, own = [], [], []
    for w in WIDTHS:  # in place, so that few arrays of the size of Y are there at once
        root = squares + w**2
        root **= 0.5
        # In float64: a line search compares values that differ by less than the digits of float32.
        size = xp.sum(root, axis=0, dtype=xp.float64) - w * X.shape[0]
        inverse = 1 / root
        once = ones @ inverse
        first = Y * inverse
        root = inverse * inverse
        own.append(X.shape[0] - w**2 * (ones @ root))  # g² = 1 - w² / r²
        root *= inverse
        curvature = w**2 * (ones @ root)  # g' = w² / r³
        # g' y² = w² / r - w² g'
        parts.append((size, first.T @ Y, curvature, w**2 * (once - curvature)))
        firsts.append(first)
        del root, inverse
    wide, narrow = firsts
    narrow *= wide
    across = ones @ narrow
    products = xp.stack([xp.stack([own[0], across]), xp.stack([across, own[1]])])
    size, gradient, curvature, diagonal = (xp.stack(list(p)) for p in zip(*parts, strict=True))
    return ScoreSums(size, gradient, curvature, diagonal, products, Y.T @ Y)


class EnergyProducts(NamedTuple):
    """Sums over rows of ``f_i`` and ``f_i f_j``, with the bounded energy ``f = y² / (1 + y²)``."""

    first: Array
    second: Array


@working_memory(lambda row, B, mean: (row.n_features + 7 * B.shape[0]) * row.itemsize)
@in_tiles(lambda X, B, mean: max(B.shape))
def energy_products(X: Array, B: Array, mean: Array) -> EnergyProducts:
    """Return the sums of a block, shapes (n_components,) and (n_components, n_components)."""
    xp = namespace_of(X)
    energies = project(X, B, mean) ** 2
    energies /= 1 + energies
    return EnergyProducts(xp.sum(energies, axis=0), energies.T @ energies)
