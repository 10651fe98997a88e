"""What the tests of the heads share: collinear data with classes, and minima found in another way."""

from typing import NamedTuple

import numpy as np
import pytest


class Data(NamedTuple):
    X: np.ndarray
    y: np.ndarray


def collinear(rng, n, d, n_classes, condition=1e3):
    """Rows with a falling spectrum, as pooled features have, away from zero, in overlapping classes."""
    Q, _ = np.linalg.qr(rng.normal(size=(d, d)))
    Z = rng.normal(size=(n, d)) * np.geomspace(1, condition**-0.5, d)
    y = (Z[:, :n_classes] + 0.5 * rng.normal(size=(n, n_classes))).argmax(axis=1)
    return Data(Z @ Q + rng.uniform(1, 3, size=d), y)


@pytest.fixture
def tall(monkeypatch):
    """More rows than features, 400 x 30 in 4 classes, to be solved as if they were many."""
    monkeypatch.setattr("clusterica.linear._base._FEW_ROWS", 0)
    return collinear(np.random.default_rng(7), 400, 30, 4)


@pytest.fixture
def wide():
    """Fewer rows than features: 60 x 90, 3 classes."""
    return collinear(np.random.default_rng(8), 60, 90, 3)


def _standardised(X, weights=None):
    mean = np.average(X, axis=0, weights=weights)
    scale = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=weights))
    return (X - mean) / np.where(scale > 0, scale, 1)


def _objective(Z, t, w, b, C, weights=None):
    r = np.clip(1 - t * (Z @ w + b), 0, None)
    return w @ w / 2 + C * (r**2).sum() if weights is None else w @ w / 2 + C * weights @ r**2


def _newton(Z, t, C, weights=None, intercept=True):
    """Minimise 0.5 |w|² + C sum r² over w and b by Newton's method in float64, halving steps."""
    n, d = Z.shape
    s = np.ones(n) if weights is None else weights
    F = np.hstack([Z, np.full((n, 1), float(intercept))])
    penalty = np.append(np.ones(d), 0.0)
    p = np.zeros(d + 1)

    def value(p):
        r = np.clip(1 - t * (F @ p), 0, None)
        return (penalty * p**2).sum() / 2 + C * (s * r**2).sum()

    for _ in range(100):
        r = np.clip(1 - t * (F @ p), 0, None)
        gradient = penalty * p - 2 * C * F.T @ (s * t * r)
        hessian = np.diag(penalty + 1e-14) + 2 * C * (F * (s * (r > 0))[:, None]).T @ F
        move = np.linalg.solve(hessian, -gradient)
        while value(p + move) > value(p) and np.abs(move).max() > 1e-14:
            move /= 2
        p = p + move
        if np.abs(gradient).max() < 1e-12 * C * s.sum():
            break
    return p[:-1], p[-1]


@pytest.fixture
def standardised():
    """From rows (and weights) to rows of mean 0 and deviation 1."""
    return _standardised


@pytest.fixture
def objective():
    """From standardised rows, signs, w, b and C (and weights) to the objective of the machine."""
    return _objective


@pytest.fixture
def newton():
    """From standardised rows, signs and C (and weights) to w and b at the minimum, in float64."""
    return _newton
