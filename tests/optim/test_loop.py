"""The loop: when it ends, what it remembers, and that it can start again."""

import math

import pytest

from clusterica.optim import LoopState, Step, iterate


def newton(x):
    """One step of Newton's method for the square root of two."""
    new = (x + 2 / x) / 2
    return Step(new, (x * x - 2) ** 2 + 1, (new - x) ** 2 / new**2)


def halve(x):
    return Step(x / 2, 1 + x, 0.25)


def scripted(steps):
    """Return a step that gives the (objective, change) pairs one after the other."""
    script = iter(steps)
    return lambda params: Step(params + 1, *next(script))


def test_fixed_point():
    result = iterate(newton, LoopState(0, 1.0), max_iter=100, tol=0)
    assert result.params == pytest.approx(math.sqrt(2), rel=1e-15)
    assert result.converged
    assert not result.stopped
    assert result.n_iter == len(result.history) < 10
    assert newton(result.params).params == result.params


def test_max_iter():
    result = iterate(halve, LoopState(0, 8.0), max_iter=3, tol=0)
    assert result == (1.0, (9.0, 5.0, 3.0), 3, False, False)


@pytest.mark.parametrize(
    ("steps", "n_iter"),
    [
        # Both rest at the third step.
        ([(8, 1), (4, 0.1), (4, 0.1)], 3),
        # Parameters rest at once, the objective at the fourth step.
        ([(8, 0.1), (4, 0.1), (2, 0.1), (2, 0.1)], 4),
        # The objective rests at once, parameters at the fourth step.
        ([(8, 1), (8, 1), (8, 1), (8, 0.1)], 4),
        # Nothing moves: there is nothing to wait for.
        ([(8, 0)], 1),
        ([(8, 1), (4, 0)], 2),
        # The first step alone can't tell whether the objective rests.
        ([(8, 0.1), (8, 0.1)], 2),
        # The limits belong to it: 10 % of the objective, 0.1 of the parameters; also when it grows.
        ([(90, 1), (100, 0.1)], 2),
        ([(110, 1), (100, 0.1)], 2),
        ([(-110, 1), (-100, 0.1)], 2),
    ],
)
def test_convergence(steps, n_iter):
    result = iterate(scripted(steps), LoopState(0, 0), max_iter=50, tol=0.1)
    assert (result.n_iter, result.params) == (n_iter, n_iter)
    assert (result.converged, result.stopped) == (True, False)
    assert result.history == tuple(objective for objective, _ in steps)


@pytest.mark.parametrize(
    "steps",
    [
        [(8, 1), (4, 0.1), (2, 0.1)],
        [(8, 1), (8, 0.2), (8, 0.2)],
        [(8, 0.1)],
        [(math.nan, 0.1), (math.nan, 0.1)],
        [(8, math.nan), (8, math.nan)],
    ],
)
def test_no_convergence(steps):
    result = iterate(scripted(steps), LoopState(0, 0), max_iter=len(steps), tol=0.1)
    assert result.n_iter == len(steps)
    assert not result.converged


def test_an_objective_of_zero_can_rest():
    result = iterate(
        scripted([(1, 1), (0, 1e-9), (0, 1e-9)]), LoopState(0, 0), max_iter=9, tol=1e-3
    )
    assert (result.n_iter, result.converged) == (3, True)


@pytest.mark.parametrize("step", [newton, halve])
@pytest.mark.parametrize("tol", [0, 1e-3])
def test_every_state_starts_the_loop_again(step, tol):
    states = []
    whole = iterate(step, LoopState(0, 5.0), max_iter=12, tol=tol, hook=states.append)
    assert [state.n_iter for state in states] == list(range(1, whole.n_iter + 1))
    assert (states[-1].params, states[-1].history) == (whole.params, whole.history)
    for state in states[: whole.n_iter - whole.converged]:
        assert iterate(step, state, max_iter=12, tol=tol) == whole


def test_states_do_not_change_afterwards():
    states = []
    iterate(halve, LoopState(0, 8.0), max_iter=3, tol=0, hook=states.append)
    assert [state.history for state in states] == [(9.0,), (9.0, 5.0), (9.0, 5.0, 3.0)]


def test_a_loop_that_is_over_takes_no_step():
    state = LoopState(5, 3.0, (1.0, 2.0))
    result = iterate(lambda _: pytest.fail("a step"), state, max_iter=5, tol=0)
    assert result == (3.0, (1.0, 2.0), 5, False, False)


def test_errors_of_a_step_come_through():
    with pytest.raises(ZeroDivisionError):
        iterate(newton, LoopState(0, 0.0), max_iter=3, tol=0)


# --- Progress --------------------------------------------------------------------------------------


def test_every_step_is_reported(watch, watcher):
    seen = watcher()
    watch(lambda p: iterate(halve, LoopState(0, 8.0), max_iter=2, tol=0, progress=p), seen, 2)
    assert seen.events == [
        "setup",
        ("begin", "fit"),
        ("begin", "fit/iteration0"),
        ("end", "fit/iteration0"),
        ("begin", "fit/iteration1"),
        ("end", "fit/iteration1"),
        ("end", "fit"),
        "teardown",
    ]
    assert seen.ended == [("fit/iteration0", 0), ("fit/iteration1", 0), ("fit", 2)]


def test_a_callback_stops_the_loop(watch, watcher):
    seen = watcher(stop=lambda path: path == "fit/iteration2")
    result = watch(
        lambda p: iterate(halve, LoopState(0, 8.0), max_iter=9, tol=0, progress=p), seen, 9
    )
    assert result == (1.0, (9.0, 5.0, 3.0), 3, False, True)


def test_the_state_is_saved_before_a_callback_is_asked(watch, watcher):
    """So that a callback which kills the process loses nothing."""
    order = []
    seen = watcher(stop=lambda path: order.append(path))
    hook = lambda state: order.append(state.n_iter)  # noqa: E731
    watch(
        lambda p: iterate(halve, LoopState(0, 8.0), max_iter=2, tol=0, progress=p, hook=hook),
        seen,
        2,
    )
    assert order == [1, "fit/iteration0", 2, "fit/iteration1", "fit"]


def test_callbacks_get_an_estimator_to_evaluate(watch, judge):
    def fitted(params):
        return {"value_": params}

    watch(
        lambda p: iterate(halve, LoopState(0, 8.0), max_iter=3, tol=0, progress=p, fitted=fitted),
        judge,
        3,
    )
    assert [model.value_ for model in judge.models[:3]] == [4.0, 2.0, 1.0]
    assert judge.data == [("X", "y")] * 4


def test_nothing_is_made_for_callbacks_that_do_not_ask(watch, watcher):
    def work(progress):
        return iterate(
            halve,
            LoopState(0, 8.0),
            max_iter=3,
            tol=0,
            progress=progress,
            fitted=lambda _: pytest.fail("not asked for"),
        )

    assert watch(work, watcher(), 3).n_iter == 3


def test_an_error_tears_the_callbacks_down(watch, watcher):
    seen = watcher()
    with pytest.raises(ZeroDivisionError):
        watch(lambda p: iterate(newton, LoopState(0, 0.0), max_iter=3, tol=0, progress=p), seen, 3)
    assert seen.events[-2:] == [("begin", "fit/iteration0"), "teardown"]
