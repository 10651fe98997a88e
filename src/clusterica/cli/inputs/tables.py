"""Tables and signals of the commands: CSV, Parquet, .npy and WAV files to columns of numbers, and back."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from clusterica.cli._console import stop
from clusterica.cli._files import need
from clusterica.files import replacing


class Table(NamedTuple):
    """Columns of numbers."""

    values: np.ndarray
    """Shape (n_rows, n_columns), float64; an array of NumPy, or a CSR array of a sparse table."""
    names: tuple[str, ...]
    """Name of each column."""
    dropped: tuple[str, ...] = ()
    """Columns of the file that are not numbers."""
    rate: int | None = None
    """Rows in a second, of a recording."""
    wrong: Mapping[str, str] = MappingProxyType({})
    """Columns of mostly numbers, and for each what is wrong in it."""


def read_table(path: Path, *, columns: Sequence[str] = (), others: Sequence[str] = ()) -> Table:
    """Read a file of numbers, or exit with a message that says what is wrong with it.

    Parameters
    ----------
    path : Path
        CSV (also separated by tabs or semicolons), Parquet, .npy or WAV.
    columns : sequence of str, default=()
        Names of the columns to read; all if empty.
    others : sequence of str, default=()
        Endings of other files that the command reads, for the message.
    """
    suffix = path.suffix.lower()
    if not path.exists():
        stop(f"there is no file {path}.")
    # A Parquet data set may be a folder of parts. A pipe would wait for a writer, perhaps for ever.
    if suffix not in READERS or not (path.is_file() or (path.is_dir() and suffix == ".parquet")):
        endings = ", ".join([*READERS, *others])
        stop(f"{path} can't be read as a table; give a file that ends in {endings}.")
    table = READERS[suffix](path)
    for name, message in table.wrong.items():
        if not columns or name in columns:
            stop(message)
    if columns:
        missing = [name for name in columns if name not in table.names]
        if missing:
            why = "is not a column of numbers" if missing[0] in table.dropped else "is not a column"
            names = ", ".join(table.names[:20]) + (", ..." if len(table.names) > 20 else "")
            stop(f"{missing[0]} {why} of {path}. Its columns are: {names}")
        places = [table.names.index(name) for name in columns]
        table = Table(table.values[:, places], tuple(columns), (), table.rate)
    if table.values.size == 0:
        rest = f"; {', '.join(table.dropped)} are not numbers" if table.dropped else ""
        stop(f"{path} has no numbers in it{rest}.")
    bad = np.argwhere(~np.isfinite(table.values))
    if len(bad):
        row, name = bad[0][0] + 1, table.names[bad[0][1]]
        # Columns without names are called "column 1" and "channel 1".
        column = name if name.startswith(("column ", "channel ")) else f"column {name}"
        stop(
            f"{path} has {len(bad):,} missing or infinite values, the first in row {row}, {column}. Remove "
            "these rows or columns (--columns chooses columns), or fill them."
        )
    return table


def write_table(path: Path, table: Table) -> None:
    """Write columns in the format of a file name; a WAV file is scaled so that its peak is 0.9."""
    with replacing(path) as file:
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

            # Sources have any scale, and 16 bits have a largest value.
            peak = np.abs(table.values).max() or 1.0
            wavfile.write(
                file,
                table.rate or 44100,
                np.rint(table.values * (0.9 * 32767 / peak)).astype(np.int16),
            )
        else:
            stream = io.TextIOWrapper(file, encoding="utf-8", newline="")
            writer = csv.writer(
                stream, delimiter="\t" if suffix == ".tsv" else ",", lineterminator="\n"
            )
            writer.writerow(table.names)
            writer.writerows([f"{x:.10g}" for x in row] for row in table.values)
            stream.detach()  # flushes, and leaves the file open for replacing


def _read_csv(path: Path) -> Table:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        stop(f"{path} is not a text file in UTF-8 ({error.reason}); save it as one.")
    lines = [(i, line) for i, line in enumerate(text.splitlines(), 1) if line.strip()]
    if not lines:
        stop(f"{path} is empty.")
    # Without what is quoted.
    first, last = (re.sub(r'"[^"]*"', "", line) for _, line in (lines[0], lines[-1]))
    # Commas beside as many semicolons in every line are in numbers. Spaces separate if there is nothing else.
    semicolons = 0 < first.count(";") == last.count(";")
    delimiter = ";" if semicolons else max(",\t", key=first.count)
    if not first.count(delimiter):
        delimiter = " " if len(first.split()) > 1 else ","
    skip = delimiter == " "
    parsed = csv.reader((line for _, line in lines), delimiter=delimiter, skipinitialspace=skip)
    try:
        rows = [[cell.strip() for cell in row] for row in parsed]
    except csv.Error as error:  # a cell of more than 131,072 characters
        stop(f"{path} can't be read as CSV: {error}.")
    if len(rows) != len(lines):
        stop(f"{path} has quoted cells of several lines; remove the line breaks.")
    for (number, _), row in zip(lines, rows, strict=True):
        if len(row) != len(rows[0]):
            stop(
                f"line {number} of {path} has {len(row)} cells and the first line has {len(rows[0])}; all "
                "lines must have the same number."
            )
    if delimiter == ";":
        # Numbers of such files may have a decimal comma.
        comma = re.compile(r"([-+]?\d*),(\d+([eE][-+]?\d+)?)")
        rows = [[comma.sub(r"\1.\2", c) if comma.fullmatch(c) else c for c in row] for row in rows]
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
    """Return the columns of numbers; in a column of mostly numbers any other cell is an error."""
    kept, dropped, wrong_in = [], [], {}
    for i, name in enumerate(names):
        cells = [_number(row[i]) for row in body]
        wrong = [j for j, cell in enumerate(cells) if cell is None]
        if len(wrong) * 2 > len(cells):
            dropped.append(name)
        elif wrong:
            j = wrong[0]
            wrong_in[name] = (
                f"line {numbers[j]} of {path} has {body[j][i]!r} in column {name}, which is not a number. "
                "Correct it, or choose other columns with --columns."
            )
        else:
            kept.append((name, cells))
    values = np.array([cells for _, cells in kept], dtype=np.float64).T
    values = values.reshape(len(body), len(kept))
    return Table(values, tuple(n for n, _ in kept), tuple(dropped), None, wrong_in)


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
    types = arrow.types
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    if not files:
        stop(f"there is no file *.parquet in the folder {path}.")
    try:
        # In batches: a damaged file may state billions of rows, for which one large table would make room.
        parts = []
        for file in files:
            with parquet.ParquetFile(file) as opened:
                batches = opened.iter_batches(2**16)
                parts.append(arrow.Table.from_batches(batches, opened.schema_arrow))
        # Columns of parts go by their names, and take the wider type.
        table = (
            parts[0]
            if len(parts) == 1
            else arrow.concat_tables(parts, promote_options="permissive")
        )
        # By place: names may occur twice.
        numbers = [
            i
            for i, kind in enumerate(table.schema.types)
            if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
        ]
        # Not safe: whole numbers above 2^53 are rounded, as in any table of floats.
        columns = [
            table.column(i).cast(arrow.float64(), safe=False).to_numpy(zero_copy_only=False)
            for i in numbers
        ]
        names = [str(name) for name in table.column_names]
    # A damaged file raises almost anything: ArrowException, OSError, UnicodeDecodeError, KeyError...
    except Exception as error:
        stop(f"{path} can't be read as Parquet: {error}")
    values = np.stack(columns, axis=1) if columns else np.empty((table.num_rows, 0))
    dropped = tuple(name for i, name in enumerate(names) if i not in numbers)
    return Table(values, tuple(names[i] for i in numbers), dropped)


def _read_array(path: Path) -> Table:
    """Read a .npy file, or a WAV recording with its rate."""
    is_sound, rate = path.suffix.lower() == ".wav", None
    try:
        if is_sound:
            from scipy.io import wavfile

            rate, values = wavfile.read(path)
        else:
            # Pickles could run code.
            values = np.load(path, allow_pickle=False)
    # Readers raise almost anything for damaged files: TokenError, UnboundLocalError...
    except Exception as error:
        kind = "a WAV file" if is_sound else "an array of numbers"
        stop(f"{path} can't be read as {kind}: {error}")
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2 or values.dtype.kind not in "buif":
        stop(
            f"{path} is an array of shape {values.shape} and type {values.dtype}; a table has numbers in "
            "rows and columns."
        )
    word = "channel" if is_sound else "column"
    names = tuple(f"{word} {i + 1}" for i in range(values.shape[1]))
    return Table(values.astype(np.float64), names, (), None if rate is None else int(rate))


# A file name ends in one of these.
READERS: dict[str, Callable[[Path], Table]] = {
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".txt": _read_csv,
    ".parquet": _read_parquet,
    ".npy": _read_array,
    ".wav": _read_array,
}
