"""Faulty data and settings: the right error with a remedy, or the documented result."""

import re

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import clusterica
from clusterica.arrays import to_host
from clusterica.cluster import (
    CosineKMeans,
    GainShapeKMeans,
    KMeans,
    SphericalKMeans,
    VonMisesFisherMixture,
)


def spoiled(X, value):
    X = np.array(X)
    X[17, 2] = value
    return X


@pytest.mark.parametrize(
    ("value", "message"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")]
)
@pytest.mark.parametrize("method", ["fit", "partial_fit", "predict", "transform", "score"])
def test_not_finite(as_kind, value, message, method, heavy):
    model = KMeans(3, random_state=0)
    if method not in ("fit", "partial_fit"):
        model.fit(as_kind(heavy))
    with pytest.raises(ValueError, match=f"Input X contains {message}"):
        getattr(model, method)(as_kind(spoiled(heavy, value)))


WRONG_SHAPES = [
    ((12,), "Expected 2D array, got 1D array"),
    ((0, 3), r"Found array with 0 sample\(s\)"),
    ((3, 0), r"Found array with 0 feature\(s\)"),
    ((4, 3, 2), "dim 3|3D array"),
]


@pytest.mark.parametrize(("shape", "message"), WRONG_SHAPES)
def test_wrong_shapes(make, put, shape, message):
    with pytest.raises(ValueError, match=message):
        make(2).fit(put(np.zeros(shape)))


@pytest.mark.parametrize(("shape", "message"), WRONG_SHAPES)
def test_wrong_shapes_of_dask(shape, message):
    da = pytest.importorskip("dask.array")
    with pytest.raises(ValueError, match=message):
        KMeans(2).fit(da.zeros(shape))


@pytest.mark.parametrize("method", ["predict", "transform", "score", "partial_fit"])
def test_wrong_number_of_features(make, as_kind, method, heavy):
    model = make(4, random_state=0).fit(as_kind(heavy))
    with pytest.raises(ValueError, match=r"X has 3 features, but .*KMeans is expecting 4 features"):
        getattr(model, method)(as_kind(heavy[:, :3]))


def test_fewer_rows_than_clusters(make, as_kind, heavy):
    with pytest.raises(
        ValueError, match="n_samples=20 should be >= 22, the number of clusters; lower n_"
    ):
        make(22).fit(as_kind(heavy[:20].repeat(3, axis=1)))


def test_fewer_rows_than_twice_the_features():
    with pytest.raises(
        ValueError, match="n_samples=5 should be >= 6, the number of clusters; lower n_axes"
    ):
        CosineKMeans().fit(np.eye(5, 3) + 1)


def test_complex_numbers(put):
    with pytest.raises(ValueError, match="Complex data not supported"):
        KMeans(2).fit(put(np.ones((5, 2), complex)))


@pytest.mark.parametrize("X", ["text", {1: 2}, None, 3.0, [["a", "b"], ["c", "d"]]], ids=str)
def test_no_table(X):
    with pytest.raises((ValueError, TypeError)) as error:
        KMeans(2).fit(X)
    assert re.search("2D|array|string|numeric|dtype|convert", str(error.value))


# --- Iterables of blocks ---------------------------------------------------------------------------


class Walks:
    """Gives other blocks on every walk."""

    def __init__(self, *walks):
        self.walks = list(walks)

    def __iter__(self):
        yield from self.walks.pop(0) if len(self.walks) > 1 else self.walks[0]


@pytest.mark.parametrize(
    "once",
    [
        lambda X: (block for block in np.split(X, 3)),
        lambda X: iter([X]),
        lambda X: map(np.asarray, [X]),
    ],
    ids=["generator", "iterator", "map"],
)
def test_iterable_for_one_walk(once, heavy):
    with pytest.raises(TypeError, match="can be read only once; pass a list of blocks"):
        KMeans(3).fit(once(heavy))


def test_a_generator_in_disguise(heavy):
    """Its __iter__ gives nothing the second time."""
    blocks = Walks([heavy[:300], heavy[300:]], [])
    with pytest.raises(ValueError, match="600 rows on the first pass and 0 on this one"):
        KMeans(3, random_state=0).fit(blocks)


@pytest.mark.parametrize(
    ("blocks", "error", "message"),
    [
        ([], ValueError, "empty; it must give at least one block"),
        ([np.zeros((0, 3))], ValueError, r"Found array with 0 sample\(s\)"),
        ([np.zeros((3, 3)), np.zeros((3, 2))], ValueError, "2 features where the first has 3"),
        ([np.zeros(3)], ValueError, "Expected 2D array"),
        ([np.ones((3, 3)), sparse.csr_array(np.eye(3))], TypeError, "partly sparse"),
    ],
)
def test_bad_blocks(blocks, error, message):
    with pytest.raises(error, match=message):
        KMeans(2).fit(Walks(blocks))


def test_blocks_of_another_length_on_the_way(heavy):
    blocks = Walks([heavy], [heavy], [heavy], [heavy[:100]])
    with pytest.raises(ValueError, match="must give the same blocks each time"):
        GainShapeKMeans(3, random_state=0).fit(blocks)


@pytest.mark.parametrize("method", ["fit", "partial_fit", "predict", "transform", "score"])
def test_more_rows_on_the_second_walk(method, heavy):
    """Told before a row is read that has no weight and no place in the result."""
    model = GainShapeKMeans(3, random_state=0).fit(heavy)
    with pytest.raises(ValueError, match="must give the same blocks each time"):
        getattr(model, method)(Walks([heavy[:100]], [heavy]))


# --- Settings --------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_axes", [1, 3, 7])
def test_any_number_of_axes(n_axes, heavy):
    C = CosineKMeans(n_axes, random_state=0).fit(heavy).cluster_centers_
    assert C.shape == (2 * n_axes, 4)
    np.testing.assert_array_equal(C[n_axes:], -C[:n_axes])


def test_too_many_orthogonal_clusters(heavy):
    with pytest.raises(
        ValueError, match="n_axes=5 can't be orthogonal in 4 dimensions; use at most 4"
    ):
        CosineKMeans(5, orthogonal=True).fit(heavy)
    CosineKMeans(4, orthogonal=True, random_state=0).fit(heavy)


@pytest.mark.parametrize(
    "bad",
    [
        {"n_clusters": 0},
        {"n_clusters": 2.0},
        {"n_init": 0},
        {"max_iter": 0},
        {"tol": -1e-3},
        {"batch_size": 0},
        {"empty": "ignore"},
        {"min_count": -1},
        {"compute_labels": "yes"},
        {"random_state": "seed"},
    ],
    ids=str,
)
def test_bad_settings(make, bad, heavy):
    model = make(4)
    if "n_clusters" in bad and isinstance(model, CosineKMeans):
        bad = {"n_axes": bad["n_clusters"]}
    (name,) = bad
    with pytest.raises(ValueError, match=f"The '{name}' parameter of .*KMeans must be"):
        model.set_params(**bad).fit(heavy)


def test_bad_damping(heavy):
    with pytest.raises(ValueError, match="The 'damping' parameter of GainShapeKMeans"):
        GainShapeKMeans(2, damping=-1).fit(heavy)


# --- Weights ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.linspace(-1, 1, 600), "Negative values|negative"),
        (np.zeros(600), "at least one (row must count|non-zero number)"),
        (0.0, "at least one (row must count|non-zero number)"),
        (np.ones(599), r"sample_weight.*599"),
        (np.ones((600, 2)), "1D|2D"),
        (np.full(600, np.nan), "NaN"),
        (np.full(600, np.inf), "infinity"),
    ],
    ids=["negative", "zeros", "zero", "short", "table", "nan", "infinite"],
)
@pytest.mark.parametrize("method", ["fit", "partial_fit", "score"])
def test_bad_weights(weights, message, method, heavy):
    model = KMeans(3, random_state=0)
    if method == "score":
        model.fit(heavy)
    with pytest.raises(ValueError, match=message):
        getattr(model, method)(heavy, sample_weight=weights)


