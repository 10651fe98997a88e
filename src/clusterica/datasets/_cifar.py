"""CIFAR-10: 60,000 images of 32 by 32 pixels, a record ``label, red plane, green plane, blue plane`` each."""

from __future__ import annotations

import io
import math
import os
import pickle
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from clusterica.datasets._common import ImageSet, check_choice, join_and_free
from clusterica.datasets._download import unpack_tar
from clusterica.datasets._files import (
    MOST_UNPACKED,
    DataFile,
    Download,
    Release,
    check_labels,
    file_sizes,
    find_release,
    first_stored,
    read_files,
)

PLANES = (3, 32, 32)  # channels, rows, columns
PIXELS = math.prod(PLANES)
RECORD = 1 + PIXELS  # bytes of a label and an image
IMAGES_IN_FILE = 10_000  # in every official file
CLASSES = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)
BATCHES = {
    "train": tuple(f"data_batch_{number}" for number in range(1, 6)),
    "test": ("test_batch",),
}
BATCHES["all"] = BATCHES["train"] + BATCHES["test"]
MD5 = {
    "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
    "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
    "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
    "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
    "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
    "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
    "data_batch_1": "c99cafc152244af753f735de768cd75f",
    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "634d18415352ddfa80567beed471001a",
    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    "test_batch": "40351d587109b95175f43aff81a1287e",
}
CIFAR10 = Release(
    name="CIFAR-10",
    folder="cifar-10-batches-bin",
    files=tuple(MD5),
    downloads=(
        Download(
            "cifar-10-binary.tar.gz",
            ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
            "c32a1d4ab5d03f1284b67883e8d87530",
        ),
    ),
    unpack=unpack_tar,
    other_folders=("cifar-10-batches-py",),
    archives=("cifar-10-binary.tar.gz", "cifar-10-python.tar.gz"),
)


def load_cifar10(
    path: str | os.PathLike[str] | None = None,
    *,
    split: str = "train",
    download: bool = False,
    verify: bool = True,
) -> ImageSet:
    """Read CIFAR-10 from its official files.

    Both official versions are read, the binary and the Python one, from their folders or straight
    from their archives. The pickles of the Python version are read by a restricted unpickler that creates
    arrays, lists and text and nothing else.

    Parameters
    ----------
    path : path or None, default=None
        The folder ``cifar-10-batches-bin`` or ``cifar-10-batches-py``, a folder that holds one of them,
        or an archive ``cifar-10-binary.tar.gz`` or ``cifar-10-python.tar.gz``. None looks in
        :func:`data_folder`.
    split : {"train", "test", "all"}, default="train"
        The 50,000 training images, the 10,000 test images, or both in this order.
    download : bool, default=False
        Download the binary version (162 MiB) if it is not there.
    verify : bool, default=True
        Check that the files are the official ones, by size and checksum. Without, any number of
        images in the same format is read.

    Returns
    -------
    ImageSet
        ``images`` of shape (n, 32, 32, 3). Files keep the colours apart, so the array is a view with
        other strides; ``numpy.ascontiguousarray(images)`` makes a copy that keeps the colours of a
        pixel together.

    Examples
    --------
    >>> from clusterica.datasets import load_cifar10
    >>> load_cifar10("data", download=True).images.shape  # doctest: +SKIP
    (50000, 32, 32, 3)
    """
    check_choice("split", split, tuple(BATCHES))
    # The binary version is downloaded; its files are what is missing if there are none at all.
    where = find_release(CIFAR10, path, needs=(), download=download)
    binary = (first_stored(where, CIFAR10.files) or ".bin").endswith(".bin")
    names = [f"{name}.bin" if binary else name for name in BATCHES[split]]
    # Some batches may be missing: asked again with their names, only what is missing is fetched.
    if download and where.is_dir() and binary:
        where = find_release(CIFAR10, where, needs=names, download=True)
    rows, labels = (_read_binary if binary else _read_pickles)(where, names, verify=verify)
    images = rows.reshape(len(rows), *PLANES).transpose(0, 2, 3, 1)
    return ImageSet(images, labels, CLASSES)


