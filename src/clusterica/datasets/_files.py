"""Files of data sets: find them in a folder or an archive, read them once, and verify them."""

from __future__ import annotations

import gzip
import hashlib
import os
import sys
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, NoReturn

import numpy as np

# What truncated and altered compressed files raise, by where they are damaged.
DAMAGE = (EOFError, gzip.BadGzipFile, zlib.error, tarfile.TarError)
# A small archive can hold far more than the largest official one, which unpacks to 3.2 GB (STL-10).
MOST_UNPACKED = 2**32
# Names and comments in official archives are short; tarfile would read those of gigabytes, too. Files in an
# archive are read in pieces of that size.
LONGEST_TAR_HEADER = 2**20


def data_folder() -> Path:
    """Return the folder in which data sets are looked for when no path is given.

    Returns
    -------
    Path
        The value of the environment variable CLUSTERICA_DATA, or else the folder ``clusterica`` in the
        place that the system keeps for caches. It need not exist.

    Examples
    --------
    >>> from clusterica.datasets import data_folder
    >>> data_folder().is_absolute()
    True
    """
    if chosen := os.environ.get("CLUSTERICA_DATA"):
        return Path(chosen).expanduser().absolute()
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "clusterica"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "clusterica"
    cache = os.environ.get("XDG_CACHE_HOME", "")
    # A relative path there is invalid by the standard that defines the variable.
    return (Path(cache) if os.path.isabs(cache) else Path.home() / ".cache") / "clusterica"


class Download(NamedTuple):
    """A file on the network."""

    name: str
    urls: tuple[str, ...]
    """Addresses to try, in this order."""
    md5: str


class Release(NamedTuple):
    """A data set as its authors publish it."""

    name: str
    folder: str
    """Name of the folder that holds its files."""
    files: tuple[str, ...]
    """Files (or folders) in it, any of which identifies it."""
    downloads: tuple[Download, ...]
    unpack: Callable[[Path, Path], None] | None = None
    """``unpack(archive, folder)`` for a download that is an archive of the folder."""
    other_folders: tuple[str, ...] = ()
    archives: tuple[str, ...] = ()
    """Archives that can be read as they are."""


def find_release(
    release: Release, path: str | os.PathLike[str] | None, *, needs: Sequence[str], download: bool
) -> Path:
    """Return the folder or archive that holds a data set.

    Parameters
    ----------
    release : Release
        The data set.
    path : path or None
        The folder of its files, a folder that holds that one, or an archive; None is :func:`data_folder`.
    needs : sequence of str
        Files that are needed; if one is missing from a folder, the data set is downloaded.
    download : bool
        Whether to download missing files.
    """
    # A path may be the data set itself, or where several of them are.
    base = data_folder() if path is None else Path(path).expanduser()
    where = None
    if base.is_file() or any(_stored(base, name) for name in release.files):
        where = base
    else:  # a folder or archive just below
        folders = [base / name for name in (release.folder, *release.other_folders)]
        archives = [base / name for name in release.archives]
        found = [f for f in folders if f.is_dir()] + [a for a in archives if a.is_file()]
        where = found[0] if found else None
    complete = where is not None and (where.is_file() or all(_stored(where, n) for n in needs))
    if download and not complete:
        # Imported here: that file imports this one, and few calls download anything.
        from clusterica.datasets._download import fetch_release

        where = fetch_release(release, base, folder=where or base / release.folder)
    if where is None:
        urls = ", ".join(one.urls[0] for one in release.downloads)
        how = "unpack it so that there is a folder" if release.unpack else "put them into a folder"
        raise FileNotFoundError(
            f"{release.name} is not in {base}. Get it with the command `clusterica download NAME`, or with "
            f"download=True in a program. Without a network, get {urls} and {how} "
            f"{base / release.folder}, or pass the path of the folder with the files. "
            "The environment variable CLUSTERICA_DATA sets the default folder of data sets."
        )
    return where


def _stored(folder: Path, name: str) -> Path | None:
    """Return the path of a file or of its compressed form, or None."""
    return next((p for p in (folder / name, folder / f"{name}.gz") if p.exists()), None)


