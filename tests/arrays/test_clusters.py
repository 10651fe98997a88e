"""Fits on real clusters of several processes: the results of a local fit, and no loss with a worker."""

import os
import pickle
import signal
import warnings

import numpy as np
import pytest
from sklearn.base import clone

from clusterica.arrays import to_host
from clusterica.cluster import KMeans
from clusterica.ica import ClusterICA
from clusterica.linear import LinearSVC

distributed = pytest.importorskip("distributed")
# LocalCluster looks for a free port with a socket that it does not close.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def start(n_workers):
    return distributed.LocalCluster(
        n_workers=n_workers,
        threads_per_worker=1,
        dashboard_address=":0",
        memory_limit="1GiB",
    )


@pytest.fixture(scope="module")
def client():
    with start(2) as cluster, distributed.Client(cluster) as client:
        yield client


@pytest.fixture
def sources(rng):
    S = rng.laplace(size=(4000, 6))
    return S @ rng.normal(size=(6, 6))  # float64: rounding does not move rows to other clusters


@pytest.fixture
def rng():
    return np.random.default_rng()


def noisy_labels(X):
    return (X[:, 0] + np.random.default_rng(0).normal(size=len(X)) > 0).astype(int)


def in_chunks(X, n=7):
    import dask.array as da

    return da.from_array(X, chunks=(-(-len(X) // n), *X.shape[1:]))


def test_a_fit_on_a_cluster(client, sources):
    """The current client is taken, the model is a plain local one, and y does not travel with every graph."""
    y = noisy_labels(sources)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # Dask warns of large graphs
        for model, labels in ((KMeans(5, random_state=0), None), (LinearSVC(1.0), y)):
            expected = clone(model).fit(sources, labels)
            model.fit(in_chunks(sources), labels)
            model = pickle.loads(pickle.dumps(model))  # needs no client
            found, known = (
                m.cluster_centers_ if labels is None else m.coef_ for m in (model, expected)
            )
            assert isinstance(found, np.ndarray)
            # The objective of LinearSVC is right to 1e-7, so its coefficients to the root of that.
            np.testing.assert_allclose(found, known, rtol=5e-3, atol=1e-3)
            result = model.predict(in_chunks(sources))
            assert hasattr(result, "dask")
            agree = (to_host(result) == expected.predict(sources)).mean()
            assert agree > 0.999  # rounding may decide ties


class Killer:
    """A callback that kills a worker at the end of a task of the fit, as a machine may fail."""

    def __init__(self, client, task):
        self.client, self.task, self.killed = client, task, []

    def setup(self, estimator, context): ...

    def teardown(self, estimator, context): ...

    def on_fit_task_begin(self, estimator, context): ...

    def on_fit_task_end(self, estimator, context):
        if not self.killed and (context.task_name, context.task_id) == self.task:
            self.killed = list(self.client.run(os.getpid).values())[:1]
            os.kill(self.killed[0], signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "fitted", "killed_in"),
    [
        (KMeans(40, max_iter=8, tol=0, random_state=0), "cluster_centers_", 2),
        (ClusterICA(max_iter=8, random_state=0), "components_", 0),  # takes two iterations here
        (LinearSVC(1.0), "coef_", 2),
    ],
)
def test_a_killed_worker_changes_nothing(sources, model, fitted, killed_in):
    y = noisy_labels(sources)
    with start(2) as cluster, distributed.Client(cluster) as client:
        expected = clone(model).fit(in_chunks(sources), y)
        killer = Killer(client, ("iteration", killed_in))
        model.set_callbacks(killer).fit(in_chunks(sources), y)
        assert killer.killed, "no task of that name"
        assert not set(killer.killed) & set(client.run(os.getpid).values())
    # Sums are added in the order of the chunks, whoever computes them: not a bit changes.
    np.testing.assert_array_equal(getattr(model, fitted), getattr(expected, fitted))


def test_labels_are_sent_once(client, sources, monkeypatch):
    """In every graph of the fit they would be sent again."""
    from clusterica.arrays.engines._dask import DaskEngine

    sent = []
    send = DaskEngine.send
    monkeypatch.setattr(
        DaskEngine, "send", lambda self, value: (sent.append(value), send(self, value))[1]
    )
    y = noisy_labels(sources)
    LinearSVC(1.0).fit(in_chunks(sources, 3), y)
    # The codes of a chunk: a vector of as many whole numbers.
    codes = [a for a in sent if isinstance(a, np.ndarray) and a.dtype.kind == "i" and len(a) > 1000]
    assert len(codes) == 3


def test_values_larger_than_a_piece_are_sent_in_several(client):
    from clusterica.arrays.engines._dask import DaskEngine

    engine, large = DaskEngine(client), np.arange(2.0**21)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        np.testing.assert_array_equal(engine.fetch([engine.send(large)])[0], large)
