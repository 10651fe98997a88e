"""Each rule of the advice fires where it should, and only there."""

import copy

import numpy as np
import pytest

from clusterica.datasets import make_sparse_sources
from clusterica.ica import ClusterICA
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


@pytest.mark.filterwarnings("ignore:.*Gaussian.*")
def test_sources_that_are_not_sparse(rng):
    sparse = make_sparse_sources(5000, 3, mixing="orthogonal", random_state=rng).X
    assert advise(summarize(ClusterICA(random_state=0).fit(sparse), sparse)) == []
    flat = rng.uniform(-1, 1, (5000, 3))
    (advice,) = advise(summarize(ClusterICA(random_state=0).fit(flat), flat))
    assert advice.startswith("3 of 3 sources are not sparse")
