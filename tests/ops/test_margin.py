"""Sums of margins against loops over single rows, and their gradients against finite differences."""

import numpy as np
import pytest

from clusterica.arrays import to_host
from clusterica.ops.cpu.margin import margin_sums as compiled_margin_sums
from clusterica.ops.margin import (
    decisions,
    feature_sums,
    margin_sums,
    predicted,
    products_with,
    squared_losses,
    weighted_rows,
    wide_feature_sums,
    winners,
)


@pytest.fixture
def block(rng):
    """Rows, classifiers of 3 classes, a point to shift by, codes and weights."""
    n, d, k = 40, 5, 3
    return {
        "X": rng.normal(size=(n, d)) + 2,
        "A": rng.normal(size=(k, d)),
        "c": rng.normal(size=k),
        "about": rng.normal(size=d),
        "targets": np.arange(k, dtype=np.int32),
        "codes": rng.integers(k, size=n).astype(np.int32),
        "weights": rng.uniform(size=n),
    }


def by_loop(b, hinge, shifted):
    loss, pull, lift = np.zeros(3), np.zeros((3, 5)), np.zeros(3)
    for x, code, weight in zip(b["X"], b["codes"], b["weights"], strict=True):
        x = x - b["about"] if shifted else x
        for k in range(3):
            t = 1 if code == k else -1
            r = 1 - t * (x @ b["A"][k] + b["c"][k])
            r = max(0, r) if hinge else r
            loss[k] += weight * r**2
            pull[k] += weight * t * r * x
            lift[k] += weight * t * r
    return loss, pull, lift


