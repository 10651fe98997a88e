"""Whitening as the search for sources needs it, and data that it does not suit: ``n / (κ + 3)`` rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from clusterica.arrays import warn_user
from clusterica.preprocessing import Whitener


def fit_source_whitener(
    whitener: Whitener | None, X: Any, n_features: int, n_components: int | None
) -> Whitener:
    """Return a fitted copy of the whitener that leaves directions without variance out where it may.

    Parameters
    ----------
    whitener : Whitener or None
        None is PCA whitening without regularisation.
    X : array-like
        The data.
    n_features : int
        Number of features of the data.
    n_components : int or None
        Number of sources that are asked for; None is one for every dimension.
    """
    n, d = n_components or n_features, n_features
    whitener = Whitener("pca", eps=0.0) if whitener is None else clone(whitener)
    reduces = whitener.method == "pca" and whitener.n_components is None
    if reduces and n < d:
        whitener.set_params(n_components=n)
    whitener = fit_whitener(whitener, X)
    rank = whitener.rank_
    if rank == 0:  # no direction to look at, whatever the settings
        raise ValueError("all rows are equal, so that there are no sources; give rows that differ")
    # Regularised, or nothing is missing, or reduced below the rank on purpose: as asked for.
    if whitener.eps_ > 0 or rank >= min(n, d) or whitener.n_components_ < rank:
        return whitener
    if reduces and n < d:
        whitener.set_params(n_components=None).fit(X)  # as many as the rank
    if whitener.n_components_ > rank:
        raise ValueError(
            f"the data varies in {rank} of {d} dimensions only, so that {whitener!r} can't whiten it to "
            f"{whitener.n_components_}; use whitener=Whitener('pca', eps=0.0), which leaves the others "
            "out, or eps > 0"
        )
    warn_user(
        f"the data varies in {rank} of {d} dimensions only (a column is constant or depends on others, or "
        f"there are too few rows), and is reduced to them; {count_sources(whitener, n_components)} sources "
        "are looked for"
    )
    return whitener


def count_sources(whitener: Whitener, n_components: int | None) -> int:
    """Return how many sources to look for: no more than the rank, unless overcomplete on purpose."""
    n, n_white = n_components, int(whitener.n_components_)
    lacks_rank = n_white == whitener.rank_ < whitener.n_features_in_
    if n is None or (lacks_rank and n_white < n <= whitener.n_features_in_):
        return n_white
    return n


def fit_whitener(whitener: Whitener, X: Any) -> Whitener:
    """Fit a whitener; raise a clear error if the squares of the rows overflow."""
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


def warn_of_few_rows(kurtosis: np.ndarray, n_rows: int, what: str) -> None:
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
    """
    in_effect = n_rows / np.maximum(kurtosis + 3, 1e-100)  # a constant column has 0
    j = int(in_effect.argmin())
    # A column whose variance comes from fewer than five rows, in effect, has no useful variance.
    if in_effect[j] < min(5, n_rows / 10):
        warn_user(
            f"about {max(1, round(in_effect[j]))} of {n_rows} rows make up the variance of {what} {j}: its "
            "distribution may have no variance, as Cauchy's, or these rows are outliers, on which whitening "
            "and all that follows depend; clip, transform or remove them first"
        )


def warn_of_sources(kurtosis: np.ndarray, n_rows: int, *, is_refined: bool) -> None:
    """Warn of sources that can't be separated, and of data that seems to have no variance.

    Parameters
    ----------
    kurtosis : ndarray of shape (n_sources,)
        Excess kurtosis of every source.
    n_rows : int
        Number of rows.
    is_refined : bool
        Whether the sources maximise the likelihood, which finds light tails too.
    """
    # The largest sample kurtosis over all directions of so many Gaussian sources is about this.
    noise = 2 * np.sqrt(24 * np.arange(1, len(kurtosis) + 1) / n_rows)
    message = ""
    if is_refined:
        among = np.flatnonzero(np.sort(np.abs(kurtosis)) < noise)
        if len(among) and among[-1] > 0:  # one Gaussian source is what the others leave
            message = (
                f"{among[-1] + 1} of {len(kurtosis)} sources look Gaussian (excess kurtosis within "
                f"{noise[among[-1]]:.2g} of 0, which {n_rows} rows can't distinguish from 0), and Gaussian "
                "sources can't be separated by any method; see kurtosis_"
            )
    elif (kurtosis < noise[-1]).any():
        message = (
            f"{(kurtosis < noise[-1]).sum()} of {len(kurtosis)} sources look Gaussian or lighter in the "
            f"tails (excess kurtosis below {noise[-1]:.2g}, which {n_rows} rows can't distinguish from 0): "
            "clusters do not lie along such sources, and Gaussian ones can't be separated by any method; "
            "refine='ml' finds light tails, of at most as many sources as features; see kurtosis_"
        )
    if message:
        warn_user(message)
    warn_of_few_rows(kurtosis, n_rows, "source")
