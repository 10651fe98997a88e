"""Parquet files are read in blocks."""

import numpy as np
import pytest

from clusterica.cluster import KMeans
from clusterica.datasets import _parquet, open_parquet
from clusterica.preprocessing import Whitener

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def X(rng):
    return rng.standard_normal((1000, 4))


@pytest.fixture
def path(X, tmp_path):
    path = tmp_path / "part-0.parquet"
    names = [f"x{i}" for i in range(4)]
    table = pa.table({name: X[:, i] for i, name in enumerate(names)} | {"label": ["a"] * len(X)})
    pq.write_table(table, path, row_group_size=300)
    return path


def test_blocks_are_the_rows(X, path, monkeypatch):
    monkeypatch.setattr(_parquet, "_BLOCK_BYTES", 128 * 3 * 8)
    blocks = open_parquet(path, columns=["x2", "x0", "x1"])
    parts = list(blocks)
    assert blocks.shape == (1000, 3)
    assert len(blocks) == 1000
    assert max(len(part) for part in parts) == 128
    np.testing.assert_array_equal(np.concatenate(parts), X[:, [2, 0, 1]])


@pytest.mark.parametrize("row_group_size", [20_000, 200_000])
def test_memory_is_that_of_blocks(row_group_size, tmp_path, rng, monkeypatch):
    X = rng.standard_normal((200_000, 16))
    table = pa.table({"v": pa.FixedSizeListArray.from_arrays(X.ravel(), 16)})
    pq.write_table(table, tmp_path / "X.parquet", row_group_size=row_group_size)
    monkeypatch.setattr(_parquet, "_BLOCK_BYTES", 2**18)
    del table
    before = pa.total_allocated_bytes()
    most = max(pa.total_allocated_bytes() for _ in open_parquet(tmp_path / "X.parquet")) - before
    assert most < X.nbytes / 4


def test_estimators_take_them(X, path):
    blocks = open_parquet(path, columns=["x0", "x1", "x2", "x3"])
    right = KMeans(3, random_state=0).fit(X)
    found = KMeans(3, random_state=0).fit(blocks)
    np.testing.assert_allclose(found.cluster_centers_, right.cluster_centers_, atol=1e-9)
    np.testing.assert_array_equal(found.predict(blocks), right.predict(X))


def test_a_folder_and_lists_of_a_fixed_size(tmp_path, rng):
    X = rng.standard_normal((500, 7)).astype(np.float32)
    for i, part in enumerate(np.split(X, 2)):
        vectors = pa.FixedSizeListArray.from_arrays(part[:, :6].ravel(), 6)
        pq.write_table(pa.table({"v": vectors, "flag": part[:, 6] > 0}), tmp_path / f"{i}.parquet")
    blocks = open_parquet(tmp_path)
    assert (blocks.shape, blocks.dtype) == ((500, 7), np.float32)
    X[:, 6] = X[:, 6] > 0
    np.testing.assert_array_equal(np.concatenate(list(blocks)), X)
    assert Whitener().fit(blocks).mean_.dtype == np.float32


def test_what_can_not_be_read_is_named(path, tmp_path):
    with pytest.raises(ValueError, match=r"column 'label' of .* has type string"):
        open_parquet(path)
    with pytest.raises(ValueError, match="has no column 'z'"):
        open_parquet(path, columns=["z"])
    with pytest.raises(ValueError, match="columns='x0' must be a list"):
        open_parquet(path, columns="x0")
    with pytest.raises(FileNotFoundError, match="not a Parquet file"):
        open_parquet(tmp_path / "other")
    (tmp_path / "text").write_text("no Parquet")
    with pytest.raises(ValueError, match="not a Parquet file, or is damaged"):
        open_parquet(tmp_path / "text")
    pq.write_table(pa.table({"a": [1.0, None]}), tmp_path / "gaps")
    with pytest.raises(ValueError, match=r"column 'a' of .* has missing values"):
        list(open_parquet(tmp_path / "gaps"))
    pq.write_table(pa.Table.from_arrays([pa.array([1.0])] * 2, ["a", "a"]), tmp_path / "twins")
    with pytest.raises(ValueError, match="each needs a name of its own"):
        open_parquet(tmp_path / "twins")
    (tmp_path / "folder").mkdir()
    for i, names in enumerate(["ab", "a"]):
        pq.write_table(pa.table({n: [1.0] for n in names}), tmp_path / "folder" / f"{i}.parquet")
    with pytest.raises(ValueError, match=r"no column 'b'"):
        open_parquet(tmp_path / "folder")


def test_damage_is_a_value_error_wherever_it_is(path):
    content = path.read_bytes()
    n_damaged = 0
    for place in np.random.default_rng().integers(4, len(content), 100):
        changed = bytearray(content)
        changed[place : place + 8] = b"\xff" * 8
        path.write_bytes(changed)
        try:
            list(open_parquet(path, columns=["x0", "x1"]))
        except ValueError:
            n_damaged += 1
    assert n_damaged
