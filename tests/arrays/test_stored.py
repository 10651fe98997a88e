"""Arrays in HDF5 and Zarr files are read by slices; labels may come in blocks."""

import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest

from clusterica import config_context
from clusterica.arrays import LazyRows, check_rows, map_reduce
from clusterica.cluster import KMeans
from clusterica.linear import LinearSVC
from clusterica.preprocessing import Whitener


def _h5(X, folder, chunks):
    h5py = pytest.importorskip("h5py")
    file = h5py.File(folder / "X.h5", "w")
    return file.create_dataset("X", data=X, chunks=chunks)


def _zarr(X, folder, chunks):
    zarr = pytest.importorskip("zarr")
    Z = zarr.create_array(
        str(folder / "X.zarr"), shape=X.shape, dtype=X.dtype, chunks=chunks or X.shape
    )
    Z[:] = X
    return Z


class Spy:
    """An array in a file that counts which rows are read."""

    def __init__(self, X, chunks):
        self.X, self.chunks, self.reads = X, chunks, []
        self.shape, self.dtype = X.shape, X.dtype

    def __getitem__(self, key):
        self.reads.append((key.start, key.stop))
        return self.X[key]


@pytest.fixture
def X(rng):
    return rng.standard_normal((2000, 5)).astype(np.float32)


@pytest.mark.parametrize("chunks", [None, (64, 5), (700, 2), (2000, 5)])
@pytest.mark.parametrize("store", [_h5, _zarr])
def test_the_rows_of_a_file(X, tmp_path, store, chunks, estimator, rng):
    stored = store(X, tmp_path, chunks)
    rows = check_rows(estimator, stored, reset=True)
    assert (rows.n_rows, rows.n_features, rows.dtype) == (2000, 5, np.float32)
    assert estimator.n_features_in_ == 5
    for size in (1, 100, 5000):
        parts = [(start, load()) for start, _, load in rows.blocks(size)]
        assert max(len(part) for _, part in parts) <= size
        np.testing.assert_array_equal(np.concatenate([part for _, part in parts]), X)
        assert parts[-1][0] + len(parts[-1][1]) == 2000
    some = np.sort(rng.choice(2000, size=30, replace=False))
    np.testing.assert_array_equal(rows.take(some), X[some])


@pytest.mark.parametrize("store", [_h5, _zarr])
def test_estimators_take_files(X, tmp_path, store):
    stored = store(X, tmp_path, (64, 5))
    right, found = (KMeans(3, random_state=0).fit(rows) for rows in (X, stored))
    np.testing.assert_allclose(found.cluster_centers_, right.cluster_centers_, rtol=1e-5)
    with config_context(memory="64KiB", lazy="auto"):
        whitener = Whitener().fit(stored)
        assert isinstance(whitener.transform(stored[:]), np.ndarray)
        small = whitener.transform(stored)
    assert isinstance(small, np.ndarray)  # 39 KiB
    with config_context(lazy=True):
        assert isinstance(whitener.transform(stored), LazyRows)


