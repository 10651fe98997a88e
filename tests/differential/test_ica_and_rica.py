"""Independent components, RICA and its kin: sums against loops, and that what was found is a minimum.

A learner ends where its own rule says, not at the minimum to the last digit. So its objective is compared
with a loop at what it learned, and the gradient there, by finite differences, must be small.
"""

import numpy as np
import reference
from cases import assert_close, compared, host, tables
from hypothesis import assume
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from clusterica.contrasts import LogCosh
from clusterica.ica import ClusterICA, KernelICA, KurtosisPursuit
from clusterica.rica import RICA, DiscriminativeKernelRICA, DiscriminativeRICA, KernelRICA

seeds = st.integers(0, 2**31)


def mixed(table, least=1e-2):
    """Leave cases out whose features hardly vary or are nearly dependent."""
    values = np.linalg.eigvalsh(np.atleast_2d(np.cov(table.X.T)))
    assume(values[0] > least * values[-1] and values[-1] > 1e-6)
    # Rounding of the rows themselves must be far below their spread.
    assume(np.abs(table.X).max() ** 2 < 100 * values[-1] and table.n > 3 * table.d)


def assert_falls(model, error):
    """Assert that the objective never rises but for rounding, and what L-BFGS takes for rounding."""
    history = host(model.objective_history_)
    assert (np.diff(history) <= error + 1e-9 * np.abs(history[:-1])).all(), history


def gradient(value, p):
    """Gradient by central differences, as a vector."""
    g, step = np.zeros(p.size), 1e-5
    for i in range(p.size):
        e = np.zeros(p.size)
        e[i] = step
        g[i] = (value(p + e.reshape(p.shape)) - value(p - e.reshape(p.shape))) / (2 * step)
    return g


# Length of a gradient, in units of the parameters, at the end of a descent. A step from there gains at most
# g² / (2 h) for the curvature h. Descents end where a step gains less than 1e-7 of an objective of about one,
# or 1e-4 where float32 has no more digits; with h up to 10 that is 0.045. Found are up to 7e-4 in float64.
FLAT = 0.05


small = tables(min_rows=12, max_columns=3, far=False)


@compared(small, st.sampled_from(["ml", None]), seeds, share=0.5)
def test_cluster_ica(table, refine, seed):
    mixed(table)
    assume(len(np.unique(table.X, axis=0)) > 4 * table.d)
    model = ClusterICA(refine=refine, max_iter=50, random_state=seed).fit(table.rows)
    W, mean, A = (host(a) for a in (model.components_, model.mean_, model.mixing_))
    X, size = table.X - table.X.mean(axis=0), np.abs(table.X).max()
    assert_close(mean, table.X.mean(axis=0), table.rounding(table.n, size), "mean_")
    Y = X @ W.T
    error = table.rounding(table.d + table.n, np.abs(W).sum(axis=1).max() * size)
    found = model.transform(table.rows)
    assert_close(found, Y, table.d * error, "transform")
    assert_close((Y**2).mean(axis=0), np.ones(len(W)), 0.1 + 4 * error, "variance of sources")
    kurtosis = (Y**4).mean(axis=0) / (Y**2).mean(axis=0) ** 2 - 3
    apart = 8 * error * (Y**4).mean(axis=0) ** 0.75 * 4
    assert_close(model.kurtosis_, kurtosis, apart + 1e-6, "kurtosis_")
    assert (np.diff(host(model.kurtosis_)) <= 1e-6 + 2 * apart.max()).all()
    if refine == "ml" and len(W) == table.d:
        condition = np.linalg.cond(W)
        assert_close(
            A @ W, np.eye(table.d), table.d * table.rounding(table.d, condition), "mixing_"
        )
        back = model.inverse_transform(found)
        assert_close(
            back, table.X, table.d * table.rounding(table.d, size * condition**2), "inverse"
        )


def likelihood(X, W):
    """``-log|det W| + sum_j E log cosh y_j``."""
    return -np.linalg.slogdet(W)[1] + reference.logcosh(X @ W.T).mean(axis=0).sum()


