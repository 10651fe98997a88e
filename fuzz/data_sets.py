"""Targets: readers of data sets and of images."""

from __future__ import annotations

import gzip
import io
import shutil
import struct
import tarfile
import zipfile
from typing import Any

import numpy as np

from clusterica.datasets import load_cifar10, load_mnist, load_stl10, open_parquet, read_picture
from clusterica.datasets._download import unpack_nested_tar, unpack_tar
from fuzz.target import ROOT, Target, at, folder

ERRORS = (ValueError, FileNotFoundError)


def code(*names: str) -> tuple[str, ...]:
    """Return modules of the package of data sets: the named ones, and those that read files for all."""
    return tuple(f"clusterica.datasets.{name}" for name in ("_files", "_common", *names))


def read_idx(content: bytes) -> None:
    kind = "idx-gz" if content[:2] == b"\x1f\x8b" else "idx"
    at(f"{kind}/t10k-images-idx3-ubyte{'.gz' if kind == 'idx-gz' else ''}", content)
    load_mnist(ROOT / kind, split="test", verify=False)


def idx_seeds() -> list[bytes]:
    for kind in ("idx", "idx-gz"):
        folder(kind)
        at(f"{kind}/t10k-labels-idx1-ubyte", struct.pack(">II", 0x0801, 1) + b"\3")
    plain = struct.pack(">4I", 0x0803, 1, 2, 2) + bytes(4)
    return [plain, gzip.compress(plain)]


def read_cifar(content: bytes) -> None:
    at("cifar-bin/test_batch.bin", content)
    load_cifar10(ROOT / "cifar-bin", split="test", verify=False)


def cifar_seeds() -> list[bytes]:
    folder("cifar-bin")
    return [bytes(3073), bytes(3073 * 2)]


def read_pickle(content: bytes) -> None:
    at("cifar-py/test_batch", content)
    load_cifar10(ROOT / "cifar-py", split="test", verify=False)


def pickle_seeds() -> list[bytes]:
    folder("cifar-py")
    dtype = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    made = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
    data = made + b"(K\x01K\x00M\x00\x0c\x86" + dtype + b"\x89U\x00tb"  # of shape (0, 3072)
    return [b"\x80\x02}(U\x04data" + data + b"U\x06labels](eu."]


def tar_of(name: str, content: bytes, **settings: Any) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", **settings) as tar:
        info = tarfile.TarInfo(name)
        info.size = len(content)
        tar.addfile(info, io.BytesIO(content))
    # Two blocks of zeros end an archive; the rest of the ten kilobytes says nothing.
    return out.getvalue()[: 512 * (4 + len(content) // 512 + 2)]


def read_archive(content: bytes) -> None:
    load_cifar10(at("cifar.tar.gz", content), split="test", verify=False)


def archive_seeds() -> list[bytes]:
    plain = [tar_of("x/test_batch.bin", bytes(10), format=f) for f in range(3)]
    long = tar_of("x" * 150 + "/test_batch.bin", b"", format=tarfile.GNU_FORMAT)
    pax = tar_of("ü/test_batch", b".", format=tarfile.PAX_FORMAT)
    return [*plain, long, pax, gzip.compress(plain[0])]


def read_stl(content: bytes) -> None:
    at("stl/train_y.bin", content[:1])
    at("stl/fold_indices.txt", content[1:])
    load_stl10(ROOT / "stl", verify=False)


def stl_seeds() -> list[bytes]:
    folder("stl")
    at("stl/train_X.bin", bytes(3 * 96 * 96))
    return [b"\1" + b"0\n" * 10, b"\2" + b"0 \r\n\n" * 10]


def unpack_caltech(content: bytes) -> None:
    target = ROOT / "caltech" / "101_ObjectCategories"
    # The fuzzer changes the archive in the archive, too.
    is_zip = content[:2] == b"PK"
    try:
        (unpack_nested_tar if is_zip else unpack_tar)(at("caltech.zip", content), target)
    finally:
        found = {path.name for path in target.parent.iterdir()}
        if found:
            shutil.rmtree(target)
    assert found <= {target.name}


def caltech_seeds() -> list[bytes]:
    folder("caltech")
    inner = tar_of("101_ObjectCategories/cat/a.jpg", b"jpeg")
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as outer:
        outer.writestr("c/101_ObjectCategories.tar.gz", gzip.compress(inner))
    return [inner, gzip.compress(inner), out.getvalue()]


def read_image(content: bytes) -> None:
    read_picture(io.BytesIO(content), resize=(4, 4))


def image_seeds() -> list[bytes]:
    from PIL import Image, PngImagePlugin

    # Large images are slow, and their size is all that there is to them.
    Image.MAX_IMAGE_PIXELS = 2**12
    # Whoever changes a chunk can write its checksum as well.
    PngImagePlugin.ChunkStream.crc = PngImagePlugin.ChunkStream.crc_skip
    rng, seeds = np.random.default_rng(0), []
    for mode, shape in {"RGB": (5, 6, 3), "L": (5, 6), "RGBA": (5, 6, 4), "I;16": (5, 6)}.items():
        dtype = np.uint16 if mode == "I;16" else np.uint8
        picture = Image.fromarray(rng.integers(256, size=shape).astype(dtype))
        turned = Image.Exif()
        turned[0x0112] = 6  # orientation
        for kind in ("png", "jpeg", "gif", "bmp", "tiff", "webp", "avif", "dds", "jpeg2000", "ppm"):
            out = io.BytesIO()
            try:
                picture.save(out, kind, exif=turned)
            except (OSError, KeyError, ValueError, RuntimeError):
                continue
            seeds.append(out.getvalue())
    return seeds


def read_parquet(content: bytes) -> None:
    for _ in open_parquet(at("rows.parquet", content)):
        pass


def parquet_seeds() -> list[bytes]:
    import pyarrow as pa
    from pyarrow import parquet

    lists = pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float32(), 2))
    seeds = []
    for columns in ({"a": [1.0, 2.0], "b": [1, 2]}, {"c": lists}, {"d": [True, False]}):
        out = io.BytesIO()
        parquet.write_table(pa.table(columns), out)
        seeds.append(out.getvalue())
    return seeds


TAR = ("tarfile", "gzip")
TARGETS = {
    "idx": Target(read_idx, idx_seeds, code("_mnist"), ERRORS, follow=("gzip",)),
    "CIFAR, binary": Target(read_cifar, cifar_seeds, code("_cifar"), ERRORS),
    "CIFAR, pickles": Target(read_pickle, pickle_seeds, code("_cifar"), ERRORS, follow=("pickle",)),
    "CIFAR, archives": Target(read_archive, archive_seeds, code("_cifar"), ERRORS, follow=TAR),
    "STL": Target(read_stl, stl_seeds, code("_stl"), ERRORS),
    "Caltech": Target(
        unpack_caltech, caltech_seeds, code("_download"), (ValueError,), follow=(*TAR, "zipfile")
    ),
    "images": Target(
        read_image, image_seeds, code("_pictures"), (ValueError,), ("pillow",), follow=("PIL",)
    ),
    "Parquet": Target(read_parquet, parquet_seeds, code("_parquet"), ERRORS, ("pyarrow",)),
}
