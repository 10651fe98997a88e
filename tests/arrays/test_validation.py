"""What is refused, and that the message names it, for every kind of input."""

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.exceptions import NotFittedError

from clusterica.arrays import (
    as_rows,
    check_fitted_rows,
    check_model_device,
    check_rows,
    check_weights,
    warn_user,
)
from clusterica.preprocessing import Whitener

KINDS = [
    "c-order",
    "csr-int32",
    "torch",
    "strict",
    "strict-device1",
    "dask",
    "list",
    "blocks-of-csr",
]
DENSE = ["c-order", "torch", "strict", "strict-device1", "dask"]
GOOD = np.arange(30.0).reshape(10, 3)


@pytest.fixture
def check(place, estimator):
    """A function that validates a host array in a place."""

    def check(X, where, **settings):
        settings = {"reset": True, "accept_sparse": True} | settings
        return check_rows(estimator, place(X, where), **settings)

    return check


def with_fault(value, dtype):
    X = GOOD.astype(dtype)
    X[7, 1] = value
    return X


@pytest.mark.parametrize("where", KINDS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    ("value", "message"),
    [(np.nan, "contains NaN"), (np.inf, "contains infinity"), (-np.inf, "contains infinity")],
)
def test_not_finite(check, where, dtype, value, message):
    with pytest.raises(ValueError, match=f"Input X {message}"):
        check(with_fault(value, dtype), where)


@pytest.mark.parametrize("order", ["C", "F", "strided"])
@pytest.mark.parametrize(("value", "message"), [(np.nan, "NaN"), (-np.inf, "infinity")])
def test_not_finite_in_a_large_array(estimator, monkeypatch, order, value, message):
    """All threads look at large arrays; what they find is said by scikit-learn, as of small ones."""
    monkeypatch.setattr("clusterica.arrays._validation._LARGE", 100)
    X = np.ones((3000, 1001), np.float32)
    X[-1, -1] = value
    X = {"C": X, "F": np.asfortranarray(X), "strided": X[:, ::2]}[order]
    with pytest.raises(ValueError, match=f"Input X contains {message}"):
        check_rows(estimator, X, reset=True)
    with sklearn.config_context(assume_finite=True):
        assert check_rows(estimator, X, reset=True).n_rows == 3000


@pytest.mark.parametrize("shape", [(1, 500), (500, 1), (20, 30)])
def test_large_arrays_of_huge_numbers_are_finite(estimator, monkeypatch, shape):
    monkeypatch.setattr("clusterica.arrays._validation._LARGE", 100)
    assert check_rows(estimator, np.full(shape, 1e300), reset=True).n_rows == shape[0]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_not_finite_in_half_precision(estimator, dtype):
    torch = pytest.importorskip("torch")
    X = torch.asarray(with_fault(np.inf, "float32")).to(getattr(torch, dtype))
    with pytest.raises(ValueError, match="contains infinity"):
        check_rows(estimator, X, reset=True)


@pytest.mark.parametrize("where", KINDS)
def test_large_values_are_finite(check, where):
    assert check(np.full((10, 3), 1e300), where).n_rows == 10


@pytest.mark.parametrize("where", DENSE)
@pytest.mark.parametrize("shape", [(), (6,), (2, 3, 4)])
def test_wrong_number_of_dimensions(estimator, put_anywhere, where, shape):
    X = put_anywhere(np.zeros(shape), where)
    with pytest.raises(ValueError, match=r"Expected 2D array|Found array with dim 3"):
        check_rows(estimator, X, reset=True)


@pytest.fixture
def put_anywhere(place):
    """As place, for arrays of any dimension."""

    def put(X, where):
        if where == "dask":
            return pytest.importorskip("dask.array").from_array(X)
        return X if where == "c-order" else place(X, where)

    return put


@pytest.mark.parametrize("where", DENSE)
def test_no_rows(estimator, put_anywhere, where):
    X = put_anywhere(np.zeros((0, 3)), where)
    with pytest.raises(
        ValueError, match=r"Found array with 0 sample\(s\).*minimum of 1 is required"
    ):
        check_rows(estimator, X, reset=True)


@pytest.mark.parametrize("where", DENSE)
def test_no_features(estimator, put_anywhere, where):
    X = put_anywhere(np.zeros((3, 0)), where)
    with pytest.raises(
        ValueError, match=r"Found array with 0 feature\(s\).*minimum of 1 is required"
    ):
        check_rows(estimator, X, reset=True)


@pytest.mark.parametrize("where", KINDS)
def test_too_few_rows(check, where):
    with pytest.raises(ValueError, match=r"10 sample\(s\).*minimum of 11 is required by Estimator"):
        check(GOOD, where, min_rows=11)
    assert check(GOOD, where, min_rows=10).n_rows == 10


@pytest.mark.parametrize("where", [*DENSE, "list", "re-iterable"])
def test_complex_numbers(check, where):
    with pytest.raises(ValueError, match="Complex data not supported"):
        check(GOOD + 1j, where)


