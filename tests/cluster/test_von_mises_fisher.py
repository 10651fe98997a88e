"""Von Mises-Fisher mixtures: planted parameters, a likelihood that never falls, all kinds of rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse, special, stats
from scipy.optimize import linear_sum_assignment
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

import clusterica
from clusterica.arrays import device_of, to_host
from clusterica.cluster import SphericalKMeans, VonMisesFisherMixture
from clusterica.ops.von_mises_fisher import log_constant

ORDER = (
    "as of scikit-learn's KMeans: draws depend on the order of rows; see test_weights_count_rows"
)

SPARSE = "the check takes whatever has predict_proba for a classifier; see test_kinds_of_data"


# The checks fit 8 components to a handful of rows.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [VonMisesFisherMixture(), VonMisesFisherMixture(2, concentration="tied", n_init=2)],
    expected_failed_checks=lambda estimator: {
        "check_sample_weight_equivalence_on_dense_data": ORDER,
        "check_sample_weight_equivalence_on_sparse_data": ORDER,
        "check_estimator_sparse_array": SPARSE,
        "check_estimator_sparse_matrix": SPARSE,
    },
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def unit(X):
    return X / np.linalg.norm(X, axis=1)[:, None]


def planted(d, kappa, n=800):
    """Return rows of components that lie apart, in any length and order, and the mean directions."""
    rng = np.random.default_rng()
    means = np.linalg.qr(rng.normal(size=(d, len(kappa))))[0].T
    X = np.concatenate(
        [
            stats.vonmises_fisher(m, k).rvs(n, random_state=rng)
            for m, k in zip(means, kappa, strict=True)
        ]
    )
    return rng.permutation(X) * rng.uniform(0.1, 10, size=(len(X), 1)), means


def matched(model, means):
    """Return the order in which the components of the model are those that were planted."""
    order = linear_sum_assignment(-means @ to_host(model.means_).T)[1]
    return order


@pytest.mark.parametrize(
    ("d", "kappa"), [(2, [40, 80]), (3, [30, 90, 200]), (50, [100, 200, 400]), (1500, [1000, 4000])]
)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_planted_parameters_are_found(d, kappa, dtype):
    X, means = planted(d, kappa, n=800 if d < 100 else 200)
    model = VonMisesFisherMixture(len(kappa), n_init=5, random_state=0).fit(X.astype(dtype))
    order = matched(model, means)
    assert (np.einsum("ij,ij->i", model.means_[order], means) > 0.97).all()
    # Standard error of a concentration: κ sqrt(2 / (n (d - 1))), here up to 5 %; overlap adds to it.
    np.testing.assert_allclose(model.concentrations_[order], kappa, rtol=0.25)
    np.testing.assert_allclose(model.weights_, 1 / len(kappa), atol=0.03)
    assert model.means_.dtype == model.concentrations_.dtype == dtype
    np.testing.assert_allclose(np.linalg.norm(model.means_, axis=1), 1, rtol=1e-6)


def test_one_component_is_the_fit_of_scipy():
    X, _ = planted(4, [7.0])
    model = VonMisesFisherMixture(1).fit(X)
    mu, kappa = stats.vonmises_fisher.fit(unit(X))
    np.testing.assert_allclose(model.means_[0], mu, rtol=1e-10)
    np.testing.assert_allclose(model.concentrations_[0], kappa, rtol=1e-6)
    expected = stats.vonmises_fisher(mu, kappa).logpdf(unit(X))
    np.testing.assert_allclose(model.score_samples(X), expected, rtol=1e-6)
    assert model.log_likelihood_ == pytest.approx(expected.mean())


# Three components for two that were planted: some draws need more than 100 iterations.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("concentration", ["free", "tied"])
def test_densities_and_memberships_by_definition(concentration):
    X, _ = planted(5, [20, 50], n=100)
    model = VonMisesFisherMixture(3, concentration=concentration, random_state=0).fit(X)
    terms = np.log(model.weights_) + log_constant(5, model.concentrations_)
    terms = terms + model.concentrations_ * (unit(X) @ model.means_.T)
    np.testing.assert_allclose(model.score_samples(X), special.logsumexp(terms, axis=1))
    np.testing.assert_allclose(model.predict_proba(X), special.softmax(terms, axis=1), atol=1e-12)
    np.testing.assert_array_equal(model.predict(X), terms.argmax(axis=1))
    assert model.score(X) == pytest.approx(model.score_samples(X).mean())
    assert model.log_likelihood_ == pytest.approx(model.score(X))
    if concentration == "tied":
        assert np.ptp(model.concentrations_) == 0
    n_free = 3 * 4 + (1 if concentration == "tied" else 3) + 2
    assert model.bic(X) == pytest.approx(n_free * np.log(200) - 2 * model.score_samples(X).sum())


def test_bic_finds_the_number_of_components():
    X, _ = planted(10, [100, 100, 100])
    bics = [VonMisesFisherMixture(k, n_init=3, random_state=0).fit(X).bic(X) for k in (1, 2, 3, 4)]
    assert np.argmin(bics) == 2


@given(
    d=st.integers(2, 30),
    k=st.integers(1, 5),
    tied=st.booleans(),
    weighted=st.booleans(),
    seed=st.integers(0, 2**31),
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_likelihood_never_falls(d, k, tied, weighted, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, d)) + rng.normal(size=d)
    weights = rng.integers(0, 4, size=60) + (np.arange(60) == 0) if weighted else None
    mixture = VonMisesFisherMixture(
        k, concentration="tied" if tied else "free", max_iter=30, random_state=0
    )
    history = mixture.fit(X, sample_weight=weights).objective_history_
    # Rounding: 1 - r of a component whose rows lie together closely has few digits.
    assert (np.diff(history) >= -1e-8 * np.abs(history[1:])).all()
    assert mixture.weights_.sum() == pytest.approx(1)
    assert history[-1] == pytest.approx(mixture.score(X, sample_weight=weights), rel=1e-6)


def test_weights_count_rows():
    rng = np.random.default_rng()
    X, means = planted(4, [20, 50], n=60)
    # Near the components: an empty cluster would be moved to a row that is drawn by its number.
    weights, start = rng.integers(0, 4, size=120), unit(means + 0.1 * rng.normal(size=(2, 4)))
    weighted = VonMisesFisherMixture(2, init=start).fit(X, sample_weight=weights)
    repeated = VonMisesFisherMixture(2, init=start).fit(np.repeat(X, weights, axis=0))
    np.testing.assert_allclose(weighted.means_, repeated.means_, atol=1e-6)
    np.testing.assert_allclose(weighted.concentrations_, repeated.concentrations_, rtol=1e-5)
    np.testing.assert_allclose(
        weighted.score(X, sample_weight=weights), repeated.score(np.repeat(X, weights, axis=0))
    )


def test_kinds_of_data(as_kind, heavy):
    weights = np.random.default_rng().uniform(0.5, 2, size=600)
    settings = {"max_iter": 15, "tol": 0.0, "random_state": 0}
    with pytest.warns(ConvergenceWarning):
        expected = VonMisesFisherMixture(3, **settings).fit(heavy, sample_weight=weights)
    X = as_kind(heavy)
    with pytest.warns(ConvergenceWarning):
        model = VonMisesFisherMixture(3, **settings).fit(X, sample_weight=weights)
    for name in ("means_", "concentrations_", "weights_", "objective_history_"):
        a, b = (to_host(getattr(m, name)) for m in (model, expected))
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-8)
    for method in ("predict_proba", "score_samples", "predict"):
        found = to_host(getattr(model, method)(X))
        np.testing.assert_allclose(found, getattr(expected, method)(heavy), atol=1e-7)


def test_results_are_where_the_data_is(put, heavy):
    X = put(heavy)
    model = VonMisesFisherMixture(2, random_state=0).fit(X)
    for result in (model.means_, model.weights_, model.predict_proba(X), model.predict(X)):
        assert type(result) is type(X)
        assert device_of(result) == device_of(X)


@pytest.mark.parametrize("memory", ["64KiB", "1GiB"])
@pytest.mark.parametrize("threads", [1, 3])
def test_blocks_threads_and_memory_maps(threads, memory, tmp_path):
    X, _ = planted(4, [10, 20, 40], n=2000)
    start = unit(np.random.default_rng().normal(size=(3, 4)))
    np.save(tmp_path / "X.npy", X)
    expected = VonMisesFisherMixture(3, init=start).fit(X)
    with clusterica.config_context(threads=threads, memory=memory):
        model = VonMisesFisherMixture(3, init=start).fit(np.load(tmp_path / "X.npy", mmap_mode="r"))
        np.testing.assert_allclose(model.predict_proba(X), expected.predict_proba(X), atol=1e-6)
    np.testing.assert_allclose(model.concentrations_, expected.concentrations_, rtol=1e-6)


def test_a_csr_matrix_of_many_features_stays_sparse():
    """Its dense form would take 40 GB."""
    X = sparse.random_array(
        (2000, 2_500_000), density=1e-6, format="csr", rng=np.random.default_rng()
    )
    X = X + sparse.csr_array((np.ones(2000), (np.arange(2000), np.arange(2000) % 2)), shape=X.shape)
    model = VonMisesFisherMixture(2, n_init=3, random_state=0).fit(X.tocsr())
    labels = model.predict(X.tocsr())
    assert (labels[::2] == labels[0]).mean() > 0.9
    assert (labels[1::2] != labels[0]).mean() > 0.9
    assert np.isfinite(model.objective_history_).all()


def test_rows_of_zeros_count_for_nothing():
    X, start = planted(4, [20, 50], n=60)
    with_zeros = np.insert(X, [0, 7, 50], 0.0, axis=0)
    a, b = (VonMisesFisherMixture(2, init=start, tol=1e-12).fit(rows) for rows in (X, with_zeros))
    np.testing.assert_allclose(b.means_, a.means_, atol=1e-4)
    np.testing.assert_allclose(b.concentrations_, a.concentrations_, rtol=1e-4)
    assert b.score(with_zeros) == pytest.approx(b.score(X))
    np.testing.assert_allclose(b.predict_proba(np.zeros((1, 4)))[0], b.weights_)
    assert b.score_samples(np.zeros((1, 4))).tolist() == [0]
    with pytest.raises(ValueError, match="no direction"):
        VonMisesFisherMixture(2, init="gaussian").fit(np.zeros((5, 4)))


def test_more_components_than_directions():
    X = np.repeat(np.eye(3), 20, axis=0)
    with pytest.warns(ConvergenceWarning, match=r"of 5 components 2 hold .* 3 hold .*tied"):
        model = VonMisesFisherMixture(5, random_state=0).fit(X)
    assert np.isfinite(model.objective_history_).all()
    assert np.isfinite(model.predict_proba(X)).all()
    assert len(np.unique(model.predict(X))) == 3
    assert model.concentrations_.max() == 1e10


def test_more_starts_are_no_worse():
    rng = np.random.default_rng()
    X = rng.normal(size=(300, 6))
    one, many = (
        VonMisesFisherMixture(5, init="gaussian", n_init=n, random_state=0, max_iter=300).fit(X)
        for n in (1, 5)
    )
    assert many.log_likelihood_ >= one.log_likelihood_


def test_one_large_concentration_is_spherical_k_means():
    X, _ = planted(30, [2000, 2000, 2000], n=100)
    labels = VonMisesFisherMixture(3, concentration="tied", random_state=0).fit_predict(X)
    expected = SphericalKMeans(3, random_state=0).fit_predict(X)
    pairs = set(zip(labels.tolist(), expected.tolist(), strict=True))
    assert len(pairs) == len(set(expected.tolist()))


def test_progress_and_early_stopping(watcher):
    X, _ = planted(4, [5, 10], n=200)
    callback = watcher(stop_after=2)
    model = VonMisesFisherMixture(2, tol=0.0, random_state=0).set_callbacks(callback)
    model.fit(X)
    assert model.n_iter_ == 2
    assert callback.models[-1].predict(X).shape == (400,)


@pytest.mark.parametrize(
    ("X", "settings", "message"),
    [
        (np.ones((5, 1)), {}, "one feature has no direction"),
        (np.ones((5, 2)), {"n_components": 6}, "n_samples=5 should be >= 6"),
        (np.ones((5, 2)), {"n_components": 0}, "n_components"),
        (np.ones((5, 2)), {"n_components": 2, "init": np.eye(3)}, "shape of the initial centers"),
        (np.ones((9, 2)), {"concentration": "full"}, "concentration"),
        ([[1.0, np.nan]] * 9, {}, "NaN"),
    ],
)
def test_bad_input(X, settings, message):
    with pytest.raises(ValueError, match=message):
        VonMisesFisherMixture(**settings).fit(X)
