"""Numbers for the papers' pictures: frequency, likeness and sparsity of filters, and angles."""

from __future__ import annotations

import numpy as np
from scipy import stats


def low_frequency_share(filters: np.ndarray, *, cutoff: float = 0.125) -> np.ndarray:
    """Return the share of each square filter's energy at spatial frequencies up to a cutoff.

    Parameters
    ----------
    filters : ndarray of shape (n_filters, p * p)
        Grey filters, one a row.
    cutoff : float, default=0.125
        Frequency in cycles a pixel; a grid of pixels carries at most 0.5 along each axis.

    Returns
    -------
    ndarray of shape (n_filters,)
        Values from 0 to 1.
    """
    side = int(np.sqrt(filters.shape[1]))
    energy = np.abs(np.fft.fft2(filters.reshape(-1, side, side))) ** 2
    along = np.fft.fftfreq(side)
    low = np.hypot(along[:, np.newaxis], along) <= cutoff
    return energy[:, low].sum(axis=1) / energy.sum(axis=(1, 2))


def mean_absolute_cosine(rows: np.ndarray) -> float:
    """Return the mean of |cos| of the angle between two different rows.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_features)
        At least two rows, none zero.

    Returns
    -------
    float
        0 where all rows are orthogonal, 1 where all lie on a line.
    """
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    above = np.triu_indices(len(unit), k=1)
    return float(np.abs(unit @ unit.T)[above].mean())


def excess_kurtosis(responses: np.ndarray) -> np.ndarray:
    """Return E[(r - E r)⁴] / Var(r)² - 3 of each column: 0 for a Gaussian, 3 for a Laplace law.

    Parameters
    ----------
    responses : ndarray of shape (n_samples, n_filters)
        Responses of filters to samples.

    Returns
    -------
    ndarray of shape (n_filters,)
    """
    return stats.kurtosis(responses.astype(np.float64, copy=False), axis=0)


def worst_axis_angle(centers: np.ndarray, axes: np.ndarray) -> float:
    """Return the largest angle from an axis to the centroid nearest to its line, in degrees.

    Parameters
    ----------
    centers : ndarray of shape (n_centers, n_features)
        Centroids, of any length and sign.
    axes : ndarray of shape (n_axes, n_features)
        Directions to be found, one a row.

    Returns
    -------
    float
        0 where every axis has a centroid on it. An axis without one counts.
    """
    unit = centers / np.linalg.norm(centers, axis=1, keepdims=True)
    lines = axes / np.linalg.norm(axes, axis=1, keepdims=True)
    nearest = np.abs(lines @ unit.T).max(axis=1)
    return float(np.degrees(np.arccos(np.minimum(nearest, 1.0))).max())
