"""Images in memory, on disk or on a device: validated, and read as blocks of images of one size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple

import array_api_compat
import numpy as np
import scipy.sparse as sp

from clusterica.arrays import (
    Array,
    Place,
    as_chunks,
    check_not_masked,
    get_config,
    is_cpu_tensor,
    is_host_array,
    namespace_of,
    warn_user,
)
from clusterica.ops.patch import n_places

_LARGEST_PIXEL = float(np.finfo(np.float32).max)  # features are computed in float32
_LAYOUT = "(n, height, width) or (n, height, width, channels)"


class RemoteImages(NamedTuple):
    """A chunk of images on a cluster: an array of this shape, (n_images, height, width, channels)."""

    engine: Any
    handle: Any
    shape: tuple[int, ...]


class Part(NamedTuple):
    """Images of one size that follow each other: an array of them, here or on a cluster, or a list.

    The array has shape (n_images, height, width, channels), each image of the list (height, width,
    channels). `start` is the place of the first one among all images.
    """

    start: int
    images: Any

    @property
    def n_images(self) -> int:
        """Number of images."""
        return len(self.images) if isinstance(self.images, list) else int(self.images.shape[0])

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels of an image."""
        one = self.images[0] if isinstance(self.images, list) else self.images
        height, width, channels = one.shape[-3:]
        return int(height), int(width), int(channels)

    def cut(self, start: int, stop: int) -> Array:
        """Return some of the images as one array, in their own dtype; a view where that can be had."""
        if isinstance(self.images, list):
            some = self.images[start:stop]
            return namespace_of(*some).stack(some)
        if isinstance(self.images, RemoteImages):
            return next(iter(for_parts(Part.cut, [self], [start], [stop])))
        return self.images[start : min(stop, self.n_images), ...]


def for_parts(fn: Callable[..., Any], parts: list[Part], *args: Sequence[Any]) -> Iterable[Any]:
    """Return ``fn(part, *own)`` of every part, with its own arguments; on a cluster, where the part is."""
    tasks = list(zip(parts, *args, strict=True))
    remote = parts[0].images
    if not isinstance(remote, RemoteImages):
        return (fn(*task) for task in tasks)
    engine = remote.engine
    submitted = [
        engine.submit(_in_task, fn, part.images.handle, part.start, *own) for part, *own in tasks
    ]
    return list(engine.fetch(submitted))


def _in_task(fn: Callable[..., Any], images: Array, start: int, *own: Any) -> Any:
    return fn(Part(start, images if images.ndim == 4 else images[..., None]), *own)


class Block(NamedTuple):
    """Images from `start` up to `stop`, the part they belong to, and a function that loads them."""

    start: int
    stop: int
    part: Part
    load: Callable[[], Array]


