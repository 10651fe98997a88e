"""Caltech-101: photographs of 101 kinds of things, one folder a class, about 300 by 200 pixels each."""

from __future__ import annotations

import os

from clusterica.datasets._download import unpack_nested_tar
from clusterica.datasets._files import Download, Release, find_release
from clusterica.datasets._folder import read_classes
from clusterica.datasets._image_set import ImageSet
from clusterica.datasets._pictures import import_pillow

BACKGROUND = "BACKGROUND_Google"
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
        Read the folder ``BACKGROUND_Google`` too, as one more class. It is no kind of thing, and the
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
    return read_classes(
        where,
        color=color,
        resize=resize,
        on_error=on_error,
        leave_out=() if background else (BACKGROUND,),
    )
