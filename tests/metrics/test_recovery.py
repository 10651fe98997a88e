"""Distances agree with a search over all matchings and with loops, and refuse what has no answer."""

from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterica.metrics import amari_distance, recovery_distance


def unit(rows):
    return np.array([row / np.sqrt(np.sum(row**2)) for row in np.asarray(rows, float)])


def best_matching(C, B, signs):
    """Try every matching (and sign): of least squared error, the largest error of a coordinate."""
    C, B = unit(C), unit(B)
    errors = []
    for chosen in permutations(range(len(C)), len(B)):
        for sign in product(signs, repeat=len(B)):
            difference = B - np.array(sign)[:, None] * C[list(chosen)]
            errors.append(((difference**2).sum(), np.abs(difference).max()))
    return min(errors)[1]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("k", "n", "d"), [(3, 3, 3), (2, 2, 4), (4, 3, 2), (5, 2, 3), (3, 3, 2)])
def test_up_to_sign_against_all_matchings(k, n, d, seed):
    rng = np.random.default_rng([seed, k, n])
    C, B = rng.standard_normal((k, d)), rng.standard_normal((n, d))
    assert recovery_distance(C, B) == pytest.approx(best_matching(C, B, (-1, 1)))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("n", "d"), [(2, 2), (3, 3), (3, 2), (1, 1), (2, 5)])
def test_signed_pairs_against_all_matchings(n, d, seed):
    rng = np.random.default_rng([seed, n])
    C, B = rng.standard_normal((2 * n, d)), rng.standard_normal((n, d))
    pairs = np.concatenate([B, -B])
    assert recovery_distance(C, B) == pytest.approx(best_matching(C, pairs, (1,)))
    assert recovery_distance(C, pairs) == pytest.approx(best_matching(C, pairs, (1,)))


def test_by_hand():
    # (3, 4) / 5 is matched with e_2: errors 0.6 and 0.2; (2, 0) lies on e_1.
    assert recovery_distance([[3, 4], [2, 0]], np.eye(2)) == pytest.approx(0.6)
    # Both signs of e_1 but only one of e_2: (0, 1) against (0, -1).
    found = [[1, 0], [-1, 0], [0, 1], [0, 1]]
    assert recovery_distance(found, np.eye(2)) == 2
    assert recovery_distance(found, [[1, 0], [-1, 0], [0, 1], [0, -1]]) == 2
    assert recovery_distance(found[:3], np.eye(2)) == 0  # no pairs: up to sign


@given(seed=st.integers(0, 2**32), d=st.integers(1, 6), twice=st.booleans())
def test_order_length_and_known_signs_do_not_matter(seed, d, twice):
    rng = np.random.default_rng(seed)
    B = rng.standard_normal((d, d))
    C = np.concatenate([B, -B]) if twice else B * rng.choice([-1, 1], size=(d, 1))
    C = rng.permutation(C) * rng.uniform(1e-3, 1e3, size=(len(C), 1))
    assert recovery_distance(C, B) < 1e-12


def test_lengths_beyond_the_squares_of_floats():
    assert recovery_distance([[1e-200, 0], [0, 1e200]], np.eye(2)) == 0


def test_every_library(put, rng):
    C, B = rng.standard_normal((6, 3)).astype(np.float32), rng.standard_normal((3, 3))
    assert recovery_distance(put(C), put(B)) == pytest.approx(recovery_distance(C, B))
    assert amari_distance(put(B), put(C[:3])) == pytest.approx(amari_distance(B, C[:3]))
    assert isinstance(recovery_distance(put(C), put(B)), float)
    assert isinstance(amari_distance(put(B), put(C[:3])), float)


@pytest.mark.parametrize(
    ("centroids", "basis", "message"),
    [
        (np.eye(2), np.eye(3)[:, :2] + 1, "2 centroids are too few for a basis of 3 vectors"),
        (np.eye(3), np.eye(2), "centroids have 3 features and basis has 2.*transpose"),
        ([[1, 0], [np.nan, 1]], np.eye(2), "centroids contains NaN or infinity"),
        (np.eye(2), [[1, 0], [0, np.inf]], "basis contains NaN or infinity"),
        ([[1, 0], [0, 0]], np.eye(2), r"centroids has a row of zeros \(row 1\)"),
        ([1, 2], np.eye(2), r"centroids has shape \(2,\); it must be a matrix"),
        (np.eye(2), np.empty((0, 2)), r"basis has shape \(0, 2\)"),
    ],
)
def test_recovery_errors(centroids, basis, message):
    with pytest.raises(ValueError, match=message):
        recovery_distance(centroids, basis)


def amari_loop(W, A):
    P, n = W @ A, len(W)
    total = 0.0
    for i in range(n):
        row, column = [abs(P[i, j]) for j in range(n)], [abs(P[j, i]) for j in range(n)]
        total += sum(row) / max(row) - 1 + sum(column) / max(column) - 1
    return total / (2 * n * (n - 1))


@pytest.mark.parametrize(("n", "d"), [(2, 2), (5, 5), (3, 7)])
def test_amari_against_a_loop(n, d, rng):
    W, A = rng.standard_normal((n, d)), rng.standard_normal((d, n))
    assert amari_distance(W, A) == pytest.approx(amari_loop(W, A))
    assert 0 < amari_distance(W, A) < 1


@given(seed=st.integers(0, 2**32), n=st.integers(1, 6))
def test_amari_is_zero_for_a_scaled_permutation_only(seed, n):
    rng = np.random.default_rng(seed)
    A = np.linalg.qr(rng.standard_normal((n, n)))[0] * rng.uniform(0.5, 2, size=n)
    W = rng.permutation(np.linalg.inv(A)) * rng.uniform(-3, -0.1, size=(n, 1))
    assert amari_distance(W, A) < 1e-12
    if n > 1:
        leak = np.eye(n)
        leak[0, 1] = 0.1
        # One of n rows and one of n columns has 0.1 of another.
        assert amari_distance(leak @ np.linalg.inv(A), A) == pytest.approx(0.1 / (n * (n - 1)))


def test_amari_of_equal_entries_is_one():
    hadamard = np.array([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]])
    assert amari_distance(hadamard, np.eye(4)) == 1


@pytest.mark.parametrize(
    ("W", "A", "message"),
    [
        (np.eye(2), np.eye(3), r"W has shape \(2, 2\) and A has shape \(3, 3\)"),
        (np.ones((2, 3)), np.ones((3, 3)), "a row, and A a column, for each source"),
        ([[1, 0], [0, 0]], np.eye(2), "a row or a column of zeros.*must be invertible"),
        (np.eye(2), [[1, np.nan], [0, 1]], "A contains NaN"),
        ([1.0, 2.0], np.eye(2), r"W has shape \(2,\)"),
    ],
)
def test_amari_errors(W, A, message):
    with pytest.raises(ValueError, match=message):
        amari_distance(W, A)
