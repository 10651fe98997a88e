"""Images that a command can use: damaged and too small ones stop it, or are skipped and named."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from clusterica.arrays import in_order
from clusterica.cli._console import note, stop
from clusterica.cli._files import need
from clusterica.cli.inputs.images import ImageSource, open_images

OnError = Literal["stop", "skip"]


class Found(NamedTuple):
    """Images that can be used, their places among those asked for, and by name what is wrong with others."""

    images: Any
    places: list[int]
    errors: dict[str, str]


def open_folder_or_array(given: str) -> ImageSource:
    """Open images as ``open_images`` does; if they are farther down in a folder, exit and name it."""
    path = Path(given).expanduser()
    if path.is_dir() and path.suffix != ".zarr":
        suffixes = set(
            need("PIL.Image", what="reading images", extra="images").registered_extensions()
        )
        deep = None
        for folder, _, files in os.walk(path):
            if any(Path(name).suffix.lower() in suffixes for name in files):
                if len(Path(folder).relative_to(path).parts) < 2:
                    break
                deep = deep or folder
        else:
            if deep is not None:
                stop(
                    f"{given} has no images in it, and no folders with any. {deep} has; give that one."
                )
    return open_images(given)


def find_usable(
    source: ImageSource,
    start: int = 0,
    stop_at: int | None = None,
    *,
    limit: int | None = None,
    color: str = "keep",
    size: tuple[int, int] | None = None,
    smallest: int = 1,
    on_error: OnError,
) -> Found:
    """Read images; damaged files are errors, and so are images with a side below ``smallest``.

    With a ``limit``, at most so many are read, evenly spaced.
    """
    places = range(start, len(source.names) if stop_at is None else stop_at)
    if not source.are_files:
        images = (
            source.read(places.start, places.stop, color=color, size=size)
            if limit is None
            else source.read_some(limit, color=color, size=size)
        )
        return Found(images, list(range(len(images))), {})

    def read_one(place: int) -> np.ndarray | ValueError:
        try:
            image = np.asarray(source.read(place, place + 1, color=color, size=size)[0])
        except ValueError as error:
            return error
        if min(image.shape[:2]) >= smallest:
            return image
        return ValueError(
            f"{source.names[place]} has {image.shape[0]} x {image.shape[1]} pixels, and at least "
            f"{smallest} x {smallest} are needed"
        )

    if limit is not None and limit < len(places):
        steps = np.unique(np.linspace(0, len(places) - 1, limit).astype(int))
        asked = [places[i] for i in steps]
    else:
        asked = list(places)
    good: dict[int, np.ndarray] = {}
    errors: dict[str, str] = {}
    for i, image in enumerate(in_order(read_one, ((place,) for place in asked))):
        if isinstance(image, np.ndarray):
            good[i] = image
        elif on_error == "stop":
            stop(f"{image}. Remove the file, or leave such files out with --on-error skip.")
        else:
            errors[source.names[asked[i]]] = str(image)
    # A source of these images alone joins them: to one array, or all in colour where some are.
    images = replace(source, reader=lambda *_: list(good.values())).read()
    return Found(images, list(good), errors)


def note_errors(errors: dict[str, str], what: str) -> None:
    """Say how many images could not be used, and name some."""
    if errors:
        some = "; ".join(list(errors.values())[:3])
        rest = f"; and {len(errors) - 3} more" if len(errors) > 3 else ""
        note(f"{len(errors)} {'images' if len(errors) > 1 else 'image'} {what}: {some}{rest}.")


def note_empty_folders(given: str, classes: set[str]) -> None:
    """Name folders that would be classes, if there were images in them."""
    path = Path(given).expanduser()
    if path.is_dir():
        folders = {p.name for p in path.iterdir() if p.is_dir() and not p.name.startswith(".")}
        empty = sorted(folders - classes)
        if empty:
            note(f"No images in {', '.join(empty[:5])}, and so no class of that name.")
