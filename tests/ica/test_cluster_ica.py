"""Cluster-ICA finds what was mixed; its matrices, conventions, inputs and warnings."""

import pickle
import warnings

import numpy as np
import pytest
import sklearn
import sklearn.cluster
from sklearn.base import BaseEstimator
from sklearn.decomposition import FastICA
from sklearn.utils.estimator_checks import parametrize_with_checks

import clusterica
from clusterica.arrays import as_rows, to_host
from clusterica.cluster import CosineKMeans, KMeans, SphericalKMeans
from clusterica.contrasts import Derivatives, Exponential, LogCosh, Quartic, SmoothedLaplace
from clusterica.datasets import make_sparse_sources
from clusterica.ica import ClusterICA, _centroids
from clusterica.ica._likelihood import maximize_likelihood
from clusterica.metrics import amari_distance, recovery_distance
from clusterica.preprocessing import Whitener


@pytest.fixture(scope="module")
def mixed():
    """20,000 rows of five Laplace sources, mixed by a matrix of condition about 10, off the origin."""
    rng = np.random.default_rng(3)
    U, _, Vt = np.linalg.svd(rng.normal(size=(5, 5)))
    A = U @ np.diag([3.0, 2, 1, 0.6, 0.3]) @ Vt
    X, S, A = make_sparse_sources(20_000, 5, mixing=A, random_state=3)
    return X + 7, S, A


# --- What it finds ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "limit"),
    [
        ({"refine": None}, 0.03),
        ({"refine": None, "clusterer": CosineKMeans(orthogonal=True)}, 0.02),
        ({"refine": None, "clusterer": KMeans(init="orthogonal")}, 0.03),
        ({"refine": None, "clusterer": SphericalKMeans(init="orthogonal")}, 0.03),
        ({"refine": None, "clusterer": sklearn.cluster.KMeans(n_init=3)}, 0.03),
        ({"refine": None, "whitener": Whitener("zca", eps=0.0)}, 0.03),
        ({"refine": None, "whitener": Whitener("cholesky", eps=0.0)}, 0.03),
        ({}, 0.012),
        ({"whitener": Whitener("zca", eps=0.5)}, 0.012),
        ({"refine": SmoothedLaplace()}, 0.012),
        ({"refine": LogCosh()}, 0.015),
        ({"refine": "ml", "cluster_rows": 2000}, 0.012),
        ({"refine": "ml", "clusterer": KMeans(init="orthogonal")}, 0.012),
    ],
    ids=str,
)
def test_the_mixing_is_undone(mixed, settings, limit):
    X, S, A = mixed
    ica = ClusterICA(random_state=0, **settings).fit(X)
    assert amari_distance(ica.components_, A) < limit
    assert amari_distance(np.linalg.inv(A), ica.mixing_) < limit
    Y = ica.transform(X)
    correlation = np.abs(np.corrcoef(Y.T, S.T)[:5, 5:])
    assert correlation.max(axis=0).min() > 0.99


def test_refined_sources_are_as_near_as_those_of_fastica():
    X, _, A = make_sparse_sources(10_000, 8, mixing="orthogonal", random_state=0)
    ours = ClusterICA(refine="ml", random_state=0).fit(X)
    theirs = FastICA(whiten="unit-variance", random_state=0, tol=1e-6).fit(X)
    ours, theirs = (recovery_distance(f.components_ @ A, np.eye(8)) for f in (ours, theirs))
    assert ours < 1.02 * theirs


@pytest.mark.parametrize("seed", range(3))
def test_every_start_finds_all_of_many_sources(seed):
    """Where usual starts of K-means end in poor optima from 20 sources on."""
    X, _, A = make_sparse_sources(10_000, 25, mixing="orthogonal", random_state=seed)
    ica = ClusterICA(refine=None, random_state=seed).fit(X)
    assert recovery_distance(ica.components_ @ A, np.eye(25)) < 0.2


def test_the_likelihood_falls_at_every_step(mixed):
    ica = ClusterICA(refine="ml", random_state=0).fit(mixed[0])
    assert len(ica.objective_history_) == ica.n_iter_ + 1
    assert 2 <= ica.n_iter_ <= 15
    assert (np.diff(ica.objective_history_) < 1e-9).all()


