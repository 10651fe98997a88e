"""Initial centres: random directions, orthonormal and orthogonal axes, k-means++, rows, or the user's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state

from clusterica.arrays import to_host
from clusterica.arrays._namespace import Array
from clusterica.cluster._lloyd import Lloyd
from clusterica.cluster._sample import draw_rows
from clusterica.ops.linalg import inverse_lengths, row_energies, unit_rows
from clusterica.ops.rules import Rule
from clusterica.optim import Progress

METHODS = ("gaussian", "orthonormal", "orthogonal", "k-means++", "rows")


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
    """Return n_centers starting points, shape (n_centers, n_features), in the data's own coordinates.

    Parameters
    ----------
    init : str, array or callable
        One of METHODS, the centres, or a function of ``(X, n_clusters, random_state)`` as in
        scikit-learn.
    lloyd : Lloyd
        The problem: rows, weights, rule, random stream.
    n_centers : int
        Free centres; under AXIS each stands for an antipodal pair.
    X : data as the user gave it
        Passed to a callable.
    max_iter, tol : int, float
        When the iterations of "orthogonal" end.
    progress : Progress, optional
        Task of which they are a part.
    """
    if callable(init):
        seed = check_random_state(int(lloyd.rng.integers(2**31)))
        n_clusters = 2 * n_centers if lloyd.rule is Rule.AXIS else n_centers
        return _given(init(X, n_clusters, random_state=seed), lloyd, n_centers)
    if not isinstance(init, str):
        return _given(init, lloyd, n_centers)
    if init == "gaussian":
        return _spread(_directions(n_centers, lloyd), lloyd)
    if init in ("orthonormal", "orthogonal"):
        axes = _random_axes(n_centers, lloyd)
        if init == "orthogonal":
            axes = _turned_axes(axes, lloyd, max_iter=max_iter, tol=tol, progress=progress)
        return _spread(_along_axes(axes, n_centers, lloyd), lloyd)
    sample, weights = _sample(lloyd, n_centers)
    if init == "rows":
        return _as_center(sample[:n_centers], lloyd.rule)
    return plus_plus(sample, weights, n_centers, rule=lloyd.rule, rng=lloyd.rng)


def _given(centers: Any, lloyd: Lloyd, n_centers: int) -> np.ndarray:
    C = np.array(to_host(centers), dtype=np.float64)
    d = lloyd.rows.n_features
    if lloyd.rule is Rule.AXIS and C.shape == (2 * n_centers, d):
        if not np.allclose(C[:n_centers], -C[n_centers:]):
            raise ValueError(
                "init must hold antipodal pairs: its second half the negatives of its first, "
                f"or only the first half, shape ({n_centers}, {d})"
            )
        C = C[:n_centers]
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


def _directions(n: int, lloyd: Lloyd) -> np.ndarray:
    """Random unit vectors, spread evenly over the sphere (Coates & Ng 2012, section 2.2)."""
    return unit_rows(lloyd.rng.standard_normal((n, lloyd.rows.n_features)))


def _random_axes(n_centers: int, lloyd: Lloyd) -> np.ndarray:
    """Random orthonormal rows, as many as the centres can use (Vinnikov & Shalev-Shwartz, 6.4)."""
    d = lloyd.rows.n_features
    n = min(d, n_centers if lloyd.rule.ignores_sign else -(-n_centers // 2))
    Q, R = np.linalg.qr(lloyd.rng.standard_normal((d, n)))
    return (Q * np.sign(np.diag(R))).T  # the signs make the draw uniform over rotations


def _turned_axes(
    axes: np.ndarray, lloyd: Lloyd, *, max_iter: int, tol: float, progress: Progress | None
) -> np.ndarray:
    """Turn orthonormal axes towards the sparse directions: AXIS iterations that keep them orthogonal.

    On white sparse data the optimum is orthogonal, and the constraint leaves far fewer bad optima:
    no two centres can share a source.
    """
    turn = Lloyd(lloyd.rows, lloyd.weights, Rule.AXIS, lloyd.rng, orthogonal=True)
    task = None if progress is None else progress.subtask("orthogonal start", max_iter)
    result = turn.run(axes, max_iter=max_iter, tol=tol, progress=task)
    if task is not None:
        task.end()
    return np.asarray(to_host(result.params.C), np.float64)


def _along_axes(axes: np.ndarray, n_centers: int, lloyd: Lloyd) -> np.ndarray:
    """Both directions of every axis (one where the rule ignores sign); the rest scattered at random."""
    both = axes if lloyd.rule.ignores_sign else np.concatenate([axes, -axes])
    rest = max(0, n_centers - len(both))
    return np.concatenate([both[:n_centers], _directions(rest, lloyd)])


def _spread(directions: np.ndarray, lloyd: Lloyd) -> np.ndarray:
    """Place directions for the rule: as they are, or about the mean at the data's typical spread.

    On white data the mean is 0 and the spread 1, so that Euclidean centres start as unit vectors too.
    """
    if lloyd.rule.unit_centers:
        return directions
    sample, _ = draw_rows(lloyd.rows, lloyd.weights, 10_000, lloyd.rng)
    sample = sample.astype(np.float64)
    mean = np.asarray(sample.mean(axis=0)).ravel()
    # Sparse rows are not centred, so that they stay sparse.
    about_zero = sp.issparse(sample)
    variance = row_energies(sample if about_zero else sample - mean).mean()
    variance = max(variance - mean @ mean, 0) if about_zero else variance
    return mean + directions * np.sqrt(variance / lloyd.rows.n_features)


def _sample(lloyd: Lloyd, n_centers: int) -> tuple[Array, np.ndarray]:
    """Rows to choose centres from: a random sample in place of all rows where there are very many."""
    X, weights = draw_rows(lloyd.rows, lloyd.weights, max(10_000, 3 * n_centers), lloyd.rng)
    if lloyd.rule.unit_centers:
        nonzero = inverse_lengths(X) > 0
        X, weights = X[nonzero], weights[nonzero]
    if X.shape[0] < n_centers:
        kind = "rows that are not zero" if lloyd.rule.unit_centers else "rows"
        raise ValueError(
            f"{X.shape[0]} {kind} of positive weight are too few to choose {n_centers} centers from; "
            "lower n_clusters or give more data"
        )
    return X, weights


def plus_plus(
    X: Array, weights: np.ndarray, n_centers: int, *, rule: Rule, rng: np.random.Generator
) -> np.ndarray:
    """Choose rows as centres by greedy k-means++ in the geometry of the rule.

    A row is drawn with probability proportional to what the centres so far leave unexplained of it:
    the squared distance, ``|x|^2 - score^2``, ``1 - cosine`` or ``|x| - |score|``. Of several rows
    drawn, the one that leaves least is kept.
    """
    if rule is Rule.EUCLIDEAN and not sp.issparse(X):
        shift = X.mean(axis=0)
        return plus_plus_of(X - shift, weights, n_centers, rule, rng) + shift
    if rule is Rule.DIRECTION:
        X = sp.diags_array(inverse_lengths(X)) @ X if sp.issparse(X) else unit_rows(X)
        X = X.tocsr() if sp.issparse(X) else X
    return plus_plus_of(X, weights, n_centers, rule, rng)


def plus_plus_of(
    X: Array, weights: np.ndarray, n_centers: int, rule: Rule, rng: np.random.Generator
) -> np.ndarray:
    """Run greedy k-means++ on prepared rows; returns float64 centres."""
    n_trials = 2 + int(np.log(n_centers))
    energies = row_energies(X).astype(np.float64)
    centers = [_as_center(X[[rng.choice(len(weights), p=weights / weights.sum())]], rule)]
    left = _unexplained(X, centers[0], energies, rule)[:, 0]
    while len(centers) < n_centers:
        pull = np.cumsum(left * weights, dtype=np.float64)
        if pull[-1] > 0:
            trials = np.searchsorted(pull, rng.random(n_trials) * pull[-1], side="right")
        else:  # every row is a centre already
            trials = rng.integers(len(weights), size=n_trials)
        candidates = _as_center(X[np.minimum(trials, len(weights) - 1)], rule)
        remaining = np.minimum(left[:, None], _unexplained(X, candidates, energies, rule))
        best = int(np.argmin(weights @ remaining))
        centers.append(candidates[[best]])
        left = remaining[:, best]
    return np.concatenate(centers).astype(np.float64)


def _as_center(X: Array, rule: Rule) -> np.ndarray:
    return unit_rows(_dense(X)) if rule.unit_centers else _dense(X)


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


def _dense(X: Array) -> np.ndarray:
    return X.toarray() if sp.issparse(X) else X
