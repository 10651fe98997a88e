"""Images of Caltech-101, the longest side scaled; without the files, digits of scikit-learn."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from clusterica.datasets import ImageSet, load_caltech101, load_digits_images
from clusterica.experiments._context import Context
from clusterica.experiments._recognition import placed

RESIZED = "scaled so that the longest side has {side} pixels"


class Pictures(NamedTuple):
    """Images of different sizes, their labels as numbers, the names of the classes, and of the data set."""

    images: list[Any]
    labels: np.ndarray
    class_names: tuple[str, ...]
    name: str

    def of(self, indices: np.ndarray) -> tuple[list[Any], np.ndarray]:
        """Return some images and their labels."""
        return [self.images[i] for i in indices], self.labels[indices]

    def members(self, label: int) -> np.ndarray:
        """Return the indices of the images of a class."""
        return np.flatnonzero(self.labels == label)


def caltech(ctx: Context, *, longest_side: int, color: str = "grey") -> Pictures:
    """Return all classes on the device of the run, or without the files in a quick run grey digits."""
    if ctx.data is None and ctx.quick:
        digits = load_digits_images()
        assert digits.labels is not None
        names = tuple(map(str, range(10)))
        return Pictures(_list(ctx, digits), digits.labels, names, "digits of scikit-learn")
    found = load_caltech101(ctx.data, color=color, resize=longest_side)
    assert found.labels is not None
    return Pictures(_list(ctx, found), found.labels, tuple(found.class_names), "Caltech-101")


def _list(ctx: Context, found: ImageSet) -> list[Any]:
    return [placed(ctx, image) for image in found.images]
