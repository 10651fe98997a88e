"""Excess kurtosis ``E[(z - E z)⁴] / Var(z)² - 3``: how sparse the responses of filters or sources are."""

from __future__ import annotations

from typing import Any

import numpy as np

from clusterica.arrays import to_host


def excess_kurtosis(responses: Any) -> np.ndarray:
    """Return the excess kurtosis of every column.

    Parameters
    ----------
    responses : array or tensor of shape (n_samples, n_components)
        Responses of filters to rows, or sources.

    Returns
    -------
    ndarray of shape (n_components,)
        0 for a Gaussian, 3 for a Laplace and -1.2 for a uniform distribution; NaN for a constant column.

    Examples
    --------
    >>> import numpy as np
    >>> from clusterica.metrics import excess_kurtosis
    >>> excess_kurtosis(np.array([[1.0], [-1.0]]))
    array([-2.])
    """
    Z = np.asarray(to_host(responses), dtype=np.float64)
    # Squares of values over 1e154 or below 1e-154 would overflow or vanish, and so would sums near 1e308.
    largest = np.abs(Z).max(axis=0, initial=0)
    Z = Z / np.where(largest > 0, largest, 1)
    Z = Z - Z.mean(axis=0)
    deviations = Z.std(axis=0)
    # Divided first: fourth powers of small deviations would vanish.
    Z = np.divide(Z, deviations, out=np.full_like(Z, np.nan), where=deviations > 0)
    kurtosis: np.ndarray = (Z**4).mean(axis=0) - 3
    return kurtosis
