"""LinearSVC finds the minimum of its objective, and is scikit-learn's where the two overlap."""

import warnings

import numpy as np
import pytest
import scipy.optimize
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC as ScikitLearnSVC

import clusterica
from clusterica.arrays import to_host
from clusterica.linear import LinearSVC, RidgeClassifier
from clusterica.linear._lbfgs import LBFGSSolver, PrincipalSolver
from clusterica.linear._newton import NewtonSolver


def signs_of(y, model):
    targets = model.classes_[1:] if len(model.classes_) == 2 else model.classes_
    return np.where(y[:, None] == targets, 1.0, -1.0)


def in_standard_space(model, X):
    """Return weights and intercepts for standardised features."""
    scale = X.std(axis=0)
    return model.coef_ * scale, model.intercept_ + model.coef_ @ X.mean(axis=0)


@pytest.mark.parametrize("C", [1e-3, 0.1, 3.0])
@pytest.mark.parametrize("shape", ["tall", "wide"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_objective_is_that_of_newton(request, standardised, objective, newton, shape, C, dtype):
    X, y = request.getfixturevalue(shape)
    model = LinearSVC(C=C).fit(X.astype(dtype), y)
    assert model.converged_
    assert model.n_iter_ < 100
    Z, T = standardised(X), signs_of(y, model)
    W, b = in_standard_space(model, X)
    for k in range(T.shape[1]):
        best = objective(Z, T[:, k], *newton(Z, T[:, k], C), C)
        ours = objective(Z, T[:, k], W[k], b[k], C)
        assert best * (1 - 1e-9) <= ours <= best * (1 + 1e-5)
        assert model.objective_[k] == pytest.approx(ours, rel=1e-4)


@pytest.mark.parametrize("C", [0.01, 1.0])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("shape", ["tall", "wide"])
def test_same_as_scikit_learn(request, shape, n_classes, C):
    X, y = request.getfixturevalue(shape)
    y = y % n_classes
    ours = LinearSVC(C=C, standardize=False, fit_intercept=False, tol=1e-10).fit(X, y)
    theirs = ScikitLearnSVC(C=C, dual=False, fit_intercept=False, tol=1e-10, max_iter=100_000).fit(
        X, y
    )
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
    np.testing.assert_array_equal(ours.intercept_, 0)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-3)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("C", [1e-3, 0.1, 2.0])
@pytest.mark.parametrize("data", ["iris", "wine", "breast cancer", "digits"])
def test_same_as_scikit_learn_on_its_data(data, C, weighted):
    """The same coefficients for the same C, sample_weight and class_weight, without intercept and scaling."""
    loaders = {"iris": load_iris, "wine": load_wine, "breast cancer": load_breast_cancer}
    X, y = loaders.get(data, load_digits)(return_X_y=True)
    X, y = (X / X.std(axis=0).clip(1e-9))[:600], y[:600]
    weights = np.random.default_rng(0).uniform(0.2, 3, len(y)) if weighted else None
    # For more than two classes scikit-learn weighs the one class only, and not the rest.
    class_weight = {0: 2.0, 1: 0.5} if len(np.unique(y)) == 2 else None
    setting = {"C": C, "fit_intercept": False, "class_weight": class_weight}
    ours = LinearSVC(**setting, standardize=False, tol=1e-13).fit(X, y, sample_weight=weights)
    theirs = ScikitLearnSVC(**setting, dual=False, tol=1e-12, max_iter=100_000)
    theirs.fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=2e-5 * np.abs(theirs.coef_).max())


@pytest.mark.parametrize("C", [1e-3, 0.1, 2.0])
@pytest.mark.parametrize("shape", ["tall", "wide"])
def test_intercept_as_a_general_minimiser_finds_it(request, shape, C):
    """SciPy's L-BFGS-B on the objective as it is printed, with weights of rows and no penalty on b."""
    X, y = request.getfixturevalue(shape)
    y, weights = (y == 1).astype(int), np.random.default_rng(1).uniform(0.2, 3, len(y))
    model = LinearSVC(C=C, standardize=False, tol=1e-13).fit(X, y, sample_weight=weights)
    t = 2.0 * y - 1

    def value_and_gradient(p):
        r = np.clip(1 - t * (X @ p[:-1] + p[-1]), 0, None)
        pull = -2 * C * weights * t * r
        value = p[:-1] @ p[:-1] / 2 + C * weights @ r**2
        return value, np.append(p[:-1] + pull @ X, pull.sum())

    found = scipy.optimize.minimize(
        value_and_gradient,
        np.zeros(X.shape[1] + 1),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-16, "gtol": 1e-10, "maxcor": 30},
    )
    np.testing.assert_allclose(model.objective_, found.fun, rtol=1e-9)
    np.testing.assert_allclose(model.coef_[0], found.x[:-1], atol=1e-4)
    np.testing.assert_allclose(model.intercept_[0], found.x[-1], atol=1e-3)


