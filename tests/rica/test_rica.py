"""Reconstruction ICA finds what was mixed; its objective, inputs, mini-batches and warnings."""

import pickle

import numpy as np
import pytest
from sklearn.decomposition import FastICA
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

import clusterica
from clusterica.arrays import to_host
from clusterica.contrasts import (
    Derivatives,
    GroupPooling,
    LogCosh,
    Quartic,
    SmoothedL1,
    SmoothedLaplace,
    TorusPooling,
    make_penalty,
)
from clusterica.datasets import make_sparse_sources
from clusterica.metrics import amari_distance
from clusterica.preprocessing import Whitener
from clusterica.rica import RICA
from clusterica.rica._reconstruction import Reconstruction

PENALTIES = ["logcosh", "l1", "exp", "sqrt", LogCosh(scale=2)]


@pytest.fixture(scope="module")
def mixed():
    """8,000 rows of five Laplace sources, turned, off the origin."""
    X, _, A = make_sparse_sources(8000, 5, mixing="orthogonal", random_state=1)
    return X + 3, A


@pytest.fixture(scope="module")
def crowded():
    """Three very sparse sources in the plane."""
    rng = np.random.default_rng(0)
    angles = np.radians([10, 70, 130])
    A = np.array([np.cos(angles), np.sin(angles)])
    S = np.where(rng.random((20_000, 3)) < 0.03, rng.laplace(size=(20_000, 3)), 0)
    return S @ A.T, A


def objective(rica, X, *, terms=False):
    """The objective of a fitted model from every row, by its equation."""
    W, S = rica.components_, rica.transform(X)
    t = max(1, len(W) / W.shape[1]) if rica.unit_norm == "tight" else 1
    centred = X - rica.mean_
    reconstruction = ((S @ W / t - centred) ** 2).sum(axis=1).mean()
    g = make_penalty(rica.penalty, rica.pooling, n_codes=len(W), signs=rica.signs)
    penalty = rica.sparsity * float(g(S).value) / len(X)
    return (reconstruction, penalty) if terms else reconstruction + penalty


# --- What it finds ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("sparsity", [0.1, 1.0])
def test_sources_of_white_data_are_as_near_as_those_of_fastica(seed, sparsity):
    X, _, A = make_sparse_sources(10_000, 8, mixing="orthogonal", random_state=seed)
    whitener = Whitener(eps=0.0).fit(X)
    white, mixing = whitener.transform(X), whitener.whitening_ @ A
    theirs = FastICA(whiten="unit-variance", random_state=0, tol=1e-6, max_iter=1000).fit(X)
    ours = RICA(sparsity=sparsity, random_state=seed, max_iter=500).fit(white)
    limit = 1.2 * amari_distance(theirs.components_, A)
    assert amari_distance(ours.components_, mixing) < limit


@pytest.mark.parametrize("penalty", PENALTIES, ids=str)
@pytest.mark.parametrize("unit_norm", ["tight", True, False])
def test_every_penalty_undoes_the_mixing(mixed, penalty, unit_norm):
    X, A = mixed
    settings = {"sparsity": 0.5, "penalty": penalty, "unit_norm": unit_norm, "max_iter": 500}
    rica = RICA(random_state=0, **settings).fit(X)
    assert amari_distance(rica.components_, A) < 0.04


def test_a_sign_finds_a_source_with_light_tails():
    rng = np.random.default_rng()
    S = np.column_stack([rng.laplace(size=(20_000, 2)), rng.uniform(-2, 2, size=20_000)])
    X = S / S.std(axis=0) @ np.linalg.qr(rng.normal(size=(3, 3)))[0]
    # Once in some hundred draws a start ends half way between the two sparse sources.
    starts = [RICA(sparsity=0.5, signs=[1, 1, -1], random_state=s).fit(X) for s in (0, 1)]
    rica = min(starts, key=lambda model: model.objective_history_[-1])
    correlation = np.abs(np.corrcoef(rica.transform(X).T, S.T)[:3, 3:])
    assert correlation[2, 2] > 0.98
    assert correlation[:2, :2].max(axis=0).min() > 0.98


