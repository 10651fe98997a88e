"""MNIST and Fashion-MNIST: idx files, that is a magic number, the sizes of the axes, and then the bytes."""

from __future__ import annotations

import math
import os

import numpy as np

from clusterica.datasets._common import ImageSet, check_choice, join_and_free
from clusterica.datasets._files import (
    DataFile,
    Download,
    Release,
    check_labels,
    find_release,
    read_files,
)

UNSIGNED_BYTES = 0x0800  # the magic number is this code of the type plus the number of axes
PREFIXES = {"train": ("train",), "test": ("t10k",), "all": ("train", "t10k")}
DIGITS = tuple("0123456789")
CLOTHES = (
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
    *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)
FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
# Of both data sets: a header of 16 or 8 bytes, then a byte for each pixel or label.
OFFICIAL_SIZES = dict(
    zip(FILES, (16 + 60_000 * 784, 8 + 60_000, 16 + 10_000 * 784, 8 + 10_000), strict=True)
)


def _release(name: str, folder: str, sites: tuple[str, ...], packed: tuple[str, ...]) -> Release:
    """Describe a data set of four compressed files."""
    downloads = tuple(
        Download(f"{file}.gz", tuple(f"{site}/{file}.gz" for site in sites), md5)
        for file, md5 in zip(FILES, packed, strict=True)
    )
    return Release(name=name, folder=folder, files=FILES, downloads=downloads)


MNIST = _release(
    "MNIST",
    "mnist",
    ("https://ossci-datasets.s3.amazonaws.com/mnist", "http://yann.lecun.com/exdb/mnist"),
    (
        "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "d53e105ee54ea40749a09fcbcd1e9432",
        "9fb629c4189551a2d022fa330f9573f3",
        "ec29112dd5afa0611ce80d1b7f02629c",
    ),
)
FASHION_MNIST = _release(
    "Fashion-MNIST",
    "fashion-mnist",
    ("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",),
    (
        "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        "25c81989df183df01b3e8a0aad5dffbe",
        "bef4ecab320f06d8554ea6380940ec79",
        "bb300cfdad3c16e7a12a480ee83cd310",
    ),
)
MNIST_MD5 = {  # of the files after decompression
    "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
}
FASHION_MNIST_MD5 = {
    "train-images-idx3-ubyte": "f4a8712d7a061bf5bd6d2ca38dc4d50a",
    "train-labels-idx1-ubyte": "9018921c3c673c538a1fc5bad174d6f9",
    "t10k-images-idx3-ubyte": "8181f5470baa50b63fa0f6fddb340f0a",
    "t10k-labels-idx1-ubyte": "15d484375f8d13e6eb1aabb0c3f46965",
}


def load_mnist(
    path: str | os.PathLike[str] | None = None,
    *,
    split: str = "train",
    download: bool = False,
    verify: bool = True,
) -> ImageSet:
    """Read the handwritten digits of MNIST from their official idx files.

    Parameters
    ----------
    path : path or None, default=None
        The folder of the four files, compressed (``.gz``) or not, or a folder that holds a folder
        ``mnist`` with them. None looks in :func:`data_folder`.
    split : {"train", "test", "all"}, default="train"
        The 60,000 training images, the 10,000 test images, or both in this order.
    download : bool, default=False
        Download the files (11 MiB) that are not there.
    verify : bool, default=True
        Check that the files are the official ones, by checksum. Without, any idx files of images and
        of labels from 0 to 9 are read.

    Returns
    -------
    ImageSet
        ``images`` of shape (n, 28, 28).

    Examples
    --------
    >>> from clusterica.datasets import load_mnist
    >>> load_mnist("data", split="test", download=True).images.shape  # doctest: +SKIP
    (10000, 28, 28)
    """
    md5 = MNIST_MD5 if verify else None
    return _load_idx(MNIST, path, split=split, download=download, md5=md5, classes=DIGITS)


