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
    """The class of every row, and the number of basis vectors of a class."""

    classes: np.ndarray
    """The classes, sorted, shape (n_classes,)."""
    places: np.ndarray
    """The place among them of the class of every row, shape (n_rows,)."""
    n_per_class: int

    @property
    def n_components(self) -> int:
        """Number of basis vectors of all classes."""
        return self.n_per_class * len(self.classes)

    @property
    def component_classes(self) -> np.ndarray:
        """The class of every basis vector, shape (n_components,)."""
        return np.repeat(self.classes, self.n_per_class)

    def rows_by_class(self) -> list[np.ndarray]:
        """Return the indices of the rows of every class."""
        return [np.flatnonzero(self.places == c) for c in range(len(self.classes))]


def check_labels(estimator: Any, y: Any, rows: Rows, n_per_class: int | None) -> Labels:
    """Return the labels of the rows, after a check that each class has rows enough for its basis vectors.

    Without n_per_class there are as many basis vectors as features in all, or a few less, so that every class
    gets the same number, one at least.
    """
    name = type(estimator).__name__
    if y is None:
        raise ValueError(
            f"{name} requires y to be passed, but the target y is None; give a label for every row"
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
    classes, places, counts = np.unique(y, return_inverse=True, return_counts=True)
    if len(classes) < 2:
        raise ValueError(
            f"{name} tells classes apart, and y has one class only ({classes[0]!r}); give two or more"
        )
    k = max(1, rows.n_features // len(classes)) if n_per_class is None else n_per_class
    fewest = int(counts.argmin())
    if counts[fewest] < k:
        raise ValueError(
            f"class {classes[fewest]} has {counts[fewest]} rows, fewer than its {k} basis vectors; give "
            "more rows, or lower n_components_per_class (in ImageFeatures n_filters)"
        )
    return Labels(classes, places.astype(np.int64), k)


def _is_missing(label: Any) -> bool:
    """Return True for None, NaN and pandas' NA, which cannot tell whether it equals itself."""
    return label is None or type(label).__name__ == "NAType" or bool(label != label)


def make_discrimination(labels: Labels, *, eta: float | str, constraint: str) -> Discrimination:
    """Return the discrimination term; a warning where it is not convex."""
    k = labels.n_per_class
    weight = float(k + 1) if isinstance(eta, str) else float(eta)
    both = constraint == "both"
    if both and weight <= k:
        warnings.warn(
            f"eta={weight:g} is not above the {k} basis vectors of a class: the discrimination term is not "
            "convex in the codes then, and may pull them to infinity; eta='auto' is safe",
            UserWarning,
            stacklevel=6,  # who called fit
        )
    return Discrimination(len(labels.classes), weight, homogeneous=both)
