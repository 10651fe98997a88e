"""Sparse coding: an objective that falls, atoms that are there, batches, all kinds of rows, bad input."""

import numpy as np
import pytest
from sklearn.decomposition import DictionaryLearning
from sklearn.utils.estimator_checks import parametrize_with_checks

from clusterica import config_context
from clusterica.arrays import device_of, to_host
from clusterica.dictionaries import SparseCoding
from clusterica.encoders import SparseEncoder
from clusterica.images import ImageFeatures

pytestmark = pytest.mark.filterwarnings("ignore:.*did not converge")


# The checks have rows of length one and less, and some are far from any other.
@pytest.mark.filterwarnings("ignore:.*are used by no row")
@parametrize_with_checks([SparseCoding(2, alpha=0.1), SparseCoding(alpha=0.01, batch_size=10)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def X(make_few_of_many):
    return make_few_of_many(0, n_rows=300, n_atoms=12, n_features=8, n_nonzero=2)[0]


def objective(model, X):
    S = model.transform(X)
    each = 0.5 * ((X - S @ model.components_) ** 2).sum(axis=1)
    return (each + model.alpha * np.abs(S).sum(axis=1)).mean()


@pytest.mark.parametrize("alpha", [0.05, 0.3])
def test_the_objective_falls_and_is_that_of_the_codes(X, alpha):
    model = SparseCoding(12, alpha=alpha, max_iter=15, tol=1e-6, random_state=0).fit(X)
    history = model.objective_history_
    assert len(history) == model.n_iter_ + 1
    assert (np.diff(history) <= 1e-7).all()
    assert history[-1] < 0.98 * history[0]
    assert objective(model, X) == pytest.approx(history[-1], rel=1e-4)
    np.testing.assert_allclose(np.linalg.norm(model.components_, axis=1), 1)


@pytest.mark.parametrize("batch_size", [None, 64])
@pytest.mark.parametrize(
    ("dtype", "size"), [(np.float32, 2.0**-80), (np.float32, 2.0**80), (np.float64, 2.0**450)]
)
def test_units_of_the_rows_change_nothing(X, batch_size, dtype, size):
    settings = {"batch_size": batch_size, "max_iter": 5, "tol": 1e-2, "random_state": 0}
    X = X.astype(dtype)
    model = SparseCoding(12, alpha=0.1, **settings).fit(X)
    other = SparseCoding(12, alpha=0.1 * size, **settings).fit(dtype(size) * X)
    np.testing.assert_allclose(other.components_, model.components_, atol=1e-4)


def test_as_good_as_scikit_learn_from_the_same_start(X):
    start = X[:12] / np.linalg.norm(X[:12], axis=1, keepdims=True)
    ours = SparseCoding(12, alpha=0.1, init=start, max_iter=100, tol=1e-6).fit(X)
    theirs = DictionaryLearning(
        12,
        alpha=0.1,
        dict_init=start,
        code_init=np.zeros((len(X), 12)),
        fit_algorithm="cd",
        max_iter=100,
        tol=1e-9,
    ).fit(X)
    ours_of_theirs = SparseCoding(12, alpha=0.1)
    ours_of_theirs.__dict__.update(vars(ours) | {"components_": theirs.components_})
    assert objective(ours, X) <= 1.005 * objective(ours_of_theirs, X)


@pytest.mark.parametrize("batch_size", [None, 256])
def test_atoms_that_are_there_are_found(make_few_of_many, recovered_share, batch_size):
    X, atoms = make_few_of_many(1, n_rows=4000, n_atoms=30, n_features=20, noise=0.01)
    model = SparseCoding(30, alpha=0.1, batch_size=batch_size, max_iter=60, random_state=0).fit(X)
    assert recovered_share(model.components_, atoms, 0.97) > 0.9


def test_batches_reach_the_objective_of_all_rows(X):
    settings = {"alpha": 0.1, "max_iter": 60, "random_state": 0}
    whole = SparseCoding(12, **settings).fit(X)
    online = SparseCoding(12, batch_size=50, **settings).fit(X)
    assert len(online.objective_history_) == online.n_iter_
    assert objective(online, X) < 1.03 * objective(whole, X)


def test_partial_fit_learns_and_goes_on_after_fit(X):
    model = SparseCoding(12, alpha=0.1, random_state=0)
    for i in range(60):
        model.partial_fit(X[50 * (i % 6) :][:50])
    assert model.n_iter_ == 60
    assert not hasattr(model, "objective_history_")
    whole = SparseCoding(12, alpha=0.1, max_iter=60, random_state=0).fit(X)
    assert objective(model, X) < 1.05 * objective(whole, X)
    before = objective(whole, X)
    whole.partial_fit(X[:50])
    assert objective(whole, X) < 1.01 * before


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_rows_whose_squares_vanish(X, method):
    with pytest.raises(ValueError, match=r"too small for their squares in float64; .*divide X by"):
        getattr(SparseCoding(4), method)(1e-200 * np.asarray(X, np.float64))


def test_partial_fit_with_fewer_rows_than_atoms_given(X):
    model = SparseCoding(12, alpha=0.1, init=X[:12])
    for i in range(5):
        model.partial_fit(X[7 * i : 7 * i + 7])
    assert objective(model, X) < objective(
        SparseCoding(12, alpha=0.1, init=X[:12]).partial_fit(X[:1]), X
    )


def test_codes_are_those_of_the_encoder(X):
    model = SparseCoding(10, alpha=0.2, max_iter=5, random_state=0).fit(X)
    encoder = SparseEncoder(model.components_, alpha=0.2, split_signs=False)
    np.testing.assert_array_equal(model.transform(X), encoder.fit_transform(X))


@pytest.mark.parametrize("batch_size", [None, 2000])
def test_an_atom_that_no_row_uses_is_replaced(X, batch_size):
    """The data lies in the first features, and one atom begins outside of them."""
    rows = np.hstack([X, np.zeros((300, 1))])
    start = np.vstack([rows[:5], np.eye(9)[-1:]])
    model = SparseCoding(6, alpha=0.05, init=start, batch_size=batch_size, max_iter=5).fit(rows)
    assert model.n_replaced_ == 1
    assert model.n_dead_ == 0
    np.testing.assert_allclose(model.components_[:, -1], 0, atol=1e-12)


SETTINGS = {"alpha": 0.1, "max_iter": 5, "random_state": 0}


@pytest.mark.parametrize("batch_size", [None, 100])
def test_rows_of_all_kinds(X, as_kind, batch_size):
    change, settings = as_kind
    expected = SparseCoding(9, batch_size=batch_size, **SETTINGS).fit(X)
    with config_context(**settings):
        given = change(X)
        model = SparseCoding(9, batch_size=batch_size, **SETTINGS).fit(given)
        S = to_host(model.transform(given))
    assert S.dtype == model.components_.dtype
    if batch_size is None:
        np.testing.assert_allclose(model.objective_history_, expected.objective_history_, rtol=1e-4)
        np.testing.assert_allclose(S, expected.transform(X), atol=0.05)
    else:  # batches of blocks come in order
        assert model.objective_history_[-1] < 1.1 * expected.objective_history_[-1]


def test_array_libraries(put, X):
    expected = SparseCoding(9, **SETTINGS).fit(X)
    model = SparseCoding(9, **SETTINGS).fit(put(X))
    S = model.transform(put(X))
    for result in (S, model.components_):
        assert type(result) is type(put(X))
        assert device_of(result) == device_of(put(X))
    np.testing.assert_allclose(model.objective_history_, expected.objective_history_, rtol=1e-4)
    np.testing.assert_allclose(to_host(S), expected.transform(X), atol=0.05)
    online = SparseCoding(9, batch_size=100, **SETTINGS)
    reference = online.fit(X).objective_history_
    np.testing.assert_allclose(online.fit(put(X)).objective_history_, reference, rtol=1e-2)


def test_a_callback_may_stop(X, watcher):
    callback = watcher(stop_after=2)
    model = SparseCoding(5, alpha=0.1, tol=0, random_state=0).set_callbacks(callback).fit(X)
    assert model.n_iter_ == 2
    assert callback.models[0].transform(X).shape == (300, 5)


def test_features_of_images(rng):
    images = rng.integers(0, 256, size=(12, 8, 8), dtype=np.uint8)
    settings = {"n_filters": 6, "patch_size": 3, "n_patches": 200, "random_state": 0}
    learner = SparseCoding(alpha=0.5, max_iter=3)
    own = ImageFeatures(**settings, learner=learner, encoder="transform-both-signs").fit(images)
    named = ImageFeatures(
        **settings, learner=learner, encoder=SparseEncoder(alpha=0.5), pooling="sum"
    ).fit(images)
    np.testing.assert_allclose(own.transform(images), named.transform(images), rtol=1e-3, atol=1e-3)
    assert own.transform(images).any()


# --- Bad input --------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [None, 50])
def test_a_penalty_that_makes_all_codes_zero_is_said_once(X, batch_size):
    longest = np.linalg.norm(X, axis=1).max()
    model = SparseCoding(5, alpha=2 * longest, batch_size=batch_size, random_state=0)
    with pytest.warns(UserWarning, match=r"makes the codes of all rows zero") as caught:
        model.fit(X)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert f"below {longest:.3g}" in str(caught[0].message)
    assert np.isfinite(model.components_).all()
    assert not model.transform(X).any()
    assert model.set_params(alpha=0.1 * longest).fit(X).transform(X).any()


def test_a_batch_that_has_no_codes_is_said(X):
    model = SparseCoding(5, alpha=50.0, random_state=0)
    with pytest.warns(UserWarning, match=r"alpha=50 makes the codes of all rows zero") as caught:
        model.partial_fit(X)
    assert len(caught) == 1
    model.set_params(alpha=float(str(caught[0].message).split()[-1])).partial_fit(X)
    assert model.transform(X).any()
    model.partial_fit(0 * X)  # alpha is not to blame


def test_atoms_that_no_row_uses_are_said():
    rows = np.repeat(np.eye(3), 20, axis=0)
    with pytest.warns(UserWarning, match=r"\d+ of 20 atoms are used by no row; use fewer"):
        model = SparseCoding(20, alpha=0.1, random_state=0).fit(rows)
    assert model.n_dead_ >= 10
    assert np.isfinite(model.components_).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"n_components": 301},
            "n_components=301 must be at most the number of rows, n_samples=300",
        ),
        ({"alpha": 0.0}, "'alpha' parameter of SparseCoding must be"),
        ({"batch_size": 0}, "'batch_size' parameter"),
        (
            {"n_components": 3, "init": np.ones((2, 8))},
            r"init has shape \(2, 8\); it must be .*\(3, 8\)",
        ),
        ({"n_components": 2, "init": np.zeros((2, 8))}, "no row of it may be all zeros"),
    ],
    ids=str,
)
def test_bad_settings(X, settings, message):
    with pytest.raises(ValueError, match=message):
        SparseCoding(**settings).fit(X)


def test_bad_rows(X):
    with pytest.raises(ValueError, match=r"rows drawn at random are zero.*nothing to learn"):
        SparseCoding(2).fit(np.zeros((20, 3)))
    with pytest.raises(ValueError, match="n_components=9 must be at most"):
        SparseCoding(9, alpha=0.1).partial_fit(X[:5])
    broken = X.copy()
    broken[5, 2] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        SparseCoding(3).fit(broken)


def test_rows_of_zeros_have_codes_of_zero(X):
    rows = X.copy()
    rows[::3] = 0
    model = SparseCoding(5, alpha=0.1, max_iter=5, random_state=0).fit(rows)
    S = model.transform(rows)
    assert np.isfinite(S).all()
    assert not S[::3].any()
    assert S[1].any()
