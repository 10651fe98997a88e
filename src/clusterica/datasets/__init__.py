"""Data to try the library on: patches of photographs and draws of sparse sources."""

from clusterica.datasets._photos import photo_patches
from clusterica.datasets._sources import SparseSources, make_sparse_sources

__all__ = ["SparseSources", "make_sparse_sources", "photo_patches"]
