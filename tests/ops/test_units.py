"""Sums of auto-encoders and of contrastive divergence, against plain NumPy."""

import numpy as np
import pytest

from clusterica.arrays import to_host
from clusterica.ops.autoencoder import activations, autoencoder_sums
from clusterica.ops.rbm import divergence_sums


@pytest.fixture
def machine():
    rng = np.random.default_rng()
    X, W, U = (rng.normal(size=(n, 5)) for n in (40, 7, 7))
    return X, W, rng.normal(size=7), U, rng.normal(size=5)


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def test_activations(put, machine):
    X, W, b, _, _ = machine
    found = to_host(activations(put(X), put(W), put(b)))
    np.testing.assert_allclose(found, sigmoid(X @ W.T + b))
    assert np.isfinite(to_host(activations(put(1e4 * X), put(W), put(b)))).all()


def test_sums_of_the_auto_encoder(put, machine):
    X, W, b, U, a = machine
    sums = autoencoder_sums(*map(put, machine))
    expected = np.zeros((7, 5)), np.zeros(7), np.zeros((7, 5)), np.zeros(5)
    error, slopes = 0.0, np.zeros((7, 5))
    for x in X:
        h = sigmoid(W @ x + b)
        r = U.T @ h + a - x
        back = (U @ r) * h * (1 - h)
        error += 0.5 * r @ r
        slopes += np.outer(h * (1 - h), x)
        for total, part in zip(expected, (np.outer(back, x), back, np.outer(h, r), r), strict=True):
            total += part
    np.testing.assert_allclose(float(sums.error), error)
    for found, total in zip(sums[1:5], expected, strict=True):
        np.testing.assert_allclose(to_host(found), total, atol=1e-9)
    H = sigmoid(X @ W.T + b)
    np.testing.assert_allclose(to_host(sums.activity), H.sum(axis=0))
    np.testing.assert_allclose(to_host(sums.squares), (H**2).sum(axis=0))
    np.testing.assert_allclose(to_host(sums.slope), (H * (1 - H)).sum(axis=0))
    np.testing.assert_allclose(to_host(sums.slope_moments), slopes, atol=1e-9)


def test_contrastive_divergence(put, machine):
    X, W, b, _, a = machine
    draws = np.random.default_rng().random((40, 7))
    sums = divergence_sums(*map(put, (X, W, b, a, draws)), sigma=0.5)
    up = np.zeros((7, 5))
    error, bias = 0.0, np.zeros(7)
    for x, u in zip(X, draws, strict=True):
        h = sigmoid((W @ x + b) / 0.25)
        again = W.T @ (u < h) + a
        h_again = sigmoid((W @ again + b) / 0.25)
        up += np.outer(h, x) - np.outer(h_again, again)
        bias += h - h_again
        error += ((x - again) ** 2).sum()
    np.testing.assert_allclose(to_host(sums.W), up, atol=1e-9)
    np.testing.assert_allclose(to_host(sums.b), bias, atol=1e-9)
    np.testing.assert_allclose(float(sums.error), error)
