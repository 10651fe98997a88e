"""Dictionaries for sparse codes, learned from rows."""

from clusterica.dictionaries._kernel_sparse_coding import KernelSparseCoding

__all__ = ["KernelSparseCoding"]
