"""Sums of sparse codes and the update of atoms, against plain NumPy."""

import numpy as np
import pytest

from clusterica.arrays import to_host
from clusterica.ops.code import gram_and_curvature, lasso, omp, unit_atoms
from clusterica.ops.dictionary import (
    CodeSums,
    Pursuit,
    code_sums,
    coding_error,
    lasso_sums,
    renew_atoms,
)


def unit(D):
    return D / np.linalg.norm(D, axis=1, keepdims=True)


@pytest.fixture
def problem():
    rng = np.random.default_rng()
    S = rng.normal(size=(60, 9)) * (rng.random((60, 9)) < 0.3)
    return rng.normal(size=(60, 5)), S, unit(rng.normal(size=(9, 5)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums(put, problem, dtype):
    X, S, D = problem
    X, S = X.astype(dtype), S.astype(dtype)
    sums = CodeSums(*map(to_host, code_sums(put(X), put(S), put(np.zeros(())))))
    tolerance = {"rtol": 1e-4, "atol": 1e-4}
    np.testing.assert_allclose(sums.products, S.T @ S, **tolerance)
    np.testing.assert_allclose(sums.moments, S.T @ X, **tolerance)
    np.testing.assert_array_equal(sums.uses, (S != 0).sum(axis=0))
    np.testing.assert_allclose(sums.length, np.abs(S).sum(), **tolerance)
    np.testing.assert_allclose(coding_error(sums, D), ((X - S @ D) ** 2).sum(), rtol=1e-4)


def test_sums_of_the_lasso_are_those_of_its_codes(put, problem):
    X, _, D = problem
    settings = {"alpha": 0.3, "max_iter": 1000, "tol": 1e-9}
    S = lasso(X, D, *gram_and_curvature(D), **settings).codes
    sums = lasso_sums(put(X), put(D), *gram_and_curvature(put(D)), **settings)
    np.testing.assert_allclose(to_host(sums.products), S.T @ S, atol=1e-3)
    np.testing.assert_allclose(to_host(sums.moments), S.T @ X, atol=1e-3)
    assert float(sums.unsolved) == 0
    few = lasso_sums(put(X), put(D), *gram_and_curvature(put(D)), **{**settings, "max_iter": 1})
    assert float(few.unsolved) > 0


def test_targets_stand_beside_the_features(put, problem):
    X, _, _ = problem
    rng = np.random.default_rng()
    targets, labels = rng.normal(size=(3, 2)), rng.integers(3, size=60)
    D = unit(rng.normal(size=(9, 7)))
    prepared = [put(a) for a in unit_atoms(D)]
    sums = Pursuit(2).sums(put(X), *prepared, put(targets), put(labels))
    Z = np.hstack([X, targets[labels]])
    S = omp(Z, *unit_atoms(D), n_nonzero=2)
    np.testing.assert_allclose(to_host(sums.moments), S.T @ Z, atol=1e-8)
    np.testing.assert_allclose(float(sums.energy), (Z**2).sum())


def test_targets_are_summed_by_codes_of_the_features_alone(put, problem):
    X, _, D = problem
    targets, labels = np.eye(3), np.random.default_rng().integers(3, size=60)
    prepared = [put(a) for a in unit_atoms(D)]
    sums = Pursuit(2).sums(put(X), *prepared, put(targets), put(labels))
    S = omp(X, *unit_atoms(D), n_nonzero=2)
    np.testing.assert_allclose(to_host(sums.moments)[:, 5:], S.T @ targets[labels], atol=1e-8)
    W = np.random.default_rng().normal(size=(3, 9))
    np.testing.assert_allclose(
        to_host(Pursuit(2).scores(put(X), *prepared, put(W))), S @ W.T, atol=1e-8
    )
    names = to_host(Pursuit(2).classes(put(X), *prepared, put(W), put(np.array([5, 6, 7]))))
    np.testing.assert_array_equal(names, 5 + (S @ W.T).argmax(axis=1))


@pytest.mark.parametrize("n_atoms", [9, 150])
def test_atoms_one_after_the_other(n_atoms):
    """150 are more than one group; the loop is algorithm 2 of Mairal et al."""
    rng = np.random.default_rng()
    S = rng.normal(size=(400, n_atoms)) * (rng.random((400, n_atoms)) < 0.1)
    S[:, 3] = 0
    X, D = rng.normal(size=(400, 5)), unit(rng.normal(size=(n_atoms, 5)))
    A, B, expected = S.T @ S, S.T @ X, D.copy()
    for _ in range(2):
        for j in range(n_atoms):
            if A[j, j] > 0:
                u = (B[j] - A[j] @ expected) / A[j, j] + expected[j]
                expected[j] = u / np.linalg.norm(u)
    found = renew_atoms(D, A, B, max_sweeps=2)
    np.testing.assert_allclose(found, expected, atol=1e-10)
    np.testing.assert_array_equal(found[3], D[3])
    assert ((X - S @ found) ** 2).sum() < ((X - S @ D) ** 2).sum()


@pytest.mark.parametrize("size", [2.0**-460, 2.0**-300, 2.0**300, 2.0**495])
def test_units_of_the_rows_change_no_digit_of_the_atoms(problem, size):
    """Squares of the sums are fourth powers of the rows: they overflowed from 1e77 on, or vanished."""
    X, S, D = problem
    expected = renew_atoms(D, S.T @ S, S.T @ X)
    X, S = size * X, size * S
    np.testing.assert_array_equal(renew_atoms(D, S.T @ S, S.T @ X), expected)
