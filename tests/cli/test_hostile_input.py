"""Files given to the command that are damaged, huge or no files: one line says what is wrong."""

import io
import json
import os
import zipfile

import numpy as np
import pytest

from clusterica.cli.inputs.images import open_images, read_labels
from clusterica.cli.inputs.tables import read_table


def npy(array):
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def zip_of(members):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as box:
        for name, content in members.items():
            # Without the time: these bytes are in the names of tests, which all workers must share.
            box.writestr(zipfile.ZipInfo(name), content)
    return out.getvalue()


def message_of(capsys, call):
    with pytest.raises((SystemExit, ValueError)) as stopped:
        call()
    return f"{capsys.readouterr().err}{stopped.value}"


IMAGES = npy(np.ones((2, 3, 3), np.uint8))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.zip", zip_of({".": b"x"}), "has no images in it"),
        ("a.zip", b"PK\5\6", "not a zip archive, or it is damaged"),
        ("a.zip", zip_of({"a.png": b"x"}).replace(b"a.png", b"\0.png"), "damaged"),
        (
            "a.zip",
            zip_of({"a.png": b"abcd"}).replace(b"abcd", b"abcx"),
            "can't be unpacked: Bad CRC",
        ),
        ("a.npz", zip_of({"images": b"no array"}), "is an array of shape"),
        ("a.npz", zip_of({"images.npy": IMAGES})[:-9], "can't be read as an array"),
        ("a.npz", zip_of({"images.npy": IMAGES, "labels.npy": npy(np.array(3))}), "can't be read"),
        (
            "a.npz",
            zip_of(
                {
                    "images.npy": IMAGES,
                    "labels.npy": npy(np.array([0, 7])),
                    "class_names.npy": npy(np.array(["x"])),
                }
            ),
            "index 7 is out of bounds",
        ),
        ("a.npy", b"\x93NUMPY\1\0\6\0({:\n  ", "can't be read as an array"),
    ],
)
def test_damaged_images(tmp_path, capsys, name, content, message):
    (tmp_path / name).write_bytes(content)
    found = message_of(capsys, lambda: open_images(str(tmp_path / name)).read())
    assert message in " ".join(found.split())


def test_an_archive_of_a_huge_image(tmp_path, capsys):
    path = tmp_path / "a.zip"
    content = bytearray(zip_of({"a.png": b"x"}))
    place = content.index(b"PK\1\2") + 24  # the size in the table of contents
    content[place : place + 4] = (2**31).to_bytes(4, "little")
    path.write_bytes(content)
    found = message_of(capsys, lambda: open_images(str(path)).read())
    assert "has 2,147,483,648 bytes, too many" in found


def test_a_few_bytes_that_state_many_images(tmp_path):
    zarr = pytest.importorskip("zarr")
    path = tmp_path / "a.zarr"
    zarr.create_array(str(path), shape=(2, 2, 2), dtype="f4", fill_value=3)
    text = json.loads((path / "zarr.json").read_text())
    text["shape"][0] = 10**12
    (path / "zarr.json").write_text(json.dumps(text))
    source = open_images(str(path))
    assert len(source.names) == 10**12
    assert source.names[10**9 : 10**9 + 2] == ["1000000000", "1000000001"]
    np.testing.assert_array_equal(source.read(10**9, 10**9 + 1), np.full((1, 2, 2), 3.0))


def test_a_shape_that_no_array_can_have(tmp_path, capsys):
    zarr = pytest.importorskip("zarr")
    path = tmp_path / "a.zarr"
    zarr.create_array(str(path), shape=(2, 2, 2), dtype="f4")
    text = json.loads((path / "zarr.json").read_text())
    text["shape"][0] = 10**30
    (path / "zarr.json").write_text(json.dumps(text))
    assert "more than an array can have" in message_of(capsys, lambda: open_images(str(path)))


def test_damaged_chunks(tmp_path, capsys):
    zarr = pytest.importorskip("zarr")
    path = tmp_path / "a.zarr"
    zarr.create_array(str(path), data=np.ones((2, 2, 2)))
    (path / "c/0/0/0").write_bytes(b"no chunk")
    found = message_of(capsys, lambda: open_images(str(path)).read())
    assert "can't be read from image 0" in found


@pytest.mark.parametrize(
    ("name", "content"),
    [("y.csv", b"\xff\xfe"), ("y.csv", b"x" * 200_000), ("y.npy", b"\x93NUMPY\1\0\6\0({:\n  ")],
)
def test_damaged_labels(tmp_path, capsys, name, content):
    (tmp_path / name).write_bytes(content)
    assert "can't be read as" in message_of(
        capsys, lambda: read_labels(tmp_path / name, ["a", "b"])
    )


def test_a_cell_that_is_too_long(tmp_path, capsys):
    (tmp_path / "a.csv").write_text("a,b\n1," + "2" * 200_000)
    assert "can't be read as CSV" in message_of(capsys, lambda: read_table(tmp_path / "a.csv"))


def test_parquet_columns_of_one_name_and_large_numbers(tmp_path):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"a": [2**62 + 1, 0], "b": ["x", "y"]}), path)
    table = read_table(path)
    np.testing.assert_array_equal(table.values, [[2.0**62], [0]])
    assert (table.names, table.dropped) == (("a",), ("b",))
    parquet.write_table(pa.Table.from_arrays([pa.array([1])] * 2, ["a", "a"]), path)
    assert read_table(path).names == ("a", "a")


def test_parquet_file_that_states_too_many_rows(tmp_path):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"a": np.arange(12345.0)}), path)
    content = path.read_bytes()
    start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    # The last of these fields is the number of rows of the row group; numbers are in groups of 7 bits.
    before, after = content[start:-8].rsplit(b"\x16" + _varint(2 * 12345), 1)
    footer = before + b"\x16" + _varint(2 * 2**33) + after
    path.write_bytes(content[:start] + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    assert parquet.ParquetFile(path).metadata.row_group(0).num_rows == 2**33
    np.testing.assert_array_equal(read_table(path).values[:, 0], np.arange(12345.0))
    # A table in one piece would take, or ask in vain for, 64 GiB.
    assert pa.default_memory_pool().max_memory() < 2**30


def _varint(number):
    rest, last = divmod(number, 128)
    return bytes([last]) if not rest else bytes([last + 128]) + _varint(rest)


@pytest.mark.parametrize("name", ["a.csv", "a.npy", "a.zip", "a.png", "a.parquet"])
def test_pipes_are_refused_at_once(tmp_path, capsys, name):
    os.mkfifo(tmp_path / name)
    images = name in ("a.npy", "a.zip", "a.png")
    found = message_of(
        capsys,
        lambda: open_images(str(tmp_path / name)) if images else read_table(tmp_path / name),
    )
    assert ("is not a regular file" if images else "can't be read as a table") in found