def test_more_sources_than_features(crowded):
    """Codes are sparsest where every filter is blind to one source: at right angles to its column."""
    X, A = crowded
    models = [RICA(3, sparsity=0.2, penalty="l1", random_state=s).fit(X / X.std()) for s in (0, 1)]
    for rica in models:
        cosines = np.abs(rica.components_ @ A)
        assert sorted(cosines.argmin(axis=1)) == [0, 1, 2]
        assert np.degrees(np.arcsin(cosines.min(axis=1))).max() < 3


def test_fewer_filters_than_features_span_the_largest_variances(rng):
    X = rng.laplace(size=(4000, 6)) * [5, 4, 3, 0.5, 0.4, 0.3]
    rica = RICA(3, sparsity=1e-3, random_state=0).fit(X)
    assert rica.components_.shape == (3, 6)
    np.testing.assert_allclose(rica.components_[:, 3:], 0, atol=0.05)
    np.testing.assert_allclose(rica.reconstruction_error_, X[:, 3:].var(axis=0).sum(), rtol=0.01)


def test_overcomplete_filters_do_not_hide(rng):
    """Where the data varies little, or not at all, a filter of unit length costs little or nothing."""
    X = rng.laplace(size=(3000, 8)) * np.linspace(0.6, 1, 8)
    X -= X.mean(axis=1, keepdims=True)
    for rows in (X, X.astype(np.float32)):
        rica = RICA(32, sparsity=0.1, random_state=0, max_iter=100)
        with pytest.warns(ConvergenceWarning):
            rica.fit(rows)
        assert rica.transform(X).std(axis=0).min() > 0.5
        np.testing.assert_allclose(rica.components_.sum(axis=1), 0, atol=1e-5)
        frame = rica.components_.T @ rica.components_ / 4
        np.testing.assert_allclose(np.linalg.eigvalsh(frame)[1:], 1, atol=0.35)


# --- Its objective ----------------------------------------------------------------------------------


# Nine filters of five features: those that are not needed shrink to nothing where lengths are free.
@pytest.mark.filterwarnings("ignore:.*filters are dead")
@pytest.mark.parametrize("pooling", [None, "1d", "2d", [0, 0, 1, 1, 2, 2, 3, 3, 3]], ids=str)
@pytest.mark.parametrize("unit_norm", ["tight", True, False])
def test_the_objective_falls_and_its_terms_add_up(mixed, pooling, unit_norm):
    X = mixed[0][:2000]
    rica = RICA(9, pooling=pooling, unit_norm=unit_norm, random_state=0, tol=1e-5, max_iter=500)
    rica.fit(X)
    history = rica.objective_history_
    assert len(history) == rica.n_iter_ + 1
    assert (np.diff(history) <= 1e-8 * history[:-1]).all()
    assert list(rica.term_histories_) == ["reconstruction", "penalty"]
    np.testing.assert_allclose(sum(rica.term_histories_.values()), history)
    found = [terms[-1] for terms in rica.term_histories_.values()]
    np.testing.assert_allclose(found, objective(rica, X, terms=True), rtol=1e-8)
    assert rica.reconstruction_error_ == found[0]
    if unit_norm:
        np.testing.assert_allclose(np.linalg.norm(rica.components_, axis=1), 1)


@pytest.mark.parametrize("unit_norm", [True, False])
@pytest.mark.parametrize("signs", [None, [1, -1, 1, 1, -1, -1]])
@pytest.mark.parametrize("pooling", [None, "2d"])
@pytest.mark.parametrize("n_null", [0, 1])
def test_the_gradient_by_finite_differences(
    put, assert_gradient, unit_norm, signs, pooling, n_null
):
    """Along moves of unit vectors, on every array library; where data does not vary they do not go."""
    from clusterica.arrays import check_rows

    rng = np.random.default_rng()
    null = np.linalg.qr(rng.normal(size=(4, 4)))[0][:n_null]
    X = rng.laplace(size=(60, 4)) @ rng.normal(size=(4, 4)) @ (np.eye(4) - null.T @ null) + 1
    signs = None if signs is None else np.array(signs, dtype=float)
    penalty = make_penalty("logcosh", pooling, n_codes=6, signs=signs)
    rows, C = check_rows(RICA(), put(X), reset=True), np.cov(X.T, bias=True)
    mean, C, null = map(rows.place.put, (X.mean(axis=0), C, null))
    problem = Reconstruction(rows, mean, C, penalty, 0.7, unit_norm, null)
    assert_gradient(problem, rng)