@pytest.mark.parametrize("where", KINDS)
def test_features_are_counted_and_checked(check, estimator, where):
    check(GOOD, where)
    assert estimator.n_features_in_ == 3
    check(GOOD, where, reset=False)
    with pytest.raises(ValueError, match="X has 2 features, but Estimator is expecting 3 features"):
        check(GOOD[:, :2], where, reset=False)
    assert estimator.n_features_in_ == 3


def test_feature_names(estimator):
    pd = pytest.importorskip("pandas")
    check_rows(estimator, pd.DataFrame(GOOD, columns=["a", "b", "c"]), reset=True)
    assert list(estimator.feature_names_in_) == ["a", "b", "c"]


@pytest.mark.parametrize("where", ["csr-int32", "csr-matrix", "blocks-of-csr"])
def test_sparse_where_it_is_not_taken(check, where):
    with pytest.raises(TypeError, match="Sparse data was passed"):
        check(GOOD, where, accept_sparse=False)


@pytest.mark.parametrize("container", [sp.csc_array, sp.coo_array, sp.lil_matrix])
def test_other_sparse_formats_become_csr(estimator, container):
    rows = check_rows(estimator, container(GOOD), reset=True, accept_sparse=True)
    assert rows.sparse
    np.testing.assert_array_equal(rows.take(np.arange(10)).toarray(), GOOD)


def test_csr_of_two_index_types(estimator):
    S = sp.csr_array(GOOD)
    S.indptr = S.indptr.astype(np.int64)
    with pytest.raises(ValueError, match="indices and indptr of one integer type"):
        check_rows(estimator, S, reset=True, accept_sparse=True)


@pytest.mark.parametrize(
    "X",
    [None, "text", {"a": [1]}, [], [[]], [["a", "b"]], [1.0, 2.0], object(), {1.0}],
    ids=lambda X: type(X).__name__,
)
def test_what_is_no_table(estimator, X):
    with pytest.raises((ValueError, TypeError)):
        check_rows(estimator, X, reset=True)


def test_nested_lists_are_a_table(estimator):
    np.testing.assert_array_equal(
        check_rows(estimator, GOOD.tolist(), reset=True).take(np.arange(10)), GOOD
    )


# --- Iterables of blocks ---------------------------------------------------------------------------


@pytest.mark.parametrize("make", [iter, lambda parts: (p for p in parts), lambda p: map(abs, p)])
def test_what_can_be_read_only_once(estimator, make):
    with pytest.raises(
        TypeError, match=r"only once; pass a list of blocks, or an object whose __iter__"
    ):
        check_rows(estimator, make([GOOD, GOOD]), reset=True)


def test_no_blocks(estimator, blocks):
    with pytest.raises(ValueError, match="is empty; it must give at least one block"):
        check_rows(estimator, blocks(), reset=True)


def test_blocks_without_rows(estimator, blocks):
    with pytest.raises(ValueError, match=r"Found array with 0 sample\(s\)"):
        check_rows(estimator, blocks(GOOD[:0], GOOD[:0]), reset=True)
    assert check_rows(estimator, blocks(GOOD[:0], GOOD), reset=True).n_rows == 10


def test_blocks_of_different_columns(estimator, blocks):
    message = (
        "a block of X has 2 features where the first has 3; all blocks must have the same columns"
    )
    with pytest.raises(ValueError, match=message):
        check_rows(estimator, blocks(GOOD, GOOD[:, :2]), reset=True)


@pytest.mark.parametrize(
    "block", [np.zeros(3), np.zeros((2, 3, 4)), [1.0, 2.0]], ids=["1", "3", "list"]
)
def test_blocks_that_are_no_tables(estimator, blocks, block):
    with pytest.raises(ValueError, match=r"Expected 2D array|Found array with dim 3"):
        check_rows(estimator, blocks(block), reset=True)


def test_names_of_columns_of_blocks(estimator, blocks):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(GOOD, columns=["a", "b", "c"])
    other = frame[["b", "a", "c"]]
    check_rows(estimator, blocks(frame[:4], frame[4:]), reset=True)
    assert list(estimator.feature_names_in_) == ["a", "b", "c"]
    assert estimator.n_features_in_ == 3
    check_rows(estimator, blocks(frame[:4], frame[4:]), reset=False)
    for reset in (True, False):
        with pytest.raises(ValueError, match="Feature names must be in the same order"):
            check_rows(estimator, blocks(frame, other), reset=reset)
    check_rows(estimator, blocks(GOOD), reset=True)
    assert not hasattr(estimator, "feature_names_in_")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_float16_is_checked_as_well(estimator, value):
    check_rows(estimator, GOOD.astype(np.float16), reset=True)
    with pytest.raises(ValueError, match="Input X contains"):
        check_rows(estimator, with_fault(value, np.float16), reset=True)


def test_blocks_of_two_kinds(estimator, blocks):
    with pytest.raises(TypeError, match="partly sparse and partly dense"):
        check_rows(estimator, blocks(GOOD, sp.csr_array(GOOD)), reset=True, accept_sparse=True)