@compared(small, seeds, share=0.3)
def test_likelihood_of_a_contrast(table, seed):
    mixed(table)
    assume(len(np.unique(table.X, axis=0)) > 4 * table.d)
    model = ClusterICA(refine=LogCosh(), random_state=seed).fit(table.rows)
    W, X = host(model.components_), table.X - table.X.mean(axis=0)
    assume(W.shape[0] == table.d)
    # The filters are scaled to unit variance afterwards: find the scales of the likelihood again.
    for j in range(len(W)):
        y = X @ W[j]
        best = minimize_scalar(
            lambda t, y=y: -t + reference.logcosh(np.exp(t) * y).mean(),
            bounds=(-6, 6),
            method="bounded",
        )
        W[j] *= np.exp(best.x)
    g = gradient(lambda E: likelihood(X, W + E @ W), np.zeros((table.d, table.d)))
    # The last move is at most a tenth of the sampling error, 0.05 d / √n; the curvature is a few, and was 5
    # on one draw of 12 rows.
    assert np.sqrt(g @ g) < max(FLAT, 0.4 * table.d / np.sqrt(table.n))


@compared(small, st.sampled_from(["min", "max"]), seeds, share=0.5)
def test_kurtosis_pursuit(table, objective, seed):
    mixed(table)
    model = KurtosisPursuit(objective=objective, n_init=5, random_state=seed).fit(table.rows)
    a, X = host(model.components_)[0], table.X - table.X.mean(axis=0)

    def excess(a):
        p = X @ a
        return (p**4).mean() / (p**2).mean() ** 2 - 3

    size = np.abs(X @ a).max() / (X @ a).std()
    error = table.rounding(table.n + table.d, size**4)
    assert_close(model.kurtosis_[0], excess(a), error, "kurtosis_")
    # In white coordinates no turn by a hundredth is better; tol stops the search a little before.
    T = np.linalg.cholesky(np.linalg.inv(np.atleast_2d(np.cov(X.T)))).T
    b = np.linalg.solve(T.T, a)
    sign = 1 if objective == "min" else -1
    for turn in np.random.default_rng(seed).normal(size=(20, len(a))) * 0.01 * np.sqrt(b @ b):
        assert sign * excess(T.T @ (b + turn)) >= sign * excess(a) - 1e-3 * size**2 - error


@compared(tables(min_rows=8, max_rows=20, max_columns=3, far=False), seeds, share=0.3)
def test_kernel_ica(table, seed):
    """The components are a rotation of white ones."""
    assume(table.d > 1 and len(np.unique(reference.units(table.X).round(3), axis=0)) > 6)
    K = reference.rbf(reference.units(table.X), reference.units(table.X), 1.0)
    n = table.n
    centred = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()
    values = np.linalg.eigvalsh(centred / n)[::-1]
    assume(values[1] > 1e-2)
    model = KernelICA(2, gamma=1.0, max_iter=20, random_state=seed).fit(table.rows)
    Y = host(model.transform(table.rows))
    error = n * table.rounding(n + table.d, 3) / values[1]
    assert_close(Y.mean(axis=0), np.zeros(2), error, "mean")
    assert_close(Y.T @ Y / n, np.eye(2), 4 * error, "covariance")


@compared(
    small,
    st.sampled_from(["logcosh", "l1", "exp", "sqrt", "groups"]),
    st.sampled_from(["tight", True, False]),
    st.integers(1, 5),
    seeds,
    share=0.5,
)
def test_rica(table, name, unit_norm, K, seed):
    mixed(table)
    groups = np.arange(K) % 2 if name == "groups" else None
    assume(groups is None or K > 2)
    kind = {"pooling": groups} if name == "groups" else {"penalty": name}
    if (
        np.dtype(table.dtype).kind == "f"
    ):  # whole numbers would be cut, which may leave a column of zeros
        table.X = (table.X / table.X.std()).astype(table.dtype).astype(np.float64)
    mixed(table)
    init = np.random.default_rng(seed).normal(size=(K, table.d))
    init = reference.units(init).astype(np.float32).astype(np.float64)
    model = RICA(K, sparsity=0.3, unit_norm=unit_norm, init=init, max_iter=60, **kind).fit(
        table.rows
    )
    tightness = K / table.d if unit_norm == "tight" and table.d < K else 1.0

    def value(W):
        if unit_norm is not False:
            W = reference.units(W)
        errors, S = reference.rica_terms(table.X, W, tightness)
        return errors.mean() + 0.3 * reference.penalty(S, name, groups).mean(), errors.mean()

    W, history = host(model.components_), host(model.objective_history_)
    size = (np.abs(table.X - table.X.mean(axis=0)) ** 2).sum(axis=1).max() * max(
        1, (W**2).sum()
    ) ** 2
    error = table.rounding(table.n + table.d, 1 + size + K)
    assert_close(history[0], value(init)[0], error, "objective at the start")
    assert_close(history[-1], value(W)[0], error, "objective at the end")
    assert_close(model.reconstruction_error_, value(W)[1], error, "reconstruction_error_")
    assert_falls(model, error)
    S = (table.X - table.X.mean(axis=0)) @ W.T
    apart = table.rounding(table.d + table.n, np.abs(table.X).max() * np.abs(W).sum(axis=1).max())
    assert_close(model.transform(table.rows), S, 2 * apart, "transform")
    if name == "logcosh" and model.n_iter_ < 60:
        g = gradient(lambda p: value(p)[0], W)
        assert np.sqrt((g @ g) * (W**2).sum()) < FLAT * (1 + abs(history[-1]))


