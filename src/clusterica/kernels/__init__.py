"""Kernels k(x, y), with the derivatives that learning a basis needs."""

from clusterica.kernels._check import check_kernel
from clusterica.kernels._kernels import (
    Gaussian,
    HistogramIntersection,
    InverseDistance,
    InverseSquareDistance,
    Linear,
    Normalized,
    Polynomial,
)
from clusterica.kernels._named import (
    KERNEL_NAMES,
    basis_gamma,
    make_kernel,
    median_gamma,
    near_gamma,
)
from clusterica.ops.kernels import Kernel, Pull

__all__ = [
    "KERNEL_NAMES",
    "Gaussian",
    "HistogramIntersection",
    "InverseDistance",
    "InverseSquareDistance",
    "Kernel",
    "Linear",
    "Normalized",
    "Polynomial",
    "Pull",
    "basis_gamma",
    "check_kernel",
    "make_kernel",
    "median_gamma",
    "near_gamma",
]
