"""Whitening as the search for sources needs it, and data that it does not suit: ``n / (κ + 3)`` rows."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from clusterica.preprocessing import Whitener

# A column whose variance comes from fewer rows than this, in effect, has none to speak of.
_FEW_ROWS = 5


def fit_whitener(whitener: Whitener, X: Any) -> Whitener:
    """Fit a whitener, and say so if the squares of the rows are beyond the numbers of a computer."""
    try:
        whitener.fit(X)
    except Exception:  # eigenvalues of what is not finite may be an error, or wrong
        if _is_finite(whitener):
            raise
    if not _is_finite(whitener):
        raise ValueError(
            "the rows are so large that their squares overflow; scale them down, for instance divide X by "
            "its largest absolute value"
        )
    return whitener


def _is_finite(whitener: Whitener) -> bool:
    total = getattr(whitener, "_moments", None)
    return total is None or bool(np.isfinite(total.second).all())


def warn_of_few_rows(kurtosis: np.ndarray, n_rows: int, what: str, *, stacklevel: int) -> None:
    """Warn if few rows make up the variance of a column.

    They are ``n / (κ + 3)`` in effect, one over the sum of their squared shares in it: n / 3 for a Gaussian
    column, and 1 where one row holds everything.

    Parameters
    ----------
    kurtosis : ndarray of shape (n_columns,)
        Excess kurtosis κ of every column.
    n_rows : int
        Number of rows n.
    what : str
        What a column is, for the message.
    stacklevel : int
        Of the warning, as if it were given by the caller.
    """
    in_effect = n_rows / np.maximum(kurtosis + 3, 1e-100)  # a constant column has 0
    j = int(in_effect.argmin())
    if in_effect[j] < min(_FEW_ROWS, n_rows / 10):
        warnings.warn(
            f"about {max(1, round(in_effect[j]))} of {n_rows} rows make up the variance of {what} {j}: its "
            "law may have none, as Cauchy's, or these rows are outliers. Whitening depends on them, and all "
            "that follows; clip, transform or remove them first",
            UserWarning,
            stacklevel=stacklevel + 1,
        )
