"""What the tests of all encoders share: one of each kind, rows, and a dictionary."""

from functools import partial

import numpy as np
import pytest

from clusterica.encoders import (
    HardEncoder,
    KernelSparseEncoder,
    LLCEncoder,
    OMPEncoder,
    SigmoidEncoder,
    SoftThresholdEncoder,
    SparseEncoder,
    TriangleEncoder,
)

ENCODERS = {
    "hard": HardEncoder,
    "triangle": TriangleEncoder,
    "soft-threshold": SoftThresholdEncoder,
    "one-sided": partial(SoftThresholdEncoder, two_sided=False),
    "sigmoid": SigmoidEncoder,
    "sparse": partial(SparseEncoder, alpha=0.2, tol=1e-9),
    "sparse-signed": partial(SparseEncoder, alpha=0.2, tol=1e-9, split_signs=False),
    "omp": partial(OMPEncoder, n_nonzero=3),
    "kernel-sparse": partial(KernelSparseEncoder, gamma=0.5, tol=1e-9),
    "kernel-sparse-signed": partial(
        KernelSparseEncoder, kernel="polynomial", normalize=False, tol=1e-9, split_signs=False
    ),
    "llc": partial(LLCEncoder, n_neighbors=3),
    "omp-signed": partial(OMPEncoder, n_nonzero=3, split_signs=False),
}


@pytest.fixture(params=ENCODERS)
def make(request):
    """An encoder of every kind, made from (dictionary)."""
    return ENCODERS[request.param]


@pytest.fixture(scope="session")
def rows():
    """Rows to encode, 600 x 4, of which one is zero."""
    X = np.random.default_rng(0).normal(size=(600, 4))
    X[7] = 0
    X.flags.writeable = False
    return X


@pytest.fixture(scope="session")
def atoms():
    """A dictionary, 9 x 4, of atoms that are not of unit length."""
    D = np.random.default_rng(1).normal(size=(9, 4))
    D.flags.writeable = False
    return D
