"""Files are replaced in one step: complete or not at all, whatever happens in between."""

import errno
import os
import signal
import subprocess
import sys
import time

import pytest

from clusterica.files import move_file, replacing, write_file


@pytest.fixture
def path(tmp_path):
    return write_file(tmp_path / "file", "old")


def test_content(tmp_path):
    assert write_file(tmp_path / "a", b"\x00\xff").read_bytes() == b"\x00\xff"
    assert write_file(str(tmp_path / "b"), "ü").read_bytes() == "ü".encode()
    with replacing(tmp_path / "c") as file:
        file.write(b"one, ")
        file.write(b"two")
        assert not (tmp_path / "c").exists()
    assert (tmp_path / "c").read_bytes() == b"one, two"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b", "c"]


@pytest.mark.parametrize("failing", ["fsync", "replace"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
def test_a_full_disk_leaves_the_old_file(path, monkeypatch, failing, number):
    def full(*arguments):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, failing, full)
    with pytest.raises(
        OSError, match=r"file was not written: .*unchanged; free some space"
    ) as found:
        write_file(path, "new")
    assert found.value.errno == number
    assert path.read_text() == "old"
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_write_that_the_disk_has_no_room_for(path):
    def write_too_much():
        with replacing(path) as file, open("/dev/full", "wb") as full:
            file.write(b"new")
            full.write(b"x")

    with pytest.raises(OSError, match="not written: No space left") as found:
        write_too_much()
    assert found.value.errno == errno.ENOSPC
    assert path.read_text() == "old"
    assert list(path.parent.iterdir()) == [path]


def test_a_read_only_folder(protected):
    folder, read_only = protected
    path = write_file(folder / "file", "old")
    path.chmod(0o666)
    message = r"was not written.*a folder that you may write to"
    with read_only(), pytest.raises(PermissionError, match=message):
        write_file(path, "new")
    assert path.read_text() == "old"
    assert list(folder.iterdir()) == [path]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root is never refused")
def test_a_read_only_file_is_not_replaced(path):
    path.chmod(0o400)
    with pytest.raises(PermissionError, match="is read-only; make it writable"):
        write_file(path, "new")
    assert path.read_text() == "old"


def test_errors_of_the_caller_pass(path):
    def fail(error):
        with replacing(path):
            raise error

    with pytest.raises(PermissionError, match="mine"):
        fail(PermissionError(errno.EACCES, "mine", "/elsewhere/data"))
    with pytest.raises(KeyboardInterrupt):
        fail(KeyboardInterrupt)
    assert path.read_text() == "old"
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666, 0o755])
def test_permissions_are_kept(path, mode):
    path.chmod(mode)
    before = os.umask(0o077)
    try:
        write_file(path, "new")
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == mode


@pytest.mark.skipif(getattr(os, "geteuid", lambda: 1)() != 0, reason="only root gives files away")
def test_owner_and_group_are_kept(path):
    """Else a file that only its owner may read would be lost to them when root writes it."""
    path.chmod(0o600)
    os.chown(path, 1234, 2345)
    write_file(path, "new")
    found = path.stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (1234, 2345, 0o600)


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_new_files_get_the_usual_permissions(tmp_path, mask):
    before = os.umask(mask)
    try:
        path = write_file(tmp_path / "new", "")
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o666 & ~mask


def test_links_are_written_through(path, tmp_path):
    (tmp_path / "sub").mkdir()
    link, second = tmp_path / "sub" / "link", tmp_path / "second"
    link.symlink_to("../file")
    second.symlink_to(link)
    write_file(second, "new")
    assert path.read_text() == "new"
    assert link.is_symlink()
    assert second.is_symlink()
    assert not path.is_symlink()


def test_a_link_to_nothing_yet(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "later")
    write_file(tmp_path / "link", "new")
    assert (tmp_path / "later").read_text() == "new"
    assert (tmp_path / "link").is_symlink()


def test_places_that_take_no_file(tmp_path):
    with pytest.raises(IsADirectoryError, match="is a folder; give the name of a file"):
        write_file(tmp_path, "")
    with pytest.raises(FileNotFoundError, match="absent, which does not exist; give"):
        write_file(tmp_path / "absent" / "file", "")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="is a device or a pipe"):
        write_file(tmp_path / "pipe", "")


def test_the_longest_name(tmp_path):
    longest = os.pathconf(tmp_path, "PC_NAME_MAX")
    assert write_file(tmp_path / ("x" * longest), "new").read_text() == "new"


WRITER = """
import sys, time
from clusterica.files import replacing
with replacing(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    print("writing", flush=True)
    time.sleep(60)
"""


def start_writer(path):
    process = subprocess.Popen([sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"writing\n"
    return process


def test_what_a_killed_process_left_is_removed_by_the_next_write(path):
    other = path.parent / ".clusterica-notes"
    other.write_text("not a temporary file")
    process = start_writer(path)
    try:
        (temporary,) = set(path.parent.iterdir()) - {path, other}
        # While its process runs, another write leaves it alone, however old it is.
        os.utime(temporary, (0, 0))
        write_file(path, "second")
        assert temporary.exists()
        # Files for other paths are not looked at.
        process.send_signal(signal.SIGKILL)
        process.wait()
        write_file(path.parent / "elsewhere", "")
        assert temporary.exists()
        write_file(path, "third")
        assert not temporary.exists()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    assert path.read_text() == "third"
    assert other.exists()


def test_without_locks_only_old_temporaries_are_removed(path, monkeypatch):
    import fcntl

    monkeypatch.setattr(os, "replace", lambda *paths: 1 / 0)
    monkeypatch.setattr(os, "unlink", lambda path: None)
    with pytest.raises(ZeroDivisionError):
        write_file(path, "killed")
    monkeypatch.undo()
    (temporary,) = set(path.parent.iterdir()) - {path}

    def no_locks(*arguments):
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    write_file(path, "new")
    assert temporary.exists()
    os.utime(temporary, (0, time.time() - 2 * 86_400))
    write_file(path, "newer")
    assert not temporary.exists()
    assert path.read_text() == "newer"


def test_move_file(path, tmp_path):
    move_file(write_file(tmp_path / "part", "new"), path)
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]
