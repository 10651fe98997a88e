"""The eight encoders against loops: codes where they are unique, objectives where solvers stop early."""

import numpy as np
import reference
from cases import assert_close, clearly, compared, host, tables, working
from hypothesis import assume
from hypothesis import strategies as st

from clusterica.encoders import (
    HardEncoder,
    KernelSparseEncoder,
    LLCEncoder,
    OMPEncoder,
    SigmoidEncoder,
    SoftThresholdEncoder,
    SparseEncoder,
    TriangleEncoder,
)

seeds = st.integers(0, 2**32 - 1)


def dictionary(table, seed, n_atoms=6):
    """Atoms of about the size of the rows, in the dtype that the estimator works in."""
    rng = np.random.default_rng(seed)
    D = rng.normal(size=(n_atoms, table.d)) * max(np.abs(table.X).max(), 1e-3) / 2
    return D.astype(working(table.dtype)).astype(np.float64)


def encoded(model, table):
    codes = model.fit(table.rows).transform(table.rows)
    return host(codes)


def sizes(table, D):
    """Largest length of a row times that of an atom, and their squares."""
    x, d = (np.sqrt((A**2).sum(axis=1)).max() for A in (table.X, D))
    return x * d, (x + d) ** 2


@compared(tables(), seeds)
def test_hard(table, seed):
    D = dictionary(table, seed)
    codes = encoded(HardEncoder(D), table)
    far = reference.squared_distances(table.X, D)
    assert ((codes == 0) | (codes == 1)).all()
    assert (codes.sum(axis=1) == 1).all()
    chosen = (far * codes).sum(axis=1)
    assert (chosen - far.min(axis=1) <= table.rounding(table.d, sizes(table, D)[1])).all()


@compared(tables(), seeds)
def test_triangle(table, seed):
    D = dictionary(table, seed)
    # A root of a squared distance off by e is off by √e at most; the mean of roots as well.
    error = 2 * np.sqrt(table.rounding(table.d, sizes(table, D)[1]))
    far = np.sqrt(reference.squared_distances(table.X, D))
    apart = np.minimum(error, error**2 / np.maximum(far, 1e-300))
    expected = reference.triangle(table.X, D)
    assert_close(
        encoded(TriangleEncoder(D), table), expected, apart + apart.mean(axis=1)[:, None], "codes"
    )


@compared(tables(), seeds, st.sampled_from([0.0, 0.25, 2.0]), st.booleans())
def test_soft_threshold(table, seed, alpha, two_sided):
    D = dictionary(table, seed)
    S = table.X @ D.T
    expected = np.maximum(0, S - alpha)
    if two_sided:
        expected = np.concatenate([expected, np.maximum(0, -S - alpha)], axis=1)
    error = table.rounding(table.d, sizes(table, D)[0] + alpha)
    codes = encoded(SoftThresholdEncoder(D, alpha=alpha, two_sided=two_sided), table)
    assert_close(codes, expected, error, "codes")


@compared(tables(), seeds, st.sampled_from([-1.0, 0.0, 3.0]))
def test_sigmoid(table, seed, bias):
    D = dictionary(table, seed)
    expected = 0.5 + 0.5 * np.tanh((table.X @ D.T - bias) / 2)
    # Its slope is at most a quarter.
    error = table.rounding(table.d, 1 + (sizes(table, D)[0] + abs(bias)) / 4)
    assert_close(encoded(SigmoidEncoder(D, bias=bias), table), expected, error, "codes")


@compared(tables(max_rows=10), seeds, st.integers(1, 4))
def test_llc(table, seed, k):
    D, ridge = dictionary(table, seed), 0.01
    codes = encoded(LLCEncoder(D, n_neighbors=k, ridge=ridge), table)
    square = sizes(table, D)[1]
    for i, x in enumerate(table.X):
        expected, margin = reference.llc(x, D, k, ridge)
        clearly(margin, table.rounding(table.d, square))
        near = np.flatnonzero(expected)
        trace = ((D[near] - x) ** 2).sum()
        assume(trace > 1e-3 * square)
        # C is off by ε square, and its condition is at most 1 / ridge + 1; weights sum to one.
        error = table.rounding(table.d + k, square / trace) * (1 / ridge + 1)
        assume(error < 0.1)
        assert_close(codes[i], expected, 2 * k * error * (1 + np.abs(expected).max()), f"row {i}")


