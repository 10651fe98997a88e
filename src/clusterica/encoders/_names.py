"""Encoders by name, for estimators that take one as a parameter."""

from __future__ import annotations

from typing import Any

from clusterica.encoders._base import BaseEncoder
from clusterica.encoders._kernel_sparse import KernelSparseEncoder
from clusterica.encoders._local import LLCEncoder
from clusterica.encoders._nearest import HardEncoder, TriangleEncoder
from clusterica.encoders._responses import SigmoidEncoder, SoftThresholdEncoder
from clusterica.encoders._sparse import OMPEncoder, SparseEncoder

_BY_NAME: dict[str, type[BaseEncoder]] = {
    "hard": HardEncoder,
    "triangle": TriangleEncoder,
    "soft-threshold": SoftThresholdEncoder,
    "sigmoid": SigmoidEncoder,
    "sparse": SparseEncoder,
    "omp": OMPEncoder,
    "kernel-sparse": KernelSparseEncoder,
    "llc": LLCEncoder,
}
ENCODER_NAMES = tuple(_BY_NAME)
"""What :func:`make_encoder` knows by name."""
# What is checked of an encoder that is not one of ours; the other methods of the base class are optional.
_METHODS = ("prepare", "encode", "n_features_out")


def make_encoder(encoder: Any) -> Any:
    """Return an encoder, given by name or as an object.

    Parameters
    ----------
    encoder : str or encoder
        "hard", "triangle", "soft-threshold", "sigmoid", "sparse", "omp", "kernel-sparse" or "llc".
        A name stands for the encoder with its default settings. An object must have the methods
        ``prepare``, ``encode`` and ``n_features_out`` of the encoders here, and no dictionary of its own.

    Returns
    -------
    encoder
        The object itself, once its settings are checked, or a new one.

    Examples
    --------
    >>> from clusterica.encoders import SoftThresholdEncoder, make_encoder
    >>> make_encoder("triangle")
    TriangleEncoder()
    >>> make_encoder(SoftThresholdEncoder(alpha=0.5)).n_features_out(1600)
    3200
    """
    if isinstance(encoder, str):
        if encoder not in _BY_NAME:
            known = ", ".join(map(repr, ENCODER_NAMES))
            raise ValueError(
                f"encoder={encoder!r} is not known; use one of {known}, or an object (in ImageFeatures also "
                "'transform' and 'transform-both-signs', the codes of the learner)"
            )
        return _BY_NAME[encoder]()
    if isinstance(encoder, type) or not all(callable(getattr(encoder, m, None)) for m in _METHODS):
        raise TypeError(
            f"encoder={encoder!r} is not an encoder, which needs the methods {', '.join(_METHODS)}; use an "
            "object such as TriangleEncoder(), or a name such as 'triangle'"
        )
    if isinstance(encoder, BaseEncoder):
        encoder._validate_params()  # here, since `encode` checks nothing and fit is not called
    # It would be ignored, and its owner would not know.
    if getattr(encoder, "dictionary", None) is not None:
        raise ValueError(
            f"{type(encoder).__name__} has a dictionary, and another one is learned here; use dictionary=None"
        )
    return encoder
