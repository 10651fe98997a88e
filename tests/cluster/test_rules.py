"""Each rule does what its equation says, and what holds for all of them."""

import numpy as np
import pytest
import sklearn.cluster
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.metrics import adjusted_rand_score

from clusterica.cluster import CosineKMeans, GainShapeKMeans, KMeans, SphericalKMeans

# --- One iteration against three lines of NumPy ----------------------------------------------------


def normalize(D):
    return D / np.linalg.norm(D, axis=1, keepdims=True)


def code(values, labels, n_centers):
    S = np.zeros((len(labels), n_centers))
    S[np.arange(len(labels)), labels] = values
    return S


def model_id(value):
    """Name a case by its estimator alone: a function has another address in every process."""
    return "" if callable(value) else str(value)


def euclidean_step(X, C):
    S = code(1.0, cdist(X, C).argmin(axis=1), len(C))
    return (S.T @ X) / S.sum(axis=0)[:, None]


def gain_shape_step(X, D, *, damping):
    R = X @ D.T
    labels = np.abs(R).argmax(axis=1)
    return normalize(code(R[np.arange(len(X)), labels], labels, len(D)).T @ X + damping * D)


def direction_step(X, D):
    U = normalize(X)
    return normalize(code(1.0, (U @ D.T).argmax(axis=1), len(D)).T @ U)


def signed_sums(X, C):
    R = X @ C.T
    labels = np.abs(R).argmax(axis=1)
    return code(np.sign(R[np.arange(len(X)), labels]), labels, len(C)).T @ X


def axis_step(X, C):
    return normalize(signed_sums(X, C))


def orthogonal_step(X, C):
    M = signed_sums(X, C)
    values, V = np.linalg.eigh(M @ M.T)
    return (V / np.sqrt(values)) @ V.T @ M  # (M Mᵀ)^(-1/2) M, the polar factor


@pytest.mark.parametrize(
    ("model", "step"),
    [
        (KMeans(4), euclidean_step),
        (GainShapeKMeans(4), lambda X, C: gain_shape_step(X, C, damping=1.0)),
        (GainShapeKMeans(4, damping=50.0), lambda X, C: gain_shape_step(X, C, damping=50.0)),
        (GainShapeKMeans(4, damping=0.0), lambda X, C: gain_shape_step(X, C, damping=0.0)),
        (SphericalKMeans(4), direction_step),
        (CosineKMeans(4), axis_step),
        (CosineKMeans(4, orthogonal=True), orthogonal_step),
    ],
    ids=model_id,
)
@pytest.mark.parametrize("n_iter", [1, 3])
def test_iterations_by_hand(model, step, n_iter, heavy, start):
    C = start
    for _ in range(n_iter):
        C = step(heavy, C)
    model.set_params(init=start, max_iter=n_iter, tol=0).fit(heavy)
    np.testing.assert_allclose(model.cluster_centers_[:4], C, rtol=1e-10, atol=1e-12)
    assert model.n_iter_ == n_iter


def test_antipodal_pairs(heavy, start):
    C = CosineKMeans(init=start).fit(heavy).cluster_centers_
    np.testing.assert_array_equal(C[4:], -C[:4])


@pytest.mark.parametrize(
    ("model", "objective"),
    [
        (KMeans(4), lambda X, C: (cdist(X, C).min(axis=1) ** 2).sum()),
        (
            GainShapeKMeans(4),
            lambda X, C: ((X**2).sum(axis=1) - np.abs(X @ C.T).max(axis=1) ** 2).sum(),
        ),
        (
            SphericalKMeans(4),
            lambda X, C: (1 - (normalize(X) @ C.T).max(axis=1)).sum(),
        ),
        (CosineKMeans(4), lambda X, C: (X @ C.T).max(axis=1).mean()),
    ],
    ids=model_id,
)
def test_objective_by_hand(model, objective, heavy, start, fitted_objective):
    model.set_params(init=start, max_iter=5, tol=0).fit(heavy)
    first = start if "n_clusters" in model.get_params() else np.concatenate([start, -start])
    assert fitted_objective(model) == pytest.approx(objective(heavy, model.cluster_centers_))
    assert model.objective_history_[0] == pytest.approx(objective(heavy, first))
    assert model.objective_history_[-1] == fitted_objective(model)
    assert len(model.objective_history_) == model.n_iter_ + 1
    assert abs(model.score(heavy)) == pytest.approx(fitted_objective(model))


