"""L-BFGS on many functions: the minimum of each, whatever the others do, from one evaluation a step."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterica.arrays import namespace_of, to_host
from clusterica.optim import LoopState, ManyLBFGS, Values, iterate


def bowls(rng, n_functions, n_params, condition):
    """Parabolas f_k(p) = (p - c_k)ᵀ H_k (p - c_k) / 2 + 1 of a given condition, with their minima."""
    minima = rng.normal(size=(n_functions, n_params))
    hessians = []
    for _ in range(n_functions):
        Q, _ = np.linalg.qr(rng.normal(size=(n_params, n_params)))
        hessians.append((Q * np.geomspace(1, condition, n_params)) @ Q.T)
    return minima, np.array(hessians)


def parabola(minima, hessians, calls=None):
    def evaluate(P):
        xp = namespace_of(P)
        away = P - minima
        gradient = xp.matmul(hessians, away[:, :, None])[:, :, 0]
        if calls is not None:
            calls.append(1)
        return Values(xp.sum(away * gradient, axis=1) / 2 + 1, gradient)

    return evaluate


def hinges(X, signs, C):
    """Squared-hinge losses of several targets: curved by pieces, with kinks in the gradient."""

    def evaluate(W):
        r = np.clip(1 - signs * (X @ W.T), 0, None)
        value = (W**2).sum(axis=1) / 2 + C * (r**2).mean(axis=0)
        return Values(value, W - 2 * C / len(X) * (signs * r).T @ X)

    return evaluate


def run(lbfgs, start, max_iter=200):
    loop = LoopState(0, lbfgs.start(start))
    return iterate(lbfgs.step, loop, max_iter=max_iter, tol=0.0)


def same(G):
    return G


def test_parabolas(put, rng):
    minima, hessians = bowls(rng, 3, 6, 100)
    lbfgs = ManyLBFGS(parabola(put(minima), put(hessians)), same, tol=1e-20)
    result = run(lbfgs, put(np.zeros((3, 6))))
    assert result.converged
    np.testing.assert_allclose(to_host(result.params.params), minima, atol=1e-8)
    assert to_host(result.params.gap).max() <= 1e-20


def test_exact_preconditioner_needs_one_step(rng):
    minima, hessians = bowls(rng, 2, 8, 1e8)
    inverses = np.linalg.inv(hessians)
    lbfgs = ManyLBFGS(
        parabola(minima, hessians), lambda G: (inverses @ G[:, :, None])[:, :, 0], tol=1e-10
    )
    result = run(lbfgs, np.zeros((2, 8)))
    assert result.n_iter == 1
    np.testing.assert_allclose(result.params.params, minima, atol=1e-6)


@given(seed=st.integers(0, 2**32 - 1), C=st.sampled_from([0.1, 10.0, 1000.0]))
def test_gap_bounds_what_is_left(seed, C):
    """The promised decrease is that to the minimum, up to a factor; objectives fall all the way."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 8)) * np.geomspace(0.1, 3, 8)
    signs = np.where(rng.normal(size=(60, 4)) > 0, 1.0, -1.0)
    evaluate = hinges(X, signs, C)
    M = np.eye(8) + 2 * C * X.T @ X / 60
    precondition = lambda G: np.linalg.solve(M, G.T).T  # noqa: E731
    exact = run(ManyLBFGS(evaluate, precondition, tol=1e-14), np.zeros((4, 8)), 1000)
    assert exact.converged
    assert np.abs(exact.params.values.gradient).max() < 1e-4 * C
    rough = run(ManyLBFGS(evaluate, precondition, tol=1e-4), np.zeros((4, 8)), 1000)
    assert rough.converged
    best = exact.params.values.objective
    left = rough.params.values.objective - best
    assert (left <= 20e-4 * best).all()
    assert (np.diff(rough.history) <= 1e-12).all()


def test_one_evaluation_a_step_and_separate_step_lengths(rng):
    """A function whose steps are all too long at first does not slow down the others."""
    minima, hessians = bowls(rng, 2, 5, 10)
    hessians[1] *= 1e4
    alone, together = [], []
    single = ManyLBFGS(parabola(minima[:1], hessians[:1], alone), same, tol=1e-12)
    run(single, np.zeros((1, 5)))
    both = ManyLBFGS(parabola(minima, hessians, together), same, tol=1e-12)
    here, n_steps = both.start(np.zeros((2, 5))), 0
    while here.gap[0] > 1e-12:
        here = both.step(here).params
        n_steps += 1
    assert n_steps == len(alone) - 1 == len(together) - 1
    assert here.gap[1] > 1e-12
    result = iterate(both.step, LoopState(0, here), max_iter=200, tol=0.0)
    assert result.converged
    np.testing.assert_allclose(result.params.params, minima, atol=1e-4)


