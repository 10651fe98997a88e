"""A summary of many draws: their median, with the 10 % and 90 % quantiles as a band."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Band(NamedTuple):
    """Median of some numbers and the range of their middle four fifths."""

    low: float
    """The 10 % quantile."""
    median: float
    """The 50 % quantile."""
    high: float
    """The 90 % quantile."""

    def __str__(self) -> str:
        low, high = _rounded(self.low, 2), _rounded(self.high, 2)
        return f"{_rounded(self.median, 3)} ({low}–{high})"


def _rounded(value: float, digits: int) -> str:
    """Format a number with some significant digits; a larger one as a whole number."""
    if abs(value) >= 10 ** (digits - 1):
        return f"{value:.0f}"
    return f"{value:#.{digits}g}".removesuffix(".")


def band(values: Sequence[float]) -> Band:
    """Return the median and band of some numbers.

    Parameters
    ----------
    values : sequence of float
        At least one number.

    Returns
    -------
    Band
        Its text is ``median (low–high)``.
    """
    return Band(*(float(q) for q in np.quantile(values, [0.1, 0.5, 0.9])))