# --- Plain K-means against scikit-learn ------------------------------------------------------------


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array, sparse.csr_matrix])
@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-10), (np.float32, 2e-4)])
@pytest.mark.parametrize("weighted", [False, True])
def test_agrees_with_scikit_learn(container, dtype, rtol, weighted):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(700, 6)).astype(dtype)
    X[rng.random(X.shape) < 0.4] = 0
    weights = rng.uniform(0, 3, size=700) if weighted else None
    settings = {"n_clusters": 9, "init": X[:9], "max_iter": 100, "tol": 0}
    peer = sklearn.cluster.KMeans(**settings, n_init=1).fit(container(X), sample_weight=weights)
    ours = KMeans(**settings).fit(container(X), sample_weight=weights)
    np.testing.assert_allclose(ours.cluster_centers_, peer.cluster_centers_, rtol=rtol, atol=rtol)
    np.testing.assert_array_equal(ours.labels_, peer.labels_)
    assert ours.inertia_ == pytest.approx(peer.inertia_, rel=rtol)
    assert ours.cluster_centers_.dtype == dtype
    np.testing.assert_allclose(
        ours.transform(container(X)), peer.transform(container(X)), rtol=rtol, atol=10 * rtol
    )
    assert ours.score(container(X), sample_weight=weights) == pytest.approx(
        peer.score(container(X), sample_weight=weights), rel=rtol
    )


