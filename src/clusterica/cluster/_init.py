"""Where centres start: random directions, axes, rows, k-means++, given ones; and where empty ones move to.

k-means++ is greedy, and in the geometry of the rule. A row is drawn with a probability proportional to what
the centres so far leave unexplained of it: the squared distance, ``|x|^2 - score^2``, ``1 - cosine`` or
``|x| - |score|``. Of several rows drawn, the one that leaves least is kept. It goes on in the same way after
centres that are there already, to replace those without rows.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state

from clusterica.arrays import (
    Array,
    Rows,
    as_rows,
    check_not_masked,
    map_rows,
    one_blas_thread,
    to_host,
    warn_user,
)
from clusterica.ops.assign import row_losses
from clusterica.ops.linalg import inverse_lengths, row_energies, unit_rows
from clusterica.ops.rules import Axis, Rule
from clusterica.optim import Progress

if TYPE_CHECKING:
    from clusterica.cluster._lloyd import Lloyd

METHODS = ("gaussian", "orthonormal", "orthogonal", "k-means++", "rows")

# Rows from which centres are chosen, or three for each centre if that is more: k-means++ goes over all of
# them once for each centre, and would otherwise take longer than the fit where there are very many.
SAMPLE = 10_000


def initial_centers(
    init: Any,
    lloyd: Lloyd,
    n_centers: int,
    X: Any,
    *,
    max_iter: int,
    tol: float,
    progress: Progress | None = None,
) -> np.ndarray:
    """Return n_centers starting points, shape (n_centers, n_features), in the coordinates of the data.

    Parameters
    ----------
    init : str, array or callable
        One of METHODS, the centres, or a function of ``(X, n_clusters, random_state)`` as in
        scikit-learn.
    lloyd : Lloyd
        The problem: rows, weights, rule, random stream.
    n_centers : int
        Free centres; each may stand for an antipodal pair.
    X : data as the user gave it
        Passed to a callable.
    max_iter, tol : int, float
        When the iterations of "orthogonal" end.
    progress : Progress, optional
        Task of which they are a part.
    """
    rule, rng = lloyd.rule, lloyd.rng
    if callable(init):
        # Callables written for scikit-learn expect a RandomState, not a Generator.
        seed = check_random_state(int(rng.integers(2**31)))
        return _given(init(X, rule.n_labels(n_centers), random_state=seed), lloyd, n_centers)
    if not isinstance(init, str):
        return _given(init, lloyd, n_centers)
    if init in ("rows", "k-means++"):
        sample, weights = _candidates(lloyd, n_centers)
        if init == "rows":
            return as_centers(sample[:n_centers], rule)
        return plus_plus(sample, weights, n_centers, rule=rule, rng=rng)
    d = lloyd.rows.n_features
    axes = np.empty((0, d))
    if init != "gaussian":
        # Random orthonormal axes, as many as the centres can use (Vinnikov & Shalev-Shwartz, section 6.4).
        n_axes = min(d, n_centers if rule.ignores_sign else -(-n_centers // 2))
        Q, R = np.linalg.qr(rng.standard_normal((d, n_axes)))
        # The signs of R depend on the library; positive ones make the draw uniform over rotations.
        axes = (Q * np.sign(np.diag(R))).T
    if init == "orthogonal":
        # Turn the axes towards the sparse directions, by steps that keep them orthogonal. On white sparse
        # data the optimum is orthogonal, and the constraint leaves far fewer bad optima: no two centres can
        # share a source.
        turn = replace(lloyd, rule=Axis(orthogonal=True), shift=None, refill=False)
        task = None if progress is None else progress.subtask("orthogonal start", max_iter)
        result = turn.run(axes, max_iter=max_iter, tol=tol, progress=task)
        if task is not None:
            task.end()
        axes = np.asarray(to_host(result.params.C), np.float64)
    both = axes if rule.ignores_sign else np.concatenate([axes, -axes])
    # What the axes do not fill: unit vectors, spread evenly over the sphere (Coates & Ng 2012, section 2.2).
    rest = rng.standard_normal((max(0, n_centers - len(both)), d))
    return _spread(np.concatenate([both[:n_centers], unit_rows(rest)]), lloyd)


def count_starts(init: Any, n_init: int) -> int:
    """Return the number of starts: n_init, or one where init gives the centres, with a warning for more."""
    if n_init == 1 or isinstance(init, str) or callable(init):
        return n_init
    warn_user(
        f"init gives the centers, so that all n_init={n_init} starts would be the same; only one is run. Set "
        "n_init=1, or name a method in init",
        RuntimeWarning,
    )
    return 1


def _given(centers: Any, lloyd: Lloyd, n_centers: int) -> np.ndarray:
    check_not_masked(centers, "init")
    C = np.array(to_host(centers), dtype=np.float64)
    d = lloyd.rows.n_features
    if lloyd.rule.both_signs and C.shape == (2 * n_centers, d):
        if not np.allclose(C[:n_centers], -C[n_centers:]):
            raise ValueError(
                "init must hold antipodal pairs: its second half the negatives of its first, "
                f"or only the first half, shape ({n_centers}, {d})"
            )
        C = C[:n_centers]  # the rule keeps one centre of each pair
    if C.shape != (n_centers, d):
        raise ValueError(
            f"The shape of the initial centers {C.shape} does not match the number of clusters and "
            f"features; it must be ({n_centers}, {d})"
        )
    if not np.isfinite(C).all():
        raise ValueError("init contains NaN or infinity; every initial center must be finite")
    if lloyd.rule.unit_centers:
        if (row_energies(C) == 0).any():
            raise ValueError("init has a row of zeros; a center on the sphere needs a direction")
        C = unit_rows(C)
    return C


def _spread(directions: np.ndarray, lloyd: Lloyd) -> np.ndarray:
    """Return directions as centres: as they are, or around the mean at the standard deviation of the data.

    On white data the mean is 0 and the deviation 1, so that Euclidean centres start as unit vectors too.
    """
    if lloyd.rule.unit_centers:
        return directions
    sample, weights = draw_rows(lloyd.rows, lloyd.weights, SAMPLE, lloyd.rng)
    # In float64: the variance is a small difference where the data lies far from the origin.
    sample, weights = sample.astype(np.float64), weights / weights.sum(dtype=np.float64)
    mean: np.ndarray = weights @ sample
    # Sparse rows are not centred, so that they stay sparse.
    about_zero = sp.issparse(sample)
    variance = weights @ row_energies(sample if about_zero else sample - mean)
    variance = max(variance - mean @ mean, 0) if about_zero else variance
    return mean + directions * float(np.sqrt(variance / lloyd.rows.n_features))


def _candidates(lloyd: Lloyd, n_centers: int) -> tuple[Array, np.ndarray]:
    """Return rows to choose centres from, and their weights: a random sample where there are very many."""
    X, weights = draw_rows(lloyd.rows, lloyd.weights, max(SAMPLE, 3 * n_centers), lloyd.rng)
    if lloyd.rule.unit_centers:  # a row of zeros has no direction
        nonzero = inverse_lengths(X) > 0
        X, weights = X[nonzero], weights[nonzero]
    if X.shape[0] < n_centers:
        kind = "rows that are not zero" if lloyd.rule.unit_centers else "rows"
        raise ValueError(
            f"{X.shape[0]} {kind} of positive weight are too few to choose {n_centers} centers from; "
            "lower the number of centers or give more data"
        )
    return X, weights


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
    positive = weights
    # Weights that are all one number take no memory, and need none to draw from.
    is_constant = weights.strides == (0,)
    if not is_constant:
        candidates = np.flatnonzero(weights > 0)
        positive = weights[candidates]
        is_constant = positive.min() == positive.max()
    if is_constant:
        chosen = rng.choice(len(positive), size=min(n, len(positive)), replace=False)
        new_weights = positive[chosen]
    else:
        # The smallest of exponential times of these rates are draws in proportion to the weights that are
        # left (Efraimidis & Spirakis, 2006).
        times = rng.standard_exponential(len(positive)) / positive
        order = np.argsort(times)
        chosen = order[:n]
        new_weights = positive[chosen]
        if n < len(positive):
            # Given the next time, a row is in the sample with this probability, and stands for one over it.
            w = new_weights.astype(np.float64)
            new_weights = w / -np.expm1(-w * times[order[n]])
    if weights.strides != (0,):
        chosen = candidates[chosen]
    order = np.argsort(chosen)  # take wants sorted indices
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    return rows.take(chosen[order])[back], new_weights


def plus_plus(
    X: Array, weights: np.ndarray, n_centers: int, *, rule: Rule, rng: np.random.Generator
) -> np.ndarray:
    """Choose n_centers rows as centres; float64, shape (n_centers, n_features)."""
    X, shift = _prepared(X, rule)
    first = as_centers(X[[rng.choice(len(weights), p=weights / weights.sum())]], rule)
    left = _unexplained(X, first, rule.whole(X).astype(np.float64), rule)[:, 0]
    more = _greedy(X, weights, left, n_centers - 1, n_centers, rule, rng)
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
    """Choose n rows as more centres, next to the centres C, which are given minus the shift.

    Returns float64 centres minus the shift, shape (n_chosen, n_features): fewer than n where no row
    is left that is not a centre.
    """
    # In the dtype of the rows, centres that differ by less have the same scores.
    rounding = 16 * float(np.finfo(X.dtype).eps)
    X, C = X.astype(np.float64), C.astype(np.float64)
    X = X if shift is None else X - shift
    left = to_host(map_rows(partial(row_losses, rule=rule), as_rows(X, X.dtype), C, None))
    X, about = _prepared(X, rule)
    left = np.where(left > rounding * rule.whole(X), left, 0)
    return _greedy(X, weights, left, n, n + len(C), rule, rng) + about


def as_centers(X: Array, rule: Rule) -> np.ndarray:
    """Return rows as centres: dense, and of unit length where the rule wants it."""
    C: np.ndarray = X.toarray() if sp.issparse(X) else X
    return np.asarray(unit_rows(C)) if rule.unit_centers else C


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
    n_centers: int,
    rule: Rule,
    rng: np.random.Generator,
) -> np.ndarray:
    """Choose n rows one by one, the last of n_centers; fewer where every row is a centre already."""
    whole = rule.whole(X).astype(np.float64)
    n_trials = 2 + int(np.log(n_centers))  # as scikit-learn
    centers: list[np.ndarray] = [np.empty((0, X.shape[1]), X.dtype)]
    # Products with a few candidates are small: several threads would mostly wait for each other.
    with one_blas_thread():
        for _ in range(n):
            pull = np.cumsum(left * weights, dtype=np.float64)
            if not pull[-1] > 0:  # every row is a centre already
                break
            trials = np.searchsorted(pull, rng.random(n_trials) * pull[-1], side="right")
            # Rounding may put a draw at the very end, beyond the last row.
            candidates = as_centers(X[np.minimum(trials, len(weights) - 1)], rule)
            remaining = np.minimum(left[:, None], _unexplained(X, candidates, whole, rule))
            best = int(np.argmin(weights @ remaining))
            centers.append(candidates[[best]])
            left = remaining[:, best]
    return np.concatenate(centers)


def _unexplained(X: Array, C: np.ndarray, whole: np.ndarray, rule: Rule) -> np.ndarray:
    """Return what each centre alone leaves of each row, (n_rows, n_centers); X comes from `_prepared`."""
    S = np.asarray(X @ C.T, np.float64) - rule.center_bias(C)
    return np.asarray(np.maximum(whole[:, None] - rule.gains(S, 1.0), 0))
