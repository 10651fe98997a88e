"""Files of the commands: checked before the work, complete or not there, and resumed if stopped."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Protocol

import numpy as np

from clusterica.cli._console import note, stop
from clusterica.files import move_file, sync_file, write_file


def check_output(
    path: Path, suffixes: Sequence[str] = (), *, inputs: Sequence[str | Path] = ()
) -> None:
    """Exit with a message if a file can't be written, is an input, or has none of the suffixes."""
    if suffixes and path.suffix.lower() not in suffixes:
        stop(f"{path} must end in {' or '.join(suffixes)}; choose such a name with -o.", code=2)
    if path.is_dir() and path.suffix.lower() not in (".parquet", ".zarr"):
        stop(f"{path} is a folder; give the name of a file with -o.")
    if path.exists() and any(path.resolve() == Path(given).resolve() for given in inputs):
        stop(f"{path} is what the command reads; choose another name with -o.", code=2)
    check_folder(path.parent)


def check_folder(folder: Path) -> None:
    """Exit with a message if no file can be written to a folder."""
    if not folder.is_dir():
        stop(f"there is no folder {folder}; create it, or choose another with -o.")
    try:
        # Only writing shows it: permissions do not know of full disks and read-only file systems.
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        stop(f"cannot write to {folder}: {error.strerror}. Choose another folder with -o.")


@contextmanager
def new_files(folder: Path, *, own: str) -> Iterator[Path]:
    """Yield a temporary folder, whose files go to ``folder`` at the end; none do after an error.

    Files of an earlier run, whose whole names match the regular expression ``own``, are removed there.
    """
    # Beside the folder, and so on the same disk, where files can be renamed.
    temporary = folder.with_name(f".{folder.name}.{secrets.token_hex(8)}")
    temporary.mkdir()
    try:
        yield temporary
        folder.mkdir(exist_ok=True)
        names = [file.name for file in sorted(temporary.iterdir())]
        for name in names:
            os.replace(temporary / name, folder / name)
        for file in list(folder.iterdir()):
            if re.fullmatch(own, file.name) and file.name not in names and file.is_file():
                file.unlink()
    finally:
        shutil.rmtree(temporary)


def need(package: str, *, what: str, extra: str) -> Any:
    """Import an optional package, or exit with the command that installs it."""
    try:
        return import_module(package)
    except ImportError:
        name = package.partition(".")[0]
        stop(
            f"{what} needs {name}, which is not installed. Install it with: "
            f"pip install 'clusterica[{extra}]'"
        )


def fingerprint(*parts: Any) -> str:
    """Return a checksum of JSON values."""
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()


