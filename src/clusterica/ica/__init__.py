"""Independent component analysis: sources by clustering, by a kernel, and directions that show clusters."""

from clusterica.ica._cluster_ica import ClusterICA
from clusterica.ica._function import Separation, cluster_ica
from clusterica.ica._kernel_ica import KernelICA
from clusterica.ica._mne import to_mne
from clusterica.ica._pursuit import KurtosisPursuit

__all__ = [
    "ClusterICA",
    "KernelICA",
    "KurtosisPursuit",
    "Separation",
    "cluster_ica",
    "to_mne",
]