@compared(tables(max_rows=10, min_rows=1), seeds, st.integers(1, 3), st.booleans())
def test_omp(table, seed, n_nonzero, split):
    D = dictionary(table, seed)
    codes = encoded(OMPEncoder(D, n_nonzero=n_nonzero, split_signs=split), table)
    if split:
        assert (codes >= 0).all()
        codes = codes[:, : len(D)] - codes[:, len(D) :]
    for i, x in enumerate(table.X):
        length = np.sqrt((x**2).sum())
        error = table.rounding(table.d + 8, length)
        expected, margins, chosen = reference.omp(x, D, n_nonzero, 300 * table.eps * length)
        clearly(margins, 100 * error)
        if not chosen:
            assert not codes[i].any()
            continue
        unit = reference.units(D)[chosen]
        least = np.linalg.eigvalsh(unit @ unit.T)[0]
        assume(least > 1e-2 and len(chosen) == min(n_nonzero, table.d))
        lengths = np.sqrt((D**2).sum(axis=1))
        assert_close(codes[i], expected, 20 * error / least**2 / lengths, f"row {i}")


@compared(tables(max_rows=6), seeds, st.sampled_from([0.05, 0.3, 0.9]), st.booleans())
def test_sparse(table, seed, share, split):
    D, tol = dictionary(table, seed), 1e-5
    largest = np.abs(table.X @ D.T).max()
    assume(largest > 0)
    alpha = float(share * largest)
    codes = encoded(SparseEncoder(D, alpha=alpha, split_signs=split, tol=tol), table)
    if split:
        assert (codes >= 0).all()
        codes = codes[:, : len(D)] - codes[:, len(D) :]
    G = D @ D.T
    for s, x in zip(codes, table.X, strict=True):
        b, energy = D @ x, x @ x
        best = reference.lasso(b, energy, G, alpha)
        value = reference.lasso_value(s, b, energy, G, alpha)
        # The stated gap, what rounding leaves of it (documented at the solver), and that of the objective.
        rounding = 64 * table.eps * np.abs(b).max() * np.abs(s).sum()
        assert value - best <= tol * energy / 2 + rounding + table.rounding(table.d, energy)


@compared(tables(max_rows=6, far=False), seeds, st.sampled_from([0.02, 0.2, 1.0]), st.booleans())
def test_kernel_sparse(table, seed, sparsity, normalize):
    gamma, tol = 0.5, 1e-4
    assume(table.d > 1 or not normalize)  # nothing but a sign would be left
    X = reference.units(table.X) if normalize else table.X
    assume(np.abs(X).max() < 10)
    rng = np.random.default_rng(seed)
    W = (rng.normal(size=(6, table.d))).astype(working(table.dtype)).astype(np.float64)
    model = KernelSparseEncoder(
        W, gamma=gamma, sparsity=sparsity, normalize=normalize, split_signs=False, tol=tol
    )
    codes = encoded(model, table)
    G, B = reference.rbf(W, W, gamma), reference.rbf(X, W, gamma)
    size = 1 + gamma * ((np.abs(X).max() + np.abs(W).max()) ** 2) * table.d
    for s, b in zip(codes, B, strict=True):
        best = reference.lasso(b, 1.0, G, sparsity / 2)
        value = reference.lasso_value(s, b, 1.0, G, sparsity / 2)
        # Products off by e change the objective of codes s by e (|s|_1 + |s|_1²).
        length = np.abs(s).sum()
        rounding = table.rounding(table.d, size) * (1 + length + length**2)
        assert value - best <= tol / 2 + 4 * rounding
