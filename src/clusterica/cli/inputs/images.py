"""Images that a command is given: a folder, a zip archive, a file, an array, or the name of a data set."""

from __future__ import annotations

import csv
import io
import sys
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from clusterica.arrays import in_order
from clusterica.cli._console import note, stop
from clusterica.cli._files import fingerprint, need

# Reads the images from start up to stop: read(start, stop, color, size).
Reader = Callable[[int, int, str, "tuple[int, int] | None"], Any]

BUILT_IN = {
    "digits": "1,797 handwritten digits, 8 x 8 pixels; comes with scikit-learn",
    "photos": "two photographs of 427 x 640 pixels; come with scikit-learn",
    "cifar10": "50,000 photographs of 10 classes, 32 x 32 pixels",
    "stl10": "5,000 photographs of 10 classes, 96 x 96 pixels",
    "stl10-unlabeled": "100,000 photographs without labels, 96 x 96 pixels",
    "mnist": "60,000 handwritten digits, 28 x 28 pixels",
    "fashion-mnist": "60,000 pictures of clothes, 28 x 28 pixels",
    "caltech101": "8,677 photographs of 101 classes, of different sizes",
}
"""Data sets by name; those with a test set have it as NAME-test."""

KINDS = "a folder of images, a .zip of one, an image, a .npy, .npz or .zarr array"
# Names under which arrays are looked for in .npz files and Zarr groups.
IMAGE_KEYS = ("images", "X", "x", "data", "x_train", "X_train")
LABEL_KEYS = ("labels", "y", "label", "targets", "y_train")


@dataclass(frozen=True)
class ImageSource:
    """Images that are read block by block.

    Parameters
    ----------
    path : str
        As the user gave it.
    names : sequence of str
        Name of each image: its file, or its number in an array.
    labels : ndarray of str or None
        Class name of each image.
    key : str
        Checksum that changes when the images change.
    are_files : bool
        Whether they can be scaled and change their colours when they are read.
    reader : callable
        See ``Reader``.
    """

    path: str
    names: Sequence[str]
    labels: np.ndarray | None
    key: str
    are_files: bool
    reader: Reader

    def read(
        self,
        start: int = 0,
        stop_at: int | None = None,
        *,
        color: str = "keep",
        size: tuple[int, int] | None = None,
    ) -> Any:
        """Return images as one array, or as a list where their sizes differ."""
        images = self.reader(start, len(self.names) if stop_at is None else stop_at, color, size)
        return _joined(images) if isinstance(images, list) else images

    def read_some(
        self, limit: int | None, *, color: str = "keep", size: tuple[int, int] | None = None
    ) -> Any:
        """Return at most ``limit`` images, evenly spaced."""
        n = len(self.names)
        if limit is None or limit >= n:
            return self.read(color=color, size=size)
        places = np.unique(np.linspace(0, n - 1, limit).astype(int)).tolist()
        return _joined([self.reader(i, i + 1, color, size)[0] for i in places])


def _joined(images: list[np.ndarray]) -> Any:
    """Return images as one array, or as a list where their sizes differ; all grey or all in colour."""
    if len({image.ndim for image in images}) > 1:  # grey ones among others
        images = [
            np.repeat(image[..., None], 3, axis=2) if image.ndim == 2 else image for image in images
        ]
    return np.stack(images) if len({image.shape for image in images}) == 1 else images