def test_no_sparsity_leaves_the_reconstruction_alone(mixed):
    rica = RICA(7, sparsity=0.0, random_state=0).fit(mixed[0])
    assert rica.reconstruction_error_ < 1e-6
    np.testing.assert_array_equal(rica.term_histories_["penalty"], 0)


def test_codes_that_fire_together_share_a_pool():
    """Pairs of sources share their strength: the best of a few starts has each pair in one group."""
    rng = np.random.default_rng(0)
    strength = np.repeat(rng.exponential(size=(5000, 2)), 2, axis=1)
    S = rng.normal(size=(5000, 4)) * strength
    S /= S.std(axis=0)
    Q = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    models = [
        RICA(sparsity=0.5, pooling=[0, 1, 0, 1], random_state=seed).fit(S @ Q.T)
        for seed in range(5)
    ]
    best = min(models, key=lambda model: model.objective_history_[-1])
    energy = (best.components_ @ Q) ** 2  # of filters in the axes of the sources
    pairs = energy[[0, 2, 1, 3]].reshape(2, 2, 2, 2).sum(axis=(1, 3)) / 2
    np.testing.assert_allclose(np.sort(pairs, axis=1), [[0, 1], [0, 1]], atol=0.02)


def test_a_given_start(mixed):
    X, A = mixed
    rica = RICA(sparsity=0.5, init=2 * A.T).fit(X)
    again = RICA(sparsity=0.5, init=rica.components_).fit(X)
    assert again.n_iter_ < rica.n_iter_
    np.testing.assert_allclose(again.components_, rica.components_, atol=1e-2)
    np.testing.assert_allclose(np.abs(rica.components_ @ A), np.eye(5), atol=0.05)


@pytest.mark.parametrize("n_components", [3, 5, 9])
def test_codes_and_the_way_back(mixed, n_components):
    X = mixed[0][:1000]
    rica = RICA(n_components, random_state=0, tol=1e-3).fit(X)
    S = rica.transform(X)
    np.testing.assert_allclose(S, (X - X.mean(axis=0)) @ rica.components_.T, atol=1e-12)
    back = rica.inverse_transform(S)
    np.testing.assert_allclose(rica.transform(back), S, atol=1e-10)
    if n_components >= 5:
        np.testing.assert_allclose(back, X, atol=1e-10)


def test_the_way_back_of_rows_that_do_not_vary_everywhere(rng):
    X = rng.laplace(size=(500, 5)).astype(np.float32)
    X[:, 4] = -X[:, :4].sum(axis=1)
    rica = RICA(10, random_state=0, tol=1e-3).fit(X)
    np.testing.assert_allclose(rica.inverse_transform(rica.transform(X)), X, atol=1e-4)


# --- Where the rows live ----------------------------------------------------------------------------


class Blocks:
    def __init__(self, X):
        self.X = X

    def __iter__(self):
        return (self.X[i : i + 701] for i in range(0, len(self.X), 701))


def memory_map(X, path):
    np.save(path / "X.npy", X)
    return np.load(path / "X.npy", mmap_mode="r")


