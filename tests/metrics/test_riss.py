"""The RISS test passes clusterers that have both properties and says which one others lack."""

import dataclasses

import numpy as np
import pytest
from scipy import stats
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.cluster import AgglomerativeClustering
from sklearn.cluster import KMeans as ScikitKMeans

from clusterica.cluster import CosineKMeans, KMeans
from clusterica.metrics import RissReport, check_riss, recovery_distance


class Fixed(ClusterMixin, BaseEstimator):
    """Sees no data: always both signs of all axes, which do not turn."""

    def fit(self, X, y=None):
        self.cluster_centers_ = 3.0 * np.concatenate([np.eye(X.shape[1]), -np.eye(X.shape[1])])
        return self


class Diagonal(ClusterMixin, BaseEstimator):
    """The diagonals between the axes that cosine K-means finds: they turn with the data."""

    def __init__(self, random_state=None):
        self.random_state = random_state

    def fit(self, X, y=None):
        a, b = CosineKMeans(random_state=self.random_state).fit(X).cluster_centers_[:2]
        self.cluster_centers_ = np.array([a + b, a - b, -a - b, b - a])
        return self


class Recorder(CosineKMeans):
    """Cosine K-means that keeps what it was fitted on and with."""

    fits = ()

    def fit(self, X, y=None, sample_weight=None):
        super().fit(X, sample_weight=sample_weight)
        Recorder.fits = (*Recorder.fits, (X, self.n_axes, self.random_state, self))
        return self


@pytest.mark.parametrize(
    ("clusterer", "source"),
    [
        (CosineKMeans(), "laplace"),
        (CosineKMeans(), stats.gennorm(0.7)),
        (KMeans(init="orthogonal", tol=1e-6), "laplace"),
        (ScikitKMeans(tol=1e-6), "laplace"),
    ],
    ids=["CosineKMeans", "CosineKMeans-gennorm", "KMeans", "scikit-learn"],
)
def test_clusterers_that_have_both_properties(clusterer, source):
    report = check_riss(
        clusterer, n_features=3, n_samples=10_000, source=source, n_draws=2, random_state=0
    )
    assert report.passed
    assert report.equivariance < 0.02  # the same rows, turned: no scatter of its own


@pytest.mark.parametrize("source", ["gaussian", "uniform"])
def test_sources_without_tails_fail(source):
    report = check_riss(CosineKMeans(), n_features=4, n_samples=4000, source=source, random_state=1)
    assert not report.passed
    assert report.axis_distance > 0.2


def test_axes_that_do_not_turn():
    report = check_riss(Fixed(), n_features=3, n_samples=50, random_state=0)
    assert report.axis_distances == (0.0,) * 5
    assert report.equivariance > 0.1
    assert not report.passed


def test_turning_off_the_axes():
    report = check_riss(Diagonal(), n_features=2, n_samples=5000, n_draws=3, random_state=0)
    assert report.equivariance < 0.05
    assert report.axis_distance == pytest.approx(np.sqrt(0.5), abs=0.05)
    assert not report.passed


def test_values_are_those_of_the_fits():
    Recorder.fits = ()
    clusterer = Recorder(n_axes=1)
    report = check_riss(clusterer, n_features=3, n_samples=2000, n_draws=2, random_state=5)
    assert (clusterer.n_axes, clusterer.random_state) == (1, None)
    assert not hasattr(clusterer, "cluster_centers_")
    assert [n for _, n, _, _ in Recorder.fits] == [3] * 4
    seeds = [seed for _, _, seed, _ in Recorder.fits]
    assert seeds[0] == seeds[1] != seeds[2] == seeds[3]
    for draw in range(2):
        (S, _, _, plain), (X, _, _, turned) = Recorder.fits[2 * draw : 2 * draw + 2]
        U = np.linalg.lstsq(S, X, rcond=None)[0].T
        np.testing.assert_allclose(U @ U.T, np.eye(3), atol=1e-10)
        assert not np.allclose(np.abs(U), np.eye(3), atol=0.1)
        expected = recovery_distance(turned.cluster_centers_, plain.cluster_centers_ @ U.T)
        assert report.equivariances[draw] == pytest.approx(expected, abs=1e-9)
        axes = recovery_distance(plain.cluster_centers_, np.eye(3))
        assert report.axis_distances[draw] == pytest.approx(axes)
    assert report.equivariance == max(report.equivariances)
    assert report.axis_distance == max(report.axis_distances)