def open_images(given: str) -> ImageSource:
    """Find the images that an argument names, or exit with a message."""
    path = Path(given).expanduser()
    if not path.exists():
        if given.lower() in BUILT_IN or given.lower().removesuffix("-test") in BUILT_IN:
            return _built_in(given.lower())
        stop(
            f"there is no file or folder {given}. Give {KINDS}, or the name of a data set: "
            f"{', '.join(BUILT_IN)}."
        )
    suffix = path.suffix.lower()
    if suffix == ".zarr" or (path / "zarr.json").exists() or (path / ".zarray").exists():
        zarr = need("zarr", what=f"reading {given}", extra="files")
        return _arrays(given, path, lambda: zarr.open(str(path), mode="r"))
    if path.is_dir():
        # Images of a folder, or of the folders in it: no deeper, as load_image_folder reads them.
        inside = [*(p for p in path.glob("*") if p.is_file()), *path.glob("*/*")]
        return _files(given, path, [PurePosixPath(p.relative_to(path).as_posix()) for p in inside])
    if not path.is_file():  # a pipe would wait for a writer, perhaps for ever
        stop(f"{given} is not a regular file. Give {KINDS}.")
    if suffix == ".zip":
        return _zip(given, path)
    if suffix == ".npz":
        with path.open("rb") as file:
            return _arrays(given, path, lambda: np.load(file, allow_pickle=False))
    if suffix == ".npy":
        # A memory map, so that a large file is read as it is needed.
        return _arrays(given, path, lambda: np.load(path, mmap_mode="r", allow_pickle=False))
    if suffix in _picture_suffixes():
        return _files(given, path.parent, [PurePosixPath(path.name)])
    stop(f"{given} can't be read as images. Give {KINDS}.")


def parse_size(text: str | None) -> tuple[int, int] | None:
    """Turn "32" or "32x48" (height x width) into a pair of pixels."""
    if text is None:
        return None
    sides = text.lower().split("x")
    if len(sides) not in (1, 2) or not all(side.isdigit() and int(side) > 0 for side in sides):
        stop(f"--size {text} is not a size; write 32, or 32x48 for height x width.", code=2)
    return int(sides[0]), int(sides[-1])


def read_labels(path: Path, names: Sequence[str]) -> np.ndarray:
    """Read the class names of images: one for each in order, or a table with the columns file and class."""
    if not path.is_file():
        stop(f"there is no file {path} with labels.")
    if path.suffix.lower() == ".npy":
        try:
            found = np.load(path, allow_pickle=False)
        except Exception as error:  # a damaged file raises almost anything
            stop(f"{path} can't be read as an array of labels: {error}")
        return _as_labels(found, len(names), str(path))
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = [row for row in csv.reader(file) if row]
    except (csv.Error, UnicodeDecodeError) as error:
        stop(f"{path} can't be read as CSV: {error}.")
    header = [cell.strip().lower() for cell in rows[0]] if rows else []
    if len(header) == 1:
        lines = rows[1:] if header[0] in ("label", "labels", "class") else rows
        return _as_labels(np.array([row[0].strip() for row in lines]), len(names), str(path))
    column = next((header.index(word) for word in ("class", "label") if word in header), None)
    if column is None or "file" not in header:
        stop(
            f"{path} must have one label on each line, or the columns file and class (or label) with a "
            "header."
        )
    known = {row[header.index("file")]: row[column] for row in rows[1:] if len(row) == len(header)}
    missing = [name for name in names if name not in known]
    if missing:
        stop(
            f"{path} has no label for {missing[0]}, and so for {len(missing)} of {len(names)} images; add "
            "a line for each, or remove these images."
        )
    return np.array([known[name] for name in names])


# --- Files ------------------------------------------------------------------------------------------


def _picture_suffixes() -> set[str]:
    image = need("PIL.Image", what="reading images", extra="images")
    return set(image.registered_extensions())


def _files(given: str, root: Path, found: list[PurePosixPath]) -> ImageSource:
    names, labels = _sorted_out(given, found)
    # Sizes and times of change: reading all files only for a checksum would take too long.
    stats = [(root / name).stat() for name in names]

    def read_one(name: str, color: str, size: tuple[int, int] | None) -> np.ndarray:
        from clusterica.datasets import read_picture

        return read_picture(root / name, color=color, resize=size)

    def read(start: int, stop_at: int, color: str, size: tuple[int, int] | None) -> list[Any]:
        return list(in_order(read_one, ((name, color, size) for name in names[start:stop_at])))

    key = fingerprint([(n, s.st_size, s.st_mtime_ns) for n, s in zip(names, stats, strict=True)])
    return ImageSource(given, names, labels, key, True, read)


