"""The gradient of a problem of reconstruction ICA beside finite differences."""

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
        moves = (problem.rows.place.put(t * step * move) for t in (1, -1))
        above, below = (problem.evaluate(problem.retract(W, m)) for m in moves)
        slope = (above.objective - below.objective) / (2 * step)
        np.testing.assert_allclose((gradient * move).sum(), slope, rtol=1e-6, atol=1e-6)

    return check
