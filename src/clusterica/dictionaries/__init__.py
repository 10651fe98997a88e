"""Dictionary learning: sparse coding, K-SVD with and without labels, sparse auto-encoder and RBM."""

from clusterica.dictionaries._autoencoder import SparseAutoencoder
from clusterica.dictionaries._kernel_sparse_coding import KernelSparseCoding
from clusterica.dictionaries._ksvd import KSVD
from clusterica.dictionaries._ksvd_classifiers import DiscriminativeKSVD, LabelConsistentKSVD
from clusterica.dictionaries._rbm import SparseRBM
from clusterica.dictionaries._sparse_coding import SparseCoding

__all__ = [
    "KSVD",
    "DiscriminativeKSVD",
    "KernelSparseCoding",
    "LabelConsistentKSVD",
    "SparseAutoencoder",
    "SparseCoding",
    "SparseRBM",
]
