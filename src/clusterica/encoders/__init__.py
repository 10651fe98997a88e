"""Encoders: rows and a dictionary in, codes out, block by block."""

from clusterica.encoders._base import BaseEncoder
from clusterica.encoders._kernel_sparse import KernelSparseEncoder
from clusterica.encoders._local import LLCEncoder
from clusterica.encoders._names import ENCODER_NAMES, make_encoder
from clusterica.encoders._nearest import HardEncoder, TriangleEncoder
from clusterica.encoders._responses import SigmoidEncoder, SoftThresholdEncoder
from clusterica.encoders._sparse import OMPEncoder, SparseEncoder

__all__ = [
    "ENCODER_NAMES",
    "BaseEncoder",
    "HardEncoder",
    "KernelSparseEncoder",
    "LLCEncoder",
    "OMPEncoder",
    "SigmoidEncoder",
    "SoftThresholdEncoder",
    "SparseEncoder",
    "TriangleEncoder",
    "make_encoder",
]
