"""The gradient of a problem of reconstruction ICA beside finite differences, and one who watches a fit."""

import numpy as np
import pytest

from clusterica.arrays import to_host


@pytest.fixture
def assert_gradient():
    """Check a problem along a random move, of unit vectors where it has them."""

    def check(problem, rng):
        W, move = problem.start(rng.normal(size=(6, 4))), rng.normal(size=(6, 4))
        if problem.unit_norm:
            null = to_host(problem.null)
            move -= move @ null.T @ null
            move -= (move * to_host(W)).sum(axis=1, keepdims=True) * to_host(W)
        gradient, step = to_host(problem.evaluate(W).gradient), 1e-5
        moves = (problem.rows.place(t * step * move) for t in (1, -1))
        above, below = (problem.evaluate(problem.retract(W, m)) for m in moves)
        slope = (above.objective - below.objective) / (2 * step)
        np.testing.assert_allclose((gradient * move).sum(), slope, rtol=1e-6, atol=1e-6)

    return check


class Watcher:
    """A callback that is not handed on to estimators inside: notes tasks and models, may ask to stop."""

    def __init__(self, stop_after=None):
        self.names, self.models, self.stop_after = [], [], stop_after

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        self.names.append(context.task_name)
        if context.task_name == "iteration":
            self.models.append(fitted_estimator)
        return self.names.count("iteration") == self.stop_after


@pytest.fixture
def watcher():
    return Watcher
