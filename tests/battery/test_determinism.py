"""Same seed, same machine, same number of threads: same bits. Other threads or blocks: within rounding."""

import sys
import threading

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import clusterica
from clusterica.arrays import as_rows, map_reduce
from clusterica.cluster import KMeans
from clusterica.encoders import SparseEncoder
from clusterica.preprocessing import Whitener
from clusterica.rica import RICA

# Enough rows for several blocks on every number of threads.
X = np.random.default_rng(0).laplace(size=(20_000, 8)).astype(np.float32)
MODELS = {
    "Whitener": lambda: Whitener(eps=0.0),
    "KMeans": lambda: KMeans(5, max_iter=5, random_state=0),
    "RICA": lambda: RICA(6, max_iter=5, random_state=0),
    "SparseEncoder": lambda: SparseEncoder(np.eye(8)[:4]),
}


def fitted(name):
    """Return the output of a model, in this process or in a worker of joblib."""
    return MODELS[name]().fit(X).transform(X[:100])


pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.mark.parametrize("name", MODELS)
def test_the_same_bits_again(name):
    assert_array_equal(fitted(name), fitted(name))


def test_every_estimator_gives_the_same_bits_again(battery):
    """In blocks of a few rows, on three threads."""
    X = battery.shaped(np.random.default_rng().laplace(size=(300, 6)))
    # Kernels of all pairs of rows need more.
    memory = "8MiB" if "Kernel" in battery.name else "64KiB"
    with clusterica.config_context(threads=3, memory=memory):
        first, second = (battery.results(battery.fit(X), X) for _ in range(2))
    assert first.keys() == second.keys()
    for name, values in first.items():
        assert_array_equal(second[name], values, err_msg=name)


def test_the_same_bits_whatever_thread_ends_first():
    """Threads take turns at random: a block waits for the one after it, or does not."""
    rng, lock = np.random.default_rng(), threading.Lock()

    def slow_at_random(block):
        with lock:
            pause = rng.random() * 2e-3
        threading.Event().wait(pause)
        return (block.sum(axis=0),)

    with clusterica.config_context(threads=4):
        totals = [map_reduce(slow_at_random, as_rows(X))[0] for _ in range(5)]
    for total in totals[1:]:
        assert_array_equal(total, totals[0])


@pytest.mark.parametrize("memory", ["256KiB", "4MiB", "512MiB"])
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("name", MODELS)
def test_threads_and_blocks_change_the_last_bits_only(name, threads, memory):
    expected = fitted(name)
    with clusterica.config_context(threads=threads, memory=memory):
        found = fitted(name)
    assert_allclose(found, expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())


@pytest.mark.skipif(
    sys.platform == "win32", reason="workers can't import a test module by its path"
)
def test_workers_of_joblib_compute_with_one_thread():
    """So their bits are those of one thread here, and not of all of them."""
    with joblib.parallel_config("loky", n_jobs=2, inner_max_num_threads=1):
        found = joblib.Parallel()(
            joblib.delayed(joblib.wrap_non_picklable_objects(fitted))(n) for n in MODELS
        )
    with clusterica.config_context(threads=1):
        for name, output in zip(MODELS, found, strict=True):
            assert_array_equal(output, fitted(name), err_msg=name)
