"""The lasso from products: both solvers, sparse and dense codes, atoms that are all alike, few steps."""

import numpy as np
import pytest
from sklearn.decomposition import sparse_encode

from clusterica import config_context
from clusterica.arrays import is_cpu_tensor, is_host_array, to_host
from clusterica.kernels import Gaussian
from clusterica.ops import gram_lasso
from clusterica.ops.cpu import lasso as cpu_lasso
from clusterica.ops.gram_lasso import lasso_of_gram, lasso_of_gram_reference


def problem(seed=None, n=40, k=9, d=4):
    rng = np.random.default_rng(seed)
    X, D = rng.normal(size=(n, d)), rng.normal(size=(k, d))
    return X, D, X @ D.T, (X**2).sum(axis=1), D @ D.T


def objective(S, B, G, alpha):
    return 0.5 * (S * (S @ G)).sum(axis=1) - (S * B).sum(axis=1) + alpha * np.abs(S).sum(axis=1)


@pytest.mark.parametrize("alpha", [0.05, 1.0])
@pytest.mark.parametrize("op", [lasso_of_gram, lasso_of_gram_reference])
def test_against_scikit_learn(put, alpha, op):
    X, D, B, energies, G = problem()
    expected = sparse_encode(X, D, algorithm="lasso_lars", alpha=alpha, max_iter=10_000)
    args = (put(a) for a in (B, energies, G))
    S, gaps = op(*args, alpha=alpha, max_iter=50_000, tol=1e-10)
    assert type(S) is type(put(B))
    # Splitting by itself has one weight for all rows, which a rare row is slow with.
    tol = 1e-10 if op is lasso_of_gram else 1e-5
    assert to_host(gaps).max() <= tol
    # The objective, not the codes: atoms that are almost alike may share a code in many ways.
    found, least = (objective(codes, B, G, alpha) for codes in (to_host(S), expected))
    rtol = 1e-6 if op is lasso_of_gram else 1e-4
    np.testing.assert_allclose(found, least, rtol=rtol, atol=1e-8)


def test_splitting_in_few_steps_where_atoms_are_alike(put):
    """Products of a wide kernel are all near one, which takes gradient steps thousands."""
    rng = np.random.default_rng(0)
    X, W = rng.normal(size=(60, 6)), rng.normal(size=(30, 6))
    kernel = Gaussian(0.02)
    B, G = (put(kernel(A, W).astype(np.float32)) for A in (X, W))
    energies = put(np.ones(60, np.float32))
    gaps = lasso_of_gram_reference(B, energies, G, alpha=0.01, max_iter=300, tol=1e-4).gaps
    assert to_host(gaps).max() <= 1e-4


def test_float32_is_enough_where_atoms_are_many_and_alike(put):
    """Of 400 atoms with products near 0.9 no digit is lost: rows end well before the last step."""
    rng = np.random.default_rng(0)
    X, W = (A / np.linalg.norm(A, axis=1, keepdims=True) for A in rng.normal(size=(2, 400, 100)))
    kernel = Gaussian(0.1)
    B, G = (put(kernel(A, W).astype(np.float32)) for A in (X, W))
    energies = put(np.ones(400, np.float32))
    S, gaps = lasso_of_gram_reference(B, energies, G, alpha=0.002, max_iter=300, tol=1e-5)
    assert to_host(gaps).max() <= 1e-5
    exact = kernel(X, W), np.ones(400), kernel(W, W)
    best = lasso_of_gram(*exact, alpha=0.002, max_iter=10_000, tol=1e-9).codes
    found, least = (objective(c, exact[0], exact[2], 0.002) for c in (to_host(S), best))
    assert (found - least).max() < 2e-5


def test_dense_codes_are_found_by_splitting_and_are_the_same(monkeypatch):
    rng = np.random.default_rng(0)
    X, W = rng.normal(size=(64, 30)), rng.normal(size=(120, 30))
    kernel = Gaussian(0.02)
    args = kernel(X, W), np.ones(64), kernel(W, W)
    settings = {"alpha": 1e-3, "max_iter": 2000, "tol": 1e-9}
    dense = lasso_of_gram(*args, **settings)
    assert gram_lasso._density(*args, 1e-3) > gram_lasso._MANY
    assert gram_lasso._density(*args, 0.1) < gram_lasso._MANY
    monkeypatch.setattr(gram_lasso, "_MANY", 1000)
    compiled = lasso_of_gram(*args, **settings)
    assert max(dense.gaps.max(), compiled.gaps.max()) <= 1e-9
    assert (compiled.codes != 0).sum(axis=1).mean() > 64
    np.testing.assert_allclose(dense.codes, compiled.codes, atol=1e-3)


def test_atoms_come_into_use_a_few_at_a_time():
    """All responses to a wide kernel are near the largest; the worst ten come first, then as many again."""
    q = np.linspace(0.9, 1.0, 500).astype(np.float32)
    s, active = np.zeros_like(q), np.zeros(500, np.int64)
    n = cpu_lasso._take_in(s, q, 0.05, 1.0, active, 0)
    assert 5 <= n <= 10
    assert set(active[:n]) == set(range(500 - n, 500))
    s[active[:n]] = 1.0
    many = np.zeros(500, np.int64)
    many[:40] = np.arange(40)
    s[:40] = 1.0
    assert 40 + 20 <= cpu_lasso._take_in(s, q, 0.05, 1.0, many, 40) <= 40 + 40


