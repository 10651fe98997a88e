"""Bugs that other libraries had, each as a case that must not happen here; the reports are named."""

import numpy as np
import pytest
from cases import host, put, quiet

from clusterica.cluster import CosineKMeans, GainShapeKMeans, KMeans, SphericalKMeans
from clusterica.preprocessing import Whitener

FAMILY = [KMeans, SphericalKMeans, GainShapeKMeans, CosineKMeans]
places = pytest.mark.parametrize("place", ["numpy", "strict", "torch", "dask", "blocks"])


@places
def test_weights_count_in_the_inertia(place):
    """cuML #8530 and scikit-learn #16594: weights were ignored, or scaled to a mean of one."""
    X, w = np.array([[0.0], [1.0]]), np.array([2.0, 2.0])
    model = KMeans(1, random_state=0).fit(put(X, place, cut=1), sample_weight=w)
    assert model.inertia_ == pytest.approx(1.0)
    assert model.score(put(X, place, cut=1), sample_weight=w) == pytest.approx(-1.0)


@places
def test_transform_gives_distances_and_not_their_squares(place):
    """cuML #8536."""
    X = np.array([[0.0, 0], [1, 1], [2, 2], [10, 10], [11, 11], [12, 12]])
    model = KMeans(2, init=np.array([[1.0, 1], [11, 11]])).fit(put(X, place))
    found = host(model.transform(put(X[[0, 3]], place)))
    np.testing.assert_allclose(found**2, [[2, 242], [162, 2]], rtol=1e-12)


@places
def test_weights_count_in_k_means_plus_plus(place):
    """scikit-learn #25527 and cuVS #1809: rows of almost no weight were chosen as centres."""
    X = np.array([[1.0], [1], [5], [5], [100], [100]])
    w = 10.0 ** np.array([8, 8, 8, 8, -8, -8])
    for seed in range(5):
        model = KMeans(2, n_init=3, random_state=seed).fit(put(X, place), sample_weight=w)
        np.testing.assert_allclose(np.sort(host(model.cluster_centers_).ravel()), [1, 5], atol=1e-6)


@places
@pytest.mark.parametrize("model", FAMILY)
def test_rows_without_weight_are_no_start(model, place):
    """scikit-learn pull request 25752."""
    rng = np.random.default_rng()
    X = rng.normal(size=(40, 3))
    far = X[:20] * 1000 + 5000
    w = np.repeat([0.0, 1.0], 20)
    for init in ("k-means++", "rows"):
        fitted = model(2, init=init, max_iter=1, random_state=0)
        fitted.fit(put(np.concatenate([far, X[20:]]), place), sample_weight=w)
        alone = host(fitted.cluster_centers_)
        assert np.abs(alone).max() < 100


@places
@pytest.mark.parametrize("model", FAMILY)
def test_labels_are_indices_of_centres(model, place):
    """A label equal to the number of clusters, for rows that no comparison put anywhere."""
    rng = np.random.default_rng()
    X = np.concatenate([np.zeros((3, 4)), rng.normal(size=(30, 4)), np.full((2, 4), 1e15)])
    with quiet():
        fitted = model(3, random_state=0).fit(put(X, place))
        labels = host(fitted.predict(put(X, place)))
    assert ((labels >= 0) & (labels < len(host(fitted.cluster_centers_)))).all()


def test_sums_of_float16_do_not_overflow():
    """float16 ends at 65,504: a sum of squares, or of many rows, must not be taken in it."""
    X = (np.random.default_rng().normal(size=(3000, 4)) * 100 + 300).astype(np.float16)
    wide = X.astype(np.float64)
    for cast in (lambda a: a, lambda a: put(a, "torch"), lambda a: put(a, "dask", cut=1000)):
        fitted = KMeans(1, random_state=0).fit(cast(X))
        np.testing.assert_allclose(host(fitted.cluster_centers_)[0], wide.mean(axis=0), rtol=1e-5)
        assert fitted.inertia_ == pytest.approx(((wide - wide.mean(axis=0)) ** 2).sum(), rel=1e-3)
        white = Whitener().fit(cast(X))
        np.testing.assert_allclose(host(white.covariance_), np.cov(wide.T), rtol=1e-2, atol=100)


@pytest.mark.parametrize("other", [np.float16, np.float32, np.float64, np.int64, np.uint8])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("model", FAMILY)
def test_a_model_of_one_dtype_predicts_rows_of_another(model, dtype, other):
    """Bytes of one dtype that are read as another."""
    X = np.random.default_rng().integers(1, 200, size=(60, 3))
    fitted = model(2, random_state=0).fit(X.astype(dtype))
    labels = host(fitted.predict(X.astype(other)))
    agree = (labels == host(fitted.labels_)).mean()
    assert agree > 0.95  # rows between two centres may go either way
    found, expected = (
        host(fitted.transform(X.astype(other))),
        host(fitted.transform(X.astype(dtype))),
    )
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3 * np.abs(expected).max())


def test_a_last_batch_with_fewer_rows_than_components():
    """scikit-learn #12234 and #13114: IncrementalPCA refused it."""
    X = np.random.default_rng().normal(size=(11, 5))
    model = Whitener("pca", n_components=4).partial_fit(X[:10]).partial_fit(X[10:])
    np.testing.assert_allclose(host(model.covariance_), np.cov(X.T), atol=1e-12)


@pytest.mark.parametrize("model", FAMILY)
def test_an_empty_cluster_makes_no_nan(model):
    """kmeans_pytorch #41 and keops #165: the mean of no rows spread to all centres."""
    X = np.repeat(np.random.default_rng().normal(size=(3, 4)), 10, axis=0)
    for empty in ("data", "keep", "drop"):
        with quiet():
            fitted = model(6, empty=empty, init="gaussian", random_state=0).fit(X)
        assert np.isfinite(fitted.cluster_centers_).all()
        assert np.isfinite(fitted.transform(X)).all()


def test_lazy_results_know_their_shape():
    """cuML #5883: the result of a transform of a Dask array had no shape."""
    X = np.random.default_rng().normal(size=(20, 3))
    rows = put(X, "dask", cut=6)
    for model in (Whitener(), KMeans(2, random_state=0)):
        result = model.fit(rows).transform(rows)
        assert result.shape == host(result).shape == (20, 3 if isinstance(model, Whitener) else 2)
        assert result.dtype == np.float64