def load_fashion_mnist(
    path: str | os.PathLike[str] | None = None,
    *,
    split: str = "train",
    download: bool = False,
    verify: bool = True,
) -> ImageSet:
    """Read the pieces of clothing of Fashion-MNIST from their official idx files.

    Parameters
    ----------
    path : path or None, default=None
        The folder of the four files, compressed (``.gz``) or not, or a folder that holds a folder
        ``fashion-mnist`` with them. None looks in :func:`data_folder`.
    split : {"train", "test", "all"}, default="train"
        The 60,000 training images, the 10,000 test images, or both in this order.
    download : bool, default=False
        Download the files (30 MiB) that are not there.
    verify : bool, default=True
        Check that the files are the official ones, by checksum. Without, any idx files of images and
        of labels from 0 to 9 are read.

    Returns
    -------
    ImageSet
        ``images`` of shape (n, 28, 28).

    Examples
    --------
    >>> from clusterica.datasets import load_fashion_mnist
    >>> load_fashion_mnist("data", download=True).class_names[:2]  # doctest: +SKIP
    ('T-shirt/top', 'Trouser')
    """
    md5 = FASHION_MNIST_MD5 if verify else None
    return _load_idx(FASHION_MNIST, path, split=split, download=download, md5=md5, classes=CLOTHES)


def _load_idx(
    release: Release,
    path: str | os.PathLike[str] | None,
    *,
    split: str,
    download: bool,
    md5: dict[str, str] | None,
    classes: tuple[str, ...],
) -> ImageSet:
    """Read the images and labels of a split."""
    check_choice("split", split, tuple(PREFIXES))
    names = [name for name in FILES if name.startswith(PREFIXES[split])]
    where = find_release(release, path, needs=names, download=download)
    if where.is_file():
        raise NotADirectoryError(
            f"{where} is a file; pass the folder that holds the four idx files."
        )
    images: list[np.ndarray] = []
    labels: list[np.ndarray] = []

    def take(file: DataFile) -> None:
        if "images" in file.name:
            images.append(_parse_idx(file, n_axes=3, official=md5 is not None))
            return
        found = _parse_idx(file, n_axes=1, official=md5 is not None)
        codes = check_labels(file, found, first=0, last=len(classes) - 1)
        if len(codes) != len(images[-1]):
            file.fail(
                f"has {len(codes)} labels for {len(images[-1])} images. Get both files again."
            )
        # Images are read before their labels, since files are read in the order of FILES.
        labels.append(codes)

    read_files(where, names, take, md5=md5)
    if len({part.shape[1:] for part in images}) > 1:
        raise ValueError(f"{where} holds training and test images of different sizes.")
    # One part needs no copy.
    joined = images[0] if len(images) == 1 else join_and_free(images)
    return ImageSet(joined, np.concatenate(labels), classes)


def _parse_idx(file: DataFile, *, n_axes: int, official: bool) -> np.ndarray:
    """Read an idx file of unsigned bytes; the array is a view of its content."""
    start = 4 * (1 + n_axes)
    head = file.read(start)
    # Numbers of four bytes, the highest first. A short file is filled up, and fails the tests below.
    header = np.frombuffer(head.tobytes().ljust(start, b"\0"), ">u4")
    if header[0] != UNSIGNED_BYTES + n_axes:
        file.fail(
            f"does not begin as an idx file of bytes with {n_axes} axes does (magic number "
            f"{UNSIGNED_BYTES + n_axes}). Get it again."
        )
    shape = tuple(int(size) for size in header[1:])
    size = start + math.prod(shape)
    if official and size > OFFICIAL_SIZES[file.name]:
        file.expect(OFFICIAL_SIZES[file.name], found=size)
    file.expect(size)
    # One byte more than there should be: a small compressed file can hold gigabytes.
    content = np.concatenate([head, file.read(size - start + 1)])
    file.expect(size, found=len(content))
    # After the size: a truncated file gets the message that says so.
    file.verify(content)
    return content[start:].reshape(shape)
