"""KurtosisPursuit: what it finds for every contrast and kind of data, and what it says of noise."""

import pickle

import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

import clusterica
from clusterica.arrays import device_of, to_host
from clusterica.contrasts import Exponential, LogCosh, Quartic, SmoothedLaplace
from clusterica.ica import KurtosisPursuit
from clusterica.ops.pursuit import orient
from clusterica.preprocessing import Whitener

NAMED = {
    "kurtosis": Quartic(),
    "logcosh": LogCosh(),
    "exp": Exponential(),
    "negentropy": Exponential(),
}
CONTRASTS = [*NAMED, SmoothedLaplace(width=0.5)]


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@pytest.fixture(params=CONTRASTS, ids=str)
def contrast(request):
    return request.param


def mixture(n=2000, seed=0):
    """Sources in columns (two clusters, normal, uniform, Laplace), and a mixture of them."""
    rng = np.random.default_rng(seed)
    clusters = np.where(rng.random(n) < 0.5, -1, 1) + 0.3 * rng.normal(size=n)
    S = np.column_stack([clusters, rng.normal(size=n), rng.uniform(size=n), rng.laplace(size=n)])
    return S, S @ rng.normal(size=(4, 4)) + 10


def likeness(P, S):
    """Absolute correlation of every projection with every source."""
    return np.abs(np.corrcoef(P.T, S.T)[: P.shape[1], P.shape[1] :])


