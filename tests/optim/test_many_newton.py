"""Newton's method on many functions of margins: the minimum of each, whatever the others do."""

import numpy as np
import pytest
from scipy.optimize import minimize

from clusterica.arrays import namespace_of, to_host
from clusterica.optim import LoopState, Losses, ManyNewton, iterate


def hinges(signs, C):
    """Squared-hinge losses C_k Σ_i max(0, 1 - s_ki a_i·p)², as ManyNewton takes them."""

    def losses(margins):
        xp = namespace_of(margins)
        short = xp.clip(1 - signs * margins, min=0)
        bend = 2 * C * xp.astype(short > 0, margins.dtype)
        return Losses(xp.sum(C * short**2, axis=-1), -2 * C * signs * short, bend)

    return losses


def newton(put, rows, penalised, signs, C, **options):
    ones = np.ones((len(C), rows.shape[1]))
    options = {"tol": 1e-12, "noise": 1e-15, "floor": put(np.zeros(len(C)))} | options
    return ManyNewton(
        put(rows), put(penalised), hinges(put(signs), put(C[:, None])), put(ones), **options
    )


def run(method, start, max_iter=100):
    return iterate(method.step, LoopState(0, method.start(start)), max_iter=max_iter, tol=0.0)


def expected(rows, penalised, signs, C):
    """The minimum of each function by SciPy."""

    def one(sign, strength):
        def value(p):
            short = np.clip(1 - sign * (rows @ p), 0, None)
            slope = penalised * p - 2 * strength * (sign * short) @ rows
            return penalised @ p**2 / 2 + strength * short @ short, slope

        start = np.zeros(rows.shape[1])
        return minimize(value, start, jac=True, method="BFGS", options={"gtol": 1e-10})

    return [one(*of_one) for of_one in zip(signs, C, strict=True)]


@pytest.mark.parametrize("intercept", [True, False])
def test_minimum_of_every_function(put, rng, intercept):
    rows = rng.normal(size=(60, 8)) * np.geomspace(0.1, 3, 8)
    rows[:, -1] = 1.0
    penalised = np.array([1.0] * 7 + [0.0 if intercept else 1.0])
    signs, C = np.where(rng.normal(size=(4, 60)) > 0, 1.0, -1.0), np.array([1e-3, 0.1, 10.0, 1e3])
    result = run(newton(put, rows, penalised, signs, C), put(np.zeros((4, 8))))
    assert result.converged
    for found, at, best in zip(
        to_host(result.params.objective),
        to_host(result.params.params),
        expected(rows, penalised, signs, C),
        strict=True,
    ):
        assert found == pytest.approx(best.fun, rel=1e-9)
        np.testing.assert_allclose(at, best.x, atol=1e-4)


def test_objectives_fall_from_a_far_start(rng):
    """Far away nearly all rows change sides within a step: lengths below 1 must be tried."""
    rows = rng.normal(size=(200, 30))
    signs = np.where(rng.normal(size=(3, 200)) > 0, 1.0, -1.0)
    C = np.array([1.0, 100.0, 1e4])
    method = newton(np.asarray, rows, np.ones(30), signs, C)
    here = method.start(1e3 * rng.normal(size=(3, 30)))
    ends = expected(rows, np.ones(30), signs, C)
    for _ in range(100):
        before, here = here, method.step(here).params
        assert (here.objective <= before.objective * (1 + 1e-12)).all()
        if method.done(here).all():
            break
    np.testing.assert_allclose(here.objective, [end.fun for end in ends], rtol=1e-9)


def test_one_function_does_not_wait_for_another(rng):
    """What is done stays where it is while others move."""
    rows = rng.normal(size=(50, 5))
    signs = np.where(rng.normal(size=(2, 50)) > 0, 1.0, -1.0)
    C = np.array([1e-6, 1e5])
    method = newton(np.asarray, rows, np.ones(5), signs, C, tol=1e-8)
    alone = run(newton(np.asarray, rows, np.ones(5), signs[:1], C[:1], tol=1e-8), np.zeros((1, 5)))
    both = run(method, np.zeros((2, 5)))
    np.testing.assert_allclose(both.params.params[0], alone.params.params[0], rtol=1e-12)
    assert both.n_iter > alone.n_iter


def test_gap_is_what_is_left(rng):
    """The promised decrease, relative to the objective, is that to the minimum up to a factor."""
    rows = rng.normal(size=(80, 6))
    signs, C = np.where(rng.normal(size=(3, 80)) > 0, 1.0, -1.0), np.full(3, 0.5)
    best = np.array([end.fun for end in expected(rows, np.ones(6), signs, C)])
    method = newton(np.asarray, rows, np.ones(6), signs, C)
    here = method.start(np.zeros((3, 6)))
    for _ in range(4):
        left = (here.objective - best) / here.objective
        near = left > 1e-13
        assert (here.gap[near] > 0.3 * left[near]).all()
        here = method.step(here).params


def test_rows_that_can_be_separated(rng):
    """Few rows are active at the minimum, so that all but very short steps are too long at first."""
    rows = rng.normal(size=(150, 200)) * np.geomspace(1, 1e-3, 200)
    signs, C = np.where(rng.normal(size=(3, 150)) > 0, 1.0, -1.0), np.array([10.0, 1e3, 1e4])
    result = run(
        newton(np.asarray, rows, np.ones(200), signs, C, tol=1e-6), np.zeros((3, 200)), 300
    )
    best = [end.fun for end in expected(rows, np.ones(200), signs, C)]
    assert result.converged
    # SciPy's BFGS may end a little above.
    assert (result.params.objective <= np.array(best) * 1.001).all()


def test_a_direction_that_is_not_solved_has_not_converged(rng, monkeypatch):
    monkeypatch.setattr("clusterica.optim._many_newton._MOST_ITERATIONS", 4)
    rows = rng.normal(size=(50, 60)) * np.geomspace(1, 1e-4, 60)
    signs, C = np.where(rng.normal(size=(1, 50)) > 0, 1.0, -1.0), np.array([1e12])
    method = newton(np.asarray, rows, np.ones(60), signs, C, tol=0.5)
    here = method.start(np.zeros((1, 60)))
    assert not method.done(here).any()


def test_a_number_that_is_none_stops(rng):
    rows = rng.normal(size=(20, 3))
    signs, C = np.ones((1, 20)), np.array([np.nan])
    result = run(newton(np.asarray, rows, np.ones(3), signs, C), np.zeros((1, 3)))
    assert np.isnan(result.params.objective).all()
    assert result.n_iter < 20