def test_the_gradient_is_zero_at_the_refined_sources(mixed):
    """E[G'(y) yᵀ] = I up to a tenth of its sampling error, at the scale of the likelihood."""
    X, _, _ = mixed
    ica = ClusterICA(refine=LogCosh(), random_state=0).fit(X)
    Y = ica.transform(X)
    # components_ are scaled to unit variance: find the scale where E[tanh(ay) ay] = 1 again.
    for _ in range(50):
        Y = Y / np.sqrt((np.tanh(Y) * Y).mean(axis=0))
    gradient = np.tanh(Y).T @ Y / len(Y) - np.eye(5)
    np.testing.assert_allclose(gradient, 0, atol=0.1 / np.sqrt(len(Y)))


def test_fewer_sources_than_features(mixed):
    X, _, _ = mixed
    ica = ClusterICA(2, random_state=0).fit(X)
    assert ica.components_.shape == (2, 5)
    assert ica.mixing_.shape == (5, 2)
    kept = np.linalg.svd(np.cov(X.T))[0][:, :2]
    np.testing.assert_allclose(kept @ kept.T @ ica.components_.T, ica.components_.T, atol=1e-8)


@pytest.mark.parametrize("share", [0.05, 0.02, 0.01, 0.005])
def test_more_sources_than_features(rng, share):
    """Three sparse sources in the plane; up to 98.5 % of the rows are zero, and lie in one cluster."""
    angles = np.radians([10, 70, 130])
    A = np.array([np.cos(angles), np.sin(angles)])
    shape = (int(3000 / share), 3)
    S = np.where(rng.random(shape) < share, rng.laplace(size=shape), 0)
    ica = ClusterICA(3, random_state=0).fit(S @ A.T)
    assert ica.n_components_ == 3
    assert ica.mixing_centroids_.shape == (6, 2)
    found = ica.mixing_ / np.linalg.norm(ica.mixing_, axis=0)
    degrees = np.degrees(np.arccos(np.minimum(np.abs(A.T @ found).max(axis=1), 1)))
    assert degrees.max() < 4


@pytest.mark.parametrize("seed", range(3))
def test_never_more_sources_than_asked_for(seed):
    """K-means scatters centroids that have no partner."""
    X, _, _ = make_sparse_sources(5000, 4, random_state=seed)
    for n in (5, 6, 8):
        assert ClusterICA(n, clusterer=KMeans(), random_state=seed).fit(X).n_components_ <= n


# --- Its matrices -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "whitener", [None, Whitener("zca", eps=0.1), Whitener("pca", eps="5%")], ids=str
)
@pytest.mark.parametrize("refine", [None, "ml"])
def test_sources_have_unit_variance_and_lead_back(mixed, whitener, refine):
    X, _, _ = mixed
    ica = ClusterICA(whitener=whitener, refine=refine, random_state=0).fit(X)
    Y = ica.transform(X)
    np.testing.assert_allclose(Y, (X - ica.mean_) @ ica.components_.T)
    np.testing.assert_allclose(Y.std(axis=0, ddof=1), 1)
    np.testing.assert_allclose(ica.inverse_transform(Y), X, atol=1e-10)


def test_mixing_is_the_inverse_for_orthogonal_centroids(mixed):
    clusterer = CosineKMeans(orthogonal=True)
    ica = ClusterICA(clusterer=clusterer, refine=None, random_state=0).fit(mixed[0])
    np.testing.assert_allclose(ica.mixing_ @ ica.components_, np.eye(5), atol=1e-6)


@pytest.mark.parametrize("refine", [None, "ml"])
def test_fewer_sources_reduce_the_space_of_a_given_whitener(mixed, refine):
    X, own = mixed[0], Whitener("pca", eps=0.0)
    settings = {"clusterer": CosineKMeans(orthogonal=True), "refine": refine, "random_state": 0}
    ica = ClusterICA(3, whitener=own, **settings).fit(X)
    assert own.n_components is None
    assert ica.whitener_.n_components_ == 3
    np.testing.assert_allclose(ica.mixing_, np.linalg.pinv(ica.components_), atol=1e-6)
    default = ClusterICA(3, **settings).fit(X)
    np.testing.assert_array_equal(ica.components_, default.components_)


