"""Readers return what the official formats say, and name the file that is not as it should be."""

import hashlib
import os
import pickle
import struct
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest

from clusterica.datasets import (
    _cifar,
    _stl,
    data_folder,
    load_cifar10,
    load_digits_images,
    load_fashion_mnist,
    load_mnist,
    load_stl10,
)

N = 4  # images in each file


@pytest.fixture
def fresh():
    return np.random.default_rng()


# --- Writers of the official formats, pixel by pixel ---------------------------------------------


def cifar_record(image, label):
    """A byte for the label, then the red, green and blue plane, each row after row."""
    planes = [bytes(image[row, :, c]) for c in range(3) for row in range(32)]
    return bytes([label]) + b"".join(planes)


def write_cifar(folder, rng):
    """Write six binary batches; return their images and labels by name."""
    folder.mkdir(parents=True)
    truth = {}
    for name in [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]:
        images = rng.integers(256, size=(N, 32, 32, 3), dtype=np.uint8)
        labels = rng.integers(10, size=N)
        records = [cifar_record(*pair) for pair in zip(images, labels, strict=True)]
        (folder / f"{name}.bin").write_bytes(b"".join(records))
        truth[name] = images, labels
    return truth


def python2_pickle(batch):
    """Pickle a batch as Python 2 did, protocol 2: text is bytes, arrays go by numpy.core.multiarray."""

    def put(value):
        match value:
            case dict():
                return b"}(" + b"".join(put(k) + put(v) for k, v in value.items()) + b"u"
            case list():
                return b"](" + b"".join(map(put, value)) + b"e"
            case bytes() if len(value) < 256:
                return b"U" + bytes([len(value)]) + value
            case bytes():
                return b"T" + struct.pack("<i", len(value)) + value
            case int():
                return b"J" + struct.pack("<i", value)
            case np.ndarray():
                dtype = (
                    b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNN"
                    + 2 * put(-1)
                    + b"K\x00tb"
                )
                shape = b"".join(map(put, value.shape)) + b"\x86"
                made = (
                    b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
                )
                return made + b"(K\x01" + shape + dtype + b"\x89" + put(value.tobytes()) + b"tb"

    return b"\x80\x02" + put(batch) + b"."


def to_python_version(binary, folder):
    """Write the batches of a binary folder as pickles."""
    folder.mkdir(parents=True)
    for file in binary.glob("*.bin"):
        records = np.fromfile(file, np.uint8).reshape(-1, 3073)
        batch = {
            b"batch_label": b"a batch",
            b"labels": records[:, 0].tolist(),
            b"data": np.ascontiguousarray(records[:, 1:]),
            b"filenames": [b"a.png"] * len(records),
        }
        (folder / file.stem).write_bytes(python2_pickle(batch))


def pack(folder, archive):
    """Make a tar.gz as the official ones are: one folder, its files in no particular order."""
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(folder, arcname=folder.name, recursive=False)
        for file in sorted(folder.iterdir(), key=lambda file: file.name[::-1]):
            tar.add(file, arcname=f"{folder.name}/{file.name}")
    return archive


def write_stl(folder, rng):
    """Write planes of columns; return images, labels (from 0) and folds."""
    folder.mkdir(parents=True)
    truth = {}
    for part, n in {"train": N, "test": N + 1, "unlabeled": N + 2}.items():
        images = rng.integers(256, size=(n, 96, 96, 3), dtype=np.uint8)
        columns = [bytes(i[:, col, c]) for i in images for c in range(3) for col in range(96)]
        (folder / f"{part}_X.bin").write_bytes(b"".join(columns))
        labels = rng.integers(10, size=n)
        if part != "unlabeled":
            (folder / f"{part}_y.bin").write_bytes(bytes(label + 1 for label in labels))
        truth[part] = images, labels
    folds = [rng.permutation(N)[:3] for _ in range(10)]
    lines = [" ".join(map(str, fold)) + " \n" for fold in folds]
    (folder / "fold_indices.txt").write_text("".join(lines))
    return truth, folds


def same(found, images, labels):
    assert np.array_equal(found.images, images)
    assert found.images.dtype == np.uint8
    assert np.array_equal(found.labels, labels)
    assert found.labels.dtype == np.int64


def joined(truth, names):
    return (np.concatenate([truth[name][part] for name in names]) for part in (0, 1))