@pytest.mark.parametrize("weights", [np.ones(600), [1] * 600, 2.5, np.ones(600, "f4")])
def test_equal_weights_of_any_kind(weights, heavy):
    model = KMeans(3, random_state=0).fit(heavy, sample_weight=weights)
    expected = KMeans(3, random_state=0).fit(heavy)
    np.testing.assert_allclose(model.cluster_centers_, expected.cluster_centers_)


def test_weights_live_where_the_data_does(put, heavy):
    weights = np.arange(600.0)
    model = KMeans(3, random_state=0).fit(put(heavy), sample_weight=put(weights))
    expected = KMeans(3, random_state=0).fit(heavy, sample_weight=weights)
    np.testing.assert_allclose(to_host(model.cluster_centers_), expected.cluster_centers_)


# --- Degenerate data -------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kind", [GainShapeKMeans, SphericalKMeans])
@pytest.mark.parametrize("as_kind", [np.asarray, sparse.csr_array])
def test_rows_of_zeros_on_the_sphere(kind, as_kind, heavy):
    """They move no centre, add nothing to the inertia, and their label is 0."""
    X = np.concatenate([heavy, np.zeros((50, 4))])
    make = kind(4, random_state=0, init="gaussian")
    with_zeros, without = (make.fit(as_kind(rows)).__dict__.copy() for rows in (X, heavy))
    np.testing.assert_allclose(
        with_zeros["cluster_centers_"], without["cluster_centers_"], atol=1e-9
    )
    assert with_zeros["inertia_"] == pytest.approx(without["inertia_"])
    assert set(with_zeros["labels_"][600:]) == {0}
    np.testing.assert_array_equal(with_zeros["labels_"][:600], without["labels_"])
    make.fit(as_kind(X))
    assert set(make.predict(as_kind(np.zeros((2, 4))))) == {0}
    assert not make.transform(as_kind(np.zeros((2, 4)))).any()