@pytest.mark.parametrize("C", [100.0, 1e4])
@pytest.mark.parametrize("shape", [(520, 500), (40, 70)])
def test_separated_rows_have_the_largest_margin(shape, C):
    """L-BFGS ended at up to twice the minimum. The dual objective is never above it, and reaches it."""
    rng = np.random.default_rng()
    X = rng.normal(size=shape)
    y = (X[:, 0] + rng.normal(size=len(X)) > 0).astype(int)
    # A small tol, so that it ends at the minimum itself.
    model = LinearSVC(C, standardize=False, tol=1e-11).fit(X, y)
    assert model.converged_
    t = 2.0 * y - 1
    multipliers = 2 * C * np.clip(1 - t * model.decision_function(X), 0, None)
    w = (multipliers * t) @ X
    dual = multipliers.sum() - w @ w / 2 - multipliers @ multipliers / (4 * C)
    assert (multipliers @ t) == pytest.approx(0, abs=1e-5 * multipliers.sum())
    assert model.objective_[0] == pytest.approx(dual, rel=1e-4)


@pytest.mark.parametrize("shape", ["tall", "wide"])
def test_intercept_without_standardising(request, newton, shape):
    X, y = request.getfixturevalue(shape)
    model = LinearSVC(C=0.02, standardize=False, tol=1e-12).fit(X, y)
    for k, t in enumerate(signs_of(y, model).T):
        w, b = newton(X, t, 0.02)
        np.testing.assert_allclose(model.coef_[k], w, atol=1e-5)
        assert model.intercept_[k] == pytest.approx(b, abs=1e-4)


def test_scaling_without_intercept(tall, newton):
    """Features are divided by their deviation and not centred, so that the origin decides nothing."""
    X, y = tall
    model = LinearSVC(C=0.02, fit_intercept=False, tol=1e-12).fit(X, y)
    np.testing.assert_array_equal(model.intercept_, 0)
    scale = X.std(axis=0)
    for k, t in enumerate(signs_of(y, model).T):
        w, _ = newton(X / scale, t, 0.02, intercept=False)
        np.testing.assert_allclose(model.coef_[k] * scale, w, atol=1e-5)


@pytest.mark.parametrize("shape", ["tall", "wide"])
def test_all_solvers_agree(request, shape, monkeypatch):
    X, y = request.getfixturevalue(shape)
    models = []
    for solver in (LBFGSSolver, NewtonSolver, PrincipalSolver):
        monkeypatch.setattr(
            "clusterica.linear._base._solver_kind", lambda rows, *, search, kind=solver: kind
        )
        models.append(LinearSVC(C=30.0 / len(X), tol=1e-12).fit(X, y))
    assert models[1].n_passes_ <= models[2].n_passes_ < 4 < models[0].n_passes_
    for model in models[1:]:
        assert model.converged_
        np.testing.assert_allclose(model.coef_, models[0].coef_, atol=1e-5)
        np.testing.assert_allclose(model.intercept_, models[0].intercept_, atol=1e-4)


@pytest.mark.parametrize("shape", ["tall", "wide"])
def test_weights_count_rows(request, rng, shape):
    X, y = request.getfixturevalue(shape)
    weights = rng.integers(0, 3, size=len(X))
    weighted = LinearSVC(C=0.1, tol=1e-12).fit(X, y, sample_weight=weights)
    repeated = LinearSVC(C=0.1, tol=1e-12).fit(X.repeat(weights, axis=0), y.repeat(weights))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-5)
    np.testing.assert_allclose(weighted.intercept_, repeated.intercept_, atol=1e-4)
    share = np.average(weighted.predict(X) == y, weights=weights)
    assert weighted.score(X, y, sample_weight=weights) == pytest.approx(share)


def test_two_classes_have_one_row(tall):
    X, y = tall
    labels = np.where(y > 1, "yes", "no")
    model = LinearSVC(C=10.0).fit(X, labels)
    assert model.coef_.shape == (1, 30)
    assert model.intercept_.shape == (1,)
    assert list(model.classes_) == ["no", "yes"]
    scores = model.decision_function(X)
    assert scores.shape == (400,)
    np.testing.assert_allclose(scores, X @ model.coef_[0] + model.intercept_[0], atol=1e-10)
    np.testing.assert_array_equal(model.predict(X), np.where(scores > 0, "yes", "no"))


def test_the_loss_is_a_sum_over_rows(tall):
    """Every row twice is C twice, and weights multiply C, as in scikit-learn."""
    X, y = tall
    once = LinearSVC(C=0.02, tol=1e-12).fit(X, y)
    twice = LinearSVC(C=0.01, tol=1e-12).fit(np.tile(X, (2, 1)), np.tile(y, 2))
    heavy = LinearSVC(C=0.002, tol=1e-12).fit(X, y, sample_weight=np.full(len(X), 10.0))
    for same in (twice, heavy):
        np.testing.assert_allclose(same.coef_, once.coef_, atol=1e-5)
        np.testing.assert_allclose(same.objective_, once.objective_, rtol=1e-9)


