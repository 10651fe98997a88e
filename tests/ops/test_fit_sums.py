"""How well centres fit: the loss of every rule against its definition, also where it is small."""

import numpy as np
import pytest
import scipy.sparse as sp

from clusterica.arrays import to_host
from clusterica.ops.assign import fit_sums, lloyd_sums, row_losses
from clusterica.ops.linalg import unit_rows
from clusterica.ops.rules import AXIS, DIRECTION, EUCLIDEAN, GAIN_SHAPE, RULES

every_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)


def problem(rule, dtype="float64", n_features=4):
    rng = np.random.default_rng(0)
    X, C = rng.laplace(size=(50, n_features)), rng.standard_normal((6, n_features))
    X[[3, 7]] = 0
    C = unit_rows(C) if rule.unit_centers else C
    return X.astype(dtype), C.astype(dtype), rng.integers(0, 4, size=50).astype(dtype)


def objective(X, C, weights, rule):
    """Return the loss from its definition, row by row; under AXIS the gain."""
    total = 0.0
    for x, w in zip(X.astype(np.float64), weights, strict=True):
        length = np.linalg.norm(x)
        loss = {
            EUCLIDEAN: min(((x - c) ** 2).sum() for c in C),
            GAIN_SHAPE: min(((x - (c @ x) * c) ** 2).sum() for c in C),
            DIRECTION: 1 - max(C @ x) / length if length > 0 else 0.0,
            AXIS: max(abs(C @ x)),
        }
        total += w * loss[rule]
    return total


@every_rule
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n_features", [4, 70])
def test_dense_blocks(put, rule, dtype, n_features):
    X, C, weights = problem(rule, dtype, n_features)
    labels, found = fit_sums(put(X), put(C), None, put(weights), rule=rule)
    expected_labels, total = lloyd_sums(put(X), put(C), None, put(weights), rule=rule)
    np.testing.assert_array_equal(to_host(labels), to_host(expected_labels))
    np.testing.assert_allclose(to_host(found.counts), to_host(total.counts))
    np.testing.assert_allclose(float(found.objective), objective(X, C, weights, rule), rtol=1e-5)


@every_rule
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("container", [sp.csr_array, sp.csr_matrix])
def test_csr_blocks(rule, dtype, container):
    X, C, weights = problem(rule, dtype)
    labels, found = fit_sums(container(X), C, None, weights, rule=rule)
    expected_labels, total = lloyd_sums(X, C, None, weights, rule=rule)
    np.testing.assert_array_equal(labels, expected_labels)
    np.testing.assert_allclose(found.counts, total.counts)
    np.testing.assert_allclose(found.objective, objective(X, C, weights, rule), rtol=1e-5)


@every_rule
def test_losses_of_rows(put, rule):
    X, C, _ = problem(rule)
    one = np.ones(1)
    expected = np.array([objective(x[None], C, one, rule) for x in X])
    if rule is AXIS:
        expected = np.linalg.norm(X, axis=1) - expected
    np.testing.assert_allclose(to_host(row_losses(put(X), put(C), None, rule=rule)), expected)
    np.testing.assert_allclose(row_losses(sp.csr_array(X), C, None, rule=rule), expected)


@every_rule
def test_a_shift_is_taken_from_the_rows(put, rule):
    X, C, weights = problem(rule)
    shift = np.array([100.0, -50.0, 7.0, 0.0])
    labels, found = fit_sums(put(X + shift), put(C), put(shift), put(weights), rule=rule)
    plain_labels, plain = fit_sums(put(X), put(C), None, put(weights), rule=rule)
    np.testing.assert_array_equal(to_host(labels), to_host(plain_labels))
    np.testing.assert_allclose(float(found.objective), float(plain.objective), rtol=1e-9)


@pytest.mark.parametrize("rule", [EUCLIDEAN, GAIN_SHAPE, DIRECTION], ids=lambda rule: rule.name)
def test_small_losses_keep_their_digits_in_float32(put, rng, rule):
    """Rows a ten-thousandth of their length away from the centres."""
    C = unit_rows(rng.standard_normal((3, 5))).astype(np.float32)
    X = C[rng.integers(0, 3, size=200)] + 1e-4 * rng.standard_normal((200, 5)).astype(np.float32)
    weights = np.ones(200, np.float32)
    found = fit_sums(put(X), put(C), None, put(weights), rule=rule)[1].objective
    exact = fit_sums(*(a.astype(np.float64) for a in (X, C)), None, weights, rule=rule)[1].objective
    assert float(found) == pytest.approx(float(exact), rel=2e-3)


@every_rule
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_no_rows(rule, make):
    _, C, _ = problem(rule)
    labels, found = fit_sums(make(np.empty((0, 4))), C, None, np.empty(0), rule=rule)
    assert labels.shape == (0,)
    assert found.objective == 0
    assert not found.counts.any()
    assert found.counts.shape == ((12,) if rule is AXIS else (6,))
