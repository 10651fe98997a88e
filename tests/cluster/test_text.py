"""Spherical K-means as text needs it: sparse rows, weights, batches, starts, a part to learn from."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.pairwise import cosine_distances

from clusterica.cluster import SphericalKMeans


@pytest.fixture
def documents():
    """Return 600 documents of 3 topics, with 40 words of 2000 each, in any length, and their topics."""
    rng = np.random.default_rng()
    topics = np.arange(600) % 3
    words = rng.integers(0, 600, size=(600, 40)) + 600 * topics[:, None]
    words[:, :10] = rng.integers(0, 2000, size=(600, 10))  # words of any topic
    places = np.repeat(np.arange(600), 40)
    X = sparse.csr_array((np.ones(24_000), (places, words.ravel())), shape=(600, 2000))
    return sparse.csr_array(X * rng.uniform(0.1, 10, size=(600, 1))), topics


@pytest.mark.parametrize("settings", [{}, {"batch_size": 100}, {"init": "rows"}], ids=str)
def test_topics_are_found(documents, settings):
    X, topics = documents
    model = SphericalKMeans(3, n_init=8, random_state=0, **settings).fit(X)
    assert adjusted_rand_score(topics, model.labels_) > 0.9


def test_transform_is_one_minus_the_cosine_distance(documents):
    X, _ = documents
    model = SphericalKMeans(3, random_state=0).fit(X)
    expected = 1 - cosine_distances(X, model.cluster_centers_)
    np.testing.assert_allclose(model.transform(X), expected, atol=1e-10)
    np.testing.assert_array_equal(model.predict(X), expected.argmax(axis=1))
    assert model.inertia_ == pytest.approx((1 - expected.max(axis=1)).sum())


def test_fit_on_a_part_and_predict_all(documents):
    X, topics = documents
    part = np.random.default_rng().choice(600, 300, replace=False)
    model = SphericalKMeans(3, n_init=8, random_state=0).fit(X[part])
    assert adjusted_rand_score(topics, model.predict(X)) > 0.9


def test_more_starts_are_no_worse(documents):
    X, _ = documents
    one, many = (
        SphericalKMeans(10, init="rows", n_init=n, random_state=0).fit(X).inertia_ for n in (1, 6)
    )
    assert many <= one


def test_weights_and_batches_of_sparse_rows(documents):
    X, _ = documents
    start = X[:3].toarray()
    weights = np.random.default_rng().integers(1, 4, size=600)
    weighted = SphericalKMeans(3, init=start).fit(X, sample_weight=weights)
    repeated = SphericalKMeans(3, init=start).fit(X[np.repeat(np.arange(600), weights)])
    np.testing.assert_allclose(weighted.cluster_centers_, repeated.cluster_centers_, atol=1e-8)
    stream = SphericalKMeans(3, init=start)
    for i in range(0, 600, 100):
        stream.partial_fit(X[i : i + 100])
    assert stream.counts_.sum() == 600
    np.testing.assert_allclose(np.linalg.norm(stream.cluster_centers_, axis=1), 1)
