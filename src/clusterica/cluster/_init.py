"""Initial centres: random directions, orthonormal and orthogonal axes, k-means++, rows, or the user's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state

from clusterica.arrays import Array, to_host
from clusterica.cluster._lloyd import Lloyd
from clusterica.cluster._seeding import SAMPLE, as_centers, draw_rows, plus_plus
from clusterica.ops.linalg import inverse_lengths, row_energies, unit_rows
from clusterica.ops.rules import Axis
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
        Free centres; each may stand for an antipodal pair.
    X : data as the user gave it
        Passed to a callable.
    max_iter, tol : int, float
        When the iterations of "orthogonal" end.
    progress : Progress, optional
        Task of which they are a part.
    """
    if callable(init):
        seed = check_random_state(int(lloyd.rng.integers(2**31)))
        n_clusters = lloyd.rule.n_labels(n_centers)
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
        return as_centers(sample[:n_centers], lloyd.rule)
    return plus_plus(sample, weights, n_centers, rule=lloyd.rule, rng=lloyd.rng)


def _given(centers: Any, lloyd: Lloyd, n_centers: int) -> np.ndarray:
    C = np.array(to_host(centers), dtype=np.float64)
    d = lloyd.rows.n_features
    if lloyd.rule.both_signs and C.shape == (2 * n_centers, d):
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
    """Turn orthonormal axes towards the sparse directions: steps that keep them orthogonal.

    On white sparse data the optimum is orthogonal, and the constraint leaves far fewer bad optima:
    no two centres can share a source.
    """
    turn = Lloyd(lloyd.rows, lloyd.weights, Axis(orthogonal=True), lloyd.rng)
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
    sample, weights = draw_rows(lloyd.rows, lloyd.weights, SAMPLE, lloyd.rng)
    sample, weights = sample.astype(np.float64), weights / weights.sum(dtype=np.float64)
    mean = weights @ sample
    # Sparse rows are not centred, so that they stay sparse.
    about_zero = sp.issparse(sample)
    variance = weights @ row_energies(sample if about_zero else sample - mean)
    variance = max(variance - mean @ mean, 0) if about_zero else variance
    return mean + directions * np.sqrt(variance / lloyd.rows.n_features)


def _sample(lloyd: Lloyd, n_centers: int) -> tuple[Array, np.ndarray]:
    """Rows to choose centres from: a random sample in place of all rows where there are very many."""
    X, weights = draw_rows(lloyd.rows, lloyd.weights, max(SAMPLE, 3 * n_centers), lloyd.rng)
    if lloyd.rule.unit_centers:
        nonzero = inverse_lengths(X) > 0
        X, weights = X[nonzero], weights[nonzero]
    if X.shape[0] < n_centers:
        kind = "rows that are not zero" if lloyd.rule.unit_centers else "rows"
        raise ValueError(
            f"{X.shape[0]} {kind} of positive weight are too few to choose {n_centers} centers from; "
            "lower the number of centers or give more data"
        )
    return X, weights
