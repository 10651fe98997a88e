"""Fits on a local Ray: the results of a local fit, from references to arrays and from data sets."""

import os
import signal

import numpy as np
import pytest
from sklearn.base import clone

import clusterica
from clusterica.cluster import KMeans
from clusterica.dictionaries import DiscriminativeKSVD
from clusterica.ica import ClusterICA
from clusterica.images import ImageFeatures
from clusterica.linear import LinearSVC
from clusterica.preprocessing import Whitener

ray = pytest.importorskip("ray")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # of Ray itself
]


@pytest.fixture(scope="module", autouse=True)
def local_ray():
    # One GPU by name only, to see that tasks ask for it.
    ray.init(num_cpus=2, num_gpus=1, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def sources():
    rng = np.random.default_rng(0)
    return rng.laplace(size=(4000, 6)) @ rng.normal(size=(6, 6))


def references(X, size=700):
    return [ray.put(X[i : i + size]) for i in range(0, len(X), size)]


def labels(X):
    return (X[:, 0] + np.random.default_rng(0).normal(size=len(X)) > 0).astype(int)


@pytest.mark.parametrize(
    ("model", "fitted"),
    [
        (KMeans(5, random_state=0), "cluster_centers_"),
        (KMeans(5, batch_size=1000, max_iter=3, random_state=0), "cluster_centers_"),
        (ClusterICA(random_state=0), "components_"),
        (LinearSVC(1.0), "coef_"),
        (Whitener(), "whitening_"),
    ],
)
def test_models_are_those_of_a_local_fit(sources, model, fitted):
    y, refs = labels(sources), references(sources)
    expected, found = clone(model).fit(sources, y), clone(model).fit(refs, y)
    np.testing.assert_allclose(getattr(found, fitted), getattr(expected, fitted), atol=1e-6)
    method = "transform" if hasattr(model, "transform") else "predict"
    parts = getattr(found, method)(refs)
    assert [type(part) for part in parts] == [ray.ObjectRef] * 6
    np.testing.assert_allclose(
        np.concatenate(ray.get(parts)), getattr(expected, method)(sources), atol=1e-6
    )


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    ("model", "n_rows"),
    [
        (LinearSVC(random_state=0), 100),  # by Newton's method
        (LinearSVC(random_state=0), 600),  # by L-BFGS
        (DiscriminativeKSVD(8, max_iter=3, tol=1, random_state=0), 600),
    ],
)
def test_classifiers(sources, model, n_rows, n_classes):
    """Labels that are strings, and whatever a classifier tells of rows."""
    X = sources[:n_rows]
    y = np.array(["a", "b", "c"])[labels(X) + (n_classes - 2) * (X[:, 1] > 0)]
    expected, refs = clone(model).fit(X, y), references(X, 70)
    found = clone(model).fit(refs, y)
    np.testing.assert_array_equal(found.predict(refs), expected.predict(X))
    assert found.score(refs, y) == expected.score(X, y)
    for name in {"decision_function", "predict_proba"} & set(dir(model)):
        values = np.concatenate(ray.get(getattr(found, name)(refs)))
        np.testing.assert_allclose(values, getattr(expected, name)(X), atol=1e-5)


def test_data_sets(sources):
    import ray.data

    expected = KMeans(5, random_state=0).fit(sources)
    for data in (
        ray.data.from_numpy(np.array_split(sources, 3)),  # a column of vectors
        ray.data.from_items([dict(zip("abcdef", row, strict=True)) for row in sources]),
    ):
        model = KMeans(5, random_state=0).fit(data)
        np.testing.assert_allclose(model.cluster_centers_, expected.cluster_centers_, atol=1e-9)
        np.testing.assert_array_equal(model.labels_, expected.labels_)
        found = model.predict(data)
        assert isinstance(found, ray.data.Dataset)
        np.testing.assert_array_equal([row["data"] for row in found.take_all()], expected.labels_)


def test_images():
    X = np.random.default_rng(0).integers(0, 255, size=(60, 12, 12, 3)).astype(np.uint8)
    model = ImageFeatures(8, n_patches=1000, random_state=0)
    expected, found = clone(model).fit(X), clone(model).fit(references(X, 25))
    features = np.concatenate(ray.get(found.transform(references(X, 25))))
    np.testing.assert_allclose(features, expected.transform(X), rtol=1e-5)


def test_bad_input():
    with pytest.raises(ValueError, match="Input X contains NaN"):
        KMeans(2).fit([ray.put(np.full((3, 2), np.nan))])
    with pytest.raises(ValueError, match=r"shapes \[\(2,\), \(3,\)\]; give one shape"):
        KMeans(2).fit([ray.put(np.ones((3, 2))), ray.put(np.ones((3, 3)))])
    with pytest.raises(ValueError, match="no rows; give at least one"):
        KMeans(2).fit([ray.put(np.ones((0, 2)))])


def test_a_task_has_a_gpu_if_the_device_is_one():
    from clusterica.arrays.engines._ray import RayEngine

    engine = RayEngine(False)
    assert engine.fetch([engine.submit(ray.get_gpu_ids)]) == [[]]
    with clusterica.config_context(device="cuda"):
        assert engine.fetch([engine.submit(ray.get_gpu_ids)]) == [[0]]


class Killer:
    """A callback that kills all workers after the third iteration."""

    killed = 0

    def setup(self, estimator, context): ...

    def teardown(self, estimator, context): ...

    def on_fit_task_begin(self, estimator, context): ...

    def on_fit_task_end(self, estimator, context):
        if not self.killed and (context.task_name, context.task_id) == ("iteration", 2):
            own = ray.remote(lambda: os.getpid())
            for pid in set(ray.get([own.remote() for _ in range(20)])):
                os.kill(pid, signal.SIGKILL)
                self.killed += 1


def test_killed_workers_change_nothing(sources):
    model, refs = KMeans(40, max_iter=8, tol=0, random_state=0), references(sources)
    expected, killer = clone(model).fit(refs), Killer()
    model.set_callbacks(killer).fit(refs)
    assert killer.killed
    np.testing.assert_array_equal(model.cluster_centers_, expected.cluster_centers_)
