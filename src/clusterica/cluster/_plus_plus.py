"""Greedy k-means++ in the geometry of every rule: centres from scratch, or after centres that are there.

A row is drawn with probability proportional to what the centres so far leave unexplained of it: the
squared distance, ``|x|^2 - score^2``, ``1 - cosine`` or ``|x| - |score|``. Of several rows drawn, the
one that leaves least is kept.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import scipy.sparse as sp

from clusterica.arrays import as_rows, map_rows, to_host
from clusterica.arrays._namespace import Array
from clusterica.ops.assign import row_losses
from clusterica.ops.linalg import inverse_lengths, row_energies, unit_rows
from clusterica.ops.rules import Rule


def plus_plus(
    X: Array, weights: np.ndarray, n_centers: int, *, rule: Rule, rng: np.random.Generator
) -> np.ndarray:
    """Choose n_centers rows as centres; float64, shape (n_centers, n_features)."""
    X, shift = _prepared(X, rule)
    first = as_centers(X[[rng.choice(len(weights), p=weights / weights.sum())]], rule)
    left = _unexplained(X, first, row_energies(X).astype(np.float64), rule)[:, 0]
    more = _greedy(X, weights, left, n_centers - 1, _n_trials(n_centers), rule, rng)
    missing = n_centers - 1 - len(more)  # where there are fewer distinct rows than centres
    again = as_centers(X[rng.integers(len(weights), size=missing)], rule)
    return np.concatenate([first, more, again]).astype(np.float64) + shift


def more_centers(
    X: Array,
    weights: np.ndarray,
    C: np.ndarray,
    n: int,
    *,
    shift: np.ndarray | None,
    rule: Rule,
    rng: np.random.Generator,
) -> np.ndarray:
    """Choose n rows as more centres, next to the centres C, which are given less the shift.

    Returns float64 centres less the shift, shape (n_chosen, n_features): fewer than n where no row
    is left that is not a centre.
    """
    # An assignment in the dtype of the rows does not tell centres apart that differ by less.
    rounding = 16 * float(np.finfo(X.dtype).eps)
    X, C = X.astype(np.float64), C.astype(np.float64)
    X = X if shift is None else X - shift
    row_bytes = 2 * 8 * (X.shape[1] + C.shape[0])
    losses = partial(row_losses, rule=rule)
    left = to_host(map_rows(losses, as_rows(X, X.dtype), C, None, row_bytes=row_bytes))
    X, about = _prepared(X, rule)
    whole = row_energies(X) ** (0.5 if rule is Rule.AXIS else 1)
    left = np.where(left > rounding * whole, left, 0)
    n_trials = _n_trials(n + len(C))
    return _greedy(X, weights, left, n, n_trials, rule, rng) + about


def as_centers(X: Array, rule: Rule) -> np.ndarray:
    """Return rows as centres: dense, and of unit length where the rule wants it."""
    X = X.toarray() if sp.issparse(X) else X
    return unit_rows(X) if rule.unit_centers else X


def _n_trials(n_centers: int) -> int:
    return 2 + int(np.log(n_centers))  # as scikit-learn


def _prepared(X: Array, rule: Rule) -> tuple[Array, np.ndarray | float]:
    """Return the rows about their mean, or at unit length, and what was subtracted."""
    if rule is Rule.EUCLIDEAN and not sp.issparse(X):
        shift = X.mean(axis=0)
        return X - shift, shift
    if rule is Rule.DIRECTION:
        X = (sp.diags_array(inverse_lengths(X)) @ X).tocsr() if sp.issparse(X) else unit_rows(X)
    return X, 0.0


def _greedy(
    X: Array,
    weights: np.ndarray,
    left: np.ndarray,
    n: int,
    n_trials: int,
    rule: Rule,
    rng: np.random.Generator,
) -> np.ndarray:
    energies = row_energies(X).astype(np.float64)
    centers: list[np.ndarray] = [np.empty((0, X.shape[1]), X.dtype)]
    for _ in range(n):
        pull = np.cumsum(left * weights, dtype=np.float64)
        if not pull[-1] > 0:  # every row is a centre already
            break
        trials = np.searchsorted(pull, rng.random(n_trials) * pull[-1], side="right")
        candidates = as_centers(X[np.minimum(trials, len(weights) - 1)], rule)
        remaining = np.minimum(left[:, None], _unexplained(X, candidates, energies, rule))
        best = int(np.argmin(weights @ remaining))
        centers.append(candidates[[best]])
        left = remaining[:, best]
    return np.concatenate(centers)


def _unexplained(X: Array, C: np.ndarray, energies: np.ndarray, rule: Rule) -> np.ndarray:
    """What each centre alone leaves of each row, shape (n_rows, n_centers)."""
    S = np.asarray(X @ C.T, np.float64)
    if rule is Rule.EUCLIDEAN:
        left = energies[:, None] + row_energies(C)[None, :] - 2 * S
    elif rule is Rule.GAIN_SHAPE:
        left = energies[:, None] - S**2
    elif rule is Rule.DIRECTION:
        left = 1 - S
    else:
        left = np.sqrt(energies)[:, None] - np.abs(S)
    return np.maximum(left, 0)