def test_fewer_sources_leave_other_whiteners_as_they_are(mixed):
    for own in (Whitener("zca", eps=0.0), Whitener("pca", eps=0.0, n_components=4)):
        ica = ClusterICA(3, whitener=own, random_state=0).fit(mixed[0])
        assert ica.n_components_ == 3
        assert len(ica.objective_history_) == 0  # the centroids as they are
        with pytest.raises(ValueError, match=r"Whitener\('pca', eps=..., n_components=3\)"):
            ClusterICA(3, whitener=own, refine=LogCosh()).fit(mixed[0])


def test_centroids_in_both_spaces(mixed):
    ica = ClusterICA(refine=None, random_state=0).fit(mixed[0])
    C, T = ica.clusterer_.cluster_centers_, ica.whitener_.whitening_
    np.testing.assert_allclose(ica.filter_centroids_, C @ T)
    np.testing.assert_allclose(ica.mixing_centroids_, np.linalg.solve(T, C.T).T)
    # A component is a centroid but for its scale, and so is a column of the mixing matrix.
    for vectors, centroids in (
        (ica.components_, ica.filter_centroids_),
        (ica.mixing_.T, ica.mixing_centroids_),
    ):
        unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        others = centroids / np.linalg.norm(centroids, axis=1, keepdims=True)
        np.testing.assert_allclose((unit @ others.T).max(axis=1), 1)


def test_order_and_signs_follow_the_convention(mixed):
    X, _, _ = mixed
    fits = [ClusterICA(refine="ml", random_state=seed).fit(X) for seed in (0, 1)]
    np.testing.assert_allclose(fits[0].components_, fits[1].components_, atol=0.01)
    for ica in fits:
        assert (np.diff(ica.kurtosis_) <= 0).all()
        largest = np.abs(ica.mixing_).argmax(axis=0)
        assert (ica.mixing_[largest, range(5)] > 0).all()
    Y = fits[0].transform(X)
    np.testing.assert_allclose(fits[0].kurtosis_, (Y**4).mean(0) / (Y**2).mean(0) ** 2 - 3)


def test_the_clusterer_is_copied_and_gets_a_seed(mixed):
    X, _, _ = mixed
    clusterer = sklearn.cluster.KMeans(n_init=1)
    ica = ClusterICA(clusterer=clusterer, random_state=0).fit(X)
    assert clusterer.n_clusters == 8
    assert not hasattr(clusterer, "cluster_centers_")
    assert ica.clusterer_.n_clusters == 10
    again = ClusterICA(clusterer=clusterer, random_state=0).fit(X)
    np.testing.assert_array_equal(ica.components_, again.components_)


# --- Where the rows live ----------------------------------------------------------------------------


class Blocks:
    def __init__(self, X):
        self.X = X

    def __iter__(self):
        return (self.X[i : i + 3001] for i in range(0, len(self.X), 3001))


def memory_map(X, path):
    np.save(path / "X.npy", X)
    return np.load(path / "X.npy", mmap_mode="r")