def _zip(given: str, path: Path) -> ImageSource:
    try:
        box = zipfile.ZipFile(path)
        members = {PurePosixPath(i.filename): i for i in box.infolist() if not i.is_dir()}
    except Exception as error:  # a damaged archive raises almost anything
        stop(f"{given} is not a zip archive, or it is damaged ({error}); get it again.")
    # macOS adds a folder of its own to every archive. A damaged one may have a member without a name.
    members = {p: i for p, i in members.items() if p.parts and "__MACOSX" not in p.parts}
    # An archive of a folder has that folder's name before all others.
    tops = {p.parts[0] for p in members}
    inside = [p for p in members if len(p.parts) > 2]
    prefix = PurePosixPath(*tops) if len(tops) == 1 and inside else PurePosixPath()
    shown = {p.relative_to(prefix): i for p, i in members.items()}
    names, labels = _sorted_out(given, [p for p in shown if len(p.parts) <= 2])
    infos = [shown[PurePosixPath(name)] for name in names]

    def read_one(info: zipfile.ZipInfo, color: str, size: tuple[int, int] | None) -> np.ndarray:
        from clusterica.datasets import read_picture

        # A small archive can hold far more than 1 GiB; Pillow refuses images of more pixels than that.
        if info.file_size > 2**30:
            raise ValueError(f"{info.filename} in {given} has {info.file_size:,} bytes, too many")
        try:
            content = io.BytesIO(box.read(info))
        # Damaged, encrypted, or compressed in a way that zipfile does not read.
        except Exception as error:
            raise ValueError(f"{info.filename} in {given} can't be unpacked: {error}") from error
        content.name = info.filename  # for messages
        return read_picture(content, color=color, resize=size)

    def read(start: int, stop_at: int, color: str, size: tuple[int, int] | None) -> list[Any]:
        return list(in_order(read_one, ((info, color, size) for info in infos[start:stop_at])))

    key = fingerprint([(n, i.file_size, i.CRC) for n, i in zip(names, infos, strict=True)])
    return ImageSource(given, names, labels, key, True, read)


def _sorted_out(given: str, found: list[PurePosixPath]) -> tuple[list[str], np.ndarray | None]:
    """Return the names of image files in order, and their class names where there are class folders."""
    suffixes = _picture_suffixes()
    found = sorted(p for p in found if not any(part.startswith(".") for part in p.parts))
    pictures = [p for p in found if p.suffix.lower() in suffixes]
    classes = [p for p in pictures if len(p.parts) == 2]
    chosen = classes or pictures
    if not chosen:
        stop(f"{given} has no images in it, and no folders with any. Is it the right one?")
    left = len(found) - len(chosen)
    if left:
        first = next(p for p in found if p not in set(chosen))
        note(f"{left} {'files' if left > 1 else 'file'} in {given} left out, such as {first}.")
    labels = np.array([p.parts[0] for p in classes]) if classes else None
    return [p.as_posix() for p in chosen], labels


# --- Arrays -----------------------------------------------------------------------------------------


def _arrays(given: str, path: Path, load: Callable[[], Any]) -> ImageSource:
    """Return the images of a file or folder with one array or several."""
    try:
        images, labels = _images_and_labels(given, load())
    # Readers raise almost anything for damaged files: TokenError, BadZipFile, IndexError...
    except Exception as error:
        stop(f"{given} can't be read as an array of numbers: {error}")
    inside = sorted(path.rglob("*")) if path.is_dir() else [path]
    stats = [p.stat() for p in inside if p.is_file()]
    return _array(given, images, labels, fingerprint([(s.st_size, s.st_mtime_ns) for s in stats]))


def _images_and_labels(given: str, stored: Any) -> tuple[Any, np.ndarray | None]:
    """Find the images and their labels in what was stored."""
    # Several arrays are an .npz file, or a group of Zarr.
    found = stored.array_keys() if hasattr(stored, "array_keys") else getattr(stored, "files", None)
    if found is None:
        return stored, None
    keys = list(found)
    known = [key for key in IMAGE_KEYS if key in keys] or (keys if len(keys) == 1 else [])
    if not known:
        stop(f"{given} has the arrays {', '.join(keys)}; call that of the images 'images'.")
    images = stored[known[0]]
    label_key = next((key for key in LABEL_KEYS if key in keys), None)
    if label_key is None:
        return images, None
    labels = np.asarray(stored[label_key][:])
    if "class_names" in keys and labels.dtype.kind in "iu":
        labels = np.asarray(stored["class_names"][:])[labels]
    return images, _as_labels(labels, images.shape[0], given)


