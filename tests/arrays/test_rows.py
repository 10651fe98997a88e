"""Rows in every place give the same blocks, samples and batches."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from clusterica import config_context
from clusterica.arrays import (
    as_rows,
    block_size,
    check_rows,
    map_reduce,
    map_rows,
    shuffled_batches,
    to_host,
)
from clusterica.ops.assign import lloyd_sums
from clusterica.ops.rules import AXIS

ARRAYS = ["c-order", "f-order", "memmap", "csr-int32", "torch", "strict-device1"]
OTHERS = ["dask", "list", "re-iterable", "blocks-of-csr"]


def dense(block):
    block = to_host(block)
    return block.toarray() if sp.issparse(block) else block


def test_shape_and_dtype(rows, table, where):
    assert (rows.n_rows, rows.n_features) == table.shape
    assert rows.dtype == np.float64
    assert rows.sparse == ("csr" in where)


@pytest.mark.parametrize("size", [1, 97, 1499, 1500, 10**6])
def test_blocks_are_all_rows_in_order(rows, table, size):
    end = 0
    for start, stop, load in rows.blocks(size):
        assert start == end
        assert 0 < stop - start <= size
        np.testing.assert_array_equal(dense(load()), table[start:stop])
        end = stop
    assert end == rows.n_rows


def test_blocks_are_what_an_op_takes(rows, where):
    assert rows.place.is_numpy is not where.startswith("strict")
    for _, _, load in rows.blocks(100):
        block = load()
        if rows.sparse:
            assert block.format == "csr"
        elif rows.place.is_numpy:
            assert isinstance(block, np.ndarray)
            assert block.flags.c_contiguous
        assert to_host(block).dtype == rows.dtype


@pytest.mark.parametrize(
    "indices", [[0], [1499], [0, 1, 700, 1499], list(range(1500))], ids=lambda i: str(len(i))
)
def test_take(rows, table, indices):
    picked = rows.take(np.array(indices, dtype=np.int64))
    assert picked.dtype == rows.dtype
    assert sp.issparse(picked) == rows.sparse
    np.testing.assert_array_equal(dense(picked), table[indices])


def test_glance_reaches_both_ends(rows, table):
    few = dense(rows.glance(10))
    assert few.shape == (10, 5)
    np.testing.assert_array_equal(few[[0, -1]], table[[0, -1]])
    np.testing.assert_array_equal(dense(rows.glance(10**4)), table)


@pytest.mark.parametrize(
    "dtype",
    ["float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool", ">f4"],
)
@pytest.mark.parametrize("where", ["c-order", "f-order", "memmap", "dask", "list", "csr-int32"])
def test_every_dtype_keeps_its_values(place, estimator, where, dtype):
    if where == "csr-int32" and dtype in ("float16", ">f4"):
        pytest.skip("SciPy has no sparse matrix of this dtype")
    X = (np.arange(600).reshape(200, 3) % 101).astype(dtype)
    rows = check_rows(estimator, place(X, where), reset=True, accept_sparse=True)
    (total,) = map_reduce(lambda B: (np.asarray(B.sum(axis=0, dtype=np.float64)),), rows)
    np.testing.assert_array_equal(total, X.astype(np.float64).sum(axis=0))
    np.testing.assert_array_equal(dense(rows.take(np.arange(200))), X.astype(rows.dtype))


@pytest.mark.parametrize(
    ("dtype", "working"),
    [
        ("float64", "float64"),
        ("float32", "float32"),
        ("float16", "float32"),
        ("bfloat16", "float32"),
        ("uint8", "float32"),
        ("int64", "float64"),
        ("bool", "float32"),
    ],
)
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("on_device", [False, True])
def test_every_dtype_of_torch(monkeypatch, estimator, dtype, working, grad, on_device):
    torch = pytest.importorskip("torch")
    if on_device:  # take the way of a tensor in CUDA memory
        for module in ("_rows", "_place"):
            monkeypatch.setattr(f"clusterica.arrays.{module}.is_cpu_tensor", lambda X: False)
    X = torch.asarray(np.arange(600).reshape(200, 3) % 101).to(getattr(torch, dtype))
    if grad and not X.is_floating_point():
        pytest.skip("whole numbers have no gradient")
    rows = check_rows(estimator, X.requires_grad_(grad), reset=True)
    assert rows.dtype == working
    assert rows.place.is_numpy is not on_device
    (total,) = map_reduce(lambda B: (B.sum(0),), rows)
    assert on_device is not isinstance(total, np.ndarray)
    assert not getattr(total, "requires_grad", False)
    np.testing.assert_array_equal(total, to_host(X).astype(np.float64).sum(axis=0))
    np.testing.assert_array_equal(rows.take(np.array([3, 199])), to_host(X)[[3, 199]])
    assert not map_rows(lambda B: B[:, 0], rows).requires_grad


@pytest.mark.parametrize("where", ARRAYS)
def test_batches_of_arrays_are_shuffled(table, place, where):
    rows = as_rows(place(table, where))
    batches = list(shuffled_batches(rows, 400, np.random.default_rng(0)))
    assert [len(indices) for indices, _ in batches] == [400, 400, 400, 300]
    for indices, batch in batches:
        np.testing.assert_array_equal(dense(batch.take(np.arange(len(indices)))), table[indices])
    order = np.concatenate([indices for indices, _ in batches])
    np.testing.assert_array_equal(np.sort(order), np.arange(1500))
    assert np.ptp(batches[0][0]) > 1000
    again = [i for i, _ in shuffled_batches(rows, 400, np.random.default_rng(0))]
    np.testing.assert_array_equal(order, np.concatenate(again))


def test_batches_of_dask_arrays_are_those_of_the_array_if_it_is_kept(table, place):
    def indices_of(rows):
        return [list(i) for i, _ in shuffled_batches(rows, 400, np.random.default_rng(0))]

    expected = indices_of(as_rows(table))
    for (indices, batch), known in zip(
        shuffled_batches(as_rows(place(table, "dask")), 400, np.random.default_rng(0)),
        expected,
        strict=True,
    ):
        assert list(indices) == known
        assert batch.engine is not None
        np.testing.assert_array_equal(batch.take(np.arange(len(indices))), table[indices])
    larger = np.tile(table, (2, 1))
    with config_context(memory="64KiB"):  # it takes 120 kB
        order = np.concatenate(indices_of(as_rows(place(larger, "dask"))))
    assert order.tolist() == list(range(3000))


@pytest.mark.parametrize("where", OTHERS)
def test_batches_of_other_sources_come_in_order(table, place, estimator, where):
    rows = check_rows(estimator, place(table, where), reset=True, accept_sparse=True)
    if rows.indexable:
        pytest.skip("kept in memory")
    end = 0
    for indices, batch in shuffled_batches(rows, 200, np.random.default_rng(0)):
        assert 0 < len(indices) <= 200
        np.testing.assert_array_equal(indices, np.arange(end, end + len(indices)))
        np.testing.assert_array_equal(dense(batch.take(indices - end)), table[indices])
        end += len(indices)
    assert end == 1500


@pytest.mark.parametrize("where", ["c-order", "csr-int32", "torch"])
def test_batches_of_streamed_arrays_are_those_of_the_array(table, place, where):
    pytest.importorskip("torch")
    plain = as_rows(place(table, where))
    with config_context(device="cpu"):
        streamed = as_rows(place(table, where))
        batches = list(shuffled_batches(streamed, 400, np.random.default_rng(0)))
        for (indices, batch), (expected, _) in zip(
            batches, shuffled_batches(plain, 400, np.random.default_rng(0)), strict=True
        ):
            np.testing.assert_array_equal(indices, expected)
            np.testing.assert_array_equal(
                dense(batch.take(np.arange(len(indices)))), table[indices]
            )


@pytest.mark.parametrize("where", ["c-order", "list", "blocks-of-csr"])
def test_batches_of_streamed_rows_are_streamed(table, place, estimator, where):
    pytest.importorskip("torch")
    with config_context(device="cpu"):
        rows = check_rows(estimator, place(table, where), reset=True, accept_sparse=True)
        for _, batch in shuffled_batches(rows, 400, np.random.default_rng(0)):
            assert type(batch.place.put(table)) is type(rows.place.put(table))


def peak_of(call):
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float64"])
def test_arrays_are_not_copied_as_a_whole(estimator, rng, dtype):
    X = np.asfortranarray(rng.integers(0, 9, size=(100_000, 10)).astype(dtype))

    def walk():
        rows = check_rows(estimator, X, reset=True)
        map_reduce(lambda B: (B.sum(axis=0),), rows)

    with config_context(memory="256KiB", threads=1):
        walk()
        assert peak_of(walk) < 2**20


def test_wide_csr_is_never_dense(estimator, rng):
    """60 rows of a million columns: 480 MB if dense, a few kB as they are."""
    columns = rng.integers(0, 10**6, size=600)
    S = sp.csr_array((np.ones(600), (np.repeat(np.arange(60), 10), columns)), shape=(60, 10**6))
    C, weights = np.zeros((2, 10**6)), np.ones(60)
    C[1, columns[:10]] = 1

    def walk():
        rows = check_rows(estimator, S, reset=True, accept_sparse=True)
        sums = map_reduce(
            lambda *args: lloyd_sums(*args, rule=AXIS)[1], rows, C, None, aligned=(weights,)
        )
        assert sums.counts.sum() == 60
        assert sums.counts[1] >= 1

    with config_context(threads=2):
        assert peak_of(walk) < 240e6


def test_csr_blocks_are_sized_by_what_they_hold():
    """Blocks of a few rows would cost an array of the centres' size each."""
    S = sp.csr_array(([1.0], ([0], [0])), shape=(4000, 10**6))
    assert block_size(as_rows(S), row_bytes=0) >= 1000


