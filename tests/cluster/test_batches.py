"""Learning batch by batch: partial_fit, and fit with batch_size."""

import numpy as np
import pytest
from scipy import sparse

from clusterica.cluster import CosineKMeans, GainShapeKMeans, KMeans


def axes_and_noise(n=6000, d=6, seed=0):
    """Sparse directions that all rules find: heavy-tailed rows of unit variance."""
    return np.random.default_rng(seed).laplace(scale=0.5**0.5, size=(n, d))


def n_clusters_of(make, d):
    return 2 * d if isinstance(make(4), CosineKMeans) else d


def test_one_call_is_one_iteration(make, heavy, start):
    parameters = {"init": start, "max_iter": 1, "empty": "keep"}
    n_clusters = n_clusters_of(make, 4)
    whole = make(n_clusters, **parameters).fit(heavy)
    part = make(n_clusters, **parameters).partial_fit(heavy)
    np.testing.assert_allclose(part.cluster_centers_, whole.cluster_centers_, rtol=1e-12)
    assert part.objective_history_ == pytest.approx(whole.objective_history_[:1])
    assert part.n_iter_ == 1
    assert part.counts_.sum() == 600


def test_weights_in_partial_fit(make, heavy, start):
    weights = np.random.default_rng(0).integers(0, 3, size=600)
    n_clusters = n_clusters_of(make, 4)
    weighted = make(n_clusters, init=start).partial_fit(heavy, sample_weight=weights)
    repeated = make(n_clusters, init=start).partial_fit(np.repeat(heavy, weights, axis=0))
    np.testing.assert_allclose(weighted.cluster_centers_, repeated.cluster_centers_, atol=1e-12)
    np.testing.assert_allclose(weighted.counts_, repeated.counts_)


def test_euclidean_centers_are_running_means(heavy):
    """The online rule: a centre is the mean of all rows it has received."""
    batches = np.split(heavy, 4)
    model = KMeans(3, init=heavy[:3])
    received = [[], [], []]
    C = heavy[:3]
    for batch in batches:
        model.partial_fit(batch)
        labels = ((batch[:, None] - C) ** 2).sum(axis=2).argmin(axis=1)
        for j in range(3):
            received[j].append(batch[labels == j])
        C = np.stack([np.concatenate(r).mean(axis=0) for r in received])
        np.testing.assert_allclose(model.cluster_centers_, C)
    assert model.counts_.tolist() == [sum(map(len, r)) for r in received]
    assert model.n_iter_ == 4
    assert len(model.objective_history_) == 4


def test_batches_come_near_the_full_fit(make):
    X = axes_and_noise()
    n_clusters = n_clusters_of(make, 6)
    full = make(n_clusters, init="orthonormal", random_state=0).fit(X)
    part = make(n_clusters, init="orthonormal", random_state=0)
    for _ in range(3):
        for batch in np.split(X, 20):
            part.partial_fit(batch)
    assert part.score(X) == pytest.approx(full.score(X), rel=0.08)
    assert part.cluster_centers_.shape == full.cluster_centers_.shape


def test_partial_fit_goes_on_where_fit_ended(make, heavy, start):
    """A centre weighs as much as the rows it has seen: one more batch moves it a little."""
    n_clusters = n_clusters_of(make, 4)
    model = make(n_clusters, init=start).fit(heavy)
    before, n_iter = np.array(model.cluster_centers_), model.n_iter_
    model.partial_fit(heavy[:60])
    assert 0 < np.abs(model.cluster_centers_ - before).max() < 0.1
    assert model.n_iter_ == n_iter + 1


def test_fit_begins_anew(make, heavy):
    model = make(4, random_state=0)
    expected = make(4, random_state=0).fit(heavy)
    model.partial_fit(heavy[:, :3]).fit(heavy)
    np.testing.assert_array_equal(model.cluster_centers_, expected.cluster_centers_)
    assert model.n_features_in_ == 4


def test_partial_fit_takes_sparse_batches(make, heavy):
    dense, csr = make(4, random_state=0), make(4, random_state=0)
    for batch in np.split(heavy, 3):
        dense.partial_fit(batch)
        csr.partial_fit(sparse.csr_array(batch))
    np.testing.assert_allclose(csr.cluster_centers_, dense.cluster_centers_, atol=1e-10)


