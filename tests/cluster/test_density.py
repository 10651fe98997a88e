"""Valleys of a density: how many clusters, where they are cut, and on every kind of rows."""

import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats
from scipy.signal import argrelmax, argrelmin
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import clusterica
from clusterica.arrays import device_of, to_host
from clusterica.cluster import DensityClusterer, KMeans

SETTINGS = {
    "scott": {},
    "silverman": {"bandwidth": "silverman"},
    "isj": {"bandwidth": "isj"},
    "number": {"bandwidth": 0.8},
    "lifetimes": {"method": "scale-space"},
    "scale": {"method": "scale-space", "scale": 0.02},
}


@pytest.fixture(params=SETTINGS)
def choice(request):
    """Every way to choose the smoothing."""
    return SETTINGS[request.param]


def groups(n, *centers, sd=1.0, seed=0):
    """Equal normal groups, in order, as one column."""
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.normal(c, sd, size=n) for c in centers])[:, None]


def least_kurtosis(X):
    """Project X on the direction of least kurtosis, found by a plain search."""
    Y = PCA(whiten=True).fit_transform(X)

    def kurtosis(b):
        return np.mean((Y @ b / np.linalg.norm(b)) ** 4)

    starts = np.random.default_rng(0).normal(size=(10, X.shape[1]))
    best = min((optimize.minimize(kurtosis, b) for b in starts), key=lambda r: r.fun).x
    return (Y @ best / np.linalg.norm(best))[:, None]


# --- How many clusters -----------------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 3])
def test_separate_groups(choice, k):
    model = DensityClusterer(**choice).fit(groups(300, *(10 * np.arange(k))))
    assert model.n_clusters_ == k
    np.testing.assert_array_equal(model.labels_, np.repeat(np.arange(k), 300))
    np.testing.assert_allclose(model.modes_, 10 * np.arange(k), atol=0.6)
    np.testing.assert_allclose(model.valleys_, 10 * np.arange(k - 1) + 5, atol=1.5)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    "distribution", [stats.norm(), stats.laplace(), stats.logistic(), stats.uniform()]
)
def test_lifetimes_find_one_mode_in_one_distribution(distribution, seed):
    x = distribution.rvs(size=2000, random_state=seed)[:, None]
    model = DensityClusterer(method="scale-space").fit(x)
    assert model.n_clusters_ == 1
    assert model.valleys_.shape == (0,)
    assert not model.labels_.any()


@pytest.mark.parametrize("bandwidth", ["scott", "silverman", "isj"])
def test_rules_find_one_mode_in_a_normal_distribution(bandwidth):
    found = [DensityClusterer(bandwidth=bandwidth).fit(groups(20_000, 0, seed=s)) for s in range(5)]
    assert np.median([model.n_clusters_ for model in found]) == 1


@pytest.mark.parametrize("choice", [{}, {"method": "scale-space"}], ids=str)
@pytest.mark.parametrize("n", [1000, 50_000])
def test_heavy_tails(choice, n):
    """Cauchy rows: the range is thousands of times the width of the groups, and full of lone rows."""
    rng = np.random.default_rng(n)
    one = rng.standard_cauchy(n)
    assert np.ptp(one) > 300 * stats.iqr(one)
    assert DensityClusterer(**choice).fit(one[:, None]).n_clusters_ == 1
    two = rng.standard_cauchy(n) + 60 * (np.arange(n) % 2)
    model = DensityClusterer(**choice).fit(two[:, None])
    assert model.n_clusters_ == 2
    np.testing.assert_allclose(model.modes_, [0, 60], atol=1)
    # All rows have a label, also those that the grid leaves out.
    np.testing.assert_array_equal(model.labels_, two >= model.valleys_[0])


@pytest.mark.parametrize("choice", [{}, {"bandwidth": "isj"}, {"method": "scale-space"}], ids=str)
@pytest.mark.parametrize("share", [0.5, 0.1])
def test_groups_far_apart(choice, share):
    """A million times farther apart than they are wide: more than a grid can show in full."""
    rng = np.random.default_rng(0)
    far = rng.uniform(size=2000) < share
    x = rng.normal(size=2000) + 1e6 * far
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "bandwidth='isj' has no solution", RuntimeWarning)
        warnings.filterwarnings("ignore", "bandwidth=.* too fine for data from")
        model = DensityClusterer(**choice).fit(x[:, None])
    assert model.n_clusters_ == 2
    np.testing.assert_array_equal(model.labels_, far)