def test_csr_blocks_are_few_where_their_sums_cost_more_than_their_rows():
    S = sp.random_array((20_000, 5000), density=0.001, format="csr", rng=0)
    with config_context(threads=2):
        # 5 products for each of 100 centres a row, and 500,000 sums for each block.
        assert block_size(as_rows(S), row_bytes=0, n_parameters=100 * 5000) == 10_000
        # Dense rows have 5,000 products for each centre.
        X = np.broadcast_to(np.float32(1), S.shape)
        assert block_size(as_rows(X), row_bytes=0, n_parameters=100 * 5000) == 2500


def test_blocks_are_worth_handing_out():
    X = np.zeros((20_000, 10), np.float32)
    with config_context(threads=2):
        assert block_size(as_rows(X), row_bytes=0, n_parameters=20) == 20_000
        assert block_size(as_rows(X), row_bytes=0, n_parameters=10_000) == 2500
        assert block_size(as_rows(X[:1500]), row_bytes=0, n_parameters=10_000) == 750
    with config_context(threads=2, memory=2**20):
        assert block_size(as_rows(X), row_bytes=1000, n_parameters=20) < 350


@pytest.mark.parametrize("container", [sp.csc_array, sp.coo_matrix, sp.bsr_array])
def test_blocks_of_other_sparse_formats(table, estimator, container):
    rows = check_rows(estimator, [container(table)], reset=True, accept_sparse=True)
    np.testing.assert_array_equal(dense(rows.take(np.array([0, 999]))), table[[0, 999]])