def test_rows_of_zeros_under_pairs(heavy):
    X = np.concatenate([heavy, np.zeros((600, 4))])
    model = CosineKMeans(4, init="orthonormal", random_state=0).fit(X)
    expected = CosineKMeans(4, init="orthonormal", random_state=0).fit(heavy)
    np.testing.assert_allclose(model.cluster_centers_, expected.cluster_centers_, atol=1e-9)
    assert set(model.labels_[600:]) == {0}
    assert model.objective_ == pytest.approx(expected.objective_ / 2)


@pytest.mark.parametrize("init", ["gaussian", "orthonormal", "orthogonal"])
def test_all_rows_zero(make, init):
    with pytest.warns(ConvergenceWarning, match="clusters are empty"):
        model = make(4, init=init, random_state=0).fit(np.zeros((20, 4)))
    assert np.isfinite(model.cluster_centers_).all()
    assert set(model.labels_) == {0}
    assert model.objective_history_[-1] == 0
    if not isinstance(model, KMeans):
        np.testing.assert_allclose(np.linalg.norm(model.cluster_centers_, axis=1), 1)


@pytest.mark.parametrize("init", ["gaussian", "orthonormal", "orthogonal", "k-means++", "rows"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_constant_data(make, init, dtype):
    X = np.full((20, 4), 7, dtype)
    with pytest.warns(ConvergenceWarning, match="clusters are empty"):
        model = make(4, init=init, random_state=0).fit(X)
    assert np.isfinite(model.cluster_centers_).all()
    assert len(set(model.labels_)) == 1
    best = model.cluster_centers_[model.labels_[0]]
    if isinstance(model, KMeans):
        np.testing.assert_allclose(best, 7)
        assert model.inertia_ == pytest.approx(0, abs=1e-6)


def test_one_feature(make):
    X = np.random.default_rng(0).normal(size=(50, 1))
    n_clusters = 2 if isinstance(make(2), (CosineKMeans, KMeans)) else 1
    model = make(n_clusters, random_state=0).fit(X)
    assert model.cluster_centers_.shape == (n_clusters, 1)
    if not isinstance(model, KMeans):
        assert set(np.abs(model.cluster_centers_).ravel()) == {1.0}


@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1e12, 1e30])
def test_scale_of_the_data(make, scale, heavy):
    """Tiny and huge numbers, of which the squares still fit float64."""
    model = make(4, init="k-means++", random_state=0)
    if isinstance(model, GainShapeKMeans):
        model.set_params(damping=0.0)  # its size is absolute
    expected = clone(model).fit(heavy)
    model.fit(scale * heavy)
    np.testing.assert_array_equal(model.labels_, expected.labels_)


# --- A failed fit ----------------------------------------------------------------------------------