def test_warns_of_a_row_so_far_away_that_the_grid_is_too_coarse():
    x = np.append(groups(500, 0, 8), 1e6)[:, None]
    with pytest.warns(UserWarning, match=r"'scott' gives .* too fine .* is used, which may join"):
        DensityClusterer().fit(x)


def test_an_outlier_is_no_cluster_unless_the_smoothing_is_given():
    X = np.vstack([groups(500, 0), [[50.0]]])
    assert DensityClusterer().fit(X).n_clusters_ == 1
    assert DensityClusterer(method="scale-space").fit(X).n_clusters_ == 1
    model = DensityClusterer(bandwidth=1.0).fit(X)
    assert model.n_clusters_ == 2
    assert model.modes_[1] == pytest.approx(50)
    assert model.labels_.sum() == 1


def test_a_small_group_is_a_cluster():
    X = np.vstack([groups(5000, 0), groups(200, 12, seed=1)])
    for choice in ({}, {"bandwidth": "isj"}, {"method": "scale-space"}):
        model = DensityClusterer(**choice).fit(X)
        assert np.bincount(model.labels_).tolist() == [5000, 200]


def test_few_rows():
    X = np.array([0, 0.1, 0.2, 5, 5.1, 5.2])[:, None]
    for choice in ({}, {"method": "scale-space"}, {"n_clusters": 2}):
        assert DensityClusterer(**choice).fit_predict(X).tolist() == [0, 0, 0, 1, 1, 1]


# --- n_clusters ------------------------------------------------------------------------------------


@pytest.mark.parametrize("choice", [{"bandwidth": 1.0}, {"method": "scale-space", "scale": 0.02}])
@pytest.mark.parametrize(
    ("n_clusters", "cuts"), [(1, []), (2, [3.5]), (3, [3.5, 15.5]), (4, [3.5, 9, 15.5])]
)
def test_the_weakest_modes_join_their_neighbours(n_clusters, cuts, choice):
    """Four heaps, of which the lowest joins the highest first, across the valley at 9."""
    X = np.array([0.0, 7.0, 11.0, 20.0])[:, None]
    model = DensityClusterer(n_clusters, **choice).fit(X, sample_weight=[300, 400, 150, 200])
    np.testing.assert_allclose(model.valleys_, cuts, atol=0.4)
    heaps = {1: [7], 2: [0, 7], 3: [0, 7, 20], 4: [0, 7, 11, 20]}[n_clusters]
    np.testing.assert_allclose(model.modes_, heaps, atol=0.1)


def test_n_clusters_chooses_the_scale():
    X = groups(200, 0, 6, 18, 24)
    for n, sizes in [(2, [400, 400]), (4, 4 * [200]), (1, [800])]:
        model = DensityClusterer(n, method="scale-space").fit(X)
        np.testing.assert_allclose(np.bincount(model.labels_), sizes, atol=6)
    # 4 modes live at a finer scale than 2, and 3 do hardly, by the symmetry of the data.
    scales = [DensityClusterer(n, method="scale-space").fit(X).scale_ for n in (2, 3, 4)]
    assert scales[0] > scales[1] > scales[2]


def test_fewer_modes_than_clusters():
    X = groups(300, 0, 8)
    message = r"has 2 modes with .*, fewer than n_clusters=5.*give a bandwidth of (\S+) or"
    with pytest.warns(ConvergenceWarning, match=message) as found:
        model = DensityClusterer(5).fit(X)
    assert found[0].filename == __file__
    assert model.n_clusters_ == 2
    np.testing.assert_array_equal(model.labels_, DensityClusterer().fit(X).labels_)
    # The remedy works, and hardly anything wider does.
    sigma = float(str(found[0].message).split("bandwidth of ")[2].split()[0])
    assert DensityClusterer(5, bandwidth=0.97 * sigma).fit(X).n_clusters_ == 5
    with pytest.warns(ConvergenceWarning, match="fewer than n_clusters=5"):
        assert DensityClusterer(5, bandwidth=1.05 * sigma).fit(X).n_clusters_ < 5
    message = r"has 1 mode with .*, fewer than n_clusters=2.*give a scale of (\S+) or"
    with pytest.warns(ConvergenceWarning, match=message) as found:
        assert DensityClusterer(2, method="scale-space", scale=1.0).fit(X).n_clusters_ == 1
    scale = float(str(found[0].message).split("a scale of ")[1].split()[0])
    model = DensityClusterer(2, method="scale-space", scale=0.97 * scale).fit(X)
    assert model.n_clusters_ == 2
    message = "has 3 modes at any scale, fewer than n_clusters=4"
    with pytest.warns(ConvergenceWarning, match=message):
        model = DensityClusterer(4, method="scale-space").fit([[0.0], [1.0], [5.0]])
    assert model.labels_.tolist() == [0, 1, 2]


