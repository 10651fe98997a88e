"""What estimators check: rows (:func:`check_rows`), weights, labels and random states.

NumPy arrays and CSR matrices are checked by scikit-learn, all other data in ``_inputs.py`` by the same rules.
"""

from __future__ import annotations

import copy
import inspect
import sys
import warnings
from collections.abc import Iterable
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeVar

import array_api_compat
import numpy as np
import scipy.sparse as sp
import sklearn
from sklearn.base import BaseEstimator
from sklearn.utils import assert_all_finite, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from clusterica.arrays._inputs import (
    check_blocks,
    check_finite,
    check_shape,
    check_stored,
    check_tensor_or_chunks,
)
from clusterica.arrays._lazy import LazyRows
from clusterica.arrays._place import (
    Array,
    Place,
    active_config,
    check_not_masked,
    is_tensor,
    to_host,
)
from clusterica.arrays._rows import ArrayRows, IterableRows, Rows, as_chunks, fetched
from clusterica.arrays._scheduler import in_order, pieces
from clusterica.arrays._sklearn import check_sample_weight

_Class = TypeVar("_Class", bound=type)


def check_rows(
    estimator: BaseEstimator,
    X: Any,
    *,
    reset: bool,
    accept_sparse: bool = False,
    min_rows: int = 1,
) -> Rows:
    """Validate X for an estimator and return its rows.

    Parameters
    ----------
    estimator : estimator
        Receives ``n_features_in_`` (and ``feature_names_in_``) on reset, is checked against otherwise.
    X : array-like, CSR, tensor, Dask array, array in a file or iterable of blocks, (n_samples, n_features)
        The data: finite numbers of any dtype.
    reset : bool
        True in fit, False in predict and transform.
    accept_sparse : bool, default=False
        Whether CSR is taken.
    min_rows : int, default=1
        Fewest rows allowed.
    """
    name = type(estimator).__name__
    check_not_masked(X)
    if hasattr(X, "keys") and not hasattr(X, "shape"):
        names = [str(key) for key in X.keys()]  # noqa: SIM118  # groups of Zarr have no other iterator
        raise TypeError(
            f"{name} takes one array, and this {type(X).__name__} holds arrays by name "
            f"({', '.join(names[:5])}); pass one of them, such as X[name]"
        )
    if array_api_compat.is_dask_array(X):
        check_shape(estimator, X.shape, min_rows)  # only tables can be cut into chunks of rows
    chunks = as_chunks(X)
    if chunks is not None or is_tensor(X):
        X = X if chunks is None else chunks
        return check_tensor_or_chunks(estimator, X, reset, min_rows)
    # Arrays in files, such as those of h5py and Zarr, have chunks too.
    is_stored = all(hasattr(X, a) for a in ("shape", "dtype", "chunks", "__getitem__"))
    if isinstance(X, LazyRows) or is_stored:
        return check_stored(estimator, X, reset, min_rows)
    if _is_iterable_of_blocks(X):
        return check_blocks(estimator, X, reset, accept_sparse, min_rows)
    # Of float16 scikit-learn's check makes an array of the size of X.
    halves = getattr(X, "dtype", None) == np.float16
    known_finite = _is_large(X) and _squares_are_finite(X)
    X = validate_data(
        estimator,
        X,
        reset=reset,
        accept_sparse="csr" if accept_sparse else False,
        dtype="numeric",
        ensure_min_samples=min_rows,
        ensure_all_finite=not (halves or known_finite),
    )
    if halves:
        check_finite(ArrayRows(X))
    if sp.issparse(X) and X.indices.dtype != X.indptr.dtype:
        raise ValueError(f"{name} needs CSR indices and indptr of one integer type")
    return ArrayRows(X)


# From so many numbers on threads save more than they cost: 16 MiB of float32.
_LARGE = 2**22


def _is_large(X: Any) -> bool:
    """Return whether all threads should look at the numbers of X; scikit-learn's check has one."""
    # Not for memory maps and other subclasses: scikit-learn makes arrays of them first.
    is_table = type(X) is np.ndarray and X.ndim == 2 and X.dtype in (np.float32, np.float64)
    contiguous = is_table and (X.flags.c_contiguous or X.flags.f_contiguous)
    return contiguous and X.size >= _LARGE and not sklearn.get_config()["assume_finite"]


