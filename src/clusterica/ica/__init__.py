"""Independent components: sources found by clustering, and clusters found by sources."""

from clusterica.ica._cluster_ica import ClusterICA
from clusterica.ica._kernel_ica import KernelICA
from clusterica.ica._pursuit import KurtosisPursuit

__all__ = ["ClusterICA", "KernelICA", "KurtosisPursuit"]
