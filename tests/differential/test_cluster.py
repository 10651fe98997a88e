"""K-means and its kin, mixtures and densities against loops."""

import numpy as np
import reference
from cases import assert_close, clearly, compared, host, put, tables, working
from hypothesis import assume
from hypothesis import strategies as st
from scipy.special import ive

from clusterica.cluster import (
    CosineKMeans,
    DensityClusterer,
    GainShapeKMeans,
    KMeans,
    SphericalKMeans,
    VonMisesFisherMixture,
)

KINDS = {
    "euclidean": KMeans,
    "direction": SphericalKMeans,
    "gain-shape": GainShapeKMeans,
    "axis": CosineKMeans,
}
seeds = st.integers(0, 2**32 - 1)
kinds = st.sampled_from(sorted(KINDS))


def start(kind, table, k, seed):
    """Centres among the rows, or unit vectors, in the dtype that the estimator works in."""
    rng = np.random.default_rng(seed)
    size = max(np.abs(table.X).max(), 1e-3)
    C = rng.normal(size=(k, table.d))
    C = table.X.mean(axis=0) + size * C / 2 if kind == "euclidean" else reference.units(C)
    return C.astype(working(table.dtype)).astype(np.float64)


def loss_error(kind, table, C):
    """Rounding of the losses of rows: of squares, of inner products, or of cosines."""
    x = np.sqrt((table.X**2).sum(axis=1)).max()
    c = np.sqrt((C**2).sum(axis=1)).max()
    size = {"euclidean": (x + c) ** 2, "gain-shape": x * x, "direction": 1.0, "axis": x}[kind]
    return table.rounding(2 * table.d, size)


def margins(kind, L, X):
    """How much better the best centre of every row is; rows of zeros have no best one but by rule."""
    best = np.sort(L, axis=1)
    apart = best[:, 1] - best[:, 0] if L.shape[1] > 1 else np.full(len(L), np.inf)
    return np.where((X != 0).any(axis=1) | (kind == "euclidean"), apart, np.inf)


def objective(kind, L, labels, w):
    chosen = L[np.arange(len(labels)), labels]
    return -(w @ chosen) / w.sum() if kind == "axis" else w @ chosen


@compared(tables(min_rows=4, weights=True, sparse=True), kinds, st.integers(1, 4), seeds)
def test_an_iteration(table, kind, k, seed):
    n_labels = 2 * k if kind == "axis" else k
    assume(table.n >= n_labels)
    C = start(kind, table, k, seed)
    both = np.concatenate([C, -C]) if kind == "axis" else C
    L = reference.losses(kind, table.X, both)
    error = loss_error(kind, table, both)
    clearly(margins(kind, L, table.X), 4 * error)
    labels, expected = reference.lloyd_step(kind, table.X, both, table.w)
    weights = table.weights
    model = KINDS[kind](k, init=C, max_iter=1, tol=0.0, empty="keep", random_state=0)
    model.fit(table.rows, sample_weight=weights)
    first = host(model.objective_history_)[0]
    total = table.w.sum() * error
    assert_close(first, objective(kind, L, labels, table.w), total, "objective at the start")
    found = host(model.cluster_centers_)
    if kind == "euclidean":
        apart = table.rounding(table.n, np.abs(table.X).max() + np.abs(C).max())
    else:  # sums over their length: an error e of a sum turns its direction by e / length
        x = 1.0 if kind == "direction" else np.sqrt((table.X**2).sum(axis=1)).max()
        power = 2 if kind == "gain-shape" else 1
        sums = table.w.sum() * table.rounding(table.n + table.d, x**power)
        lengths = sum_lengths(kind, table, C, labels)
        received = np.bincount(labels % k, table.w, minlength=k) > 0
        clearly(np.where(received, lengths, np.inf), 10 * sums)
        apart = 2 * sums / np.where(received, lengths, np.inf)[:, None] + table.rounding(table.d, 1)
        apart = np.concatenate([apart, apart]) if kind == "axis" else apart
    assert_close(found, expected, apart, "cluster_centers_")
    check_assignment(kind, table, model, found)


