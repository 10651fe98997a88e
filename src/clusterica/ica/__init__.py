"""Independent components: sources found by clustering, and clusters found by sources."""

from clusterica.ica._cluster_ica import ClusterICA
from clusterica.ica._pursuit import KurtosisPursuit
from clusterica.ops.contrast import (
    Derivatives,
    Exponential,
    LogCosh,
    Quartic,
    SmoothedLaplace,
    check_contrast,
)

__all__ = [
    "ClusterICA",
    "Derivatives",
    "Exponential",
    "KurtosisPursuit",
    "LogCosh",
    "Quartic",
    "SmoothedLaplace",
    "check_contrast",
]
