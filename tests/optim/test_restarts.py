"""The best of several starts."""

from functools import partial

import pytest

from clusterica.optim import LoopState, Step, best_of, iterate


@pytest.fixture
def best(watch, watcher):
    """A function that runs starts with given results and returns the best and the callback."""

    def best(results, stop=lambda path: False):
        callback, script = watcher(stop), iter(results)
        work = partial(
            best_of,
            lambda task: next(script),
            len(results),
            objective=lambda r: r[0],
            n_subtasks=7,
        )
        return watch(lambda p: work(progress=p), callback, len(results)), callback

    return best


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        ([(1, "a")], "a"),
        ([(1, "a"), (3, "b"), (2, "c")], "b"),
        ([(3, "a"), (1, "b"), (3, "c")], "a"),
        ([(-3, "a"), (-1, "b"), (-1, "c")], "b"),
        ([(float("-inf"), "a"), (0, "b")], "b"),
    ],
)
def test_the_first_of_the_best(best, results, expected):
    found, callback = best(results)
    assert found[1] == expected
    starts = [(f"fit/start{i}", 7) for i in range(len(results))]
    assert callback.ended == [*starts, ("fit", len(results))]


def test_a_callback_ends_the_starts(best):
    found, callback = best([(1, "a"), (2, "b"), (9, "c")], stop=lambda path: path == "fit/start1")
    assert found[1] == "b"
    assert [path for path, _ in callback.ended] == ["fit/start0", "fit/start1", "fit"]


def test_starts_and_their_iterations_are_one_tree(watch, watcher):
    def step(x):
        return Step(x - 1, float(x), 1.0)

    def run(task):
        return iterate(step, LoopState(0, 0), max_iter=2, tol=0, progress=task)

    def stop(path):  # the second start after its first iteration
        return path == "fit/start1/iteration0"

    seen = watcher(stop)
    watch(
        lambda p: best_of(run, 2, objective=lambda r: r.history[-1], n_subtasks=2, progress=p),
        seen,
        2,
    )
    assert [path for path, _ in seen.ended] == [
        "fit/start0/iteration0",
        "fit/start0/iteration1",
        "fit/start0",
        "fit/start1/iteration0",
        "fit/start1",
        "fit",
    ]