# --- The density and its cuts ----------------------------------------------------------------------


@pytest.mark.parametrize("bandwidth", [0.15, 0.3])
def test_density_modes_and_valleys_against_scipy(bandwidth):
    x = np.random.default_rng(3).gamma(3.0, size=150)
    model = DensityClusterer(bandwidth=bandwidth).fit(x[:, None])
    direct = stats.gaussian_kde(x, bandwidth / x.std(ddof=1))
    np.testing.assert_allclose(model.density_, direct(model.grid_), atol=2e-4 / bandwidth)
    fine = np.linspace(x.min() - 1, x.max() + 1, 20_001)
    f = direct(fine)
    np.testing.assert_allclose(model.modes_, fine[argrelmax(f)], atol=2e-3)
    np.testing.assert_allclose(model.valleys_, fine[argrelmin(f)], atol=2e-3)
    assert model.n_clusters_ > 1
    assert model.bandwidth_ == bandwidth
    assert model.scale_ == pytest.approx(bandwidth**2 / x.var())
    assert model.grid_[0] == pytest.approx(x.min() - 4 * bandwidth, abs=0.1)
    assert model.grid_[-1] == pytest.approx(x.max() + 4 * bandwidth, abs=0.1)


def test_modes_and_valleys_of_a_known_mixture():
    """At a million points the cuts are those of the distribution itself."""
    rng = np.random.default_rng(0)
    part = rng.uniform(size=10**6) < 0.3
    x = np.where(part, rng.normal(0, 1, size=10**6), rng.normal(5, 1.5, size=10**6))

    def density(z):
        return 0.3 * stats.norm.pdf(z, 0, 1) + 0.7 * stats.norm.pdf(z, 5, 1.5)

    valley = optimize.minimize_scalar(density, bounds=(1, 4), method="bounded").x
    for choice in ({}, {"bandwidth": "silverman"}, {"bandwidth": "isj"}):
        model = DensityClusterer(**choice).fit(x[:, None])
        assert model.n_clusters_ == 2
        np.testing.assert_allclose(model.valleys_, [valley], atol=0.1)
        np.testing.assert_allclose(model.modes_, [0.01, 5], atol=0.12)


def test_bandwidth_rules():
    x = np.random.default_rng(0).normal(2, 3, size=5000)
    iqr = np.subtract(*np.quantile(x, [0.75, 0.25]))
    s = min(x.std(), iqr / 1.34) * 5000**-0.2
    for rule, factor in [("scott", 1.0), ("silverman", 0.9)]:
        model = DensityClusterer(bandwidth=rule).fit(x[:, None])
        assert model.bandwidth_ == pytest.approx(factor * s, rel=0.01)
    isj = DensityClusterer(bandwidth="isj").fit(x[:, None]).bandwidth_
    assert isj == pytest.approx((4 / 3) ** 0.2 * 3 * 5000**-0.2, rel=0.15)


def test_isj_resolves_what_rules_blur():
    X = groups(200, *range(0, 80, 8))
    assert DensityClusterer().fit(X).n_clusters_ < 10
    model = DensityClusterer(bandwidth="isj").fit(X)
    assert model.n_clusters_ == 10
    assert np.bincount(model.labels_).tolist() == 10 * [200]


def test_scale_is_a_variance():
    """sigma = sqrt(t) in units of the standard deviation, whatever the unit of the data."""
    X = groups(100, 0, 5)
    for unit in (1.0, 1e-3, 1e6):
        model = DensityClusterer(method="scale-space", scale=0.1).fit(unit * X)
        assert model.bandwidth_ == pytest.approx(np.sqrt(0.1) * unit * X.std())
        assert model.scale_ == pytest.approx(0.1)
        assert model.n_clusters_ == 2


