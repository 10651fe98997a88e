"""MNIST and Fashion-MNIST: idx files, compressed or not, and what is said of damaged ones."""

import gzip
import hashlib
import struct

import numpy as np
import pytest

from clusterica.datasets import _mnist, load_fashion_mnist, load_mnist

N = 4  # training images


@pytest.fixture
def fresh():
    return np.random.default_rng()


def write_idx(path, array):
    head = struct.pack(">BBBB", 0, 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape)
    content = head + array.tobytes()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def write_mnist(folder, rng, *, suffix=""):
    folder.mkdir(parents=True)
    truth = {}
    for prefix, n in {"train": N, "t10k": N + 1}.items():
        images = rng.integers(256, size=(n, 28, 28), dtype=np.uint8)
        labels = rng.integers(10, size=n, dtype=np.uint8)
        write_idx(folder / f"{prefix}-images-idx3-ubyte{suffix}", images)
        write_idx(folder / f"{prefix}-labels-idx1-ubyte{suffix}", labels)
        truth[prefix] = images, labels
    return truth


def same(found, images, labels):
    assert np.array_equal(found.images, images)
    assert found.images.dtype == np.uint8
    assert np.array_equal(found.labels, labels)
    assert found.labels.dtype == np.int64


def joined(truth, names):
    return (np.concatenate([truth[name][part] for name in names]) for part in (0, 1))


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize(
    ("load", "folder", "name"),
    [(load_mnist, "mnist", "3"), (load_fashion_mnist, "fashion-mnist", "Dress")],
)
def test_idx(tmp_path, fresh, load, folder, name, suffix):
    truth = write_mnist(tmp_path / folder, fresh, suffix=suffix)
    names = {"train": ["train"], "test": ["t10k"], "all": ["train", "t10k"]}
    for split, parts in names.items():
        for path in (tmp_path, tmp_path / folder):
            found = load(path, split=split, verify=False)
            same(found, *joined(truth, parts))
            assert found.images.flags.writeable
            assert found.class_names[3] == name


IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (IMAGES, lambda c: c[:-1], "has 3,151 bytes in place of 3,152"),
        (IMAGES, lambda c: c + b"x", "has 3,153 bytes in place of 3,152"),
        (IMAGES, lambda c: b"\x00\x00\x0d\x03" + c[4:], "magic number 2051"),
        (IMAGES, lambda c: c[:3], "magic number 2051"),
        (IMAGES, lambda c: c[:10], "bytes in place of"),
        (IMAGES, lambda c: b"", "magic number 2051"),
        (LABELS, lambda c: c[:-1] + b"\x0a", "gives image 3 the label 10"),
        (LABELS, lambda c: b"\x00\x00\x08\x03" + c[4:], "magic number 2049"),
        (LABELS, lambda c: struct.pack(">II", 2049, 2) + b"\x01\x02", "2 labels for 4 images"),
    ],
)
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_idx_files_that_are_altered_are_named(tmp_path, fresh, name, change, message, suffix):
    write_mnist(tmp_path / "m", fresh, suffix=suffix)
    file = tmp_path / "m" / f"{name}{suffix}"
    squeeze, expand = (gzip.compress, gzip.decompress) if suffix else (bytes, bytes)
    file.write_bytes(squeeze(change(expand(file.read_bytes()))))
    with pytest.raises(ValueError, match=rf"{name}{suffix} .*{message}"):
        load_mnist(tmp_path / "m", verify=False)


@pytest.mark.parametrize(
    "damage", [lambda c: c[:-20], lambda c: b"xx" + c[2:], lambda c: c[:40] + b"????????" + c[48:]]
)
def test_damaged_gzip_is_named(tmp_path, fresh, damage):
    write_mnist(tmp_path / "m", fresh, suffix=".gz")
    file = tmp_path / "m" / f"{IMAGES}.gz"
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(ValueError, match=rf"{IMAGES}\.gz is truncated or altered"):
        load_mnist(tmp_path / "m", verify=False)


def test_idx_checksums_are_those_of_the_content(tmp_path, fresh, monkeypatch):
    truth = write_mnist(tmp_path / "m", fresh, suffix=".gz")
    with pytest.raises(ValueError, match=rf"{IMAGES}\.gz is not the official file"):
        load_mnist(tmp_path / "m")
    sums = {
        file.stem: hashlib.md5(gzip.decompress(file.read_bytes())).hexdigest()
        for file in (tmp_path / "m").iterdir()
    }
    monkeypatch.setattr(_mnist, "MNIST_MD5", sums)
    same(load_mnist(tmp_path / "m"), *truth["train"])


def test_idx_of_two_sizes(tmp_path, fresh):
    write_mnist(tmp_path / "m", fresh)
    write_idx(tmp_path / "m" / "t10k-images-idx3-ubyte", np.zeros((N + 1, 5, 5), np.uint8))
    with pytest.raises(ValueError, match="different sizes"):
        load_mnist(tmp_path / "m", split="all", verify=False)


def test_idx_needs_a_folder(tmp_path, fresh):
    write_mnist(tmp_path / "m", fresh)
    with pytest.raises(NotADirectoryError, match="is a file; pass the folder"):
        load_mnist(tmp_path / "m" / IMAGES)