def sum_lengths(kind, table, C, labels):
    """Lengths of the sums of rows of the free centres, 0 for those without rows."""
    sums = np.zeros_like(C)
    for x, j, w in zip(table.X, labels % len(C), table.w, strict=True):
        inner = x @ C[j]
        share = {"direction": 1.0, "gain-shape": inner, "axis": np.sign(inner)}[kind]
        sums[j] += w * share * (reference.units(x[None])[0] if kind == "direction" else x)
    if kind == "gain-shape":
        sums = sums + C  # the damping
    return np.sqrt((sums**2).sum(axis=1))


def check_assignment(kind, table, model, C):
    """Labels, counts, objective, predict, transform and score of a fitted model, given its centres."""
    L, error = reference.losses(kind, table.X, C), loss_error(kind, table, C)
    labels = host(model.labels_)
    assert labels.dtype.kind == "i"
    assert ((labels >= 0) & (labels < len(C))).all()
    chosen = L[np.arange(table.n), labels]
    assert (chosen - L.min(axis=1) <= 2 * error).all(), "labels_"
    np.testing.assert_array_equal(host(model.predict(table.rows)), labels)
    counts = np.bincount(labels, table.w, minlength=len(C))
    assert_close(model.counts_, counts, table.rounding(table.n, table.w.sum()), "counts_")
    expected = objective(kind, L, labels, table.w)
    reached = model.objective_ if kind == "axis" else model.inertia_
    total = error if kind == "axis" else table.w.sum() * error
    assert_close(reached, expected, total, "objective")
    score = model.score(table.rows, sample_weight=table.weights)
    assert_close(score, expected if kind == "axis" else -expected, total, "score")
    check_transform(kind, table, model, C, L, error)


def check_transform(kind, table, model, C, L, error):
    found = model.transform(table.rows)
    if kind == "euclidean":  # distances, and not their squares; roots of small numbers lose digits
        far = np.sqrt(L)
        assert_close(
            found, far, np.minimum(np.sqrt(error), error / np.maximum(far, 1e-300)), "transform"
        )
    elif kind == "direction":
        assert_close(found, reference.units(table.X) @ C.T, error, "transform")
    else:
        x = np.sqrt((table.X**2).sum(axis=1)).max()
        assert_close(found, table.X @ C.T, table.rounding(table.d, x), "transform")


@compared(tables(min_rows=8, weights=True, sparse=True), kinds, seeds)
def test_a_fit(table, kind, seed):
    """Whatever the start: labels, objective and centres go together, and no iteration makes it worse."""
    k = 2
    counted = table.X[table.w > 0]
    assume(len(np.unique(counted[(counted != 0).any(axis=1)], axis=0)) >= 2 * k)
    model = KINDS[kind](k, max_iter=20, random_state=seed)
    model.fit(table.rows, sample_weight=table.weights)
    C = host(model.cluster_centers_)
    if kind != "euclidean":
        lengths = np.sqrt((C**2).sum(axis=1))
        assert_close(lengths, np.ones(len(C)), table.rounding(table.d, 1), "lengths of centres")
    check_assignment(kind, table, model, C)
    history = host(model.objective_history_) * (-1 if kind == "axis" else 1)
    error = loss_error(kind, table, C) * (1 if kind == "axis" else table.w.sum())
    if kind != "gain-shape":  # its damped step may raise the objective a little
        assert (np.diff(history) <= 4 * error).all(), history


