"""Methods agree with each other; models print, copy, pickle and name their features as they should."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

from clusterica.cluster import CosineKMeans, GainShapeKMeans, KMeans, SphericalKMeans
from clusterica.preprocessing import Whitener


def test_labels_follow_from_transform(make, heavy):
    model = make(6, random_state=0).fit(heavy)
    T = model.transform(heavy)
    if isinstance(model, KMeans):
        labels = T.argmin(axis=1)
    else:
        signed = isinstance(model, GainShapeKMeans)
        labels = (np.abs(T) if signed else T).argmax(axis=1)
    np.testing.assert_array_equal(model.labels_, labels)
    np.testing.assert_array_equal(model.predict(heavy), labels)
    np.testing.assert_array_equal(np.bincount(labels, minlength=6), model.counts_)
    np.testing.assert_array_equal(make(6, random_state=0).fit_predict(heavy), labels)
    np.testing.assert_array_equal(make(6, random_state=0).fit_transform(heavy), T)


@pytest.mark.parametrize(
    ("model", "responses"),
    [
        (KMeans(2), [[0, 5], [5, 0], [5, 8]]),
        (GainShapeKMeans(2), [[3, 0], [0, 4], [0, -4]]),
        (SphericalKMeans(2), [[1, 0], [0, 1], [0, -1]]),
        (CosineKMeans(2), [[3, 0, -3, 0], [0, 4, 0, -4], [0, -4, 0, 4]]),
    ],
    ids=str,
)
def test_transform_by_hand(model, responses):
    """Distances, inner products, cosines, inner products with both signs."""
    X = np.array([[3.0, 0.0], [0.0, 4.0], [0.0, -4.0]])
    seen = X[[0, 1, 0, 1]]
    model.set_params(init=X[:2]).fit(seen)
    np.testing.assert_allclose(model.transform(X), responses, atol=1e-12)


def test_score_of_new_rows(make, heavy, fitted_objective):
    model = make(4, random_state=0).fit(heavy)
    sign = 1 if isinstance(model, CosineKMeans) else -1
    assert model.score(heavy) == pytest.approx(sign * fitted_objective(model))
    halves = [model.score(heavy[:300]), model.score(heavy[300:])]
    total = np.mean(halves) if isinstance(model, CosineKMeans) else np.sum(halves)
    assert model.score(heavy) == pytest.approx(total)
    weights = np.repeat([1.0, 0.0], 300)
    assert model.score(heavy, sample_weight=weights) == pytest.approx(halves[0])


def test_no_labels_on_request(make, heavy):
    labelled = make(4, random_state=0).fit(heavy)
    model = make(4, compute_labels=False, random_state=0).fit(heavy)
    assert not hasattr(model, "labels_")
    np.testing.assert_array_equal(model.cluster_centers_, labelled.cluster_centers_)
    np.testing.assert_array_equal(model.fit_predict(heavy), labelled.labels_)
    np.testing.assert_array_equal(model.objective_history_, labelled.objective_history_[:-1])
    assert model.counts_.sum() == 600


def test_a_fit_without_labels_leaves_none_behind(heavy):
    model = KMeans(4, random_state=0).fit(heavy)
    model.set_params(compute_labels=False).fit(heavy[:100])
    assert not hasattr(model, "labels_")


def test_feature_names_out(make, heavy):
    model = make(4, random_state=0).fit(heavy)
    name = type(model).__name__.lower()
    assert model.get_feature_names_out().tolist() == [f"{name}{i}" for i in range(4)]


def test_data_frames_in_and_out(make, heavy):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(heavy, columns=list("abcd"), index=range(100, 700))
    model = make(4, random_state=0).set_output(transform="pandas").fit(frame)
    out = model.transform(frame)
    assert out.columns.tolist() == model.get_feature_names_out().tolist()
    assert out.index.tolist() == list(range(100, 700))
    assert model.feature_names_in_.tolist() == list("abcd")
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[list("dcba")])


def test_pickle(make, heavy):
    model = make(4, random_state=0).fit(heavy)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(heavy), model.labels_)
    copy.partial_fit(heavy)
    model.partial_fit(heavy)
    np.testing.assert_array_equal(copy.cluster_centers_, model.cluster_centers_)


def test_clone(make, heavy):
    model = make(4, init="rows", n_init=2, max_iter=7, random_state=3).fit(heavy)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert not hasattr(copy, "cluster_centers_")
    np.testing.assert_array_equal(copy.fit(heavy).cluster_centers_, model.cluster_centers_)


@pytest.mark.parametrize("method", ["predict", "transform", "score"])
def test_not_fitted(make, method, heavy):
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        getattr(make(4), method)(heavy)


def test_in_a_pipeline(heavy):
    mixed = heavy @ np.array([[2, 1, 0, 0], [0, 1, 0, 0], [0, 1, 3, 0], [1, 0, 0, 1.0]])
    model = make_pipeline(Whitener(eps=0.0), CosineKMeans(random_state=0)).fit(mixed)
    assert model.predict(mixed).shape == (600,)
    assert model[-1].objective_ == pytest.approx(model.score(mixed))


def test_default_number_of_pairs(heavy):
    model = CosineKMeans(random_state=0).fit(heavy[:, :3])
    assert model.cluster_centers_.shape == (6, 3)
    assert model.n_axes is None
    assert model.set_params(n_axes=1).fit(heavy).cluster_centers_.shape == (2, 4)


def test_counts_are_whole_numbers_without_weights(make, heavy):
    assert make(4, random_state=0).fit(heavy).counts_.dtype == np.int64
    weighted = make(4, random_state=0).fit(heavy, sample_weight=np.full(600, 0.5))
    assert weighted.counts_.sum() == 300
