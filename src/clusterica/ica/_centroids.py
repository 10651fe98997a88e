"""From white rows to centroids, by any clusterer: what it is given, and what is read off it."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from clusterica.arrays import (
    Array,
    Rows,
    as_array,
    as_rows,
    config_context,
    get_config,
    in_order,
    to_host,
)
from clusterica.cluster import BaseKMeans, CosineKMeans, cluster_sizes, with_n_centers
from clusterica.ops.linalg import project
from clusterica.preprocessing import KernelWhitener, Whitener


def prepared(
    clusterer: BaseEstimator | None,
    *,
    n_centers: int,
    n_init: int,
    rng: np.random.Generator,
    max_iter: int = 300,
) -> BaseEstimator:
    """Return a copy of the clusterer that finds n_centers centroids, from our seed if it has none.

    The default clusterer is cosine K-means from n_init starts of max_iter iterations.
    """
    default = CosineKMeans(compute_labels=False, n_init=n_init, max_iter=max_iter)
    return with_n_centers(default if clusterer is None else clusterer, n_centers, random_state=rng)


def white_rows(
    X: Any,
    rows: Rows,
    whitener: Whitener | KernelWhitener,
    n_rows: int,
    clusterer: BaseEstimator,
    rng: np.random.Generator,
) -> Any:
    """Return whitened rows for the clusterer: n_rows of them drawn at random, or all.

    All of them are an array where that fits the memory budget, and blocks computed again on every walk
    where it does not and the clusterer can take blocks.
    """
    if n_rows < rows.n_rows:
        chosen = rows.home.put(rows.take(_choose(rows, n_rows, rng)))
        return whitener.whiten_rows(as_rows(chosen, rows.dtype))
    if isinstance(clusterer, BaseKMeans) and _too_large(rows, whitener):
        return _lazily(rows, whitener)
    return whitener.transform(X)


def all_white_rows(X: Any, rows: Rows, whitener: Whitener | KernelWhitener) -> Rows:
    """Return all rows whitened: an array where that fits the memory budget, else made on every walk."""
    if _too_large(rows, whitener):
        return _lazily(rows, whitener)
    return as_rows(as_array(whitener.transform(X)), rows.dtype)


def _lazily(rows: Rows, whitener: Whitener | KernelWhitener) -> Rows:
    """Return whitened rows that are computed on every walk."""
    with config_context(lazy=True):
        return as_rows(whitener.whiten_rows(rows))


def _too_large(rows: Rows, whitener: Whitener | KernelWhitener) -> bool:
    """Return whether the whitened rows would be kept in memory, and do not fit the budget."""
    needed = rows.n_rows * whitener.n_components_ * rows.dtype.itemsize
    # A cluster and a device have memory of their own.
    in_host_memory = rows.engine is None and rows.home.on_host
    return in_host_memory and needed > get_config()["memory"]


def white_rows_in_float32(
    rows: Rows, whitener: Whitener, n_rows: int, rng: np.random.Generator
) -> Array:
    """Return n_rows whitened rows, drawn at random, or all, of an array in memory, as a start needs them.

    They are whitened a few at a time, so that nothing else of their size is made.
    """
    chosen = _choose(rows, n_rows, rng)
    # Computed in the dtype of the rows, kept in float32: it is only a start, and takes half the memory.
    B, mean = (np.asarray(to_host(a), rows.dtype) for a in (whitener.whitening_, whitener.mean_))
    Y = np.empty((n_rows, len(B)), np.float32)

    def whiten(part: slice) -> None:
        Y[part] = project(rows.take(chosen[part]), B, mean)

    # 256 rows at a time, so that copies of them are small compared with Y.
    size = 256
    parts = ((slice(start, start + size),) for start in range(0, n_rows, size))
    for _ in in_order(whiten, parts):
        pass
    return rows.home.put(Y)


def _choose(rows: Rows, n_rows: int, rng: np.random.Generator) -> np.ndarray:
    """Return the indices of n_rows rows, drawn at random, or of all."""
    if n_rows == rows.n_rows:
        return np.arange(n_rows)
    # Sorted, so that a file is read from front to back.
    return np.sort(rng.choice(rows.n_rows, size=n_rows, replace=False))


def centroids_of(clusterer: BaseEstimator, n_white: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the centroids, shape (n_clusters, n_white), in float64, and the rows of each."""
    name = type(clusterer).__name__
    if not hasattr(clusterer, "cluster_centers_"):
        raise TypeError(
            f"{name} has no cluster_centers_ after fit, so that no filters can be read off it; use a "
            "clusterer with centroids, such as CosineKMeans or KMeans"
        )
    C = to_host(clusterer.cluster_centers_).astype(np.float64)
    if C.ndim != 2 or C.shape[1] != n_white or not (np.isfinite(C).all() and C.any()):
        raise ValueError(
            f"{name} gave centroids of shape {C.shape} from rows with {n_white} columns"
            + ("" if np.isfinite(C).all() else ", of which some are not finite")
            + ("" if C.any() else ", all of them zero")
            + "; no directions can be read off them: use another clusterer, such as CosineKMeans"
        )
    # Clusterers of other libraries may know neither counts nor labels: then all count the same.
    sizes = cluster_sizes(clusterer)
    return C, np.ones(len(C)) if sizes is None else sizes.astype(np.float64)
