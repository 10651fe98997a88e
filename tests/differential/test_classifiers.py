"""Linear and kernel classifiers: the objective by a loop, its minimum by SciPy, closed forms."""

import numpy as np
import reference
from cases import assert_close, compared, host, tables
from hypothesis import assume
from hypothesis import strategies as st
from scipy.optimize import minimize

from clusterica.linear import KernelRidgeClassifier, LinearSVC, RidgeClassifier

seeds = st.integers(0, 2**31)
some_rows = tables(min_rows=8, max_rows=30, max_columns=4, weights=True, far=False)


def labels_of(table, n_classes, seed):
    y = np.random.default_rng(seed).permutation(np.arange(table.n) % n_classes)
    if table.weights is not None:
        assume(all(table.w[y == c].sum() > 0 for c in range(n_classes)))
    return y


def standardized(table, standardize):
    """Rows about their weighted mean, over their weighted deviation if asked for."""
    share = table.w / table.w.sum()
    mean = share @ table.X
    deviation = np.sqrt(share @ (table.X - mean) ** 2) if standardize else np.ones(table.d)
    # Constant features have rules of their own; those that hardly vary have few digits.
    assume((np.sqrt(share @ (table.X - mean) ** 2) > 1e-2 * np.abs(table.X).max()).all())
    return (table.X - mean) / deviation, deviation


@compared(
    some_rows,
    st.sampled_from([0.01, 1.0, 30.0]),
    st.integers(2, 3),
    st.booleans(),
    seeds,
    share=0.5,
)
def test_linear_svc(table, C, n_classes, standardize, seed):
    y = labels_of(table, n_classes, seed)
    Z, deviation = standardized(table, standardize)
    assume(np.abs(Z).max() < 20)
    model = LinearSVC(C, standardize=standardize).fit(table.rows, y, sample_weight=table.weights)
    coef, b = host(model.coef_), host(model.intercept_)
    targets = [2.0 * (y == c) - 1 for c in range(n_classes)]
    targets = targets[1:] if n_classes == 2 else targets
    mean = table.w @ table.X / table.w.sum()
    for j, t in enumerate(targets):
        w, offset = coef[j] * deviation, b[j] + coef[j] @ mean

        def value(p, t=t):
            return reference.svm_value(Z, t, table.w, p[:-1], p[-1], C)

        here = value(np.append(w, offset))
        best = minimize(value, np.append(w, offset), method="BFGS", options={"gtol": 1e-9}).fun
        # What the model says that it may still gain, the smallest that it promises, and rounding of coef_.
        allowed = (
            2 * (host(model.gap_)[j] + 1e-7 + 64 * table.eps) * max(here, 1e-6 * C * table.w.sum())
        )
        assert here - best <= allowed + table.rounding(table.n, here)
        assert_close(
            model.objective_[j],
            here,
            4 * allowed + 16 * table.rounding(table.n, here),
            "objective_",
        )
    scores = table.X @ coef.T + b
    size = np.abs(table.X).max() * np.abs(coef).sum(axis=1).max() + np.abs(b).max()
    error = table.rounding(table.d, size)
    found = host(model.decision_function(table.rows))
    assert_close(found, scores[:, 0] if n_classes == 2 else scores, 2 * error, "decision_function")
    check_predictions(table, model, scores, n_classes, error)


def check_predictions(table, model, scores, n_classes, error):
    labels = host(model.predict(table.rows))
    if n_classes == 2:
        clear, best = np.abs(scores[:, 0]) > 4 * error, (scores[:, 0] > 0).astype(int)
    else:
        order = np.sort(scores, axis=1)
        clear, best = order[:, -1] - order[:, -2] > 8 * error, scores.argmax(axis=1)
    np.testing.assert_array_equal(labels[clear], best[clear])


@compared(
    some_rows, st.sampled_from([0.1, 1.0, 10.0]), st.integers(2, 3), st.booleans(), seeds, share=0.5
)
def test_ridge_classifier(table, alpha, n_classes, standardize, seed):
    y = labels_of(table, n_classes, seed)
    Z, deviation = standardized(table, standardize)
    assume(np.abs(Z).max() < 20)
    model = RidgeClassifier(alpha, standardize=standardize)
    model.fit(table.rows, y, sample_weight=table.weights)
    H = Z.T @ (table.w[:, None] * Z) + alpha * np.eye(table.d)
    targets = np.stack([2.0 * (y == c) - 1 for c in range(n_classes)], axis=1)
    targets = targets[:, 1:] if n_classes == 2 else targets
    means = table.w @ targets / table.w.sum()
    A = np.linalg.solve(H, Z.T @ (table.w[:, None] * (targets - means)))
    coef = (A / deviation[:, None]).T
    intercept = means - coef @ (table.w @ table.X / table.w.sum())
    # A solver that stops at a gap of 1e-7 of the objective f is off by √(2 gap f / λ); f <= sum of weights.
    least = np.linalg.eigvalsh(H)[0]
    off = np.sqrt(4 * (1e-7 + 64 * table.eps) * table.w.sum() / least) / deviation.min()
    assert_close(model.coef_, coef, off, "coef_")
    size = 1 + np.abs(table.X).max() * table.d
    assert_close(
        model.intercept_, intercept, off * size + table.rounding(table.n, size), "intercept_"
    )
    scores = table.X @ host(model.coef_).T + host(model.intercept_)
    error = table.rounding(table.d, np.abs(table.X).max() * np.abs(coef).sum(axis=1).max() + 2)
    found = host(model.decision_function(table.rows))
    assert_close(found, scores[:, 0] if n_classes == 2 else scores, 4 * error, "decision_function")
    check_predictions(table, model, scores, n_classes, error)


@compared(
    tables(min_rows=8, max_rows=20, max_columns=4, far=False),
    st.sampled_from(["linear", "rbf"]),
    st.integers(2, 3),
    seeds,
    share=0.5,
)
def test_kernel_ridge(table, kernel, n_classes, seed):
    assume(table.place not in ("blocks", "dask"))  # it keeps the rows, in one array
    y = labels_of(table, n_classes, seed)
    Z, _ = standardized(table, True)
    assume(np.abs(Z).max() < 20)
    alpha, gamma = 0.5, 0.3
    model = KernelRidgeClassifier(kernel, alpha=alpha, gamma=gamma).fit(table.rows, y)
    K = reference.rbf(Z, Z, gamma) if kernel == "rbf" else Z @ Z.T
    targets = np.stack([2.0 * (y == c) - 1 for c in range(n_classes)], axis=1)
    targets = targets[:, 1:] if n_classes == 2 else targets
    means = targets.mean(axis=0)
    A = np.linalg.solve(K + alpha * np.eye(table.n), targets - means)
    scores = K @ A + means
    # Off by the rounding of K, times |A|, over the least eigenvalue of the system.
    size = (np.abs(Z) ** 2).sum(axis=1).max()
    e = table.rounding(table.d + table.n, 1 + size) * table.n * np.abs(A).max()
    error = e * (1 + np.abs(K).sum(axis=1).max() / alpha)
    assume(error < 0.1)
    found = host(model.decision_function(table.rows))
    assert_close(found, scores[:, 0] if n_classes == 2 else scores, error, "decision_function")
    check_predictions(table, model, scores, n_classes, error)
