"""The walk gives what a plain loop over rows gives, in every place and with all settings."""

import os
import subprocess
import sys
import threading
import time
from contextlib import closing, nullcontext
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from clusterica import config_context, get_config
from clusterica.arrays import (
    Row,
    as_rows,
    check_rows,
    device_of,
    in_order,
    map_reduce,
    map_rows,
    map_rows_reduce,
    namespace_of,
    row_bytes_of,
    to_host,
    working_memory,
)
from clusterica.ops.moments import about_mean, moments

SETTINGS = [
    {},
    {"threads": 1},
    {"memory": "64KiB", "threads": 1},
    {"memory": "64KiB", "threads": 2},
    {"memory": "64KiB", "threads": 5},
]
P = np.array([1.0, -2.0, 0.0, 3.0, 5.0])


class Sums(NamedTuple):
    weighted: object
    weight: object


def both(X, p, w):
    """Return x p of every row, the sum of w x, the sum of w: in any library."""
    return X @ p, Sums(X.T @ w, namespace_of(w).sum(w))


def loop(X, p, weights):
    per_row, weighted = [], np.zeros(X.shape[1])
    for x, w in zip(X, weights, strict=True):
        per_row.append(x @ p)
        weighted += w * x
    return np.array(per_row), weighted


@pytest.fixture
def weights(table):
    return (np.arange(len(table)) % 7).astype(np.float64)


def needs(row_bytes, fn):
    """The function, which says that it needs so much memory for each row."""
    return working_memory(lambda row, *params: row_bytes)(fn)


def in_library_of(result, source):
    """Whether the result is in the library and on the device of the source; NumPy if it has none."""
    if isinstance(source, list) or not hasattr(source, "shape") or hasattr(source, "tocsr"):
        return type(result) is np.ndarray
    expected = np.ndarray if isinstance(source, np.ndarray) else type(source)
    return type(result) is expected and device_of(result) == device_of(source)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("row_bytes", [0, 3000])
def test_walk_gives_what_a_loop_gives(rows, table, weights, settings, row_bytes):
    expected_rows, expected_sum = loop(table, P, weights)
    with config_context(**settings):
        fn = needs(row_bytes, lambda *args: both(*args))
        per_row, total = map_rows_reduce(fn, rows, P, aligned=(weights,))
    assert isinstance(total, Sums)
    assert all(str(s.dtype).endswith("float64") for s in total)
    np.testing.assert_array_equal(to_host(per_row), expected_rows)
    np.testing.assert_array_equal(to_host(total.weighted), expected_sum)
    assert float(total.weight) == weights.sum()


def test_results_are_where_the_data_is(table, where, place, estimator):
    source = place(table, where)
    rows = check_rows(estimator, source, reset=True, accept_sparse=True)
    per_row = map_rows(lambda X, p: X @ p, rows, P)
    assert in_library_of(per_row, source)
    assert per_row.shape == (1500,)


def test_either_part_may_be_missing(rows, table):
    per_row, nothing = map_rows_reduce(lambda X, p: (X @ p, None), rows, P)
    assert nothing is None
    np.testing.assert_array_equal(to_host(per_row), table @ P)
    nothing, (total,) = map_rows_reduce(lambda X, p: (None, (X.T @ (X @ p),)), rows, P)
    assert nothing is None
    np.testing.assert_array_equal(to_host(total), table.T @ table @ P)


def test_numbers_of_python_are_summed(rows, table):
    count, share = map_reduce(lambda X: (X.shape[0], X.shape[0] / 4), rows)
    assert (float(count), float(share)) == (1500.0, 375.0)


