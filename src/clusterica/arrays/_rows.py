"""Rows of data of any kind, read as blocks: arrays, files, CSR, tensors, iterables of blocks.

A block is what an op sees: a C-contiguous NumPy array or a CSR matrix of the working dtype, or a
tensor on its device.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from mmap import mmap
from typing import Any

import array_api_compat
import numpy as np
import scipy.sparse as sp

from clusterica.arrays import _stream
from clusterica.arrays._place import (
    Array,
    Place,
    active_config,
    is_cpu_tensor,
    is_host_array,
    namespace_of,
    to_host,
    to_like,
    working_dtype,
)

# Start, stop, and a function that loads the block, so that a worker thread does the loading.
Block = tuple[int, int, Callable[[], Array]]


class Rows(ABC):
    """A table of ``n_rows`` x ``n_features`` numbers that can be read as blocks of rows.

    Blocks come out where they are worked on (``place``); results go back to where the data is
    (``home``). The two differ where the configuration names a device and the data is on the host.
    """

    n_rows: int
    n_features: int
    dtype: np.dtype[Any]
    indexable: bool = False
    """Whether single rows can be reached without reading all of them."""
    streamed: bool = False
    """Whether rows come from a file or an iterable, and may be more than fit in memory."""
    engine: Any = None
    """The cluster that holds the rows, an ``Engine``; None for all other rows."""
    _is_csr: bool = False
    _kept: _stream.KeptRows | None = None

    def __init__(self, home: Array | None = None) -> None:
        self.home = Place(home)
        self.place = Place.of_work(self.home)

    @property
    def sent(self) -> bool:
        """Whether blocks are in host memory and are sent to a device to be worked on."""
        return self.home.on_host and not self.place.on_host

    @property
    def on_device(self) -> bool:
        """Whether all rows are on a device: they came as its arrays, or were sent there to stay."""
        return not self.home.on_host or self._kept is not None

    @property
    def sparse(self) -> bool:
        """Whether blocks are CSR; on a device they are dense."""
        return self._is_csr and self.place.is_numpy

    def blocks(self, size: int) -> Iterator[Block]:
        """Yield blocks of at most ``size`` rows, in order, where they are worked on."""
        if self.place.is_numpy:
            yield from self._blocks(size)
        elif self.sent:
            if self._kept is None and _stream.fits(self):
                self._kept = _stream.KeptRows(self)
            yield from (
                _stream.streamed(self, size) if self._kept is None else self._kept.blocks(size)
            )
        else:
            for start, stop, load in self._blocks(size):
                yield start, stop, partial(_load_to, self.place, load)

    def source_blocks(self, size: int) -> Iterator[Block]:
        """Yield blocks of at most ``size`` rows, in order, where the source has them."""
        return self._blocks(size)

    @abstractmethod
    def _blocks(self, size: int) -> Iterator[Block]:
        """Yield blocks of at most ``size`` rows, in order, where the source has them."""

    def take(self, indices: np.ndarray) -> Array:
        """Return the rows at the sorted indices in host memory, as NumPy or CSR."""
        picked = []
        # A pass over all blocks, for what can't be entered in the middle. Blocks without a row that is
        # asked for are not loaded.
        size = max(1, min(2**15, active_config().memory // self.load_nbytes))
        for start, stop, load in self._blocks(size):
            low, high = np.searchsorted(indices, (start, stop))
            if high > low:
                picked.append(load()[indices[low:high] - start])
        if not picked:
            return np.empty((0, self.n_features), self.dtype)
        return sp.vstack(picked, format="csr") if sp.issparse(picked[0]) else np.concatenate(picked)

    def subset(self, indices: np.ndarray) -> Rows:
        """Return the rows at the sorted indices as rows of their own."""
        return as_rows(self.home.put(self.take(indices)), self.dtype)

    def glance(self, n: int = 1000) -> Array:
        """Return about n evenly spaced rows in host memory, to see where the data lies."""
        return self.take(np.unique(np.linspace(0, self.n_rows - 1, num=n, dtype=np.int64)))

    @property
    def row_nbytes(self) -> int:
        """Memory of a row in a block."""
        return self.n_features * self.dtype.itemsize

    @property
    def load_nbytes(self) -> int:
        """Memory that loading a block takes for each row: the row, and what it is computed from."""
        return self.row_nbytes

    def in_model(self, values: Array) -> Array:
        """Return values of rows for a fitted attribute."""
        return values

    def learned(self, values: Array) -> Array:
        """Return a copy of learned values in the library, device and dtype of the data."""
        # A copy, so that a change of the attribute changes nothing that the fit still holds.
        return self.home.put(np.array(to_host(values), dtype=self.dtype))


class ArrayRows(Rows):
    """Rows of an array that can be sliced: NumPy, memory map, CSR, or a tensor on a device."""

    indexable = True

    def __init__(self, X: Array, dtype: Any = None) -> None:
        super().__init__(X)
        self.n_rows, self.n_features = X.shape
        self.dtype = working_dtype(X.dtype) if dtype is None else np.dtype(dtype)
        self._is_csr = sp.issparse(X)
        if self._is_csr and not X.has_canonical_format:
            X = X.copy()  # the matrix of the user stays as it is
            X.sum_duplicates()
        if array_api_compat.is_torch_array(X):
            X = X.detach()
        # Tensors of the CPU share their memory with NumPy, and then take the compiled code; NumPy has no
        # bfloat16, which is converted block by block.
        if is_cpu_tensor(X) and str(X.dtype) != "torch.bfloat16":
            X = X.numpy()
        self._X = X
        self.streamed = _is_memory_map(X)

    @property
    def row_nbytes(self) -> int:
        """Memory of a row in a block; the mean over rows of a CSR matrix."""
        return _csr_row_nbytes(self, self._X.nnz) if self.sparse else super().row_nbytes

    def _blocks(self, size: int) -> Iterator[Block]:
        def load(start: int, stop: int) -> Array:
            if self.home.on_host:
                return host_block(self._X[start:stop], self.dtype)
            xp = namespace_of(self._X)
            return xp.astype(self._X[start:stop, ...], getattr(xp, self.dtype.name), copy=False)

        for start in range(0, self.n_rows, size):
            stop = min(start + size, self.n_rows)
            yield start, stop, partial(load, start, stop)

    def take(self, indices: np.ndarray) -> Array:
        """Return the rows at the sorted indices in host memory, as NumPy or CSR."""
        if is_host_array(self._X):
            return host_block(self._X[indices], self.dtype)
        xp = namespace_of(self._X)
        picked = xp.take(self._X, to_like(indices, self._X), axis=0)
        return host_block(to_host(picked), self.dtype)


class StoredRows(Rows):
    """Rows of an array in a file that is read by slices, such as those of h5py and Zarr."""

    streamed = True

    def __init__(self, X: Any) -> None:
        super().__init__()
        self.n_rows, self.n_features = X.shape
        self.dtype = working_dtype(X.dtype)
        self._X = X
        # The rows of a chunk, which the library decodes as a whole whatever part of it is asked for.
        self._chunk = X.chunks[0] if X.chunks else 1

    def _blocks(self, size: int) -> Iterator[Block]:
        if self._chunk <= size:
            # Whole chunks, so that none is decoded twice.
            step = size // self._chunk * self._chunk
            for start in range(0, self.n_rows, step):
                stop = min(start + step, self.n_rows)
                yield start, stop, partial(self._read, start, stop)
        else:
            for offset in range(0, self.n_rows, self._chunk):
                rows = ArrayRows(self._read(offset, offset + self._chunk), self.dtype)
                for start, stop, load in rows._blocks(size):
                    yield offset + start, offset + stop, load

    def _read(self, start: int, stop: int) -> np.ndarray:
        return np.ascontiguousarray(self._X[start:stop], dtype=self.dtype)


class IterableRows(Rows):
    """Rows that come in blocks from an iterable that can be iterated over more than once.

    Parameters
    ----------
    source : iterable of arrays
        The blocks.
    lengths : tuple of int
        Rows of each.
    n_features : int
        Columns of all.
    dtype : dtype
        To compute in.
    nnz : int or None
        Stored values of all blocks, if they are CSR.
    """

    streamed = True

    def __init__(
        self,
        source: Iterable[Array],
        lengths: tuple[int, ...],
        n_features: int,
        dtype: Any,
        nnz: int | None = None,
    ) -> None:
        super().__init__()
        self.lengths = lengths
        self.n_rows, self.n_features = sum(lengths), n_features
        self.dtype = np.dtype(dtype)
        self._is_csr, self._nnz = nnz is not None, nnz
        self._source = source

    def _blocks(self, size: int) -> Iterator[Block]:
        offset = 0
        for part in self._source:
            rows = ArrayRows(as_array(part), self.dtype)
            if offset + rows.n_rows > self.n_rows:
                raise ValueError(self._changed_rows(f"more than {self.n_rows}"))
            if rows.n_features != self.n_features:
                raise ValueError(
                    f"a block has {rows.n_features} features, and on the first pass all had "
                    f"{self.n_features}; the iterable must give the same blocks each time"
                )
            for start, stop, load in rows._blocks(size):
                yield offset + start, offset + stop, partial(_load_to, self.home, load)
            offset += rows.n_rows
        if offset != self.n_rows:
            raise ValueError(self._changed_rows(str(offset)))

    @property
    def row_nbytes(self) -> int:
        """Memory of a row in a block; the mean over rows of CSR blocks."""
        return _csr_row_nbytes(self, self._nnz or 0) if self.sparse else super().row_nbytes

    def _changed_rows(self, now: str) -> str:
        return (
            f"the iterable of blocks gave {self.n_rows} rows on the first pass and {now} on this one; "
            "its __iter__ must give the same blocks each time"
        )


def _load_to(place: Place, load: Callable[[], Array]) -> Array:
    block = load()
    # One block at a time becomes dense on a device: the array API has no sparse arrays.
    if sp.issparse(block) and not place.is_numpy:
        block = block.toarray()
    return place.put(block)


def _is_memory_map(X: Any) -> bool:
    """Return whether an array, or the one that it is a view of, is a memory-mapped file."""
    # scikit-learn's checks return views of memory maps as plain arrays.
    while isinstance(X, np.ndarray):
        if isinstance(X, np.memmap):
            return True
        X = X.base
    return isinstance(X, mmap)


def _csr_row_nbytes(rows: Rows, nnz: int) -> int:
    """Return the mean memory of a CSR row: values, column indices, and its end."""
    return nnz * (rows.dtype.itemsize + 8) // max(1, rows.n_rows) + 8


def engine_name(X: Any) -> str | None:
    """Return the engine of an array on a cluster: "dask", "ray", or "own" for chunks; None for other data."""
    # By the module of its type, so that no engine is imported to ask.
    first = X[0] if isinstance(X, list) and X else X
    library, _, rest = type(first).__module__.partition(".")
    if (library, rest) == ("clusterica", "arrays.engines._chunks"):
        return "own"
    if library == "dask" and first is X and hasattr(X, "chunks"):
        return "dask"
    # A data set, or a list of references to arrays.
    is_ray = library == "ray" and (rest.startswith("data") if first is X else True)
    return "ray" if is_ray else None


def as_chunks(X: Any) -> Any | None:
    """Return the ``Chunks`` of an array on a cluster; None for all other data."""
    engine = engine_name(X)
    # An engine is imported only for data of it.
    if engine == "dask":
        from clusterica.arrays.engines._dask import dask_chunks

        return dask_chunks(X)
    if engine == "ray":
        from clusterica.arrays.engines._ray import ray_chunks

        return ray_chunks(X)
    return X if engine == "own" else None


def fetched(values: Any) -> Any:
    """Return values of rows, as a walk gives them, in host memory: NumPy, also where a cluster has them."""
    chunks = as_chunks(values)
    return to_host(values) if chunks is None else chunks.fetch()


def as_array(X: Any) -> Array:
    """Return what may be cut into blocks: an array as it is, sparse ones as CSR, the rest as NumPy."""
    if sp.issparse(X):
        return X.tocsr()
    known = array_api_compat.is_array_api_obj(X) or isinstance(X, Rows)
    return X if known or engine_name(X) is not None else np.asarray(X)


def take(X: Array, indices: np.ndarray, *, axis: int = 0) -> Array:
    """Return some entries along an axis of an array, memory map, tensor or Dask array, where it is."""
    # NumPy and Dask take indices of NumPy, and a tensor those of its own library.
    if not is_host_array(X) and engine_name(X) is None:
        indices = to_like(indices, X)
    return namespace_of(X).take(X, indices, axis=axis)


def as_rows(X: Array, dtype: Any = None) -> Rows:
    """Return the rows of an array, tensor, array on a cluster or lazy result that is known to be valid."""
    if isinstance(X, Rows):
        return X
    chunks = as_chunks(X)
    if chunks is None:
        return ArrayRows(X, dtype)
    from clusterica.arrays.engines import ChunkRows

    return ChunkRows(chunks, dtype)


def shuffled_batches(
    rows: Rows, size: int, rng: np.random.Generator
) -> Iterator[tuple[np.ndarray, Rows]]:
    """Yield every row once, in batches: drawn at random where single rows can be reached, else in order."""
    if rows.indexable:
        order = rng.permutation(rows.n_rows)
        for start in range(0, rows.n_rows, size):
            # Sorted, as take wants them; a file is then read from front to back.
            indices = np.sort(order[start : start + size])
            yield indices, rows.subset(indices)
    else:
        for start, stop, load in rows.blocks(size):
            yield np.arange(start, stop), as_rows(load(), rows.dtype)


def host_block(X: Array, dtype: np.dtype[Any]) -> Array:
    """Return a block as the compiled code wants it: C-contiguous NumPy, or CSR, of that dtype."""
    X = to_host(X)
    if sp.issparse(X):
        return X.tocsr().astype(dtype, copy=False)
    return np.ascontiguousarray(X, dtype=dtype)