def file_checksum(path: Path) -> str:
    """Return the checksum of the content of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Partial:
    """A result that grows in the folder ``OUTPUT.partial``, and gets its name when it is complete.

    Parameters
    ----------
    output : Path
        Where the result goes, a file or a folder.
    key : str
        Checksum of all that the result depends on; another one must not be resumed.
    fresh : bool
        Whether to begin again in any case.

    Attributes
    ----------
    state : dict
        What ``record`` got last; empty at the beginning.
    data : Path
        The incomplete file or folder.
    """

    def __init__(self, output: Path, *, key: str, fresh: bool) -> None:
        self.output = output
        self.folder = output.with_name(f"{output.name}.partial")
        self.data = self.folder / f"data{output.suffix}"
        self._progress = self.folder / "progress.json"
        self._key = key
        if output.is_dir() and not fresh:
            stop(f"{output} exists. Add --fresh to replace it, or choose another name with -o.")
        if fresh and self.folder.is_dir():
            shutil.rmtree(self.folder)
        self.folder.mkdir(exist_ok=True)
        self.state: dict[str, Any] = {}
        if not self._progress.exists():  # new, or stopped before the first block was complete
            return
        try:
            found = json.loads(self._progress.read_text(encoding="utf-8"))
            left, self.state = found["key"], dict(found["state"])
        except (ValueError, KeyError, TypeError):  # another program's file, or a damaged one
            left = None
        if left != key:
            stop(
                f"{self.folder} was left by a run with another model, other images or other options. To "
                "begin again, add --fresh; to keep it, choose another name with -o."
            )

    def record(self, **state: Any) -> None:
        """Save how far the result is, once the data up to there is on the disk."""
        write_file(self._progress, json.dumps({"key": self._key, "state": state}))
        self.state = state

    def discard(self) -> None:
        """Remove what is there."""
        shutil.rmtree(self.folder)

    def finish(self) -> None:
        """Give the result its name."""
        if self.output.is_dir():
            shutil.rmtree(self.output)
        move_file(self.data, self.output)  # on the disk before what is left of the run goes
        self.discard()


@contextmanager
def folder_of_checkpoints(output: Path, *, key: str, fresh: bool) -> Iterator[Path]:
    """Yield a folder in ``OUTPUT.partial``, with what an earlier run has left there.

    It goes when the ``with`` block ends, in which the model is saved; it stays if that was interrupted.
    Parameters as in Partial.
    """
    partial = Partial(output, key=key, fresh=fresh)
    folder = partial.folder / "checkpoints"
    if folder.is_dir():
        note(f"Going on from the checkpoints in {partial.folder}.")
    partial.record()
    try:
        yield folder
    except BaseException as error:
        # The same run would end with the same error.
        wrong = isinstance(error, ValueError | TypeError)
        if wrong or not any(folder.glob("*.safetensors")):
            partial.discard()
        else:
            note("What was learned so far is kept. The same command goes on from there.")
        raise
    partial.discard()


# --- Files of features --------------------------------------------------------------------------------


class Sink(Protocol):
    """Writes the features of a block of images; they are on the disk when it returns."""

    def __init__(self, partial: Partial, names: Sequence[str], block: int) -> None: ...

    def write(self, start: int, block: np.ndarray) -> None:
        """Write the rows of a block that begins at ``start``."""


class _NpySink:
    # A memory map, so that no more than a block of features is held.
    def __init__(self, partial: Partial, names: Sequence[str], block: int) -> None:
        self._path, self._n_rows = partial.data, len(names)

    def write(self, start: int, block: np.ndarray) -> None:
        if start == 0:
            shape = (self._n_rows, block.shape[1])
            rows = np.lib.format.open_memmap(self._path, "w+", block.dtype, shape)
        else:
            rows = np.load(self._path, mmap_mode="r+")
        rows[start : start + len(block)] = block
        rows.flush()


class _ZarrSink:
    def __init__(self, partial: Partial, names: Sequence[str], block: int) -> None:
        self._zarr = need("zarr", what="writing .zarr", extra="files")
        self._path, self._n_rows, self._block = str(partial.data), len(names), block
        for left in partial.data.rglob("*.partial"):  # chunks that were being written at a kill
            left.unlink()

    def write(self, start: int, block: np.ndarray) -> None:
        if start == 0:
            rows = self._zarr.create_array(
                self._path,
                shape=(self._n_rows, block.shape[1]),
                chunks=(self._block, block.shape[1]),  # so that a block is complete or missing
                dtype=block.dtype,
                overwrite=True,
            )
        else:
            rows = self._zarr.open_array(self._path, mode="r+")
        rows[start : start + len(block)] = block
        folder = Path(self._path)
        chunk = folder / "c" / str(start // self._block)
        for written in (folder / "zarr.json", *chunk.rglob("*"), chunk, chunk.parent):
            if written.exists():  # a chunk of zeros is not stored
                sync_file(written)


class _ParquetSink:
    def __init__(self, partial: Partial, names: Sequence[str], block: int) -> None:
        self._arrow = need("pyarrow", what="writing .parquet", extra="files")
        self._parquet = need("pyarrow.parquet", what="writing .parquet", extra="files")
        self._folder, self._names, self._block = partial.data, names, block

    def write(self, start: int, block: np.ndarray) -> None:
        self._folder.mkdir(exist_ok=True)
        values = self._arrow.array(np.ascontiguousarray(block).ravel())
        rows = self._arrow.FixedSizeListArray.from_arrays(values, block.shape[1])
        table = self._arrow.table(
            {"file": list(self._names[start : start + len(block)]), "features": rows}
        )
        # Written beside the folder first, so that a kill leaves no incomplete part in it.
        file = self._folder.with_name("part.parquet")
        self._parquet.write_table(table, file)
        move_file(file, self._folder / f"part-{start // self._block:05d}.parquet")


PACKAGES = {".zarr": "zarr", ".parquet": "pyarrow.parquet"}
SINKS: dict[str, type[Sink]] = {".npy": _NpySink, ".zarr": _ZarrSink, ".parquet": _ParquetSink}
