"""Greedy k-means++ in the geometry of every rule: centres from scratch, or after centres that are there.

A row is drawn with probability proportional to what the centres so far leave unexplained of it: the
squared distance, ``|x|^2 - score^2``, ``1 - cosine`` or ``|x| - |score|``. Of several rows drawn, the
one that leaves least is kept. All rows are drawn from a sample in host memory.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import scipy.sparse as sp

from clusterica.arrays import Array, Rows, as_rows, map_rows, one_blas_thread, to_host
from clusterica.ops.assign import row_losses
from clusterica.ops.linalg import inverse_lengths, unit_rows
from clusterica.ops.rules import Rule

SAMPLE = 10_000  # rows from which k-means++ chooses, if there are not very many centres


def draw_rows(
    rows: Rows, weights: np.ndarray, n: int, rng: np.random.Generator
) -> tuple[Array, np.ndarray]:
    """Draw up to n different rows of positive weight, in proportion to their weights.

    Returns
    -------
    sample : NumPy array or CSR matrix, (n_drawn, n_features)
        In the order of the draws: the first m rows are a sample of m rows.
    weights : ndarray of shape (n_drawn,)
        Weights with which sums over the sample estimate sums over all rows, up to a factor.
    """
    # Weights that are all one number take no memory, and need none to draw from.
    if weights.strides == (0,):
        chosen = rng.choice(rows.n_rows, size=min(n, rows.n_rows), replace=False)
        new_weights = weights[chosen]
    else:
        candidates = np.flatnonzero(weights > 0)
        some, new_weights = _draw(weights[candidates], n, rng)
        chosen = candidates[some]
    order = np.argsort(chosen)
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    return rows.take(chosen[order])[back], new_weights


def _draw(weights: np.ndarray, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw without replacement; each next draw is in proportion to the weights that are left."""
    if weights.min() == weights.max():
        chosen = rng.choice(len(weights), size=min(n, len(weights)), replace=False)
        return chosen, weights[chosen]
    # The smallest of exponential times of these rates are such draws (Efraimidis & Spirakis, 2006).
    times = rng.standard_exponential(len(weights)) / weights
    order = np.argsort(times)
    chosen = order[:n]
    if n >= len(weights):
        return chosen, weights[chosen]
    # Given the next time, a row is in the sample with this probability, and stands for one over it.
    w = weights[chosen].astype(np.float64)
    return chosen, w / -np.expm1(-w * times[order[n]])


def plus_plus(
    X: Array, weights: np.ndarray, n_centers: int, *, rule: Rule, rng: np.random.Generator
) -> np.ndarray:
    """Choose n_centers rows as centres; float64, shape (n_centers, n_features)."""
    X, shift = _prepared(X, rule)
    first = as_centers(X[[rng.choice(len(weights), p=weights / weights.sum())]], rule)
    left = _unexplained(X, first, rule.whole(X).astype(np.float64), rule)[:, 0]
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
    left = np.where(left > rounding * rule.whole(X), left, 0)
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
    if not rule.unit_centers and not sp.issparse(X):
        shift = X.mean(axis=0)
        return X - shift, shift
    if rule.unit_rows:
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
    whole = rule.whole(X).astype(np.float64)
    centers: list[np.ndarray] = [np.empty((0, X.shape[1]), X.dtype)]
    with (
        one_blas_thread()
    ):  # products with a few candidates: several threads mostly wait for each other
        for _ in range(n):
            pull = np.cumsum(left * weights, dtype=np.float64)
            if not pull[-1] > 0:  # every row is a centre already
                break
            trials = np.searchsorted(pull, rng.random(n_trials) * pull[-1], side="right")
            candidates = as_centers(X[np.minimum(trials, len(weights) - 1)], rule)
            remaining = np.minimum(left[:, None], _unexplained(X, candidates, whole, rule))
            best = int(np.argmin(weights @ remaining))
            centers.append(candidates[[best]])
            left = remaining[:, best]
    return np.concatenate(centers)


def _unexplained(X: Array, C: np.ndarray, whole: np.ndarray, rule: Rule) -> np.ndarray:
    """What each centre alone leaves of each row, shape (n_rows, n_centers); X comes from `_prepared`."""
    S = np.asarray(X @ C.T, np.float64) - rule.center_bias(C)
    return np.maximum(whole[:, None] - rule.gains(S, 1.0), 0)
