"""Centres without rows: refilled from the data, kept, or dropped."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from clusterica.cluster import CosineKMeans, KMeans, SphericalKMeans

# Three groups of 30, 20 and 10 rows, and the direction of each.
AXES = np.eye(3)
X = np.repeat(AXES, [30, 20, 10], axis=0) * np.random.default_rng(0).uniform(1, 2, size=(60, 1))
# One centre for each group, and two that are the best of no row.
START = np.concatenate([AXES, [[-1.0, -1.0, 0.1], [-1.0, 0.1, -1.0]]])
EMPTY_UNDER = {
    "euclidean": (KMeans, START),
    "gain-shape": (SphericalKMeans, np.concatenate([AXES, AXES[:1], AXES[:1]])),
    "direction": (lambda k, **p: SphericalKMeans(k, signed=False, **p), START),
    "axis": (lambda k, **p: CosineKMeans(2 * k, **p), np.concatenate([AXES, AXES[:1], AXES[:1]])),
}


@pytest.fixture(params=EMPTY_UNDER)
def case(request):
    make, init = EMPTY_UNDER[request.param]
    return lambda n=5, **parameters: make(n, init=init[:n], random_state=0, **parameters)


def pair_counts(model):
    counts = model.counts_
    return counts[:5] + counts[5:] if isinstance(model, CosineKMeans) else counts


def test_keep(case):
    model = case(empty="keep")
    with pytest.warns(ConvergenceWarning, match=r"2 of 5 clusters are empty.*lower n_clusters"):
        model.fit(X)
    assert pair_counts(model).tolist() == [30, 20, 10, 0, 0]
    unit = model.init / np.linalg.norm(model.init, axis=1, keepdims=True)
    kept = model.init[3:] if isinstance(model, KMeans) else unit[3:]
    np.testing.assert_allclose(model.cluster_centers_[3:5], kept)


def test_data():
    """A centre without rows becomes a row, and takes part from then on."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3))
    far = KMeans(3, init=np.stack([X[0], X[1], np.full(3, 50)]), random_state=0, max_iter=1)
    far.fit(X)
    assert np.isclose(far.cluster_centers_[2], X).all(axis=1).any()
    assert far.counts_.min() > 0


@pytest.mark.parametrize(
    "model", [SphericalKMeans(2, damping=0.0), CosineKMeans(4)], ids=["gain-shape", "axis"]
)
def test_data_on_the_sphere(model):
    X = np.random.default_rng(0).laplace(size=(100, 3))
    model.set_params(init=np.repeat(X[:1], 2, axis=0), random_state=0, max_iter=1).fit(X)
    cosines = X @ model.cluster_centers_[1] / np.linalg.norm(X, axis=1)
    assert cosines.max() == pytest.approx(1)
    assert model.counts_.min() > 0


def test_drop(case):
    model = case(empty="drop").fit(X)
    expected = case(3, empty="keep").fit(X)
    np.testing.assert_allclose(model.cluster_centers_, expected.cluster_centers_)
    np.testing.assert_array_equal(model.counts_, expected.counts_)
    np.testing.assert_array_equal(model.labels_, expected.labels_)
    assert model.objective_history_[-1] == pytest.approx(expected.objective_history_[-1])
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    assert len(model.get_feature_names_out()) == model.transform(X).shape[1]


def test_drop_small_clusters_and_give_their_rows_away(case):
    model = case(empty="drop", min_count=15).fit(X)
    n_clusters = 4 if isinstance(model, CosineKMeans) else 2
    assert model.cluster_centers_.shape == (n_clusters, 3)
    assert model.counts_.sum() == 60
    np.testing.assert_array_equal(np.bincount(model.labels_, minlength=n_clusters), model.counts_)
    assert set(model.labels_[:30]) == {0}
    assert set(model.labels_[30:50]) == {1}


def test_drop_counts_weight_not_rows():
    weights = np.repeat([0.1, 0.1, 10.0], [30, 20, 10])
    model = KMeans(5, init=START, empty="drop", min_count=2.5).fit(X, sample_weight=weights)
    np.testing.assert_array_equal(model.cluster_centers_.argmax(axis=1), [0, 2])


def test_drop_without_labels():
    model = KMeans(5, init=START, empty="drop", compute_labels=False).fit(X)
    assert model.cluster_centers_.shape == (3, 3)
    assert not hasattr(model, "labels_")
    np.testing.assert_array_equal(np.bincount(model.predict(X)), model.counts_)


def test_drop_everything(case):
    with pytest.raises(ValueError, match="min_count=1000; lower min_count"):
        case(empty="drop", min_count=1000).fit(X)


def test_a_min_count_of_zero_still_drops_empty_clusters(case):
    model = case(empty="drop", min_count=0).fit(X)
    assert len(model.counts_) == (6 if isinstance(model, CosineKMeans) else 3)


def test_partial_fit_goes_on_after_a_drop(case):
    model = case(empty="drop").fit(X)
    C = model.cluster_centers_
    model.partial_fit(X)
    np.testing.assert_allclose(model.cluster_centers_, C, atol=1e-6)


def test_fewer_distinct_rows_than_clusters():
    X = np.repeat([[0.0, 0.0], [1.0, 1.0]], 10, axis=0)
    with pytest.warns(ConvergenceWarning, match="fewer distinct rows than clusters") as record:
        model = KMeans(4, random_state=0).fit(X)
    assert record[0].filename == __file__  # the warning points to the call of fit
    assert len(record) == 1
    assert model.inertia_ == 0
    assert (model.counts_ > 0).sum() == 2


def test_no_warning_about_few_empty_clusters():
    """Under a tenth of the clusters: nothing to tell."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    init = np.concatenate([X[:19], [[1e3, 1e3]]])
    assert (KMeans(20, init=init, empty="keep").fit(X).counts_ == 0).sum() == 1
