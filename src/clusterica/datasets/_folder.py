"""Folders of images to arrays: one folder for each class, named after it. Caltech-101 is one of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from clusterica.arrays import in_order, warn_user
from clusterica.datasets._common import ImageSet, check_choice, is_count, join_and_free
from clusterica.datasets._download import unpack_nested_tar
from clusterica.datasets._files import Download, Release, find_release
from clusterica.datasets._pictures import (
    COLORS,
    UnreadableImageError,
    import_pillow,
    read_picture,
)

CALTECH101 = Release(
    name="Caltech-101",
    folder="101_ObjectCategories",
    files=("accordion", "airplanes", "Faces", "Leopards", "yin_yang"),
    downloads=(
        Download(
            "caltech-101.zip",
            ("https://data.caltech.edu/records/mzrjq-6wc02/files/caltech-101.zip",),
            "3138e1922a9193bfa496528edbbc45d0",
        ),
    ),
    unpack=unpack_nested_tar,
    other_folders=("caltech-101/101_ObjectCategories",),
)


def load_image_folder(
    path: str | os.PathLike[str],
    *,
    color: str = "rgb",
    resize: int | tuple[int, int] | None = None,
    on_error: str = "raise",
) -> ImageSet:
    """Read a folder of class folders of images, or a folder of images.

    Classes are numbered in the order of their names, and so are the images in each. Names that begin
    with a dot are skipped; so are files next to the class folders. In a folder without
    folders all files are read, without labels.

    Parameters
    ----------
    path : path
        The folder.
    color : {"rgb", "grey", "keep"}, default="rgb"
        "rgb" gives every image three channels, a grey one by repeating it. "grey" gives one, the
        luminance (ITU-R BT.601). "keep" leaves grey images grey and all others in colour; a mixture of
        the two is refused.
    resize : int, (int, int) or None, default=None
        An integer scales each image, up or down, so that its longest side has this many pixels, and
        keeps its aspect ratio (the other side is rounded to whole pixels). A pair is the height and
        width of all images; the aspect ratio may change. Scaling is bicubic, with smoothing where it shrinks
        (``PIL.Image.Resampling.BICUBIC``).
    on_error : {"raise", "skip"}, default="raise"
        What to do with a file that is not an image, or a damaged one, and with an empty class
        folder: an error, or a warning, both of which name it.

    Returns
    -------
    ImageSet
        ``images`` is one array if all have one size, otherwise a list of arrays. ``files`` has the path of
        each image. A folder without class folders has ``labels`` None.

    Notes
    -----
    Transparent images are laid on white and lose their alpha channel. Images are turned as their EXIF
    orientation says. Of 16-bit grey images the upper 8 bits are kept; of animations the first picture.

    Examples
    --------
    >>> from clusterica.datasets import load_image_folder
    >>> pets = load_image_folder("pets", resize=(64, 64))  # doctest: +SKIP
    >>> pets.class_names, pets.images.shape  # doctest: +SKIP
    (('cat', 'dog'), (200, 64, 64, 3))
    """
    import_pillow("load_image_folder")
    folder = Path(path).expanduser()
    if not folder.exists():
        raise FileNotFoundError(
            f"{folder} does not exist; pass a folder that holds folders of images."
        )
    if not folder.is_dir():
        raise NotADirectoryError(
            f"{folder} is not a folder; pass one that holds folders of images."
        )
    return _read_classes(folder, color=color, resize=resize, on_error=on_error, leave_out=())


def load_caltech101(
    path: str | os.PathLike[str] | None = None,
    *,
    background: bool = False,
    color: str = "rgb",
    resize: int | tuple[int, int] | None = None,
    on_error: str = "raise",
    download: bool = False,
) -> ImageSet:
    """Read Caltech-101 from its folder of class folders.

    The data set has no official split into training and test images.

    Parameters
    ----------
    path : path or None, default=None
        The folder ``101_ObjectCategories`` or one that holds it. None looks in :func:`data_folder`.
    background : bool, default=False
        Read the folder ``BACKGROUND_Google`` too, as one more class. It is not a class of things, and the
        usual experiments leave it out.
    color : {"rgb", "grey", "keep"}, default="rgb"
        Some of the images are grey: "rgb" repeats them into three channels; see
        :func:`load_image_folder`.
    resize : int, (int, int) or None, default=None
        The images differ in size. An integer scales each so that its longest side has this many
        pixels and keeps its proportions; see :func:`load_image_folder`.
    on_error : {"raise", "skip"}, default="raise"
        What to do with a file that is not an image.
    download : bool, default=False
        Download the archive (131 MiB) and unpack it if the folder is not there.

    Returns
    -------
    ImageSet
        ``images`` is a list of arrays, or one array if ``resize`` is a pair. ``files`` has the path of each.

    Examples
    --------
    >>> from clusterica.datasets import load_caltech101
    >>> caltech = load_caltech101("data", resize=150, download=True)  # doctest: +SKIP
    >>> len(caltech.images), len(caltech.class_names)  # doctest: +SKIP
    (8677, 101)
    """
    import_pillow("load_caltech101")
    where = find_release(CALTECH101, path, needs=(), download=download)
    if where.is_file():
        raise NotADirectoryError(
            f"{where} is a file. Unpack it and pass the folder {CALTECH101.folder}."
        )
    return _read_classes(
        where,
        color=color,
        resize=resize,
        on_error=on_error,
        leave_out=() if background else ("BACKGROUND_Google",),
    )


def _read_classes(
    folder: Path,
    *,
    color: str,
    resize: int | tuple[int, int] | None,
    on_error: str,
    leave_out: Sequence[str],
) -> ImageSet:
    """Read a folder of class folders, except those in ``leave_out``."""
    check_choice("color", color, COLORS)
    check_choice("on_error", on_error, ("raise", "skip"))
    size = _check_resize(resize)
    # Sorted by name, so that labels are the same on every system.
    classes = [f for f in _entries(folder) if f.is_dir() and f.name not in leave_out]
    groups = [_files_of(one) for one in classes] if classes else [_files_of(folder)]
    problems = [f"{one} is empty" for one, group in zip(classes, groups, strict=False) if not group]
    if not any(groups):
        raise ValueError(f"{folder} holds no images, and no folders with any. Is it the right one?")
    if problems and on_error == "raise":
        raise ValueError(f"{problems[0]}. Remove it, or pass on_error='skip'.")

    files = [file for group in groups for file in group]
    labels = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    # Labels are those of all files; unreadable ones are dropped together with their labels below.
    images = _read_all(files, color=color, size=size, on_error=on_error)
    good = [i for i, image in enumerate(images) if isinstance(image, np.ndarray)]
    problems += [str(image) for image in images if not isinstance(image, np.ndarray)]
    if problems:
        named = "; ".join(problems[:5])  # enough to see what is wrong
        rest = f"; and {len(problems) - 5} more" if len(problems) > 5 else ""
        warn_user(f"Skipped in {folder}: {named}{rest}.")
    if not good:
        raise ValueError(
            f"{folder} holds {len(files)} files and none is an image. Is it the right one?"
        )
    files = [files[i] for i in good]
    images = [images[i] for i in good]
    # Only color="keep" can mix them: grey images have two axes and the others three.
    first_of = {image.ndim: file for file, image in reversed(list(zip(files, images, strict=True)))}
    if len(first_of) > 1:
        raise ValueError(
            f"{first_of[2]} is grey and {first_of[3]} has colours. To read both, pass color='rgb' or "
            "color='grey'."
        )
    if len({image.shape for image in images}) == 1:
        # Views: nothing is copied before the array is filled.
        parts = [image[np.newaxis] for image in images]
        images.clear()  # so that each image is freed once it is copied
        joined: Any = join_and_free(parts)
    else:
        joined = images
    return ImageSet(
        images=joined,
        labels=labels[good].astype(np.int64) if classes else None,
        class_names=tuple(one.name for one in classes),
        files=tuple(files),
    )


def _entries(folder: Path) -> list[Path]:
    """List a folder in the order of names, without hidden entries."""
    return sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))


def _files_of(folder: Path) -> list[Path]:
    # Pipes and broken links are among them, and reported as unreadable.
    return [entry for entry in _entries(folder) if not entry.is_dir()]


def _check_resize(resize: Any) -> int | tuple[int, int] | None:
    """Raise an error if a size is not a whole number of pixels."""
    if resize is None:
        return None
    sides = resize if isinstance(resize, tuple | list) else (resize,)
    if not all(map(is_count, sides)) or len(sides) not in ((1,) if sides is not resize else (2,)):
        raise ValueError(
            f"resize is {resize!r}; it must be None, the pixels of the longest side, or a pair of height "
            "and width, all whole numbers from 1."
        )
    return (int(sides[0]), int(sides[1])) if sides is resize else int(sides[0])


def _read_all(
    files: list[Path], *, color: str, size: int | tuple[int, int] | None, on_error: str
) -> list[Any]:
    """Read images on several threads; with "skip", unreadable ones are returned as errors."""

    def read(file: Path) -> np.ndarray | UnreadableImageError:
        try:
            return read_picture(file, color=color, resize=size)
        except UnreadableImageError as error:
            if on_error == "skip":
                return error
            raise UnreadableImageError(
                f"{error}. Remove the file, or pass on_error='skip'."
            ) from error.__cause__

    # Pillow releases the global lock while it decodes, so that threads help.
    return list(in_order(read, ((file,) for file in files)))
