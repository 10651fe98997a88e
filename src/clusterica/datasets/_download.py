"""Downloads: write to a ``.part`` file, verify its checksum, and only then give it the final name."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import http.client
import os
import shutil
import struct
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from clusterica.datasets._files import DAMAGE, Release, is_plain, open_tar
from clusterica.files import move_file

# Some servers refuse the default name of Python's client.
HEADERS = {"User-Agent": "clusterica"}
# Errors of names that are too long, of a file and a folder with one name, and of positions before the start.
IMPOSSIBLE = (errno.ENAMETOOLONG, errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.EINVAL)
NETWORK = (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError)


def fetch_release(release: Release, base: Path, *, folder: Path) -> Path:
    """Download a data set, put its files into a folder and return that.

    Archives are downloaded to ``base`` and removed once they are unpacked. An archive that is there already
    is the user's: its checksum is verified before it is unpacked, and it stays. Files that the folder has
    already stay as they are.
    """
    for one in release.downloads:
        if release.unpack is None:
            target = folder / one.name
            unpacked = target.with_name(target.name.removesuffix(".gz"))
            if not target.exists() and not unpacked.exists():
                download(one.urls, target, md5=one.md5)
            continue
        archive = base / one.name
        ours = not archive.exists()
        if ours:
            download(one.urls, archive, md5=one.md5)
        elif not archive.is_file() or (found := _md5_of(archive)) != one.md5:
            what = f"has the MD5 checksum {found}" if archive.is_file() else "is not a regular file"
            raise ValueError(
                f"{archive} is not the official archive: it {what} in place of {one.md5}. Move it away to "
                "download the official one."
            )
        # The archive goes only after it is unpacked: an interruption costs no second download.
        release.unpack(archive, folder)
        if ours:
            archive.unlink()
    return folder


def _md5_of(path: Path) -> str:
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False))
    return digest.hexdigest()


def download(urls: Sequence[str], target: Path, *, md5: str) -> None:
    """Download a file from the first address that answers.

    An interrupted download stays in a file whose name ends in ``.part``, and the next call resumes it if
    the server supports that. The file gets its final name when its checksum has been verified.

    Parameters
    ----------
    urls : sequence of str
        Addresses of the same file.
    target : Path
        Where it goes; folders are made as needed.
    md5 : str
        Its checksum.
    """
    part = target.with_name(f"{target.name}.part")
    failures = []
    for url in urls:
        try:
            _transfer(url, part)
            break
        except NETWORK as error:
            failures.append(f"{url}: {error}")
    else:
        raise ConnectionError(
            f"{target.name} could not be downloaded ({'; '.join(failures)}). Try again to go on from "
            f"where it stopped, or put the file into {target.parent} by hand."
        )
    if (found := _md5_of(part)) != md5:
        part.unlink()
        raise ValueError(
            f"{target.name} from {url} has the MD5 checksum {found} in place of {md5}: it is damaged or not "
            "the official file, and was removed. Try again, or get it by hand."
        )
    move_file(part, target)


def _transfer(url: str, part: Path) -> None:
    """Download the missing rest of a partial file."""
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers=HEADERS)
    if have:
        request.add_header("Range", f"bytes={have}-")
    try:
        response = urllib.request.urlopen(request, timeout=60)  # seconds
    except urllib.error.HTTPError as error:
        error.close()
        if have and error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            return  # the file is complete already; the checksum is verified later
        raise
    with response:
        # A server that does not support ranges sends the whole file again.
        resumed = response.status == http.HTTPStatus.PARTIAL_CONTENT
        done = have if resumed else 0
        length = response.headers.get("Content-Length")
        total = None if length is None else done + int(length)
        part.parent.mkdir(parents=True, exist_ok=True)  # only now that there is something to write
        with part.open("ab" if resumed else "wb") as out:
            done += _copy(response, out, name=part.stem, done=done, total=total)
    if total is not None and done < total:
        raise ConnectionError(f"the connection ended after {done:,} of {total:,} bytes")


def _copy(response: Any, out: Any, *, name: str, done: int, total: int | None) -> int:
    """Copy a response to a file with a progress bar, and return the number of bytes."""
    from rich import progress as bars
    from rich.console import Console

    columns = (
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.DownloadColumn(),
        bars.TransferSpeedColumn(),
        bars.TimeRemainingColumn(),
    )
    copied = 0
    with bars.Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(name, total=total, completed=done)
        while chunk := response.read(2**18):
            out.write(chunk)
            copied += len(chunk)
            progress.update(task, advance=len(chunk))
    return copied


@contextlib.contextmanager
def _altered_names(place: object) -> Iterator[None]:
    """Report places and names in an archive that no file system has; other errors of files pass."""
    try:
        yield
    except OSError as error:
        if error.errno not in IMPOSSIBLE:
            raise
        raise ValueError(f"{place} is truncated or altered ({error}). Get it again.") from error


def unpack_tar(archive: Path, folder: Path) -> None:
    """Unpack the files of a tar archive whose one folder becomes ``folder``."""
    with archive.open("rb") as stream:
        _unpack_stream(stream, folder, place=str(archive))


def unpack_nested_tar(archive: Path, folder: Path) -> None:
    """Unpack the tar archive ``<name of the folder>.tar.gz`` that lies in a zip archive."""
    try:
        with _altered_names(archive), zipfile.ZipFile(archive) as outer:
            names = [n for n in outer.namelist() if n.endswith(f"{folder.name}.tar.gz")]
            if not names:
                raise ValueError(f"{archive} holds no {folder.name}.tar.gz. Get it again.")
            with outer.open(names[0]) as stream:
                _unpack_stream(stream, folder, place=f"{archive} ({names[0]})")
    # NotImplementedError and RuntimeError: compressed or encrypted in a way that zipfile does not read.
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, struct.error) as error:
        raise ValueError(f"{archive} is truncated or altered ({error}). Get it again.") from error


def _unpack_stream(stream: Any, folder: Path, *, place: str) -> None:
    """Unpack into a temporary folder first, so that an interruption leaves no incomplete folder."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".unpack-") as scratch:
        fresh = Path(scratch) / folder.name
        fresh.mkdir()
        try:
            with _altered_names(place), open_tar(stream) as tar:
                for member in tar:
                    parts = PurePosixPath(member.name).parts
                    parts = parts[1:] if parts[:1] == (".",) else parts
                    # The top folder is dropped. Links, and paths that point outside, are not written: an
                    # altered archive must not reach other files.
                    if not is_plain(member) or len(parts) < 2 or ".." in parts or parts[0] == "/":
                        continue
                    target = fresh.joinpath(*parts[1:])
                    target.parent.mkdir(parents=True, exist_ok=True)
                    if (source := tar.extractfile(member)) is not None:
                        with source, target.open("wb") as out:
                            shutil.copyfileobj(source, out)
        except DAMAGE as error:
            raise ValueError(f"{place} is truncated or altered ({error}). Get it again.") from error
        if not folder.exists():
            os.replace(fresh, folder)
            return
        # Files that are there already may be the user's own: they stay.
        for path in (p for p in sorted(fresh.rglob("*")) if p.is_file()):
            target = folder / path.relative_to(fresh)
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists():
                os.replace(path, target)
