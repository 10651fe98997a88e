"""Preparing rows: contrast normalisation, whitening, and descriptors of patches by their gradients."""

from clusterica.preprocessing._contrast import ContrastNormalizer
from clusterica.preprocessing._gradients import GradientDescriptor
from clusterica.preprocessing._kernel_whitener import KernelWhitener
from clusterica.preprocessing.whitening import Whitener

__all__ = ["ContrastNormalizer", "GradientDescriptor", "KernelWhitener", "Whitener"]
