"""Rows of Parquet files, as blocks that are read one after the other."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

# Bytes of a block: enough for a disk to read at full speed, and little beside a memory budget.
_BLOCK_BYTES = 2**24
# Bytes of a column that are read at a time. With 1 MiB, reading took as long (48 features, 730 MiB), and
# a thousand columns would take 1 GiB.
_BUFFER = 2**16


class ParquetBlocks:
    """The rows of Parquet files in blocks, which every estimator of clusterica takes.

    :func:`open_parquet` makes it. Each pass over it opens the files again.

    Parameters
    ----------
    paths : sequence of Path
        The files, in order.
    columns : sequence of str or None, default=None
        Columns to read; None reads all.

    Attributes
    ----------
    shape : tuple of int
        Number of rows and of features.
    dtype : dtype
        That of the blocks.
    columns : list of str
        Names of the columns that are read.
    """

    def __init__(self, paths: Sequence[Path], columns: Sequence[str] | None = None) -> None:
        self._paths = list(paths)
        n_rows, width, dtypes = 0, None, []
        for path in self._paths:
            with _opened(path) as file:
                schema = file.schema_arrow
                columns = list(schema.names if columns is None else columns)
                n_rows += file.metadata.num_rows
            if not columns or len(set(columns)) < len(columns):
                raise ValueError(f"{path} has the columns {columns}; each needs a name of its own")
            fields = [_width_and_dtype(schema, name, path) for name in columns]
            dtypes += [dtype for _, dtype in fields]
            found = sum(w for w, _ in fields)
            if width not in (None, found):
                raise ValueError(f"{path} has {found} features and {self._paths[0]} has {width}")
            width = found
        self.columns = columns or []
        self.shape = n_rows, width or 0
        self.dtype = np.result_type(*dtypes)

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[np.ndarray]:
        size = max(1, _BLOCK_BYTES // (self.shape[1] * self.dtype.itemsize))
        for path in self._paths:
            with _opened(path) as file:
                # Row groups may be larger than memory: a batch is part of one.
                for batch in file.iter_batches(size, columns=self.columns):
                    yield self._block(batch, path)

    def _block(self, batch: Any, path: Path) -> np.ndarray:
        block = np.empty((batch.num_rows, self.shape[1]), self.dtype)
        start = 0
        for name in self.columns:
            column = batch.column(name)
            # A list without values has none in its flat form: what follows would be shifted.
            if column.null_count:
                raise ValueError(
                    f"column {name!r} of {path} has missing values; fill them, or drop their rows"
                )
            flat = (
                column.flatten()
                if hasattr(column, "flatten") and column.type.num_fields
                else column
            )
            values = flat.to_numpy(zero_copy_only=False).reshape(batch.num_rows, -1)
            block[:, start : start + values.shape[1]] = values
            start += values.shape[1]
        return block

    def __repr__(self) -> str:
        return f"ParquetBlocks(shape={self.shape}, dtype={self.dtype.name}, columns={self.columns})"


def open_parquet(
    path: str | os.PathLike[str], *, columns: Sequence[str] | None = None
) -> ParquetBlocks:
    """Open Parquet files, to read their rows block by block.

    Parameters
    ----------
    path : path
        A file, or a folder of files ``*.parquet``, which are read in the order of their names.
    columns : sequence of str or None, default=None
        Names of the columns that are features: numbers, booleans, or lists of a fixed size, each entry of
        which is a feature. None takes all columns.

    Returns
    -------
    ParquetBlocks
        An iterable of blocks, to be passed to ``fit`` and ``transform``.

    Raises
    ------
    FileNotFoundError
        If there is no such file, or none in the folder.
    ValueError
        If a column is missing, or holds something else than numbers.
    ImportError
        If pyarrow is not installed.

    Examples
    --------
    >>> import tempfile
    >>> import pyarrow as pa
    >>> import pyarrow.parquet as pq
    >>> from clusterica.cluster import KMeans
    >>> from clusterica.datasets import open_parquet
    >>> table = pa.table({"a": [0.0, 0.1, 5.0, 5.1], "b": [0.0, 0.1, 5.0, 5.1]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pq.write_table(table, f"{folder}/rows.parquet")
    ...     X = open_parquet(f"{folder}/rows.parquet")
    ...     model = KMeans(2, random_state=0).fit(X)
    >>> X.shape, sorted(model.cluster_centers_[:, 0].round(2).tolist())
    ((4, 2), [0.05, 5.05])
    """
    path = Path(path).expanduser()
    paths = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    if not paths or not paths[0].is_file():
        raise FileNotFoundError(f"{path} is not a Parquet file, nor a folder with files *.parquet")
    if columns is not None and (isinstance(columns, str) or len(columns) == 0):
        raise ValueError(f"columns={columns!r} must be a list of names, or None for all columns")
    return ParquetBlocks(paths, columns)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open a file; what its reader raises inside the ``with`` block is a ValueError that names it."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError(
            "Parquet files need pyarrow; install it with: pip install 'clusterica[files]'"
        ) from error
    try:
        # By default pyarrow reads all of a file ahead, and every column of a row group as a whole.
        with pyarrow.parquet.ParquetFile(path, pre_buffer=False, buffer_size=_BUFFER) as file:
            yield file
    except (pyarrow.ArrowException, OSError) as error:
        # Errors of the system have a number: no permission, or a disk that fails.
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise ValueError(f"{path} is not a Parquet file, or is damaged ({error})") from error


def _width_and_dtype(schema: Any, name: str, path: Path) -> tuple[int, np.dtype[Any]]:
    """Return how many features a column is, and their dtype."""
    import pyarrow.types as types

    if name not in schema.names:
        raise ValueError(f"{path} has no column {name!r}; its columns are {schema.names}")
    kind, width = schema.field(name).type, 1
    if types.is_fixed_size_list(kind) and kind.list_size > 0:
        kind, width = kind.value_type, kind.list_size
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
        raise ValueError(
            f"column {name!r} of {path} has type {kind}, and features are numbers; name the columns that "
            "are features with columns=[...]"
        )
    return width, np.dtype(kind.to_pandas_dtype())
