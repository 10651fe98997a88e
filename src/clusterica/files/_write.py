"""Replace a file in one step: write a temporary file in its folder, fsync it, rename it, fsync the folder.

Whoever opens the file sees the old content or the new one, also after a crash or a power failure.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

try:
    import fcntl
except ImportError:  # Windows has no such locks
    fcntl = None  # type: ignore[assignment]

# What full disks, quotas and missing permissions raise.
_REFUSED = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM)


def write_file(path: str | os.PathLike[str], content: bytes | str) -> Path:
    """Write a file in one step; see :func:`replacing`.

    Parameters
    ----------
    path : path
        The file.
    content : bytes or str
        What it should contain; text is encoded as UTF-8.

    Returns
    -------
    Path
        The file.

    Examples
    --------
    >>> import tempfile
    >>> from clusterica.files import write_file
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_file(f"{folder}/notes.txt", "all or nothing").read_text()
    'all or nothing'
    """
    with replacing(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)
    return Path(path)


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a binary file that takes the place of another when the ``with`` block ends without an error.

    An existing file keeps its permissions, its owner and group where this user may give them, and a symbolic
    link its place: the file that it points to is replaced. If anything fails, the old file is unchanged.
    Temporary files that killed processes have left for the same path are removed.

    Parameters
    ----------
    path : path
        The file.

    Yields
    ------
    binary file
        Write the new content to it.

    Raises
    ------
    OSError
        If the file can't be written: no such folder, no permission, no space left.
    """
    target = _checked(Path(path))
    _remove_abandoned(target)
    temporary = None
    try:
        temporary, file = _open_temporary(target)
        with file:
            yield file
            file.flush()
            if target.exists():
                _give_permissions(temporary, target.stat())
            os.fsync(file.fileno())
            if fcntl is None:  # Windows renames no open files
                file.close()
            os.replace(temporary, target)
        temporary = None
        _sync_folder(target.parent)
    except OSError as error:
        # An error about another file comes from the caller's own code in the ``with`` block.
        ours = error.filename is None or Path(error.filename).parent == target.parent
        if not ours or error.errno not in _REFUSED:
            raise
        raise OSError(
            error.errno,
            f"{path} was not written: {os.strerror(error.errno)}. What was there before is unchanged; free "
            "some space, or give a folder that you may write to",
        ) from error
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def move_file(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Give a complete file its final name, on the same disk, so that it is there after a crash, too."""
    sync_file(source)
    os.replace(source, target)
    _sync_folder(Path(target).parent)


def sync_file(path: str | os.PathLike[str]) -> None:
    """Bring the content and the name of a file, or the names in a folder, to the disk."""
    if os.path.isdir(path):
        _sync_folder(Path(path))
        return
    with open(path, "rb+") as file:
        os.fsync(file.fileno())
    _sync_folder(Path(path).parent)


def _give_permissions(path: Path, old: os.stat_result) -> None:
    """Give a file the owner, the group and the permissions of another, as far as this user may."""
    if hasattr(os, "chown"):
        for uid, gid in ((old.st_uid, -1), (-1, old.st_gid)):
            with contextlib.suppress(OSError):
                os.chown(path, uid, gid)
    # Explicitly: when a file is created, the umask takes permissions away, and a new owner some of them.
    os.chmod(path, stat.S_IMODE(old.st_mode))


def _checked(path: Path) -> Path:
    """Return the file to replace, with links followed; raise an error if there can't be one."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(
            f"{path} is a folder; give the name of a file in a folder that exists"
        )
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"{path} needs the folder {target.parent}, which does not exist; give the name of a file in a "
            "folder that exists"
        )
    if target.exists() and not target.is_file():
        raise OSError(f"{path} is a device or a pipe; give the name of a regular file")
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(
            errno.EACCES, f"{path} is read-only; make it writable, or give the name of another file"
        )
    return target


def _prefix(target: Path) -> str:
    # A hash, not the name itself: with a name of the largest length there would be no room for more.
    return f".clusterica-{hashlib.sha256(os.fsencode(target.name)).hexdigest()[:16]}-"


def _open_temporary(target: Path) -> tuple[Path, IO[bytes]]:
    """Create a temporary file beside the target, locked so that no other process takes it for abandoned."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    # Not tempfile, whose files only their owner can read: a new file gets the usual permissions.
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o666
    while True:
        temporary = target.with_name(_prefix(target) + secrets.token_hex(8))
        file = os.fdopen(os.open(temporary, flags, mode), "w+b")
        # Another process may have found it in the moment before it was locked.
        if _locked(file) is not False and os.fstat(file.fileno()).st_nlink > 0:
            return temporary, file
        file.close()


def _locked(file: IO[Any]) -> bool | None:
    """Lock a file until it is closed; return whether that succeeded, or None if files can't be locked."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return None
    return True


def _remove_abandoned(target: Path) -> None:
    """Remove temporary files of the target whose processes have ended: their locks are gone."""
    ours = re.compile(re.escape(_prefix(target)) + "[0-9a-f]{16}")
    with contextlib.suppress(OSError):  # a folder that can't be listed may still be written to
        for entry in os.scandir(target.parent):
            if not ours.fullmatch(entry.name) or not entry.is_file(follow_symlinks=False):
                continue
            with contextlib.suppress(OSError), open(entry.path, "rb") as file:
                locked = _locked(file)
                # Where files cannot be locked, one counts as left behind after a day.
                old = time.time() - entry.stat(follow_symlinks=False).st_mtime > 86_400
                if locked or (locked is None and old):
                    os.unlink(entry.path)


def _sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk."""
    if os.name == "nt":  # folders can't be opened there
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that can't do that for folders
            raise
    finally:
        os.close(descriptor)
