"""Contrasts G, which measure how far a response is from Gaussian, and poolings of codes."""

from clusterica.contrasts._contrasts import (
    Exponential,
    LogCosh,
    Quartic,
    SmoothedL1,
    SmoothedLaplace,
    check_contrast,
)
from clusterica.contrasts._penalty import PENALTIES, make_penalty
from clusterica.contrasts._poolings import GroupPooling, TorusPooling
from clusterica.ops.contrast import Contrast, Derivatives

__all__ = [
    "PENALTIES",
    "Contrast",
    "Derivatives",
    "Exponential",
    "GroupPooling",
    "LogCosh",
    "Quartic",
    "SmoothedL1",
    "SmoothedLaplace",
    "TorusPooling",
    "check_contrast",
    "make_penalty",
]