class DataFile:
    """An open file in a folder or in an archive.

    Parameters
    ----------
    name : str
        Its name.
    stream : binary file
        Its bytes.
    place : str
        Its name in error messages.
    size : int or None
        Its size in bytes, or None if it is not known before reading.
    md5 : str or None
        Expected checksum.
    """

    def __init__(self, name: str, stream: Any, place: str, size: int | None, md5: str | None):
        self.name = name
        self.place = place
        self.size = size
        self._stream = stream
        self._md5 = md5

    def fail(self, problem: str) -> NoReturn:
        """Raise an error that names the file."""
        raise ValueError(f"{self.place} {problem}")

    def fill(self, out: np.ndarray) -> None:
        """Read the whole file into a contiguous array, which must have exactly its size."""
        self.expect(out.nbytes)
        view = out.reshape(-1).data
        done = 0
        while step := self._stream.readinto(view[done : done + 2**20]):
            done += step
        # One byte more shows whether the file is longer than it should be.
        self.expect(len(view), found=done + len(self._stream.read(1)))
        self.verify(out)

    def read(self, most: int) -> np.ndarray:
        """Read at most ``most`` more bytes into a new array; they are not verified."""
        content = bytearray()  # grows in place, and makes an array that may be written to
        while chunk := self._stream.read(min(2**20, most - len(content))):
            content += chunk
        return np.frombuffer(content, np.uint8)

    def read_all(self, most: int) -> np.ndarray:
        """Read the whole file into a new array; raise an error if it has more than ``most`` bytes."""
        content = self.read(most + 1)
        if len(content) > most:
            self.fail(
                f"has more than {most:,} bytes, the most that there can be: it is altered. Get it again."
            )
        return content

    def measure(self) -> int:
        """Return the size of the file; one that is not known is found by reading through it."""
        if self.size is not None:
            return self.size
        size = 0
        while (chunk := len(self._stream.read(2**20))) and size <= MOST_UNPACKED:
            size += chunk
        return size

    def expect(self, n_bytes: int, *, found: int | None = None) -> None:
        """Raise an error if the file has another size."""
        size = self.size if found is None else found
        if size is not None and size != n_bytes:
            self.fail(
                f"has {size:,} bytes in place of {n_bytes:,}: it is truncated or altered. Get it again."
            )

    def verify(self, content: np.ndarray) -> None:
        """Raise an error if the bytes, in a contiguous array, do not have the official checksum."""
        if self._md5 is None:
            return
        found = hashlib.md5(content.reshape(-1).data, usedforsecurity=False).hexdigest()
        if found != self._md5:
            self.fail(
                f"is not the official file: its MD5 checksum is {found}, that of the official one is "
                f"{self._md5}. Get it again, or read it as it is with verify=False."
            )


def read_files(
    where: Path,
    names: Sequence[str],
    take: Callable[[DataFile], object],
    *,
    md5: Mapping[str, str] | None = None,
) -> None:
    """Call ``take`` with each of the named files of a folder or archive, in their order there.

    Parameters
    ----------
    where : Path
        Folder or tar archive.
    names : sequence of str
        Names of files; in an archive they may be in any folder.
    take : callable
        Reads the file. An exception because of a damaged file becomes an error that names it.
    md5 : mapping from str to str, default=None
        Checksums of files by name.
    """
    place, opened = str(where), _in_archive if where.is_file() else _in_folder
    try:
        for file in opened(where, names, md5 or {}):
            place = file.place
            take(file)
            place = str(where)
    except DAMAGE as error:
        raise ValueError(f"{place} is truncated or altered ({error}). Get it again.") from error


