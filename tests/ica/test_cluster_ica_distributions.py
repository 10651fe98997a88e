"""ClusterICA without arguments finds sources of any distribution: heavy tails, light tails, and both."""

import warnings

import numpy as np
import pytest
from scipy import signal
from sklearn.decomposition import FastICA

from clusterica.ica import ClusterICA, _refine
from clusterica.metrics import amari_distance

DRAWS = {
    "laplace": lambda rng, n: rng.laplace(size=n),
    "t5": lambda rng, n: rng.standard_t(5, size=n),
    "bernoulli-gaussian": lambda rng, n: rng.normal(size=n) * (rng.random(n) < 0.1),
    "exponential": lambda rng, n: rng.exponential(size=n),
    "uniform": lambda rng, n: rng.uniform(-1, 1, n),
    "arcsine": lambda rng, n: np.sin(rng.uniform(0, 2 * np.pi, n)),
    "binary": lambda rng, n: rng.choice([-1.0, 1.0], n),
    "triangular": lambda rng, n: rng.triangular(-1, 0, 1, n),
    "gaussian": lambda rng, n: rng.normal(size=n),
}
SPARSE = ("laplace", "t5", "bernoulli-gaussian", "laplace", "bernoulli-gaussian")
LIGHT = ("uniform", "arcsine", "binary", "triangular", "uniform")
MIXED = ("laplace", "uniform", "bernoulli-gaussian", "binary", "exponential", "arcsine")


def mixture(distributions, n, rng, *, condition=10.0):
    S = np.column_stack([DRAWS[distribution](rng, n) for distribution in distributions])
    U, _, Vt = np.linalg.svd(rng.normal(size=(len(distributions), len(distributions))))
    A = U @ np.diag(np.geomspace(1, condition, len(distributions))) @ Vt
    return (S - S.mean(axis=0)) / S.std(axis=0) @ A.T, A


def test_the_default_refines():
    assert ClusterICA().refine == "ml"


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("condition", [10, 1e5])
@pytest.mark.parametrize(
    "distributions",
    [SPARSE, LIGHT, MIXED, (*MIXED, "gaussian"), 2 * LIGHT, ("binary",) * 4, ("triangular",) * 4],
    ids=str,
)
def test_sources_of_any_distribution(distributions, condition):
    """No worse than FastICA, and no warning, not even of one Gaussian source."""
    X, A = mixture(distributions, 20_000, np.random.default_rng(0), condition=condition)
    ours = ClusterICA(random_state=0).fit(X)
    theirs = FastICA(whiten="unit-variance", random_state=0, max_iter=1000).fit(X)
    ours, theirs = (amari_distance(f.components_, A) for f in (ours, theirs))
    assert ours < 1.05 * theirs + 1e-4


@pytest.mark.parametrize("seed", range(3))
def test_signals_of_both_kinds(seed):
    """A sine, a square wave, a sawtooth and noise, in the way of scikit-learn's example."""
    rng, t = np.random.default_rng(seed), np.linspace(0, 8, 2000)
    waves = (np.sin(2 * t), np.sign(np.sin(3 * t)), signal.sawtooth(2 * np.pi * t))
    S = np.column_stack([*waves, rng.laplace(size=len(t))])
    A = rng.normal(size=(4, 4))
    ica = ClusterICA(random_state=seed).fit(S / S.std(axis=0) @ A.T)
    assert amari_distance(ica.components_, A) < 0.03


@pytest.mark.filterwarnings("ignore:.*make up the variance")
def test_no_copies_where_a_distribution_has_no_variance():
    """Cauchy noise, a square wave and Gaussian noise."""
    t = np.arange(1000)
    for seed in range(100):
        rng = np.random.default_rng(seed)
        square = np.sign(np.sin(0.08 * t + rng.random()))
        S = np.column_stack([rng.standard_cauchy(1000), square, rng.normal(size=1000)])
        A = rng.normal(size=(3, 3))
        ica = ClusterICA(random_state=seed).fit(S @ A.T)
        gain = np.abs(ica.components_ @ A)
        gain /= gain.max(axis=1, keepdims=True)
        assert sorted(gain.argmax(axis=1)) == [0, 1, 2]
        correlation = np.corrcoef(ica.transform(S @ A.T).T)
        assert np.abs(correlation - np.eye(3)).max() < 0.3


