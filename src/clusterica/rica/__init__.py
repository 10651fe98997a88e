"""Reconstruction ICA: sparse codes that reconstruct the rows, also with a kernel and with labels."""

from clusterica.rica._discriminative_kernel_rica import DiscriminativeKernelRICA
from clusterica.rica._discriminative_rica import DiscriminativeRICA
from clusterica.rica._kernel_rica import KernelRICA
from clusterica.rica._rica import RICA

__all__ = ["RICA", "DiscriminativeKernelRICA", "DiscriminativeRICA", "KernelRICA"]