def _squares_are_finite(X: np.ndarray) -> bool:
    """Return whether sums of squares of the numbers are finite; then they are. Those of huge ones are not."""
    flat = X.ravel(order="K")

    def total(part: slice) -> float:
        with np.errstate(over="ignore", invalid="ignore"):
            return float(np.vdot(flat[part], flat[part]))

    tasks = ((part,) for part in pieces(len(flat), 2**20))
    return all(map(np.isfinite, in_order(total, tasks)))


def check_fitted_rows(
    estimator: Any,
    X: Any,
    attribute: str,
    *,
    accept_sparse: bool = False,
    is_output: bool = False,
) -> Rows:
    """Return the rows of X for a fitted estimator; X is on the device of its attribute.

    Parameters
    ----------
    estimator : estimator
        Its fit sets the attribute.
    X : as in :func:`check_rows`
        Data to predict or to transform.
    attribute : str
        Name of a learned array.
    accept_sparse : bool, default=False
        Whether CSR is taken.
    is_output : bool, default=False
        Whether X is what ``transform`` gave, to be inverted.
    """
    check_is_fitted(estimator, attribute)
    if is_output:
        rows = check_output_rows(estimator, X, estimator._n_features_out)
    else:
        rows = check_rows(estimator, X, reset=False, accept_sparse=accept_sparse)
    check_model_device(estimator, rows.home, getattr(estimator, attribute))
    return rows


def check_scale(rows: Rows, dtype: Any = None) -> None:
    """Refuse rows whose squares overflow or vanish in a dtype, that of the rows by default.

    For learners that compute with squares: what they learn from such rows would be wrong without a word.
    A glance decides, so that no pass over the rows is needed; a few rows beyond it show in the result.
    """
    dtype = rows.dtype if dtype is None else np.dtype(dtype)
    limits, sample = np.finfo(dtype), rows.glance()
    values = sample.data if sp.issparse(sample) else sample
    largest = float(np.abs(values).max(initial=0))
    # Room above for sums over many rows, and below for the digits of a number and of its square.
    low = max(float(limits.tiny / limits.eps) ** 0.5, float(np.finfo(rows.dtype).tiny))
    high = float(limits.max / 2**20) ** 0.5
    if largest == 0 or low <= largest <= high:
        return
    remedy = f"divide X by {largest:.0e}" + (", or pass float64" if dtype != np.float64 else "")
    raise ValueError(
        f"the largest values of X are about {largest:.2g}, too {'small' if largest < low else 'large'} for "
        f"their squares in {dtype}; these are exact enough between {low:.0e} and {high:.0e}: {remedy}"
    )


def check_score(score: float, rows: Rows) -> float:
    """Return the score of rows; refuse one that is not finite, of rows whose squares overflow or vanish."""
    if not np.isfinite(score):
        check_scale(rows)  # names the values, where most are like that
        remedy = "" if rows.dtype == np.float64 else ", or pass float64"
        raise ValueError(
            f"some values of X are too large or too small for their squares in {rows.dtype}, or weights are "
            f"too large, so that the score is not finite; leave these rows out{remedy}"
        )
    return score


def check_not_transposed(estimator: BaseEstimator, rows: Rows) -> None:
    """Warn of a table with many more columns than rows, as recordings with channels as rows are.

    An error where a matrix of all pairs of columns is over the memory budget as well.
    """
    n, d = rows.n_rows, rows.n_features
    # Fewer than four columns for a row, or 50 in all, are data that is short of rows.
    if d <= max(50, 4 * n):
        return
    hint = (
        f"X has {n} rows and {d} columns. Rows are samples and columns are features or channels; did you "
        "mean X.T?"
    )
    if 8 * d * d > active_config().memory:
        raise ValueError(
            f"{hint} {type(estimator).__name__} learns from the covariance of the columns, which takes "
            f"{8 * d * d / 2**30:.3g} GiB; reduce the columns first if they are right"
        )
    warn_user(f"{hint} So few samples hardly determine the components")


def base_class(cls: _Class) -> _Class:
    """Decorate a base class, so that errors of Python name its methods without it.

    ``KMeans(2).fit(X).predict()`` then says "predict() missing 1 required positional argument: 'X'", and not
    "BaseKMeans.predict() missing ...", a class that users do not know.
    """
    for name, member in vars(cls).items():
        # A method with a condition is an object of scikit-learn that has it as fn.
        method = getattr(member, "fn", member)
        while not name.startswith("_") and inspect.isfunction(method):
            method.__qualname__ = name
            method = getattr(method, "__wrapped__", None)  # what a decorator calls
    return cls