def blobs(offset, spread, n=300):
    """Three blobs at distances of about 10, far from the origin, as float32."""
    rng = np.random.default_rng(0)
    where = np.repeat(np.array([[0, 0, 0], [10, 0, 5], [0, 10, -5]]), n // 3, axis=0)
    X = (offset + where + spread * rng.standard_normal((n, 3))).astype(np.float32)
    return X, np.repeat([0, 1, 2], n // 3)


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_float32_far_from_the_origin(method):
    X, truth = blobs(1e4, 1.0)
    model = KMeans(3, init=X[[0, 100, 200]])
    getattr(model, method)(X)
    means = np.stack([X[truth == j].mean(axis=0, dtype=np.float64) for j in range(3)])
    np.testing.assert_allclose(model.cluster_centers_, means, atol=2e-3)
    np.testing.assert_array_equal(model.predict(X), truth)
    true_distances = cdist(X.astype(np.float64), means)
    np.testing.assert_allclose(model.transform(X), true_distances, atol=5e-3)
    assert -model.score(X) == pytest.approx((true_distances.min(axis=1) ** 2).sum(), rel=1e-3)


@pytest.mark.parametrize("init", ["gaussian", "orthonormal"])
@pytest.mark.parametrize("n_rows", [20, 500, 2000])
def test_spread_of_the_start_far_from_the_origin(init, n_rows):
    """In float32 the mean of |x|^2 less |mean|^2 holds no digit of the variance here."""
    X = 1e4 + np.random.default_rng(0).standard_normal((n_rows, 4))
    first = [
        KMeans(4, init=init, random_state=0, empty="keep", max_iter=1).fit(X.astype(dtype))
        for dtype in (np.float32, np.float64)
    ]
    assert first[0].objective_history_[0] == pytest.approx(first[1].objective_history_[0], rel=0.01)


def tight_clusters(width, dtype):
    """Clusters much smaller than their distances."""
    rng = np.random.default_rng(0)
    where = np.repeat(np.array([[0.0, 1.0], [1.0, 0.0], [-1.0, 0.0]]), 50, axis=0)
    return (where + width * rng.standard_normal(where.shape)).astype(dtype)


@pytest.mark.parametrize(("dtype", "width"), [(np.float32, 1e-4), (np.float64, 1e-9)])
def test_inertia_of_tight_clusters(dtype, width):
    """Inertia is no difference of large numbers, as it is not in scikit-learn."""
    X = tight_clusters(width, dtype)
    model = KMeans(3, init=X[[0, 50, 100]]).fit(X)
    parts = X.reshape(3, 50, 2).astype(np.float64)
    true = ((parts - parts.mean(axis=1, keepdims=True)) ** 2).sum()
    assert model.inertia_ == pytest.approx(true, rel=0.1, abs=0)


def test_float32_distances_to_tight_clusters():
    X = tight_clusters(1e-4, np.float32)
    model = KMeans(3, init=X[[0, 50, 100]]).fit(X)
    distances = cdist(X, model.cluster_centers_)  # in float64
    np.testing.assert_allclose(model.transform(X), distances, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("n", [1, 50_000])
def test_one_cluster_is_the_mean(n):
    X = np.random.default_rng(0).random((n, 3)).astype(np.float32)
    model = KMeans(1, random_state=0).fit(X)
    mean = X.mean(axis=0, dtype=np.float64)
    np.testing.assert_allclose(model.cluster_centers_[0], mean, rtol=1e-6)
    assert model.inertia_ == pytest.approx(((X - mean) ** 2).sum(), rel=1e-5, abs=1e-12)
    assert model.counts_.tolist() == [n]


# --- What holds for every rule ---------------------------------------------------------------------

small_tables = st.tuples(st.integers(8, 40), st.integers(2, 4)).flatmap(
    # Small integers: many ties, equal rows, rows of zeros, empty clusters.
    lambda shape: arrays(np.float64, shape, elements=st.integers(-3, 3))
)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@settings(max_examples=30)
@given(X=small_tables, seed=st.integers(0, 99), empty=st.sampled_from(["data", "keep"]))
def test_objective_never_gets_worse(make, X, seed, empty):
    model = make(4, init="orthonormal", tol=0, max_iter=30, empty=empty, random_state=seed).fit(X)
    gain = np.diff(model.objective_history_)
    gain = gain if isinstance(model, CosineKMeans) else -gain
    assert gain.min(initial=0) >= -1e-12 * (1 + (X**2).sum())
    assert np.isfinite(model.cluster_centers_).all()


@pytest.mark.parametrize("init", ["gaussian", "k-means++", "rows"])
def test_orthogonal_objective_never_gets_worse_from_any_start(init, heavy):
    """Starts that are not orthogonal are made so before they are counted."""
    model = CosineKMeans(orthogonal=True, init=init, tol=0, max_iter=30, random_state=0).fit(heavy)
    assert np.diff(model.objective_history_).min() >= -1e-12


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6), d=st.integers(2, 6))
def test_rotation_equivariance(make, seed, d):
    """P0, definition 1, property 1: B(U S) = U B(S)."""
    rng = np.random.default_rng(seed)
    X, C = rng.laplace(size=(200, d)), rng.normal(size=(2, d))
    U, _ = np.linalg.qr(rng.normal(size=(d, d)))
    n_clusters = 4 if isinstance(make(4), CosineKMeans) else 2
    plain = make(n_clusters, init=C, max_iter=20, empty="keep").fit(X)
    turned = make(n_clusters, init=C @ U.T, max_iter=20, empty="keep").fit(X @ U.T)
    np.testing.assert_array_equal(turned.labels_, plain.labels_)
    np.testing.assert_allclose(turned.cluster_centers_, plain.cluster_centers_ @ U.T, atol=1e-9)
    np.testing.assert_allclose(turned.objective_history_, plain.objective_history_)


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6))
def test_weights_count_rows(make, seed):
    rng = np.random.default_rng(seed)
    X, C = rng.laplace(size=(150, 3)), rng.normal(size=(2, 3))
    weights = rng.integers(0, 4, size=150)
    n_clusters = 4 if isinstance(make(4), CosineKMeans) else 2
    weighted = make(n_clusters, init=C, empty="keep").fit(X, sample_weight=weights)
    repeated = make(n_clusters, init=C, empty="keep").fit(np.repeat(X, weights, axis=0))
    np.testing.assert_allclose(weighted.cluster_centers_, repeated.cluster_centers_, atol=1e-9)
    np.testing.assert_allclose(weighted.objective_history_, repeated.objective_history_)
    np.testing.assert_allclose(weighted.counts_, repeated.counts_)
    np.testing.assert_array_equal(np.repeat(weighted.labels_, weights), repeated.labels_)