@pytest.mark.parametrize("chunk", [1, 7, 100, 999])
def test_no_row_is_read_twice_in_a_pass_and_none_beyond_a_block(X, chunk, estimator):
    stored = Spy(X, (chunk, 5))
    with config_context(memory="64KiB", threads=1):
        rows = check_rows(estimator, stored, reset=True)
        stored.reads.clear()
        total = map_reduce(lambda A: (A.sum(axis=0),), rows)[0]
    np.testing.assert_allclose(total, X.sum(axis=0), rtol=1e-4)
    reads = [(start, min(stop, 2000)) for start, stop in stored.reads]
    assert reads[0][0] == 0
    assert all(a[1] == b[0] and b[0] % chunk == 0 for a, b in pairwise(reads))
    # Two blocks in flight share the budget; a larger chunk is read as a whole.
    assert max(stop - start for start, stop in reads) <= max(chunk, 2**16 // (2 * 5 * 4))


def test_a_sample_is_read_in_blocks_within_the_budget(X, estimator):
    X = np.tile(X, 20)  # 781 KiB
    stored = Spy(X, (10, 100))
    with config_context(memory="64KiB"):
        rows = check_rows(estimator, stored, reset=True)
        stored.reads.clear()
        np.testing.assert_array_equal(rows.take(np.array([0, 1999])), X[[0, 1999]])
    assert max(stop - start for start, stop in stored.reads) <= 2**16 // (4 * 100)


@pytest.mark.parametrize("store", [_h5, _zarr])
def test_a_whole_file_is_not_an_array(X, tmp_path, store):
    stored = store(X, tmp_path, None)
    if store is _h5:
        group, name = stored.file, "X"
    else:
        zarr = pytest.importorskip("zarr")
        group, name = zarr.open_group(str(tmp_path / "group"), mode="w"), "rows"
        group.create_array(name, shape=X.shape, dtype=X.dtype)
    with pytest.raises(TypeError, match=rf"holds arrays by name \({name}\); pass one of them"):
        KMeans(2).fit(group)


def test_wrong_files_are_refused(X, tmp_path, estimator):
    X[7, 2] = np.nan
    with pytest.raises(ValueError, match="Input X contains NaN"):
        check_rows(estimator, Spy(X, (10, 5)), reset=True)
    with pytest.raises(ValueError, match="Expected 2D array, got 1D"):
        check_rows(estimator, Spy(X[:, 0], (10,)), reset=True)
    with pytest.raises(ValueError, match="dtype complex64; store it as float32"):
        check_rows(estimator, Spy(X.astype(np.complex64), (10, 5)), reset=True)
    estimator.n_features_in_ = 4
    with pytest.raises(ValueError, match="X has 5 features, but Estimator is expecting 4"):
        check_rows(estimator, Spy(np.ones((9, 5)), (10, 5)), reset=False)


def test_labels_in_blocks(X, blocks):
    y = np.where(X[:, 0] > 0, "up", "down")
    right = LinearSVC(C=1.0).fit(X, y)
    parts, labels = np.split(X, [300, 900]), np.split(y, [300, 900])
    for given in (labels, blocks(*labels), y):
        found = LinearSVC(C=1.0).fit(parts, given)
        np.testing.assert_allclose(found.coef_, right.coef_, rtol=1e-3, atol=1e-4)
    assert found.score(parts, labels) == right.score(X, y)


def test_labels_must_be_cut_as_the_rows_are(X):
    y = X[:, 0] > 0
    parts = np.split(X, [300, 900])
    with pytest.raises(ValueError, match="block 1 of X has 600 rows and that of y has 700 labels"):
        LinearSVC().fit(parts, np.split(y, [300, 1000]))
    with pytest.raises(ValueError, match="X has 3 blocks and y has 2"):
        LinearSVC().fit(parts, np.split(y, [300, 900])[:2])


MEASURE = """
import resource, sys
import numpy as np
import clusterica
from clusterica.cluster import KMeans
import h5py

with h5py.File(sys.argv[1]) as file, clusterica.config_context(memory="64MiB"):
    model = KMeans(4, max_iter=1, compute_labels=False, random_state=0)
    import warnings
    warnings.simplefilter("ignore")
    model.fit(np.random.default_rng(0).normal(size=(5000, 64)).astype(np.float32))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    model.fit(file["X"])
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="counts memory in units of Linux")
def test_a_large_file_is_read_within_the_budget(tmp_path):
    """2 GB in a sparse HDF5 file, where chunks that were never written take no space and read as zeros."""
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "X.h5"
    with h5py.File(path, "w") as file:
        X = file.create_dataset("X", shape=(8_000_000, 64), dtype="f4", chunks=(10_000, 64))
        for start in range(0, len(X), 1_000_000):
            X[start : start + 10_000] = np.random.default_rng(start).normal(size=(10_000, 64))
    command = [sys.executable, "-c", MEASURE, str(path)]
    grown = int(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
    assert grown < 2**26 + 2**26  # the budget, and the sample of the start with its copies