def labeled(table, seed):
    y = np.arange(table.n) % 2
    return np.random.default_rng(seed).permutation(y)


@compared(small, st.integers(1, 2), st.sampled_from(["both", "inhomogeneous"]), seeds, share=0.5)
def test_discriminative_rica(table, k, constraint, seed):
    mixed(table)
    y = labeled(table, seed)
    if (
        np.dtype(table.dtype).kind == "f"
    ):  # whole numbers would be cut, which may leave a column of zeros
        table.X = (table.X / table.X.std()).astype(table.dtype).astype(np.float64)
    model = DiscriminativeRICA(
        k, sparsity=0.2, discrimination=0.3, constraint=constraint, max_iter=20, random_state=seed
    ).fit(table.rows, y)
    W, K = host(model.components_), 2 * k
    errors, S = reference.rica_terms(table.X, W, K / table.d if table.d < K else 1.0)
    d = reference.discrimination(S, y, 2, k + 1)
    if constraint == "inhomogeneous":
        own = np.array([s[c * k : (c + 1) * k].sum() for s, c in zip(S, y, strict=True)])
        d = (S.sum(axis=1) - own) ** 2
    expected = errors.mean() + 0.2 * reference.logcosh(S).sum(axis=1).mean() + 0.3 * d.mean()
    size = (np.abs(table.X) ** 2).sum(axis=1).max() * (1 + (W**2).sum()) ** 2 * (k + 2)
    error = table.rounding(table.n + table.d, size)
    history = host(model.objective_history_)
    assert_close(history[-1], expected, error, "objective")
    assert_falls(model, error)


@compared(
    tables(min_rows=8, max_rows=20, max_columns=3, far=False),
    st.integers(1, 4),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    seeds,
    share=0.5,
)
def test_kernel_rica(table, k, with_labels, normalize, unit_codes, seed):
    assume(table.d > 1 or not normalize)
    assume(np.abs(table.X).max() > 0)
    X = reference.units(table.X) if normalize else table.X
    assume(np.abs(X).max() < 10 and len(np.unique(X.round(3), axis=0)) > 2 * k + 2)
    settings = {
        "gamma": 0.7,
        "sparsity": 0.1,
        "pooling": None,
        "unit_codes": unit_codes,
        "max_iter": 10,
        "random_state": seed,
    }
    y = labeled(table, seed)
    if with_labels:
        model = DiscriminativeKernelRICA(k, normalize=normalize, discrimination=0.2, **settings)
    else:
        model = KernelRICA(k, normalize=normalize, **settings)
    model.fit(table.rows, y)
    W = host(model.components_)
    scale, errors, S = reference.kernel_rica_terms(X, W, 0.7)
    expected = errors.mean() + 0.1 * reference.logcosh(S).sum(axis=1).mean()
    if with_labels:
        expected += 0.2 * reference.discrimination(S, y, 2, k + 1).mean()
    # Rounding of squared distances, which the exponential does not enlarge; and of the sums after it.
    of_codes = table.rounding(
        table.d, 1 + 0.7 * 4 * max(np.abs(X).max(), np.abs(W).max()) ** 2 * table.d
    )
    error = of_codes * (len(W) + 2) ** 3
    if unit_codes and len(W) > 1:
        # An error turns a code by itself over the length, and by 2 at most.
        turned = of_codes * len(W) / np.maximum(np.sqrt((S**2).sum(axis=1)), 1e-300)
        apart = np.minimum(2 * turned, 2)[:, None]
        assert_close(model.transform(table.rows), reference.units(S), apart, "transform")
    else:
        assert_close(model.transform(table.rows), S, of_codes, "transform")
    assume((S**2).sum() > 1e-3)  # else the best scale is a ratio of rounding
    assert_close(model.scale_, scale, error * (1 + scale) / (S**2).mean(), "scale_")
    assert_close(model.objective_history_[-1], expected, error, "objective")
    assert_close(model.reconstruction_error_, errors.mean(), error, "reconstruction_error_")
    assert_falls(model, error)