def _in_folder(where: Path, names: Sequence[str], md5: Mapping[str, str]) -> Iterator[DataFile]:
    """Open files of a folder one by one, or their compressed versions (.gz)."""
    for name in names:
        path = _stored(where, name)
        if path is None:
            raise FileNotFoundError(
                f"{where / name} is missing. Get the whole data set again: with the command `clusterica "
                "download`, or with download=True in a program."
            )
        if not path.is_file():
            # Reading a pipe would wait for a writer, perhaps for ever.
            raise ValueError(f"{path} is not a regular file. Put the file itself there.")
        if path.name == name:
            with path.open("rb") as stream:
                yield DataFile(name, stream, str(path), path.stat().st_size, md5.get(name))
        else:
            with gzip.open(path) as content:
                yield DataFile(name, content, str(path), None, md5.get(name))


def _in_archive(where: Path, names: Sequence[str], md5: Mapping[str, str]) -> Iterator[DataFile]:
    """Open files of a tar archive in its order, and stop after the last one that is needed."""
    # A tar archive has no table of contents: it is read once, in the order of its files.
    wanted = set(names)
    with where.open("rb") as packed, open_tar(packed) as archive:
        for member in archive:
            name = PurePosixPath(member.name).name
            if name not in wanted or not is_plain(member):
                continue
            stream = archive.extractfile(member)
            yield DataFile(name, stream, f"{where} ({name})", member.size, md5.get(name))
            wanted.discard(name)
            if not wanted:
                return
    raise FileNotFoundError(f"{where} holds no {sorted(wanted)[0]}. Get the archive again.")


class _BoundedStream:
    """A decompressed archive of which only so much is read, and little at a time."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.tell = stream.tell

    def read(self, size: int) -> bytes:
        # tarfile reads the names and comments of an archive at once, however long they claim to be.
        if size > LONGEST_TAR_HEADER:
            raise tarfile.ReadError(f"a header or read of {size:,} bytes")
        self._check(self._stream.tell() + size)
        content: bytes = self._stream.read(size)
        return content

    def seek(self, position: int) -> int:
        self._check(position)
        found: int = self._stream.seek(position)
        return found

    def _check(self, position: int) -> None:
        if position > MOST_UNPACKED:
            raise tarfile.ReadError(f"it unpacks to more than {MOST_UNPACKED:,} bytes")


def open_tar(stream: Any) -> tarfile.TarFile:
    """Open a tar archive, compressed by gzip or not, that can't unpack to more than official ones do."""
    packed = stream.read(2) == b"\x1f\x8b"  # how gzip files begin
    stream.seek(0)
    plain = gzip.GzipFile(fileobj=stream) if packed else stream
    return tarfile.open(fileobj=_BoundedStream(plain), mode="r:")  # type: ignore[call-overload, no-any-return]


def is_plain(member: tarfile.TarInfo) -> bool:
    """Return whether a member is a file that is stored whole: a sparse one of a few bytes may be huge."""
    return member.isfile() and not member.issparse()


def file_sizes(where: Path, names: Sequence[str]) -> dict[str, int]:
    """Return the sizes of files in bytes; an archive is read through for that."""
    sizes: dict[str, int] = {}

    def measure(file: DataFile) -> None:
        sizes[file.name] = file.measure()

    read_files(where, names, measure)
    return sizes


def first_stored(where: Path, names: Sequence[str]) -> str | None:
    """Return the first of the named files that a folder or archive has, or None."""
    if where.is_dir():
        return next((name for name in names if (where / name).exists()), None)
    try:
        with where.open("rb") as packed, open_tar(packed) as archive:
            inside = (PurePosixPath(member.name).name for member in archive)
            return next((name for name in inside if name in names), None)
    except DAMAGE as error:
        raise ValueError(f"{where} is not a whole tar archive ({error}). Get it again.") from error


def check_labels(file: DataFile, labels: np.ndarray, *, first: int, last: int) -> np.ndarray:
    """Return labels from 0; raise an error if the file has labels outside ``first`` to ``last``."""
    wrong = np.flatnonzero((labels < first) | (labels > last))
    if wrong.size:
        file.fail(
            f"gives image {wrong[0]} the label {labels[wrong[0]]}, but labels go from {first} to {last}: "
            "it is altered or of another kind. Get it again."
        )
    return labels.astype(np.int64) - first
