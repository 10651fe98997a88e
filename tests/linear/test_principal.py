"""The solver in principal coordinates finds the minima and the strengths that Newton's method finds."""

from functools import partial

import numpy as np
import pytest

import clusterica
from clusterica.arrays import as_rows, to_host
from clusterica.linear import LinearSVC, RidgeClassifier
from clusterica.linear._base import _solver_kind
from clusterica.linear._lbfgs import LBFGSSolver, PrincipalSolver
from clusterica.linear._newton import NewtonSolver
from clusterica.ops.linalg import positive_solver, solve_positive


@pytest.fixture
def use(monkeypatch):
    """Return a function that makes all classifiers use one solver."""
    where = "clusterica.linear._base._solver_kind"
    return lambda kind: monkeypatch.setattr(where, lambda rows, *, search: kind)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(
    "classifier", [partial(LinearSVC, C=0.5), partial(RidgeClassifier, alpha=2.0)]
)
def test_same_minimum_as_newton(put, use, wide, rng, classifier, intercept):
    X, y = wide
    X[:, 3] = 2.0  # without variance
    X[7] = X[8]  # a direction less
    weights = rng.integers(0, 3, size=len(X)).astype(float)
    use(NewtonSolver)
    expected = classifier(tol=1e-11, fit_intercept=intercept).fit(X, y, sample_weight=weights)
    use(PrincipalSolver)
    placed = put(X)
    model = classifier(tol=1e-11, fit_intercept=intercept).fit(placed, y, sample_weight=weights)
    assert model.converged_
    assert type(model.coef_) is type(placed)
    np.testing.assert_allclose(model.objective_, expected.objective_, rtol=1e-9)
    np.testing.assert_allclose(to_host(model.coef_), expected.coef_, atol=1e-5)
    np.testing.assert_allclose(to_host(model.intercept_), expected.intercept_, atol=1e-4)


@pytest.mark.parametrize(("classifier", "name"), [(LinearSVC, "C"), (RidgeClassifier, "alpha")])
def test_same_strength_as_newton(put, use, wide, classifier, name):
    X, y = wide
    use(NewtonSolver)
    expected = classifier(random_state=0).fit(X, y)
    use(PrincipalSolver)
    model = classifier(random_state=0).fit(put(X), y)
    paths = [getattr(m, f"{name}_path_") for m in (model, expected)]
    # A row that is held out near the border may fall on the other side, and the climb end a step later.
    steps = [np.round(2 * np.log10(path), 3) for path in paths]
    common, *where = np.intersect1d(*steps, return_indices=True)
    scores = [m.validation_scores_[i] for m, i in zip((model, expected), where, strict=True)]
    assert len(common) >= 5
    np.testing.assert_allclose(*scores, atol=1.5 / len(X))
    assert model.n_passes_ == expected.n_passes_
    assert getattr(model, f"{name}_") == pytest.approx(getattr(expected, f"{name}_"), rel=0.2)
    np.testing.assert_allclose(to_host(model.coef_), expected.coef_, atol=5e-3)


def test_streamed_through_a_device(use, wide):
    pytest.importorskip("torch")
    use(PrincipalSolver)
    X, y = wide
    expected = LinearSVC(random_state=0).fit(X, y)
    with clusterica.config_context(device="cpu"):
        model = LinearSVC(random_state=0).fit(X, y)
    assert isinstance(model.coef_, np.ndarray)
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-4)


def test_rows_without_any_variance(use):
    use(PrincipalSolver)
    model = LinearSVC(C=0.2).fit(np.ones((6, 8)), [0, 0, 0, 0, 1, 1])
    assert model.converged_
    np.testing.assert_array_equal(model.coef_, 0)
    assert model.intercept_[0] == pytest.approx(-1 / 3)


@pytest.mark.parametrize(
    ("shape", "search", "memory", "kind"),
    [
        ((400, 300), False, "1GiB", NewtonSolver),
        ((600, 500), True, "1GiB", LBFGSSolver),
        ((1600, 1700), True, "1GiB", NewtonSolver),
        ((1600, 1700), False, "1GiB", NewtonSolver),
        ((1600, 1700), True, "40MB", LBFGSSolver),
        ((1600, 1700), False, "40MB", LBFGSSolver),
    ],
)
def test_which_solver(shape, search, memory, kind):
    with clusterica.config_context(memory=memory):
        assert _solver_kind(as_rows(np.zeros(shape, np.float32)), search=search) is kind


def test_which_solver_on_a_device():
    xp = pytest.importorskip("array_api_strict")
    device = xp.Device("device1")
    wide, tall, long = (
        xp.zeros(shape, device=device) for shape in [(600, 700), (600, 5), (6001, 5)]
    )
    assert _solver_kind(as_rows(wide), search=True) is PrincipalSolver
    assert _solver_kind(as_rows(wide), search=False) is NewtonSolver
    assert _solver_kind(as_rows(tall), search=True) is PrincipalSolver
    assert _solver_kind(as_rows(tall), search=False) is LBFGSSolver
    assert _solver_kind(as_rows(long), search=True) is LBFGSSolver


def test_same_strength_as_by_features(use, rng):
    """More rows than features, as of a search on a device."""
    X = rng.normal(size=(700, 40)) * np.geomspace(1, 0.1, 40)
    y = (X[:, :4] + 0.5 * rng.normal(size=(700, 4))).argmax(axis=1)
    found = []
    for kind in (LBFGSSolver, PrincipalSolver):
        use(kind)
        found.append(LinearSVC(C=0.004, tol=1e-12, standardize=False).fit(X, y))
        found.append(LinearSVC(random_state=0, standardize=False).fit(X, y))
    given, chosen, given_principal, chosen_principal = found
    np.testing.assert_allclose(given_principal.coef_, given.coef_, atol=1e-6)
    np.testing.assert_allclose(given_principal.intercept_, given.intercept_, atol=1e-6)
    assert chosen_principal.validation_scores_.max() == pytest.approx(
        chosen.validation_scores_.max(), abs=0.01
    )


def test_solves_with_a_positive_matrix(put, rng):
    A, B = rng.normal(size=(9, 6)), rng.normal(size=(6, 2))
    expected = np.linalg.solve(A.T @ A, B)
    for solved in (
        solve_positive(put(A.T @ A), put(B)),
        positive_solver(put(A.T @ A))(put(B)),
    ):
        np.testing.assert_allclose(to_host(solved), expected, rtol=1e-8)