def test_a_scale_of_the_weights_changes_no_center(heavy, start):
    one = CosineKMeans(init=start).fit(heavy)
    many = CosineKMeans(init=start).fit(heavy, sample_weight=np.full(600, 7.0))
    np.testing.assert_allclose(many.cluster_centers_, one.cluster_centers_, atol=1e-12)
    assert many.objective_ == pytest.approx(one.objective_)


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6), n_iter=st.integers(1, 20))
def test_orthogonal_centers_stay_orthonormal(seed, n_iter):
    rng = np.random.default_rng(seed)
    X = rng.laplace(size=(60, 5))
    model = CosineKMeans(4, orthogonal=True, init="rows", max_iter=n_iter, random_state=seed)
    C = model.fit(X).cluster_centers_[:4]
    np.testing.assert_allclose(C @ C.T, np.eye(4), atol=1e-10)


def test_more_starts_are_better(make, heavy, fitted_objective):
    """The best of several starts is kept: no start alone is better."""

    def merit(**parameters):
        model = make(8, init="gaussian", max_iter=2, **parameters).fit(heavy)
        value = fitted_objective(model)
        return value if isinstance(model, CosineKMeans) else -value

    rng = np.random.default_rng(0)
    alone = [merit(random_state=rng) for _ in range(5)]
    assert merit(n_init=5, random_state=np.random.default_rng(0)) == pytest.approx(max(alone))


def test_converged_centers_rest(make, heavy, start):
    n_clusters = 8 if isinstance(make(4), CosineKMeans) else 4
    model = make(n_clusters, init=start, tol=1e-12, max_iter=500).fit(heavy)
    assert model.n_iter_ < 500
    again = make(n_clusters, init=model.cluster_centers_, max_iter=500).fit(heavy)
    np.testing.assert_allclose(again.cluster_centers_, model.cluster_centers_, atol=1e-6)


def test_tol_ends_the_iterations(make, heavy, start):
    n_clusters = 8 if isinstance(make(4), CosineKMeans) else 4
    n_iter = [make(n_clusters, init=start, tol=tol).fit(heavy).n_iter_ for tol in (0.5, 1e-2, 1e-8)]
    assert n_iter[0] == 2  # the objective is compared from the second iteration on
    assert n_iter == sorted(n_iter)
    assert n_iter[0] < n_iter[2]


def test_opposite_clusters_are_two_for_text_and_one_for_patches(rng):
    """A direction and its negative are different topics, but the same filter."""
    signs = np.repeat([1, -1], 50)
    X = signs[:, None] * [5.0, 1.0, 0.0] + 0.1 * rng.standard_normal((100, 3))
    labels = SphericalKMeans(2, random_state=0).fit_predict(X)
    assert adjusted_rand_score(signs, labels) == 1
    patches = GainShapeKMeans(1, random_state=0).fit(X)
    assert patches.inertia_ < 0.02 * (X**2).sum()  # one centre explains both
