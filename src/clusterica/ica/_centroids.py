"""From white rows to centroids, by any clusterer: what it is given, and what is read off it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import array_api_compat
import numpy as np
from sklearn.base import BaseEstimator, clone

from clusterica.arrays import Rows, get_config, to_host
from clusterica.arrays._namespace import Array
from clusterica.arrays._rows import StreamedRows
from clusterica.cluster import CosineKMeans
from clusterica.cluster._base import BaseKMeans
from clusterica.preprocessing import KernelWhitener, Whitener


def prepared(
    clusterer: BaseEstimator | None, *, n_clusters: int, rng: np.random.Generator
) -> BaseEstimator:
    """Return a copy of the clusterer that makes n_clusters clusters, from our seed if it has none."""
    copy = CosineKMeans(compute_labels=False) if clusterer is None else clone(clusterer)
    params = copy.get_params(deep=False)
    if "n_clusters" in params:
        copy.set_params(n_clusters=n_clusters)
    if "random_state" in params and params["random_state"] is None:
        copy.set_params(random_state=int(rng.integers(2**31)))
    return copy


def white_rows(
    X: Any,
    rows: Rows,
    whitener: Whitener | KernelWhitener,
    n_rows: int,
    clusterer: BaseEstimator,
    rng: np.random.Generator,
) -> Any:
    """Return whitened rows for the clusterer: n_rows of them drawn at random, or all.

    All of them are an array where that fits the memory budget, and blocks made anew on every walk
    where it does not and the clusterer can take blocks.
    """
    if n_rows < rows.n_rows:
        chosen = np.sort(rng.choice(rows.n_rows, size=n_rows, replace=False))
        return whitener.transform(rows.export(rows.take(chosen)))
    needed = rows.n_rows * whitener.n_components_ * rows.dtype.itemsize
    on_host = rows.on_host or isinstance(rows, StreamedRows)
    lazy = array_api_compat.is_dask_array(X) or not on_host
    if needed <= get_config()["memory"] or lazy or not isinstance(clusterer, BaseKMeans):
        return whitener.transform(X)
    return _WhiteBlocks(rows, whitener)


def centroids_of(clusterer: BaseEstimator) -> tuple[np.ndarray, np.ndarray]:
    """Return the centroids, shape (n_clusters, n_features), in float64, and the rows of each."""
    name = type(clusterer).__name__
    if not hasattr(clusterer, "cluster_centers_"):
        raise TypeError(
            f"{name} has no cluster_centers_ after fit, so that no filters can be read off it; use a "
            "clusterer with centroids, such as CosineKMeans or KMeans"
        )
    C = to_host(clusterer.cluster_centers_).astype(np.float64)
    if hasattr(clusterer, "counts_"):
        return C, to_host(clusterer.counts_).astype(np.float64)
    labels: Array | None = getattr(clusterer, "labels_", None)
    if labels is None:
        return C, np.ones(len(C))
    labels = to_host(labels)
    return C, np.bincount(labels[labels >= 0], minlength=len(C)).astype(np.float64)


class _WhiteBlocks:
    """Whitened blocks of rows that are too many to be kept."""

    def __init__(self, rows: Rows, whitener: Whitener | KernelWhitener) -> None:
        self._rows, self._whitener = rows, whitener

    def __iter__(self) -> Iterator[np.ndarray]:
        for _, _, load in self._rows.blocks(2**15):
            yield self._whitener.transform(to_host(load()))
