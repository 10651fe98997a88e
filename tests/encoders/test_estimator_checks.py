"""scikit-learn's checks of estimators, which fit rows of all widths."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

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


class AnyWidth:
    """Brings a dictionary for rows of any number of features, so that the checks apply."""

    def _checked_dictionary(self, rows):
        rng = np.random.default_rng(0)
        return rng.normal(size=(7, rows.n_features)).astype(rows.dtype)


class Hard(AnyWidth, HardEncoder):
    pass


class Triangle(AnyWidth, TriangleEncoder):
    pass


class SoftThreshold(AnyWidth, SoftThresholdEncoder):
    pass


class Sigmoid(AnyWidth, SigmoidEncoder):
    pass


class Sparse(AnyWidth, SparseEncoder):
    pass


class KernelSparse(AnyWidth, KernelSparseEncoder):
    pass


class LLC(AnyWidth, LLCEncoder):
    pass


class OMP(AnyWidth, OMPEncoder):
    pass


# Some checks have rows far from all atoms.
@pytest.mark.filterwarnings("ignore:sparsity=.* makes the codes")
@parametrize_with_checks(
    [
        Hard(),
        Triangle(),
        SoftThreshold(),
        SoftThreshold(two_sided=False),
        Sigmoid(),
        Sparse(),
        Sparse(split_signs=False),
        KernelSparse(),
        KernelSparse(kernel="inverse-distance", normalize=False, split_signs=False),
        LLC(),
        OMP(n_nonzero=2),
    ],
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
