"""Sparse tables of the commands: CSR matrices that ``scipy.sparse.save_npz`` has written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from clusterica.cli._console import stop
from clusterica.cli.inputs.tables import Table

# A few bytes can state any number of columns: at most four times as many as scikit-learn hashes words to.
LARGEST_WIDTH = 2**22


def read_sparse(path: Path) -> Table:
    """Read a sparse table, or exit with a message that says what is wrong with it."""
    if not path.is_file():
        stop(f"there is no file {path}.")
    try:
        # Pickles could run code.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            if "format" not in stored:
                raise ValueError("it has other arrays; save a table that is not sparse as .npy")
            kind = stored["format"].item()
            kind = kind.decode() if isinstance(kind, bytes) else str(kind)
            if kind != "csr":  # the rows of others can't be counted before they are built
                raise ValueError(
                    f"its format is {kind}; convert it with X.tocsr() and save it again"
                )
            n_rows, n_columns = map(int, stored["shape"])
            if n_columns > LARGEST_WIDTH:
                raise ValueError(f"it has {n_columns:,} columns, more than {LARGEST_WIDTH:,}")
            parts = (stored["data"], stored["indices"], stored["indptr"])
            if parts[0].dtype.kind not in "buif" or {part.dtype.kind for part in parts[1:]} != {
                "i"
            }:
                raise ValueError(
                    f"it has {', '.join(str(part.dtype) for part in parts)}, no numbers"
                )
            values = csr_array(parts, shape=(n_rows, n_columns))
            values.check_format(full_check=True)  # compiled code trusts the places of the entries
    # A damaged file raises almost anything.
    except Exception as error:
        stop(f"{path} can't be read as a matrix of scipy.sparse.save_npz: {error}")
    if not n_rows or not n_columns:
        stop(f"{path} has no numbers in it.")
    values = values.astype(np.float64)
    values.sum_duplicates()
    bad = ~np.isfinite(values.data)
    if bad.any():
        row, column = (int(places[bad][0]) + 1 for places in values.tocoo().coords)
        stop(
            f"{path} has {bad.sum():,} missing or infinite values, the first in row {row}, column {column}. "
            "Remove these rows or columns, or fill them."
        )
    return Table(values, tuple(f"column {i + 1}" for i in range(n_columns)))
