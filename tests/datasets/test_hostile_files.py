"""Files that are small and unpack to gigabytes, that are no files, or that are damaged in rare formats."""

import gzip
import hashlib
import io
import os
import resource
import struct
import subprocess
import sys
import tarfile

import numpy as np
import pytest

from clusterica.datasets import (
    _stl,
    load_cifar10,
    load_image_folder,
    load_mnist,
    load_stl10,
)
from clusterica.datasets._download import unpack_tar
from clusterica.datasets._files import MOST_UNPACKED, Download, file_sizes, open_tar

GIB = 2**30


def zeros_gz(path, head, n_bytes):
    """Compress `head` and so many zeros, as one gzip stream after the other."""
    path.write_bytes(gzip.compress(head) + gzip.compress(bytes(2**24), 1) * (n_bytes // 2**24))


def bomb(path, name, n_bytes, *, kind=tarfile.REGTYPE):
    """Write a tar.gz with one file of so many zeros."""
    info = tarfile.TarInfo(f"folder/{name}")
    info.size, info.type = n_bytes, kind
    zeros_gz(path, info.tobuf(tarfile.GNU_FORMAT), n_bytes)
    return path


@pytest.fixture
def little_memory():
    """Allow 300 MiB more of address space than are in use."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 300 * 2**20, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, limits)


needs_proc = pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs Linux")


@needs_proc
def test_a_small_idx_file_with_too_many_bytes(tmp_path, little_memory):
    images = struct.pack(">4I", 0x0803, 60_000, 28, 28)
    zeros_gz(tmp_path / "train-images-idx3-ubyte.gz", images, GIB)
    for verify in (True, False):
        with pytest.raises(ValueError, match=r"has 47,040,017 bytes in place of 47,040,016"):
            load_mnist(tmp_path, verify=verify)
    # A header that promises too many is refused before they are read.
    images = struct.pack(">4I", 0x0803, 2**32 - 1, 2**32 - 1, 28)
    zeros_gz(tmp_path / "train-images-idx3-ubyte.gz", images, GIB)
    with pytest.raises(ValueError, match=r"in place of 47,040,016"):
        load_mnist(tmp_path)


@needs_proc
def test_a_small_archive_with_a_large_pickle(tmp_path, little_memory):
    path = bomb(tmp_path / "cifar.tar.gz", "data_batch_1", GIB)
    with pytest.raises(ValueError, match=r"data_batch_1\) has more than 31,730,000 bytes"):
        load_cifar10(path)
    path = bomb(tmp_path / "cifar.tar.gz", "data_batch_1.bin", GIB)
    with pytest.raises(ValueError, match=r"has 1,073,741,824 bytes in place of 30,730,000"):
        load_cifar10(path)


@needs_proc
def test_names_of_gigabytes_in_an_archive(tmp_path, little_memory):
    path = bomb(tmp_path / "cifar.tar.gz", "name", GIB, kind=tarfile.GNUTYPE_LONGNAME)
    with pytest.raises(ValueError, match="a header or read of"):
        load_cifar10(path)
    with pytest.raises(ValueError, match="truncated or altered"):
        unpack_tar(path, tmp_path / "folder")
    assert [p.name for p in tmp_path.iterdir()] == ["cifar.tar.gz"]


def test_sparse_files_in_archives_are_not_read(tmp_path):
    """A header can state 8 GiB of zeros that are not stored."""
    info = tarfile.TarInfo("folder/test_batch.bin")
    info.type, info.size = tarfile.GNUTYPE_SPARSE, 512
    header = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    # One piece, the last 512 bytes; then the whole size. Numbers are octal.
    header[386:410] = b"%011o\0%011o\0" % (2**33 - 513, 512)
    header[483:495] = b"%011o\0" % (2**33 - 1)
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    path = tmp_path / "cifar.tar"
    path.write_bytes(header + bytes(512 * 3))
    with tarfile.open(path) as tar:
        assert tar.getmembers()[0].size == 2**33 - 1
    with pytest.raises(FileNotFoundError, match=r"holds no test_batch.bin"):
        load_cifar10(path, split="test", verify=False)
    unpack_tar(path, tmp_path / "folder")
    assert list((tmp_path / "folder").iterdir()) == []


def test_archives_that_unpack_to_more_than_official_ones(tmp_path):
    info = tarfile.TarInfo("folder/large")
    info.size = MOST_UNPACKED
    path = tmp_path / "stl10_binary.tar.gz"
    path.write_bytes(gzip.compress(info.tobuf() + bytes(2**16)))
    for read in (lambda: load_stl10(path), lambda: load_cifar10(path)):
        with pytest.raises(ValueError, match=r"unpacks to more than 4,294,967,296 bytes"):
            read()


@needs_proc
def test_a_folds_file_that_is_too_long(tmp_path, little_memory):
    for name, content in {"train_X.bin": bytes(3 * 96 * 96), "train_y.bin": b"\1"}.items():
        (tmp_path / name).write_bytes(content)
    zeros_gz(tmp_path / "fold_indices.txt.gz", b"0\n" * 10, GIB)
    with pytest.raises(ValueError, match="has more than 1,144 bytes"):
        load_stl10(tmp_path, verify=False)


@needs_proc
def test_sizes_are_found_without_memory(tmp_path, little_memory):
    zeros_gz(tmp_path / "a.gz", b"", GIB)
    assert file_sizes(tmp_path, ["a"]) == {"a": GIB}


def test_large_files_in_archives_are_read(tmp_path):
    rng = np.random.default_rng()
    records = rng.integers(
        10, size=(3000, 3073), dtype=np.uint8
    )  # 9 MB, more than a read at a time
    with tarfile.open(tmp_path / "cifar.tar.gz", "w:gz", compresslevel=1) as tar:
        info = tarfile.TarInfo("x/test_batch.bin")
        info.size = records.nbytes
        tar.addfile(info, io.BytesIO(records.tobytes()))
    found = load_cifar10(tmp_path / "cifar.tar.gz", split="test", verify=False)
    assert np.array_equal(found.labels, records[:, 0])
    assert np.array_equal(found.images[:, 0, :, 0], records[:, 1:33])
    with (tmp_path / "cifar.tar.gz").open("rb") as stream, open_tar(stream) as tar:
        assert tar.getnames() == ["x/test_batch.bin"]


@needs_proc
def test_a_pickle_with_a_huge_table(tmp_path, little_memory):
    """LONG_BINPUT of 2**32 - 1 makes the compiled unpickler fill 64 GiB, BYTEARRAY8 takes what it states."""
    for content in (b"\x80\x02}r\xff\xff\xff\xff.", b"\x80\x05\x96" + struct.pack("<Q", GIB)):
        (tmp_path / "data_batch_1").write_bytes(content)
        with pytest.raises(ValueError, match=r"not a batch of CIFAR-10"):
            load_cifar10(tmp_path, verify=False)


# --- Pipes and devices ------------------------------------------------------------------------------

READERS = """
import sys
from clusterica.datasets import load_cifar10, load_image_folder, load_mnist, load_stl10
reader, path = sys.argv[1:]
try:
    locals()[reader](path)
except (ValueError, OSError) as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("reader", "name"),
    [
        ("load_mnist", "train-images-idx3-ubyte"),
        ("load_mnist", "train-images-idx3-ubyte.gz"),
        ("load_cifar10", "data_batch_1.bin"),
        ("load_cifar10", "data_batch_1"),
        ("load_stl10", "train_X.bin"),
        ("load_image_folder", "image.png"),
    ],
)
def test_pipes_are_refused_at_once(tmp_path, reader, name):
    os.mkfifo(tmp_path / name)
    # Another process, which is ended if it waits for someone to write into the pipe.
    command = [sys.executable, "-c", READERS, reader, tmp_path]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert f"{name} is not a regular file" in found.stdout


def test_a_pipe_as_the_path(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for reader in (load_mnist, load_cifar10, load_stl10, load_image_folder):
        with pytest.raises((FileNotFoundError, NotADirectoryError)):
            reader(tmp_path / "pipe")


# --- Damaged images ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("decoder"),
        NotImplementedError("pixel format"),
        SyntaxError("broken"),
        struct.error("short"),
        MemoryError(),
        OverflowError("size"),
        IndexError("range"),
        KeyError("mode"),
        AssertionError(),
        TypeError("type"),
        ZeroDivisionError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_whatever_pillow_raises_is_an_unreadable_image(tmp_path, monkeypatch, error):
    image = pytest.importorskip("PIL.Image")
    image.fromarray(np.zeros((2, 2), np.uint8)).save(tmp_path / "good.png")
    image.fromarray(np.zeros((2, 2), np.uint8)).save(tmp_path / "x.tiff")
    original = image.open

    def opened(path, *arguments):
        if str(path).endswith(".tiff"):
            raise error
        return original(path, *arguments)

    monkeypatch.setattr(image, "open", opened)
    with pytest.raises(ValueError, match=r"x\.tiff can't be read as an image.*on_error='skip'"):
        load_image_folder(tmp_path)
    with pytest.warns(UserWarning, match=r"Skipped in .*x\.tiff can't be read"):
        assert len(load_image_folder(tmp_path, on_error="skip").images) == 1


@pytest.mark.filterwarnings("ignore:.*:UserWarning")
@pytest.mark.parametrize("suffix", ["avif", "dds", "webp", "tiff", "png", "gif", "jp2"])
def test_damaged_images_of_many_formats(tmp_path, suffix):
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng()
    picture = image.fromarray(rng.integers(256, size=(16, 16, 3), dtype=np.uint8))
    try:
        picture.save(tmp_path / f"good.{suffix}")
    except (OSError, KeyError, ValueError):
        pytest.skip(f"this Pillow writes no {suffix}")
    content = bytearray((tmp_path / f"good.{suffix}").read_bytes())
    for number in range(60):
        bad = content.copy()
        for _ in range(rng.integers(1, 8)):
            bad[rng.integers(min(len(bad), 200))] = rng.integers(256)
        (tmp_path / f"bad-{number}.{suffix}").write_bytes(bad)
    found = load_image_folder(tmp_path, on_error="skip", resize=(16, 16))
    assert len(found.images) >= 1


# --- Archives that are there already ----------------------------------------------------------------


@pytest.fixture
def archive(tmp_path):
    with tarfile.open(tmp_path / "stl10_binary.tar.gz", "w:gz") as tar:
        for name, size in {"test_X.bin": 3 * 96 * 96, "test_y.bin": 1}.items():
            info = tarfile.TarInfo(f"stl10_binary/{name}")
            info.size = size
            tar.addfile(info, io.BytesIO(b"\1" * size))
    (tmp_path / "stl10_binary").mkdir()
    return tmp_path / "stl10_binary.tar.gz"


def test_an_archive_that_is_not_official_is_neither_unpacked_nor_deleted(archive):
    before = archive.read_bytes()
    with pytest.raises(ValueError, match=r"is not the official archive.*Move it away"):
        load_stl10(archive.parent, split="test", download=True, verify=False)
    assert archive.read_bytes() == before
    assert list((archive.parent / "stl10_binary").iterdir()) == []


def test_the_official_archive_is_unpacked_and_stays(archive, monkeypatch):
    before = archive.read_bytes()
    known = Download(archive.name, (), hashlib.md5(before).hexdigest())
    monkeypatch.setattr(_stl, "STL10", _stl.STL10._replace(downloads=(known,)))
    found = load_stl10(archive.parent, split="test", download=True, verify=False)
    assert found.images.shape == (1, 96, 96, 3)
    assert archive.read_bytes() == before
