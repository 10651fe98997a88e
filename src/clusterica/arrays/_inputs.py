"""Checks of rows that scikit-learn does not know, by its rules and with its messages.

These are tensors, chunks on a cluster, arrays in files, lazy results and iterables of blocks.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import array_api_compat
import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, validate_data

from clusterica.arrays._lazy import LazyRows
from clusterica.arrays._place import (
    Array,
    Place,
    check_not_masked,
    is_tensor,
    namespace_of,
    to_host,
    working_dtype,
)
from clusterica.arrays._rows import IterableRows, Rows, StoredRows, as_rows
from clusterica.arrays._sklearn import check_feature_names, check_n_features
from clusterica.arrays._walk import map_reduce, working_memory
from clusterica.arrays.engines import ChunkRows, Chunks


def check_stored(estimator: BaseEstimator, X: Any, reset: bool, min_rows: int) -> Rows:
    """Check an array in a file, or the lazy result of a transform."""
    check_shape(estimator, X.shape, min_rows)
    if isinstance(X, LazyRows):
        rows: Rows = X  # its source was checked, and it checks what it computes
    else:
        if np.dtype(X.dtype).kind not in "biuf":
            raise ValueError(
                f"{type(estimator).__name__} needs an array of real numbers, and the one in the file has "
                f"dtype {X.dtype}; store it as float32 or float64"
            )
        rows = StoredRows(X)
        check_finite(rows)
    # The number of features only: scikit-learn's own check would read the whole array.
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    return rows


def check_tensor_or_chunks(estimator: BaseEstimator, X: Any, reset: bool, min_rows: int) -> Rows:
    """Check a tensor, or chunks on a cluster: their shape and dtype, and then their values."""
    if array_api_compat.is_torch_array(X) and "strided" not in str(X.layout):
        raise TypeError(
            f"sparse tensors (layout {X.layout}) are not supported; pass a SciPy CSR matrix, or "
            "X.to_dense()"
        )
    # The walk writes the values of all rows into one array, block by block.
    if is_tensor(X) and not array_api_compat.is_writeable_array(X):
        raise TypeError(
            f"arrays of type {type(X).__module__}.{type(X).__name__} are read-only and not supported; "
            "convert them with numpy.asarray or torch.asarray"
        )
    check_shape(estimator, X.shape, min_rows)
    if "complex" in str(X.dtype):
        raise ValueError(
            f"Complex data not supported\n{X.dtype} array given to {type(estimator).__name__}"
        )
    rows = ChunkRows(X) if isinstance(X, Chunks) else as_rows(X)
    check_finite(rows)
    # The number of features and their names only: scikit-learn's own check would make X a NumPy array.
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    return rows


def check_blocks(
    estimator: BaseEstimator, X: Iterable[Array], reset: bool, accept_sparse: bool, min_rows: int
) -> Rows:
    """Check an iterable of blocks, in one pass over it."""
    name = type(estimator).__name__
    if iter(X) is X:  # a generator, or another iterator
        raise TypeError(
            f"{name} reads its data more than once, and this {type(X).__name__} can be read only once; pass "
            "a list of blocks, or an object whose __iter__ starts again from the first block"
        )
    lengths: list[int] = []
    n_features, dtype = None, np.dtype(np.float32)
    kinds, nnz = set(), 0
    for part in X:
        block = _check_block(part, name, accept_sparse)
        if n_features not in (None, block.shape[1]):
            raise ValueError(
                f"a block of X has {block.shape[1]} features where the first has {n_features}; "
                "all blocks must have the same columns"
            )
        check_feature_names(estimator, part, reset=reset and n_features is None)
        lengths.append(block.shape[0])
        n_features = block.shape[1]
        dtype = np.promote_types(dtype, working_dtype(block.dtype))
        kinds.add(sp.issparse(block))
        nnz += block.nnz if sp.issparse(block) else 0
    if n_features is None:
        raise ValueError(
            f"the iterable of blocks given to {name} is empty; it must give at least one block"
        )
    if len(kinds) > 1:
        raise TypeError(
            "the blocks of X are partly sparse and partly dense; give one kind, CSR or dense"
        )
    check_shape(estimator, (sum(lengths), n_features), min_rows)
    check_n_features(estimator, np.empty((1, n_features)), reset=reset)
    return IterableRows(X, tuple(lengths), n_features, dtype, nnz=nnz if kinds == {True} else None)


def _check_block(part: Any, name: str, accept_sparse: bool) -> Array:
    """Return one block as a NumPy array or CSR matrix; it may have no rows."""
    check_not_masked(part)
    if is_tensor(part) and not Place(part).on_host:
        raise TypeError(
            f"a block is on device {Place(part).name!r}; give blocks in host memory, and name the "
            "device to stream them through with clusterica.config_context(device=...)"
        )
    return check_array(
        to_host(part) if is_tensor(part) else part,
        accept_sparse="csr" if accept_sparse else False,
        estimator=name,
        input_name="X",
        ensure_min_samples=0,
    )


def check_shape(estimator: BaseEstimator, shape: tuple[int, ...], min_rows: int) -> None:
    """Raise what scikit-learn raises for a wrong number of dimensions, rows or features."""
    name = type(estimator).__name__
    if len(shape) != 2:
        raise ValueError(
            f"Expected 2D array, got {len(shape)}D array instead (shape={tuple(shape)}) in {name}. "
            "Reshape your data, for instance X.reshape(-1, 1) for a single feature."
        )
    if shape[0] < min_rows:
        raise ValueError(
            f"Found array with {shape[0]} sample(s) (shape={tuple(shape)}) while a minimum of "
            f"{min_rows} is required by {name}."
        )
    if shape[1] < 1:
        raise ValueError(
            f"Found array with 0 feature(s) (shape={tuple(shape)}) while a minimum of 1 is required "
            f"by {name}."
        )


def check_finite(rows: Rows) -> None:
    """Refuse NaN and infinity, in one walk over the rows."""
    nans, infinities = map_reduce(_count_not_finite, rows)
    if float(nans) > 0:
        raise ValueError("Input X contains NaN.")
    if float(infinities) > 0:
        raise ValueError(
            f"Input X contains infinity or a value too large for dtype({rows.dtype.name!r})."
        )


@working_memory(lambda row: row.nbytes)
def _count_not_finite(X: Array) -> tuple[Array, Array]:
    values = X.data if sp.issparse(X) else X
    xp = namespace_of(values)
    return xp.sum(xp.astype(xp.isnan(values), xp.int64)), xp.sum(
        xp.astype(xp.isinf(values), xp.int64)
    )