def test_missing_parameters_stay_missing(rows, table):
    def fn(X, nothing, p):
        assert nothing is None
        return X @ p

    np.testing.assert_array_equal(to_host(map_rows(fn, rows, None, P)), table @ P)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_aligned_arrays_are_cut_as_the_rows_are(rows, table, settings):
    """The first feature is the number of the row."""
    first, numbers = np.eye(5)[0], table[:, 0].copy()
    with config_context(**settings):
        gap = map_rows(
            lambda X, e, a, b: X @ e - a + b - a, rows, first, aligned=(numbers, numbers)
        )
    np.testing.assert_array_equal(to_host(gap), np.zeros(1500))


def test_dask_stays_lazy(table):
    da = pytest.importorskip("dask.array")
    computed = []

    def watched(block):
        computed.append(len(block))
        return block

    X = da.from_array(table, chunks=(300, 2)).map_blocks(watched, meta=np.empty((0, 0)))
    result = map_rows(lambda B: B[:, :3], as_rows(X))
    assert isinstance(result, da.Array)
    assert result.shape == (1500, 3)
    assert not computed
    np.testing.assert_array_equal(result.compute(), table[:, :3])
    assert computed


# --- Settings --------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["c-order", "torch", "strict-device1", "dask", "list"])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("row_bytes", [0, 1000])
def test_blocks_in_flight_fit_the_memory_budget(place, estimator, where, threads, row_bytes):
    X = np.ones((5000, 16))
    rows = check_rows(estimator, place(X, where), reset=True)
    sizes = []

    def fn(B, p):
        sizes.append(B.shape[0])
        return (p,)

    with config_context(memory="128KiB", threads=threads):
        map_reduce(needs(row_bytes, fn), rows, P)
    in_flight = threads if rows.place.is_numpy and where != "dask" else 1
    assert max(sizes) * in_flight * (row_bytes + 16 * 8) <= 128 * 1024
    assert max(sizes) >= 10
    assert sum(sizes) == 5000


def test_rows_larger_than_the_budget_come_one_by_one(rng):
    X = rng.standard_normal((7, 20_000))
    sizes = []
    with config_context(memory="64KiB", threads=2):
        (total,) = map_reduce(lambda B: (sizes.append(len(B)) or B.sum(axis=0),), as_rows(X))
    assert sizes == [1] * 7
    np.testing.assert_allclose(total, X.sum(axis=0))


def test_blocks_of_an_iterable_are_asked_for_as_they_are_used(estimator):
    threads, ahead, done = 2, [], []

    class Source:
        def __iter__(self):
            for i in range(200):
                ahead.append(i - len(done))
                yield np.ones((10, 3))

    rows = check_rows(estimator, Source(), reset=True)
    ahead.clear()
    with config_context(threads=threads, memory="64KiB"):
        fn = needs(1000, lambda B: (done.append(time.sleep(1e-4)) or B.sum(axis=0),))
        map_reduce(fn, rows)
    assert len(done) == 200
    assert max(ahead) <= threads + 2


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("where", ["c-order", "csr-int32", "dask", "list"])
def test_same_settings_give_the_same_bits(rng, place, estimator, where, dtype):
    X = rng.standard_normal((20_000, 6)).astype(dtype)
    rows = check_rows(estimator, place(X, where), reset=True, accept_sparse=True)
    weights = rng.random(20_000).astype(dtype)

    def fn(B, w):  # blocks end in an order of their own
        time.sleep(abs(hash(float(w[0]))) % 5 * 1e-4)
        return (B.T @ w,)

    with config_context(threads=4, memory="256KiB"):
        results = [map_reduce(fn, rows, aligned=(weights,))[0].tobytes() for _ in range(4)]
    assert len(set(results)) == 1


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("memory", ["64KiB", "512MiB"])
def test_settings_change_no_more_than_rounding(rng, threads, memory):
    X = rng.standard_normal((20_000, 6))
    with config_context(threads=threads, memory=memory):
        (total,) = map_reduce(lambda B: (B.T @ B,), as_rows(X))
    np.testing.assert_allclose(total, X.T @ X, rtol=1e-11, atol=1e-9)


