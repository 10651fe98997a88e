"""Independent components: sources found by clustering, and clusters found by sources."""

from clusterica.ica._cluster_ica import ClusterICA
from clusterica.ica._discriminative_rica import DiscriminativeRICA
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
from clusterica.ops.penalty import GroupPooling, TorusPooling

__all__ = [
    "RICA",
    "ClusterICA",
    "Derivatives",
    "DiscriminativeRICA",
    "Exponential",
    "GroupPooling",
    "KurtosisPursuit",
    "LogCosh",
    "Quartic",
    "SmoothedL1",
    "SmoothedLaplace",
    "TorusPooling",
    "check_contrast",
]
