"""Centres from sums, by hand and against the definition."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterica.arrays import to_host
from clusterica.ops.assign import lloyd_sums
from clusterica.ops.linalg import polar_factor, unit_rows
from clusterica.ops.rules import (
    AXIS,
    DIRECTION,
    EUCLIDEAN,
    GAIN_SHAPE,
    RULES,
    Axis,
    Centers,
    Euclidean,
    LloydSums,
    center_counts,
)

SPHERICAL = [GAIN_SHAPE, DIRECTION, AXIS]
spherical = pytest.mark.parametrize("rule", SPHERICAL, ids=lambda r: r.name)


def moved(put, total, old):
    return (
        LloydSums(*(put(np.asarray(a, dtype=np.float64)) for a in total)),
        Centers(*(put(np.asarray(a)) for a in old)),
    )


def renewed(put, total, old, rule):
    """Return the new centres as host arrays."""
    return Centers(*map(to_host, rule.renew(*moved(put, total, old))))


def test_euclidean_is_the_mean(put):
    total = LloydSums([[6.0, 0], [0, 0], [1, 1]], [3.0, 0, 2], 0.0)
    old = Centers(np.array([[9.0, 9], [5, 5], [1, 3]]), np.zeros(3), np.zeros(3))
    new = renewed(put, total, old, EUCLIDEAN)
    np.testing.assert_array_equal(new.C, [[2, 0], [5, 5], [0.5, 0.5]])
    np.testing.assert_array_equal(new.mass, [3, 0, 2])
    np.testing.assert_array_equal(new.counts, [3, 0, 2])


def test_euclidean_with_mass_is_the_mean_of_all_rows_so_far(put):
    total = LloydSums([[6.0, 0], [0, 0]], [3.0, 0], 0.0)
    old = Centers(np.array([[4.0, 8], [5, 5]]), np.array([1.0, 2]), np.zeros(2))
    new = renewed(put, total, old, EUCLIDEAN)
    np.testing.assert_array_equal(new.C, [[2.5, 2], [5, 5]])
    np.testing.assert_array_equal(new.mass, [4, 2])


@spherical
def test_spherical_is_the_direction_of_the_sum(put, rule):
    n = 2 * (2 if rule is AXIS else 1)
    total = LloydSums([[6.0, 8], [0, 0]], np.arange(n), 0.0)
    old = Centers(np.array([[0.0, 1], [0.6, 0.8]]), np.zeros(2), np.zeros(n))
    new = renewed(put, total, old, rule)
    np.testing.assert_allclose(new.C, [[0.6, 0.8], [0.6, 0.8]])
    np.testing.assert_array_equal(new.mass, [10, 0])
    np.testing.assert_array_equal(new.counts, np.arange(n))


@spherical
def test_damping_adds_the_old_centre(put, rule):
    total = LloydSums([[2.0, 0]], np.ones(2 if rule is AXIS else 1), 0.0)
    old = Centers(np.array([[0.0, 1]]), np.array([2.0]), np.zeros(1))
    new = renewed(put, total, old, rule)
    np.testing.assert_allclose(new.C, np.full((1, 2), np.sqrt(0.5)))
    np.testing.assert_allclose(new.mass, [np.sqrt(8)])


def test_orthogonal_centres(put, rng):
    sums, C = rng.standard_normal((3, 5)), np.eye(3, 5)
    old = Centers(C, np.full(3, 0.5), np.zeros(3))
    new = renewed(put, LloydSums(sums, np.ones(3), 0.0), old, Axis(orthogonal=True))
    np.testing.assert_allclose(new.C, polar_factor(sums + 0.5 * C), atol=1e-12)
    np.testing.assert_allclose(new.C @ new.C.T, np.eye(3), atol=1e-12)


def test_an_orthogonal_centre_that_received_nothing_stays_near(put):
    """The polar factor of a row of zeros alone would be any direction."""
    total = LloydSums([[3.0, 0, 0], [0, 0, 0]], np.ones(4), 0.0)
    old = Centers(np.array([[1.0, 0, 0], [0, 0.6, 0.8]]), np.zeros(2), np.zeros(4))
    new = renewed(put, total, old, Axis(orthogonal=True))
    np.testing.assert_allclose(new.C, old.C, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.name)
def test_centres_keep_their_dtype(put, dtype, rule):
    old = Centers(np.eye(2, dtype=dtype), np.zeros(2), np.zeros(2))
    total, old = moved(put, LloydSums(np.eye(2), np.ones(2), 0.0), old)
    new = rule.renew(total, old)
    assert new.C.dtype == old.C.dtype
    assert type(new.C) is type(old.C)
    assert str(new.mass.dtype).endswith("float64")


def test_counts_of_free_centres(put):
    C = put(np.eye(2))
    plain = Centers(C, put(np.zeros(2)), put(np.array([1.0, 2])))
    np.testing.assert_array_equal(to_host(center_counts(plain)), [1, 2])
    signed = Centers(C, put(np.zeros(2)), put(np.array([1.0, 2, 3, 4])))
    np.testing.assert_array_equal(to_host(center_counts(signed)), [4, 6])


@given(seed=st.integers(0, 2**16), rule=st.sampled_from([*RULES, Axis(orthogonal=True)]))
def test_a_step_never_lowers_the_gain(seed, rule):
    """Lloyd's theorem: reassign after renewing, and the objective is at least as good."""
    rng = np.random.default_rng(seed)
    X, weights = rng.laplace(size=(60, 4)), rng.random(60)
    C = rng.standard_normal((3, 4))
    if rule.unit_centers:
        C = rule.start(unit_rows(C))
    before = -np.inf
    for _ in range(5):
        _, total = lloyd_sums(X, C, None, weights, rule=rule)
        assert total.gain >= before - 1e-9
        before = total.gain
        old = Centers(C, np.zeros(3), np.zeros(rule.n_labels(len(C))))
        C = rule.renew(total, old).C


@given(seed=st.integers(0, 2**16), rule=st.sampled_from([EUCLIDEAN, AXIS]))
def test_two_batches_with_mass_are_one_step(seed, rule):
    """With the assignment held, the mass carries what the first batch gave."""
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((2, 3, 4))
    counts = rng.integers(1, 9, size=(2, 3)).astype(float)
    start = Centers(unit_rows(rng.standard_normal((3, 4))), np.zeros(3), np.zeros(3))
    first = rule.renew(LloydSums(a, counts[0], 0.0), start)
    second = rule.renew(LloydSums(b, counts[1], 0.0), first)
    whole = rule.renew(LloydSums(a + b, counts.sum(axis=0), 0.0), start)
    np.testing.assert_allclose(second.C, whole.C, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(second.mass, whole.mass, rtol=1e-9)


def test_only_rules_that_are_known_not_to_wait_for_a_device_are_replayed():
    class Derived(Euclidean):
        """A rule that users may write."""

    assert all(rule.replayable for rule in RULES)
    assert not Axis(orthogonal=True).replayable
    assert not Derived().replayable