LAYOUTS = {
    "memory map": memory_map,
    "blocks": lambda X, path: Blocks(X),
    "torch": lambda X, path: pytest.importorskip("torch").asarray(X),
    "strict": lambda X, path: pytest.importorskip("array_api_strict").asarray(X),
    "dask": lambda X, path: pytest.importorskip("dask.array").from_array(X, chunks=(900, 3)),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("settings", [{}, {"pooling": "1d", "signs": [1] * 6 + [-1]}], ids=str)
def test_the_same_filters_wherever_the_rows_live(mixed, layout, settings, tmp_path):
    X = mixed[0][:3000]
    model = RICA(7, random_state=0, tol=1e-3, **settings)
    expected = model.fit(X).components_
    codes = model.transform(X)
    rows = LAYOUTS[layout](X, tmp_path)
    found = model.fit(rows)
    np.testing.assert_allclose(to_host(found.components_), expected, atol=1e-6)
    np.testing.assert_allclose(to_host(found.transform(rows)), codes, atol=1e-5)
    if layout in ("torch", "strict", "dask"):
        assert type(found.transform(rows)) is type(rows)


def test_the_same_filters_for_every_block_size(mixed):
    X = mixed[0]
    expected = RICA(7, random_state=0, tol=1e-3).fit(X)
    with clusterica.config_context(memory="64KiB", threads=1):
        found = RICA(7, random_state=0, tol=1e-3).fit(X)
    np.testing.assert_allclose(found.components_, expected.components_, atol=1e-6)
    np.testing.assert_allclose(found.objective_history_, expected.objective_history_, rtol=1e-8)


def test_float32_stays_float32(mixed):
    X, A = mixed
    narrow = RICA(sparsity=0.5, random_state=0).fit(X.astype(np.float32))
    wide = RICA(sparsity=0.5, random_state=0).fit(X.astype(np.float32).astype(np.float64))
    assert narrow.components_.dtype == narrow.mean_.dtype == np.float32
    assert narrow.transform(X.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(narrow.components_, wide.components_, atol=2e-3)
    assert amari_distance(narrow.components_, A) < 0.03


# --- Mini-batches -----------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [10, 40])
def test_batches_approach_what_fit_finds(n):
    X, _, A = make_sparse_sources(10_000, n, mixing="orthogonal", random_state=0)
    settings = {"sparsity": 0.5, "random_state": 0}
    whole, batches = RICA(**settings, max_iter=400).fit(X), RICA(**settings)
    rng = np.random.default_rng(0)
    for _ in range(20):
        for batch in np.array_split(rng.permutation(len(X)), 20):
            batches.partial_fit(X[batch])
    assert batches.n_iter_ == 400
    np.testing.assert_allclose(np.linalg.norm(batches.components_, axis=1), 1)
    np.testing.assert_allclose(batches.mean_, X.mean(axis=0), atol=1e-8)
    start, end = whole.objective_history_[[0, -1]]
    assert objective(batches, X) - end < 3e-3 * (start - end)
    assert amari_distance(batches.components_, A) < 0.03


def test_batches_of_rows_that_do_not_vary_everywhere(rng):
    X = rng.laplace(size=(4000, 6))
    X -= X.mean(axis=1, keepdims=True)
    rica = RICA(18, random_state=0)
    for batch in np.array_split(X, 40):
        rica.partial_fit(batch)
    np.testing.assert_allclose(rica.components_.sum(axis=1), 0, atol=1e-8)
    assert rica.transform(X).std(axis=0).min() > 0.8


def test_batches_go_on_after_fit(mixed, put):
    X, more = put(mixed[0][:4000]), put(mixed[0][4000:])
    rica = RICA(sparsity=0.5, random_state=0).fit(X)
    before, n = to_host(rica.components_), rica.n_iter_
    rica.partial_fit(more)
    assert rica.n_iter_ == n + 1
    assert type(rica.components_) is type(X)
    cosines = (to_host(rica.components_) * before).sum(axis=1)
    assert (cosines < 1 - 1e-12).all()
    assert cosines.min() > 0.9
    np.testing.assert_allclose(to_host(rica.mean_), mixed[0].mean(axis=0), atol=1e-10)
    assert not hasattr(rica, "objective_history_")
    rica.partial_fit(more)
    rica.fit(X)
    np.testing.assert_array_equal(to_host(rica.components_), before)


def test_a_batch_that_cannot_be_leaves_no_trace(mixed):
    X = mixed[0]
    rica = RICA(signs=[1, 2], random_state=0)
    with pytest.raises(ValueError, match="signs must be 5 numbers"):
        rica.partial_fit(X[:100])
    rica.set_params(signs=None).partial_fit(X[:100])
    with pytest.raises(ValueError, match="features"):
        rica.partial_fit(X[:100, :4])


# --- scikit-learn -----------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([RICA(max_iter=20), RICA(4, pooling="1d", unit_norm=False, max_iter=20)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_a_model_can_be_pickled_and_names_its_codes(mixed):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(mixed[0][:500], columns=list("abcde"))
    rica = RICA(6, random_state=0, tol=1e-3, pooling=TorusPooling((6,))).fit(frame)
    codes = pickle.loads(pickle.dumps(rica)).set_output(transform="pandas").transform(frame)
    assert list(codes.columns) == [f"rica{i}" for i in range(6)]
    np.testing.assert_allclose(rica.inverse_transform(codes), frame, atol=1e-10)


def test_progress_and_models_on_the_way(mixed, watcher):
    X = mixed[0][:1000]
    seen = watcher()
    rica = RICA(6, random_state=0, tol=1e-3).set_callbacks(seen).fit(X)
    assert seen.names == ["iteration"] * rica.n_iter_ + ["fit"]
    found = [objective(model, X) for model in seen.models]
    np.testing.assert_allclose(found, rica.objective_history_[1:], rtol=1e-8)
    assert len(seen.models[0].get_feature_names_out()) == 6


def test_what_is_done_to_learned_arrays_does_not_reach_the_fit(mixed, watcher):
    class Vandal(watcher):
        def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
            if context.task_name == "iteration":
                fitted_estimator.components_ *= -3
                fitted_estimator.mean_ += 1

    X = mixed[0]
    left, spoiled = RICA(6, random_state=0, tol=1e-3), RICA(6, random_state=0, tol=1e-3)
    left.fit(X[:1000])
    spoiled.set_callbacks(Vandal()).fit(X[:1000])
    np.testing.assert_array_equal(spoiled.components_, left.components_)
    left.mean_[:] = 0
    left.partial_fit(X[1000:])
    np.testing.assert_allclose(left.mean_, X.mean(axis=0), atol=1e-10)


def test_early_stopping_warns_of_nothing(mixed, watcher):
    rica = RICA(random_state=0).set_callbacks(watcher(stop_after=3)).fit(mixed[0])
    assert rica.n_iter_ == 3


# --- Bad input --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"signs": [1, 1, 1]}, r"signs must be 5 numbers, 1 or -1.*shape \(3,\)"),
        ({"signs": [1, 1, 1, 0, -1]}, r"with values \[-1  0  1\]"),
        ({"init": np.ones((4, 5))}, r"init has shape \(4, 5\).*\(5, 5\)"),
        ({"init": np.zeros((5, 5))}, "no row of it may be all zeros"),
        ({"init": np.full((5, 5), np.nan)}, "init must be finite"),
        ({"pooling": [0, 0, 1]}, "groups name 3 codes, and there are 5"),
        ({"pooling": "3d"}, "pooling='3d' must be"),
        ({"pooling": TorusPooling((2, 3))}, "6 places, and there are 5 codes"),
        ({"pooling": GroupPooling((0, 1))}, "groups name 2 codes"),
        ({"sparsity": -1}, "sparsity"),
        ({"penalty": "l2"}, "penalty"),
        ({"signs": ["super"] * 5}, r"signs must be 5 numbers.*'super'"),
        ({"pooling": [0] * 5}, "one pool of all codes measures no sparsity"),
        ({"penalty": lambda y: Derivatives(y**2, y, 2 + 0 * y)}, "finite differences"),
        ({"penalty": lambda y: (y**2, 2 * y)}, "must return three arrays"),
        ({"penalty": LogCosh}, r"LogCosh is a class; give an object, such as LogCosh\(\)"),
        ({"n_components": 600, "init": "k-means"}, "a row for every component.*100 rows for 600"),
        ({"n_components": 0}, "n_components"),
        ({"max_iter": 0}, "max_iter"),
    ],
)
def test_settings_that_cannot_be(mixed, settings, message):
    with pytest.raises(ValueError, match=message):
        RICA(**settings).fit(mixed[0][:100])


