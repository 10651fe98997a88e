"""Where the centres start: every method under every rule, given arrays and callables."""

import numpy as np
import pytest
from scipy import sparse

from clusterica.arrays import as_rows, to_host
from clusterica.cluster import CosineKMeans, GainShapeKMeans, KMeans, SphericalKMeans
from clusterica.cluster._init import METHODS, draw_rows


@pytest.mark.parametrize("init", METHODS)
@pytest.mark.parametrize("n_clusters", [2, 6, 8, 20])
def test_every_method_under_every_rule(make, init, n_clusters, heavy):
    """Few centres, as many as axes, and more than twice the features (d = 4)."""
    if make(4).get_params().get("orthogonal"):
        n_clusters = min(n_clusters, 8)
    X = heavy.astype(np.float32)
    model = make(n_clusters, init=init, random_state=0, max_iter=3).fit(X)
    C = model.cluster_centers_
    assert C.shape == (n_clusters, 4)
    assert C.dtype == np.float32
    assert len(np.unique(C, axis=0)) == n_clusters
    assert np.all(model.counts_ > 0)
    if not isinstance(model, KMeans):
        np.testing.assert_allclose(np.linalg.norm(C, axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize("init", METHODS)
def test_methods_take_sparse_rows(make, init):
    X = sparse.random_array((400, 8), density=0.4, rng=np.random.default_rng(0), format="csr")
    X.data -= 0.5
    a = make(4, init=init, random_state=0).fit(X)
    b = make(4, init=init, random_state=0).fit(X.toarray())
    np.testing.assert_allclose(a.cluster_centers_, b.cluster_centers_, atol=1e-9)


@pytest.mark.parametrize("init", METHODS)
def test_seeds(make, init, heavy):
    """An int, a RandomState or a Generator repeats a fit; another seed starts elsewhere."""

    def objective(seed):
        return make(4, init=init, random_state=seed).fit(heavy).objective_history_[0]

    assert objective(3) == objective(3)
    assert objective(np.random.RandomState(3)) == objective(np.random.RandomState(3))
    assert objective(np.random.default_rng(3)) == objective(np.random.default_rng(3))
    assert len({objective(seed) for seed in range(5)}) > 1


def test_an_integer_seed_is_not_used_up(heavy):
    model = KMeans(4, init="rows", random_state=0)
    first = model.fit(heavy).cluster_centers_
    np.testing.assert_array_equal(model.fit(heavy).cluster_centers_, first)


def test_a_generator_goes_on(heavy):
    model = KMeans(4, init="rows", random_state=np.random.default_rng(0))
    first = model.fit(heavy).objective_history_[0]
    assert model.fit(heavy).objective_history_[0] != first


def test_rows_start_on_rows(heavy):
    """With as many clusters as rows every row is its own centre."""
    X = heavy[:12]
    model = KMeans(12, init="rows", random_state=0).fit(X)
    assert model.inertia_ == pytest.approx(0, abs=1e-12)
    assert sorted(model.labels_) == list(range(12))


@pytest.mark.parametrize("make", [GainShapeKMeans, CosineKMeans])
def test_rows_become_unit_vectors(make, heavy):
    """The first objective is that of unit centres, however long the chosen rows are."""
    first, first_of_long_rows = (
        make(4, init="rows", random_state=0, max_iter=1).fit(X).objective_history_[0]
        for X in (heavy, 100 * heavy)
    )
    assert first > 0
    assert first_of_long_rows == pytest.approx(first * (100 if make is CosineKMeans else 100**2))


def test_plus_plus_finds_every_blob():
    centers = 100 * np.random.default_rng(0).standard_normal((10, 3))
    X = np.repeat(centers, 20, axis=0) + np.random.default_rng(1).standard_normal((200, 3))
    for seed in range(5):
        model = KMeans(10, random_state=seed).fit(X)
        assert sorted(model.counts_) == [20] * 10


def test_plus_plus_in_the_geometry_of_the_rule():
    """Few rows in some directions, of either sign: k-means++ finds them all."""
    rng = np.random.default_rng(0)
    axes = np.repeat(np.eye(6), [500, 500, 500, 20, 20, 20], axis=0)
    X = axes * rng.choice([-1, 1], size=(len(axes), 1)) * rng.uniform(1, 2, size=(len(axes), 1))
    X += 0.01 * rng.standard_normal(X.shape)
    for make in (GainShapeKMeans, CosineKMeans):
        model = make(6, init="k-means++", random_state=0).fit(X)
        np.testing.assert_allclose(np.abs(model.cluster_centers_).max(axis=1), 1, atol=1e-3)
    unsigned = SphericalKMeans(12, init="k-means++", random_state=0).fit(X)
    np.testing.assert_allclose(np.abs(unsigned.cluster_centers_).max(axis=1), 1, atol=1e-2)


@pytest.mark.parametrize("init", ["k-means++", "rows"])
@pytest.mark.parametrize("how", ["fit", "batches", "partial_fit"])
@pytest.mark.filterwarnings("ignore:.*clusters are empty:sklearn.exceptions.ConvergenceWarning")
def test_rows_without_weight_are_no_start(make, as_kind, init, how):
    """Rows with weight lie in one plane, the others far away, orthogonal to it."""
    rng = np.random.default_rng()
    has_weight = rng.random(400) < 0.3
    X = rng.normal(size=(400, 4)) * np.where(has_weight[:, None], [1, 1, 0, 0], [0, 0, 1e3, 1e3])
    weights = has_weight * rng.uniform(0.1, 1, size=400)
    model = make(4, init=init, empty="keep", max_iter=1)
    if how == "partial_fit":
        model.partial_fit(as_kind(X), sample_weight=weights)
    else:
        model.set_params(batch_size=50 if how == "batches" else None)
        model.fit(as_kind(X), sample_weight=weights)
    np.testing.assert_allclose(to_host(model.cluster_centers_)[:, 2:], 0, atol=1e-9)


@pytest.mark.parametrize("n_rows", [1000, 25_000])  # the latter is more than the sample
@pytest.mark.parametrize("init", ["k-means++", "rows"])
def test_heavy_rows_are_the_start(n_rows, init):
    """Five rows have nearly all the weight, so that they are chosen."""
    X = np.random.default_rng(0).standard_normal((n_rows, 3))
    weights = np.where(np.arange(n_rows) % (n_rows // 5) == 7, 1e9, 1e-3)
    for seed in range(5):
        model = KMeans(5, init=init, random_state=seed).fit(X, sample_weight=weights)
        assert model.objective_history_[0] < 1e6


def test_spread_start_uses_weights():
    """Gaussian starts lie around the mean of the rows with weight."""
    X = np.concatenate([np.random.default_rng(0).standard_normal((50, 3)), np.full((50, 3), 1e3)])
    weights = np.repeat([1.0, 1e-9], 50)
    model = KMeans(4, init="gaussian", random_state=0, max_iter=1, empty="keep")
    assert model.fit(X, sample_weight=weights).objective_history_[0] < 1e3


def test_draws_are_in_proportion_to_weights():
    rows, weights = as_rows(np.arange(6.0)[:, None]), np.array([0.0, 1, 2, 3, 4, 0])
    rng = np.random.default_rng(0)
    firsts, pairs, totals = np.zeros(6), np.zeros(6), []
    for _ in range(4000):
        drawn, w = draw_rows(rows, weights, 2, rng)
        firsts[int(drawn[0, 0])] += 1
        pairs[drawn[:, 0].astype(int)] += 1
        totals.append(w.sum())
    np.testing.assert_allclose(firsts / 4000, weights / 10, atol=0.05)  # 6 standard deviations
    # Drawn as the first, or as the second after another one: p_i + sum_j p_j p_i / (1 - p_j).
    p = weights / 10
    second = [p[i] * (p / (1 - p))[np.arange(6) != i].sum() for i in range(6)]
    np.testing.assert_allclose(pairs / 4000, p + second, atol=0.05)
    assert pairs[0] == pairs[5] == 0
    assert np.mean(totals) == pytest.approx(10, rel=0.1)


def test_equal_weights_draw_as_none():
    rows = as_rows(np.arange(50.0)[:, None])
    none = np.broadcast_to(np.ones(1), (50,))
    for n in (7, 50):
        a, _ = draw_rows(rows, none, n, np.random.default_rng(3))
        b, _ = draw_rows(rows, np.full(50, 2.0), n, np.random.default_rng(3))
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("init", ["k-means++", "rows"])
@pytest.mark.parametrize("make", [GainShapeKMeans, CosineKMeans])
def test_rows_of_zeros_are_no_start(make, init, heavy):
    X = np.concatenate([np.zeros((300, 4)), heavy[:10]])
    C = make(4, init=init, random_state=0, max_iter=1).fit(X).cluster_centers_
    np.testing.assert_allclose(np.linalg.norm(C, axis=1), 1)
    with pytest.raises(ValueError, match=r"rows that are not zero.*lower the number"):
        make(30, init=init, random_state=0).fit(X)


# --- The user's own centres ------------------------------------------------------------------------


def test_given_half_or_pairs(heavy, start):
    half = CosineKMeans(init=start).fit(heavy)
    pairs = CosineKMeans(init=np.concatenate([start, -start])).fit(heavy)
    np.testing.assert_array_equal(half.cluster_centers_, pairs.cluster_centers_)


@pytest.mark.parametrize(
    "model", [GainShapeKMeans(4), SphericalKMeans(4), CosineKMeans(4)], ids=str
)
def test_given_centers_need_no_unit_length(model, heavy, start):
    unit = model.set_params(init=start, max_iter=2).fit(heavy).cluster_centers_
    long = model.set_params(init=7 * start).fit(heavy).cluster_centers_
    np.testing.assert_allclose(long, unit)


def test_given_centers_are_left_alone(make, heavy, start):
    n_clusters = 8 if isinstance(make(4), CosineKMeans) else 4
    given = np.array(3 * start)
    model = make(n_clusters, init=given).fit(heavy)
    np.testing.assert_array_equal(given, 3 * start)
    assert model.init is given


@pytest.mark.parametrize(
    "kind",
    [np.ndarray.tolist, np.asfortranarray, lambda C: C.astype("f4")],
    ids=["list", "F", "f4"],
)
def test_given_as_anything_like_an_array(kind, heavy, start):
    expected = KMeans(4, init=start).fit(heavy)
    model = KMeans(4, init=kind(start)).fit(heavy)
    np.testing.assert_allclose(model.cluster_centers_, expected.cluster_centers_, atol=1e-6)


def test_given_as_a_tensor(heavy, start):
    torch = pytest.importorskip("torch")
    expected = KMeans(4, init=start).fit(heavy)
    model = KMeans(4, init=torch.asarray(start)).fit(heavy)
    np.testing.assert_allclose(model.cluster_centers_, expected.cluster_centers_)


@pytest.mark.parametrize(
    ("model", "init", "message"),
    [
        (KMeans(2), np.ones((3, 4)), r"initial centers \(3, 4\).*must be \(2, 4\)"),
        (KMeans(2), np.ones((2, 3)), r"initial centers \(2, 3\).*must be \(2, 4\)"),
        (KMeans(2), np.ones(4), r"initial centers \(4,\)"),
        (KMeans(2), np.full((2, 4), np.nan), "NaN or infinity"),
        (KMeans(2), np.full((2, 4), -np.inf), "NaN or infinity"),
        (KMeans(2), lambda X, n_clusters, random_state: np.ones((1, 4)), r"must be \(2, 4\)"),
        (GainShapeKMeans(2), np.eye(2, 4) * [[1], [0]], "row of zeros"),
        (CosineKMeans(2), np.eye(4), "antipodal pairs"),
        (CosineKMeans(2), np.eye(3, 4), r"must be \(2, 4\)"),
        (CosineKMeans(2, orthogonal=True), np.zeros((2, 4)), "row of zeros"),
    ],
)
def test_bad_centers(model, init, message, heavy):
    with pytest.raises(ValueError, match=message):
        model.set_params(init=init).fit(heavy)


@pytest.mark.parametrize("bad", ["kmeans++", 3, None])
def test_unknown_method(bad, heavy):
    with pytest.raises(ValueError, match="The 'init' parameter of KMeans must be"):
        KMeans(2, init=bad).fit(heavy)


def test_callable(make, heavy, start):
    calls = []

    def init(X, n_clusters, random_state):
        calls.append((X, n_clusters, random_state))
        return start

    n_clusters = 8 if isinstance(make(4), CosineKMeans) else 4
    model = make(n_clusters, init=init, random_state=0).fit(heavy)
    expected = make(n_clusters, init=start).fit(heavy)
    np.testing.assert_array_equal(model.cluster_centers_, expected.cluster_centers_)
    ((X, asked, random_state),) = calls
    assert X is heavy
    assert asked == n_clusters
    assert isinstance(random_state, np.random.RandomState)


def test_callable_of_scikit_learn(heavy):
    """scikit-learn's own k-means++ can be passed by."""
    from sklearn.cluster import kmeans_plusplus

    def init(X, n_clusters, random_state):
        return kmeans_plusplus(X, n_clusters, random_state=random_state)[0]

    first, again = (KMeans(4, init=init, random_state=0).fit(heavy) for _ in range(2))
    np.testing.assert_array_equal(first.cluster_centers_, again.cluster_centers_)
