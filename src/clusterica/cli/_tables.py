"""Tables and signals of the commands: CSV, Parquet, .npy and WAV files to columns of numbers, and back."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from clusterica.cli._console import stop
from clusterica.cli._files import need, new_file

SUFFIXES = (".csv", ".tsv", ".txt", ".parquet", ".npy", ".wav")


class Table(NamedTuple):
    """Columns of numbers."""

    values: np.ndarray
    """Shape (n_rows, n_columns), float64."""
    names: tuple[str, ...]
    """Name of each column."""
    dropped: tuple[str, ...] = ()
    """Columns of the file that are not numbers."""
    rate: int | None = None
    """Rows in a second, of a recording."""


def read_table(path: Path, *, columns: Sequence[str] = ()) -> Table:
    """Read a file of numbers, or exit with a message that says what is wrong with it.

    Parameters
    ----------
    path : Path
        CSV (also separated by tabs or semicolons), Parquet, .npy or WAV.
    columns : sequence of str, default=()
        Names of the columns to read; all if empty.
    """
    suffix = path.suffix.lower()
    if not path.exists():
        stop(f"there is no file {path}.")
    if suffix not in SUFFIXES or (path.is_dir() and suffix != ".parquet"):
        stop(
            f"{path} is not a table that is read here; give a file that ends in {', '.join(SUFFIXES)}."
        )
    if suffix == ".parquet":
        table = _read_parquet(path)
    elif suffix == ".npy":
        table = _read_npy(path)
    elif suffix == ".wav":
        table = _read_wav(path)
    else:
        table = _read_csv(path)
    if columns:
        table = _chosen(path, table, columns)
    if table.values.size == 0:
        rest = f"; {', '.join(table.dropped)} are not numbers" if table.dropped else ""
        stop(f"{path} has no numbers in it{rest}.")
    bad = np.argwhere(~np.isfinite(table.values))
    if len(bad):
        row, column = bad[0]
        stop(
            f"{path} has {len(bad):,} missing or infinite values, the first in row {row + 1}, column "
            f"{table.names[column]}. Remove these rows or columns (--columns chooses columns), or fill them."
        )
    return table


def write_table(path: Path, table: Table) -> None:
    """Write columns in the format of a file name; a WAV file is scaled so that its peak is 0.9."""
    with new_file(path) as file:
        suffix = path.suffix.lower()
        if suffix == ".npy":
            np.save(file, table.values)
        elif suffix == ".parquet":
            arrow = need("pyarrow", what=f"writing {path}", extra="files")
            parquet = need("pyarrow.parquet", what=f"writing {path}", extra="files")
            columns = dict(zip(table.names, table.values.T, strict=True))
            parquet.write_table(arrow.table(columns), file)
        elif suffix == ".wav":
            from scipy.io import wavfile

            peak = np.abs(table.values).max() or 1.0
            wavfile.write(
                file,
                table.rate or 44100,
                np.rint(table.values * (0.9 * 32767 / peak)).astype(np.int16),
            )
        else:
            with file.open("w", newline="", encoding="utf-8") as stream:
                writer = csv.writer(
                    stream, delimiter="\t" if suffix == ".tsv" else ",", lineterminator="\n"
                )
                writer.writerow(table.names)
                writer.writerows([f"{x:.10g}" for x in row] for row in table.values)


def _chosen(path: Path, table: Table, columns: Sequence[str]) -> Table:
    missing = [name for name in columns if name not in table.names]
    if missing:
        why = "is not a column of numbers" if missing[0] in table.dropped else "is not a column"
        stop(f"{missing[0]} {why} of {path}; its columns are {', '.join(table.names)}.")
    places = [table.names.index(name) for name in columns]
    return Table(table.values[:, places], tuple(columns), (), table.rate)


def _read_csv(path: Path) -> Table:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        stop(f"{path} is not a text file in UTF-8 ({error.reason}); save it as one.")
    lines = [(i, line) for i, line in enumerate(text.splitlines(), 1) if line.strip()]
    if not lines:
        stop(f"{path} is empty.")
    first = lines[0][1]
    delimiter = max(",;\t", key=first.count)
    if not first.count(delimiter):
        delimiter = " " if len(first.split()) > 1 else ","
    skip = delimiter == " "
    parsed = csv.reader((line for _, line in lines), delimiter=delimiter, skipinitialspace=skip)
    rows = [[cell.strip() for cell in row] for row in parsed]
    if len(rows) != len(lines):
        stop(f"{path} has quoted cells of several lines; remove the line breaks.")
    for (number, _), row in zip(lines, rows, strict=True):
        if len(row) != len(rows[0]):
            stop(
                f"line {number} of {path} has {len(row)} cells and the first line has {len(rows[0])}; all "
                "lines must have the same number."
            )
    # The first line is a header if one of its cells is a word.
    has_header = any(_number(cell) is None for cell in rows[0])
    names = rows[0] if has_header else [f"column {i + 1}" for i in range(len(rows[0]))]
    body, numbers = (rows[1:], lines[1:]) if has_header else (rows, lines)
    if not body:
        stop(f"{path} has a header and no rows.")
    return _numeric_columns(path, names, body, [number for number, _ in numbers])


def _numeric_columns(
    path: Path, names: list[str], body: list[list[str]], numbers: list[int]
) -> Table:
    """Return the columns of numbers. One in which most cells are numbers must have no others."""
    kept, dropped = [], []
    for i, name in enumerate(names):
        cells = [_number(row[i]) for row in body]
        wrong = [j for j, cell in enumerate(cells) if cell is None]
        if len(wrong) * 2 > len(cells):
            dropped.append(name)
        elif wrong:
            j = wrong[0]
            stop(
                f"line {numbers[j]} of {path} has {body[j][i]!r} in column {name}, which is not a number. "
                "Correct it, or choose other columns with --columns."
            )
        else:
            kept.append((name, cells))
    values = np.array([cells for _, cells in kept], dtype=np.float64).T
    return Table(values.reshape(len(body), len(kept)), tuple(n for n, _ in kept), tuple(dropped))


def _number(cell: str) -> float | None:
    """Return a number, NaN for an empty cell, or None for a word."""
    if cell == "" or cell.lower() in ("na", "n/a", "null"):
        return np.nan
    try:
        return float(cell)
    except ValueError:
        return None


def _read_parquet(path: Path) -> Table:
    parquet = need("pyarrow.parquet", what=f"reading {path}", extra="files")
    arrow = need("pyarrow", what=f"reading {path}", extra="files")
    try:
        table = parquet.read_table(path)
    except (arrow.ArrowException, OSError) as error:
        stop(f"{path} can't be read as Parquet: {error}")
    types = arrow.types
    is_number = [
        types.is_integer(f.type) or types.is_floating(f.type) or types.is_boolean(f.type)
        for f in table.schema
    ]
    kept = [name for name, good in zip(table.column_names, is_number, strict=True) if good]
    dropped = [name for name, good in zip(table.column_names, is_number, strict=True) if not good]
    columns = [
        table.column(name).cast(arrow.float64()).to_numpy(zero_copy_only=False) for name in kept
    ]
    values = np.stack(columns, axis=1) if kept else np.empty((table.num_rows, 0))
    return Table(values, tuple(kept), tuple(dropped))


def _read_npy(path: Path) -> Table:
    try:
        values = np.load(path, allow_pickle=False)
    except Exception as error:  # NumPy raises TokenError and others for damaged headers
        stop(f"{path} can't be read as an array of numbers: {error}")
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2 or values.dtype.kind not in "buif":
        stop(
            f"{path} is an array of shape {values.shape} and type {values.dtype}; a table has numbers in "
            "rows and columns."
        )
    names = tuple(f"column {i + 1}" for i in range(values.shape[1]))
    return Table(values.astype(np.float64), names)


def _read_wav(path: Path) -> Table:
    from scipy.io import wavfile

    try:
        rate, values = wavfile.read(path)
    except Exception as error:  # SciPy raises UnboundLocalError and others for damaged files
        stop(f"{path} can't be read as a WAV file: {error}")
    values = values[:, None] if values.ndim == 1 else values
    names = tuple(f"channel {i + 1}" for i in range(values.shape[1]))
    return Table(values.astype(np.float64), names, (), int(rate))
