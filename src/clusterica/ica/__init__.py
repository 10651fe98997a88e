"""Independent components: sources found by clustering, and clusters found by sources."""

from clusterica.ica._cluster_ica import ClusterICA
from clusterica.ica._discriminative_kernel_rica import DiscriminativeKernelRICA
from clusterica.ica._discriminative_rica import DiscriminativeRICA
from clusterica.ica._kernel_ica import KernelICA
from clusterica.ica._kernel_rica import KernelRICA
from clusterica.ica._kernel_sparse_coding import KernelSparseCoding
from clusterica.ica._pursuit import KurtosisPursuit
from clusterica.ica._rica import RICA
from clusterica.ops.contrast import (
    Derivatives,
    Exponential,
    LogCosh,
    Quartic,
    SmoothedL1,
    SmoothedLaplace,
    check_contrast,
)
from clusterica.ops.kernel_check import check_kernel
from clusterica.ops.kernels import (
    Gaussian,
    HistogramIntersection,
    InverseDistance,
    InverseSquareDistance,
    Kernel,
    Linear,
    Normalized,
    Polynomial,
    Pull,
)
from clusterica.ops.penalty import GroupPooling, TorusPooling

__all__ = [
    "RICA",
    "ClusterICA",
    "Derivatives",
    "DiscriminativeKernelRICA",
    "DiscriminativeRICA",
    "Exponential",
    "Gaussian",
    "GroupPooling",
    "HistogramIntersection",
    "InverseDistance",
    "InverseSquareDistance",
    "Kernel",
    "KernelICA",
    "KernelRICA",
    "KernelSparseCoding",
    "KurtosisPursuit",
    "Linear",
    "LogCosh",
    "Normalized",
    "Polynomial",
    "Pull",
    "Quartic",
    "SmoothedL1",
    "SmoothedLaplace",
    "TorusPooling",
    "check_contrast",
    "check_kernel",
]
