"""Labels of rows for bases with a part for every class: K = k c codes, ordered by class."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.multiclass import check_classification_targets

from clusterica.arrays import Rows, to_host
from clusterica.ops.discrimination import Discrimination

CONSTRAINTS = ("both", "inhomogeneous")


class Labels(NamedTuple):
    """The classes, sorted, and the place among them of the class of every row."""

    classes: np.ndarray
    places: np.ndarray

    def component_classes(self, n_components: int) -> np.ndarray:
        """Return the class of every basis vector, shape (n_components,)."""
        return np.repeat(self.classes, n_components // len(self.classes))


def check_class_labels(estimator: Any, y: Any, rows: Rows, n_components: int) -> Labels:
    """Return the labels of the rows, after a look at whether each class can have its part of the basis."""
    name = type(estimator).__name__
    y = _one_for_every_row(estimator, y, rows)
    classes, places, counts = np.unique(y, return_inverse=True, return_counts=True)
    if len(classes) < 2:
        raise ValueError(
            f"{name} tells classes apart, and y has one class only ({classes[0]!r}); give two or more"
        )
    if n_components % len(classes):
        raise ValueError(
            f"n_components={n_components} must be a multiple of the number of classes, {len(classes)}: "
            f"every class gets as many basis vectors; use {_multiple(n_components, len(classes))} (in "
            "ImageFeatures that is n_filters)"
        )
    k, fewest = n_components // len(classes), int(counts.argmin())
    if counts[fewest] < k:
        raise ValueError(
            f"class {classes[fewest]} has {counts[fewest]} rows, fewer than its {k} basis vectors; give "
            "more rows, or lower n_components (in ImageFeatures n_filters)"
        )
    return Labels(classes, places.astype(np.int64))


def make_discrimination(
    n_components: int, n_classes: int, *, eta: float | str, constraint: str
) -> Discrimination:
    """Return the discrimination term; a warning where it is not convex."""
    k = n_components // n_classes
    weight = float(k + 1) if isinstance(eta, str) else float(eta)
    both = constraint == "both"
    if both and weight <= k:
        warnings.warn(
            f"eta={weight:g} is not above the {k} basis vectors of a class: the discrimination term is not "
            "convex in the codes then, and may pull them to infinity; eta='auto' is safe",
            UserWarning,
            stacklevel=6,  # who called fit
        )
    return Discrimination(n_classes, weight, homogeneous=both)


def _one_for_every_row(estimator: Any, y: Any, rows: Rows) -> np.ndarray:
    """Return the labels as an array, after a look at whether every row has one."""
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None; give a label for "
            "every row"
        )
    y = np.asarray(to_host(y))
    if y.ndim == 2 and y.shape[1] == 1:
        y = y.ravel()
    if y.ndim != 1 or len(y) != rows.n_rows:
        raise ValueError(
            f"y has shape {y.shape} and X has {rows.n_rows} rows; give one label for every row"
        )
    n_missing = sum(map(_is_missing, y)) if y.dtype == object else int((y != y).sum())
    if n_missing:
        raise ValueError(f"y has {n_missing} missing labels; drop the rows without a label")
    check_classification_targets(y)
    return y


def _is_missing(label: Any) -> bool:
    """Return True for None, NaN and pandas' NA, which cannot tell whether it equals itself."""
    return label is None or type(label).__name__ == "NAType" or bool(label != label)


def most_components(estimator: Any, rows: Rows, y: Any) -> int:
    """Return the largest number of basis vectors up to that of features that all classes can share."""
    n_classes = len(np.unique(_one_for_every_row(estimator, y, rows)))
    return max(1, rows.n_features // n_classes) * n_classes


def _multiple(n: int, of: int) -> int:
    """Return the multiple that is nearest to n, one at least."""
    return max(1, round(n / of)) * of