def test_blocks_of_data_frames(table, estimator):
    pd = pytest.importorskip("pandas")
    rows = check_rows(estimator, [pd.DataFrame(table), pd.DataFrame(table)], reset=True)
    np.testing.assert_array_equal(rows.take(np.array([0, 1500])), table[[0, 0]])


def test_unknown_dask_chunks(table):
    da = pytest.importorskip("dask.array")
    X = da.from_array(table, chunks=(300, 2))
    X = X[X[:, 0] > 3]
    with pytest.raises(ValueError, match=r"call X\.compute_chunk_sizes\(\) first"):
        as_rows(X)
    X.compute_chunk_sizes()
    kept = table[table[:, 0] > 3]
    np.testing.assert_array_equal(as_rows(X).take(np.arange(len(kept))), kept)


def test_empty_dask_chunks(table):
    da = pytest.importorskip("dask.array")
    X = da.from_array(table, chunks=(300, 5))[da.from_array(np.arange(1500) >= 700, chunks=300)]
    X.compute_chunk_sizes()
    assert 0 in X.chunks[0]
    rows = as_rows(X)
    (total,) = map_reduce(lambda B: (B.sum(axis=0),), rows)
    np.testing.assert_array_equal(total, table[700:].sum(axis=0))
    np.testing.assert_array_equal(map_rows(lambda B: B[:, 1], rows).compute(), table[700:, 1])
