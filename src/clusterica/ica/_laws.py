"""Laws of sources, fitted to them: the score ``ψ = a y + sum_k b_k g_k(y)`` nearest to that of the data.

The score of a density p is ``φ = -p'/p``. Integration by parts gives ``E[φ h] = E[h']`` for every h, so
that the projection of φ on functions h solves ``E[h hᵀ] c = E[h']``: it needs no density (Pham and
Garat, "Blind separation of mixture of independent sources through a quasi-maximum likelihood approach",
1997). As y is among the functions, ``E[ψ y] = 1``, and ``κ = E[ψ'] = E[ψ²] >= 1``, with 1 for a Gaussian
law: the estimate of a pair of sources has the variance ``κ_i / (κ_i κ_j - 1) / n``, the least that these
functions allow.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from clusterica.ops.score import ScoreSums

# Added to the products of the functions with themselves, relative to their size: on a source with two
# values they depend on each other. With 0.03 the error on uniform sources is a fifth larger, with 0.001
# nothing is lost.
_RIDGE = 1e-3


class Laws(NamedTuple):
    """Coefficients of the scores: a of shape (n_components,), b of shape (n_widths, n_components)."""

    linear: np.ndarray
    roots: np.ndarray


def fit_laws(mean_of: ScoreSums) -> Laws:
    """Return the laws nearest to sources of unit variance, from means over rows.

    Each is a density: its linear term is not negative, and left out where tails are so heavy that it would
    be. A law with heavy tails has no dip beside its peak either, as a negative wide term would make it: that
    would fit sparse sources best, but its likelihood has many local optima on image patches.
    """
    wide_first = np.diagonal(mean_of.gradient[0]) / np.diag(mean_of.second)
    heavy = mean_of.curvature[0] > wide_first  # the criterion of extended infomax
    laws = _fit(mean_of, np.array([True, True]))
    narrow = _fit(mean_of, np.array([False, True]))
    dips = heavy & (laws.roots[0] < 0)
    return Laws(*(np.where(dips, *pair) for pair in zip(narrow, laws, strict=True)))


def _fit(mean_of: ScoreSums, used: np.ndarray) -> Laws:
    """Return the laws with some of the roots, and a linear term that is not negative."""
    products = np.moveaxis(mean_of.products, -1, 0)[:, used][:, :, used]
    # E[g_k y] and E[g_k'], of shape (n_components, n_used)
    with_y = np.diagonal(mean_of.gradient, axis1=1, axis2=2).T[:, used]
    slopes, energy = mean_of.curvature.T[:, used], np.diag(mean_of.second)[:, None]
    ridge = _RIDGE * products * np.eye(used.sum())
    # What is left of the functions once their linear part is taken away.
    rest = products - with_y[:, :, None] * with_y[:, None, :] / energy[..., None] + ridge
    b = np.linalg.solve(rest, (slopes - with_y / energy)[..., None])[..., 0]
    a = (1 - (b * with_y).sum(axis=1)) / energy[:, 0]
    # Without the linear term, and scaled until E[ψ y] = 1.
    bounded = np.linalg.solve(products + ridge, slopes[..., None])[..., 0]
    scale = (bounded * with_y).sum(axis=1)
    # A score that falls at infinity belongs to no density; then the first root alone has to do.
    falls = (scale <= 0) | (bounded.sum(axis=1) <= 0)
    bounded[falls] = np.eye(used.sum())[0]
    scale = np.where(falls, with_y[:, 0], scale)
    roots = np.zeros_like(mean_of.curvature)
    roots[used] = np.where(a[:, None] < 0, bounded / scale[:, None], b).T
    return Laws(np.maximum(a, 0), roots)
