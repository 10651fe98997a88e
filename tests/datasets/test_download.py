"""Downloads from a local server: whole, interrupted, resumed, altered, unpacked."""

import gzip
import hashlib
import io
import struct
import tarfile
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from clusterica.datasets import (
    _cifar,
    _folder,
    _mnist,
    _stl,
    load_caltech101,
    load_cifar10,
    load_mnist,
    load_stl10,
)
from clusterica.datasets._download import download, unpack_nested_tar, unpack_tar
from clusterica.datasets._files import Download


def md5(content):
    return hashlib.md5(content).hexdigest()


class Server:
    """Serves what is in ``content`` by path, and keeps the requests it got."""

    def __init__(self):
        self.content = {}
        self.requests = []
        self.cut_after = None  # bytes after which a connection ends too early
        self.resumes = True
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.answer(self)

            def log_message(self, *arguments):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.01,), daemon=True
        )
        self._thread.start()

    def url(self, name):
        return f"http://127.0.0.1:{self._server.server_port}/{name}"

    def answer(self, request):
        asked = request.headers.get("Range")
        self.requests.append((request.path.lstrip("/"), asked))
        body = self.content.get(request.path.lstrip("/"))
        if body is None:
            request.send_error(404)
            return
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and self.resumes else 0
        if asked and self.resumes and start >= len(body):
            request.send_error(416)
            return
        request.send_response(206 if asked and self.resumes else 200)
        request.send_header("Content-Length", str(len(body) - start))
        request.end_headers()
        request.wfile.write(body[start:][: self.cut_after])

    def close(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def server(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY"):  # the server is here, not behind a proxy
        monkeypatch.delenv(name, raising=False)
    one = Server()
    yield one
    one.close()


@pytest.fixture
def body():
    return np.random.default_rng().bytes(1_000_000)


def listing(folder):
    return sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*"))


# --- One file ------------------------------------------------------------------------------------


def test_download(server, tmp_path, body):
    server.content["a.bin"] = body
    download((server.url("a.bin"),), tmp_path / "new" / "a.bin", md5=md5(body))
    assert (tmp_path / "new" / "a.bin").read_bytes() == body
    assert listing(tmp_path) == ["new", "new/a.bin"]
    assert server.requests == [("a.bin", None)]


@pytest.mark.parametrize("resumes", [True, False])
def test_an_interrupted_download_goes_on(server, tmp_path, body, resumes):
    server.content["a.bin"] = body
    server.cut_after = 300_000
    server.resumes = resumes
    with pytest.raises(ConnectionError, match=r"a\.bin could not .*300,000 of 1,000,000 bytes"):
        download((server.url("a.bin"),), tmp_path / "a.bin", md5=md5(body))
    assert listing(tmp_path) == ["a.bin.part"]
    server.cut_after = None
    download((server.url("a.bin"),), tmp_path / "a.bin", md5=md5(body))
    assert (tmp_path / "a.bin").read_bytes() == body
    assert listing(tmp_path) == ["a.bin"]
    assert server.requests[1] == ("a.bin", "bytes=300000-")


def test_a_part_that_is_complete_needs_no_bytes(server, tmp_path, body):
    server.content["a.bin"] = body
    (tmp_path / "a.bin.part").write_bytes(body)
    download((server.url("a.bin"),), tmp_path / "a.bin", md5=md5(body))
    assert (tmp_path / "a.bin").read_bytes() == body


def test_a_wrong_checksum_removes_the_file(server, tmp_path, body):
    server.content["a.bin"] = body
    with pytest.raises(ValueError, match=r"a\.bin from http.*MD5.*was removed"):
        download((server.url("a.bin"),), tmp_path / "a.bin", md5=md5(b"other"))
    assert listing(tmp_path) == []


def test_a_part_of_something_else_is_removed(server, tmp_path, body):
    server.content["a.bin"] = body
    (tmp_path / "a.bin.part").write_bytes(b"something else")
    with pytest.raises(ValueError, match=r"a\.bin from http.*was removed"):
        download((server.url("a.bin"),), tmp_path / "a.bin", md5=md5(body))
    download((server.url("a.bin"),), tmp_path / "a.bin", md5=md5(body))
    assert (tmp_path / "a.bin").read_bytes() == body


def test_addresses_are_tried_in_order(server, tmp_path, body):
    server.content["there.bin"] = body
    urls = (server.url("gone.bin"), server.url("there.bin"))
    download(urls, tmp_path / "a.bin", md5=md5(body))
    assert (tmp_path / "a.bin").read_bytes() == body
    assert [name for name, _ in server.requests] == ["gone.bin", "there.bin"]


def test_no_network(server, tmp_path):
    with pytest.raises(ConnectionError, match=r"a\.bin could not be downloaded.*404.*by hand"):
        download((server.url("a.bin"),), tmp_path / "a.bin", md5="0")
    server.close()
    with pytest.raises(ConnectionError, match=r"a\.bin could not be downloaded.*by hand"):
        download((server.url("a.bin"),), tmp_path / "a.bin", md5="0")


# --- Archives ------------------------------------------------------------------------------------


def tar_of(files, *, extra=()):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        for member in extra:
            tar.addfile(member)
    return stream.getvalue()


def test_unpack_writes_nothing_outside_and_no_links(tmp_path):
    link = tarfile.TarInfo("set/link")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    files = {"set/a": b"a", "./set/b/c": b"c", "set/../../evil": b"x", "/evil": b"x", "loose": b"x"}
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "set.tar.gz").write_bytes(tar_of(files, extra=[link]))
    unpack_tar(tmp_path / "in" / "set.tar.gz", tmp_path / "in" / "set")
    assert listing(tmp_path) == [
        "in",
        "in/set",
        "in/set.tar.gz",
        "in/set/a",
        "in/set/b",
        "in/set/b/c",
    ]


def test_a_broken_archive_leaves_nothing_behind(tmp_path, body):
    whole = tar_of({"set/a": body, "set/b": body})
    (tmp_path / "set.tar.gz").write_bytes(whole[: len(whole) * 3 // 4])
    with pytest.raises(ValueError, match=r"set\.tar\.gz is truncated or altered"):
        unpack_tar(tmp_path / "set.tar.gz", tmp_path / "set")
    assert listing(tmp_path) == ["set.tar.gz"]


def test_unpack_keeps_files_that_are_there(tmp_path):
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "a").write_bytes(b"mine")
    (tmp_path / "set.tar.gz").write_bytes(tar_of({"set/a": b"a", "set/b": b"b"}))
    unpack_tar(tmp_path / "set.tar.gz", tmp_path / "set")
    assert (tmp_path / "set" / "a").read_bytes() == b"mine"
    assert (tmp_path / "set" / "b").read_bytes() == b"b"


def test_nested_archives_that_are_broken_are_named(tmp_path):
    (tmp_path / "x.zip").write_bytes(b"not a zip")
    with pytest.raises(ValueError, match=r"x\.zip is truncated or altered"):
        unpack_nested_tar(tmp_path / "x.zip", tmp_path / "set")
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as outer:
        outer.writestr("other", b"")
    with pytest.raises(ValueError, match=r"x\.zip holds no set\.tar\.gz"):
        unpack_nested_tar(tmp_path / "x.zip", tmp_path / "set")
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as outer:
        outer.writestr("x/set.tar.gz", b"not a tar")
    with pytest.raises(ValueError, match=r"set\.tar\.gz\) is truncated or altered"):
        unpack_nested_tar(tmp_path / "x.zip", tmp_path / "set")


# --- Data sets -----------------------------------------------------------------------------------


def offer(server, monkeypatch, module, name, contents):
    """Let a data set be downloaded from the local server."""
    server.content |= contents
    downloads = tuple(Download(n, (server.url(n),), md5(c)) for n, c in contents.items())
    monkeypatch.setattr(module, name, getattr(module, name)._replace(downloads=downloads))


def test_cifar(server, monkeypatch, tmp_path):
    rng = np.random.default_rng()
    names = [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]
    labels = rng.integers(10, size=6)
    files = {n: bytes([k]) + rng.bytes(3072) for n, k in zip(names, labels, strict=True)}
    archive = tar_of({f"cifar-10-batches-bin/{n}": c for n, c in files.items()})
    offer(server, monkeypatch, _cifar, "CIFAR10", {"cifar-10-binary.tar.gz": archive})
    base = tmp_path / "new"
    for _ in range(2):
        found = load_cifar10(base, split="all", download=True, verify=False)
        assert found.labels.tolist() == labels.tolist()
    assert len(server.requests) == 1
    assert [entry.name for entry in base.iterdir()] == ["cifar-10-batches-bin"]

    (base / "cifar-10-batches-bin" / "data_batch_2.bin").unlink()
    load_cifar10(base, split="test", download=True, verify=False)
    assert len(server.requests) == 1
    found = load_cifar10(base, download=True, verify=False)
    assert found.labels.tolist() == labels[:5].tolist()
    assert len(server.requests) == 2


def test_stl(server, monkeypatch, tmp_path):
    monkeypatch.setenv("CLUSTERICA_DATA", str(tmp_path))
    files = {"train_X.bin": bytes(2 * 27648), "train_y.bin": b"\x03\x0a"}
    files |= {"fold_indices.txt": b"0 1\n" * 10, "unlabeled_X.bin": bytes(3 * 27648)}
    archive = tar_of({f"stl10_binary/{n}": c for n, c in files.items()})
    offer(server, monkeypatch, _stl, "STL10", {"stl10_binary.tar.gz": archive})
    assert load_stl10(download=True, verify=False).labels.tolist() == [2, 9]
    assert load_stl10(split="unlabeled", verify=False).images.shape == (3, 96, 96, 3)


def test_mnist(server, monkeypatch, tmp_path):
    contents = {}
    for prefix, n in {"train": 3, "t10k": 2}.items():
        images = struct.pack(">IIII", 2051, n, 28, 28) + bytes(n * 784)
        labels = struct.pack(">II", 2049, n) + bytes(n)
        contents[f"{prefix}-images-idx3-ubyte.gz"] = gzip.compress(images)
        contents[f"{prefix}-labels-idx1-ubyte.gz"] = gzip.compress(labels)
    offer(server, monkeypatch, _mnist, "MNIST", contents)
    assert load_mnist(tmp_path, download=True, verify=False).images.shape == (3, 28, 28)
    assert load_mnist(tmp_path, split="test", verify=False).images.shape == (2, 28, 28)
    assert sorted(file.name for file in (tmp_path / "mnist").iterdir()) == sorted(contents)
    (tmp_path / "mnist" / "train-labels-idx1-ubyte.gz").unlink()
    load_mnist(tmp_path, download=True, verify=False)
    assert [name for name, _ in server.requests[4:]] == ["train-labels-idx1-ubyte.gz"]


def test_caltech(server, monkeypatch, tmp_path):
    pil = pytest.importorskip("PIL.Image")
    picture = io.BytesIO()
    pil.new("RGB", (6, 4)).save(picture, "JPEG")
    names = ["accordion/image_0001.jpg", "BACKGROUND_Google/image_0001.jpg"]
    inner = tar_of({f"101_ObjectCategories/{name}": picture.getvalue() for name in names})
    outer = io.BytesIO()
    with zipfile.ZipFile(outer, "w") as archive:
        archive.writestr("caltech-101/101_ObjectCategories.tar.gz", inner)
    offer(server, monkeypatch, _folder, "CALTECH101", {"caltech-101.zip": outer.getvalue()})
    for _ in range(2):
        found = load_caltech101(tmp_path, download=True)
        assert found.images.shape == (1, 4, 6, 3)
        assert found.class_names == ("accordion",)
    assert len(server.requests) == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["101_ObjectCategories"]


def test_a_download_that_fails_leaves_no_data_set(server, monkeypatch, tmp_path):
    offer(server, monkeypatch, _cifar, "CIFAR10", {"cifar-10-binary.tar.gz": b"x"})
    server.content.clear()
    with pytest.raises(ConnectionError, match=r"cifar-10-binary\.tar\.gz could not be downloaded"):
        load_cifar10(tmp_path, download=True)
    assert listing(tmp_path) == []
    with pytest.raises(FileNotFoundError, match="CIFAR-10 is not in"):
        load_cifar10(tmp_path)
    downloads = (Download("train-images-idx3-ubyte.gz", (server.url("gone"),), "0"),)
    monkeypatch.setattr(_mnist, "MNIST", _mnist.MNIST._replace(downloads=downloads))
    with pytest.raises(ConnectionError, match="train-images-idx3-ubyte"):
        load_mnist(tmp_path / "new", download=True)
    assert listing(tmp_path) == []