class Images:
    """All images given to an estimator, known to be valid.

    Parameters
    ----------
    parts : list of Part
        Images that were CPU tensors are NumPy arrays here.
    reference : array
        An array of the library and device in which results are returned.

    Attributes
    ----------
    home, place : Place
        Where results go, and where blocks are worked on.
    """

    def __init__(self, parts: list[Part], reference: Array) -> None:
        self.parts = parts
        self.n_images = sum(part.n_images for part in parts)
        self.n_channels = parts[0].shape[2]
        self.home = Place(reference[:0, ...])
        self.place = Place.of_work(self.home)

    def largest_pixel(self, n_images: int = 16) -> float:
        """Return the largest value in about n_images images, evenly spaced.

        16 images are enough to distinguish values up to 1 from values up to 255, and cost little.
        """
        # A list of images of many sizes has many parts: of these, every so many.
        parts = self.parts[:: -(-len(self.parts) // n_images)]
        largest = -np.inf
        for part in parts:
            step = max(1, -(-part.n_images * len(parts) // n_images))
            for i in range(0, part.n_images, step):
                image = part.cut(i, i + 1)
                largest = max(largest, float(namespace_of(image).max(image)))
        return largest

    def blocks(self, size: Callable[[Part], int]) -> Iterator[Block]:
        """Yield blocks of images of one size, in order, of at most ``size(part)`` images."""

        def load(part: Part, start: int, stop: int) -> Array:
            block = part.cut(start, stop)
            if self.place.is_numpy:
                return np.ascontiguousarray(block, dtype=np.float32)
            # Bytes are sent as bytes; torch does not have all other types of NumPy.
            if isinstance(block, np.ndarray) and block.dtype not in (np.uint8, np.float32):
                block = block.astype(np.float32)
            block = self.place.put(block)
            xp = namespace_of(block)
            return xp.astype(block, xp.float32, copy=False)

        for part in self.parts:
            most = size(part)
            for start in range(0, part.n_images, most):
                stop = min(start + most, part.n_images)
                loaded = partial(load, part, start, stop)
                yield Block(part.start + start, part.start + stop, part, loaded)


# --- Validation -------------------------------------------------------------------------------------


def check_images(X: Any, *, patch_size: int, caller: str, n_channels: int | None = None) -> Images:
    """Validate images and return them.

    Parameters
    ----------
    X : array of shape (n, height, width) or (n, height, width, channels), or list of images
        NumPy array, memory map, tensor or Dask array, of integers or finite floats. A list may hold images of
        different sizes, all (height, width) or all (height, width, channels).
    patch_size : int
        Every image must hold a patch of this size.
    caller : str
        Name for messages.
    n_channels : int, optional
        Number of channels that the images must have.
    """
    _check_not_files(X, caller)
    if isinstance(X, list | tuple):
        # Nested lists of numbers are one array; images of a list have a shape of their own.
        is_list = len(X) == 0 or all(hasattr(image, "shape") for image in X)
    else:
        is_list = isinstance(X, np.ndarray) and X.dtype == object and X.ndim == 1
    images = _listed(X, caller) if is_list else _stacked(X, caller)
    # The axes of an array may be those of one image, or in another order.
    shape, hint = tuple(getattr(X, "shape", ())), ""
    if len(shape) == 3 and shape[2] in (1, 3, 4):
        hint = f". An array of shape {shape} is {shape[0]} grey images; give one colour image as X[None]"
    elif len(shape) == 4 and shape[1] in (1, 3, 4):
        hint = ". Channels must come last: X.transpose(0, 2, 3, 1) moves them there"
    if n_channels is not None and images.n_channels != n_channels:
        raise ValueError(
            f"X has {images.n_channels} channels, but {caller} is expecting {n_channels} channels as "
            f"input; convert the images to the colours of those it was fitted on{hint}"
        )
    for part in images.parts:
        height, width, _ = part.shape
        if min(n_places(n, patch_size=patch_size) for n in (height, width)) == 0:
            raise ValueError(
                f"image {part.start} has {height} x {width} pixels, too few for a patch of {patch_size} x "
                f"{patch_size}; lower patch_size, or enlarge the image{hint}"
            )
    if images.n_channels < 1:
        raise ValueError("the images have 0 channels; each needs at least one")
    for found in for_parts(_not_finite, images.parts):
        if found is not None:
            kind, first = found
            where = f"among the images from {first} on"
            if kind == "large values":
                raise ValueError(
                    f"Input X contains values that float32 does not have, {where}; features are computed in "
                    "float32: scale all images down"
                )
            raise ValueError(f"Input X contains {kind}, {where}.")
    return images


def _check_not_files(X: Any, caller: str) -> None:
    """Refuse names of files and whole data sets, and say how to get the images."""
    if hasattr(X, "images") and hasattr(X, "labels"):
        raise TypeError(
            f"X is a data set with labels ({type(X).__name__}); {caller} takes its images, X.images, and "
            "where it learns from labels X.labels as y"
        )
    first = X[0] if isinstance(X, list | tuple) and X else X
    if isinstance(first, str | Path):
        raise TypeError(
            f"X names files ({str(first)!r}), and {caller} takes an array of images {_LAYOUT}, or a list of "
            "them, not str or Path. Read a folder with clusterica.datasets.load_image_folder(path).images, "
            "or files with [numpy.asarray(PIL.Image.open(path)) for path in paths]"
        )


def warn_if_alpha(images: Images) -> None:
    """Warn if the last of two or four channels is the same everywhere, as that of opaque images is."""
    if images.n_channels not in (2, 4):
        return
    part = images.parts[0]
    # A hundred images: opaque ones are all alike, so that a look at some of them is enough.
    some = part.cut(0, min(100, part.n_images))
    last, xp = some[..., -1], namespace_of(some)
    if float(xp.min(last)) == float(xp.max(last)) != 0:
        warn_user(
            f"the last of {images.n_channels} channels is {float(xp.max(last)):g} in every pixel looked "
            "at, as the alpha channel of opaque images is; it only dilutes the contrast of a patch, "
            "drop it with X[..., :-1]"
        )


def check_image_labels(y: Any, n_images: int) -> np.ndarray:
    """Return labels of images as a host array, one for every image."""
    labels = np.asarray(y.cpu() if array_api_compat.is_torch_array(y) else y)
    if labels.shape[:1] != (n_images,):
        raise ValueError(
            f"there are {n_images} images and y has shape {labels.shape}; give one label for every image"
        )
    return labels


def check_grid(name: str, grid: Any) -> tuple[int, int]:
    """Return a pair of numbers of cells, down and across."""
    cells = list(grid) if isinstance(grid, tuple | list) else []
    whole = all(isinstance(n, Integral) and not isinstance(n, bool) for n in cells)
    if len(cells) != 2 or not whole or min(cells) < 1:
        raise ValueError(f"{name}={grid!r} must be a pair (rows, columns) of numbers of at least 1")
    return int(grid[0]), int(grid[1])


def _stacked(X: Any, caller: str) -> Images:
    """Return the images of one array."""
    chunks = as_chunks(X)
    if sp.issparse(X) or isinstance(X, str | bytes | dict | set | Iterator):
        raise TypeError(
            f"{caller} takes an array of images {_LAYOUT}, or a list of them, not {type(X).__name__}"
        )
    # Nested lists become an array; tensors and what is on a cluster stay where they are.
    if chunks is None and not array_api_compat.is_array_api_obj(X):
        X = np.asarray(X)
    X = X if chunks is None else chunks
    ndim = len(X.shape)
    if ndim not in (3, 4):
        remedy = "give a single image as X[None]"
        if ndim == 2:
            remedy += ", and reshape rows of pixels with X.reshape(-1, height, width)"
        raise ValueError(
            f"Expected images of shape {_LAYOUT}, got an array of shape {tuple(X.shape)} in {caller}; "
            f"{remedy}"
        )
    if X.shape[0] == 0:
        raise ValueError(
            f"Found array with 0 sample(s) (shape={tuple(X.shape)}) while a minimum of 1 is required by "
            f"{caller}."
        )
    _check_dtype(X)
    if chunks is not None:
        # On a cluster every chunk is a part of its own.
        kept = chunks.kept()
        shape = kept.row_shape if len(kept.row_shape) == 3 else (*kept.row_shape, 1)
        parts = [
            Part(int(start), RemoteImages(kept.engine, handle, (n, *shape)))
            for start, handle, n in zip(kept.starts, kept.handles, kept.lengths, strict=True)
        ]
        return Images(parts, np.empty((0, 0), np.float32))
    images = _on_host_if_there(X)
    return Images([Part(0, images if ndim == 4 else images[..., None])], X)


def _listed(X: Any, caller: str) -> Images:
    """Return the images of a list, in parts of one size each."""
    if len(X) == 0:
        raise ValueError(f"Found 0 images while a minimum of 1 is required by {caller}.")
    for i, image in enumerate(X):
        if image.ndim not in (2, 3):
            raise ValueError(
                f"image {i} has shape {tuple(image.shape)}; an image of a list must have shape (height, "
                "width) or (height, width, channels)"
            )
        _check_dtype(image)
        # All of one library, number of channels and range of values.
        first, n = (1 if one.ndim == 2 else int(one.shape[2]) for one in (X[0], image))
        if n != first:
            hint = " (one of them may have an alpha channel: image[..., :3] drops it)"
            raise ValueError(
                f"image 0 has {first} channels and image {i} has {n}{hint if {first, n} == {3, 4} else ''}; "
                "convert all images to the same number of channels"
            )
        if type(image) is not type(X[0]) and not (is_host_array(image) and is_host_array(X[0])):
            raise TypeError(
                f"image 0 is a {type(X[0]).__name__} and image {i} a {type(image).__name__}; give one kind"
            )
        if image.dtype != X[0].dtype:
            raise ValueError(
                f"image 0 has dtype {X[0].dtype} and image {i} {image.dtype}; convert all to one dtype, and "
                "to one range of values"
            )
    # CPU tensors share their memory with NumPy arrays, for which there is compiled code.
    hosted = [_on_host_if_there(image) for image in X]
    flat = [image if image.ndim == 3 else image[..., None] for image in hosted]
    # Only neighbours of one size share a part, so that features come out in the order of the list.
    parts: list[Part] = []
    start = 0
    for _, group in groupby(flat, key=lambda image: tuple(image.shape)):
        parts.append(Part(start, list(group)))
        start += parts[-1].n_images
    return Images(parts, X[0])


def _on_host_if_there(X: Array) -> Array:
    """Return a CPU tensor as the NumPy array that shares its memory, other arrays as they are."""
    if not array_api_compat.is_torch_array(X):
        return X
    X = X.detach()
    if str(X.dtype) == "torch.bfloat16":  # NumPy does not have it
        X = X.float()
    return X.numpy() if is_cpu_tensor(X) else X


def _check_dtype(X: Array) -> None:
    if array_api_compat.is_torch_array(X) and "strided" not in str(X.layout):
        raise TypeError("sparse tensors are not taken; pass X.to_dense()")
    check_not_masked(X)
    name = str(X.dtype)
    if "complex" in name:
        raise ValueError(f"Complex data not supported\n{name} images given")
    if isinstance(X, np.ndarray) and X.dtype.kind not in "buif":  # bool, integers and floats
        raise ValueError(
            f"images have dtype {name}; they must be numbers, such as uint8 or float32"
        )


def _not_finite(part: Part) -> tuple[str, int] | None:
    """Return "NaN", "infinity" or "large values", and the first image of their block; None if all is well."""
    first = part.cut(0, 1)
    xp = namespace_of(first)
    if not xp.isdtype(first.dtype, "real floating"):
        return None  # integers are always finite
    # A sixteenth of the memory budget for the pixels, counted as float64; the mask is smaller still.
    size = max(1, get_config()["memory"] // (16 * 8 * int(np.prod(part.shape))))
    for start in range(0, part.n_images, size):
        block = part.cut(start, start + size)
        if not bool(xp.all(xp.isfinite(block))):
            return "NaN" if bool(xp.any(xp.isnan(block))) else "infinity", part.start + start
        if max(float(xp.max(block)), -float(xp.min(block))) > _LARGEST_PIXEL:
            return "large values", part.start + start
    return None
