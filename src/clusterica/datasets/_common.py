"""What readers and generators of data share: their result ``ImageSet``, and checks of parameters."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np


class ImageSet(NamedTuple):
    """Images with their labels.

    Examples
    --------
    >>> from clusterica.datasets import load_digits_images
    >>> digits = load_digits_images()
    >>> digits.images.shape, digits.images.dtype, digits.class_names[digits.labels[0]]
    ((1797, 8, 8), dtype('uint8'), '0')
    >>> digits._replace(labels=None, class_names=())
    ImageSet(images=<uint8 array of shape (1797, 8, 8)>, class_names=())
    """

    images: Any
    """uint8 array of shape (n, height, width) or (n, height, width, channels), or a list of n arrays of
    shape (height, width) or (height, width, channels) where the sizes differ."""
    labels: np.ndarray | None
    """Number of the class of each image, from 0, of shape (n,); None where there are no labels."""
    class_names: tuple[str, ...]
    """Name of each class, in the order of the numbers; empty where there are no labels."""
    folds: tuple[np.ndarray, ...] | None = None
    """Numbers of the images of each official training fold, where the data set defines folds."""
    files: tuple[Path, ...] | None = None
    """File of each image, where each has one of its own."""

    def __repr__(self) -> str:
        return brief(self)


def brief(result: Any) -> str:
    """Return the text of a named tuple with the shapes of its arrays in place of their numbers."""
    parts = [
        f"{name}={_brief_value(value)}"
        for name, value in result._asdict().items()
        if value is not None
    ]
    return f"{type(result).__name__}({', '.join(parts)})"


def _brief_value(value: Any) -> str:
    if hasattr(value, "dtype"):
        return f"<{value.dtype} array of shape {tuple(value.shape)}>"
    if isinstance(value, list | tuple) and len(value) > 3:
        kind = "images" if isinstance(value, list) else "items"
        shown = "" if hasattr(value[0], "dtype") else f" from {value[0]!r} to {value[-1]!r}"
        return f"<{len(value)} {kind}{shown}>"
    if isinstance(value, list | tuple) and any(hasattr(v, "dtype") for v in value):
        return f"[{', '.join(map(_brief_value, value))}]"
    return repr(value)


def join_and_free(parts: list[np.ndarray]) -> np.ndarray:
    """Concatenate along the first axis, and free each part once it is copied.

    Peak memory is the result and one part. The list is empty afterwards.
    """
    # np.concatenate would hold all parts until the end: twice the memory.
    out = np.empty((sum(map(len, parts)), *parts[0].shape[1:]), parts[0].dtype)
    end = len(out)
    while parts:  # from the end, where freed memory can go back to the system at once
        part = parts.pop()
        out[end - len(part) : end] = part
        end -= len(part)
    return out


def check_choice(name: str, value: object, allowed: Sequence[str]) -> None:
    """Raise an error if a value is not one of those allowed."""
    if value not in allowed:
        raise ValueError(f"{name} is {value!r}; it must be one of {', '.join(map(repr, allowed))}.")


def check_count(name: str, value: Any, *, largest: int | None = None, what: str = "") -> None:
    """Raise an error if a value is not a whole number from 1 to ``largest``, which is ``what``."""
    if is_count(value) and (largest is None or value <= largest):
        return
    rule = "of at least 1" if largest is None else f"from 1 to {largest}, {what}"
    raise ValueError(f"{name} is {value!r}; it must be a whole number {rule}.")


def is_count(value: Any) -> bool:
    """Return whether a value is a whole number from 1; NumPy's are, True is not."""
    if isinstance(value, bool):
        return False
    return isinstance(value, numbers.Integral) and int(value) >= 1