@pytest.mark.filterwarnings("ignore:no .* direction was found", "ignore:n_samples=.* rows vary in")
@parametrize_with_checks(
    [
        KurtosisPursuit(n_init=3),
        KurtosisPursuit(n_init=2, objective="abs", contrast="logcosh"),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize(("objective", "source"), [("min", 0), ("max", 3), ("abs", 3)])
def test_objective_names_the_kind_of_direction(objective, source, contrast):
    """Whatever the contrast: logcosh as it stands would find the opposite. |κ| of Laplace is larger."""
    S, X = mixture()
    model = KurtosisPursuit(objective=objective, contrast=contrast, random_state=0).fit(X)
    expected = 0 if objective == "abs" and contrast != "kurtosis" else source
    assert likeness(model.transform(X), S)[0].argmax() == expected
    assert likeness(model.transform(X), S)[0, expected] > 0.97
    assert (model.objective_[0] < 0) == (expected == 0)
    assert (model.kurtosis_[0] < 0) == (expected == 0)


def test_further_directions(contrast):
    """Uncorrelated with those before, and in the order of the sources' kurtosis."""
    S, X = mixture(6000)
    model = KurtosisPursuit(n_components=2, contrast=contrast, random_state=0).fit(X)
    P = model.transform(X)
    np.testing.assert_allclose(np.cov(P.T), np.eye(2), atol=1e-9)
    np.testing.assert_array_equal(likeness(P, S).argmax(axis=1), [0, 2])
    assert likeness(P, S).max(axis=1).min() > 0.95
    assert model.start_objectives_.shape == (2, 20)
    assert model.objective_[0] < model.objective_[1] < 0


def test_all_directions():
    _, X = mixture()
    with pytest.warns(UserWarning, match=r"no cluster direction was found \(component [23]\)"):
        model = KurtosisPursuit(n_components=4, random_state=0).fit(X)
    np.testing.assert_allclose(np.cov(model.transform(X).T), np.eye(4), atol=1e-9)


@pytest.mark.filterwarnings("ignore:no .* direction was found")
@pytest.mark.parametrize("objective", ["min", "max", "abs"])
def test_every_direction_has_the_contrast_that_it_is_said_to_have(objective, contrast):
    """A search for a further direction stays beside those before, and does not find the first one again."""
    rng = np.random.default_rng()
    sources = [rng.laplace(size=1500), rng.uniform(-1, 1, 1500), rng.normal(size=1500)]
    # Not any matrix: whitening a nearly singular mixture would lose the digits that are compared.
    mixing = np.linalg.qr(rng.normal(size=(4, 4)))[0] * [1, 2, 3, 4]
    mixed = np.column_stack([*sources, np.sign(rng.normal(size=1500))]) @ mixing
    for X in (load_iris().data, mixed):
        model = KurtosisPursuit(4, objective=objective, contrast=contrast, random_state=0).fit(X)
        P = model.transform(X)
        P = (P - P.mean(axis=0)) / P.std(axis=0)
        G = NAMED[contrast] if isinstance(contrast, str) else contrast
        oriented = orient(G, squared=contrast == "negentropy")
        expected = oriented.reported(oriented.excess(G(P)[0].mean(axis=0)))
        np.testing.assert_allclose(model.objective_, expected, atol=1e-9)
        np.testing.assert_allclose(np.corrcoef(P.T), np.eye(4), atol=1e-7)


def test_attributes(contrast):
    _, X = mixture()
    model = KurtosisPursuit(contrast=contrast, n_init=7, random_state=0).fit(X)
    P = model.transform(X)
    np.testing.assert_allclose(P, (X - model.mean_) @ model.components_.T)
    np.testing.assert_allclose(model.mean_, X.mean(axis=0))
    assert P.std(ddof=1) == pytest.approx(1)
    assert P.mean() == pytest.approx(0, abs=1e-12)
    assert model.kurtosis_ == pytest.approx(stats.kurtosis(P))
    assert model.start_objectives_.shape == (1, 7)
    assert model.objective_[0] == model.start_objectives_.min()
    largest = np.abs(model.components_[0]).argmax()
    assert model.components_[0, largest] > 0
    assert 1 <= model.n_iter_ <= 200
    assert model.get_feature_names_out().tolist() == ["kurtosispursuit0"]


@pytest.mark.parametrize(
    ("name", "G"),
    [
        ("kurtosis", lambda p: (p**4).mean() - 3),
        ("logcosh", lambda p: 0.37456720749 - np.log(np.cosh(p)).mean()),
        ("exp", lambda p: np.exp(-(p**2) / 2).mean() - 0.5**0.5),
    ],
)
def test_objective_is_the_oriented_contrast(name, G):
    _, X = mixture()
    for objective in ("min", "max"):
        model = KurtosisPursuit(objective=objective, contrast=name, random_state=0).fit(X)
        p = model.transform(X)[:, 0]
        assert model.objective_[0] == pytest.approx(G(p / p.std()), abs=1e-9)


def test_negentropy_has_the_directions_of_exp():
    _, X = mixture()
    for objective in ("min", "max", "abs"):
        both = [
            KurtosisPursuit(objective=objective, contrast=name, random_state=0).fit(X)
            for name in ("negentropy", "exp")
        ]
        np.testing.assert_allclose(both[0].components_, both[1].components_, atol=1e-9)
        assert np.sign(both[0].objective_) == np.sign(both[1].objective_)
        assert abs(both[0].objective_) < 1  # nats


def test_abs_goes_both_ways():
    """Nine sources a little above 0 draw every start up; the tenth, far below, must still be found."""
    rng = np.random.default_rng(0)
    S = rng.logistic(size=(10_000, 10)) * 3**0.5 / np.pi
    S[:, 0] = np.where(rng.random(10_000) < 0.5, -1, 1) + 0.1 * rng.normal(size=10_000)
    model = KurtosisPursuit(objective="abs", random_state=0).fit(S)
    assert likeness(model.transform(S), S)[0].argmax() == 0
    assert model.objective_[0] < -1.5
    assert (np.abs(model.start_objectives_) <= np.abs(model.objective_[0])).all()


def test_equivariance(contrast):
    """Any invertible map of the features gives the same projections."""
    rng = np.random.default_rng()
    _, X = mixture()
    # Not so near to a singular one that covariances, of the squared condition, lose the digits compared.
    U, V = (np.linalg.qr(rng.normal(size=(4, 4)))[0] for _ in range(2))
    Z = X @ (U * 10.0 ** rng.uniform(-1, 1, size=4)) @ V + rng.normal(size=4)
    one, other = (KurtosisPursuit(contrast=contrast, random_state=0).fit(D) for D in (X, Z))
    assert one.objective_ == pytest.approx(other.objective_, abs=1e-7)
    p, q = one.transform(X)[:, 0], other.transform(Z)[:, 0]
    assert abs(np.corrcoef(p, q)[0, 1]) == pytest.approx(1, abs=1e-6)


def test_iris(iris, contrast):
    X, y = iris
    model = KurtosisPursuit(contrast=contrast, n_init=200, random_state=0).fit(X)
    p = model.transform(X)[:, 0]
    setosa, others = p[y == 0], p[y != 0]
    assert max(setosa.min() - others.max(), others.min() - setosa.max()) > 0.5
    if contrast == "kurtosis":
        assert model.kurtosis_[0] == pytest.approx(-1.448, abs=5e-4)
    found = np.isclose(model.start_objectives_[0], model.objective_[0], rtol=1e-6)
    assert found.mean() > 0.85


@pytest.mark.filterwarnings("ignore:no cluster direction was found")
def test_one_outlier_turns_kurtosis_alone(iris):
    """A row at four standard deviations along the cluster direction itself."""
    X, _ = iris
    covariance = np.cov(X.T)
    for contrast in CONTRASTS:
        clean = KurtosisPursuit(contrast=contrast, random_state=0).fit(X)
        out = X.mean(axis=0) + 4 * covariance @ clean.components_[0]
        model = KurtosisPursuit(contrast=contrast, random_state=0).fit(np.vstack([X, out]))
        p, q = clean.transform(X)[:, 0], model.transform(X)[:, 0]
        same = abs(np.corrcoef(p, q)[0, 1])
        assert same < 0.7 if contrast == "kurtosis" else same > 0.99


@pytest.mark.filterwarnings("ignore:no cluster direction was found")
def test_robust_contrasts_bear_several_outliers(iris):
    """Six rows at four standard deviations, in random directions: 10 draws."""
    X, y = iris
    root = np.linalg.cholesky(np.cov(X.T))
    apart = dict.fromkeys(NAMED, 0)
    for seed in range(10):
        U = np.random.default_rng(seed).normal(size=(6, 4))
        U /= np.linalg.norm(U, axis=1, keepdims=True)
        Z = np.vstack([X, X.mean(axis=0) + 4 * U @ root.T])
        for contrast in NAMED:
            model = KurtosisPursuit(contrast=contrast, n_init=8, random_state=0)
            p = model.fit(Z).transform(X)[:, 0]
            setosa, others = p[y == 0], p[y != 0]
            gap = max(setosa.min() - others.max(), others.min() - setosa.max())
            apart[contrast] += gap > 0
    assert apart.pop("kurtosis") < 9
    assert min(apart.values()) == 10


class TestNothingToFind:
    @pytest.mark.parametrize("objective", ["min", "max", "abs"])
    @pytest.mark.parametrize(("n", "d"), [(200, 1), (150, 4), (1000, 10)])
    def test_gaussian_rows(self, objective, n, d, contrast):
        X = np.random.default_rng(n + d).normal(size=(n, d))
        with pytest.warns(UserWarning, match=rf"no .* direction was found .* {n} Gaussian rows"):
            KurtosisPursuit(objective=objective, contrast=contrast, random_state=0).fit(X)

    def test_only_super_gaussian_rows(self, contrast):
        X = np.random.default_rng(0).laplace(size=(1000, 3)) ** 3
        with pytest.warns(UserWarning, match="no cluster direction was found"):
            model = KurtosisPursuit(contrast=contrast, random_state=0).fit(X)
        assert model.objective_[0] > 0
        KurtosisPursuit(objective="max", contrast=contrast, random_state=0).fit(X)  # no warning

    def test_only_sub_gaussian_rows(self, contrast):
        X = np.random.default_rng(0).choice([-1.0, 1.0], size=(1000, 2))
        with pytest.warns(UserWarning, match="no super-Gaussian direction was found"):
            KurtosisPursuit(objective="max", contrast=contrast, random_state=0).fit(X)

    @pytest.mark.parametrize(("n", "share"), [(100, 0.5), (300, 0.3), (1000, 0.3)])
    def test_two_clear_clusters_are_no_noise(self, n, share, contrast):
        X = np.random.default_rng(1).normal(size=(n, 3))
        X[: int(share * n), 0] += 6
        KurtosisPursuit(contrast=contrast, random_state=0).fit(X)  # a warning would be an error

    def test_cauchy(self, contrast):
        X = np.random.default_rng(0).standard_cauchy(size=(1000, 3))
        with pytest.warns(UserWarning, match=r"rows make up the variance of feature \d: .*Cauchy"):
            KurtosisPursuit(objective="max", contrast=contrast, random_state=0).fit(X)

    def test_rows_whose_squares_overflow(self):
        X = 1e160 * np.random.default_rng().normal(size=(100, 2))
        with (
            np.errstate(all="ignore"),
            pytest.raises(ValueError, match=r"too large for .*: divide X by"),
        ):
            KurtosisPursuit().fit(X)

    def test_fewer_rows_than_features(self):
        """Every split of the rows is a direction, and the best ones have two values only."""
        X = np.random.default_rng(0).normal(size=(10, 30))
        with pytest.warns(
            UserWarning, match=r"n_samples=10 rows vary in 9 dimensions.*n_components="
        ):
            model = KurtosisPursuit(random_state=0).fit(X)
        assert model.kurtosis_[0] == pytest.approx(-2, abs=1e-6)

    def test_not_converged(self):
        _, X = mixture()
        with pytest.warns(ConvergenceWarning, match="still moving after 3 iterations"):
            model = KurtosisPursuit(max_iter=3, random_state=0).fit(X)
        assert model.n_iter_ == 3


class TestSingularData:
    def test_constant_and_duplicated_columns(self, contrast):
        _, X = mixture()
        wide = np.column_stack([X, X[:, 1], np.full(len(X), 7.0), X[:, 0] - 2 * X[:, 2]])
        model = KurtosisPursuit(contrast=contrast, random_state=0).fit(wide)
        expected = KurtosisPursuit(contrast=contrast, random_state=0).fit(X)
        assert model.objective_ == pytest.approx(expected.objective_, abs=1e-7)
        assert likeness(model.transform(wide), expected.transform(X)) > 1 - 1e-6
        assert abs(model.components_[0, 5]) < 1e-9

    def test_more_components_than_dimensions(self):
        _, X = mixture(50)
        wide = np.column_stack([X, X[:, 0]])
        with pytest.raises(ValueError, match=r"n_components=5 is more than the 4 dimensions"):
            KurtosisPursuit(5).fit(wide)

    def test_equal_rows(self):
        with pytest.raises(ValueError, match="more than the 0 dimensions in which the data varies"):
            KurtosisPursuit().fit(np.ones((20, 3)))

    def test_one_feature(self):
        x = np.random.default_rng(0).choice([-1.0, 2.0], size=(50, 1))
        model = KurtosisPursuit(random_state=0).fit(x)
        np.testing.assert_allclose(model.components_, 1 / x.std(axis=0, ddof=1)[:, None])
        assert model.kurtosis_ == pytest.approx(stats.kurtosis(x))

    def test_one_dimensional_array(self):
        with pytest.raises(ValueError, match="Expected 2D array, got 1D array"):
            KurtosisPursuit().fit(np.arange(10.0))

    def test_not_a_number(self):
        X = np.ones((5, 2))
        X[3, 1] = np.nan
        with pytest.raises(ValueError, match="contains NaN"):
            KurtosisPursuit().fit(X)


class TestWhitener:
    @pytest.mark.parametrize(
        "whitener",
        [
            Whitener(eps=0.1),
            Whitener("cholesky", eps="5%"),
            Whitener("pca", eps=0.0),
            Whitener(eps=0),
        ],
        ids=str,
    )
    def test_projections_have_unit_variance_for_any(self, whitener):
        _, X = mixture()
        expected = KurtosisPursuit(random_state=0).fit(X)
        model = KurtosisPursuit(whitener=whitener, random_state=0).fit(X)
        assert model.objective_ == pytest.approx(expected.objective_, abs=1e-7)
        np.testing.assert_allclose(model.components_, expected.components_, rtol=1e-3)
        assert model.transform(X).std(ddof=1) == pytest.approx(1)
        assert not hasattr(whitener, "mean_")

    def test_fewer_dimensions(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(500, 5)) * [5, 4, 3, 0.1, 0.1]
        X[:, 3] = 0.1 * rng.choice([-1, 1], size=500)  # clusters where the variance is small
        assert KurtosisPursuit(random_state=0).fit(X).kurtosis_[0] < -1.9
        whitener = Whitener("pca", eps=0.0, n_components=3)
        with pytest.warns(UserWarning, match="500 Gaussian rows in 3 dimensions"):
            model = KurtosisPursuit(whitener=whitener, random_state=0).fit(X)
        assert np.abs(model.components_[0, 3:]).max() < 0.1
        with pytest.raises(ValueError, match="n_components=4 is more than the 3 dimensions"):
            KurtosisPursuit(4, whitener=whitener).fit(X)


def strict(X):
    xp = pytest.importorskip("array_api_strict")
    return xp.asarray(X, device=xp.Device("device1"))


KINDS = {
    "torch": lambda X, path: pytest.importorskip("torch").asarray(X),
    "strict": lambda X, path: strict(X),
    "dask": lambda X, path: pytest.importorskip("dask.array").from_array(X, chunks=(171, 2)),
    "blocks": lambda X, path: [X[:100], X[100:]],
    "memory map": lambda X, path: memory_map(X, path),
    "data frame": lambda X, path: pytest.importorskip("pandas").DataFrame(X, columns=list("abcd")),
}


def memory_map(X, path):
    np.save(path / "X.npy", X)
    return np.load(path / "X.npy", mmap_mode="r")


class TestWhereRowsLive:
    @pytest.mark.parametrize("kind", KINDS)
    def test_the_same_directions(self, kind, tmp_path):
        _, X = mixture(600)
        D = KINDS[kind](X, tmp_path)
        settings = {"n_components": 2, "contrast": "logcosh", "n_init": 5, "random_state": 0}
        model, expected = KurtosisPursuit(**settings).fit(D), KurtosisPursuit(**settings).fit(X)
        np.testing.assert_allclose(to_host(model.components_), expected.components_, rtol=1e-4)
        np.testing.assert_allclose(to_host(model.kurtosis_), expected.kurtosis_, rtol=1e-6)
        np.testing.assert_allclose(model.start_objectives_, expected.start_objectives_, atol=1e-9)
        P = model.transform(D)
        np.testing.assert_allclose(to_host(P), expected.transform(X), atol=1e-4)

    def test_results_are_where_the_data_is(self, put):
        _, X = mixture(600)
        D = put(X)
        model = KurtosisPursuit(n_init=3, random_state=0).fit(D)
        for result in (model.components_, model.mean_, model.kurtosis_, model.transform(D)):
            assert type(result) is type(D)
            assert device_of(result) == device_of(D)

    @pytest.mark.parametrize("contrast", ["kurtosis", "exp"])
    def test_float32_stays(self, contrast):
        _, X = mixture()
        model = KurtosisPursuit(contrast=contrast, random_state=0).fit(X.astype(np.float32))
        expected = KurtosisPursuit(contrast=contrast, random_state=0).fit(X)
        assert model.components_.dtype == model.mean_.dtype == model.kurtosis_.dtype == np.float32
        assert model.transform(X.astype(np.float32)).dtype == np.float32
        np.testing.assert_allclose(model.components_, expected.components_, rtol=1e-2)
        assert model.objective_ == pytest.approx(expected.objective_, rel=1e-4)

    def test_blocks_and_threads(self):
        _, X = mixture(5000)
        expected = KurtosisPursuit(n_init=5, random_state=0).fit(X)
        for memory, threads in (("64KiB", 1), ("300KiB", 2)):
            with clusterica.config_context(memory=memory, threads=threads):
                model = KurtosisPursuit(n_init=5, random_state=0).fit(X)
            np.testing.assert_allclose(model.components_, expected.components_, rtol=1e-5)

    def test_data_on_another_device_than_the_model(self):
        _, X = mixture(300)
        model = KurtosisPursuit(n_init=3, random_state=0).fit(strict(X))
        with pytest.raises(ValueError, match=r"fitted on device .*device1"):
            model.transform(X)


class TestInterface:
    def test_same_seed_same_result(self):
        _, X = mixture()
        one, two = (KurtosisPursuit(random_state=3).fit(X) for _ in range(2))
        np.testing.assert_array_equal(one.components_, two.components_)
        np.testing.assert_array_equal(one.start_objectives_, two.start_objectives_)

    def test_pickle_and_frames(self, iris):
        pytest.importorskip("pandas")
        X, _ = load_iris(return_X_y=True, as_frame=True)
        model = KurtosisPursuit(random_state=0).set_output(transform="pandas").fit(X)
        P = pickle.loads(pickle.dumps(model)).transform(X)
        assert list(P.columns) == ["kurtosispursuit0"]
        assert P.index.equals(X.index)

    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"objective": "least"}, "objective"),
            ({"contrast": "tanh"}, "contrast"),
            ({"n_init": 0}, "n_init"),
            ({"tol": -1.0}, "tol"),
            ({"whitener": "pca"}, "whitener"),
        ],
    )
    def test_wrong_parameters(self, parameters, message):
        with pytest.raises(ValueError, match=f"The '{message}' parameter of KurtosisPursuit"):
            KurtosisPursuit(**parameters).fit(np.eye(3))

    def test_wrong_contrast(self):
        with pytest.raises(ValueError, match="G' is off by"):
            KurtosisPursuit(contrast=lambda y: (y**4, y**3, y**2)).fit(mixture(100)[1])

    def test_progress(self, watcher):
        """Every pass is a task, and gives callbacks a model no worse than the one before."""

        _, X = mixture()
        recorder = watcher()
        model = KurtosisPursuit(2, random_state=0).set_callbacks(recorder).fit(X)
        assert recorder.names.count("component") == 2
        assert recorder.names.count("fit") == 1
        kurtosis = [stats.kurtosis(m.transform(X)[:, -1]) for m in recorder.models]
        passes = [m.components_.shape[0] for m in recorder.models].count(1)
        assert np.diff(kurtosis[:passes]).max() <= 1e-9
        assert np.diff(kurtosis[passes:]).max() <= 1e-9
        assert kurtosis[-1] == pytest.approx(model.kurtosis_[1], abs=1e-9)


@pytest.mark.parametrize("objective", ["max", "abs"])
@pytest.mark.parametrize(("n", "d"), [(500, 5), (1500, 30), (2000, 50)])
def test_warns_of_gaussian_rows_in_many_dimensions(objective, n, d):
    """The largest kurtosis is then that of a few rows which a direction picks out."""
    X = np.random.default_rng(0).normal(size=(n, d))
    with pytest.warns(UserWarning, match=r"no .* direction was found"):
        KurtosisPursuit(objective=objective, n_init=4, random_state=0).fit(X)


def test_a_contrast_with_a_wrong_derivative(iris):
    with pytest.raises(ValueError, match="G' is off by"):
        KurtosisPursuit(contrast=lambda y: (y**4, y**3, 3 * y**2)).fit(iris[0])
