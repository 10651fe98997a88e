"""Sparse auto-encoder and sparse RBM: gradients, filters of photographs, all kinds of rows, bad input."""

import re

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import kurtosis
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from clusterica import config_context
from clusterica.arrays import as_generator, as_rows, device_of, shuffled_batches, to_host
from clusterica.datasets import photo_patches
from clusterica.dictionaries import SparseAutoencoder, SparseRBM
from clusterica.images import ImageFeatures
from clusterica.optim import Step
from clusterica.preprocessing import ContrastNormalizer, Whitener

pytestmark = pytest.mark.filterwarnings("ignore:.*did not converge")
MODELS = [
    SparseAutoencoder(9, target=0.1, max_iter=4),
    SparseAutoencoder(9, target=0.1, tied=False, max_iter=4),
    SparseRBM(9, target=0.1, max_iter=3, batch_size=50),
]


# The checks have two or three features, of which few units have something to say.
@pytest.mark.filterwarnings("ignore:.*units (have|are)")
@parametrize_with_checks(
    [
        SparseAutoencoder(2, target=0.3),
        SparseAutoencoder(tied=False, target=0.3, sparsity=1.0),
        SparseRBM(2, max_iter=5),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    return rng.laplace(size=(300, 6)) @ rng.normal(size=(6, 6)) / 3


@pytest.fixture(scope="module")
def white_patches():
    X = ContrastNormalizer().fit_transform(photo_patches(8000, 8, random_state=0))
    return Whitener(eps=0.1).fit_transform(X).astype(np.float32)


@pytest.mark.parametrize("tied", [False, True])
def test_the_gradient_against_finite_differences(tied):
    rng = np.random.default_rng()
    X = rng.normal(size=(50, 4))
    model = SparseAutoencoder(5, target=0.2, sparsity=0.7, weight_decay=0.1, tied=tied, max_iter=1)
    model.fit(X)
    rows, params = as_rows(X), rng.normal(size=5 * 4 * (1 if tied else 2) + 5 + 4)
    found = model._evaluate(rows, 5, params).gradient
    expected = np.empty_like(params)
    for i, move in enumerate(1e-6 * np.eye(len(params))):
        values = [model._evaluate(rows, 5, params + s * move).objective for s in (1, -1)]
        expected[i] = (values[0] - values[1]) / 2e-6
    np.testing.assert_allclose(found, expected, atol=1e-6 * max(1, np.abs(expected).max()))


@pytest.mark.parametrize("tied", [False, True])
def test_the_objective_falls_and_is_that_of_the_equation(X, tied):
    settings = {"target": 0.1, "sparsity": 0.5, "weight_decay": 0.02, "tied": tied}
    model = SparseAutoencoder(8, max_iter=30, random_state=0, **settings).fit(X)
    history = model.objective_history_
    assert len(history) == model.n_iter_ + 1
    assert (np.diff(history) <= 1e-8).all()
    W, U, H = model.components_, model.decoder_, model.transform(X)
    active = H.mean(axis=0)
    np.testing.assert_allclose(active, model.activity_)
    error = 0.5 * ((model.inverse_transform(H) - X) ** 2).sum(axis=1).mean()
    np.testing.assert_allclose(error, model.reconstruction_error_)
    decay = (W**2).sum() + (0 if tied else (U**2).sum())
    divergence = 0.1 * np.log(0.1 / active) + 0.9 * np.log(0.9 / (1 - active))
    expected = error + 0.02 / 2 * decay + 0.5 * divergence.sum()
    np.testing.assert_allclose(history[-1], expected, rtol=1e-6)


@pytest.mark.parametrize(
    "model",
    [
        SparseAutoencoder(40, weight_decay=0.03, max_iter=60, random_state=0),
        SparseRBM(40, max_iter=30, random_state=0),
    ],
    ids=str,
)
def test_filters_of_photographs_are_localised_edges(white_patches, model):
    """As in Lee et al. 2008. Random filters have less kurtosis, and spread over all pixels."""
    model.fit(white_patches)
    W = model.components_.astype(np.float64)
    responses = kurtosis(white_patches @ W.T)
    noise = np.random.default_rng(0).normal(size=W.shape)
    assert np.median(responses) > 1.5 * np.median(kurtosis(white_patches @ noise.T))

    def pixels(W):
        """Over how many pixels the energy of a filter is spread."""
        return np.median((W**2).sum(axis=1) ** 2 / (W**4).sum(axis=1))

    assert pixels(W) < 0.75 * pixels(noise)
    assert model.activity_.mean() == pytest.approx(0.02, abs=0.01)
    assert model.n_dead_ <= 1


def test_the_error_of_the_machine_falls(white_patches):
    model = SparseRBM(20, max_iter=8, random_state=0).fit(white_patches)
    assert len(model.error_history_) == model.n_iter_ == 8
    assert model.error_history_[-1] < 0.97 * model.error_history_[0]
    responses = white_patches @ model.components_.T + model.intercept_
    expected = expit(responses / model.sigma_**2)
    np.testing.assert_allclose(model.transform(white_patches), expected, atol=1e-4)


def fitted(model, X):
    model.set_params(random_state=0).fit(X)
    name = "objective_history_" if hasattr(model, "objective_history_") else "error_history_"
    return getattr(model, name)


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_rows_of_all_kinds(X, as_kind, model, request):
    change, settings = as_kind
    expected = fitted(model, X)
    with config_context(**settings):
        given = change(X)
        found = fitted(model, given)
        H = to_host(model.transform(given))
    assert H.dtype == model.components_.dtype
    # Batches of an iterable or a Dask array come in order, those of an array at random.
    in_order = isinstance(model, SparseRBM) and request.node.callspec.params["as_kind"] in (
        "blocks",
        "dask",
    )
    np.testing.assert_allclose(found, expected, rtol=0.2 if in_order else 1e-3)


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_array_libraries(put, X, model):
    expected, codes = fitted(model, X), model.transform(X)
    found = fitted(model, put(X))
    H = model.transform(put(X))
    for result in (H, model.components_, model.intercept_):
        assert type(result) is type(put(X))
        assert device_of(result) == device_of(put(X))
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    np.testing.assert_allclose(to_host(H), codes, atol=1e-6)


def test_a_callback_may_stop(X, watcher):
    for model in (SparseAutoencoder(3), SparseRBM(3)):
        callback = watcher(stop_after=2)
        model.set_params(target=0.1, random_state=0).set_callbacks(callback).fit(X)
        assert model.n_iter_ == 2
        assert callback.models[0].transform(X).shape == (300, 3)


@pytest.mark.filterwarnings("ignore:.*units (have|are)")
def test_features_of_images(rng):
    images = rng.integers(0, 256, size=(12, 8, 8), dtype=np.uint8)
    settings = {"n_filters": 6, "patch_size": 3, "n_patches": 200, "random_state": 0}
    for learner in (SparseAutoencoder(max_iter=3), SparseRBM(max_iter=2)):
        model = ImageFeatures(**settings, learner=learner, encoder="transform", pooling="mean")
        features = model.fit(images).transform(images)
        assert features.shape == (12, 6 * 4)
        assert (features > 0).all()
        assert model.filters_.shape == (6, 9)


# --- Bad input --------------------------------------------------------------------------------------


@pytest.mark.parametrize("tied", [False, True])
def test_a_decay_that_makes_all_weights_zero_is_said_with_one_that_does_not(X, tied):
    model = SparseAutoencoder(5, target=0.1, weight_decay=50.0, tied=tied, random_state=0)
    with pytest.warns(UserWarning, match=r"5 of 5 units have the same activity") as caught:
        model.fit(X)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    largest = np.linalg.eigvalsh(np.cov(X.T, bias=True))[-1]
    most = 0.09 * largest * (2 if tied else 1)
    assert f"weight_decay=50 makes their weights zero; use one well below {most:.3g}" in str(
        caught[0].message
    )
    assert np.isfinite(model.components_).all()
    model.set_params(weight_decay=0.01 * most, max_iter=100).fit(X)
    assert model.n_dead_ == 0


def test_a_decay_that_makes_all_weights_of_a_machine_zero_is_said(white_patches):
    model = SparseRBM(9, weight_decay=2.0, max_iter=10, random_state=0)
    message = (
        r"9 of 9 units have the same activity for all rows: weight_decay=2 makes their weights"
    )
    with pytest.warns(UserWarning, match=message) as caught:
        model.fit(white_patches[:2000])
    assert len(caught) == 1
    assert model.transform(white_patches[:500]).std(axis=0).max() < 0.1 * model.target
    such = float(re.search(r"such as ([\d.e-]+),", str(caught[0].message))[1])
    assert model.set_params(weight_decay=such).fit(white_patches[:2000]).n_dead_ == 0


def test_a_sparsity_that_oscillates_is_to_be_lowered(white_patches):
    model = SparseRBM(9, sparsity=1e4, max_iter=10, random_state=0)
    with pytest.warns(UserWarning, match=r"hundredth of .*, lower sparsity \(it is 10000\)"):
        model.fit(white_patches[:2000])


def test_a_machine_learns_as_a_plain_loop_does():
    """CD-1 with the same draws: Lee et al. 2008, with steps in units of the rows."""
    rng = np.random.default_rng()
    X = 10.0 ** rng.uniform(-3, 3) * rng.normal(size=(90, 6)) @ rng.normal(size=(6, 6))
    settings = {"target": 0.1, "sparsity": 2.0, "learning_rate": 0.03, "weight_decay": 2e-4}
    model = SparseRBM(7, **settings, batch_size=30, max_iter=7, random_state=5).fit(X)
    draws, variance = as_generator(5), X.var(axis=0).mean()
    sigma = 0.4 * np.sqrt(variance)
    W = 0.01 * np.sqrt(variance) * draws.normal(size=(7, 6))
    b, a = np.full(7, sigma**2 * np.log(0.1 / 0.9)), X.mean(axis=0)
    moves, errors = [0.0, 0.0, 0.0], []

    def on(x):
        return 1 / (1 + np.exp(-(x @ W.T + b) / sigma**2))

    for n_passes in range(7):
        error = 0.0
        for _, batch in shuffled_batches(as_rows(X), 30, draws):
            x = batch.take(np.arange(batch.n_rows))
            h = on(x)
            again = (draws.random(h.shape, dtype=np.float32) < h) @ W + a
            h_again = on(again)
            ascent = (
                (h.T @ x - h_again.T @ again) / len(x) - 2e-4 * W,
                variance * ((h - h_again).mean(axis=0) + 2.0 * (0.1 - h.mean(axis=0))),
                (x - again).mean(axis=0),
            )
            momentum = 0.5 if n_passes < 5 else 0.9
            moves = [momentum * m + 0.03 * g for m, g in zip(moves, ascent, strict=True)]
            W, b, a = (p + m for p, m in zip((W, b, a), moves, strict=True))
            error += ((x - again) ** 2).sum()
        errors.append(error / len(X))
    np.testing.assert_allclose(model.components_, W, rtol=1e-6, atol=1e-9 * np.abs(W).max())
    np.testing.assert_allclose(model.intercept_, b, rtol=1e-6)
    np.testing.assert_allclose(model.error_history_, errors, rtol=1e-9)


@pytest.mark.parametrize("size", [1e-140, 1e-3, 1e3, 1e150])
def test_units_of_the_rows_change_nothing_in_a_machine(X, size):
    settings = {"target": 0.1, "max_iter": 5, "random_state": 0}
    expected = SparseRBM(8, **settings).fit(X).transform(X)
    found = SparseRBM(8, **settings).fit(size * X).transform(size * X)
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_small_features_leave_a_machine_alive():
    """Those of diabetes vary by 0.05: steps of b that did not shrink with them killed 15 of 20 units."""
    model = SparseRBM(20, target=0.1, random_state=0).fit(load_diabetes().data)
    assert model.n_dead_ == 0
    np.testing.assert_allclose(model.activity_, 0.1, atol=0.02)


@pytest.mark.parametrize("learner", [SparseAutoencoder, SparseRBM])
def test_rows_far_from_zero_are_to_be_centred(learner):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 6)) @ rng.normal(size=(6, 6)) + 100
    model = learner(20, target=0.1, random_state=0)
    with pytest.warns(UserWarning, match=r"units .*; subtract the mean of the rows.* 34 times"):
        model.fit(X)
    # With the remedy, and without a warning, which would be an error here.
    assert model.fit(StandardScaler().fit_transform(X)).n_dead_ == 0