@compared(tables(min_rows=6, weights=True), kinds, st.sampled_from(["keep", "drop", "data"]), seeds)
def test_empty_clusters(table, kind, empty, seed):
    """A centre that no row is nearest to: it stays, is dropped, or moves to a row."""
    assume((np.abs(table.X).max(axis=1) > 0).all())
    rng = np.random.default_rng(seed)
    distinct = np.unique(table.X, axis=0)
    assume(len(distinct) >= 4)
    if kind == "euclidean":
        far = table.X.mean(axis=0) + 100 * (1 + np.abs(table.X).max())
        C = np.stack([distinct[rng.integers(len(distinct))], far])
    else:
        # A direction that all rows are orthogonal to: a new column of zeros.
        assume(table.d > 1)
        table.X[:, -1] = 0
        assume((np.abs(table.X).max(axis=1) > 0).all())
        C = np.stack([reference.units(table.X[:1])[0], np.eye(table.d)[-1]])
        if kind in ("direction", "axis"):
            # Every row must prefer the first: no ties at zero.
            clearly(
                np.abs(table.X @ C[0]) if kind == "axis" else table.X @ C[0],
                1e-3 * np.abs(table.X).max(),
            )
        else:
            clearly(np.abs(table.X @ C[0]), 1e-3 * np.abs(table.X).max())
    C = C.astype(working(table.dtype)).astype(np.float64)
    model = KINDS[kind](2, init=C, max_iter=1, empty=empty, random_state=0)
    model.fit(table.rows, sample_weight=table.weights)
    found = host(model.cluster_centers_)
    n_labels = 2 * len(C) if kind == "axis" else len(C)
    if empty == "keep":
        assert_close(found[1], C[1], table.rounding(4, np.abs(C[1]).max()), "the empty centre")
    elif empty == "drop":
        assert len(found) == n_labels // 2
    else:
        # It was moved to a row (or its direction), one that counts.
        rows = table.X[table.w > 0]
        rows = rows if kind == "euclidean" else reference.units(rows)
        apart = np.abs(rows - found[1]).max(axis=1)
        if kind in ("axis", "gain-shape"):
            apart = np.minimum(apart, np.abs(rows + found[1]).max(axis=1))
        if len(np.unique(rows.round(6), axis=0)) > 2:
            assert apart.min() <= table.rounding(table.d, np.abs(rows).max())
    check_assignment(kind, table, model, found)


def log_density(x, means, kappa, weights):
    """Log-density of a unit row under a mixture, with SciPy's Bessel function."""
    d = len(x)
    order = d / 2 - 1
    log_bessel = np.log(ive(order, kappa)) + kappa
    constant = order * np.log(kappa) - (order + 1) * np.log(2 * np.pi) - log_bessel
    terms = np.log(weights) + constant + kappa * (means @ x)
    return np.logaddexp.reduce(terms), terms


@compared(
    tables(min_rows=6, max_columns=5, weights=True, sparse=True),
    st.sampled_from(["free", "tied"]),
    seeds,
)
def test_von_mises_fisher(table, concentration, seed):
    assume(table.d >= 2 and (np.abs(table.X).max(axis=1) > 0).all())
    model = VonMisesFisherMixture(2, concentration=concentration, max_iter=10, random_state=seed)
    model.fit(table.rows, sample_weight=table.weights)
    means, kappa, weights = (host(a) for a in (model.means_, model.concentrations_, model.weights_))
    # Narrow components have no digits left in float32; SciPy's function ends at some hundred thousand.
    assume(kappa.min() > 1e-3 and kappa.max() < 1e3 and weights.min() > 1e-6)
    U = reference.units(table.X)
    error = table.rounding(table.d, 1 + kappa.max()) + 1e-9 * np.abs(np.log(kappa)).max()
    found = [log_density(u, means, kappa, weights) for u in U]
    expected = np.array([value for value, _ in found])
    assert_close(model.score_samples(table.rows), expected, 4 * error, "score_samples")
    P = np.array([np.exp(terms - value) for value, terms in found])
    assert_close(model.predict_proba(table.rows), P, 4 * error, "predict_proba")
    labels = host(model.predict(table.rows))
    assert (P.max(axis=1) - P[np.arange(table.n), labels] <= 4 * error).all()
    mean = table.w @ expected / table.w.sum()
    assert_close(model.score(table.rows, sample_weight=table.weights), mean, 4 * error, "score")
    assert_close(model.log_likelihood_, mean, 4 * error, "log_likelihood_")
    # EM never lowers the likelihood, and weights are means of memberships when it has converged.
    assert (np.diff(model.objective_history_) >= -8 * error).all()
    assert_close(weights.sum(), 1.0, table.rounding(2, 1), "weights_")