@pytest.mark.parametrize("k", [1, 3])
def test_partial_fit_in_float32_far_from_the_origin(k):
    X = (1e4 + np.random.default_rng(0).standard_normal((3000, 2))).astype(np.float32)
    model = KMeans(k, random_state=0)
    for batch in np.split(X, 10):
        model.partial_fit(batch)
    assert model.cluster_centers_.dtype == np.float32
    mean = model.counts_ @ model.cluster_centers_.astype(np.float64) / model.counts_.sum()
    np.testing.assert_allclose(mean, X.mean(axis=0, dtype=np.float64), atol=2e-3)


def test_labels_do_not_outlive_their_centers(heavy):
    """partial_fit gives no labels, so that none of an earlier fit are left to be mistaken."""
    model = KMeans(3, random_state=0).fit(heavy)
    model.partial_fit(10 + heavy[:50])
    assert not hasattr(model, "labels_") or len(model.labels_) == 50


def test_errors_of_partial_fit(make, heavy):
    model = make(4, random_state=0).partial_fit(heavy)
    with pytest.raises(ValueError, match=r"X has 3 features, but .*Means is expecting 4 features"):
        model.partial_fit(heavy[:, :3])
    with pytest.raises(ValueError, match=r"n_samples=2 should be >= 4, the number"):
        make(4).partial_fit(heavy[:2])
    before = np.array(model.cluster_centers_)
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(np.full((5, 4), np.nan))
    np.testing.assert_array_equal(model.cluster_centers_, before)
    assert model.partial_fit(heavy[:1]).n_iter_ == 2  # later batches may be small


# --- fit in batches --------------------------------------------------------------------------------


def test_batch_size_comes_near_the_full_fit(make):
    X = axes_and_noise()
    n_clusters = n_clusters_of(make, 6)
    parameters = {"init": "orthonormal", "random_state": 0}
    full = make(n_clusters, **parameters).fit(X)
    batched = make(n_clusters, batch_size=500, **parameters).fit(X)
    assert batched.score(X) == pytest.approx(full.score(X), rel=0.04)
    assert batched.counts_.sum() == 6000


def test_batches_are_repeatable(make, heavy):
    first, again, other = (
        make(4, batch_size=64, random_state=seed).fit(heavy) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first.cluster_centers_, again.cluster_centers_)
    np.testing.assert_array_equal(first.labels_, again.labels_)
    assert not np.array_equal(first.cluster_centers_, other.cluster_centers_)


def test_one_batch_of_all_rows_begins_as_the_full_fit(make, heavy, start):
    n_clusters = n_clusters_of(make, 4)
    whole = make(n_clusters, init=start, max_iter=1).fit(heavy)
    batch = make(n_clusters, init=start, max_iter=1, batch_size=600).fit(heavy)
    np.testing.assert_allclose(batch.cluster_centers_, whole.cluster_centers_, atol=1e-12)


@pytest.mark.parametrize("make", [KMeans, GainShapeKMeans, CosineKMeans])
def test_batches_of_weighted_rows(make):
    """Rows without weight do not count in any batch."""
    X = axes_and_noise(600, 2)
    outliers = np.full((100, 2), 30.0)
    weights = np.repeat([1.0, 0.0], [600, 100])
    model = make(4, batch_size=50, random_state=0)
    model.fit(np.concatenate([X, outliers]), sample_weight=weights)
    assert model.counts_.sum() == pytest.approx(600)
    assert np.abs(model.cluster_centers_).max() < 10


def test_batches_of_any_kind(as_kind, heavy):
    model = KMeans(4, batch_size=100, random_state=0).fit(as_kind(heavy))
    full = KMeans(4, random_state=0).fit(heavy)
    assert model.inertia_ < 1.1 * full.inertia_


def test_a_batch_may_have_fewer_rows_than_clusters(heavy):
    model = KMeans(8, batch_size=7, random_state=0).fit(heavy)
    assert model.inertia_ < 1.3 * KMeans(8, random_state=0).fit(heavy).inertia_
