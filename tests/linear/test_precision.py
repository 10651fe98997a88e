"""float32 rows give the classifiers of float64, objectives are those of coef_, no number is out of reach."""

import warnings
from functools import partial

import numpy as np
import pytest
import scipy.linalg
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import clusterica
from clusterica.arrays import to_host
from clusterica.linear import LinearSVC, RidgeClassifier
from clusterica.linear._lbfgs import LBFGSSolver, PrincipalSolver
from clusterica.linear._newton import NewtonSolver

SOLVERS = [NewtonSolver, LBFGSSolver, PrincipalSolver]
CLASSIFIERS = [partial(LinearSVC, C=0.2), partial(RidgeClassifier, alpha=0.5)]


@pytest.fixture
def use(monkeypatch):
    """Return a function that makes all classifiers use one solver."""
    where = "clusterica.linear._base._solver_kind"
    return lambda kind: monkeypatch.setattr(where, lambda rows, *, search: kind)


def noisy(seed, n, d):
    """Normal float32 rows in two classes that overlap."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)).astype(np.float32)
    return X, (X[:, 0] + 0.5 * X[:, 1] + 0.7 * rng.normal(size=n) > 0).astype(int)


def exact_ridge(X, y, alpha, weights, *, intercept, standardize):
    """Return weights and intercept by an orthogonal factorisation in float64, which squares nothing."""
    X, t = X.astype(np.float64), np.where(y == 1, 1.0, -1.0)
    mean = np.average(X, axis=0, weights=weights)
    scale = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=weights)) if standardize else 1.0
    mean = mean if intercept else 0.0
    centre = np.average(t, weights=weights) if intercept else 0.0
    root, d = np.sqrt(weights)[:, None], X.shape[1]
    A = np.vstack([root * (X - mean) / scale, alpha**0.5 * np.eye(d)])
    w = scipy.linalg.lstsq(A, np.append(root[:, 0] * (t - centre), np.zeros(d)))[0] / scale
    return w, centre - np.sum(w * mean)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("standardize", "intercept"), [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("shape", [(400, 5), (150, 100), (40, 70)])
@pytest.mark.parametrize("alpha", [1e-8, 1e-4, 1.0, 1e3])
def test_ridge_of_float32_rows(alpha, shape, standardize, intercept, weighted):
    """Coefficients of the rows cancel where the penalty is weak: in float32 nothing was left of them."""
    X, y = noisy(0, *shape)
    weights = np.random.default_rng(1).uniform(0.2, 3, len(X)) if weighted else np.ones(len(X))
    setting = {"fit_intercept": intercept, "standardize": standardize}
    classifier = RidgeClassifier(alpha, **setting).fit(
        X, y, sample_weight=weights if weighted else None
    )
    assert classifier.converged_
    assert classifier.coef_.dtype == np.float32
    w, b = exact_ridge(X, y, alpha, weights, intercept=intercept, standardize=standardize)
    np.testing.assert_allclose(classifier.coef_[0], w, rtol=0, atol=1e-6 * np.abs(w).max())
    np.testing.assert_allclose(classifier.intercept_[0], b, atol=1e-6 * (1 + np.abs(w).max()))


KINDS = {
    "array": lambda X: X,
    "torch": lambda X: pytest.importorskip("torch").asarray(X),
    "blocks": lambda X: [X[:30], X[30:]],
    "dask": lambda X: pytest.importorskip("dask.array").from_array(X, chunks=(50, X.shape[1])),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "classifier", [LinearSVC(1e4), LinearSVC(0.01), RidgeClassifier(1e-6)], ids=str
)
@pytest.mark.parametrize("solver", [NewtonSolver, PrincipalSolver])
@pytest.mark.parametrize("shape", [(200, 5), (40, 70)])
def test_float32_as_float64(use, shape, solver, classifier, kind):
    if isinstance(classifier, LinearSVC) and solver is PrincipalSolver:
        classifier = LinearSVC(min(classifier.C, 1.0), tol=1e-12)
    use(solver)
    X, y = noisy(2, *shape)
    narrow, wide = (
        clone(classifier).fit(KINDS[kind](X.astype(dtype)), y) for dtype in (np.float32, np.float64)
    )
    w, atol = to_host(wide.coef_), 2e-6 if solver is NewtonSolver else 2e-5
    np.testing.assert_allclose(to_host(narrow.coef_), w, rtol=0, atol=atol * np.abs(w).max())


def test_weak_penalty_scores_as_float64():
    X, y = noisy(3, 400, 5)
    narrow, wide = (RidgeClassifier(1e-6).fit(X.astype(t), y) for t in (np.float32, np.float64))
    assert narrow.score(X, y) == pytest.approx(wide.score(X, y), abs=0.005)


def recomputed(classifier, X, y, weights, standardize):
    """Return the objectives of coef_ and intercept_, straight from their definition, in float64."""
    X, shares = X.astype(np.float64), weights / weights.sum()
    targets = classifier.classes_ if len(classifier.classes_) > 2 else classifier.classes_[1:]
    T = np.where(y[:, None] == targets, 1.0, -1.0)
    scale = np.sqrt(shares @ (X - shares @ X) ** 2) if standardize else 1.0
    A, c = classifier.coef_.astype(np.float64), classifier.intercept_.astype(np.float64)
    residual = 1 - T * (X @ A.T + c)
    squares = ((A * scale) ** 2).sum(axis=1)
    if isinstance(classifier, LinearSVC):
        return squares / 2 + classifier.C_ * (weights @ np.clip(residual, 0, None) ** 2)
    return weights @ residual**2 + classifier.alpha_ * squares


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("standardize", "intercept"), [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", ["tall", "wide"])
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("classifier", CLASSIFIERS)
def test_objective_is_that_of_coef(
    request, use, classifier, solver, shape, dtype, standardize, intercept, weighted
):
    X, y = request.getfixturevalue(shape)
    weights = np.random.default_rng(4).uniform(0.2, 3, len(X)) if weighted else np.ones(len(X))
    use(solver)
    X = X.astype(dtype)
    model = classifier(fit_intercept=intercept, standardize=standardize)
    model.fit(X, y, sample_weight=weights if weighted else None)
    expected = recomputed(model, X, y, weights, standardize)
    # Means and deviations of float32 rows are summed in float32.
    rtol = 1e-11 if dtype == np.float64 or not standardize else 1e-6
    np.testing.assert_allclose(model.objective_, expected, rtol=rtol)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("classifier", CLASSIFIERS)
def test_gap_counts_the_rounding_of_the_classifier(use, classifier, solver):
    """5e5 deviations from the origin an intercept in float32 is some hundredths off, and in float64 exact."""
    X, _ = noisy(5, 300, 8)
    far, y = X + np.float32(2**19), X[:, :6].argmax(axis=1)
    use(solver)
    exact = classifier(tol=1e-9).fit(far.astype(np.float64), y)
    rounded = classifier().fit(far, y)
    assert exact.converged_
    risen = (rounded.objective_ - exact.objective_) / rounded.objective_
    assert risen.max() > 1e-6
    np.testing.assert_allclose(rounded.gap_, risen, rtol=0.1, atol=1e-6)
    assert rounded.converged_ is bool(
        rounded.gap_.max() <= rounded.tol + 64 * np.finfo(np.float32).eps
    )


def test_says_that_rounding_spoils_the_classifier():
    X, y = noisy(5, 40, 70)
    with pytest.warns(ConvergenceWarning, match="rounding coef_ and intercept_ to float32 raises"):
        classifier = RidgeClassifier(1e-3, fit_intercept=False, standardize=False).fit(
            X + np.float32(1e5), y
        )
    assert not classifier.converged_
    assert classifier.gap_[0] > 1e-3


def test_rounding_of_weights_does_not_move_margins():
    """The intercept makes up for what rounding does to coef_, times a mean of 1000 deviations."""
    X, y = noisy(6, 300, 8)
    far = (X + np.float32(1024)).astype(np.float32)
    classifier = RidgeClassifier(1e-3).fit(far, y)
    exact = RidgeClassifier(1e-3).fit(far.astype(np.float64), y)
    margins = far.astype(np.float64) @ classifier.coef_[0].astype(np.float64) + float(
        classifier.intercept_[0]
    )
    error = margins - exact.decision_function(far.astype(np.float64))
    assert np.abs(error).max() < np.spacing(np.abs(classifier.intercept_[0])) / 2 + 1e-6


def with_bias_column(value, dtype):
    X, y = noisy(7, 200, 4)
    return np.hstack([X, np.full((200, 1), value)]).astype(dtype), y


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("solver", [NewtonSolver, LBFGSSolver])
@pytest.mark.parametrize(
    "classifier", [partial(LinearSVC, C=5.0), partial(RidgeClassifier, alpha=0.1)]
)
def test_huge_constant_column_is_an_intercept(use, classifier, solver, dtype):
    """Its weight is next to nothing, and so is the penalty. It hid other features in products of rows."""
    use(solver)
    X, y = with_bias_column(7e8, dtype)
    with_column = classifier(fit_intercept=False, standardize=False, tol=1e-10).fit(X, y)
    with_intercept = classifier(standardize=False, tol=1e-10).fit(X[:, :-1], y)
    assert with_column.converged_
    np.testing.assert_allclose(with_column.coef_[:, :-1], with_intercept.coef_, atol=2e-4)
    np.testing.assert_allclose(with_column.coef_[:, -1] * 7e8, with_intercept.intercept_, atol=2e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(200, 5), (40, 70)])
def test_huge_weights_are_a_small_penalty(shape, dtype):
    X, y = noisy(8, *shape)
    X[::2] = X[1::2]  # singular products
    X = X.astype(dtype)
    heavy = RidgeClassifier(1.0).fit(X, y, sample_weight=np.full(len(X), 1e20))
    weak = RidgeClassifier(1e-20).fit(X, y)
    assert heavy.converged_
    limit = RidgeClassifier(1e-7).fit(X.astype(np.float64), y)  # all but least squares
    np.testing.assert_allclose(heavy.coef_, weak.coef_, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(heavy.decision_function(X), limit.decision_function(X), atol=1e-5)


def test_weights_of_any_scale_multiply_the_strength():
    X, y = noisy(9, 100, 6)
    weights = np.random.default_rng(0).uniform(size=100)
    expected = LinearSVC(0.1).fit(X, y, sample_weight=weights)
    for size in (1e-60, 1e-30, 1e30, 1e300):  # the first and the last are no float32
        found = LinearSVC(0.1 / size).fit(X, y, sample_weight=size * weights)
        np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-5)


def altered(X, kind):
    n = len(X)
    return {
        "constant 7e8": np.hstack([X, np.full((n, 1), 7e8)]),
        "one huge": X * np.r_[1e12, np.ones(X.shape[1] - 1)],
        "one tiny": X * np.r_[1e-12, np.ones(X.shape[1] - 1)],
        "all huge": 1e12 * X,
        "all tiny": 1e-12 * X,
        "duplicated columns": np.hstack([X, X, 2 * X]),
        "duplicated rows": np.vstack([X[: n // 2], X[: n // 2]]),
        "far": X + 1e5,
    }[kind]


@pytest.mark.parametrize("size", [1.0, 1e20, "mixed"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "kind",
    [
        "constant 7e8",
        "one huge",
        "one tiny",
        "all huge",
        "all tiny",
        "duplicated columns",
        "duplicated rows",
        "far",
    ],
)
@pytest.mark.parametrize("solver", SOLVERS)
def test_no_numbers_are_out_of_reach(use, solver, kind, dtype, size):
    """No error and no warning of NumPy; a classifier may say that it has not converged."""
    use(solver)
    rng = np.random.default_rng()
    weights = 10.0 ** rng.uniform(-10, 10, 40) if size == "mixed" else np.full(40, size)
    for d in (4, 60):
        B = rng.normal(size=(40, d))
        X, y = altered(B, kind).astype(dtype), (np.arange(40) // 2) % 2
        setting = {
            "fit_intercept": bool(rng.integers(2)),
            "standardize": bool(rng.integers(2)),
            "max_iter": 20,
        }
        classifiers = [LinearSVC(C, **setting) for C in (1e-12, 1.0, 1e12)]
        classifiers += [RidgeClassifier(alpha, **setting) for alpha in (1e-12, 1.0, 1e12)]
        for classifier in classifiers:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                warnings.simplefilter("ignore", ConvergenceWarning)
                classifier.fit(X, y, sample_weight=weights)
            for name in ("coef_", "intercept_", "objective_", "gap_"):
                assert np.isfinite(getattr(classifier, name)).all(), (classifier, name)


def test_strengths_beyond_numbers():
    X, y = noisy(10, 50, 3)
    with pytest.raises(ValueError, match=r"is 5e\+151; it must be between 1e-100 and 1e\+100"):
        LinearSVC(1e150).fit(X, y)
    with pytest.raises(ValueError, match=r"RidgeClassifier: .* / \(2 alpha\)\) is 2.5e\+201"):
        RidgeClassifier(1e-100).fit(X, y, sample_weight=np.full(50, 1e100))
    with np.errstate(over="ignore"), pytest.raises(ValueError, match="weights of all rows add up"):
        RidgeClassifier(1.0).fit(X, y, sample_weight=np.full(50, 1e308))


def test_singular_products_without_memory_for_the_rows():
    X, y = noisy(11, 60, 90)
    X[::2] = X[1::2]
    with (
        clusterica.config_context(memory="64KiB"),
        pytest.raises(
            ValueError, match=r"singular to working precision at C times.*Regularise more"
        ),
    ):
        RidgeClassifier(1e-14).fit(X, y)
