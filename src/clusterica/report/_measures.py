"""Numbers of filters: kurtosis and histogram of responses z = X dᵀ, strongest rows, peak of the spectrum."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from clusterica.metrics import excess_kurtosis

# Bins of a histogram, about as many as its picture has room for, and how many standard deviations it reaches
# to both sides; the last bins have what lies beyond.
N_BINS, REACH = 40, 5.0
# Responses at once: 64 MiB of float32.
BLOCK = 2**24


class Responses(NamedTuple):
    """Numbers of the responses of n filters to rows."""

    kurtosis: np.ndarray
    """Excess kurtosis, shape (n,); NaN where the response is constant."""
    histogram: np.ndarray
    """Rows in each of N_BINS bins from -REACH to REACH standard deviations, shape (n, N_BINS), uint32."""
    strongest: np.ndarray
    """Rows with the largest responses, the largest first, shape (n, n_strongest)."""
    nearest: np.ndarray
    """Filter with the largest absolute response to each row, filters at unit length; shape (n_rows,)."""


class Peaks(NamedTuple):
    """Where the power spectra of n patterns are largest."""

    frequency: np.ndarray
    """Cycles per pixel, shape (n,); NaN where a pattern is constant."""
    orientation: np.ndarray
    """Direction of the bars in degrees, from 0 (horizontal) to 180, counter-clockwise, shape (n,)."""


def measure_responses(X: np.ndarray, filters: np.ndarray, *, n_strongest: int) -> Responses:
    """Measure the responses ``X @ filters.T``, a block of filters at a time.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
        Rows, such as whitened patches.
    filters : ndarray of shape (n, n_features)
        One filter per row.
    n_strongest : int
        How many rows to name for each filter.

    Returns
    -------
    Responses
    """
    n_strongest = min(n_strongest, len(X))
    kurtosis, histogram, strongest = [], [], []
    best, nearest = np.full(len(X), -1.0), np.zeros(len(X), np.int64)
    lengths = np.linalg.norm(filters, axis=1)
    size = max(1, BLOCK // len(X))
    for start in range(0, len(filters), size):
        D = filters[start : start + size]
        Z = (X @ D.T).astype(np.float64)
        top = np.argpartition(-Z, n_strongest - 1, axis=0)[:n_strongest]
        order = np.argsort(-np.take_along_axis(Z, top, axis=0), axis=0, kind="stable")
        strongest.append(np.take_along_axis(top, order, axis=0).T)
        unit = np.abs(Z) / np.where(
            lengths[start : start + size] > 0, lengths[start : start + size], 1
        )
        here = unit.argmax(axis=1)
        largest = np.take_along_axis(unit, here[:, None], axis=1)[:, 0]
        nearest[largest > best] = start + here[largest > best]
        best = np.maximum(best, largest)
        Z -= Z.mean(axis=0)
        kurtosis.append(excess_kurtosis(Z))
        std = Z.std(axis=0)
        bins = (Z / np.where(std > 0, std, 1) + REACH) / (2 * REACH) * N_BINS
        bins = np.clip(bins, 0, N_BINS - 1).astype(np.int64)
        # One count for all columns: each has bins of its own.
        bins += N_BINS * np.arange(Z.shape[1])
        counts = np.bincount(bins.ravel(), minlength=N_BINS * Z.shape[1])
        histogram.append(counts.reshape(-1, N_BINS).astype(np.uint32))
    return Responses(
        np.concatenate(kurtosis), np.concatenate(histogram), np.concatenate(strongest), nearest
    )


def spectral_peaks(patterns: np.ndarray) -> Peaks:
    """Find the grating that is strongest in every pattern, by the FFT.

    Parameters
    ----------
    patterns : ndarray of shape (n, height, width, channels)
        Pictures of filters. Powers of the channels are added.

    Returns
    -------
    Peaks
    """
    centred = patterns - patterns.mean(axis=(1, 2), keepdims=True)
    # A window would blur patches of some 6 pixels; the mean of each channel, the peak of many, is removed.
    # Padded to 64 pixels, so that frequencies are known to 1/64 cycles per pixel.
    side = max(64, *patterns.shape[1:3])
    frequency, orientation = [], []
    down, across = np.meshgrid(np.fft.fftfreq(side), np.fft.rfftfreq(side), indexing="ij")
    for pattern, whole in zip(centred, patterns, strict=True):
        power = (np.abs(np.fft.rfft2(pattern, (side, side), axes=(0, 1))) ** 2).sum(axis=2)
        i = np.unravel_index(np.argmax(power), power.shape)
        flat = power[i] <= 1e-12 * max(float((whole**2).sum()), 1e-300)
        frequency.append(np.nan if flat else np.hypot(down[i], across[i]))
        # Bars are at right angles to the wave, and rows of a picture go down: hence the signs.
        angle = np.degrees(np.arctan2(-down[i], across[i])) + 90
        orientation.append(np.nan if flat else angle % 180)
    return Peaks(np.array(frequency), np.array(orientation))


def as_bytes(values: np.ndarray, axis: int | tuple[int, ...]) -> np.ndarray:
    """Return values from 0 to 255, scaled by their range over the given axes; zeros if it is empty."""
    low = values.min(axis=axis, keepdims=True).astype(np.float64)
    extent = values.max(axis=axis, keepdims=True) - low
    scaled: np.ndarray = np.rint(255 * (values - low) / np.where(extent > 0, extent, 1))
    return scaled.astype(np.uint8)