def test_rows_keep_their_order_when_blocks_do_not(table):
    def fn(B):
        time.sleep(0.02 if B[0, 0] == 0 else 0)
        return B[:, 1]

    with config_context(memory="64KiB", threads=3):
        result = map_rows(needs(1000, fn), as_rows(table))
    np.testing.assert_array_equal(result, table[:, 1])


class Scaled:
    factor = 2

    @working_memory(lambda self, row, W: self.factor * row.itemsize * (row.n_features + len(W)))
    def responses(self, X, W):
        return X @ W.T


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_an_op_states_its_memory_wherever_it_is_wrapped(dtype):
    itemsize, W = np.dtype(dtype).itemsize, np.ones((4, 6))
    row = Row(6, itemsize, 6 * itemsize, is_numpy=True)
    op = Scaled().responses
    expected = 2 * itemsize * 10
    assert row_bytes_of(op, row, (W,)) == expected
    assert row_bytes_of(partial(op), row, (W,)) == expected
    assert row_bytes_of(partial(op, W), row, ()) == expected
    assert row_bytes_of(len, row, ()) == 16 * 6


# --- Faults ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["c-order", "csr-int32", "torch", "strict", "dask", "list"])
@pytest.mark.parametrize("threads", [1, 3])
def test_errors_of_the_function_come_through(table, place, estimator, where, threads):
    rows = check_rows(estimator, place(table, where), reset=True, accept_sparse=True)
    calls = []

    def fn(B, p):
        calls.append(B.shape)
        if len(calls) == 5:
            raise ZeroDivisionError("in block")
        return B @ p, (B.T @ (B @ p),)

    with config_context(memory="64KiB", threads=threads):
        with pytest.raises(ZeroDivisionError, match="in block"):
            map_rows_reduce(needs(5000, fn), rows, P)
        # The next walk is not disturbed.
        again = map_rows(needs(5000, lambda B, p: B @ p), rows, P)
    np.testing.assert_array_equal(to_host(again), table @ P)


@pytest.mark.parametrize("threads", [1, 3])
def test_errors_of_the_source_come_through(estimator, threads):
    class Source:
        walks = 0

        def __iter__(self):
            self.walks += 1
            for i in range(20):
                if self.walks > 1 and i == 13:
                    raise OSError("disk gone")
                yield np.ones((100, 2))

    rows = check_rows(estimator, Source(), reset=True)
    with config_context(threads=threads), pytest.raises(OSError, match="disk gone"):
        map_reduce(lambda B: (B.sum(axis=0),), rows)


@pytest.mark.parametrize("second", [90, 99, 101, 110, 500])
@pytest.mark.parametrize("threads", [1, 3])
def test_another_number_of_rows_on_the_second_walk(estimator, second, threads):
    class Source:
        n_rows = 100

        def __iter__(self):
            n, self.n_rows = self.n_rows, second
            yield from np.split(np.ones((n, 2)), range(10, n, 10))

    rows = check_rows(estimator, Source(), reset=True)
    message = "gave 100 rows on the first pass and .* must give the same blocks each time"
    with config_context(threads=threads), pytest.raises(ValueError, match=message):
        map_rows(lambda B, w: B[:, 0] * w, rows, aligned=(np.ones(100),))


# --- Threads ---------------------------------------------------------------------------------------


def blas_threads():
    return [
        library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"
    ]


@pytest.fixture
def two_blas_threads():
    """Two BLAS threads, also on a machine with one core."""
    with threadpool_limits(2, user_api="blas"):
        if 2 not in blas_threads():
            pytest.skip("this BLAS has one thread")
        yield


@pytest.mark.usefixtures("two_blas_threads")
@pytest.mark.parametrize("fails", [False, True])
def test_blas_has_one_thread_in_workers_and_all_afterwards(fails):
    inside = []

    def fn(B):
        inside.extend(blas_threads())
        if fails:
            raise ArithmeticError
        return (B.sum(axis=0),)

    error = pytest.raises(ArithmeticError) if fails else nullcontext()
    with config_context(threads=3, memory="64KiB"), error:
        map_reduce(fn, as_rows(np.ones((5000, 2))))
    assert set(inside) == {1}
    assert 2 in blas_threads()