class FloatOutputMixin:
    """Tell scikit-learn that ``transform`` returns float32 for float32 and float64 for float64."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


@base_class
class AccuracyMixin:
    """The ``score`` of classifiers that take arrays of any library; scikit-learn's takes NumPy only."""

    predict: Any

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy: the share of rows whose class is predicted.

        Parameters
        ----------
        X : as in fit, (n_samples, n_features)
            The data.
        y : array-like or tensor of shape (n_samples,)
            The true classes.
        sample_weight : array-like of shape (n_samples,), optional
            Weight of each row.
        """
        predicted = fetched(self.predict(X))
        classes, codes = check_labels(self, y, len(predicted))
        # Of weights only the number of rows is compared; this array takes no memory.
        rows = ArrayRows(np.broadcast_to(np.zeros(1), (len(predicted), 1)))
        weights = check_weights(sample_weight, rows)
        weights = weights / weights.max()  # else the sum of large ones overflows
        return float(np.average(predicted == classes[codes], weights=weights))


def warn_user(message: str | Warning, category: type[Warning] = UserWarning) -> None:
    """Warn, and show the line that called the library: the first one outside clusterica and scikit-learn."""
    # Counted by hand: skip_file_prefixes needs Python 3.12.
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(
        ("clusterica.", "sklearn.")
    ):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def check_output_rows(estimator: Any, Y: Any, n_columns: int) -> Rows:
    """Validate what a transformer gave, to be taken back: n_columns columns, under its output names."""
    # A copy that expects the output as its input, so that one validator serves both directions.
    expects = copy.copy(estimator)
    expects.n_features_in_ = n_columns
    expects.__dict__.pop("feature_names_in_", None)
    if hasattr(Y, "columns"):
        expects.feature_names_in_ = estimator.get_feature_names_out()
    return check_rows(expects, Y, reset=False)


# Set while a checkpoint is kept: a run that draws other numbers when it is repeated could not be resumed.
seeds_needed: ContextVar[bool] = ContextVar("clusterica_seeds_needed", default=False)


def as_generator(random_state: Any) -> np.random.Generator:
    """Return a NumPy Generator for a scikit-learn ``random_state`` (None, int, RandomState, Generator).

    NumPy draws every random number on the host, so that all libraries and devices see the same ones.
    """
    if isinstance(random_state, np.random.Generator):
        return random_state
    if random_state is None and seeds_needed.get():
        raise ValueError(
            "random_state is None; within clusterica.checkpoints a run must draw the same numbers when it is "
            "repeated: give random_state a number"
        )
    if random_state is None or isinstance(random_state, np.random.RandomState):
        random_state = check_random_state(random_state).randint(2**31, size=4)
    return np.random.default_rng(random_state)


def check_weights(weights: Any, rows: Rows, dtype: Any = None) -> np.ndarray:
    """Return weights as a host array of shape (n_rows,): not negative, not all zero.

    They have the dtype of the rows if no other is given. None gives ones that take no memory.
    """
    dtype = rows.dtype if dtype is None else np.dtype(dtype)
    if weights is None:
        return np.broadcast_to(np.ones(1, dtype), (rows.n_rows,))
    check_not_masked(weights, "sample_weight")
    # scikit-learn's check reads only the number of rows of X; this array takes no memory.
    stand_in = np.broadcast_to(np.zeros(1, dtype), (rows.n_rows, 1))
    weights = check_sample_weight(
        to_host(weights),
        stand_in,
        dtype=dtype,
        ensure_non_negative=True,
    )
    if not weights.any():
        raise ValueError("sample_weight is zero for every row; at least one row must count")
    return np.asarray(weights)


class Labels(NamedTuple):
    """The classes, sorted, and the index of the class of every row, both on the host.

    Shapes (n_classes,) and (n_rows,).
    """

    classes: np.ndarray
    codes: np.ndarray

    def check_class_sizes(self, least: int, what: str) -> None:
        """Refuse a class with fewer than ``least`` rows, one for each of its ``what``."""
        counts = np.bincount(self.codes)
        fewest = int(counts.argmin())
        if counts[fewest] < least:
            raise ValueError(
                f"class {self.classes[fewest]} has {counts[fewest]} rows, fewer than its {least} {what}; "
                "give more rows, or lower n_components_per_class (in ImageFeatures n_filters)"
            )


def check_labels(estimator: Any, y: Any, rows: Rows | int, *, min_classes: int = 1) -> Labels:
    """Validate the labels of a classification: one for every row, none missing.

    Parameters
    ----------
    estimator : estimator
        Named in the messages.
    y : array-like or tensor of shape (n_rows,), or a column of shape (n_rows, 1)
        Numbers, strings or other objects that can be sorted; a column raises scikit-learn's
        DataConversionWarning. For X in blocks also an iterable of arrays, the labels of every block.
    rows : Rows or int
        The rows of X, or their number.
    min_classes : int, default=1
        Fewest classes allowed, 1 or 2.
    """
    n_rows = rows if isinstance(rows, int) else rows.n_rows
    name = type(estimator).__name__
    if y is None:
        raise ValueError(
            f"{name} requires y to be passed, but the target y is None; give one label for every row"
        )
    check_not_masked(y, "y")
    if isinstance(y, list | tuple):
        # A list of tensors without dimensions is a list of labels.
        in_blocks = len(y) > 0 and all(getattr(part, "ndim", 0) == 1 for part in y)
    else:
        in_blocks = not any(hasattr(y, a) for a in ("__array__", "__getitem__"))
    if in_blocks and isinstance(y, Iterable):
        y = _joined_labels(y, rows)
    y = column_or_1d(np.asarray(y) if isinstance(y, list | tuple) else to_host(y), warn=True)
    if len(y) != n_rows:
        raise ValueError(
            f"X has {n_rows} rows and y has {len(y)} labels; give one label for every row (found input "
            f"variables with inconsistent numbers of samples: {[n_rows, len(y)]})"
        )
    if y.dtype == object:
        # None, NaN and pandas' NA, which can't be compared with itself.
        n_missing = sum(
            label is None or type(label).__name__ == "NAType" or bool(label != label) for label in y
        )
        if n_missing:
            raise ValueError(
                f"Input y contains {n_missing} missing labels; drop the rows without a label"
            )
    assert_all_finite(y, input_name="y", estimator_name=name)
    check_classification_targets(y)
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) < min_classes:
        raise ValueError(
            f"{name} needs at least two classes in y, and y has only {classes.tolist()[0]!r}; give "
            "rows of other classes too"
        )
    # Tensors can't be made of arrays in another byte order.
    return Labels(classes.astype(classes.dtype.newbyteorder("=")), codes)


def _joined_labels(y: Iterable[Any], rows: Rows | int) -> np.ndarray:
    """Return labels in blocks as one array; they must be cut as the blocks of X are."""
    parts = [np.asarray(to_host(part)) for part in y]
    cut = rows.lengths if isinstance(rows, IterableRows) else None
    lengths = tuple(len(part) for part in parts)
    if cut is not None and lengths != cut:
        at = next((i for i, (a, b) in enumerate(zip(cut, lengths, strict=False)) if a != b), None)
        problem = (
            f"X has {len(cut)} blocks and y has {len(lengths)}"
            if at is None
            else f"block {at} of X has {cut[at]} rows and that of y has {lengths[at]} labels"
        )
        raise ValueError(f"{problem}; give the labels of every block of X, in the same order")
    return np.concatenate(parts)


def check_model_device(estimator: BaseEstimator, home: Place, fitted: Array) -> None:
    """Refuse data that is on another device than the fitted model: nothing is moved in silence."""
    model, data = Place(fitted).name, home.name
    if model != data:
        raise ValueError(
            f"{type(estimator).__name__} was fitted on device {model!r} and X is on device {data!r}; move X "
            f"there first, or the model to X with clusterica.to_device(model, {data!r})"
        )


def _is_iterable_of_blocks(X: Any) -> bool:
    if isinstance(X, list | tuple):
        return len(X) > 0 and all(getattr(part, "ndim", 0) == 2 for part in X)
    array_like = any(hasattr(X, a) for a in ("__array__", "__dataframe__", "__array_interface__"))
    # Iterables of blocks may know their shape; what can also be indexed is an array of another library.
    array_like = array_like or sp.issparse(X) or (hasattr(X, "shape") and hasattr(X, "__getitem__"))
    return (
        isinstance(X, Iterable) and not array_like and not isinstance(X, str | bytes | dict | set)
    )
