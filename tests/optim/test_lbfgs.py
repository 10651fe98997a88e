"""L-BFGS against scipy's on functions with known minima, its safeguards, and its bookkeeping."""

import numpy as np
import pytest
from scipy.optimize import minimize, rosen, rosen_der

from clusterica.optim import LBFGS, Evaluation, LoopState, iterate


def solve(solver, start, *, max_iter=500, tol=1e-18):
    position = solver.start(start)
    state = LoopState(0, position, (position.evaluation.objective,))
    return iterate(solver.step, state, max_iter=max_iter, tol=tol)


def rosenbrock(x):
    return Evaluation(rosen(x), rosen_der(x))


def test_it_finds_the_minimum_that_scipy_finds():
    start = np.array([-1.2, 1.0])
    result = solve(LBFGS(rosenbrock), start)
    right = minimize(rosen, start, jac=rosen_der, method="L-BFGS-B", options={"ftol": 1e-15})
    np.testing.assert_allclose(result.params.params, right.x, atol=1e-4)
    assert result.converged


def test_the_objective_never_rises():
    result = solve(LBFGS(rosenbrock), np.array([3.0, -2.0, 4.0]))
    assert len(result.history) == result.n_iter + 1
    assert result.history[0] == rosen([3.0, -2.0, 4.0])
    assert (np.diff(result.history) <= 1e-9 * np.abs(result.history[:-1])).all()


def test_the_exact_inverse_as_preconditioner_needs_one_step(rng):
    M = rng.normal(size=(6, 6))
    A, b = M @ M.T + np.eye(6), rng.normal(size=6)
    calls = []

    def evaluate(x):
        calls.append(x)
        return Evaluation(float(x @ A @ x / 2 - b @ x), A @ x - b, extra=A)

    solver = LBFGS(evaluate, precondition=lambda g, A: np.linalg.solve(A, g))
    first = solver.step(solver.start(np.zeros(6)))
    np.testing.assert_allclose(first.params.params, np.linalg.solve(A, b), rtol=1e-10)
    assert len(calls) == 2


def test_a_quadratic_of_many_dimensions_is_solved_in_few_steps(rng):
    scales = np.geomspace(1, 100, 20)
    right = rng.normal(size=20)

    def evaluate(x):
        return Evaluation(1 + float(scales @ (x - right) ** 2), 2 * scales * (x - right))

    result = solve(LBFGS(evaluate), np.zeros(20), tol=1e-14)
    np.testing.assert_allclose(result.params.params, right, atol=1e-5)
    assert result.n_iter < 100


def test_moves_are_made_by_the_retraction(rng):
    """On the unit sphere, the smallest eigenvector."""
    A = np.diag([3.0, 1.0, 2.0])

    def on_sphere(x, move):
        return (x + move) / np.linalg.norm(x + move)

    def evaluate(x):
        return Evaluation(float(x @ A @ x), 2 * (A @ x - (x @ A @ x) * x))

    result = solve(LBFGS(evaluate, retract=on_sphere), np.ones(3) / 3**0.5)
    np.testing.assert_allclose(np.abs(result.params.params), [0, 1, 0], atol=1e-5)


def test_a_direction_uphill_is_replaced_by_the_gradient():
    misled = LBFGS(lambda x: Evaluation(float(x @ x), 2 * x))
    start = misled.start(np.array([1.0, 2.0]))
    wrong = (np.array([1.0, 0.0]), np.array([-1.0, 0.0]), -1.0)  # a bend that is negative
    step = misled.step(start._replace(moves=(wrong,)))
    assert step.objective < start.evaluation.objective


def test_it_rests_where_nothing_lowers_the_objective():
    stuck = LBFGS(lambda x: Evaluation(1.0 if not x.any() else 2.0, np.ones(2)))
    step = stuck.step(stuck.start(np.zeros(2)))
    assert step.change == 0
    np.testing.assert_array_equal(step.params.params, np.zeros(2))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_move_to_where_nothing_is_defined_is_shortened(bad):
    def evaluate(x):
        return Evaluation(float(x[0] ** 2 - np.log(x[0])) if x[0] > 0 else bad, 2 * x - 1 / x)

    result = solve(LBFGS(evaluate), np.array([5.0]))
    assert result.params.params[0] == pytest.approx(0.5**0.5, abs=1e-5)


def test_a_move_that_overflows_is_shortened():
    def evaluate(x):
        if x[0] <= 0:
            raise OverflowError
        return Evaluation(float(x[0] ** 2 - np.log(x[0])), 2 * x - 1 / x)

    result = solve(LBFGS(evaluate), np.array([5.0]))
    assert result.params.params[0] == pytest.approx(0.5**0.5, abs=1e-5)


@pytest.mark.parametrize("of_objective", [1e-40, 1.0, 1e200])
@pytest.mark.parametrize("of_params", [1e-8, 1.0, 1e8])
def test_units_do_not_matter(of_objective, of_params, rng):
    M = rng.normal(size=(6, 6))
    A, right = M @ M.T + np.eye(6), of_params * rng.normal(size=6)

    def evaluate(x):
        off = (x - right) / of_params
        return Evaluation(
            of_objective * float(off @ A @ off), 2 * of_objective / of_params * A @ off
        )

    result = solve(LBFGS(evaluate), of_params * rng.normal(size=6), max_iter=60)
    np.testing.assert_allclose(result.params.params / of_params, right / of_params, atol=1e-4)
    assert result.converged


def test_moves_along_a_bend_that_is_never_remembered_grow():
    """Down a hill whose slope falls all the way, from a start that is small."""
    solver = LBFGS(lambda x: Evaluation(-float(np.log1p(x @ x)), -2 * x / (1 + x @ x)))
    result = solve(solver, np.array([2.0, 0.0]), max_iter=20)
    assert result.params.params[0] > 10


def test_without_memory_every_step_is_the_preconditioners():
    solver = LBFGS(
        lambda x: Evaluation(float(x @ x), 2 * x), precondition=lambda g, _: 0.1 * g, memory=0
    )
    position = solver.start(np.array([1.0, 2.0]))
    for _ in range(3):
        before = position.params
        position = solver.step(position).params
        np.testing.assert_allclose(position.params, 0.8 * before)
        assert position.moves == ()


def test_without_memory_the_search_begins_near_where_the_last_one_ended():
    calls = []

    def evaluate(x):
        calls.append(x)
        return Evaluation(float(x @ x), 2 * x)

    # A quarter of the move is the first that lowers the objective.
    solver = LBFGS(evaluate, precondition=lambda g, _: 2.5 * g, memory=0)
    first = solver.step(solver.start(np.array([1.0, 2.0])))
    assert (len(calls), first.params.share) == (4, 0.25)
    solver.step(first.params)
    assert len(calls) == 6


def test_no_row_moves_farther_than_it_may():
    right = np.array([[5.0, 0.0], [0.0, 1.0]])
    solver = LBFGS(
        lambda x: Evaluation(float(((x - right) ** 2).sum()), 2 * (x - right)),
        precondition=lambda g, _: g / 2,
        longest=0.5,
    )
    first = solver.step(solver.start(np.zeros((2, 2))))
    np.testing.assert_allclose(first.params.params, 0.1 * right)
    result = solve(solver, np.zeros((2, 2)))
    np.testing.assert_allclose(result.params.params, right, atol=1e-6)
