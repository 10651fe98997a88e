"""Learned vectors: those of any estimator that has some in the space of its input."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from clusterica.cluster import KMeans
from clusterica.dictionaries import KernelSparseCoding
from clusterica.ica import ClusterICA, KernelICA
from clusterica.ica._learned import learned_vectors
from clusterica.rica import KernelRICA


@pytest.fixture
def X():
    return np.random.default_rng(0).laplace(size=(300, 4))


class OnesOwn(BaseEstimator):
    def fit(self, X):
        self.components_ = X[:2]
        return self


@pytest.mark.parametrize(
    "estimator",
    [
        OnesOwn(),
        PCA(3),
        ClusterICA(random_state=0),
        KernelRICA(4, gamma=1.0, random_state=0),
        KernelSparseCoding(4, random_state=0),
    ],
    ids=str,
)
def test_components(X, estimator):
    (found,) = learned_vectors(estimator.fit(X))
    assert found is estimator.components_


def test_centroids_come_first(X):
    estimator = KMeans(3, random_state=0).fit(X)
    assert learned_vectors(estimator)[0] is estimator.cluster_centers_
    estimator.components_ = X[:2]
    assert len(learned_vectors(estimator)) == 2


@pytest.mark.filterwarnings("ignore:.*max_iter")
@pytest.mark.parametrize(
    "estimator",
    [
        KernelICA(4, max_iter=2, random_state=0),
        StandardScaler(),
    ],
    ids=str,
)
def test_none_in_the_space_of_the_input(X, estimator):
    """Also where the white space has as many dimensions as the input."""
    assert learned_vectors(estimator.fit(X)) == []
