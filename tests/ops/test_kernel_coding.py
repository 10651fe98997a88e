"""Kernel sparse codes: the lasso from products, the objective against its formula, and its gradient."""

import numpy as np
import pytest
from sklearn.decomposition import sparse_encode

from clusterica.arrays import to_host
from clusterica.kernels import (
    Gaussian,
    HistogramIntersection,
    InverseDistance,
    InverseSquareDistance,
    Linear,
    Normalized,
    Polynomial,
)
from clusterica.ops.kernel_coding import (
    basis_pull,
    coding_objective,
    coding_sums,
    kernel_codes,
)
from clusterica.ops.kernels import gram

KERNELS = [
    Gaussian(0.6),
    InverseDistance(),
    InverseSquareDistance(),
    Normalized(Polynomial()),
    Normalized(HistogramIntersection()),
    Polynomial(2),
    Linear(),
]
SETTINGS = {"sparsity": 0.2, "max_iter": 20_000, "tol": 1e-12}


@pytest.fixture
def data():
    """Twelve rows and five unit vectors; no two numbers are so near that differences meet a kink."""
    rng = np.random.default_rng()
    while True:
        X, W = rng.normal(size=(12, 3)), rng.normal(size=(5, 3))
        W /= np.linalg.norm(W, axis=1, keepdims=True)
        unit = X / np.linalg.norm(X, axis=1, keepdims=True)  # which sums may take in their place
        others = np.concatenate([X, unit, W])
        gaps = np.abs(others[:, None] - W)
        gaps[np.arange(24, 29), np.arange(5)] = 1  # of a vector and itself
        if gaps.min() > 1e-4:
            return X, W


def features(kernel, X, W):
    """Finite coordinates of the mapped rows and basis: a root of the Gram matrix of both."""
    values, vectors = np.linalg.eigh(gram(kernel, np.concatenate([X, W])))
    root = vectors * np.sqrt(np.maximum(values, 0))
    return root[: len(X)], root[len(X) :]


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_codes_are_those_of_the_lasso_of_mapped_rows(kernel, put, data):
    X, W = data
    F, D = features(kernel, X, W)
    alpha = 0.1 * float(np.abs(F @ D.T).max())  # λ / 2
    expected = sparse_encode(F, D, algorithm="lasso_lars", alpha=alpha, max_iter=1000)
    settings = SETTINGS | {"sparsity": 2 * alpha, "tol": 1e-9}
    G = gram(kernel, put(W))
    S, gaps = kernel_codes(put(X), put(W), G, kernel=kernel, **settings)
    assert float(to_host(gaps).max()) <= 1e-9
    np.testing.assert_allclose(to_host(S), expected, atol=1e-3 * np.abs(expected).max())


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_the_objective_is_its_formula(kernel, put, data):
    X, W = data
    F, D = features(kernel, X, W)
    S = np.random.default_rng().normal(size=(12, 5))
    expected = ((S @ D - F) ** 2).sum(axis=1) + 0.3 * np.abs(S).sum(axis=1)
    found = coding_objective(
        kernel(put(X), put(W)),
        gram(kernel, put(W)),
        put(S),
        kernel.diagonal(put(X)),
        sparsity=0.3,
    )
    np.testing.assert_allclose(to_host(found), expected, rtol=1e-6)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_explicit_codes_give_the_objective_of_kernel_rica(kernel, data):
    """Section 4.3: with s = k(W, x) and the L1 penalty, (8) is (5), here as (6) writes it out."""
    X, W = data
    K, G, energies = kernel(X, W), gram(kernel, W), kernel.diagonal(X)
    found = coding_objective(K, G, K, energies, sparsity=0.3)
    for i in range(len(X)):
        k = K[i]
        double_sum = sum(k[u] * G[u, v] * k[v] for u in range(5) for v in range(5))
        rica = energies[i] + double_sum - 2 * (k**2).sum() + 0.3 * np.abs(k).sum()
        assert found[i] == pytest.approx(rica)


def least(kernel, X, W, settings):
    G = gram(kernel, W)
    S = kernel_codes(X, W, G, kernel=kernel, **settings).codes
    objective = coding_objective(
        kernel(X, W), G, S, kernel.diagonal(X), sparsity=settings["sparsity"]
    )
    return objective.sum()


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("normalize", [False, True])
def test_the_gradient_by_the_basis_against_finite_differences(kernel, put, data, normalize):
    X, W = data
    rows = X / np.linalg.norm(X, axis=1, keepdims=True) if normalize else X
    G = gram(kernel, put(W))
    # Splitting, which stands for all devices, does not get as far as the compiled solver.
    exact = isinstance(put(W), np.ndarray)
    settings = SETTINGS | {"tol": 1e-14 if exact else 1e-10}
    sums = coding_sums(put(X), put(W), G, kernel=kernel, normalize=normalize, **settings)
    own = basis_pull(kernel, put(W), G, sums.products)
    found = to_host((sums.scale + own.scale)[:, None] * put(W) - sums.vector - own.vector)
    best = SETTINGS | {"tol": 1e-14}
    assert float(to_host(sums.objective)) == pytest.approx(least(kernel, rows, W, best), rel=1e-6)
    expected = np.empty_like(W)
    for at in np.ndindex(W.shape):
        move = np.zeros_like(W)
        move[at] = 1e-5
        difference = least(kernel, rows, W + move, best) - least(kernel, rows, W - move, best)
        expected[at] = difference / 2e-5
    tol = 1e-4 if exact else 1e-2
    np.testing.assert_allclose(found, expected, atol=tol * np.abs(expected).max())


def test_counts_of_rows_that_reach_and_rows_unsolved(put):
    W = np.array([[0.0, 0.0], [9.0, 9.0]])
    X = np.repeat([[0.1], [0.2], [2.2]], 2, axis=1)
    kernel = Gaussian(1.0)
    G = gram(kernel, put(W))
    sums = coding_sums(put(X), put(W), G, kernel=kernel, normalize=False, **SETTINGS)
    assert to_host(sums.reached).tolist() == [2, 0]  # exp(-2 · 2.2²) is 6e-5
    assert int(sums.unsolved) == 0
    rough = SETTINGS | {"max_iter": 1, "tol": 0.0, "sparsity": 1e-3}
    X, W = np.random.default_rng(0).normal(size=(2, 20, 2))
    G = gram(kernel, put(W))
    sums = coding_sums(put(X), put(W), G, kernel=kernel, normalize=False, **rough)
    assert int(sums.unsolved) > 0