# --- CIFAR-10 ------------------------------------------------------------------------------------

SPLITS = {"train": [f"data_batch_{i}" for i in range(1, 6)], "test": ["test_batch"]}
SPLITS["all"] = SPLITS["train"] + SPLITS["test"]


@pytest.fixture
def cifar(tmp_path, fresh):
    folder = tmp_path / "cifar-10-batches-bin"
    return folder, write_cifar(folder, fresh)


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("form", ["binary", "python"])
def test_cifar_from_folder_and_archive(cifar, tmp_path, split, form):
    folder, truth = cifar
    if form == "python":
        binary, folder = folder, tmp_path / "there" / "cifar-10-batches-py"
        to_python_version(binary, folder)
    archive = pack(folder, tmp_path / "some-name.tar.gz")
    for path in (folder, str(folder.parent), archive):
        found = load_cifar10(path, split=split, verify=False)
        same(found, *joined(truth, SPLITS[split]))
        assert len(found.class_names) == 10
        assert found.folds is None


def test_archives_in_a_folder_are_found_by_their_official_names(cifar, tmp_path):
    folder, truth = cifar
    (tmp_path / "new").mkdir()
    pack(folder, tmp_path / "new" / "cifar-10-binary.tar.gz")
    same(load_cifar10(tmp_path / "new", split="test", verify=False), *truth["test_batch"])


def test_cifar_images_are_a_view_of_the_records_and_may_be_written_to(cifar):
    images = load_cifar10(cifar[0], verify=False).images
    assert images.strides == (3073, 32, 1, 1024)
    images[0, 0, 0, 0] = 7


def test_a_pickle_of_python_3_is_read(cifar, tmp_path):
    images, labels = cifar[1]["test_batch"]
    data = np.ascontiguousarray(images.transpose(0, 3, 1, 2).reshape(N, -1))
    (tmp_path / "py").mkdir()
    content = pickle.dumps({"data": data, "labels": labels.tolist()}, protocol=4)
    (tmp_path / "py" / "test_batch").write_bytes(content)
    same(load_cifar10(tmp_path / "py", split="test", verify=False), images, labels)


class Harm:
    def __reduce__(self):
        return os.mkdir, ("harm",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (pickle.dumps({"data": Harm(), "labels": []}), r"test_batch.*mkdir"),
        (pickle.dumps({"data": np.zeros(3), "labels": []}, 4), "test_batch.*'f8'"),
        (pickle.dumps({"data": 3, "labels": []}), "test_batch is not a batch"),
        (pickle.dumps([1, 2]), "test_batch is not a batch"),
        (pickle.dumps({"labels": []}), "test_batch is not a batch.*data"),
        (b"no pickle", "test_batch is not a batch"),
        (b"", "test_batch is not a batch"),
        (python2_pickle({b"data": np.zeros((2, 5), np.uint8), b"labels": [1, 2]}), r"\(2, 5\)"),
        (python2_pickle({b"data": np.zeros((2, 3072), np.uint8), b"labels": [1]}), "1 labels"),
        (
            python2_pickle({b"data": np.zeros((2, 3072), np.uint8), b"labels": [3, 11]}),
            "image 1 the label 11",
        ),
    ],
)
def test_pickles_that_are_no_batches_are_refused_and_run_nothing(
    tmp_path, monkeypatch, content, message
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "test_batch").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        load_cifar10(tmp_path, split="test", verify=False)
    assert [file.name for file in tmp_path.iterdir()] == ["test_batch"]


def test_a_truncated_pickle_is_named(cifar, tmp_path):
    to_python_version(cifar[0], tmp_path / "py")
    file = tmp_path / "py" / "data_batch_4"
    file.write_bytes(file.read_bytes()[:-2000])
    with pytest.raises(ValueError, match="data_batch_4 is not a batch"):
        load_cifar10(tmp_path / "py", verify=False)


@pytest.mark.parametrize("cut", [1, 3073 * N - 5])
def test_a_truncated_batch_is_named(cifar, tmp_path, cut):
    folder, _ = cifar
    file = folder / "data_batch_3.bin"
    file.write_bytes(file.read_bytes()[:-cut])
    archive = pack(folder, tmp_path / "a.tar.gz")
    for path in (folder, archive):
        with pytest.raises(ValueError, match=r"data_batch_3\.bin\)? has .* truncated"):
            load_cifar10(path, verify=False)


