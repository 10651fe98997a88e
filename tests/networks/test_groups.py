"""Groups of inputs by dependency."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from clusterica import config_context
from clusterica.networks import DependencyGroups


def grouped_inputs(rng, n=20_000, n_groups=6, size=5, correlation=0.0):
    """Inputs whose variances rise and fall together within groups, in a random order."""
    variance = np.repeat(rng.gamma(0.7, size=(n, n_groups)), size, axis=1)
    shared = rng.normal(size=(n, 1))
    X = np.sqrt(variance) * (
        np.sqrt(1 - correlation) * rng.normal(size=variance.shape) + np.sqrt(correlation) * shared
    )
    order = rng.permutation(n_groups * size)
    return X[:, order], np.repeat(np.arange(n_groups), size)[order]


@parametrize_with_checks([DependencyGroups(2, method=method) for method in ("exact", "pairwise")])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("method", ["exact", "pairwise", "auto"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_true_groups_are_found_and_cover_all_inputs(rng, method, dtype):
    X, truth = grouped_inputs(rng)
    model = DependencyGroups(5, method=method, random_state=0).fit(X.astype(dtype))
    assert len(model.groups_) == 6
    for group, values in zip(model.groups_, model.dependency_, strict=True):
        assert len(set(truth[group])) == 1
        assert values[0] == 1
        assert (np.diff(values) <= 0).all()
        assert values[-1] > 0.1
    assert sorted(np.concatenate(model.groups_)) == list(range(30))


def test_correlated_inputs_may_be_independent_in_energy(rng):
    """Correlations join what energies do not: the first inputs of a mixture of independent sources."""
    S = rng.laplace(size=(50_000, 4))
    X = S @ np.array([[1, 0.5, 0, 0], [0.5, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1.0]])
    by_energy = DependencyGroups(2, random_state=0).fit(X)
    by_correlation = DependencyGroups(2, measure="correlation", random_state=0).fit(X)
    pair = next(g for g in by_correlation.groups_ if g[0] in (0, 1))
    assert sorted(pair) == [0, 1]
    assert max(values[1] for values in by_energy.dependency_) < 0.1


def test_groups_may_be_few(rng):
    X, _ = grouped_inputs(rng)
    model = DependencyGroups(5, n_groups=3, random_state=0).fit(X)
    assert 1 <= len(model.groups_) <= 3
    assert len({tuple(sorted(g)) for g in model.groups_}) == len(model.groups_)
    one = DependencyGroups(30, n_groups=7, random_state=0).fit(X[:, :30])
    assert len(one.groups_) == 1


def test_pairs_recall_the_exact_groups_of_correlated_inputs(rng):
    X, _ = grouped_inputs(rng, n_groups=20, size=10, correlation=0.5)
    exact = DependencyGroups(10, method="exact", random_state=0).fit(X)
    pairs = DependencyGroups(10, method="pairwise", random_state=0).fit(X)
    by_seed = {g[0]: set(g) for g in pairs.groups_}
    recall = [len(set(g) & by_seed[g[0]]) / 10 for g in exact.groups_ if g[0] in by_seed]
    assert len(recall) >= 10
    assert np.mean(recall) > 0.9


def test_random_groups_and_one_group(rng):
    X, _ = grouped_inputs(rng, n=100)
    random = DependencyGroups(7, measure="random", random_state=0).fit(X)
    assert set(np.concatenate(random.groups_)) == set(range(30))
    assert all(len(set(g)) == 7 for g in random.groups_)
    (everything,) = DependencyGroups(7, measure="all").fit(X).groups_
    assert everything.tolist() == list(range(30))
    (few,) = DependencyGroups(31).fit(X).groups_
    assert few.tolist() == list(range(30))


@pytest.mark.parametrize("method", ["exact", "pairwise"])
def test_rows_may_live_anywhere(rng, method):
    X, _ = grouped_inputs(rng, n=3000)
    model = DependencyGroups(5, method=method, random_state=0)
    expected = clone(model).fit(X).groups_
    sources = [[X[:1000], X[1000:]]]
    da = pytest.importorskip("dask.array")
    sources.append(da.from_array(X, chunks=(700, 30)))
    # Its arrays have no length, only a shape.
    sources.append(pytest.importorskip("array_api_strict").asarray(X))
    try:
        import torch
    except ImportError:
        pass
    else:
        sources.append(torch.asarray(X))
    for source in sources:
        for group, other in zip(expected, clone(model).fit(source).groups_, strict=True):
            np.testing.assert_array_equal(group, other)
    with config_context(memory="256KiB", threads=1):
        again = clone(model).fit(X).groups_
    for group, other in zip(expected, again, strict=True):
        np.testing.assert_array_equal(group, other)


def test_constant_inputs_are_covered(rng):
    X, _ = grouped_inputs(rng, n=2000)
    X[:, [3, 7]] = 1.0
    for method in ("exact", "pairwise"):
        model = DependencyGroups(5, method=method, random_state=0).fit(X)
        assert set(np.concatenate(model.groups_)) == set(range(30))


def test_more_groups_than_seeds_are_refused(rng):
    with pytest.raises(ValueError, match=r"n_groups=9 is more than the 8 inputs"):
        DependencyGroups(2, n_groups=9).fit(rng.normal(size=(50, 8)))


def test_too_many_inputs_to_whiten_together(rng):
    with (
        config_context(memory="1MiB"),
        pytest.raises(
            ValueError, match=r"300 inputs together takes about 3 MiB.*method='pairwise'"
        ),
    ):
        DependencyGroups(4).fit(rng.normal(size=(50, 300)))


@pytest.mark.parametrize("measure", ["energy", "correlation"])
@pytest.mark.parametrize("method", ["exact", "pairwise"])
def test_dependency_is_that_of_the_formula(rng, method, measure):
    """Correlations of squares after whitening together or in pairs, with means measured, as eps needs it."""

    def squares_of_white(X):
        values, vectors = np.linalg.eigh(np.cov(X.T, ddof=0))
        whiten = vectors / np.sqrt(values + 0.01 * values.mean()) @ vectors.T
        return ((X - X.mean(axis=0)) @ whiten) ** 2

    X, _ = grouped_inputs(rng, n=3000, n_groups=3, size=4, correlation=0.4)
    X = X * rng.uniform(0.1, 10, size=12) + rng.normal(size=12)
    model = DependencyGroups(5, measure=measure, method=method, random_state=0).fit(X)
    U = X / X.std(axis=0)
    pairs = [[squares_of_white(U[:, [j, k]]) for k in range(12) if k != j] for j in range(12)]
    for group, found in zip(model.groups_, model.dependency_, strict=True):
        if measure == "correlation":
            d = np.abs(np.corrcoef(X.T)[group[0]])
        elif method == "exact":
            d = np.corrcoef(squares_of_white(X).T)[group[0]]
        else:
            d = np.insert([np.corrcoef(E.T)[0, 1] for E in pairs[group[0]]], group[0], 1)
        d[group[0]] = 2
        assert set(group) == set(np.argsort(-d)[:5])
        np.testing.assert_allclose(found[1:], d[group[1:]], atol=1e-4)


@pytest.mark.parametrize("method", ["exact", "pairwise"])
def test_independent_inputs_score_zero(rng, method):
    model = DependencyGroups(11, method=method, random_state=0).fit(rng.laplace(size=(50_000, 12)))
    found = np.concatenate([values[1:] for values in model.dependency_])
    assert np.abs(found).max() < 6 / np.sqrt(50_000)
