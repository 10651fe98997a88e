"""Each rule of the advice fires where it should, and only there."""

import copy

import numpy as np
import pytest

from clusterica.datasets import make_sparse_sources
from clusterica.ica import ClusterICA, KurtosisPursuit
from clusterica.report import advise, model_page, summarize


@pytest.fixture
def healthy(summary):
    """A summary in which nothing is wrong."""
    found = copy.deepcopy(summary)
    bank = found["banks"][0]
    bank["kurtosis"] = np.full(16, 3.0, np.float32)
    bank["spectrum"] = {"eigenvalues": np.array([10.0, 1.0, 0.1]), "eps": 0.1}
    bank["history"] = {"objective": np.array([10.0, 5.0, 4.99]), "max_iter": 2, "learner": "KMeans"}
    bank["n_learned_from"] = 50 * 16
    bank["empty"] = np.arange(16) < 1
    found["validation"]["accuracy"] = 0.9
    assert advise(found) == []
    return found


@pytest.fixture
def rows_of_kurtosis(rng):
    """A function that returns the summary of an ICA whose sources have this kurtosis."""
    X = rng.laplace(size=(5000, 3))
    found = summarize(ClusterICA(random_state=0).fit(X))
    return lambda values: found | {"rows": found["rows"] | {"kurtosis": np.array(values)}}


def change_bank(**changes):
    return lambda found: found["banks"][0].update(changes)


def unbalance(found):
    found["data"] |= {"classes": ["cat", "dog"], "counts": [51, 10]}


def guess(found):
    found["validation"] |= {"accuracy": 0.52, "confusion": np.array([[26, 24], [24, 26]])}
    found["validation"]["classes"] = ["cat", "dog"]


SPECTRUM = np.array([10.0, 1.0, 0.1, 1e-9])
CASES = {
    "The eps of the whitening, 50, is large": change_bank(
        spectrum={"eigenvalues": SPECTRUM, "eps": 50.0}
    ),
    "The eps of the whitening, 1e-05, is small": change_bank(
        spectrum={"eigenvalues": np.array([10.0, 1e-4]), "eps": 1e-5}
    ),
    "799 patches are few for 16 filters: raise n_patches to 800": change_bank(n_learned_from=799),
    "2 of 16 filters are near-empty": change_bank(empty=np.arange(16) < 2),
    "9 of 16 filters are not sparse": change_bank(
        kurtosis=np.where(np.arange(16) < 9, 0.0, 3.0).astype(np.float32)
    ),
    "SphericalKMeans has not converged": change_bank(  # without the value at the end
        history={
            "objective": np.array([10.0, 5.0]),
            "max_iter": 2,
            "learner": "SphericalKMeans",
        }
    ),
    "KMeans has not converged": change_bank(
        history={"objective": np.array([10.0, 5.0, 4.0]), "max_iter": 2, "learner": "KMeans"}
    ),
    "Classes are unbalanced: 51 of cat and 10 of dog": unbalance,
    "An accuracy of 52.0 % is no better than naming the most frequent class": guess,
}


@pytest.mark.parametrize("text", CASES)
def test_fires(healthy, classifier, text):
    CASES[text](healthy)
    (advice,) = advise(healthy)
    assert advice.startswith(text)
    assert advice.endswith(".")
    assert advice.replace("'", "&#x27;") in model_page(classifier, healthy).html()


@pytest.mark.parametrize(
    "change",
    [
        change_bank(spectrum={"eigenvalues": SPECTRUM, "eps": 0.0}),  # rounding errors do not count
        change_bank(spectrum=None, history=None, n_learned_from=None),
        change_bank(
            history={"objective": np.array([10.0, 5.0, 4.0]), "max_iter": 9, "learner": "KMeans"}
        ),
        change_bank(kurtosis=np.where(np.arange(16) < 8, 0.0, 3.0).astype(np.float32)),
        lambda found: found["data"].update(classes=["a", "b"], counts=[50, 10]),
    ],
)
def test_does_not_fire(healthy, classifier, change):
    change(healthy)
    assert advise(healthy) == []
    assert "Nothing in these numbers looks wrong" in model_page(classifier, healthy).html()


def test_the_network_is_named(healthy):
    healthy["banks"][0] |= {"name": "network 2", "n_learned_from": 10}
    assert advise(healthy)[0].startswith("Network 2: 10 patches")


@pytest.mark.parametrize("distribution", ["laplace", "uniform"])
def test_sources_with_heavy_or_light_tails(distribution, rng):
    X = make_sparse_sources(5000, 3, distribution=distribution, random_state=rng).X
    assert advise(summarize(ClusterICA(random_state=0).fit(X), X)) == []


def test_a_direction_of_clusters(rng):
    X = rng.normal(size=(600, 3)) + np.outer(np.repeat([-4, 4], 300), [1, 0, 0])
    assert advise(summarize(KurtosisPursuit(random_state=0).fit(X), X)) == []


def test_gaussian_sources(rows_of_kurtosis):
    assert advise(rows_of_kurtosis([3.0, -1.2, 0.05])) == []  # one is what the others leave
    (advice,) = advise(rows_of_kurtosis([3.0, 0.05, -0.05]))
    assert advice.startswith("2 of 3 sources look Gaussian (kurtosis within 0.1 of 0)")
