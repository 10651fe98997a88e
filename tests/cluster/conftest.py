"""What the tests of all clusterers share: the rules, and data to cluster."""

from functools import partial

import numpy as np
import pytest
from scipy import sparse

from clusterica.cluster import CosineKMeans, GainShapeKMeans, KMeans, SphericalKMeans


def pairs(n_clusters=8, **parameters):
    """CosineKMeans by its number of clusters, as the others are made."""
    return CosineKMeans(n_clusters // 2, **parameters)


RULES = {
    "euclidean": KMeans,
    "gain-shape": GainShapeKMeans,
    "direction": partial(SphericalKMeans, init="gaussian"),
    "axis": pairs,
    "orthogonal": partial(pairs, orthogonal=True),
}


def strict(X, device="CPU_DEVICE"):
    xp = pytest.importorskip("array_api_strict")
    return xp.asarray(X, device=xp.Device(device))


# The ways to pass a table that are validated and walked differently.
KINDS = {
    "numpy": np.array,
    "csr": sparse.csr_array,
    "blocks": lambda X: [X[:10], X[10:10], X[10:]],
    "torch": lambda X: pytest.importorskip("torch").asarray(np.array(X)),
    "strict": strict,
    "strict-device1": partial(strict, device="device1"),
    "dask": lambda X: pytest.importorskip("dask.array").from_array(np.array(X), chunks=(171, 2)),
}


@pytest.fixture(params=KINDS, scope="session")
def as_kind(request):
    """A function that passes a host array in another way."""
    return KINDS[request.param]


@pytest.fixture(params=RULES, scope="session")
def make(request):
    """A clusterer of every rule, made from (n_clusters, **parameters)."""
    return RULES[request.param]


@pytest.fixture(scope="session")
def heavy():
    """Rows that every rule can cluster, without ties: 600 x 4, heavy-tailed, of unit variance."""
    X = np.random.default_rng(0).laplace(scale=0.5**0.5, size=(600, 4))
    X.flags.writeable = False
    return X


@pytest.fixture(scope="session")
def start():
    """Centres to start from: 4 x 4, orthonormal so that every rule takes them as they are."""
    Q, _ = np.linalg.qr(np.random.default_rng(1).standard_normal((4, 4)))
    return Q


@pytest.fixture(scope="session")
def fitted_objective():
    """A function from a fitted clusterer to its objective, by whatever name it goes."""

    def objective(model):
        return model.objective_ if isinstance(model, CosineKMeans) else model.inertia_

    return objective