LAYOUTS = {
    "memory map": memory_map,
    "blocks": lambda X, path: Blocks(X),
    "torch": lambda X, path: pytest.importorskip("torch").asarray(X),
    "strict": lambda X, path: pytest.importorskip("array_api_strict").asarray(X),
    "dask": lambda X, path: pytest.importorskip("dask.array").from_array(X, chunks=(4000, 3)),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("refine", [None, "ml"])
def test_the_same_sources_wherever_the_rows_live(mixed, layout, refine, tmp_path):
    X = mixed[0][:8000]
    expected = ClusterICA(refine=refine, random_state=0).fit(X)
    rows = LAYOUTS[layout](X, tmp_path)
    ica = ClusterICA(refine=refine, random_state=0).fit(rows)
    np.testing.assert_allclose(to_host(ica.components_), expected.components_, atol=1e-6)
    np.testing.assert_allclose(to_host(ica.transform(rows)), expected.transform(X), atol=1e-5)
    if layout != "blocks":
        assert (
            type(ica.transform(rows)).__module__ == type(rows).__module__ or layout == "memory map"
        )


def test_white_rows_beyond_the_budget_are_made_anew_on_every_walk(mixed):
    X = mixed[0]
    expected = ClusterICA(refine=None, random_state=0).fit(X)
    with clusterica.config_context(memory="256KiB"):
        ica = ClusterICA(refine=None, random_state=0).fit(X)
        np.testing.assert_allclose(ica.components_, expected.components_, atol=1e-6)


@pytest.mark.parametrize("refine", [None, "ml"])
def test_float32_stays_float32(mixed, refine):
    X = mixed[0].astype(np.float32)
    ica = ClusterICA(refine=refine, random_state=0).fit(X)
    right = ClusterICA(refine=refine, random_state=0).fit(X.astype(np.float64))
    names = ("components_", "mixing_", "mean_", "kurtosis_", "filter_centroids_")
    assert {getattr(ica, name).dtype for name in names} == {np.dtype(np.float32)}
    assert ica.transform(X).dtype == np.float32
    np.testing.assert_allclose(ica.components_, right.components_, atol=2e-3)


def test_a_model_can_be_pickled_and_names_its_sources(mixed):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(mixed[0][:2000], columns=list("abcde"))
    ica = ClusterICA(random_state=0).set_output(transform="pandas").fit(frame)
    sources = pickle.loads(pickle.dumps(ica)).transform(frame)
    assert list(sources.columns) == [f"clusterica{i}" for i in range(5)]
    np.testing.assert_allclose(ica.inverse_transform(sources), frame, atol=1e-10)


def test_progress_reaches_the_clusterer(mixed, bar):
    ica = ClusterICA(refine="ml", random_state=0).set_callbacks(bar).fit(mixed[0][:3000])
    assert bar.count("ClusterICA", "iteration") == ica.n_iter_
    assert bar.count("CosineKMeans", "iteration") > 1
    assert (bar.owners[-1], bar.names[-1]) == ("ClusterICA", "fit")


# --- scikit-learn -----------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*look Gaussian")
@pytest.mark.filterwarnings("ignore:.*the data varies in")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([ClusterICA(refine=None), ClusterICA(max_iter=3)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# --- Bad input --------------------------------------------------------------------------------------


def test_warns_of_gaussian_sources(rng):
    X = rng.normal(size=(5000, 4))
    for refine in (None, "ml"):
        with pytest.warns(UserWarning, match="4 of 4 sources look Gaussian"):
            ClusterICA(refine=refine, random_state=0).fit(X)
    X = np.column_stack([rng.laplace(size=(20_000, 3)), rng.normal(size=20_000)])
    with pytest.warns(UserWarning, match="1 of 4 sources look Gaussian"):
        ica = ClusterICA(refine=None, random_state=0).fit(X)
    assert ica.kurtosis_[-1] < 0.2 < 2 < ica.kurtosis_[-2]


def test_warns_of_distributions_without_variance(rng):
    for n in (60, 100, 5000):
        X = rng.standard_cauchy(size=(n, 3))
        with pytest.warns(UserWarning, match=r"rows make up the variance of source 0: .*Cauchy"):
            ClusterICA(random_state=0).fit(X)


def test_rows_whose_squares_overflow(rng):
    X = rng.laplace(size=(200, 2))
    assert np.isfinite(ClusterICA(random_state=0).fit(1e150 * X).components_).all()
    with (
        np.errstate(all="ignore"),
        pytest.raises(ValueError, match=r"too large for .*: divide X by"),
    ):
        ClusterICA().fit(1e160 * X)


@pytest.mark.parametrize("column", ["constant", "duplicated"])
def test_columns_without_variance_of_their_own(mixed, column):
    X = mixed[0][:, :3]
    X = np.column_stack([X, np.ones(len(X)) if column == "constant" else X[:, 0]])
    with pytest.warns(UserWarning, match="varies in 3 of 4 dimensions"):
        ica = ClusterICA(random_state=0).fit(X)
    assert ica.components_.shape == (3, 4)
    np.testing.assert_allclose(ica.inverse_transform(ica.transform(X)), X, atol=1e-8)
    for own in (Whitener("zca", eps=0.0), Whitener("pca", eps=0.0, n_components=4)):
        with pytest.raises(
            ValueError, match=r"varies in 3 of 4 .*whitener=Whitener\('pca', eps=0.0\)"
        ):
            ClusterICA(whitener=own).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ClusterICA(3, random_state=0).fit(X).components_.shape == (3, 4)


@pytest.mark.parametrize("refine", [None, "ml"])
def test_no_more_sources_than_dimensions_that_vary(mixed, refine):
    X = np.column_stack([mixed[0], mixed[0][:, :2]])  # varies in 5 of 7
    for n in (6, 7):
        with pytest.warns(UserWarning, match=r"in 5 of 7 dimensions .* 5 sources are looked for"):
            ica = ClusterICA(n, refine=refine, random_state=0).fit(X)
        assert ica.components_.shape == (5, 7)
    if refine is None:  # more than the features: on purpose
        with pytest.warns(UserWarning, match="9 sources are looked for"):
            assert 5 < ClusterICA(9, random_state=0).fit(X).n_components_ <= 9


class _Useless(BaseEstimator):
    """A clusterer with centroids that say nothing."""

    def __init__(self, centers=None):
        self.centers = centers

    def fit(self, X, y=None):
        self.cluster_centers_ = self.centers
        return self


@pytest.mark.parametrize(
    ("centers", "what"),
    [
        (np.zeros((10, 5)), "all of them zero"),
        (np.full((10, 5), np.nan), "some are not finite"),
        (np.ones((10, 4)), r"of shape \(10, 4\) from rows with 5 columns"),
    ],
)
def test_centroids_that_say_nothing(mixed, centers, what):
    with pytest.raises(ValueError, match=f"{what}.*use another clusterer"):
        ClusterICA(clusterer=_Useless(centers)).fit(mixed[0])


@pytest.mark.parametrize("whitener", [None, Whitener("zca", eps=0.1)], ids=str)
def test_equal_rows(whitener):
    with pytest.raises(ValueError, match=r"all rows are equal.*give rows that differ"):
        ClusterICA(whitener=whitener).fit(np.full((100, 3), 2.0))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:.*look Gaussian")
def test_warns_of_a_contrast_for_light_tails(mixed):
    with pytest.warns(UserWarning, match=r"refine=Quartic\(.*\) is for sources with lighter tails"):
        ClusterICA(refine=Quartic(), random_state=0).fit(mixed[0])
    with pytest.raises(ValueError, match="can't tell them apart"):
        ClusterICA(refine=lambda y: (y**2 / 2, y, 1 + 0 * y)).fit(mixed[0])


def test_a_bounded_contrast_has_no_likelihood(mixed):
    with pytest.raises(ValueError, match=r"not a density.*SmoothedLaplace\(\) or LogCosh\(\)"):
        ClusterICA(refine=Exponential()).fit(mixed[0])
    with np.errstate(all="ignore"), pytest.raises(ValueError, match="grow without bound"):
        maximize_likelihood(
            as_rows(mixed[0]), np.eye(5), np.zeros(5), contrast=Exponential(), max_iter=200
        )


@pytest.mark.parametrize(
    ("settings", "rows", "message"),
    [
        ({}, 9, r"n_samples=9 should be >= 10.*smaller n_components"),
        ({"cluster_rows": 8}, 500, r"cluster_rows=8 should be >= 10"),
        ({"n_components": 7, "refine": LogCosh()}, 500, "n_components=7 differs from 5"),
        ({"refine": lambda y: Derivatives(y**2, y, 2 + 0 * y)}, 500, "finite differences"),
        ({"n_components": 0}, 500, "n_components"),
        ({"refine": "fast"}, 500, "refine"),
    ],
)
def test_settings_that_cannot_be(mixed, settings, rows, message):
    with pytest.raises(ValueError, match=message):
        ClusterICA(**settings).fit(mixed[0][:rows])


def test_fewer_rows_than_features(rng):
    with (
        pytest.warns(UserWarning, match="varies in 9 of 20 dimensions"),
        pytest.raises(ValueError, match="twice the number of sources"),
    ):
        ClusterICA().fit(rng.laplace(size=(10, 20)))


def test_a_clusterer_without_centroids(mixed):
    with pytest.raises(TypeError, match="DBSCAN has no cluster_centers_"):
        ClusterICA(clusterer=sklearn.cluster.DBSCAN()).fit(mixed[0][:200])


def test_a_clusterer_that_chooses_the_number_of_clusters(rng):
    """Four tight groups on two axes: Mean shift finds them without being told how many."""
    centers = 4 * np.array([[1.0, 0], [-1, 0], [0, 1], [0, -1]])
    X = centers[rng.integers(4, size=200)] + 0.1 * rng.standard_normal((200, 2))
    settings = {"clusterer": sklearn.cluster.MeanShift(bandwidth=0.5)}
    with pytest.warns(UserWarning, match="look Gaussian or lighter"):
        ica = ClusterICA(refine=None, **settings).fit(X)
    np.testing.assert_allclose(np.abs(ica.components_).max(axis=1) > 0.3, True)


def test_the_warning_of_light_tails_names_a_remedy_that_is_left(rng):
    """With more sources than features refine="ml", the default, is not used."""
    with pytest.warns(UserWarning, match="at most as many sources as features"):
        ClusterICA(4, random_state=0).fit(rng.uniform(-1, 1, size=(2000, 2)))


def test_refine_adds_directions_that_a_clusterer_did_not_find(mixed):
    X, _, A = mixed
    one_group = sklearn.cluster.MeanShift(bandwidth=1e3)
    ica = ClusterICA(clusterer=one_group, cluster_rows=500, random_state=0).fit(X)
    assert amari_distance(ica.components_, A) < 0.012


def test_missing_values_and_flat_input(mixed):
    X = mixed[0][:100].copy()
    X[3, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        ClusterICA().fit(X)
    with pytest.raises(ValueError, match="Expected 2D array"):
        ClusterICA().fit(X[:, 0])


def test_one_feature(rng):
    x = rng.laplace(size=(2000, 1))
    ica = ClusterICA(random_state=0).fit(x)
    np.testing.assert_allclose(ica.transform(x), (x - x.mean()) / x.std(ddof=1))


def test_warns_if_max_iter_is_too_small(mixed):
    from sklearn.exceptions import ConvergenceWarning

    with pytest.warns(ConvergenceWarning, match="did not converge in 1 iterations"):
        ClusterICA(refine="ml", max_iter=1, random_state=0).fit(mixed[0])


def test_a_custom_contrast(mixed):
    class Rounded:
        def __call__(self, y):
            return SmoothedLaplace(0.2)(y)

    X, _, A = mixed
    assert (
        amari_distance(ClusterICA(refine=Rounded(), random_state=0).fit(X).components_, A) < 0.012
    )


def test_a_contrast_may_return_a_plain_tuple(mixed):
    own = ClusterICA(refine=lambda y: tuple(LogCosh()(y)), random_state=0).fit(mixed[0][:2000])
    named = ClusterICA(refine=LogCosh(), random_state=0).fit(mixed[0][:2000])
    np.testing.assert_allclose(own.components_, named.components_)


@pytest.mark.parametrize("settings", [{"cluster_rows": 500}, {}], ids=["some rows", "blocks"])
def test_names_of_columns_stay_out_of_the_way(settings, recwarn):
    """Rows that are whitened on the way are arrays, whatever the names and the output of the whitener."""
    pd = pytest.importorskip("pandas")
    X, _, _ = make_sparse_sources(6000, 4, random_state=0)
    frame = pd.DataFrame(X, columns=list("abcd"))
    with (
        clusterica.config_context(memory="64KiB"),
        sklearn.config_context(transform_output="pandas"),
    ):
        named = ClusterICA(random_state=0, **settings).fit(frame)
    plain = ClusterICA(random_state=0, **settings).fit(X)
    np.testing.assert_allclose(named.components_, plain.components_, rtol=0.05, atol=0.05)
    assert not [w for w in recwarn if "feature names" in str(w.message)]


def test_white_blocks_fit_the_budget():
    X, _, _ = make_sparse_sources(20_000, 20, random_state=0)
    whitener = Whitener("pca", eps=0.0).fit(X)
    with clusterica.config_context(memory="256KiB", threads=1):
        blocks = list(_centroids.all_white_rows(X, as_rows(X), whitener))
    np.testing.assert_allclose(np.concatenate(blocks), whitener.transform(X))
    assert max(block.nbytes for block in blocks) <= 2**17