def test_official_files_have_ten_thousand_images_each(cifar):
    with pytest.raises(ValueError, match=r"data_batch_1\.bin has 12,292 bytes .* 30,730,000"):
        load_cifar10(cifar[0])


def test_a_label_out_of_range_is_named(cifar):
    file = cifar[0] / "data_batch_2.bin"
    content = bytearray(file.read_bytes())
    content[3073] = 10
    file.write_bytes(content)
    with pytest.raises(ValueError, match=r"data_batch_2\.bin gives image 1 the label 10.*0 to 9"):
        load_cifar10(cifar[0], verify=False)


def test_an_altered_pixel_is_found_by_the_checksum(cifar, tmp_path, monkeypatch):
    folder, truth = cifar
    sums = {f.name: hashlib.md5(f.read_bytes()).hexdigest() for f in folder.iterdir()}
    monkeypatch.setattr(_cifar, "MD5", sums)
    monkeypatch.setattr(_cifar, "IMAGES_IN_FILE", N)
    same(load_cifar10(folder, split="all"), *joined(truth, SPLITS["all"]))
    file = folder / "test_batch.bin"
    content = bytearray(file.read_bytes())
    content[500] ^= 1
    file.write_bytes(content)
    archive = pack(folder, tmp_path / "a.tar.gz")
    load_cifar10(folder)  # the training files are as they were
    for path in (folder, archive):
        with pytest.raises(ValueError, match=r"test_batch\.bin\)? is not the official file"):
            load_cifar10(path, split="test")
    load_cifar10(folder, split="test", verify=False)


def test_a_missing_batch_is_named(cifar, tmp_path):
    folder, truth = cifar
    (folder / "data_batch_5.bin").unlink()
    archive = pack(folder, tmp_path / "a.tar.gz")
    for path in (folder, archive):
        same(load_cifar10(path, split="test", verify=False), *truth["test_batch"])
        with pytest.raises(FileNotFoundError, match=r"data_batch_5\.bin"):
            load_cifar10(path, verify=False)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_a_truncated_archive_is_named(cifar, tmp_path, share):
    archive = pack(cifar[0], tmp_path / "some.tar.gz")
    archive.write_bytes(archive.read_bytes()[: int(share * archive.stat().st_size)])
    with pytest.raises((ValueError, FileNotFoundError), match=r"some\.tar\.gz"):
        load_cifar10(archive, split="all", verify=False)


def test_what_is_no_archive_is_named(tmp_path):
    (tmp_path / "notes.txt").write_text("nothing")
    with pytest.raises(ValueError, match=r"notes\.txt is not a whole tar archive"):
        load_cifar10(tmp_path / "notes.txt")


# --- STL-10 --------------------------------------------------------------------------------------


@pytest.fixture
def stl(tmp_path, fresh):
    folder = tmp_path / "stl10_binary"
    return folder, *write_stl(folder, fresh)


@pytest.mark.parametrize("packed", [False, True])
def test_stl(stl, tmp_path, packed):
    folder, truth, folds = stl
    path = pack(folder, tmp_path / "stl.tar.gz") if packed else tmp_path
    for split, names in {"train": ["train"], "test": ["test"], "all": ["train", "test"]}.items():
        found = load_stl10(path, split=split, verify=False)
        same(found, *joined(truth, names))
        assert found.class_names[6:8] == ("horse", "monkey")
        if split == "test":
            assert found.folds is None
        else:
            assert len(found.folds) == 10
            assert all(map(np.array_equal, found.folds, folds))


def test_stl_unlabeled_stays_on_the_disk(stl):
    folder, truth, _ = stl
    found = load_stl10(folder, split="unlabeled", verify=False)
    assert isinstance(found.images, np.memmap)
    assert not found.images.flags.writeable
    assert np.array_equal(found.images, truth["unlabeled"][0])
    assert found.labels is None
    assert found.class_names == ()


def test_stl_unlabeled_is_checked_by_size(stl):
    file = stl[0] / "unlabeled_X.bin"
    with pytest.raises(ValueError, match=r"unlabeled_X\.bin has 165,888 .* 2,764,800,000"):
        load_stl10(stl[0], split="unlabeled")
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"unlabeled_X\.bin has 165,887 .* truncated"):
        load_stl10(stl[0], split="unlabeled", verify=False)
    file.write_bytes(b"")
    with pytest.raises(ValueError, match=r"unlabeled_X\.bin is empty"):
        load_stl10(stl[0], split="unlabeled", verify=False)