def test_a_failed_fit_leaves_the_model_usable(as_kind, heavy):
    """As in scikit-learn: values are looked at before the number of features is noted."""
    model = KMeans(3, random_state=0).fit(as_kind(heavy))
    with pytest.raises(ValueError, match="NaN"):
        model.fit(as_kind(spoiled(heavy, np.nan)[:, 1:]))
    np.testing.assert_array_equal(to_host(model.predict(as_kind(heavy))), to_host(model.labels_))


def test_a_failed_init_leaves_the_model_usable(heavy):
    model = KMeans(3, random_state=0).fit(heavy)
    with pytest.raises(ValueError, match="initial centers"):
        model.set_params(init=np.eye(2)).fit(heavy[:, ::-1])
    np.testing.assert_array_equal(model.predict(heavy), model.labels_)


# --- What is not installed -------------------------------------------------------------------------


def test_streaming_without_torch(uninstalled, heavy):
    uninstalled("torch")
    with (
        clusterica.config_context(device="cuda"),
        pytest.raises(ImportError, match=r"pip install 'clusterica\[torch\]'"),
    ):
        KMeans(2).fit(heavy)


def test_streaming_through_a_device_that_is_not_there(heavy):
    pytest.importorskip("torch")
    with (
        clusterica.config_context(device="gpu"),
        pytest.raises(ValueError, match="device='gpu' can't be used"),
    ):
        KMeans(2).fit(heavy)


def test_host_data_needs_neither_torch_nor_dask(uninstalled, heavy):
    uninstalled("torch", "dask", "matplotlib")
    model = KMeans(2, random_state=0).fit(heavy)
    assert model.predict([heavy[:3], heavy[3:]]).shape == (600,)


def test_blocks_on_a_device_are_refused(heavy):
    """They would be worked on elsewhere without a word."""
    xp = pytest.importorskip("array_api_strict")
    block = xp.asarray(heavy, device=xp.Device("device1"))
    with pytest.raises(TypeError, match=r"give blocks in host memory.*config_context"):
        KMeans(3).fit([block, block])


def test_sparse_tensors_are_refused(heavy):
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match="pass a SciPy CSR matrix"):
        KMeans(3).fit(torch.asarray(heavy.copy()).to_sparse())


def test_given_centers_are_one_start(heavy):
    with pytest.warns(RuntimeWarning, match="all n_init=3 starts would be the same"):
        VonMisesFisherMixture(4, init=heavy[:4], n_init=3, tol=1).fit(heavy)
    with pytest.warns(RuntimeWarning, match="all n_init=3 starts would be the same"):
        model = KMeans(4, init=heavy[:4], n_init=3).fit(heavy)
    np.testing.assert_array_equal(model.labels_, KMeans(4, init=heavy[:4]).fit(heavy).labels_)


def test_fewer_distinct_rows_than_clusters_converges(heavy):
    X = np.repeat(heavy[:3], 100, axis=0)
    with pytest.warns(ConvergenceWarning, match="clusters are empty"):
        model = KMeans(8, random_state=0).fit(X)
    assert model.n_iter_ < 10
    assert model.inertia_ == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_fit_and_predict_see_the_same_centers(heavy, dtype):
    """Far from the origin the centres are rounded; labels and inertia are those after rounding."""
    X = (heavy + 1e4).astype(dtype)
    model = KMeans(8, max_iter=3, random_state=0).fit(X)
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    assert -model.score(X) == model.inertia_


def test_heavy_centers_still_move_in_float32(heavy):
    """Each move is smaller than the distance between two numbers of float32 there."""
    X = (heavy[:100] + 1e4).astype(np.float32)
    model = KMeans(1, random_state=0).partial_fit(np.repeat(X, 1000, axis=0))
    before = np.array(model._centers.C)
    for _ in range(50):
        model.partial_fit(X + np.float32(0.4))
    moved = (model._centers.C - before).mean()
    assert moved == pytest.approx(0.4 * 5_000 / 105_000, rel=0.05)


@pytest.mark.parametrize("clusterer", [KMeans(3), GainShapeKMeans(3)], ids=str)
def test_rows_whose_squares_overflow(clusterer):
    X = (1e25 * np.random.default_rng().normal(size=(200, 4))).astype(np.float32)
    with (
        np.errstate(all="ignore"),
        pytest.raises(ValueError, match=r"too large for .*float32.*divide X by"),
    ):
        clusterer.fit(X)
