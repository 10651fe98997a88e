"""Probabilities from decisions: the temperature, its limits, and the classifiers that have predict_proba."""

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.datasets import make_classification
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss

from clusterica import save
from clusterica.linear import (
    KernelRidgeClassifier,
    LinearSVC,
    RidgeClassifier,
    every_fifth,
    fit_temperature,
    probabilities,
)


@pytest.mark.parametrize("n_classes", [2, 5])
def test_the_temperature_of_a_model_is_found(rng, n_classes):
    """Classes drawn from softmax(decisions / T) give T back; so does scikit-learn's log loss."""
    T, n = float(np.exp(rng.uniform(-2, 2))), 20_000
    D = T * rng.normal(size=(n, n_classes)) * 2
    if n_classes == 2:
        D = D[:, 1]
    P = probabilities(D, T)
    codes = (rng.random(n)[:, None] > np.cumsum(P, axis=1)).sum(axis=1).clip(max=n_classes - 1)
    found = fit_temperature(D, codes)
    assert found == pytest.approx(T, rel=0.1)
    best = log_loss(codes, probabilities(D, found))
    for other in (0.98 * found, 1.02 * found):
        assert best < log_loss(codes, probabilities(D, other)) + 1e-5


def test_probabilities(rng):
    D = 1000 * rng.normal(size=(50, 4))
    np.testing.assert_allclose(probabilities(D, 2.0), softmax(D / 2, axis=1))
    two = rng.normal(size=50)
    found = probabilities(two, 0.3)
    np.testing.assert_allclose(found[:, 1], 1 / (1 + np.exp(-two / 0.3)))
    np.testing.assert_allclose(found.sum(axis=1), 1)
    torch = pytest.importorskip("torch")
    assert torch.is_tensor(probabilities(torch.asarray(D), 2.0))


def test_weights_and_rows_without_decisions(rng):
    D, codes = rng.normal(size=(300, 3)), rng.integers(0, 3, 300)
    codes[:200] = D[:200].argmax(axis=1)
    some = rng.random(300) < 0.5
    expected = fit_temperature(D[some], codes[some])
    missing = np.where(some[:, None], D, np.nan)
    assert fit_temperature(missing, codes) == pytest.approx(expected)
    assert fit_temperature(D, codes, sample_weight=3.0 * some) == pytest.approx(expected)


def test_the_temperature_stays_finite(rng):
    """Where every row is right, or none, the log loss alone has no minimum."""
    D = rng.normal(size=(100, 3))
    right = D.argmax(axis=1)
    sure, wrong = fit_temperature(D, right), fit_temperature(D, D.argmin(axis=1))
    assert 1e-3 < sure < 1 < wrong < np.inf
    assert (probabilities(D, sure).argmax(axis=1) == right).all()
    assert (probabilities(D, wrong).argmax(axis=1) == right).all()
    assert np.isfinite(fit_temperature(np.zeros((4, 3)), [0, 1, 2, 0]))


def test_decisions_that_do_not_fit_are_refused(rng):
    with pytest.raises(ValueError, match="no row was held out"):
        fit_temperature(np.full((4, 3), np.nan), [0, 1, 2, 0])
    with pytest.raises(ValueError, match="2 columns and there are 4 classes"):
        fit_temperature(rng.normal(size=4), [0, 1, 2, 3])