def test_iris():
    """t = 0.1 splits setosa from the rest; sigma = 0.1 shows all three species as modes."""
    X, y = load_iris(return_X_y=True)
    p = least_kurtosis(X)
    p = -p if p[y == 0].mean() > 0 else p
    coarse = DensityClusterer(method="scale-space", scale=0.1).fit(p)
    np.testing.assert_array_equal(coarse.labels_, y > 0)
    np.testing.assert_array_equal(DensityClusterer().fit_predict(p), y > 0)
    np.testing.assert_array_equal(DensityClusterer(2, method="scale-space").fit_predict(p), y > 0)
    fine = DensityClusterer(method="scale-space", scale=0.01).fit(p)
    assert fine.n_clusters_ == 3
    assert (fine.labels_ == y).mean() > 0.95


@settings(max_examples=8)
@given(
    seed=st.integers(0, 2**20), scale=st.sampled_from([1e-6, 1.0, 1e5]), shift=st.integers(-9, 9)
)
def test_labels_do_not_depend_on_the_unit(seed, scale, shift):
    rng = np.random.default_rng(seed)
    x = np.concatenate([rng.normal(0, 1, 80), rng.normal(7, 1, 40)])[:, None]
    for choice in ({}, {"method": "scale-space"}):
        model, other = (DensityClusterer(**choice).fit(z) for z in (x, scale * (x + shift)))
        np.testing.assert_array_equal(other.labels_, model.labels_)
        np.testing.assert_allclose(other.modes_, scale * (model.modes_ + shift), atol=0.01 * scale)
        # Read from right to left.
        mirror = DensityClusterer(**choice).fit(-x)
        np.testing.assert_array_equal(mirror.labels_, model.n_clusters_ - 1 - model.labels_)


@pytest.mark.parametrize("offset", [1e6, -1e12])
def test_data_far_from_zero(offset):
    X = groups(200, 0, 9) + offset
    assert np.bincount(DensityClusterer().fit(X).labels_).tolist() == [200, 200]


def test_a_row_on_a_valley_belongs_to_the_right():
    model = DensityClusterer(bandwidth=1.0).fit([[0.0], [8.0]])
    cut = model.valleys_[0]
    assert cut == pytest.approx(4, abs=0.01)
    assert model.predict([[np.nextafter(cut, -9)], [cut], [np.nextafter(cut, 9)]]).tolist() == [
        0,
        1,
        1,
    ]
    assert model.predict([[-1e9], [1e9]]).tolist() == [0, 1]


# --- Weights ---------------------------------------------------------------------------------------


def test_weights_count_rows(choice):
    rng = np.random.default_rng(1)
    X, w = groups(60, 0, 9), rng.integers(0, 4, size=120)
    weighted = DensityClusterer(**choice).fit(X, sample_weight=w)
    repeated = DensityClusterer(**choice).fit(np.repeat(X, w, axis=0))
    # The grids differ a little, since they follow a glance at the rows.
    for name in ("modes_", "valleys_"):
        np.testing.assert_allclose(getattr(weighted, name), getattr(repeated, name), atol=5e-3)
    density = np.interp(weighted.grid_, repeated.grid_, repeated.density_)
    np.testing.assert_allclose(weighted.density_, density, atol=1e-3)
    assert weighted.bandwidth_ == pytest.approx(repeated.bandwidth_, rel=5e-3)
    np.testing.assert_array_equal(np.repeat(weighted.labels_, w), repeated.labels_)
    assert len(weighted.labels_) == 120


def test_rows_without_weight_are_not_seen():
    """Even where they are all that a glance at the data shows."""
    X = np.vstack([np.full((20_000, 1), 1e9), groups(50, 0, 10)])
    w = np.repeat([0.0, 1.0], [20_000, 100])
    model = DensityClusterer().fit(X, sample_weight=w)
    np.testing.assert_allclose(model.modes_, [0, 10], atol=0.6)
    assert np.bincount(model.labels_).tolist() == [50, 20_050]
    assert DensityClusterer().fit(X[:-50], sample_weight=w[:-50]).n_clusters_ == 1


def test_all_weights_zero():
    with pytest.raises(ValueError, match="at least one non-zero"):
        DensityClusterer().fit([[1.0], [2.0]], sample_weight=[0, 0])


# --- Where rows live -------------------------------------------------------------------------------


@pytest.fixture
def as_column(as_kind, request):
    """Pass a column in every way but CSR."""
    if "csr" in request.node.name:
        pytest.skip("sparse columns are not taken")
    return as_kind