def test_a_function_at_rest_is_left_alone(rng):
    minima, hessians = bowls(rng, 2, 5, 10)
    start = np.stack([minima[0], np.zeros(5)])
    lbfgs = ManyLBFGS(parabola(minima, hessians), same, tol=1e-12)
    result = run(lbfgs, start)
    np.testing.assert_array_equal(result.params.params[0], minima[0])
    np.testing.assert_allclose(result.params.params[1], minima[1], atol=1e-5)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_trials_that_are_not_finite_are_shortened(rng, bad):
    """-log-like walls: outside of the unit box the function has no value."""
    minimum = np.full((1, 3), 0.5)

    def evaluate(P):
        inside = (np.abs(P) < 1).all()
        gradient = 100 * (P - minimum)
        value = ((P - minimum) * gradient).sum(axis=1) / 2
        return Values(value if inside else value * bad, gradient if inside else gradient * bad)

    result = run(ManyLBFGS(evaluate, same, tol=1e-20), np.zeros((1, 3)))
    np.testing.assert_allclose(result.params.params, minimum, atol=1e-8)


def test_ends_where_nothing_lowers_it():
    """A gradient that points the wrong way: no trial is kept, and the loop ends by itself."""

    def evaluate(P):
        return Values((P**2).sum(axis=1) + 1, -2 * P - 1)

    lbfgs = ManyLBFGS(evaluate, same, tol=1e-12)
    result = run(lbfgs, np.ones((1, 2)))
    assert result.n_iter < 20
    assert lbfgs.done(result.params).all()
    assert (result.params.gap > 1e-12).all()
    np.testing.assert_array_equal(result.params.params, np.ones((1, 2)))


def test_moves_of_functions_that_bend_alike_save_steps(put, rng):
    """Hessians are I + a A: moves for one a, with their y as of another, are those of the other."""
    U, _ = np.linalg.qr(rng.normal(size=(2, 20, 3)))
    A = (U * np.array([100.0, 30.0, 10.0])) @ U.transpose(0, 2, 1)
    minima = rng.normal(size=(2, 20))
    here = ManyLBFGS(parabola(put(minima), put(np.eye(20) + A)), same, tol=1e-6)
    moves = run(here, put(np.zeros((2, 20)))).params.moves
    moves = moves._replace(y=moves.s + 3 * (moves.y - moves.s))
    other = ManyLBFGS(parabola(put(-minima), put(np.eye(20) + 3 * A)), same, tol=1e-6)
    plain, quick = (
        iterate(other.step, LoopState(0, other.start(put(minima), m)), max_iter=200, tol=0.0)
        for m in (None, moves)
    )
    assert plain.converged
    assert quick.converged
    assert quick.n_iter < 0.7 * plain.n_iter
    np.testing.assert_allclose(to_host(quick.params.params), -minima, atol=0.01)


@given(seed=st.integers(0, 2**32 - 1), n_moves=st.integers(1, 14))
def test_directions_are_those_of_the_two_loops(seed, n_moves):
    """Against the two loops of L-BFGS, move by move, with trials that were rejected in between."""
    rng = np.random.default_rng(seed)
    k, n, m = 3, 20, 10
    A = rng.normal(size=(k, n, n))
    H = A @ A.transpose(0, 2, 1) + np.eye(n)
    metric = np.diag(rng.uniform(0.5, 2, n))
    lbfgs = ManyLBFGS(parabola(np.zeros((k, n)), H), lambda G: G @ metric, tol=0.0, memory=m)
    here, kept_moves = lbfgs.start(rng.normal(size=(k, n))), [[] for _ in range(k)]
    for _ in range(n_moves):
        trial, kept = rng.normal(size=(k, n)), rng.random(k) < 0.8
        there = lbfgs.evaluate(trial)
        for j in np.flatnonzero(kept):
            s, y = trial[j] - here.params[j], there.gradient[j] - here.values.gradient[j]
            kept_moves[j] = [*kept_moves[j], (s, y)][-m:]
        here = lbfgs._aimed(lbfgs._moved(here, trial, there, kept), np.ones(k, bool))
    for j in range(k):
        q, shares = here.values.gradient[j], []
        for s, y in reversed(kept_moves[j]):
            shares.append(s @ q / (s @ y))
            q = q - shares[-1] * y
        s, y = kept_moves[j][-1] if kept_moves[j] else (q, metric @ q)
        r = metric @ q * (s @ y / (y @ metric @ y) if kept_moves[j] else 1.0)
        for (s, y), share in zip(kept_moves[j], reversed(shares), strict=True):
            r = r + s * (share - y @ r / (s @ y))
        np.testing.assert_allclose(here.direction[j], -r, rtol=1e-6, atol=1e-6 * np.abs(r).max())
