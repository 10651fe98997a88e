"""Descent on the sphere: quadratic forms end at their least eigenvalue, and no start ever rises."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from clusterica.ica._search import SphereDescent, SphereValues, start_paths
from clusterica.ops.linalg import unit_rows
from clusterica.optim import LoopState, iterate


def descent(A, *, tol=1e-7, curvature=None):
    """Descend b A b, with a hint of its second derivative that may be wrong."""

    def evaluate(B, starts):
        hint = 2 * np.trace(A) / len(A) if curvature is None else curvature
        return SphereValues(np.einsum("ij,jk,ik->i", B, A, B), 2 * B @ A, np.full(len(B), hint))

    return SphereDescent(evaluate, tol)


def run(solver, points, max_iter=500):
    trail = []
    result = iterate(
        solver.step,
        LoopState(0, start_paths(points)),
        max_iter=max_iter,
        tol=0,
        hook=lambda state: trail.append(state.params),
    )
    return result, trail


@given(
    seed=st.integers(0, 2**32), d=st.integers(1, 6), hint=st.sampled_from([None, 0.0, 1e3, -5.0])
)
def test_least_eigenvalue(seed, d, hint):
    rng = np.random.default_rng(seed)
    Q, _ = np.linalg.qr(rng.normal(size=(d, d)))
    values = np.arange(d) + rng.uniform(0, 0.5, size=d)
    result, trail = run(
        descent(Q @ np.diag(values) @ Q.T, curvature=hint), unit_rows(rng.normal(size=(8, d)))
    )
    assert result.converged
    paths = result.params
    np.testing.assert_allclose(paths.values, values[0], atol=1e-9)
    np.testing.assert_allclose(np.abs(paths.points @ Q[:, 0]), 1, atol=1e-9)
    assert not paths.moving.any()
    for before, after in pairwise(trail):
        assert (after.values <= before.values).all()
        rested = ~before.moving
        np.testing.assert_array_equal(after.points[rested], before.points[rested])
    np.testing.assert_allclose(np.linalg.norm(paths.points, axis=1), 1)


def test_only_moving_starts_are_evaluated():
    A = np.diag([0.0, 1.0, 2.0])
    seen = []
    solver = descent(A)

    def evaluate(B, starts):
        seen.append(starts.tolist())
        return solver.evaluate(B, starts)

    points = unit_rows(np.array([[1.0, 0, 0], [1.0, 1, 1]]))  # the first is there already
    run(SphereDescent(evaluate, 1e-7), points)
    assert seen[0] == [0, 1]
    assert all(starts == [1] for starts in seen[1:])
    assert len(seen) > 2


def test_a_value_that_is_not_a_number_is_no_progress():
    A = np.diag([0.0, 1.0])
    solver = descent(A)

    def evaluate(B, starts):
        values = solver.evaluate(B, starts)
        far = B[:, 1] < 0.5  # the way down leads through there
        return values._replace(values=np.where(far, np.nan, values.values))

    result, _ = run(SphereDescent(evaluate, 1e-7), unit_rows(np.array([[1.0, 1.0]])))
    assert np.isfinite(result.params.values).all()
    assert result.params.points[0, 1] >= 0.5