@pytest.mark.parametrize("refine", ["ml", "contrast"])
def test_copies_are_never_returned(monkeypatch, refine):
    """Where the likelihood ends with copies, as it is made to here, sources are uncorrelated ones."""
    from clusterica.contrasts import LogCosh

    X, A = mixture(("laplace",) * 3, 5000, np.random.default_rng(0))
    maximize = _refine.maximize_likelihood

    def copying(*args, **settings):
        result = maximize(*args, **settings)
        B = result.params.copy()
        B[1] = B[0] + 1e-3 * B[1]
        return result._replace(params=B)

    monkeypatch.setattr(_refine, "maximize_likelihood", copying)
    ica = ClusterICA(refine="ml" if refine == "ml" else LogCosh(), random_state=0)
    if refine == "ml":
        ica.fit(X)
    else:
        with pytest.warns(UserWarning, match="two copies of a source"):
            ica.fit(X)
    assert amari_distance(ica.components_, A) < 0.1
    np.testing.assert_allclose(np.corrcoef(ica.transform(X).T), np.eye(3), atol=1e-3)
    assert (ica.n_iter_, len(ica.objective_history_)) == (0, 0)


def test_warns_of_two_gaussian_sources():
    rng = np.random.default_rng(0)
    X, _ = mixture(("laplace", "uniform", "gaussian", "gaussian"), 20_000, rng)
    with pytest.warns(UserWarning, match="2 of 4 sources look Gaussian"):
        ClusterICA(random_state=0).fit(X)


@pytest.mark.parametrize("n", [6, 8])
def test_more_sources_than_features_stay_centroids(n):
    X, _ = mixture(("bernoulli-gaussian",) * 4, 5000, np.random.default_rng(0))
    default, plain = (ClusterICA(n, refine=r, random_state=0).fit(X) for r in ("ml", None))
    np.testing.assert_array_equal(default.components_, plain.components_)


def test_directions_without_variance_stay_centroids():
    """A regularised whitener keeps them, and there the likelihood has no maximum."""
    from clusterica.contrasts import LogCosh
    from clusterica.preprocessing import Whitener

    X, _ = mixture(SPARSE, 5000, np.random.default_rng(0))
    X = np.column_stack([X, np.ones(len(X))])
    settings = {"whitener": Whitener("zca", eps=0.1), "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ica = ClusterICA(**settings).fit(X)
        assert np.isfinite(ica.components_).all()
        with pytest.raises(ValueError, match="varies in 5 of 6"):
            ClusterICA(refine=LogCosh(), **settings).fit(X)
        reduced = Whitener("zca", eps=0.0, n_components=3)  # six columns, of rank three
        assert np.isfinite(
            ClusterICA(whitener=reduced, random_state=0).fit(X[:, :5]).components_
        ).all()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("library", ["torch", "dask", "blocks"])
def test_the_same_sources_of_any_distribution_everywhere(library, dtype):
    X, _ = mixture(MIXED, 6000, np.random.default_rng(1))
    X = X.astype(dtype)
    if library == "torch":
        rows = pytest.importorskip("torch").asarray(X)
    elif library == "dask":
        rows = pytest.importorskip("dask.array").from_array(X, chunks=(2500, 6))
    else:
        rows = [X[i : i + 1700] for i in range(0, len(X), 1700)]
    here, there = (ClusterICA(random_state=3).fit(r) for r in (X, rows))
    # The last step leaves a small part of the sampling error, which is 6e-3 here.
    atol = 1e-4 if dtype == "float64" else 5e-3
    np.testing.assert_allclose(np.asarray(there.components_), here.components_, atol=atol)