@pytest.mark.parametrize("choice", [{}, {"bandwidth": "isj"}, {"method": "scale-space"}], ids=str)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_every_kind_of_rows(as_column, choice, dtype):
    X = groups(80, 0, 9).astype(dtype)
    expected = DensityClusterer(**choice).fit(X)
    model = DensityClusterer(**choice).fit(as_column(X))
    np.testing.assert_array_equal(to_host(model.labels_), expected.labels_)
    np.testing.assert_array_equal(to_host(model.predict(as_column(X))), expected.labels_)
    for name in ("modes_", "valleys_", "grid_", "density_"):
        found = to_host(getattr(model, name))
        np.testing.assert_allclose(found, getattr(expected, name), rtol=1e-5, atol=1e-6)
        assert found.dtype == dtype
    assert model.bandwidth_ == pytest.approx(expected.bandwidth_)


def test_results_are_where_the_data_is(put):
    X = put(groups(50, 0, 9))
    model = DensityClusterer().fit(X)
    for name in ("labels_", "modes_", "valleys_", "grid_", "density_"):
        assert type(getattr(model, name)) is type(X)
        assert device_of(getattr(model, name)) == device_of(X)


def test_memory_map(tmp_path):
    X = groups(500, 0, 9)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    np.testing.assert_array_equal(DensityClusterer().fit_predict(mapped), np.repeat([0, 1], 500))


def test_block_size_does_not_matter(choice):
    X = groups(3000, 0, 9)
    one = DensityClusterer(**choice).fit(X)
    with clusterica.config_context(memory="64KiB", threads=2):
        many = DensityClusterer(**choice).fit(X)
    np.testing.assert_array_equal(one.labels_, many.labels_)
    np.testing.assert_allclose(one.density_, many.density_, atol=1e-12)


def test_data_on_another_device():
    xp = pytest.importorskip("array_api_strict")
    model = DensityClusterer().fit(xp.asarray(groups(50, 0), device=xp.Device("device1")))
    with pytest.raises(ValueError, match=r"fitted on device .*device1"):
        model.predict(groups(50, 0))


# --- Faults ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [0.0, 5.0, -1e20, 1e-200])
@pytest.mark.parametrize("n", [1, 40])
def test_equal_rows_are_one_cluster(choice, value, n):
    X = np.full((n, 1), value)
    if choice.get("bandwidth") == 0.8:
        choice = {"bandwidth": 0.8 * max(1.0, abs(value))}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "bandwidth='isj' has no solution", RuntimeWarning)
        model = DensityClusterer(**choice).fit(X)
    assert model.n_clusters_ == 1
    assert model.labels_.tolist() == n * [0]
    assert model.modes_.tolist() == pytest.approx([value], rel=1e-12, abs=1e-12)
    assert np.isfinite(model.density_).all()
    assert np.isfinite([model.bandwidth_, model.scale_]).all()
    assert model.predict([[value - 1.0], [value + 1.0]]).tolist() == [0, 0]


@pytest.mark.filterwarnings("ignore:bandwidth='isj' has no solution:RuntimeWarning")
def test_equal_rows_are_not_several_clusters(choice):
    with pytest.warns(ConvergenceWarning, match=r"has 1 mode .*; lower n_clusters") as found:
        model = DensityClusterer(2, **choice).fit(np.full((40, 1), 3.0))
    assert model.n_clusters_ == 1
    assert "scale-space" not in str(found[-1].message)


@pytest.mark.parametrize("size", [1e155, 1e160, 1e300])
@pytest.mark.parametrize("far", [1, 400])
def test_rows_whose_squares_overflow(choice, size, far):
    """One of them, or all, which are equal or not."""
    X = np.concatenate([np.ones(400), np.random.default_rng().normal(9, 1, 400)])[:, None]
    X[-far:] *= size
    for rows in (X, X[-far:], np.full((20, 1), size)):
        with pytest.raises(ValueError, match="squares overflow; scale them down"):
            DensityClusterer(**choice).fit(rows)


def test_rows_that_differ_in_the_last_digit_are_equal():
    x = np.array([1e8, np.nextafter(1e8, np.inf)] * 20)[:, None]
    assert DensityClusterer().fit(x).n_clusters_ == 1


def test_isj_without_a_solution():
    with pytest.warns(RuntimeWarning, match="no solution for these 40 rows.*Silverman"):
        model = DensityClusterer(bandwidth="isj").fit(np.full((40, 1), 3.0))
    assert model.n_clusters_ == 1


