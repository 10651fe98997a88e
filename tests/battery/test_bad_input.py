"""Dictionaries, kernel RICA and their kin say what is wrong with rows and labels, and how to mend it."""

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

from clusterica.dictionaries import (
    KSVD,
    DiscriminativeKSVD,
    KernelSparseCoding,
    LabelConsistentKSVD,
    SparseAutoencoder,
    SparseCoding,
    SparseRBM,
)
from clusterica.encoders import KernelSparseEncoder, LLCEncoder, OMPEncoder, SparseEncoder
from clusterica.ica import KernelICA
from clusterica.preprocessing import KernelWhitener
from clusterica.rica import RICA, DiscriminativeKernelRICA, DiscriminativeRICA, KernelRICA

QUICK = {"max_iter": 2, "tol": 1.0, "random_state": 0}


def white(learner):
    """Kernel RICA in the white space of the kernel, as section 4.1 of Xiao, Zhu & Zhao has it."""
    return make_pipeline(KernelWhitener(3, random_state=0), learner)


# With n atoms, or n for each class.
LEARNERS = {
    "SparseCoding": lambda n: SparseCoding(n, **QUICK),
    "SparseCoding, batches": lambda n: SparseCoding(n, batch_size=10, **QUICK),
    "KSVD": lambda n: KSVD(n, **QUICK),
    "DiscriminativeKSVD": lambda n: DiscriminativeKSVD(n, **QUICK),
    "LabelConsistentKSVD": lambda n: LabelConsistentKSVD(n, **QUICK),
    "KernelSparseCoding": lambda n: KernelSparseCoding(n, **QUICK),
    "KernelICA": lambda n: KernelICA(n, random_state=0),
    "KernelRICA": lambda n: KernelRICA(n, **QUICK),
    "DiscriminativeKernelRICA": lambda n: DiscriminativeKernelRICA(n, **QUICK),
    "DiscriminativeRICA": lambda n: DiscriminativeRICA(n, **QUICK),
    "white DiscriminativeRICA": lambda n: white(DiscriminativeRICA(n, **QUICK)),
    # Those with any number of units, whatever the rows.
    "RICA": lambda n: RICA(n, **QUICK),
    "white RICA": lambda n: white(RICA(n, **QUICK)),
    "SparseAutoencoder": lambda n: SparseAutoencoder(n, **QUICK),
    "SparseRBM": lambda n: SparseRBM(n, max_iter=2, random_state=0),
    "LLCEncoder": lambda n: LLCEncoder(np.eye(n, 4)),
    "OMPEncoder": lambda n: OMPEncoder(np.eye(n, 4)),
    "SparseEncoder": lambda n: SparseEncoder(np.eye(n, 4), alpha=0.01),
    "KernelSparseEncoder": lambda n: KernelSparseEncoder(np.eye(n, 4), gamma=1.0),
}
OF_CLASSES = [
    "LabelConsistentKSVD",
    "DiscriminativeKernelRICA",
    "DiscriminativeRICA",
    "white DiscriminativeRICA",
]
ANY_NUMBER = list(LEARNERS)[list(LEARNERS).index("RICA") :]


@pytest.fixture
def X():
    return np.random.default_rng().standard_normal((30, 4))


Y = np.array(["a", "b", "b"] * 10)


@pytest.mark.parametrize("name", sorted(set(LEARNERS) - set(ANY_NUMBER) - set(OF_CLASSES)))
def test_fewer_rows_than_atoms(X, name):
    message = r"n_components=31 must be at most .*n_samples=30; lower it, or give more rows"
    with pytest.raises(ValueError, match=message):
        LEARNERS[name](31).fit(X, Y)


@pytest.mark.filterwarnings("ignore:.*did not converge")
@pytest.mark.parametrize("name", ANY_NUMBER)
def test_more_units_than_rows_are_fine_for_others(X, name):
    assert np.isfinite(LEARNERS[name](31).fit(X, Y).transform(X)).all()


@pytest.mark.parametrize("name", OF_CLASSES)
def test_a_class_with_fewer_rows_than_its_atoms(X, name):
    message = r"class a has 10 rows, fewer than its 11 .*; give more rows, or lower"
    with pytest.raises(ValueError, match=message):
        LEARNERS[name](11).fit(X, Y)


@pytest.mark.parametrize("name", [*OF_CLASSES, "DiscriminativeKSVD"])
def test_missing_labels(X, name):
    with pytest.raises(ValueError, match=r"requires y to be passed.*one label for every row"):
        LEARNERS[name](2).fit(X)
    some = np.array([*Y[:-1].tolist(), None], dtype=object)
    with pytest.raises(ValueError, match="1 missing label"):
        LEARNERS[name](2).fit(X, some)


@pytest.mark.parametrize("name", LEARNERS)
def test_no_rows_and_missing_values(X, name):
    with pytest.raises(ValueError, match="0 sample"):
        LEARNERS[name](2).fit(X[:0], Y[:0])
    X[7, 2] = np.nan
    with pytest.raises(ValueError, match="Input X contains NaN"):
        LEARNERS[name](2).fit(X, Y)


@pytest.mark.parametrize("name", sorted(set(LEARNERS) - set(ANY_NUMBER[-4:])))
def test_rows_of_zeros(name):
    """Nothing can be learned: an error or a warning says so."""
    X = np.zeros((30, 4))
    said = r"are zero, so that|rows that differ|vectors that differ|same activity|variance of|do not vary"
    with pytest.raises((ValueError, UserWarning), match=said):
        LEARNERS[name](2).fit(X, Y)


def test_fewer_landmarks_than_components(X):
    message = "n_components=4 must be at most n_landmarks=3; lower it, or raise n_landmarks"
    for learner in (KernelWhitener(4, n_landmarks=3), KernelICA(4, n_landmarks=3)):
        with pytest.raises(ValueError, match=message):
            learner.fit(X)
