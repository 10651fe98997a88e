"""Estimates against counts of real runs: operations in products, and rows read."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

import clusterica
from clusterica.cluster import CosineKMeans, GainShapeKMeans, KMeans, SphericalKMeans
from clusterica.ica import ClusterICA
from clusterica.images import ImageFeatures
from clusterica.linear import LinearSVC
from clusterica.planning import _estimate
from clusterica.planning._machine import Machine, measure
from clusterica.preprocessing import Whitener
from clusterica.rica import RICA

MODELS = [
    KMeans(40, max_iter=12, tol=0, random_state=0),
    KMeans(40, max_iter=6, tol=0, n_init=2, compute_labels=False, random_state=0),
    SphericalKMeans(40, max_iter=12, tol=0, random_state=0),
    KMeans(40, max_iter=6, tol=0, batch_size=500, random_state=0),
    GainShapeKMeans(100, max_iter=12, tol=0, random_state=0),
    CosineKMeans(12, max_iter=12, tol=0, random_state=0),
    Whitener(),
    ClusterICA(random_state=0),
    RICA(32, max_iter=30, random_state=0),
    LinearSVC(C=1.0),
    LinearSVC(),
]


class Counted:
    """Blocks of rows that count how many were read."""

    def __init__(self, X):
        self.X, self.n_read = X, 0

    def __iter__(self):
        for part in np.array_split(self.X, 4):
            self.n_read += len(part)
            yield part


def counted_products(run):
    """Return the operations in products of a run, which torch counts while blocks go through it."""
    counter = pytest.importorskip("torch.utils.flop_counter").FlopCounterMode(display=False)
    with clusterica.config_context(device="cpu"), counter, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run()
    return counter.get_total_flops()


@pytest.mark.parametrize("model", MODELS, ids=lambda model: str(model)[:40])
def test_counts_of_a_fit(model):
    rng = np.random.default_rng()
    X = rng.laplace(size=(8000, 16)) @ np.linalg.qr(rng.normal(size=(16, 16)))[0]
    y = (X[:, :10] + rng.normal(size=(8000, 10))).argmax(axis=1)
    rows = Counted(X)
    operations = counted_products(lambda: model.fit(rows, y))
    # A search over C starts each fit where the last one ended: its last one has few iterations.
    typical = (
        clone(model).set_params(C=1.0).fit(X, y) if getattr(model, "C", 1) == "auto" else model
    )
    n_iter = getattr(typical, "n_iter_", 1)
    plan = clusterica.estimate(model, X.shape, n_iter=n_iter, n_classes=10, dtype="float64")
    assert 1 / 3 < plan.operations / operations < 3
    assert 1 / 3 < plan.bytes_read / (8 * 16 * rows.n_read) < 3


@pytest.mark.parametrize("method", ["fit", "transform"])
def test_counts_of_images(method, rng):
    images = rng.random((40, 18, 16, 3)).astype(np.float32)
    model = ImageFeatures(30, n_patches=4000, random_state=0)
    model.fit(images)
    operations = counted_products(lambda: getattr(model, method)(images))
    plan = clusterica.estimate(model, images.shape, method=method)
    assert 1 / 3 < plan.operations / operations < 3


@pytest.mark.parametrize("model", [KMeans(30, random_state=0), Whitener(), RICA(8)])
def test_counts_of_a_transform(model, rng):
    X = rng.normal(size=(3000, 12))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.set_params(**({"max_iter": 3} if hasattr(model, "max_iter") else {})).fit(X)
    operations = counted_products(lambda: model.transform(X))
    plan = clusterica.estimate(model, X.shape, method="transform")
    assert 1 / 3 < plan.operations / operations < 3


def test_cost_grows_with_the_problem():
    def plan(n, k, **settings):
        return clusterica.estimate(KMeans(k), (n, 100), n_iter=10, **settings)

    small, more_rows, more_clusters = plan(10**6, 100), plan(10**7, 100), plan(10**6, 1000)
    assert more_rows.bytes_read == 10 * small.bytes_read
    assert more_rows.seconds > 5 * small.seconds
    assert more_clusters.operations > 5 * small.operations
    assert plan(10**6, 100, dtype="float64").bytes_read == 2 * small.bytes_read
    assert clusterica.estimate(KMeans(100), (10**6, 100)).n_iter == 300


def test_a_start_takes_time(monkeypatch):
    """k-means++ took as long as 7 iterations (150,000 x 64, k = 400, one thread)."""
    monkeypatch.setattr(_estimate, "measure", lambda *_: Machine(products=1e11, bandwidth=1e10))

    def seconds(**settings):
        return clusterica.estimate(KMeans(400, max_iter=7, **settings), (150_000, 64)).seconds

    assert 4 / 3 < seconds() / seconds(init=np.ones((400, 64))) < 4


@pytest.mark.parametrize(
    ("grid", "regions", "n_cells"),
    [
        ((2, 3), (1, 1), 6),
        ([2, 3], (1, 1), 6),
        ([(1, 1), (2, 2), (4, 4)], (1, 1), 21),
        (((1, 1), (2, 2)), (2, 1), 10),
    ],
)
def test_memory_of_the_features_of_images(grid, regions, n_cells):
    class Mine(ImageFeatures):
        """A subclass does the same work."""

    def memory(model):
        return clusterica.estimate(model, (10_000, 20, 20), method="transform").memory

    one = memory(Mine(10, grid=(1, 1)))
    more = memory(Mine(10, grid=grid, regions=regions)) - one
    assert more == (n_cells - 1) * 10_000 * 2 * 10 * 4  # two codes for each filter, float32


@pytest.mark.parametrize("refine", ["ml", None])
def test_fewer_rows_to_cluster_cost_less(refine):
    some, more = (
        clusterica.estimate(ClusterICA(refine=refine, cluster_rows=n), (10**6, 20), n_iter=10)
        for n in (1000, 100_000)
    )
    assert some.operations < more.operations
    assert some.memory < more.memory


def test_memory_follows_the_budget():
    model, shape = RICA(1000), (10**7, 1000)
    with clusterica.config_context(memory="64MiB"):
        small = clusterica.estimate(model, shape).memory
    with clusterica.config_context(memory="1GiB"):
        large = clusterica.estimate(model, shape).memory
    assert large - small == 2**30 - 2**26


def test_memory_of_blocks_does_not_grow_with_the_rows():
    """A fit of K-means to 200,000 x 50 rows took 8 MiB, and 198 were estimated."""
    with clusterica.config_context(threads=2):
        few, many = (
            clusterica.estimate(KMeans(100, compute_labels=False), (n, 50)).memory
            for n in (200_000, 2_000_000)
        )
    assert few == many < 32 * 2**20


def test_rates_are_measured_once():
    assert measure("cpu", "float32") is measure("cpu", "float32")
    assert measure("cpu", "float32").products > 1e8
    assert measure("cpu", "float32").bandwidth > 1e7


def test_rates_of_tensors():
    pytest.importorskip("torch")
    assert clusterica.estimate(Whitener(), (1000, 10), device="cpu:0").seconds > 0


def test_printed():
    text = repr(clusterica.estimate(KMeans(1600), (10**9, 108), n_iter=10))
    assert text.startswith("KMeans.fit of 1,000,000,000 x 108 float32 on cpu\n  time ")
    assert "for 10 iterations" in text
    assert "TiB" in text


def test_bad_input():
    with pytest.raises(TypeError, match="no cost formula for LogisticRegression"):
        clusterica.estimate(LogisticRegression(), (10, 2))
    with pytest.raises(ValueError, match=r"shape=\(10,\) must be \(n_samples, n_features\)"):
        clusterica.estimate(KMeans(), (10,))
    with pytest.raises(ValueError, match=r"must be \(n_images, height, width, channels\)"):
        clusterica.estimate(ImageFeatures(), (10, 2))
    with pytest.raises(ValueError, match="method='predict' must be 'fit' or 'transform'"):
        clusterica.estimate(KMeans(), (10, 2), method="predict")
    with pytest.raises(ValueError, match="dtype='int32' must be"):
        clusterica.estimate(KMeans(), (10, 2), dtype="int32")