def test_several_columns():
    with pytest.raises(ValueError, match=r"one column, and X has 2; .*KurtosisPursuit\(\)"):
        DensityClusterer().fit(np.ones((5, 2)))
    with pytest.raises(ValueError, match="X has 3 features, but DensityClusterer is expecting 1"):
        DensityClusterer().fit(groups(20, 0)).predict(np.ones((5, 3)))


def test_one_dimension():
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array"):
        DensityClusterer().fit(np.arange(5.0))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_not_finite(put, value):
    X = groups(20, 0, 9)
    X[7] = value
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        DensityClusterer().fit(put(X))
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        DensityClusterer().fit(put(groups(20, 0))).predict(put(X))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"bandwidth": -1.0}, "'bandwidth' parameter"),
        ({"bandwidth": 0.0}, "'bandwidth' parameter"),
        ({"bandwidth": "best"}, "'bandwidth' parameter"),
        ({"method": "scale-space", "scale": -0.1}, "'scale' parameter"),
        ({"n_clusters": 0}, "'n_clusters' parameter"),
        ({"method": "histogram"}, "'method' parameter"),
        ({"scale": 0.1}, "scale=0.1 is for method='scale-space'"),
        ({"method": "scale-space", "bandwidth": "isj"}, "bandwidth='isj' is for method='kde'"),
        ({"method": "scale-space", "bandwidth": 0.3}, "bandwidth=0.3 is for method='kde'"),
        ({"bandwidth": 1e-9}, "width 1e-09 is too fine for data from .*; make it .* or more"),
        ({"method": "scale-space", "scale": 1e-16}, "is too fine"),
    ],
)
def test_bad_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        DensityClusterer(**parameters).fit(groups(20, 0, 9))


def test_the_finest_sigma_that_is_offered_is_taken():
    X = groups(20, 0, 9)
    with pytest.raises(ValueError, match="make it") as error:
        DensityClusterer(bandwidth=1e-9).fit(X)
    sigma = float(str(error.value).split("make it ")[1].split()[0])
    assert DensityClusterer(bandwidth=1.01 * sigma).fit(X).bandwidth_ == 1.01 * sigma


# --- scikit-learn ----------------------------------------------------------------------------------


class FirstColumn(DensityClusterer):
    """Looks at the first of any number of columns, so that scikit-learn's checks apply."""

    def _check_columns(self, rows):
        pass


# The checks ask for more clusters than a handful of rows has modes.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([FirstColumn(), FirstColumn(method="scale-space")])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_clone_and_parameters():
    model = DensityClusterer(3, method="scale-space", scale=0.2)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert model.get_params() == {
        "n_clusters": 3,
        "method": "scale-space",
        "bandwidth": "scott",
        "scale": 0.2,
    }
    assert not hasattr(copy.set_params(n_clusters=None), "labels_")


def test_fit_again_and_again(choice):
    X = groups(60, 0, 9)
    model = DensityClusterer(**choice)
    before = model.get_params()
    first = model.fit(X).__dict__.copy()
    model.fit(groups(40, 5)).fit(X)
    assert model.get_params() == before
    assert model.__dict__.keys() == first.keys()
    for name in ("labels_", "modes_", "valleys_", "grid_", "density_"):
        np.testing.assert_array_equal(getattr(model, name), first[name])
    assert model.n_features_in_ == 1


def test_pickle_and_names():
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame(groups(60, 0, 9), columns=["length"])
    model = DensityClusterer().fit(X)
    assert model.feature_names_in_.tolist() == ["length"]
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(X), model.labels_)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(X.rename(columns={"length": "width"}))


def test_not_fitted():
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        DensityClusterer().predict([[1.0]])


def test_the_data_is_left_alone():
    X = groups(60, 0, 9)
    before = X.copy()
    DensityClusterer().fit(X, sample_weight=np.ones(120)).predict(X)
    np.testing.assert_array_equal(X, before)


def test_in_a_pipeline():
    """After a projection it clusters many columns, as K-means does on two far groups."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4)) + 12 * (np.arange(300) % 2)[:, None]
    model = make_pipeline(PCA(1), DensityClusterer()).fit(X)
    labels = model.predict(X)
    np.testing.assert_array_equal(labels, model[-1].labels_)
    other = KMeans(2, random_state=0).fit_predict(X)
    assert (labels == other).all() or (labels != other).all()