@pytest.mark.parametrize("hinge", [True, False])
@pytest.mark.parametrize("shifted", [True, False])
def test_margin_sums(put, block, hinge, shifted):
    placed = {name: put(value) for name, value in block.items()}
    placed["about"] = placed["about"] if shifted else None
    sums = margin_sums(**placed, hinge=hinge)
    for value, expected in zip(sums, by_loop(block, hinge, shifted), strict=True):
        np.testing.assert_allclose(to_host(value), expected, rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("hinge", [True, False])
@pytest.mark.parametrize("n_targets", [1, 2, 5])
@pytest.mark.parametrize("n", [1, 5, 6, 48, 49, 301])
def test_compiled_twin(rng, n, n_targets, hinge, dtype):
    """Whole tiles, parts of tiles, and an odd number of classifiers."""
    d = 37
    arguments = {
        "X": rng.normal(size=(n, d)).astype(dtype),
        "A": rng.normal(size=(n_targets, d)).astype(dtype) / 6,
        "c": rng.normal(size=n_targets).astype(dtype),
        "targets": rng.permutation(n_targets).astype(np.int32),
        "codes": rng.integers(n_targets, size=n).astype(np.int32),
        "weights": rng.uniform(size=n).astype(dtype),
    }
    sums = compiled_margin_sums(**arguments, hinge=hinge)
    expected = margin_sums(**arguments, about=None, hinge=hinge)
    for value, other in zip(sums, expected, strict=True):
        assert value.shape == other.shape
        np.testing.assert_allclose(
            value, other, rtol=1e-5, atol=1e-4 if dtype == np.float32 else 1e-11
        )


def test_compiled_twin_is_used_for_large_blocks(rng, monkeypatch):
    used = []

    def twin(X, A, *args, hinge):
        used.append(X.shape)
        return A, A, A

    monkeypatch.setattr("clusterica.ops.cpu.margin.margin_sums", twin)
    small, large = (rng.normal(size=(n, 64)) for n in (100, 5000))
    for X in (small, large):
        n = len(X)
        codes, weights = np.zeros(n, np.int32), np.ones(n)
        margin_sums(X, np.ones((1, 64)), np.zeros(1), None, np.ones(1), codes, weights, hinge=True)
    assert used == [(5000, 64)]


def test_margin_sums_by_hand():
    """Rows 0 and 2 on a line, classifier m = x: of class 1, residuals 1 and 0; of the other, 1 and 3."""
    X, one, zero = np.array([[0.0], [2.0]]), np.ones((1, 1)), np.zeros(1)
    target, equal = np.array([1]), np.ones(2)
    inside = margin_sums(X, one, zero, None, target, np.array([1, 1]), equal, hinge=True)
    assert [float(v.sum()) for v in inside] == [1, 0, 1]
    outside = margin_sums(X, one, zero, None, target, np.array([0, 0]), equal, hinge=True)
    assert [float(v.sum()) for v in outside] == [10, -6, -4]


@pytest.mark.parametrize("hinge", [True, False])
def test_pull_is_the_gradient(block, hinge):
    step, moves = 1e-6, np.eye(5)
    sums = margin_sums(**block, hinge=hinge)
    for j in range(5):
        up, down = (
            margin_sums(**(block | {"A": block["A"] + s * step * moves[j]}), hinge=hinge).loss
            for s in (1, -1)
        )
        # d/dw of sum s r² is -2 sum s t r x.
        np.testing.assert_allclose((up - down) / (2 * step), -2 * sums.pull[:, j], rtol=1e-4)
    up, down = (
        margin_sums(**(block | {"c": block["c"] + s * step}), hinge=hinge).loss for s in (1, -1)
    )
    np.testing.assert_allclose((up - down) / (2 * step), -2 * sums.lift, rtol=1e-4)


def test_feature_sums(put, block):
    X, a, w = block["X"], block["about"], block["weights"]
    sums = feature_sums(put(X), put(a), put(w))
    assert float(sums.weight) == pytest.approx(w.sum())
    expected = sum(wi * (x - a) for wi, x in zip(w, X, strict=True))
    np.testing.assert_allclose(to_host(sums.first), expected, rtol=1e-12)
    expected = sum(wi * (x - a) ** 2 for wi, x in zip(w, X, strict=True))
    np.testing.assert_allclose(to_host(sums.second), expected, rtol=1e-12)
    narrow = (put(1e-24 * array.astype(np.float32)) for array in (X, a))
    wide = wide_feature_sums(*narrow, put(w.astype(np.float32)))
    np.testing.assert_allclose(to_host(wide.second), 1e-48 * expected, rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_weighted_rows(put, block, rng, dtype):
    X, mean, weights = block["X"].astype(dtype), block["about"], 1e9 * rng.normal(size=(40, 3))
    (sums,) = weighted_rows(put(X), put(mean), put(weights))
    expected = sum(np.outer(w, x - mean) for w, x in zip(weights, X.astype(float), strict=True))
    np.testing.assert_allclose(to_host(sums), expected, rtol=1e-11)


@pytest.mark.parametrize("hinge", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_squared_losses(put, block, hinge, dtype):
    X, A, c = block["X"].astype(dtype), 1e6 * block["A"], block["c"]
    numbers = block["targets"], block["codes"], block["weights"]
    (loss,) = squared_losses(*(put(a) for a in (X, A, c, *numbers)), hinge=hinge)
    expected = margin_sums(X.astype(float), A, c, None, *numbers, hinge=hinge).loss
    np.testing.assert_allclose(to_host(loss), expected, rtol=1e-12)


def test_decisions_and_winners(put, block):
    scores = decisions(*(put(block[name]) for name in ("X", "A", "c", "about")))
    expected = (block["X"] - block["about"]) @ block["A"].T + block["c"]
    np.testing.assert_allclose(to_host(scores), expected, atol=1e-12)
    np.testing.assert_array_equal(to_host(winners(scores)), expected.argmax(axis=1))
    of_two = winners(put(np.array([[-1.0], [0.0], [2.0]])))
    np.testing.assert_array_equal(to_host(of_two), [0, 0, 1])


def test_products_with(put, block, rng):
    X, mean, scale = block["X"], block["about"], rng.uniform(1, 2, block["X"].shape[1])
    Z = rng.normal(size=(3, X.shape[1]))
    found = products_with(put(X.astype(np.float32)), put(mean), put(scale), put(Z))
    expected = [[((x - mean) / scale) @ z for z in Z] for x in X.astype(np.float32).astype(float)]
    np.testing.assert_allclose(to_host(found), expected, rtol=1e-9, atol=1e-12)


def test_predicted_classes(put, block):
    A, c = block["A"], block["c"]
    classes = np.array([7, 3, 9][: len(A)])
    found = predicted(put(block["X"]), put(A), put(c), None, put(classes))
    expected = classes[np.argmax(block["X"] @ A.T + c, axis=1)]
    np.testing.assert_array_equal(to_host(found), expected)
