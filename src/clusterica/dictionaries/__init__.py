"""Dictionaries for sparse codes, learned from rows."""

from clusterica.dictionaries._kernel_sparse_coding import KernelSparseCoding
from clusterica.dictionaries._sparse_coding import SparseCoding

__all__ = ["KernelSparseCoding", "SparseCoding"]
