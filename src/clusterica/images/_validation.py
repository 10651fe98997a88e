"""The one validator of images: arrays of them, tensors, or lists of images of different sizes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import groupby
from numbers import Integral
from typing import Any

import array_api_compat
import numpy as np
import scipy.sparse as sp

from clusterica.arrays import Array, get_config, is_cpu_tensor, is_host_array, namespace_of
from clusterica.images._source import Images, Part
from clusterica.ops.patch import n_places

_LAYOUT = "(n, height, width) or (n, height, width, channels)"
_SOME = 100  # images to look at where a look at some is enough


def check_images(X: Any, *, patch_size: int, caller: str, n_channels: int | None = None) -> Images:
    """Validate images and return them.

    Parameters
    ----------
    X : array of shape (n, height, width) or (n, height, width, channels), or list of images
        NumPy array, memory map or tensor, of integers or finite floats. A list may hold images of
        different sizes, all (height, width) or all (height, width, channels).
    patch_size : int
        Every image must hold a patch of this size.
    caller : str
        Name for messages.
    n_channels : int, optional
        Number of channels that the images must have.
    """
    images = _listed(X, caller) if _is_list(X) else _stacked(X, caller)
    if n_channels is not None and images.n_channels != n_channels:
        raise ValueError(
            f"X has {images.n_channels} channels, but {caller} is expecting {n_channels} channels as "
            "input; convert the images to the colours of those it was fitted on"
        )
    for part in images.parts:
        _check_size(part, patch_size)
    if images.n_channels < 1:
        raise ValueError("the images have 0 channels; each needs at least one")
    _check_finite(images)
    return images


def warn_if_alpha(images: Images) -> None:
    """Warn if the last of two or four channels is the same everywhere, as that of opaque images is."""
    if images.n_channels not in (2, 4):
        return
    part = images.parts[0]
    some = part.cut(0, min(_SOME, part.n_images))
    last, xp = some[..., -1], namespace_of(some)
    if float(xp.min(last)) == float(xp.max(last)) != 0:
        warnings.warn(
            f"the last of {images.n_channels} channels is {float(xp.max(last)):g} in every pixel looked "
            "at, as the alpha channel of opaque images is; it only dilutes the contrast of a patch, "
            "drop it with X[..., :-1]",
            UserWarning,
            stacklevel=4,
        )


def check_labels(y: Any, n_images: int) -> np.ndarray:
    """Return labels of images as a host array, one for every image."""
    y = np.asarray(y.cpu() if array_api_compat.is_torch_array(y) else y)
    if y.shape[:1] != (n_images,):
        raise ValueError(
            f"there are {n_images} images and y has shape {y.shape}; give one label for every image"
        )
    return y


def check_grid(name: str, grid: Any) -> tuple[int, int]:
    """Return a pair of numbers of cells, down and across."""
    whole = isinstance(grid, tuple | list) and all(
        isinstance(n, Integral) and not isinstance(n, bool) and int(n) >= 1 for n in grid
    )
    if not whole or len(grid) != 2:
        raise ValueError(f"{name}={grid!r} must be a pair (rows, columns) of numbers of at least 1")
    return int(grid[0]), int(grid[1])


def _is_list(X: Any) -> bool:
    if isinstance(X, list | tuple):
        return len(X) == 0 or all(hasattr(image, "shape") for image in X)
    return isinstance(X, np.ndarray) and X.dtype == object and X.ndim == 1


def _stacked(X: Any, caller: str) -> Images:
    """Return the images of one array."""
    if array_api_compat.is_dask_array(X):
        raise TypeError(
            f"{caller} takes no Dask arrays; pass X.compute(), or a numpy.memmap of images on disk"
        )
    if sp.issparse(X) or isinstance(X, str | bytes | dict | set | Iterator):
        raise TypeError(
            f"{caller} takes an array of images {_LAYOUT}, or a list of them, not {type(X).__name__}"
        )
    X = X if array_api_compat.is_array_api_obj(X) else np.asarray(X)
    if X.ndim not in (3, 4):
        remedy = "reshape rows of pixels with X.reshape(-1, height, width)"
        if X.ndim != 2:
            remedy = "give a single image as X[None]"
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
    images = _on_host_if_there(X)
    return Images([Part(0, images if X.ndim == 4 else images[..., None])], X)


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
    _check_one_kind(X)
    hosted = [_on_host_if_there(image) for image in X]
    flat = [image if image.ndim == 3 else image[..., None] for image in hosted]
    parts: list[Part] = []
    start = 0
    for _, group in groupby(flat, key=lambda image: tuple(image.shape)):
        parts.append(Part(start, list(group)))
        start += parts[-1].n_images
    return Images(parts, X[0])


def _check_one_kind(X: Any) -> None:
    """Refuse a list whose images differ in library, device, channels, or range of values."""
    channels = [1 if image.ndim == 2 else int(image.shape[2]) for image in X]
    for i, image in enumerate(X):
        if channels[i] != channels[0]:
            hint = " (one of them may have an alpha channel: image[..., :3] drops it)"
            raise ValueError(
                f"image 0 has {channels[0]} channels and image {i} has {channels[i]}"
                f"{hint if {channels[0], channels[i]} == {3, 4} else ''}; convert all images to the same "
                "number of channels"
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


def _on_host_if_there(X: Array) -> Array:
    """Return a CPU tensor as the NumPy array that shares its memory, other arrays as they are."""
    if not array_api_compat.is_torch_array(X):
        return X
    X = X.detach()
    if str(X.dtype) == "torch.bfloat16":
        X = X.float()
    return X.numpy() if is_cpu_tensor(X) else X


def _check_dtype(X: Array) -> None:
    if array_api_compat.is_torch_array(X) and "strided" not in str(X.layout):
        raise TypeError("sparse tensors are not taken; pass X.to_dense()")
    name = str(X.dtype)
    if "complex" in name:
        raise ValueError(f"Complex data not supported\n{name} images given")
    if isinstance(X, np.ndarray) and X.dtype.kind not in "buif":
        raise ValueError(
            f"images have dtype {name}; they must be numbers, such as uint8 or float32"
        )


def _check_size(part: Part, patch_size: int) -> None:
    height, width, _ = part.shape
    if min(n_places(n, patch_size=patch_size) for n in (height, width)) == 0:
        raise ValueError(
            f"image {part.start} has {height} x {width} pixels, too few for a patch of {patch_size} x "
            f"{patch_size}; lower patch_size, or enlarge the image. Channels must come last: "
            "X.transpose(0, 2, 3, 1) moves them there"
        )


def _check_finite(images: Images) -> None:
    """Refuse NaN and infinity; a walk over the images, in blocks, if they are floats."""
    for part in images.parts:
        first = part.cut(0, 1)
        xp = namespace_of(first)
        if not xp.isdtype(first.dtype, "real floating"):
            continue
        size = max(1, get_config()["memory"] // (16 * 8 * int(np.prod(part.shape))))
        for start in range(0, part.n_images, size):
            block = part.cut(start, start + size)
            if not bool(xp.all(xp.isfinite(block))):
                kind = "NaN" if bool(xp.any(xp.isnan(block))) else "infinity"
                raise ValueError(
                    f"Input X contains {kind}, among the images from {part.start + start} on."
                )
