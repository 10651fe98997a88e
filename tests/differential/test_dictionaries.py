"""Dictionaries, the auto-encoder and the Boltzmann machine: objectives and codes against loops."""

import numpy as np
import reference
from cases import assert_close, compared, host, tables
from hypothesis import assume
from hypothesis import strategies as st

from clusterica.dictionaries import (
    KSVD,
    DiscriminativeKSVD,
    KernelSparseCoding,
    LabelConsistentKSVD,
    SparseAutoencoder,
    SparseCoding,
    SparseRBM,
)

seeds = st.integers(0, 2**31)
some_rows = tables(min_rows=8, max_rows=16, max_columns=4, far=False)


def unit_size(table):
    """Scale the rows to a largest entry of one, and leave rows out that hardly differ."""
    largest = np.abs(table.X).max()
    assume(largest > 0 and np.dtype(table.dtype).kind == "f")
    table.X = (table.X / largest).astype(table.dtype).astype(np.float64)
    assume(len(np.unique(table.X[(table.X != 0).any(axis=1)], axis=0)) > 5)


def check_atoms(table, D):
    lengths = np.sqrt((D**2).sum(axis=1))
    assert_close(lengths, np.ones(len(D)), table.rounding(table.d, 1), "lengths of atoms")


@compared(some_rows, st.sampled_from([0.02, 0.2]), st.sampled_from([None, 5]), seeds, share=0.5)
def test_sparse_coding(table, alpha, batch_size, seed):
    unit_size(table)
    model = SparseCoding(3, alpha=alpha, batch_size=batch_size, max_iter=5, random_state=seed)
    model.fit(table.rows)
    D, S = host(model.components_), host(model.transform(table.rows))
    check_atoms(table, D)
    G, total = D @ D.T, 0.0
    for x, s in zip(table.X, S, strict=True):
        best = reference.lasso(D @ x, x @ x, G, alpha)
        value = reference.lasso_value(s, D @ x, x @ x, G, alpha)
        rounding = 64 * table.eps * np.abs(D @ x).max() * np.abs(s).sum()
        # transform stops at a relative gap of 1e-5.
        assert value - best <= 1e-5 * (x @ x) / 2 + rounding + table.rounding(table.d, x @ x)
        total += best / table.n
    history = host(model.objective_history_)
    if batch_size is None:
        # The objective is that of the codes of the pass: at least the best, and within their gap.
        size = (table.X**2).sum(axis=1).mean()
        slack = 1e-3 * size / 2 + table.rounding(table.n, size)
        assert_close(history[-1], total, slack, "objective")
        assert (np.diff(history) <= slack).all()


@compared(some_rows, st.integers(1, 2), seeds, share=0.5)
def test_ksvd(table, k, seed):
    unit_size(table)
    model = KSVD(3, n_nonzero=k, max_iter=5, random_state=seed).fit(table.rows)
    D, S = host(model.components_), host(model.transform(table.rows))
    check_atoms(table, D)
    check_pursuit(table, D, S, k)
    errors = 0.5 * ((table.X - S @ D) ** 2).sum(axis=1)
    size = (table.X**2).sum(axis=1).max()
    error = table.rounding(table.n + table.d, size * (1 + np.abs(S).max()))
    assert_close(host(model.objective_history_)[-1], errors.mean(), error, "objective")


def check_pursuit(table, D, S, k):
    """Codes of at most k atoms fit the row by least squares, no worse than the best single atom."""
    assert ((S != 0).sum(axis=1) <= k).all()
    for x, s in zip(table.X, S, strict=True):
        used = np.flatnonzero(s)
        rest = x - s @ D
        size = np.sqrt(x @ x) + np.abs(s).sum()
        assert (np.abs(D[used] @ rest) <= 4 * table.rounding(table.d + 64, size)).all()
        first = np.abs(D @ x).max()
        assert rest @ rest <= x @ x - first**2 + 4 * table.rounding(table.d + 64, size**2)