@compared(tables(min_rows=5, max_columns=1), st.sampled_from([0.3, 0.8, 2.0]))
def test_density(table, share):
    """Modes and valleys of a sum of Gaussians, evaluated row by row."""
    x = table.X[:, 0]
    spread = x.std()
    assume(spread > 1e-2 * np.abs(x).max())
    sigma = float(share * spread)
    model = DensityClusterer(bandwidth=sigma).fit(table.rows)

    def f(at):
        at = np.atleast_1d(at)[:, None]
        return np.exp(-((at - x) ** 2) / (2 * sigma**2)).mean(axis=1) / (sigma * np.sqrt(2 * np.pi))

    grid, density = host(model.grid_), host(model.density_)
    step = grid[1] - grid[0]
    # Stated: linear binning changes the density by (step / σ)² / 8 of the height of the Gaussian.
    error = (step / sigma) ** 2 / 8 * 0.4 / sigma + table.rounding(table.n, 0.4 / sigma)
    error = error + table.rounding(1, np.abs(x).max()) * 0.25 / sigma**2
    assert_close(density, f(grid), 4 * error, "density_")
    modes, valleys = host(model.modes_), host(model.valleys_)
    assert len(modes) == len(valleys) + 1 == model.n_clusters_
    assert (np.diff(np.sort(np.concatenate([modes, valleys]))) >= 0).all()
    # Every mode of the reference that stands out by more than the error has a cluster.
    heights = f(grid)
    bound = 8 * error
    for left, valley, right in zip(modes[:-1], valleys, modes[1:], strict=True):
        inside = (grid >= left) & (grid <= right)
        assert f(valley)[0] <= heights[inside].min() + bound
    assert n_clear_modes(heights, bound) <= model.n_clusters_
    labels = host(model.labels_)
    np.testing.assert_array_equal(labels, np.searchsorted(valleys, x, side="right"))
    np.testing.assert_array_equal(host(model.predict(table.rows)), labels)


def n_clear_modes(heights, bound):
    """Count the modes that rise over the valleys beside them by more than the bound."""
    count, low, high, rising = 0, heights[0], heights[0], True
    for h in heights:
        if rising:
            high = max(high, h)
            if high - h > bound:
                count, rising, low = count + (high - low > bound or count == 0), False, h
        else:
            low = min(low, h)
            if h - low > bound:
                rising, high = True, h
    return count


def test_the_reference_finds_two_modes():
    grid = np.linspace(-9, 9, 500)
    two = np.exp(-((grid - 4) ** 2)) + np.exp(-((grid + 4) ** 2))
    assert n_clear_modes(two, 0.01) == 2
    assert n_clear_modes(two, 2.0) <= 1


@compared(tables(min_rows=4, weights=True), kinds, st.sampled_from([np.float32, np.float64]), seeds)
def test_a_model_of_one_dtype_predicts_another(table, kind, dtype, seed):
    assume((table.X[table.w > 0] != 0).any())  # else there is no direction to start from
    model = KINDS[kind](1, max_iter=3, random_state=seed)
    model.fit(table.rows, sample_weight=table.weights)
    C = host(model.cluster_centers_)
    other = put(table.X.astype(dtype), "numpy")
    # Refused where the place differs: nothing is moved in silence.
    if table.place in ("strict",):
        return
    coarse = max(table.eps, float(np.finfo(dtype).eps))
    error = (
        loss_error(kind, table, C) * coarse / table.eps + 4 * coarse * np.abs(table.X).max() ** 2
    )
    L = reference.losses(kind, table.X, C)
    labels = host(model.predict(other))
    assert (L[np.arange(table.n), labels] - L.min(axis=1) <= 4 * error).all()
