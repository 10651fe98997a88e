"""Weights of classes, and the check that two classes are left."""

from __future__ import annotations

import numpy as np
from sklearn.utils.class_weight import compute_class_weight


def class_weights(
    class_weight: dict | str, classes: np.ndarray, codes: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Return the weight of every class, by scikit-learn's rules; see the class_weight of the heads."""
    counted = weights > 0  # scikit-learn would divide by zero for a class without weight
    present = np.unique(codes[counted])
    found = np.zeros(len(classes))
    found[present] = compute_class_weight(
        class_weight,
        classes=classes[present],
        y=classes[codes[counted]],
        sample_weight=weights[counted],
    )
    largest = float(np.finfo(np.float64).max) / max(1.0, float(weights.max()))
    for label, weight in zip(classes.tolist(), found.tolist(), strict=True):
        if not 0 <= weight < largest:  # written so that a NaN raises
            raise ValueError(
                f"class_weight of class {label!r} is {weight}; it must be a number that is not negative, and "
                "finite when it is multiplied by sample_weight"
            )
    return found


def check_two_classes(name: str, classes: np.ndarray, codes: np.ndarray) -> None:
    """Refuse rows of one class; the codes are those of rows with a positive weight."""
    present = np.unique(codes)
    if len(present) < 2:
        only = classes.tolist()[present[0]] if len(present) else "no class"
        raise ValueError(
            f"{name} needs at least two classes in y, and rows with a positive weight are of class {only!r} "
            "only"
        )