def test_atoms_that_are_the_same_come_into_use_together():
    s, q, active = np.zeros(50), np.full(50, 0.7), np.zeros(50, np.int64)
    assert cpu_lasso._take_in(s, q, 0.1, 0.7, active, 0) == 50


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(("alpha", "sparse"), [(0.4, True), (1e-3, False)])
@pytest.mark.parametrize("many_rows", [False, True])
def test_which_codes_of_a_device_come_from_splitting(
    put, monkeypatch, threads, alpha, sparse, many_rows
):
    rng = np.random.default_rng(0)
    X, W = rng.normal(size=(64, 30)), rng.normal(size=(120, 30))
    kernel = Gaussian(0.02)
    args = kernel(X, W), np.ones(64), kernel(W, W)
    calls = []
    monkeypatch.setattr(
        gram_lasso,
        "lasso_of_gram_reference",
        lambda *args, **settings: calls.append(1) or lasso_of_gram_reference(*args, **settings),
    )
    monkeypatch.setattr(gram_lasso, "_ENOUGH_FOR_DEVICE", 64 if many_rows else 65)
    settings = {"alpha": alpha, "max_iter": 2000, "tol": 1e-9}
    with config_context(threads=threads):
        S, gaps = lasso_of_gram(*(put(a) for a in args), **settings)
    assert type(S) is type(put(args[0]))
    on_device = not (is_host_array(S) or is_cpu_tensor(S))
    assert bool(calls) == (not sparse or (many_rows and on_device))
    assert to_host(gaps).max() <= 1e-9
    np.testing.assert_allclose(to_host(S), lasso_of_gram(*args, **settings).codes, atol=1e-3)


def test_splitting_may_leave_the_last_rows():
    rng = np.random.default_rng(0)
    X, W = rng.normal(size=(100, 30)), rng.normal(size=(60, 30))
    kernel = Gaussian(0.02)
    args = kernel(X, W), np.ones(100), kernel(W, W)
    settings = {"alpha": 0.01, "max_iter": 1000, "tol": 1e-7}
    every = lasso_of_gram_reference(*args, **settings)
    most = lasso_of_gram_reference(*args, **settings, leave=0.3)
    assert every.gaps.max() <= 1e-7
    assert 0 < (most.gaps > 1e-7).sum() <= 30
    done = most.gaps <= 1e-7
    np.testing.assert_allclose(most.codes[done], every.codes[done], atol=1e-3)


@pytest.mark.parametrize(("gamma", "alpha", "most"), [(1.0, 0.05, 70), (0.1, 0.05, 200)])
def test_the_weight_suits_wide_and_narrow_kernels(gamma, alpha, most):
    """A weight held to the size of an atom takes twice the steps where a kernel is narrow."""
    rng = np.random.default_rng(0)
    X, W = (rng.normal(size=(n, 30)) for n in (64, 400))
    X, W = (A / np.linalg.norm(A, axis=1, keepdims=True) for A in (X, W))
    kernel = Gaussian(gamma)
    args = kernel(X, W), np.ones(64), kernel(W, W)
    gaps = lasso_of_gram_reference(*args, alpha=alpha, max_iter=most, tol=1e-5).gaps
    assert gaps.max() <= 1e-5


@pytest.mark.parametrize(("n_atoms", "dense"), [(100, True), (800, False)])
def test_how_many_nonzeros_are_many_depends_on_the_atoms(n_atoms, dense):
    """40 to 70 of them, which splitting is the faster for with few atoms only."""
    rng = np.random.default_rng()
    X, W = (rng.normal(size=(n, 30)) for n in (128, n_atoms))
    X, W = (A / np.linalg.norm(A, axis=1, keepdims=True) for A in (X, W))
    kernel = Gaussian(0.2)
    density = gram_lasso._density(kernel(X, W), np.ones(128), kernel(W, W), 0.005)
    assert (density > gram_lasso._MANY) == dense


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_rows_whose_lengths_differ_by_decades(put, dtype):
    rng = np.random.default_rng()
    X, W = (rng.normal(size=(n, 10)) for n in (40, 30))
    X *= 10 ** rng.uniform(-2, 2, size=(40, 1))
    args = [a.astype(dtype) for a in (X @ W.T, (X**2).sum(axis=1), W @ W.T)]
    S, gaps = lasso_of_gram(*(put(a) for a in args), alpha=0.001, max_iter=1000, tol=1e-4)
    assert type(S) is type(gaps) is type(put(X))
    assert S.dtype == gaps.dtype == put(args[0]).dtype
    assert to_host(gaps).max() <= 1e-4
    B, energies, G = X @ W.T, (X**2).sum(axis=1), W @ W.T
    best = lasso_of_gram(B, energies, G, alpha=0.001, max_iter=10_000, tol=1e-9).codes
    excess = objective(to_host(S), B, G, 0.001) - objective(best, B, G, 0.001)
    assert (excess / energies).max() < 2e-4


def test_few_steps_give_codes_and_the_gap_that_is_left(put):
    _, _, B, energies, G = problem(seed=0)
    best = lasso_of_gram(B, energies, G, alpha=0.1, max_iter=10_000, tol=1e-12).codes
    args = (put(a) for a in (B, energies, G))
    S, gaps = lasso_of_gram_reference(*args, alpha=0.1, max_iter=12, tol=0.0)
    S, gaps = to_host(S), to_host(gaps)
    excess = objective(S, B, G, 0.1) - objective(best, B, G, 0.1)
    assert (excess <= gaps * energies / 2 + 1e-12).all()
    assert gaps.max() > 1e-9


def test_zeros(put):
    args = (put(a) for a in (np.zeros((3, 4)), np.zeros(3), np.zeros((4, 4))))
    S, gaps = lasso_of_gram_reference(*args, alpha=0.2, max_iter=20, tol=1e-9)
    assert not to_host(S).any()
    assert not to_host(gaps).any()