def _read_binary(where: Path, names: list[str], *, verify: bool) -> tuple[np.ndarray, np.ndarray]:
    """Read records into one array; the pixels returned are a view of it."""
    if verify:
        sizes = dict.fromkeys(names, IMAGES_IN_FILE * RECORD)
    else:
        sizes = file_sizes(where, names)
    # Rounded up: a file with part of a record is then found to be too short, and refused.
    counts = [-(-sizes[name] // RECORD) for name in names]
    ends = dict(zip(names, np.cumsum(counts).tolist(), strict=True))
    records = np.empty((sum(counts), RECORD), np.uint8)
    labels = np.empty(len(records), np.int64)

    def take(file: DataFile) -> None:
        rows = slice(ends[file.name] - counts[names.index(file.name)], ends[file.name])
        file.fill(records[rows])
        # A record is its label, then the planes of red, green and blue.
        labels[rows] = check_labels(file, records[rows, 0], first=0, last=len(CLASSES) - 1)

    read_files(where, names, take, md5=MD5 if verify else None)
    return records[:, 1:], labels


def _read_pickles(where: Path, names: list[str], *, verify: bool) -> tuple[np.ndarray, np.ndarray]:
    """Read the batches of the Python version, pickled dictionaries of ``data`` and ``labels``."""
    batches: dict[str, tuple[np.ndarray, np.ndarray]] = {}

    def take(file: DataFile) -> None:
        # A pickle also has the names of the image files: less than 100 bytes each.
        largest = IMAGES_IN_FILE * (RECORD + 100)
        content = file.read_all(largest if verify else MOST_UNPACKED)
        file.verify(content)  # before it is unpickled
        try:
            batch = _PlainUnpickler(io.BytesIO(content.data), encoding="bytes").load()
            # Files written by Python 2 have keys of bytes.
            batch = {k.decode() if isinstance(k, bytes) else k: v for k, v in batch.items()}
            data, labels = batch["data"].to_numpy(), np.array(batch["labels"], dtype=np.int64)
        # A pickle that holds something else, or that is cut short, raises almost anything.
        except Exception as error:
            file.fail(f"is not a batch of CIFAR-10 in pickled form ({error}). Get it again.")
        if data.ndim != 2 or data.shape[1] != PIXELS or labels.shape != data.shape[:1]:
            file.fail(
                f"holds an array of shape {data.shape} and {labels.size} labels; a batch has {PIXELS} "
                "numbers and a label for each image. Get it again."
            )
        batches[file.name] = data, check_labels(file, labels, first=0, last=len(CLASSES) - 1)

    read_files(where, names, take, md5=MD5 if verify else None)
    labels = np.concatenate([batches[name][1] for name in names])
    return join_and_free([batches.pop(name)[0] for name in names]), labels


class _PickledDtype:
    """Replaces numpy.dtype in a pickle and keeps its code."""

    def __init__(self, code: Any, *flags: Any) -> None:
        self.code = code.decode() if isinstance(code, bytes) else code

    def __setstate__(self, state: Any) -> None:
        """Byte order and alignment mean nothing for single bytes."""


class _PickledArray:
    """Replaces numpy.ndarray in a pickle, whose own reader would trust the contents of the pickle."""

    def __init__(self, *arguments: Any) -> None:
        self.state: tuple[Any, ...] = ()

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.state = state

    def to_numpy(self) -> np.ndarray:
        """Return the array, which must be of bytes in C order."""
        _, shape, dtype, fortran, content = self.state
        if dtype.code != "u1" or fortran:
            raise ValueError(f"an array of type {dtype.code!r} in place of bytes in C order")
        return np.frombuffer(content, np.uint8).reshape(shape)


ALLOWED: dict[tuple[str, str], type] = {
    ("numpy", "dtype"): _PickledDtype,
    ("numpy", "ndarray"): _PickledArray,
    ("numpy.core.multiarray", "_reconstruct"): _PickledArray,
    ("numpy._core.multiarray", "_reconstruct"): _PickledArray,
}


# A pickle can name any class and call it, so that reading a stranger's file could run its code.
# It is the one written in Python: the compiled one fills a table of any size that a file of 20 bytes states.
class _PlainUnpickler(pickle._Unpickler):
    """Reads pickles of numbers, text, lists, dictionaries and arrays; no other class can be named."""

    # Without the code of bytearrays, which official files do not use: it allocates any size that is stated.
    dispatch: ClassVar[dict[int, Any]] = {
        code: load
        for code, load in pickle._Unpickler.dispatch.items()
        if code != pickle.BYTEARRAY8[0]
    }

    def find_class(self, module: str, name: str) -> type:
        """Return the replacement of a class; raise an error for all that official files do not contain."""
        if (module, name) not in ALLOWED:
            raise pickle.UnpicklingError(f"it needs {module}.{name}, which official files do not")
        return ALLOWED[module, name]
