"""Labels of rows for bases with a part for every class: K = k c codes, ordered by class."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from clusterica.arrays import Rows, check_labels, warn_user
from clusterica.ops.discrimination import Discrimination

CONSTRAINTS = ("both", "inhomogeneous")


class BasisLabels(NamedTuple):
    """The class of every row, and the number of basis vectors of a class."""

    classes: np.ndarray
    """The classes, sorted, shape (n_classes,)."""
    codes: np.ndarray
    """The index of the class of every row, shape (n_rows,)."""
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
        return [np.flatnonzero(self.codes == c) for c in range(len(self.classes))]


def check_basis_labels(estimator: Any, y: Any, rows: Rows, n_per_class: int | None) -> BasisLabels:
    """Return the labels of the rows, after a check that every class has a row for each basis vector.

    Without n_per_class the basis has as many vectors as there are features, or a few less, so that every
    class gets the same number, and one at least.
    """
    labels = check_labels(estimator, y, rows, min_classes=2)
    # With as many classes as features or more, one basis vector for each class.
    k = max(1, rows.n_features // len(labels.classes)) if n_per_class is None else n_per_class
    # K-means needs a row for every centre.
    labels.check_class_sizes(k, "basis vectors")
    # Indices for sums by class, which torch takes as int64 only.
    return BasisLabels(labels.classes, labels.codes.astype(np.int64), k)


def make_discrimination(
    labels: BasisLabels, *, eta: float | str, constraint: str
) -> Discrimination:
    """Return the discrimination term; warn where it is not convex."""
    k = labels.n_per_class
    # d is convex for eta > k; k + 1 is the smallest whole number above k.
    weight = float(k + 1) if isinstance(eta, str) else float(eta)
    both = constraint == "both"
    if both and weight <= k:
        warn_user(
            f"eta={weight:g} is not above the {k} basis vectors of a class: the discrimination term is not "
            "convex in the codes then, and may pull them to infinity; eta='auto' is safe"
        )
    return Discrimination(len(labels.classes), weight, homogeneous=both)
