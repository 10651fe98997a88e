"""Measures of filters for the figures of the papers: frequency, similarity, noise, angles, matches."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

# Times the median spread of random filters, from which a filter is noise: half, fixed before any count. On
# natural patches of 10 by 10 pixels edges, dots and gratings have up to 0.3 times it.
NOISY = 0.5


def low_frequency_share(filters: np.ndarray, *, cutoff: float = 0.125) -> np.ndarray:
    """Return the share of each square filter's energy at spatial frequencies up to a cutoff.

    Parameters
    ----------
    filters : ndarray of shape (n_filters, p * p)
        Grey filters, one per row.
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
    share: np.ndarray = energy[:, low].sum(axis=1) / energy.sum(axis=(1, 2))
    return share


def orientation_share(filters: np.ndarray) -> np.ndarray:
    """Return |Σ E(f) exp(2iθ)| / Σ E(f) over the spatial frequencies f of each square filter.

    E is the energy at a frequency and θ its direction, so that opposite directions are the same.

    Parameters
    ----------
    filters : ndarray of shape (n_filters, p * p)
        Grey filters, one per row; their means are ignored.

    Returns
    -------
    ndarray of shape (n_filters,)
        0 for a filter without direction, 1 for a grating.
    """
    side = int(np.sqrt(filters.shape[1]))
    energy = np.abs(np.fft.fft2(filters.reshape(-1, side, side))) ** 2
    along = np.fft.fftfreq(side)
    # Twice the angle: opposite directions then add up instead of cancelling.
    doubled = np.exp(2j * np.arctan2(along[:, np.newaxis], along))
    # Half a cycle a pixel up is half a cycle down: such a frequency stands for two mirrored directions.
    edge = np.abs(along) == 0.5
    mixed = (edge[:, np.newaxis] & (along != 0)) | (edge & (along[:, np.newaxis] != 0))
    doubled[mixed] = doubled[mixed].real
    # The mean of a filter has no direction.
    energy[:, 0, 0] = 0
    share: np.ndarray = np.abs((energy * doubled).sum(axis=(1, 2))) / energy.sum(axis=(1, 2))
    return share


def spread(filters: np.ndarray) -> np.ndarray:
    """Return the share of pixels times the share of frequencies over which each square filter spreads.

    A share is (Σ E)² / (n Σ E²) of n energies E: 1/n where one has all, 1 where all have the same. A dot
    has many frequencies, a grating many pixels, an edge few of both; only noise has many of both.

    Parameters
    ----------
    filters : ndarray of shape (n_filters, p * p)
        Grey filters, one per row, none zero.

    Returns
    -------
    ndarray of shape (n_filters,)
        About 1/6 for Gaussian noise.
    """
    side = int(np.sqrt(filters.shape[1]))
    in_frequencies = np.abs(np.fft.fft2(filters.reshape(-1, side, side))) ** 2
    shares = 1.0
    for energy in (filters.astype(np.float64) ** 2, in_frequencies.reshape(len(filters), -1)):
        shares = shares * energy.sum(axis=1) ** 2 / (side**2 * (energy**2).sum(axis=1))
    return np.asarray(shares)


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
    # Every pair once, and no row with itself.
    above = np.triu_indices(len(unit), k=1)
    return float(np.abs(unit @ unit.T)[above].mean())


def worst_axis_angle(centers: np.ndarray, axes: np.ndarray) -> float:
    """Return the largest angle from an axis to the centroid nearest to its line, in degrees.

    Parameters
    ----------
    centers : ndarray of shape (n_centers, n_features)
        Centroids, of any length and sign.
    axes : ndarray of shape (n_axes, n_features)
        Directions to be found, one per row.

    Returns
    -------
    float
        0 if every axis has a centroid on it.
    """
    unit = centers / np.linalg.norm(centers, axis=1, keepdims=True)
    lines = axes / np.linalg.norm(axes, axis=1, keepdims=True)
    nearest = np.abs(lines @ unit.T).max(axis=1)
    # Rounding may give a cosine slightly above one.
    return float(np.degrees(np.arccos(np.minimum(nearest, 1.0))).max())


def nearest_cosines(atoms: np.ndarray, found: np.ndarray) -> np.ndarray:
    """Return |cos| of the angle from each atom to the row nearest to its line, among those found.

    Parameters
    ----------
    atoms : ndarray of shape (n_atoms, n_features)
        Directions to be found, none zero.
    found : ndarray of shape (n_found, n_features)
        Rows of any length and sign, none zero.

    Returns
    -------
    ndarray of shape (n_atoms,)
    """
    lines, unit = (M / np.linalg.norm(M, axis=1, keepdims=True) for M in (atoms, found))
    nearest: np.ndarray = np.abs(lines @ unit.T).max(axis=1)
    return nearest


class Match(NamedTuple):
    """A matching of found columns with true columns."""

    order: np.ndarray
    """Index of the found column for each true one, of shape (n_columns,)."""
    signs: np.ndarray
    """1.0 or -1.0, the sign to multiply it with, of shape (n_columns,)."""
    cosines: np.ndarray
    """|cos| of the angle between the two, of shape (n_columns,)."""


def match_columns(found: np.ndarray, columns: np.ndarray) -> Match:
    """Match each true column with a found one, such that the sum of |cos| is largest.

    Parameters
    ----------
    found : ndarray of shape (n_features, n_found)
        Found columns in any order and sign, at least n_columns of them.
    columns : ndarray of shape (n_features, n_columns)
        True columns.

    Returns
    -------
    Match
    """
    wanted, unit = (M / np.linalg.norm(M, axis=0) for M in (columns, found))
    cosines = wanted.T @ unit
    rows, order = linear_sum_assignment(np.abs(cosines), maximize=True)
    matched = cosines[rows, order]
    return Match(order, np.where(matched < 0, -1.0, 1.0), np.abs(matched))


def peak_memory() -> int | None:
    """Return the peak memory of this process, or None if the system does not report it.

    Returns
    -------
    int or None
        Bytes in main memory, including the interpreter and all libraries.
    """
    status = Path("/proc/self/status")  # Linux; unlike the call below, without the parent's peak
    if status.exists():
        found = re.search(r"^VmHWM:\s+(\d+) kB$", status.read_text(), flags=re.MULTILINE)
        if found is not None:
            return 1024 * int(found[1])
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak  # bytes there, KiB elsewhere