@pytest.mark.parametrize(
    ("dtypes", "working"),
    [
        (("float32", "float32"), "float32"),
        (("uint8", "float32"), "float32"),
        (("float32", "float64"), "float64"),
        (("int64", "float32"), "float64"),
    ],
)
def test_the_widest_block_says_the_dtype(estimator, blocks, dtypes, working):
    rows = check_rows(estimator, blocks(*(GOOD.astype(d) for d in dtypes)), reset=True)
    assert rows.dtype == working
    assert all(load().dtype == working for _, _, load in rows.blocks(4))


# --- Weights ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_no_weights_are_ones(dtype):
    weights = check_weights(None, as_rows(GOOD.astype(dtype)))
    np.testing.assert_array_equal(weights, np.ones(10))
    assert weights.dtype == dtype


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_weights_of_any_library(put, dtype):
    rows = as_rows(GOOD.astype(dtype))
    weights = check_weights(put(np.arange(10.0)), rows)
    assert isinstance(weights, np.ndarray)
    assert weights.dtype == dtype
    np.testing.assert_array_equal(weights, np.arange(10))


@pytest.mark.parametrize(
    "weights",
    [list(range(10)), tuple(range(10)), np.arange(10), np.arange(10.0)[::-1][::-1]],
    ids=lambda weights: type(weights).__name__,
)
def test_weights_of_any_sequence(weights):
    np.testing.assert_array_equal(check_weights(weights, as_rows(GOOD)), np.arange(10))


def test_weights_of_a_series():
    pd = pytest.importorskip("pandas")
    np.testing.assert_array_equal(check_weights(pd.Series(range(10)), as_rows(GOOD)), np.arange(10))


def test_weights_of_dask(place):
    da = pytest.importorskip("dask.array")
    np.testing.assert_array_equal(check_weights(da.arange(10), as_rows(GOOD)), np.arange(10))


def test_one_number_weighs_every_row():
    np.testing.assert_array_equal(check_weights(2.5, as_rows(GOOD)), np.full(10, 2.5))


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.r_[-1.0, np.ones(9)], "Negative values in data"),
        (np.zeros(10), "non-zero"),
        (0.0, "non-zero"),
        (np.ones(9), r"sample_weight.shape == \(9,\), expected \(10,\)"),
        (np.ones((10, 1)), "Sample weights must be 1D"),
        (np.r_[np.nan, np.ones(9)], "contains NaN"),
        (np.r_[np.inf, np.ones(9)], "contains infinity"),
    ],
    ids=["negative", "zeros", "zero", "short", "2-D", "nan", "inf"],
)
@pytest.mark.parametrize("where", ["c-order", "torch", "dask"])
def test_weights_that_are_refused(place, where, weights, message):
    with pytest.raises(ValueError, match=message):
        check_weights(weights, as_rows(place(GOOD, where)))


# --- Devices ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("fitted_on", ["c-order", "torch"])
@pytest.mark.parametrize("used_on", ["c-order", "csr-int32", "torch", "dask", "list"])
def test_all_of_the_host_is_one_device(place, check, estimator, fitted_on, used_on):
    check_model_device(estimator, check(GOOD, used_on).home, place(GOOD, fitted_on))


@pytest.mark.parametrize(
    ("fitted_on", "used_on"),
    [("c-order", "strict-device1"), ("strict-device1", "c-order"), ("strict", "strict-device1")],
)
def test_another_device_than_the_model(place, check, estimator, fitted_on, used_on):
    message = r"Estimator was fitted on device .+ and X is on device .+; move X there first"
    with pytest.raises(ValueError, match=message):
        check_model_device(estimator, check(GOOD, used_on).home, place(GOOD, fitted_on))
    check_model_device(estimator, check(GOOD, used_on).home, place(GOOD, used_on))


# --- Fitted estimators -----------------------------------------------------------------------------


def test_fitted_rows_are_those_of_the_model():
    estimator = Whitener()
    X = np.arange(12.0).reshape(4, 3)
    with pytest.raises(NotFittedError):
        check_fitted_rows(estimator, X, "whitening_")
    check_rows(estimator, X, reset=True)
    estimator.whitening_, estimator._n_features_out = np.ones(3), 2
    assert check_fitted_rows(estimator, X, "whitening_").n_rows == 4
    assert check_fitted_rows(estimator, X[:, :2], "whitening_", is_output=True).n_features == 2
    with pytest.raises(ValueError, match="features"):
        check_fitted_rows(estimator, X[:, :2], "whitening_")


def test_warnings_show_the_line_of_the_user():
    namespace = {"__name__": "clusterica.somewhere", "warn_user": warn_user}
    exec(
        "def inner():\n    warn_user('look', RuntimeWarning)\ndef outer():\n    inner()", namespace
    )
    with pytest.warns(RuntimeWarning, match="look") as caught:
        namespace["outer"]()
    assert caught[0].filename == __file__