def test_stl_unlabeled_cannot_be_mapped_from_an_archive(stl, tmp_path):
    archive = pack(stl[0], tmp_path / "stl.tar.gz")
    with pytest.raises(ValueError, match=r"stl\.tar\.gz.*tar -xzf"):
        load_stl10(archive, split="unlabeled", verify=False)


def test_stl_checksums(stl, monkeypatch):
    folder, truth, _ = stl
    sums = {f.name: hashlib.md5(f.read_bytes()).hexdigest() for f in folder.glob("*_?.bin")}
    monkeypatch.setattr(_stl, "MD5", sums)
    monkeypatch.setattr(_stl, "N_IMAGES", {"train": N, "test": N + 1, "unlabeled": N + 2})
    same(load_stl10(folder, split="test"), *truth["test"])
    with pytest.raises(
        ValueError, match=r"fold_indices\.txt gives fold 0 3 images in place of 1000"
    ):
        load_stl10(folder)
    (folder / "test_y.bin").write_bytes(bytes((label + 1) % 10 + 1 for label in truth["test"][1]))
    with pytest.raises(ValueError, match=r"test_y\.bin is not the official file"):
        load_stl10(folder, split="test")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("train_y.bin", bytes([1, 2, 0, 3]), "gives image 2 the label 0.*1 to 10"),
        ("train_y.bin", bytes([1, 11, 2, 3]), "gives image 1 the label 11"),
        ("train_y.bin", bytes([1, 2]), "has 2 bytes in place of 4"),
        ("train_X.bin", bytes(100), "has 100 bytes in place of 27,648"),
        ("fold_indices.txt", b"0 1\n" * 9, "has 9 lines in place of 10"),
        ("fold_indices.txt", b"0 1 x\n" * 10, "not a number"),
        ("fold_indices.txt", b"0 1 4\n" * 10, "fold 0"),
        ("fold_indices.txt", b"0 1 -1\n" * 10, "fold 0"),
        ("fold_indices.txt", b"0 1\n" * 9 + b"2 2\n", "fold 9"),
    ],
)
def test_stl_files_that_are_altered_are_named(stl, name, content, message):
    (stl[0] / name).write_bytes(content)
    with pytest.raises(ValueError, match=rf"{name} .*{message}"):
        load_stl10(stl[0], verify=False)


# --- What all readers share ----------------------------------------------------------------------

READERS = {
    load_cifar10: "cifar-10-batches-bin",
    load_stl10: "stl10_binary",
    load_mnist: "mnist",
    load_fashion_mnist: "fashion-mnist",
}


@pytest.mark.parametrize("load", READERS)
def test_without_a_path_the_data_folder_is_read(tmp_path, monkeypatch, load):
    monkeypatch.setenv("CLUSTERICA_DATA", str(tmp_path))
    place = tmp_path / READERS[load]
    with pytest.raises(FileNotFoundError) as caught:
        load()
    for part in (str(place), "http", "download=True", "CLUSTERICA_DATA"):
        assert part in str(caught.value)
    place.mkdir()
    with pytest.raises(FileNotFoundError, match=r"is missing"):
        load()


@pytest.mark.parametrize("load", READERS)
def test_split_is_checked(load):
    with pytest.raises(ValueError, match="split is 'valid'; it must be one of 'train', 'test'"):
        load(split="valid")


def test_data_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CLUSTERICA_DATA", "~/pictures")
    assert data_folder() == tmp_path / "pictures"
    monkeypatch.delenv("CLUSTERICA_DATA")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "c"))
    assert data_folder() == tmp_path / "c" / "clusterica"
    for nothing in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", nothing)
        assert data_folder() == tmp_path / ".cache" / "clusterica"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert data_folder() == tmp_path / "Library" / "Caches" / "clusterica"
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "l"))
    assert data_folder() == Path(tmp_path / "l" / "clusterica")


def test_digits():
    from sklearn.datasets import load_digits

    digits = load_digits_images()
    assert digits.images.dtype == np.uint8
    assert np.array_equal(np.rint(digits.images * (16 / 255)), load_digits().images)
    assert np.array_equal(digits.labels, load_digits().target)
    assert digits.class_names == tuple("0123456789")
