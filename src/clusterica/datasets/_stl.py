"""STL-10: images of 96 by 96 pixels, stored as three planes, column after column, and ten training folds."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np

from clusterica.datasets._common import ImageSet, check_choice
from clusterica.datasets._download import unpack_tar
from clusterica.datasets._files import (
    DataFile,
    Download,
    Release,
    check_labels,
    file_sizes,
    find_release,
    read_files,
)

PLANES = (3, 96, 96)  # channels, columns, rows
RECORD = math.prod(PLANES)  # bytes of an image
FOLDS = "fold_indices.txt"
CLASSES = (
    *("airplane", "bird", "car", "cat", "deer"),
    *("dog", "horse", "monkey", "ship", "truck"),
)
PARTS = {"train": ("train",), "test": ("test",), "unlabeled": (), "all": ("train", "test")}
N_IMAGES = {"train": 5_000, "test": 8_000, "unlabeled": 100_000}
MD5 = {
    "train_X.bin": "918c2871b30a85fa023e0c44e0bee87f",
    "train_y.bin": "5a34089d4802c674881badbb80307741",
    "test_X.bin": "7f263ba9f9e0b06b93213547f721ac82",
    "test_y.bin": "36f9794fa4beb8a2c72628de14fa638e",
}
STL10 = Release(
    name="STL-10",
    folder="stl10_binary",
    files=(*MD5, "unlabeled_X.bin"),
    downloads=(
        Download(
            "stl10_binary.tar.gz",
            ("http://ai.stanford.edu/~acoates/stl10/stl10_binary.tar.gz",),
            "91f7769df0f17e558f3565bffb0c7dfb",
        ),
    ),
    unpack=unpack_tar,
    archives=("stl10_binary.tar.gz",),
)


def load_stl10(
    path: str | os.PathLike[str] | None = None,
    *,
    split: str = "train",
    download: bool = False,
    verify: bool = True,
) -> ImageSet:
    """Read STL-10 from its official binary files.

    Parameters
    ----------
    path : path or None, default=None
        The folder ``stl10_binary``, a folder that holds it, or the archive ``stl10_binary.tar.gz``. None
        looks in :func:`data_folder`. Reading from the archive decompresses it every time, and the
        unlabeled images cannot be mapped from there: unpack it where there is room (3.1 GB).
    split : {"train", "test", "all", "unlabeled"}, default="train"
        The 5,000 training images, the 8,000 test images, both in this order, or the 100,000 unlabeled
        images. These stay on the disk: ``images`` is then a view of a read-only ``numpy.memmap``.
    download : bool, default=False
        Download the archive (2.5 GiB) and unpack it if the files are not there.
    verify : bool, default=True
        Check that the files are the official ones, by size and checksum (the unlabeled file by size
        only, so that it need not be read through). Without, any number of images in the same format
        is read.

    Returns
    -------
    ImageSet
        ``images`` of shape (n, 96, 96, 3), a view with other strides than a fresh array would have, since the
        files hold planes, column by column. Labels go from 0, while those in the files go from 1.
        With the training images come ``folds``: ten arrays of the numbers of 1,000 images to train on, which
        overlap between folds.

    Examples
    --------
    >>> from clusterica.datasets import load_stl10
    >>> stl = load_stl10("data", download=True)  # doctest: +SKIP
    >>> stl.images[stl.folds[0]].shape  # doctest: +SKIP
    (1000, 96, 96, 3)
    """
    check_choice("split", split, tuple(PARTS))
    parts = PARTS[split]
    names = [f"{part}_{kind}.bin" for part in parts for kind in "Xy"]
    names += [FOLDS] if "train" in parts else []
    names = names or ["unlabeled_X.bin"]
    where = find_release(STL10, path, needs=names, download=download)
    if split == "unlabeled":
        # 2.6 GB of unlabeled images are not read, but mapped.
        if where.is_file():
            raise ValueError(
                f"The unlabeled images can't be mapped from the archive {where}. Unpack it "
                f"(tar -xzf {where.name}) and pass the folder {STL10.folder}."
            )
        size = file_sizes(where, names)[names[0]]
        n_images = N_IMAGES["unlabeled"] if verify else -(-size // RECORD)
        read_files(where, names, lambda file: file.expect(n_images * RECORD))
        if n_images == 0:
            raise ValueError(f"{where / names[0]} is empty. Get it again.")
        planes = np.memmap(where / names[0], np.uint8, mode="r", shape=(n_images, *PLANES))
        return ImageSet(_upright(planes), None, ())
    return _read_parts(where, parts, names, verify=verify)


def _read_parts(where: Path, parts: tuple[str, ...], names: list[str], *, verify: bool) -> ImageSet:
    """Read labeled images of the parts one behind the other, and the folds."""
    if verify:
        counts = [N_IMAGES[part] for part in parts]
    else:
        sizes = file_sizes(where, names)
        # Rounded up: a file with part of an image is then found to be too short, and refused.
        counts = [-(-sizes[f"{part}_X.bin"] // RECORD) for part in parts]
    ends = np.cumsum(counts)
    rows = {p: slice(e - n, e) for p, e, n in zip(parts, ends, counts, strict=True)}
    planes = np.empty((sum(counts), *PLANES), np.uint8)
    labels = np.empty(len(planes), np.int64)
    folds: list[np.ndarray] = []

    def take(file: DataFile) -> None:
        if file.name == FOLDS:
            folds.extend(_parse_folds(file, counts[0], length=1_000 if verify else None))
            return
        part = file.name.partition("_")[0]
        if file.name.endswith("_X.bin"):
            file.fill(planes[rows[part]])
        else:
            codes = np.empty(labels[rows[part]].shape, np.uint8)
            file.fill(codes)
            labels[rows[part]] = check_labels(file, codes, first=1, last=len(CLASSES))

    read_files(where, names, take, md5=MD5 if verify else None)
    return ImageSet(_upright(planes), labels, CLASSES, folds=tuple(folds) or None)


def _upright(planes: np.ndarray) -> np.ndarray:
    """View planes of columns, (n, channel, column, row), as images (n, row, column, channel)."""
    return planes.transpose(0, 3, 2, 1)


def _parse_folds(file: DataFile, n_images: int, *, length: int | None) -> list[np.ndarray]:
    """Read one fold per line: numbers of training images, counted from 0."""
    # Ten folds of numbers, each of fewer than 12 characters with the space behind it.
    lines = file.read_all(120 * n_images + 1024).tobytes().splitlines()
    try:
        folds = [np.array(line.split(), dtype=np.intp) for line in lines if line.strip()]
    except (ValueError, OverflowError) as error:
        file.fail(f"holds something that is not a number ({error}). Get it again.")
    if len(folds) != 10:
        file.fail(f"has {len(folds)} lines in place of 10, one for each fold. Get it again.")
    for number, fold in enumerate(folds):
        if length is not None and len(fold) != length:
            file.fail(f"gives fold {number} {len(fold)} images in place of {length}. Get it again.")
        if fold.min() < 0 or fold.max() >= n_images or len(np.unique(fold)) != len(fold):
            file.fail(
                f"gives fold {number} an image twice or one that is not among the {n_images} training "
                "images. Get it again."
            )
    return folds
