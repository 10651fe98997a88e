"""Centres without rows: refilled from the data, kept, or dropped."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.cluster import MiniBatchKMeans
from sklearn.exceptions import ConvergenceWarning

import clusterica
from clusterica.arrays import to_host
from clusterica.cluster import CosineKMeans, GainShapeKMeans, KMeans, SphericalKMeans

# Three groups of 30, 20 and 10 rows, and the direction of each.
AXES = np.eye(3)
X = np.repeat(AXES, [30, 20, 10], axis=0) * np.random.default_rng(0).uniform(1, 2, size=(60, 1))
# One centre for each group, and two that are the best of no row.
START = np.concatenate([AXES, [[-1.0, -1.0, 0.1], [-1.0, 0.1, -1.0]]])
EMPTY_UNDER = {
    "euclidean": (KMeans, START),
    "gain-shape": (GainShapeKMeans, np.concatenate([AXES, AXES[:1], AXES[:1]])),
    "direction": (lambda k, **p: SphericalKMeans(k, **p), START),
    "axis": (CosineKMeans, np.concatenate([AXES, AXES[:1], AXES[:1]])),
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
    with pytest.warns(ConvergenceWarning, match=r"2 of 5 clusters are empty.*lower n_"):
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
    "model", [GainShapeKMeans(2, damping=0.0), CosineKMeans(2)], ids=["gain-shape", "axis"]
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


# --- What fit says of its rows, and what predict says -----------------------------------------------


@pytest.mark.parametrize("empty", ["data", "keep", "drop"])
@pytest.mark.parametrize("batch_size", [None, 16])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.filterwarnings("ignore:.*clusters are empty:sklearn.exceptions.ConvergenceWarning")
def test_predict_repeats_fit(make, as_kind, empty, batch_size, dtype, fitted_objective):
    """Many rows lie in the middle of two centres, and rounding decides: the same way each time."""
    for seed in range(3):
        rows = np.random.default_rng(seed).integers(0, 2, size=(64, 8)).astype(dtype)
        X = as_kind(rows)
        n_clusters = 16 if make(4).get_params().get("orthogonal") else 40
        model = make(n_clusters, empty=empty, min_count=2, batch_size=batch_size, max_iter=5)
        model.set_params(random_state=seed, init="gaussian").fit(X)
        labels = to_host(model.labels_)
        np.testing.assert_array_equal(to_host(model.predict(X)), labels)
        counts = np.bincount(labels, minlength=model.cluster_centers_.shape[0])
        np.testing.assert_array_equal(to_host(model.counts_), counts)
        assert abs(model.score(X)) == fitted_objective(model)
        if empty == "drop":
            if isinstance(model, CosineKMeans):
                counts = counts.reshape(2, -1).sum(axis=0)
            assert counts.min() >= 2


# --- Where centres without rows go ------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", [np.array, sparse.csr_array])
@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_fewer_distinct_rows_than_clusters_end_at_once(make, dtype, kind, offset):
    """Nothing is left to do once every row has a centre, even though some centres have no row."""
    if make(4).get_params().get("orthogonal"):
        pytest.skip("orthogonal centres are not moved to rows")
    distinct = np.random.default_rng(0).standard_normal((3, 4)) + offset
    X = kind(np.repeat(distinct, 33, axis=0).astype(dtype))
    model = make(
        12 if isinstance(make(4), CosineKMeans) else 6, tol=0, init="k-means++", random_state=0
    )
    with pytest.warns(ConvergenceWarning, match="3 of 6 clusters are empty"):
        model.fit(X)
    assert model.n_iter_ < 10


def blobs(n_blobs=10, n_rows=20):
    """Blobs around places that are far apart, in direction too, whatever their sign."""
    places = 10 * np.linalg.qr(np.random.default_rng(0).standard_normal((n_blobs, n_blobs)))[0]
    return np.repeat(places, n_rows, axis=0) + 0.1 * np.random.default_rng(1).standard_normal(
        (n_blobs * n_rows, n_blobs)
    )


def test_empty_centers_find_the_rows_that_need_them(make, as_kind):
    """All centres begin in one place; those without rows go where rows are far from all others."""
    if make(4).get_params().get("orthogonal"):
        pytest.skip("orthogonal centres are not moved to rows")
    rows = blobs()
    for seed in range(5):
        model = make(20 if isinstance(make(4), CosineKMeans) else 10, init=np.full((10, 10), 3.0))
        model.set_params(random_state=seed).fit(as_kind(rows))
        counts = to_host(model.counts_)
        counts = counts.reshape(2, -1).sum(axis=0) if isinstance(make(4), CosineKMeans) else counts
        assert counts.tolist() == [20] * 10


def test_empty_centers_do_not_depend_on_blocks():
    X = np.random.default_rng(0).standard_normal((12_000, 6))
    init = np.concatenate([X[:10], np.full((10, 6), 50.0)])
    first = KMeans(20, init=init, random_state=0, max_iter=5).fit(X)
    assert first.counts_.min() > 0
    for memory, threads in [("1MB", 1), ("1MB", 3), ("1GB", 2)]:
        with clusterica.config_context(memory=memory, threads=threads):
            again = KMeans(20, init=init, random_state=0, max_iter=5).fit(X)
        np.testing.assert_allclose(again.cluster_centers_, first.cluster_centers_, atol=1e-9)


def test_empty_centers_ignore_rows_without_weight():
    X = np.concatenate([blobs(), np.full((50, 10), 1e3)])
    weights = np.repeat([1.0, 0.0], [200, 50])
    model = KMeans(10, init=np.full((10, 10), 3.0), random_state=0).fit(X, sample_weight=weights)
    assert model.counts_.tolist() == [20] * 10


def test_tight_clusters_are_not_taken_for_points():
    X = np.repeat([[0.0, 0.0], [1.0, 1.0]], 20, axis=0)
    X += 1e-6 * np.random.default_rng(0).standard_normal(X.shape)
    init = np.concatenate([X[[0, 20]], np.full((8, 2), 5.0)])
    assert KMeans(10, init=init, random_state=0, tol=0).fit(X).counts_.min() > 0


@pytest.mark.parametrize("how", ["batch_size", "partial_fit"])
def test_batches_revive_centers(make, as_kind, how):
    """Centres that begin far from all rows, in one place, are used in the end."""
    if make(4).get_params().get("orthogonal"):
        pytest.skip("orthogonal centres are not moved to rows")
    rows = np.random.default_rng(0).permutation(blobs(n_rows=300))
    model = make(
        20 if isinstance(make(4), CosineKMeans) else 10,
        init=np.full((10, 10), 300.0),
        random_state=0,
    )
    if how == "batch_size":
        model.set_params(batch_size=100, max_iter=3).fit(as_kind(rows))
    else:
        for batch in np.split(rows, 30):
            model.partial_fit(as_kind(batch))
    labels = to_host(model.predict(as_kind(rows))) % 10
    assert np.bincount(labels, minlength=10).min() > 0


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # some stay empty
def test_batches_leave_centers_alone_if_asked():
    rows = np.random.default_rng(0).permutation(blobs(n_rows=300))
    init = np.concatenate([rows[:9], np.full((1, 10), 300.0)])
    model = KMeans(10, init=init, empty="keep", batch_size=100, max_iter=3, random_state=0)
    np.testing.assert_array_equal(model.fit(rows).cluster_centers_[9], init[9])
    model = KMeans(10, init=init, empty="keep", random_state=0)
    for batch in np.split(rows, 30):
        model.partial_fit(batch)
    np.testing.assert_array_equal(model.cluster_centers_[9], init[9])


def test_rare_clusters_keep_their_centers_in_batches():
    """One row in 500 is far away: its centre waits for the next such row."""
    X = np.random.default_rng(0).standard_normal((20_000, 2))
    X[::500] += 50
    model = KMeans(5, init=np.concatenate([X[1:5], X[:1]]), random_state=0)
    for batch in np.split(X, 200):
        model.partial_fit(batch)
    np.testing.assert_allclose(model.cluster_centers_[4], X[::500].mean(axis=0))


@pytest.mark.parametrize("start", ["k-means++", "far"])
def test_batches_end_where_those_of_scikit_learn_do(start):
    places = np.random.default_rng(0).uniform(-10, 10, size=(20, 2))
    ours, theirs = [], []
    for seed in range(5):
        X = np.repeat(places, 200, axis=0) + np.random.default_rng(seed).standard_normal((4000, 2))
        init = start if start != "far" else np.full((20, 2), 1e3) + 1e-3 * places
        common = {"init": init, "batch_size": 200, "max_iter": 10, "random_state": seed}
        ours.append(KMeans(20, **common).fit(X).inertia_)
        theirs.append(MiniBatchKMeans(20, n_init=1, **common).fit(X).inertia_)
    assert np.mean(ours) < 1.1 * np.mean(theirs)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_an_inertia_that_rounding_hides_ends_the_fit(dtype):
    """CSR rows closer than the rounding of their squares go to other centres at every step."""
    spread = 30 * np.sqrt(np.finfo(dtype).eps)  # of rows of length 17,000
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = (1e4 + spread * rng.normal(size=(4, 3)))[rng.integers(0, 4, 40)].astype(dtype)
        model = KMeans(20, init="rows", tol=0, random_state=seed)
        with pytest.warns(ConvergenceWarning, match="clusters are empty"):
            model.fit(sparse.csr_array(X))
        assert model.n_iter_ < 50
        np.testing.assert_array_equal(model.labels_, model.predict(sparse.csr_array(X)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_directions_that_rounding_hides_end_the_fit(dtype):
    """Far from the origin, all rows have nearly one direction."""
    spread = 0.3 * np.sqrt(np.finfo(dtype).eps)
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X = (1e3 + 1e3 * spread * rng.normal(size=(4, 4)))[rng.integers(0, 4, 60)].astype(dtype)
        model = SphericalKMeans(8, init="rows", tol=0, random_state=seed)
        with pytest.warns(ConvergenceWarning, match="clusters are empty"):
            model.fit(X)
        assert model.n_iter_ < 50
        np.testing.assert_array_equal(model.labels_, model.predict(X))


def test_damped_centres_of_sparse_rows_move_on_where_rounding_hides_the_inertia():
    """Every row lies on one of three lines, and the centres end on these as for dense rows."""
    rng = np.random.default_rng(0)
    lines = rng.normal(size=(3, 6))
    lines /= np.linalg.norm(lines, axis=1, keepdims=True)
    X = (lines[np.arange(60) % 3] * rng.normal(size=(60, 1))).astype(np.float32)
    start = lines + 0.05 * rng.normal(size=lines.shape)
    model = GainShapeKMeans(3, init=start, tol=0).fit(sparse.csr_array(X))
    np.testing.assert_allclose(model.cluster_centers_, lines, atol=1e-6)