def test_missing_values_one_row_and_flat_input(mixed):
    X = mixed[0][:100].copy()
    with pytest.raises(ValueError, match="minimum of 2 is required"):
        RICA().fit(X[:1])
    with pytest.raises(ValueError, match="Expected 2D array"):
        RICA().fit(X[:, 0])
    X[3, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        RICA().fit(X)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_features_of_unlike_sizes_all_count(dtype):
    X = np.random.default_rng().laplace(size=(3000, 3)) * [5000, 1, 1]
    rica = RICA(random_state=0).fit(X.astype(dtype))
    back = rica.inverse_transform(rica.transform(X.astype(dtype)))
    np.testing.assert_allclose(back / [5000, 1, 1], X / [5000, 1, 1], atol=0.02)


@pytest.mark.parametrize("size", [1e-13, 1e-6, 1e100])
def test_units_do_not_stop_it(mixed, size):
    rica = RICA(3, sparsity=0, random_state=0).fit(size * mixed[0])
    expected = RICA(3, sparsity=0, random_state=0).fit(mixed[0])
    assert rica.reconstruction_error_ / size**2 == pytest.approx(
        expected.reconstruction_error_, rel=1e-3
    )
    small = RICA(random_state=0).fit(size * mixed[0])
    assert small.reconstruction_error_ < 0.01 * (size * mixed[0]).var(axis=0).sum()


def test_a_start_where_the_data_does_not_vary():
    X = np.random.default_rng().normal(size=(50, 4))
    X[:, 2] = 5
    with pytest.raises(ValueError, match=r"row 2 of init.*constant feature.*unit_norm=True"):
        RICA(init=np.eye(4)).fit(X)
    with pytest.warns(
        UserWarning, match="1 of 4 filters are dead, shorter than 0.01 where the data"
    ):
        free = RICA(init=np.eye(4), unit_norm=True).fit(X)
    assert np.isfinite(free.components_).all()
    online = RICA(init=np.eye(4)).partial_fit(X)
    np.testing.assert_allclose(np.linalg.norm(online.components_, axis=1), 1)


def test_constant_data_gives_finite_filters():
    with pytest.warns(UserWarning, match="the rows do not vary, so that nothing was learned"):
        rica = RICA(3, random_state=0).fit(np.ones((20, 4)))
    assert np.isfinite(rica.components_).all()
    np.testing.assert_array_equal(rica.transform(np.ones((2, 4))), 0)


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("pooling", [None, "2d"])
@pytest.mark.parametrize("unit_norm", [False, "tight"])
def test_a_penalty_that_makes_all_codes_zero_is_said_once(library, pooling, unit_norm):
    # Features of two scales: filters of unit length flee to those that hardly vary.
    X = np.random.default_rng().laplace(size=(500, 8)) * np.repeat([1, 1e-4], 4)
    given = X if library == "numpy" else pytest.importorskip("torch").asarray(X)
    settings = {"pooling": pooling, "unit_norm": unit_norm, "random_state": 0}
    with pytest.warns(UserWarning, match="zero with sparsity=30: all filters are dead") as caught:
        rica = RICA(4, sparsity=30.0, **settings).fit(given)
    assert len(caught) == 1
    assert rica.n_dead_ == 4
    assert abs(np.asarray(rica.transform(given))).max() < 0.1
    *_, least, such = str(caught[0].message).replace(", such as", "").split()
    assert float(such) < float(least) < 30
    assert RICA(4, sparsity=float(such), tol=1e-3, **settings).fit(given).n_dead_ == 0


def test_filters_that_shrink_to_nothing_are_said():
    X = np.random.default_rng().laplace(size=(2000, 5))
    with pytest.warns(UserWarning, match="1. of 20 filters are dead.*unit_norm='tight'"):
        rica = RICA(20, sparsity=1.0, unit_norm=False, tol=1e-5, random_state=0).fit(X)
    assert rica.n_dead_ == (np.linalg.norm(rica.components_, axis=1) < 0.01).sum()
    assert RICA(20, sparsity=1.0, tol=1e-5, random_state=0).fit(X).n_dead_ == 0
    assert not hasattr(rica.partial_fit(X), "n_dead_")  # the count was of other filters


def test_warns_if_max_iter_is_too_small(mixed):
    with pytest.warns(ConvergenceWarning, match="did not converge in 2 iterations") as caught:
        RICA(max_iter=2, random_state=0).fit(mixed[0])
    assert caught[0].filename == __file__


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_a_start_where_the_rows_cluster(library):
    """Rows near few directions: filters that begin there stay there, where no penalty moves them."""
    rng = np.random.default_rng(3)
    axes, _ = np.linalg.qr(rng.normal(size=(6, 6)))
    X = rng.laplace(size=(4000, 1)) * axes[rng.integers(6, size=4000)]
    X = X + 0.01 * rng.normal(size=X.shape)
    given = X if library == "numpy" else pytest.importorskip("torch").asarray(X)
    found = {}
    for init in ("gaussian", "k-means"):
        rica = RICA(18, sparsity=0.0, init=init, tol=0.1, random_state=0).fit(given)
        cosines = np.abs(np.asarray(rica.components_) @ axes.T)
        found[init] = int((cosines.max(axis=0) > 0.95).sum())  # directions with a filter near them
    assert found["k-means"] >= 4
    assert found["gaussian"] <= 1


# --- Rows that do not vary in all directions, are tiny, or huge ----------------------------------------


@pytest.mark.parametrize("K", [10, 20, 40])
def test_rows_of_low_rank_are_reconstructed(K, rng):
    """The t of a tight basis counts the directions in which rows vary, not those of the space."""
    X = rng.laplace(size=(3000, 4)) @ rng.normal(size=(4, 20))
    rica = RICA(K, random_state=0).fit(X)
    assert rica.reconstruction_error_ < 1e-3 * X.var(axis=0).sum()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_fewer_rows_than_features(rng):
    Y = rng.laplace(size=(60, 100))
    assert RICA(random_state=0).fit(Y).reconstruction_error_ < 1e-2 * Y.var(axis=0).sum()


@pytest.mark.parametrize("scale", [1e-8, 1e-4, 1.0, 1e4])
def test_the_scale_of_rows_does_not_end_the_descent(scale, rng):
    X = scale * rng.laplace(size=(2000, 10))
    rica = RICA(random_state=0).fit(X)
    assert rica.n_iter_ > 3
    assert rica.reconstruction_error_ < 1e-2 * X.var(axis=0).sum()


def test_batches_after_a_fit_lead_out_of_its_subspace(rng):
    Z = rng.laplace(size=(5000, 20))
    rica = RICA(sparsity=0.5, random_state=0).fit(Z[:10])
    assert np.linalg.matrix_rank(rica.components_, tol=1e-6) < 20
    for _ in range(20):
        rica.partial_fit(Z[rng.integers(5000, size=500)])
    assert np.linalg.matrix_rank(rica.components_, tol=1e-6) == 20


def test_rows_that_are_too_large(rng):
    X = rng.laplace(size=(200, 4))
    with np.errstate(over="ignore", invalid="ignore"):
        with pytest.raises(ValueError, match=r"squares of the rows are too large.*scale the rows"):
            RICA().fit(1e160 * X)
        with pytest.raises(ValueError, match=r"at the start is inf.*scale the rows down"):
            RICA(penalty=Quartic()).fit((1e12 * X).astype(np.float32))


@pytest.mark.parametrize("contrast", [SmoothedL1, SmoothedLaplace, LogCosh])
@pytest.mark.parametrize("value", [0, -1.0, np.nan])
def test_contrasts_of_no_width(contrast, value):
    with pytest.raises(ValueError, match="must be over 0"):
        contrast(value)