def test_same_seed_same_report():
    settings = {"n_features": 2, "n_samples": 500, "n_draws": 2}
    first = check_riss(CosineKMeans(), **settings, random_state=3)
    assert first == check_riss(CosineKMeans(), **settings, random_state=3)
    assert first != check_riss(CosineKMeans(), **settings, random_state=4)


def test_tensors_as_centroids(put):
    class Elsewhere(Fixed):
        def fit(self, X, y=None):
            super().fit(X)
            self.cluster_centers_ = put(self.cluster_centers_)
            return self

    assert check_riss(Elsewhere(), n_features=2, n_samples=10).axis_distance == 0


def report(equivariances, axis_distances):
    return RissReport("Some()", "laplace", 2, 100, equivariances, axis_distances)


@pytest.mark.parametrize(
    ("equivariances", "axis_distances", "passed"),
    [
        ((0.01, 0.09), (0.0, 0.09), True),
        ((0.01, 0.1), (0.0, 0.09), False),
        ((0.01, 0.02), (0.3, 0.01), False),
    ],
)
def test_passed_is_both_below_a_tenth(equivariances, axis_distances, passed):
    assert report(equivariances, axis_distances).passed is passed


def test_readable_report():
    lines = repr(report((0.01, 0.02, 0.09), (0.05, 0.3, 0.1))).splitlines()
    assert lines[0] == "RISS test of Some()"
    assert lines[1] == "3 draws of 100 rows, 2 laplace sources, 4 centroids"
    assert lines[2].endswith("holds: worst 0.0900, median 0.0200")
    assert lines[3].endswith("fails: worst 0.3000, median 0.1000")
    assert lines[4].startswith("passed: False")
    with pytest.raises(dataclasses.FrozenInstanceError):
        report((0.0,), (0.0,)).source = "t"


@pytest.mark.parametrize(
    ("source", "name"),
    [("t", "t(3)"), ("cauchy", "cauchy"), (stats.gennorm(0.5, scale=2), "gennorm(0.5, scale=2)")],
)
def test_the_source_is_named(source, name):
    assert check_riss(Fixed(), n_features=2, n_samples=9, source=source, df=3).source == name


def test_a_clusterer_without_centroids():
    with pytest.raises(TypeError, match=r"AgglomerativeClustering has no cluster_centers_.*wrap"):
        check_riss(AgglomerativeClustering(), n_features=2, n_samples=20)


def test_a_clusterer_with_another_number_of_centroids():
    class Few(Fixed):
        def fit(self, X, y=None):
            self.cluster_centers_ = np.eye(X.shape[1])
            return self

    message = r"Few found cluster_centers_ of shape \(3, 3\).*2 \* n_features = 6"
    with pytest.raises(ValueError, match=message):
        check_riss(Few(), n_features=3, n_samples=20)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_features": 0}, "n_features is 0"),
        ({"n_samples": 3}, "n_samples is 3.*at least 4; give at least one row for each centroid"),
        ({"n_draws": 0}, "n_draws is 0"),
        ({"n_draws": 2.5}, "n_draws is 2.5"),
        ({"source": "gauss"}, "sources is 'gauss'.*gaussian"),
        ({"source": stats.laplace}, "sources is .*with its parameters"),
        ({"source": "t", "df": -1}, "df is -1"),
    ],
)
def test_errors(settings, message):
    with pytest.raises(ValueError, match=message):
        check_riss(Fixed(), **{"n_features": 2, "n_samples": 20, **settings})