OVERLAPPING_FITS = """
import os
import subprocess
import sys
import threading
import numpy, scipy.linalg  # so that both BLAS libraries are there
from threadpoolctl import threadpool_info, threadpool_limits
from clusterica.arrays import one_blas_thread

def blas_threads():
    return [lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"]

first_began, second_began, first_ended = (threading.Event() for _ in range(3))

def first():
    with one_blas_thread():
        first_began.set()
        second_began.wait(60)
    first_ended.set()

def second():
    first_began.wait(60)
    with one_blas_thread():
        second_began.set()
        first_ended.wait(60)

threadpool_limits(2, user_api="blas")
before = blas_threads()
fits = [threading.Thread(target=f) for f in (first, second)]
for fit in fits:
    fit.start()
for fit in fits:
    fit.join()
assert blas_threads() == before, (before, blas_threads())
"""


def test_blas_limits_of_fits_that_overlap_in_two_threads():
    """The first to begin is the first to end, as happens when a user fits in threads.

    In a process of its own: after an error Dask leaves tasks of earlier tests running in threads.
    """
    done = subprocess.run(
        [sys.executable, "-c", OVERLAPPING_FITS], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def slow_sums(seen):
    @working_memory(lambda row: 1000)
    def fn(B):
        seen.add(threading.get_ident())
        time.sleep(1e-3)
        return (B.sum(axis=0),)

    return fn


def test_all_walks_share_the_same_workers(table):
    seen = set()
    with config_context(threads=2, memory="64KiB"):
        for _ in range(3):
            map_reduce(slow_sums(seen), as_rows(table))
    assert len(seen) == 2
    assert threading.get_ident() not in seen


def test_a_walk_inside_a_worker_runs_there_and_sees_the_settings(table):
    def walk(i):
        seen = set()
        map_reduce(slow_sums(seen), as_rows(table))
        return seen == {threading.get_ident()}, get_config()["memory"]

    with config_context(threads=2, memory="64KiB"):
        assert list(in_order(walk, ((i,) for i in range(8)))) == [(True, 2**16)] * 8


def test_tasks_are_made_one_by_one_and_those_that_wait_are_cancelled():
    made, run = [], []

    def tasks():
        for i in range(100):
            made.append(i)
            yield (i,)

    with config_context(threads=2), closing(in_order(run.append, tasks())) as results:
        next(results)
        assert len(made) <= 4
    assert len(run) <= 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # fork with threads
def test_a_forked_child_has_workers_of_its_own(table):
    with config_context(threads=2):
        list(in_order(abs, ((i,) for i in range(8))))
        child = os.fork()
        if child == 0:
            same = list(in_order(abs, ((i,) for i in range(8)))) == list(range(8))
            os._exit(0 if same else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_one_thread_and_one_block_stay_in_this_thread(table):
    seen = set()

    @working_memory(lambda row: 1000)
    def fn(B):
        seen.add(threading.get_ident())
        return (B.sum(axis=0),)

    with config_context(threads=1, memory="64KiB"):
        map_reduce(fn, as_rows(table))
    with config_context(threads=4):
        map_reduce(fn, as_rows(table[:100]))
    assert seen == {threading.get_ident()}


# --- Devices ---------------------------------------------------------------------------------------


def test_streaming_gives_the_same(rows, table, weights, where, place, estimator, warn_always):
    torch = pytest.importorskip("torch")
    source = place(table, where)
    with config_context(device="cpu", memory="64KiB"):
        streamed = check_rows(estimator, source, reset=True, accept_sparse=True)
        seen = set()

        def fn(X, p, w):
            seen.add(type(X))
            return both(X, p, w)

        per_row, total = map_rows_reduce(fn, streamed, P, aligned=(weights,))
    expected_rows, expected_sum = loop(table, P, weights)
    np.testing.assert_array_equal(to_host(per_row), expected_rows)
    np.testing.assert_array_equal(to_host(total.weighted), expected_sum)
    # What is on a device stays there, the rest goes through torch and comes back.
    assert seen == {type(source) if where.startswith("strict") else torch.Tensor}
    assert in_library_of(per_row, source)
    assert (streamed.n_rows, streamed.n_features) == (rows.n_rows, rows.n_features)
    # Sums are where parameters are, so that the next parameters can be made of both.
    assert type(total.weighted) is type(streamed.place.put(P))


def test_streamed_dask_stays_lazy(table, place):
    pytest.importorskip("torch")
    with config_context(device="cpu"):
        result = map_rows(lambda X: X[:, :2], as_rows(place(table, "dask")))
    assert hasattr(result, "dask")
    np.testing.assert_array_equal(result.compute(), table[:, :2])


@pytest.mark.parametrize("device", ["cuda", "nonsense", "cuda:99"])
def test_devices_that_are_not_there(table, estimator, device):
    torch = pytest.importorskip("torch")
    if device == "cuda" and torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with config_context(device=device):
        with pytest.raises(ValueError, match=f"device='{device}' can't be used: ."):
            as_rows(table)
        with pytest.raises(ValueError, match=f"device='{device}' can't be used: ."):
            check_rows(estimator, table, reset=True)


def test_a_device_needs_torch(table, estimator, uninstalled):
    uninstalled("torch")
    message = r"device='cuda' needs PyTorch; install it with: pip install 'clusterica\[torch\]'"
    with config_context(device="cuda"), pytest.raises(ImportError, match=message):
        check_rows(estimator, table, reset=True)
    assert check_rows(estimator, table, reset=True).n_rows == 1500


# --- Accuracy --------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_rows", [200_000, pytest.param(5_000_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("offset", [0, 1, 100])
def test_float32_moments_are_as_good_as_the_data(rng, n_rows, offset):
    """Relative to the spread, which is 1; the rows lie up to a hundred spreads from the origin."""
    X = rng.standard_normal((n_rows, 4), dtype=np.float32) + np.float32(offset)
    rows = as_rows(X)
    about = rows.glance().mean(axis=0, dtype=np.float64).astype(np.float32)
    n, mean, second = about_mean(map_reduce(moments, rows, about), about.astype(np.float64))
    exact = X.astype(np.float64)
    np.testing.assert_allclose(mean, exact.mean(axis=0), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(second / (n - 1), np.cov(exact.T), rtol=1e-6, atol=1e-6)


def test_blocks_are_added_up_in_float64():
    """Thousands of block sums; added up in float32 they are off by 1e-4."""
    X = np.full((50_000, 2), 0.1, dtype=np.float32)
    with config_context(memory="64KiB", threads=1):
        (total,) = map_reduce(
            needs(6000, lambda B: (B.sum(axis=0, dtype=np.float64).astype(np.float32),)),
            as_rows(X),
        )
    np.testing.assert_allclose(total, 50_000 * np.float64(X[0, 0]), rtol=1e-7)


@pytest.mark.parametrize("n_chunks", [1, 2, 8, 9, 65])
def test_dask_adds_every_chunk_once(n_chunks):
    da = pytest.importorskip("dask.array")
    X = np.random.default_rng().integers(-9, 9, size=(130, 3)).astype(np.float64)
    rows = as_rows(da.from_array(X, chunks=(130 // n_chunks, 3)))
    total = map_reduce(lambda A: (A.sum(axis=0), A.T @ A), rows)
    np.testing.assert_array_equal(total[0], X.sum(axis=0))
    np.testing.assert_array_equal(total[1], X.T @ X)