@compared(some_rows, st.booleans(), seeds, share=0.5)
def test_ksvd_classifiers(table, label_consistent, seed):
    unit_size(table)
    y = np.random.default_rng(seed).permutation(np.arange(table.n) % 2)
    kind = LabelConsistentKSVD if label_consistent else DiscriminativeKSVD
    model = kind(2, n_nonzero=1, max_iter=3, random_state=seed).fit(table.rows, y)
    D, W, S = (host(a) for a in (model.components_, model.coef_, model.transform(table.rows)))
    check_atoms(table, D)
    check_pursuit(table, D, S, 1)
    scores = S @ W.T
    error = table.rounding(len(D) + table.d, np.abs(W).max() * np.abs(S).sum(axis=1).max())
    # Codes come once more for the scores; ties between atoms can't change in one library.
    found = model.decision_function(table.rows)
    assert_close(found, scores[:, 1] - scores[:, 0], 4 * error, "decision_function")
    labels = host(model.predict(table.rows))
    clear = np.abs(scores[:, 1] - scores[:, 0]) > 4 * error
    np.testing.assert_array_equal(labels[clear], (scores[:, 1] > scores[:, 0])[clear].astype(int))


@compared(some_rows, st.sampled_from([0.05, 0.3]), seeds, share=0.5)
def test_kernel_sparse_coding(table, sparsity, seed):
    unit_size(table)
    model = KernelSparseCoding(
        3, gamma=1.0, sparsity=sparsity, normalize=False, max_iter=5, random_state=seed
    ).fit(table.rows)
    W, S = host(model.components_), host(model.transform(table.rows))
    G, B = reference.rbf(W, W, 1.0), reference.rbf(table.X, W, 1.0)
    size = 1 + 4 * max(np.abs(W).max(), 1) ** 2 * table.d
    total = 0.0
    for b, s in zip(B, S, strict=True):
        # The objective without ½: twice the lasso of λ / 2.
        best = 2 * reference.lasso(b, 1.0, G, sparsity / 2)
        value = 2 * reference.lasso_value(s, b, 1.0, G, sparsity / 2)
        length = np.abs(s).sum()
        assert value - best <= 1e-3 + 8 * table.rounding(table.d, size) * (1 + length + length**2)
        total += best / table.n
    history = host(model.objective_history_)
    slack = (
        1e-3 + 8 * table.rounding(table.d + table.n, size) * (2 + np.abs(S).sum(axis=1).max()) ** 2
    )
    assert_close(history[-1], total, slack, "objective")
    assert (np.diff(history) <= slack).all()


@compared(some_rows, seeds, share=0.5)
def test_sparse_autoencoder(table, seed):
    unit_size(table)
    model = SparseAutoencoder(3, target=0.1, sparsity=2.0, max_iter=10, random_state=seed)
    model.fit(table.rows)
    W, b, a = (host(v) for v in (model.components_, model.intercept_, model.decoder_intercept_))
    value, error, H = reference.autoencoder(table.X, (W, b, a), 0.1, 2.0, 0.01)
    size = np.abs(W).sum(axis=1).max() + np.abs(b).max()
    apart = table.rounding(table.d + 3, 1 + size)
    assert_close(model.transform(table.rows), H, apart, "transform")
    # The divergence has the slope β ρ / mean: small means lose digits.
    of_value = (
        table.rounding(table.n + table.d, (1 + size) ** 2)
        + 2.0 * apart * (1 / H.mean(axis=0)).sum()
    )
    assert_close(model.objective_history_[-1], value, 4 * of_value, "objective")
    assert_close(model.reconstruction_error_, error, 4 * of_value, "reconstruction_error_")
    assert_close(model.activity_, H.mean(axis=0), apart, "activity_")
    assert (np.diff(model.objective_history_) <= 4 * of_value).all()


@compared(some_rows, seeds, share=0.5)
def test_sparse_rbm(table, seed):
    unit_size(table)
    model = SparseRBM(3, sigma=0.5, max_iter=2, batch_size=4, random_state=seed).fit(table.rows)
    W, b = host(model.components_), host(model.intercept_)
    H = 1 / (1 + np.exp(-(table.X @ W.T + b) / 0.25))
    size = (np.abs(W).sum(axis=1).max() + np.abs(b).max()) / 0.25
    assert_close(model.transform(table.rows), H, table.rounding(table.d, 1 + size), "transform")
