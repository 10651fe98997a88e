"""Errors name the value, the rule and the remedy."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from clusterica.encoders import (
    HardEncoder,
    KernelSparseEncoder,
    LLCEncoder,
    OMPEncoder,
    SigmoidEncoder,
    SoftThresholdEncoder,
    SparseEncoder,
    TriangleEncoder,
    make_encoder,
)


@pytest.mark.parametrize(
    "sparse", [(SparseEncoder, "alpha", 1), (KernelSparseEncoder, "sparsity", 2)]
)
def test_a_penalty_that_makes_all_codes_zero_is_said_once(sparse):
    make, name, factor = sparse
    rng = np.random.default_rng()
    X, D = rng.standard_normal((50, 4)), np.eye(4)
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    products = X if make is SparseEncoder else np.exp(-((unit[:, None] - D) ** 2).sum(axis=2))
    least = factor * np.abs(products).max()
    settings = {} if make is SparseEncoder else {"gamma": 1.0}
    message = f"{name}=.* makes the codes of all of 50 rows zero; use one below {least:.3g}"
    with pytest.warns(UserWarning, match=message) as caught:
        encoder = make(D, **{name: 1.01 * least}, **settings).fit(X)
    assert [w.filename for w in caught] == [__file__]
    assert not encoder.transform(X).any()
    assert make(D, **{name: 0.5 * least}, **settings).fit_transform(X).any()


def test_no_dictionary(make, rows):
    with pytest.raises(ValueError, match=r"has no dictionary; give one of shape \(n_atoms, 4\)"):
        make().fit(rows)


def test_a_dictionary_for_other_rows(make, rows, atoms):
    with pytest.raises(ValueError, match=r"has 3 features and X has 4; learn it from rows like X"):
        make(atoms[:, :3]).fit(rows)


@pytest.mark.parametrize(
    ("D", "message"),
    [
        (np.full((2, 4), np.nan), "dictionary contains NaN"),
        (np.full((2, 4), np.inf), "dictionary contains infinity"),
        (np.zeros(4), "Expected 2D array"),
        (np.zeros((0, 4)), "0 sample"),
        (np.zeros((2, 4), complex), "Complex data not supported"),
    ],
)
def test_bad_dictionaries(make, rows, D, message):
    with pytest.raises(ValueError, match=message):
        make(D).fit(rows)


@pytest.mark.parametrize("D", ["centers", 3])
def test_what_is_no_dictionary(make, rows, D):
    with pytest.raises(ValueError, match="The 'dictionary' parameter of"):
        make(D).fit(rows)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([[1.0, np.nan, 0, 0]], "NaN"),
        ([[1.0, np.inf, 0, 0]], "infinity"),
        ([1.0, 2.0], "Expected 2D array"),
        (np.zeros((0, 4)), "0 sample"),
    ],
)
def test_bad_rows(make, atoms, X, message):
    with pytest.raises(ValueError, match=message):
        make(atoms).fit(X)
    with pytest.raises(ValueError, match=message):
        make(atoms).fit(np.ones((2, 4))).transform(X)


def test_not_fitted_and_wrong_columns(make, rows, atoms):
    with pytest.raises(NotFittedError):
        make(atoms).transform(rows)
    with pytest.raises(ValueError, match=r"X has 3 features, but \w+ is expecting 4"):
        make(atoms).fit(rows).transform(rows[:, :3])


BAD = [
    (SoftThresholdEncoder, "alpha", -0.1),
    (SoftThresholdEncoder, "alpha", np.nan),
    (SoftThresholdEncoder, "two_sided", "yes"),
    (SigmoidEncoder, "bias", np.inf),
    (SigmoidEncoder, "bias", "small"),
    (SparseEncoder, "alpha", 0),
    (SparseEncoder, "alpha", -1.0),
    (SparseEncoder, "transform_max_iter", 0),
    (SparseEncoder, "tol", -1e-3),
    (SparseEncoder, "split_signs", None),
    (KernelSparseEncoder, "gamma", 0),
    (KernelSparseEncoder, "gamma", "mean"),
    (KernelSparseEncoder, "kernel", "gauss"),
    (KernelSparseEncoder, "sparsity", 0.0),
    (KernelSparseEncoder, "normalize", None),
    (LLCEncoder, "n_neighbors", 0),
    (LLCEncoder, "ridge", 0.0),
    (OMPEncoder, "n_nonzero", 0),
    (OMPEncoder, "n_nonzero", 1.5),
]


@pytest.mark.parametrize(("encoder", "name", "value"), BAD)
def test_bad_settings(encoder, name, value, rows, atoms):
    message = f"The '{name}' parameter of {encoder.__name__} must be"
    with pytest.raises(ValueError, match=message):
        encoder(atoms, **{name: value}).fit(rows)
    with pytest.raises(ValueError, match=message):
        make_encoder(encoder(**{name: value}))


def test_more_atoms_than_there_are(rows, atoms):
    message = "n_nonzero=10 must be at most the number of atoms, 9; lower it"
    with pytest.raises(ValueError, match=message):
        OMPEncoder(atoms, n_nonzero=10).fit(rows)
    with pytest.raises(ValueError, match=message):
        OMPEncoder(n_nonzero=10).prepare(atoms)


def test_more_neighbours_than_atoms(rows, atoms):
    message = "n_neighbors=10 must be at most the number of atoms, 9; lower it"
    with pytest.raises(ValueError, match=message):
        LLCEncoder(atoms, n_neighbors=10).fit(rows)


def test_atoms_without_a_median_distance(rows):
    with pytest.raises(ValueError, match="'median' needs rows that differ"):
        KernelSparseEncoder(np.ones((3, 4))).fit(rows)
    with pytest.raises(ValueError, match="'median' needs two atoms at least"):
        KernelSparseEncoder(np.ones((1, 4))).fit(rows)


def test_kernels_that_lack_something(rows, atoms):
    with pytest.raises(
        TypeError, match=r"the kernel has no diagonal; see clusterica.kernels.Kernel"
    ):
        KernelSparseEncoder(atoms, kernel=lambda X, W: X @ W.T).fit(rows)
    with pytest.raises(ValueError, match=r"gamma=2.0 is that of kernel='rbf'"):
        KernelSparseEncoder(atoms, kernel="inverse-distance", gamma=2.0).fit(rows)


def test_zero_and_equal_atoms_give_finite_codes(make, rows, atoms):
    D = np.concatenate([atoms[:2], np.zeros((1, 4)), atoms[:2]])
    for X in (rows, rows.astype(np.float32)):
        assert np.isfinite(make(D).fit_transform(X)).all()
    assert np.isfinite(make(np.zeros((4, 4))).fit_transform(rows)).all()


def test_unknown_names():
    with pytest.raises(ValueError, match="encoder='soft' is not known; use one of 'hard', 'tri"):
        make_encoder("soft")


@pytest.mark.parametrize("encoder", [None, 3, HardEncoder, len])
def test_what_is_no_encoder(encoder):
    with pytest.raises(
        TypeError, match="is not an encoder, which needs the methods prepare, encode"
    ):
        make_encoder(encoder)


def test_an_encoder_with_a_dictionary_of_its_own(atoms):
    with pytest.raises(ValueError, match="HardEncoder has a dictionary, and another"):
        make_encoder(HardEncoder(atoms))


@pytest.mark.parametrize("encoder", [SoftThresholdEncoder, TriangleEncoder])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_overflow_that_a_threshold_would_hide_is_refused(encoder, dtype):
    """Responses of inf - inf, or distances of which all are infinite, would be codes of zero."""
    rng = np.random.default_rng()
    D = np.array([[1.0, 0.0], [10.0, -10.0], [0.0, 1.0]], dtype)
    X = rng.standard_normal((500, 2)).astype(dtype)
    row = int(rng.integers(500))
    X[row] = np.finfo(dtype).max * np.array([0.9, 0.3])
    model = encoder(D[rng.permutation(3)])
    model.fit_transform(np.delete(X, row, axis=0))
    with pytest.raises(ValueError, match=f"result for row {row} of X overflows {np.dtype(dtype)}"):
        model.fit_transform(X)
