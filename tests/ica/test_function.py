"""ClusterICA as a function of signals in rows."""

import numpy as np
import pytest

from clusterica.arrays import to_host
from clusterica.ica import ClusterICA, cluster_ica
from clusterica.metrics import amari_distance


def signals(n_features=5, n_samples=3000):
    rng = np.random.default_rng()
    A = rng.normal(size=(n_features, n_features)) + 2 * np.eye(n_features)
    return A @ rng.laplace(size=(n_features, n_samples)) + 3, A


@pytest.mark.parametrize("n_components", [None, 5, 3])
def test_the_result_is_that_of_the_estimator(n_components):
    X, _ = signals()
    K, W, S = cluster_ica(X, n_components=n_components, random_state=0)
    model = ClusterICA(n_components, random_state=0).fit(X.T)
    n = n_components or 5
    assert (K.shape, W.shape, S.shape) == ((n, 5), (n, n), (n, 3000))
    np.testing.assert_array_equal(S, model.transform(X.T).T)
    np.testing.assert_allclose(W @ K, model.components_, atol=1e-10)
    np.testing.assert_allclose(W @ K @ (X - X.mean(axis=1, keepdims=True)), S, atol=1e-8)


def test_tensors(put):
    X, _ = signals()
    K, W, S = cluster_ica(put(X), random_state=0)
    for a in (K, W, S):
        assert type(a) is type(put(X))
    np.testing.assert_allclose(to_host(S), cluster_ica(X, random_state=0).S, atol=1e-6)


def test_white_signals():
    X, _ = signals()
    X = X - X.mean(axis=1, keepdims=True)
    white = np.linalg.inv(np.linalg.cholesky(np.cov(X))) @ X
    K, W, S = cluster_ica(white, whiten=False, random_state=0)
    assert K is None
    np.testing.assert_allclose(W @ white, S, atol=1e-8)
    # Sources are uncorrelated but for chance, which has a standard error of 0.02 or less.
    np.testing.assert_allclose(W @ W.T, np.eye(5), atol=0.1)


def test_the_same_sources_as_picard():
    picard = pytest.importorskip("picard")
    X, A = signals(4, 20_000)
    K, W, _ = cluster_ica(X, random_state=0)
    assert amari_distance(W @ K, A) < 0.05
    K, W, _ = picard.picard(X, random_state=0)
    assert amari_distance(W @ K, A) < 0.05


def test_bad_input():
    with pytest.raises(ValueError, match=r"must be \(n_features, n_samples\)"):
        cluster_ica([1.0, 2.0])
    with pytest.raises(ValueError, match="needs whiten=True"):
        cluster_ica(signals()[0], n_components=3, whiten=False)
    with pytest.raises(ValueError, match=r"did you mean X\.T"):
        cluster_ica(np.broadcast_to(np.zeros((1, 1)), (100_000, 64)))