def test_every_fifth_row_of_each_class(rng):
    codes = rng.permutation(np.repeat(np.arange(4), [1, 2, 5, 12]))
    is_held = every_fifth(codes)
    assert [int(is_held[codes == c].sum()) for c in range(4)] == [0, 1, 1, 3]
    # Labels in turn, as in many files: a plain fifth of all rows would hold out all of one class.
    assert np.bincount(np.arange(100)[every_fifth(np.arange(100) % 5)] % 5).tolist() == [4] * 5


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "model",
    [LinearSVC(random_state=0), RidgeClassifier(random_state=0), KernelRidgeClassifier()],
    ids=str,
)
def test_predict_proba(rng, model, n_classes):
    """On new rows the log loss is smaller than with T = 1, and the columns are those of classes_."""
    X, codes = make_classification(
        1500,
        20,
        n_informative=6,
        n_classes=n_classes,
        flip_y=0.2,
        random_state=int(rng.integers(2**31)),
    )
    y = np.array(["b", "c", "a"])[codes]
    if isinstance(model, KernelRidgeClassifier):
        held_out = model.fit(X[:500], y[:500]).validation_decisions_
    else:
        held_out = model.fit_validate(X[:500], y[:500])
    P, D = model.predict_proba(X[500:]), model.decision_function(X[500:])
    assert P.shape == (1000, n_classes)
    np.testing.assert_allclose(P, probabilities(D, model.temperature_), rtol=1e-6)
    np.testing.assert_array_equal(model.classes_[P.argmax(axis=1)], model.predict(X[500:]))
    # T is chosen on 500 rows: it is near enough to the best one to be no worse than 1 but for chance.
    calibrated, plain = (
        log_loss(y[500:], p, labels=model.classes_) for p in (P, probabilities(D, 1.0))
    )
    assert calibrated < plain + 0.01
    if isinstance(
        model, RidgeClassifier
    ):  # its decisions are between -1 and 1, so T is well below 1
        assert calibrated < plain - 0.01
    expected = fit_temperature(held_out, np.unique(y[:500], return_inverse=True)[1])
    assert model.temperature_ == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("solver_rows", [0, 10_000])
def test_validation_decisions_are_those_of_fits_without_the_rows(rng, monkeypatch, solver_rows):
    """By L-BFGS and Newton's method: the same as a fit of the other rows with the C of the best step."""
    monkeypatch.setattr("clusterica.linear._base._FEW_ROWS", solver_rows)
    X, y = make_classification(
        300, 12, n_informative=6, n_classes=3, random_state=int(rng.integers(2**31))
    )
    out = np.arange(300) % 3 == 0
    model = LinearSVC(validation=out, standardize=False, fit_intercept=False)
    decisions = model.fit_validate(X, y)
    assert np.isnan(decisions[~out]).all()
    best = model.C_path_[np.flatnonzero(model.validation_scores_ == model.validation_scores_.max())]
    fits = [
        LinearSVC(C * 300 / 200, standardize=False, fit_intercept=False)
        .fit(X[~out], y[~out])
        .decision_function(X[out])
        for C in best
    ]
    found = decisions[out]
    assert min(np.abs(found - D).max() for D in fits) < 0.05 * np.abs(found).max()


@pytest.mark.parametrize("model", [LinearSVC(), RidgeClassifier()])
def test_a_model_file_does_not_grow_with_the_rows(rng, tmp_path, model):
    sizes = []
    for n_rows in (60, 1200):
        X = rng.normal(size=(n_rows, 4))
        model.fit(X, np.arange(n_rows) % 3)
        sizes.append(save(model, tmp_path / "model.safetensors").stat().st_size)
    assert abs(sizes[1] - sizes[0]) < 1200  # the number of strengths tried may differ


def test_predict_proba_needs_auto(rng):
    X, y = rng.normal(size=(60, 5)), np.arange(60) % 3
    model = LinearSVC(C=1.0)
    assert not hasattr(model, "predict_proba")
    assert not hasattr(RidgeClassifier(alpha=1.0), "predict_proba")
    assert model.fit_validate(X, y) is None
    assert model.temperature_ is None
    with pytest.raises(AttributeError) as error:
        _ = model.predict_proba
    assert "C='auto'" in str(error.value.__cause__)
    assert "CalibratedClassifierCV" in str(error.value.__cause__)
    with pytest.raises(NotFittedError, match="call fit again"):
        model.set_params(C="auto").predict_proba(X)
    with pytest.raises(NotFittedError):
        LinearSVC().predict_proba(X)