def test_tens_of_passes_on_collinear_features(rng):
    """Condition number 1e6, where a plain L-BFGS takes hundreds of passes for the same objective."""
    n, d = 3000, 100
    Z = rng.normal(size=(n, d)) * np.geomspace(1, 1e-3, d)
    y = (Z[:, :5] * [1, 1.2, 1.4, 1.6, 2] + rng.normal(size=(n, 5))).argmax(axis=1)
    X = (Z @ np.linalg.qr(rng.normal(size=(d, d)))[0]).astype(np.float32)
    model = LinearSVC(C=0.03).fit(X, y)
    assert model.converged_
    assert model.n_passes_ < 40


def test_little_memory_costs_passes_only(tall):
    X, y = tall
    ample = LinearSVC(C=0.025, tol=1e-12).fit(X, y)
    with clusterica.config_context(memory="64KiB"):
        scarce = LinearSVC(C=0.025, tol=1e-12).fit(np.tile(X, (1, 4)) / 2, y)
    assert scarce.converged_
    # Each feature four times, at half its size: the same decisions at a fourth of the penalty.
    quarter = LinearSVC(C=0.1, tol=1e-12).fit(X, y)
    assert not np.allclose(ample.coef_, quarter.coef_)
    decisions = scarce.decision_function(np.tile(X, (1, 4)) / 2)
    np.testing.assert_allclose(decisions, quarter.decision_function(X), atol=1e-5)


def test_far_from_the_origin_in_float32(tall, standardised, objective, newton):
    """Mean 1e4 deviations away: products of such rows would leave few digits."""
    X, y = tall
    far = (standardised(X) + 1e4).astype(np.float32)
    seen = far.astype(np.float64)
    model = LinearSVC(C=0.25).fit(far, y)
    assert model.converged_
    Z, T = standardised(seen), signs_of(y, model)
    exact = np.array([newton(Z, t, 0.25)[0] for t in T.T])
    np.testing.assert_allclose(model.coef_ * seen.std(axis=0), exact, atol=0.02)
    lifts = [newton(Z, t, 0.25)[1] for t in T.T]
    np.testing.assert_allclose(model.decision_function(far), Z @ exact.T + lifts, atol=0.02)


def test_stops_at_max_iter_and_says_so(tall):
    X, y = tall
    with pytest.warns(ConvergenceWarning, match="not converged after 2 iterations.*raise max_iter"):
        model = LinearSVC(C=2.5, max_iter=2).fit(X, y)
    assert not model.converged_
    assert model.n_iter_ == 2
    assert model.gap_.max() > 1e-7


def test_repeated_fits_are_equal(tall):
    X, y = tall
    first = LinearSVC(random_state=3).fit(X, y)
    again = LinearSVC(random_state=3).fit(X, y)
    np.testing.assert_array_equal(first.coef_, again.coef_)
    assert first.C_ == again.C_


@pytest.mark.parametrize("n", [60, 800, 1700])  # each by another solver
@pytest.mark.parametrize("classifier", [LinearSVC(C=1.0), RidgeClassifier(alpha=1.0)], ids=str)
def test_a_class_whose_rows_have_no_weight(n, classifier):
    """Its minimum is zero, relative to which no gap is small: that took 1000 passes."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n, 5)), np.arange(n) % 3
    X[np.arange(n), y] += 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = clone(classifier).fit(X, y, sample_weight=(y != 2).astype(float))
    assert fitted.converged_
    assert fitted.n_iter_ < 50
    assert (fitted.predict(X)[y != 2] == y[y != 2]).mean() > 0.8


def test_features_whose_squares_overflow():
    X = (1e25 * np.random.default_rng().normal(size=(200, 3))).astype(np.float32)
    with (
        np.errstate(over="ignore"),
        pytest.raises(ValueError, match="too large for float32; scale"),
    ):
        LinearSVC().fit(X, np.arange(200) % 2)


def test_labels_of_another_byte_order(put):
    X, y = np.random.default_rng().normal(size=(50, 3)), (np.arange(50) % 2).astype(">i4")
    classifier = LinearSVC().fit(put(X), y)
    assert set(to_host(classifier.predict(put(X)))) <= {0, 1}


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.zeros(60), "at least one non-zero|zero for every row"),
        (np.full(60, np.nan), "sample_weight contains NaN"),
        (-np.ones(60), "Negative values in data passed to `sample_weight`"),
    ],
    ids=["zeros", "NaN", "negative"],
)
def test_weights_of_the_score_are_checked(rng, weights, message):
    X, y = rng.standard_normal((60, 3)), np.arange(60) % 2
    model = LinearSVC(1.0, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match=message):
        model.score(X, y, sample_weight=weights)
    huge = model.score(X, y, sample_weight=np.full(60, 1e308))
    assert huge == pytest.approx(model.score(X, y))
