"""Centroids folded into lines: pairs found among shuffled ones, copies and small clusters left out."""

import numpy as np
import pytest

from clusterica.ica.folding import fold, fold_overcomplete


def directions(rng, n, d):
    Q, _ = np.linalg.qr(rng.normal(size=(d, d)))
    return Q[:n]


def lines_match(found, truth, atol=1e-6):
    cosines = np.abs(found @ truth.T)
    np.testing.assert_allclose(cosines.max(axis=0), 1, atol=atol)
    np.testing.assert_allclose(cosines.max(axis=1), 1, atol=atol)


def test_shuffled_pairs_of_any_length_are_found(rng):
    Q = directions(rng, 6, 6)
    centroids = np.concatenate([Q, -Q]) * rng.uniform(0.5, 3, size=(12, 1))
    order = rng.permutation(12)
    found = fold(centroids[order], np.ones(12), 6)
    assert found.shape == (6, 6)
    lines_match(found, Q)


def test_a_pair_is_the_mean_direction_by_rows():
    found = fold(np.array([[1.0, 0.0], [-0.8, 0.6]]), np.array([3.0, 1.0]), 1)
    expected = 3 * np.array([1.0, 0.0]) + np.array([0.8, -0.6])
    np.testing.assert_allclose(found[0], expected / np.linalg.norm(expected))


def test_single_centroids_fill_up_the_lines(rng):
    """One source has two centroids on one side, another has only one centroid."""
    Q = directions(rng, 3, 3)
    near = Q[0] + 0.05 * Q[1]
    centroids = np.array([Q[0], near, -Q[0], Q[1], -Q[1], Q[2]])
    lines_match(fold(centroids, np.array([5.0, 9, 5, 5, 5, 1]), 3), Q, atol=0.01)


def test_copies_are_taken_where_there_is_nothing_else():
    centroids = np.array([[1.0, 0], [-1, 0], [1, 0.01], [-1, 0.01]])
    assert fold(centroids, np.ones(4), 2).shape == (2, 2)


def test_zero_centroids_are_left_out():
    found = fold(np.array([[0.0, 0], [0, 2], [0, -2], [0, 0]]), np.ones(4), 1)
    np.testing.assert_allclose(np.abs(found), [[0, 1]])


def test_overcomplete_copies_are_merged_and_small_lines_dropped(rng):
    angles = np.radians([0, 60, 120])
    truth = np.column_stack([np.cos(angles), np.sin(angles)])
    near = np.array([[np.cos(0.1), np.sin(0.1)]])  # a copy of the first
    centroids = np.concatenate([truth, -truth, near, -near, [[np.cos(0.5), np.sin(0.5)]]])
    counts = np.array([90.0, 90, 90, 90, 90, 90, 10, 10, 1])
    found = fold_overcomplete(centroids, counts, 4)
    assert found.shape == (3, 2)
    lines_match(found, truth, atol=1e-3)
    merged = 180 * truth[0] + 20 * near[0]
    assert np.abs(found @ merged / np.linalg.norm(merged)).max() == pytest.approx(1, abs=1e-12)


def test_overcomplete_lines_are_no_more_than_asked_for(rng):
    """Single centroids, however heavy, come after pairs."""
    angles = np.radians([0, 60, 120, 30, 90])
    U = np.column_stack([np.cos(angles), np.sin(angles)])
    centroids, counts = np.concatenate([U, -U[:3]]), np.array([5.0, 5, 5, 9, 8, 5, 5, 5])
    order = rng.permutation(8)
    for n_lines in (3, 4, 5):
        found = fold_overcomplete(centroids[order], counts[order], n_lines)
        lines_match(found, U[:n_lines])
