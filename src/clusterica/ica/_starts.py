"""Directions to begin with: where the rows cluster, in all of them or in every class apart."""

from __future__ import annotations

import numpy as np

from clusterica.arrays import Rows, to_host
from clusterica.cluster import GainShapeKMeans
from clusterica.ica._labels import Labels
from clusterica.ops.linalg import unit_rows

_ROWS_PER_DIRECTION = 50
_FEWEST_ROWS = 20_000
_STEPS = 10


def cluster_directions(
    rows: Rows, n: int, mean: np.ndarray, labels: Labels | None, rng: np.random.Generator
) -> np.ndarray:
    """Return n unit vectors by spherical K-means, ordered by class if there are labels, float64 on the host.

    Parameters
    ----------
    rows : Rows
        The data; a part of it is looked at, 50 rows for every direction or 20,000 at least.
    n : int
        Number of directions, a multiple of the number of classes.
    mean : ndarray of shape (n_features,)
        Mean of all rows, from which directions are seen. That of its own class would hide where a class lies.
    labels : Labels or None
        The class of every row.
    rng : Generator
        Draws the rows and the start of K-means.
    """
    if labels is None:
        parts = [np.arange(rows.n_rows)]
    else:
        parts = [np.flatnonzero(labels.places == c) for c in range(len(labels.classes))]
    k, fewest = n // len(parts), max(1, _FEWEST_ROWS // len(parts))
    if min(map(len, parts)) < k:
        raise ValueError(
            f"init='k-means' needs a row for every component, and there are {rows.n_rows} rows for {n}; give "
            "more rows, lower n_components, or use init='gaussian'"
        )
    return np.concatenate([_directions(rows, part, k, mean, fewest, rng) for part in parts])


def _directions(
    rows: Rows,
    part: np.ndarray,
    k: int,
    mean: np.ndarray,
    fewest: int,
    rng: np.random.Generator,
) -> np.ndarray:
    size = min(len(part), max(fewest, _ROWS_PER_DIRECTION * k))
    sample = rows.take(np.sort(rng.choice(part, size=size, replace=False)))
    sample = sample - mean.astype(sample.dtype)
    seed = int(rng.integers(2**31))
    model = GainShapeKMeans(k, max_iter=_STEPS, tol=0.0, compute_labels=False, random_state=seed)
    # Where the rows are worked on, so that a GPU clusters them too.
    centers = model.fit(rows.place(sample)).cluster_centers_
    W = to_host(centers).astype(np.float64)
    return unit_rows(W, unit_rows(rng.normal(size=W.shape)))