def _array(given: str, images: Any, labels: np.ndarray | None, key: str) -> ImageSource:
    # Files in an .npz file that are no arrays have neither shape nor type.
    shape: tuple[int, ...] = getattr(images, "shape", ())
    dtype = getattr(images, "dtype", type(images))
    if len(shape) not in (3, 4) or getattr(dtype, "kind", "-") not in "buif":
        stop(
            f"{given} is an array of shape {tuple(shape)} and type {dtype}; images are "
            "numbers of shape (n, height, width) or (n, height, width, channels)."
        )
    if max(shape) > sys.maxsize:  # a Zarr array may state any shape
        stop(
            f"{given} states {max(shape)} along an axis, more than an array can have: it is damaged."
        )

    def read(start: int, stop_at: int, color: str, size: tuple[int, int] | None) -> np.ndarray:
        if size is not None and tuple(images.shape[1:3]) != size:
            stop(
                f"{given} has images of {images.shape[1]} x {images.shape[2]} pixels, and {size[0]} x "
                f"{size[1]} are needed. Images in an array are not scaled: scale them first."
            )
        try:
            return np.asarray(images[start:stop_at])
        except Exception as error:  # chunks of a Zarr array may be damaged
            raise ValueError(f"{given} can't be read from image {start}: {error}") from error

    return ImageSource(given, _Numbers(shape[0]), labels, key, False, read)


class _Numbers(Sequence[str]):
    """Names of images in an array: "0", "1", ... A few bytes can state a huge number of them."""

    def __init__(self, n: int) -> None:
        self._range = range(n)

    def __len__(self) -> int:
        return len(self._range)

    def __getitem__(self, place: Any) -> Any:
        found = self._range[place]
        return [str(i) for i in found] if isinstance(found, range) else str(found)


def _as_labels(labels: np.ndarray, n_images: int, where: str) -> np.ndarray:
    if labels.shape != (n_images,):
        stop(
            f"{where} has labels of shape {labels.shape} for {n_images} images; give one label for each."
        )
    return labels.astype(str)


def _built_in(name: str) -> ImageSource:
    """Read a data set by its name."""
    if name == "photos":
        from sklearn.datasets import load_sample_images

        need("PIL.Image", what="reading the photographs", extra="images")
        return _array(name, np.stack(load_sample_images().images), None, name)
    try:
        found = load_built_in(name)
    except FileNotFoundError as error:
        base = name.removesuffix("-test").removesuffix("-unlabeled")
        # The rest of the message is for callers in Python.
        stop(f"{str(error).partition('. ')[0]}. Get it with: clusterica download {base}")
    labels = None if found.labels is None else np.array(found.class_names)[found.labels]
    if not isinstance(found.images, list):
        return _array(name, found.images, labels, name)
    files = list(found.files)
    root = files[0].parent.parent
    return _files(name, root, [PurePosixPath(f.relative_to(root).as_posix()) for f in files])


def load_built_in(name: str, *, data: Path | None = None, download: bool = False) -> Any:
    """Return the ImageSet of a data set; ``NAME-test`` is its test set."""
    from clusterica import datasets

    if name == "digits":
        return datasets.load_digits_images()
    if name == "caltech101":
        return datasets.load_caltech101(data, download=download)
    loaders = {
        "cifar10": datasets.load_cifar10,
        "stl10": datasets.load_stl10,
        "mnist": datasets.load_mnist,
        "fashion-mnist": datasets.load_fashion_mnist,
    }
    base, _, split = name.rpartition("-")
    if split not in ("test", "unlabeled"):
        base, split = name, "train"
    if base not in loaders or (split == "unlabeled") > (base == "stl10"):
        stop(f"{base or name} has no {split} set.")
    return loaders[base](data, split=split, download=download)
