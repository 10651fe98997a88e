"""Rows that are computed each time they are read, ``f(block)``: chains of estimators without large arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy as copy_of
from functools import partial
from typing import Any

import numpy as np

from clusterica.arrays import _stream
from clusterica.arrays._place import Array, active_config, namespace_of, to_host
from clusterica.arrays._rows import Block, Rows, as_rows, host_block
from clusterica.arrays._walk import Row, block_size, map_rows, row_bytes_of


class LazyRows(Rows):
    """What ``transform`` returns for data that is larger than memory: rows, computed when they are read.

    Every estimator of clusterica takes it in place of an array. It is an iterable of blocks of rows, and
    slices and lists of indices give arrays. Nothing is kept: each pass over the rows computes them again,
    on the device that the configuration named when ``transform`` was called.

    Parameters
    ----------
    fn : callable
        ``fn(block, *params)``, of which the rows are the result.
    source : Rows
        What is transformed.
    params : tuple of arrays
        Small arrays that every block needs.

    Examples
    --------
    >>> import numpy as np
    >>> import clusterica
    >>> from clusterica.preprocessing import Whitener
    >>> X = np.random.default_rng(0).standard_normal((1000, 3))
    >>> with clusterica.config_context(lazy=True):
    ...     Z = Whitener().fit_transform(X)
    >>> Z
    LazyRows(shape=(1000, 3), dtype=float64)
    >>> Z[10:12].shape, sum(len(block) for block in Z)
    ((2, 3), 1000)
    """

    streamed = True
    ndim = 2
    sent = False  # blocks of the source are, and are transformed where they arrive

    def __init__(self, fn: Callable[..., Array], source: Rows, params: tuple[Any, ...]) -> None:
        super().__init__()
        put = source.place.put
        self._fn, self._source = fn, source
        self._params = tuple(None if p is None else put(p) for p in params)
        # One row gives the columns and the dtype of all, without a look at the data.
        probe = to_host(fn(put(np.ones((1, source.n_features), source.dtype)), *self._params))
        self.n_rows, self.n_features = source.n_rows, probe.shape[1]
        self.dtype = probe.dtype
        self.indexable = source.indexable

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        return self.n_rows, self.n_features

    @property
    def nbytes(self) -> int:
        """Memory that all rows would take."""
        return self.n_rows * self.row_nbytes

    @property
    def load_nbytes(self) -> int:
        """Memory that loading a block takes for each row: the row, and what it is computed from."""
        source = self._source
        row = Row(
            source.n_features, source.dtype.itemsize, source.row_nbytes, source.place.is_numpy
        )
        loaded = 2 * source.load_nbytes if source.sent else source.load_nbytes  # one is on its way
        return self.row_nbytes + loaded + row_bytes_of(self._fn, row, self._params)

    def _blocks(self, size: int) -> Iterator[Block]:
        def compute(load: Callable[[], Array]) -> Array:
            values = self._fn(load(), *self._params)
            xp = namespace_of(values)
            # Arrays are checked once, before the walk; these do not exist before it.
            if not bool(xp.all(xp.isfinite(values))):
                raise ValueError(
                    "the transform of a row contains NaN or infinity: its values are too large for "
                    f"{self.dtype.name}; scale the data first"
                )
            return host_block(values, self.dtype) if self._source.place.is_numpy else values

        source = self._source
        # Sent anew for each walk, not kept on the device: lazy rows may outlive many fits, and between two
        # of them the source may change.
        blocks = _stream.streamed(source, size) if source.sent else source.blocks(size)
        for start, stop, load in blocks:
            yield start, stop, partial(compute, load)

    def take(self, indices: np.ndarray) -> np.ndarray:
        """Return the rows at the sorted indices, as a NumPy array."""
        if len(indices) == 0:
            return np.empty((0, self.n_features), self.dtype)
        picked = as_rows(self._source.take(indices), self._source.dtype)
        return np.asarray(map_rows(self._fn, picked, *self._params))

    def __len__(self) -> int:
        return self.n_rows

    def __iter__(self) -> Iterator[np.ndarray]:
        for _, _, load in self.blocks(block_size(self, 0)):
            yield to_host(load())

    def __getitem__(self, key: Any) -> np.ndarray:
        # As of an array: the first index picks rows, the others act on the rows that were picked.
        rows, *others = key if isinstance(key, tuple) else (key,)
        if isinstance(rows, slice):
            indices: Any = np.arange(*rows.indices(self.n_rows))
        else:
            indices = np.asarray(rows)
            if indices.dtype == bool and len(indices) == self.n_rows:
                indices = np.flatnonzero(indices)
        if indices.size == 0:
            indices = indices.astype(np.int64)
        if indices.dtype.kind not in "iu":
            raise IndexError(
                f"rows are picked by a slice, integers or a mask of {self.n_rows} booleans; got {rows!r}"
            )
        if indices.size and not -self.n_rows <= indices.min() <= indices.max() < self.n_rows:
            raise IndexError(f"index {rows!r} is out of range for {self.n_rows} rows")
        # scikit-learn cuts folds of rows by index, and may ask for nearly all of them unnoticed.
        self._check_budget(indices.size)
        # Every row is computed once, however often its index occurs.
        wanted, where = np.unique(indices % self.n_rows, return_inverse=True)
        picked = self.take(wanted)[where.reshape(indices.shape)]
        return picked[(slice(None),) * indices.ndim + tuple(others)] if others else picked

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("lazy rows are computed when they are read; copy=False is impossible")
        # Functions that take arrays may ask for one unnoticed: that must not fill the memory.
        self._check_budget(self.n_rows)
        source = copy_of(self._source)  # what its walk keeps on a device is freed with it
        return np.asarray(map_rows(self._fn, source, *self._params), dtype=dtype)

    def _check_budget(self, n_rows: int) -> None:
        """Refuse to make an array of so many rows if it is larger than the memory budget."""
        budget, nbytes = active_config().memory, n_rows * self.row_nbytes
        if nbytes > budget:
            raise MemoryError(
                f"an array of these {n_rows} x {self.n_features} rows takes {nbytes / 2**20:,.1f} MiB, and "
                f"the memory budget is {budget / 2**20:,.1f} MiB; read them block by block (`for block in "
                "rows`), or raise the budget with clusterica.config_context(memory=...)"
            )

    def __repr__(self) -> str:
        return f"LazyRows(shape={self.shape}, dtype={self.dtype.name})"
