"""The start that ClusterICA's refine goes on from: how many rows it sees, their digits and memory."""

import tracemalloc

import numpy as np
import pytest

from clusterica import config_context
from clusterica.arrays import as_rows
from clusterica.datasets import make_sparse_sources
from clusterica.ica import ClusterICA
from clusterica.ica._centroids import white_rows_in_float32
from clusterica.preprocessing import Whitener


@pytest.mark.parametrize(
    ("n_rows", "d", "seen"),
    [
        (500, 3, 500),  # fewer than 100 for each of ten components
        (5000, 3, 2500),
        (5000, 30, 3000),
        (100_000, 3, 4000),
        (100_000, 30, 12_000),
    ],
)
def test_a_start_is_made_from_as_many_rows_as_it_needs(n_rows, d, seen):
    rows = as_rows(np.empty((n_rows, d)))
    assert ClusterICA()._count_cluster_rows(rows, d, is_start=True) == seen
    assert ClusterICA()._count_cluster_rows(rows, d, is_start=False) == n_rows
    assert ClusterICA(cluster_rows=450)._count_cluster_rows(rows, d, is_start=True) == 450


@pytest.mark.parametrize("n_rows", [700, 1000])
def test_white_rows_of_a_start(n_rows):
    X = np.random.default_rng().normal(size=(1000, 4)) @ np.diag([1, 10, 100, 1000.0]) + 1e4
    whitener = Whitener("pca", eps=0.0).fit(X)
    Y = white_rows_in_float32(as_rows(X), whitener, n_rows, np.random.default_rng(1))
    chosen = np.sort(np.random.default_rng(1).choice(1000, size=n_rows, replace=False))
    expected = whitener.transform(X if n_rows == 1000 else X[chosen])
    assert Y.dtype == np.float32
    np.testing.assert_allclose(Y, expected, rtol=1e-6, atol=1e-6)


def test_refined_sources_take_less_memory_than_the_rows():
    X, _, _ = make_sparse_sources(10_000, 50, random_state=0)
    ica = ClusterICA(refine="ml", random_state=0).fit(X)
    tracemalloc.start()
    try:
        with config_context(threads=2):  # each thread has a block
            ica.fit(X)
        assert tracemalloc.get_traced_memory()[1] < X.nbytes
    finally:
        tracemalloc.stop()


def test_clusters_of_tensors_are_tensors():
    torch = pytest.importorskip("torch")
    X, _, _ = make_sparse_sources(2000, 3, random_state=0)
    ica = ClusterICA(refine="ml", random_state=0).fit(torch.asarray(X))
    assert isinstance(ica.clusterer_.cluster_centers_, torch.Tensor)
