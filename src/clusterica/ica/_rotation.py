"""The rotation of white rows to sources of any law, from a start that may be poor for some of them.

The symmetric fixed point with ``G(y) = √(y² + 4)``, which is bounded in its derivative and turns to
sources with heavy and with light tails alike. Clusters lie along sources with heavy tails, and say
nothing of the others. There the fixed point may rest at four sources in equal shares, each time with
another sign: it is a local optimum for light tails. Such mixtures give themselves away by their
energies, which depend on each other.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from clusterica.arrays import Rows
from clusterica.ica._fixed_point import symmetric_fixed_point
from clusterica.ica._likelihood import means_of
from clusterica.ops.contrast import SmoothedL1
from clusterica.ops.likelihood import LikelihoodSums, likelihood_sums
from clusterica.ops.score import EnergyProducts, energy_products

# Wide, as light tails ask for: on two draws of 25 triangular sources a width of 1 took 20 and 60 steps, a
# width of 2 took 18 and 29.
_CONTRAST = SmoothedL1(2.0)
# Four to twenty steps are usual with up to 50 sources; what is left after 40 is for the likelihood.
_MOST_STEPS = 40
_TOL = 1e-7
# Of 30 draws of 25 sawtooths they mend two. Four sines whose frequencies add up (f + g = h + k) may stay in
# equal shares, 3 draws of 25 sines in 30: their energies do not depend on each other.
_SECOND_STARTS = 3
# Correlation of energies that shows a mixture, in units of its sampling error 1 / √n_rows. The largest over
# all pairs of 50 independent sources is about 4.5. Four sines in equal shares have a correlation of 0.1.
_CORRELATED = 6.0


class WhiteRows(NamedTuple):
    """Rows x, and the map ``z = whitening (x - mean)`` that makes them white: ``E[z zᵀ] = I``."""

    rows: Rows
    whitening: np.ndarray
    mean: np.ndarray

    def means(self, fn: Any, W: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return the means over rows of what an op sums, of the sources ``W z``."""
        return means_of(fn, self.rows, W @ self.whitening, self.mean)


def find_rotation(white: WhiteRows, start: np.ndarray, *, rng: np.random.Generator) -> np.ndarray:
    """Return the rotation W of white rows z for which the sources ``W z`` are independent, (n_dims, n_dims).

    Parameters
    ----------
    white : WhiteRows
        The rows.
    start : ndarray of shape (n_dims, n_dims)
        Directions to begin with.
    rng : Generator
        For second starts of what is still mixed.
    """
    W = _turn(white, start)
    tails = _tails(white, W)
    for _ in range(_SECOND_STARTS):
        mixed = _still_mixed(white, W, tails)
        if len(mixed) < 2:
            break
        again = W.copy()
        again[mixed] = np.linalg.qr(rng.normal(size=(len(mixed), len(mixed))))[0] @ W[mixed]
        again = _turn(white, again)
        new_tails = _tails(white, again)
        if np.abs(new_tails).sum() <= np.abs(tails).sum():
            break  # they depend on each other, as signals of related frequencies do
        W, tails = again, new_tails
    return W


def _turn(white: WhiteRows, start: np.ndarray) -> np.ndarray:
    return symmetric_fixed_point(
        white.rows,
        start,
        whitening=white.whitening,
        mean=white.mean,
        contrast=_CONTRAST,
        max_iter=_MOST_STEPS,
        tol=_TOL,
    ).params


def _tails(white: WhiteRows, W: np.ndarray) -> np.ndarray:
    """Return ``E[G''(y)] - E[G'(y) y]`` of every source: over 0 for heavy tails, under 0 for light ones.

    Its sign decides what is a maximum of the likelihood (Lee, Girolami and Sejnowski, "Independent
    component analysis using an extended infomax algorithm", 1999); its size is a measure of
    non-Gaussianity that outliers can't move.
    """
    of = LikelihoodSums(*white.means(partial(likelihood_sums, contrast=_CONTRAST), W))
    return of.curvature - np.diag(of.gradient)


def _still_mixed(white: WhiteRows, W: np.ndarray, tails: np.ndarray) -> np.ndarray:
    """Return the indices of sources without heavy tails whose energies depend on those of others of them."""
    of = EnergyProducts(*white.means(energy_products, W))
    covariance = of.second - np.outer(of.first, of.first)
    deviations = np.sqrt(np.maximum(np.diag(covariance), np.finfo(float).tiny))
    correlation = np.abs(covariance / np.outer(deviations, deviations))
    np.fill_diagonal(correlation, 0)
    noise = _CORRELATED / np.sqrt(white.rows.n_rows)
    light = tails < noise
    return np.flatnonzero(light & (correlation[light] > noise).any(axis=0))