def test_rows_that_do_not_vary():
    rows = np.ones((20, 3))
    with pytest.raises(ValueError, match=r"the mean variance of features is 0.*nothing to learn"):
        SparseRBM(2).fit(rows)
    with pytest.warns(UserWarning, match=r"2 of 2 units have the same activity.*rows that vary"):
        SparseAutoencoder(2).fit(rows)


def test_a_machine_that_diverges(X):
    with pytest.raises(ValueError, match=r"the weights diverge: .*lower learning_rate=100"):
        SparseRBM(4, learning_rate=100.0, random_state=0).fit(X)


def test_units_that_are_never_active_are_said(X, monkeypatch):
    activity = np.array([0.0, 1e-5, 0.02, 0.02])
    monkeypatch.setattr(
        SparseRBM, "_pass", lambda self, *args: Step(args[-1]._replace(activity=activity), 1.0, 1.0)
    )
    with pytest.warns(UserWarning, match=r"2 of 4 units are active for less than a hundredth of"):
        assert SparseRBM(4, max_iter=1).fit(X).n_dead_ == 2


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (SparseAutoencoder(target=0.0), "'target' parameter of SparseAutoencoder must be"),
        (SparseAutoencoder(weight_decay=-1.0), "'weight_decay' parameter"),
        (SparseRBM(target=1.0), "'target' parameter of SparseRBM"),
        (SparseRBM(sigma=0.0), "'sigma' parameter"),
        (SparseRBM(batch_size=0), "'batch_size' parameter"),
    ],
    ids=str,
)
def test_bad_settings(X, model, message):
    with pytest.raises(ValueError, match=message):
        model.fit(X)


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_bad_rows(X, model):
    broken = X.copy()
    broken[5, 2] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        model.fit(broken)
