"""The numbers of the torch module of image features and a linear classifier, in NumPy.

Normalising a patch x is linear up to one factor, its contrast s, and whitening is linear. So the response
to a filter d is ``(d T C) · x / s - d T m``: a convolution with ``W = D T C``, divided place by place, less
a bias. T and m whiten, and C subtracts the mean of the patch.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from clusterica.arrays import to_host
from clusterica.encoders import (
    HardEncoder,
    SigmoidEncoder,
    SoftThresholdEncoder,
    TriangleEncoder,
)
from clusterica.images import ImageFeatures
from clusterica.ops.code import center
from clusterica.ops.linalg import row_energies
from clusterica.ops.patch import Grid
from clusterica.preprocessing import ContrastNormalizer, Whitener


class Stages(NamedTuple):
    """What the module needs of image features; kernels have shape (n, channels, patch_size, patch_size)."""

    filters: np.ndarray
    bias: np.ndarray
    centring: np.ndarray | None  # None without contrast normalisation
    eps: float | None
    atoms: np.ndarray | None  # of the triangle encoder, in the white space
    code: str
    alpha: float
    patch_size: int
    stride: int
    grids: tuple[Grid, ...]
    pooling: str


class Head(NamedTuple):
    """A linear classifier: coefficients (n_targets, n_features), intercepts (n_targets,) and labels."""

    coef: np.ndarray
    intercept: np.ndarray
    classes: list[Any]


def numbers_of(model: Any) -> tuple[Stages, Head | None]:
    """Check a model for `to_torch`, and return what its module computes with."""
    features, classifier = _checked_steps(model)
    if classifier is None:
        return _stages(features), None
    coef, intercept = (
        np.atleast_1d(to_host(getattr(classifier, name))) for name in ("coef_", "intercept_")
    )
    return _stages(features), Head(coef, intercept, classifier.classes_.tolist())


def _checked_steps(model: Any) -> tuple[ImageFeatures, Any]:
    """Return the image features and the linear classifier or None; an error names a step without a form."""
    steps = [step for _, step in model.steps] if isinstance(model, Pipeline) else [model]
    if not isinstance(steps[0], ImageFeatures) or len(steps) > 2:
        names = ", ".join(type(step).__name__ for step in steps)
        raise TypeError(
            f"the model has the steps {names}; to_torch takes ImageFeatures, alone or in a Pipeline with a "
            "linear classifier after it"
        )
    features, classifier = steps[0], steps[1] if len(steps) > 1 else None
    missing = {"coef_", "intercept_", "classes_"} - set(dir(classifier))
    if classifier is not None and missing:
        raise TypeError(
            f"{type(classifier).__name__} has no {', '.join(sorted(missing))}; after ImageFeatures, to_torch "
            "takes a fitted linear classifier, such as LinearSVC"
        )
    check_is_fitted(features)
    # What is no convolution with one function after it has no form as a module.
    if len(features.n_codes_) > 1:
        raise TypeError(
            f"regions={features.regions} have filters of their own; to_torch takes regions=(1, 1)"
        )
    allowed = {
        "normalizer": (ContrastNormalizer, type(None)),
        "whitener": (Whitener, type(None)),
        "encoder": (SoftThresholdEncoder, SigmoidEncoder, TriangleEncoder, HardEncoder),
    }
    for name, kinds in allowed.items():
        step = getattr(features, f"{name}_")
        if type(step) not in kinds:
            known = ", ".join(kind.__name__ for kind in kinds if kind is not type(None))
            raise TypeError(
                f"to_torch has no form of {name}={type(step).__name__}; it has one of {known}"
            )
    return features, classifier


def _stages(features: ImageFeatures) -> Stages:
    """Return the numbers of the module, folded in float64 and rounded once."""
    D = np.asarray(to_host(features.filters_), np.float64)
    T, shift = np.eye(D.shape[1]), np.zeros(D.shape[1])
    if features.whitener_ is not None:
        T = np.asarray(to_host(features.whitener_.whitening_), np.float64)
        shift = T @ np.asarray(to_host(features.whitener_.mean_), np.float64)
    d = T.shape[1]
    C = np.eye(d) - 1 / d
    # The function of the responses, and its threshold.
    match features.encoder_:
        case SoftThresholdEncoder(two_sided=two_sided, alpha=alpha):
            code = "both-signs" if two_sided else "positive"
        case SigmoidEncoder(bias=alpha):
            code = "sigmoid"
        case encoder:
            code, alpha = "hard" if isinstance(encoder, HardEncoder) else "triangle", 0.0
    if code in ("triangle", "hard"):
        # Distances do not change if the mean atom is taken from all, and so keep their digits.
        D, point = center(D)
        shift = shift + point
    if code == "triangle":  # its distances need the length of the whitened patch: D comes after
        W, bias = T, shift
    else:
        # The nearest atom has the largest d·y - |d|²/2.
        W, bias = D @ T, D @ shift + (row_energies(D) / 2 if code == "hard" else 0)
    eps = None if features.normalizer_ is None else float(features.normalizer_.eps_)
    several = isinstance(features.grid[0], tuple | list)
    return Stages(
        filters=_kernels(W if eps is None else W @ C, features.patch_shape_),
        bias=bias,
        centring=None if eps is None else _kernels(C, features.patch_shape_),
        eps=eps,
        atoms=D if code == "triangle" else None,
        code=code,
        alpha=float(alpha),
        patch_size=features.patch_size,
        stride=features.stride,
        grids=tuple(map(tuple, features.grid)) if several else (tuple(features.grid),),
        pooling=features.pooling,
    )


def _kernels(rows: np.ndarray, patch_shape: tuple[int, int, int]) -> np.ndarray:
    """Return rows of patches, (height, width, channels) each, as kernels with the channels first."""
    return rows.reshape(-1, *patch_shape).transpose(0, 3, 1, 2)
