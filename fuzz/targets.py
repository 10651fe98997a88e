"""One function for each reader: it takes bytes, and raises only what the documentation names."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import shutil
import struct
import tarfile
import tempfile
import warnings
import zipfile
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import clusterica
from clusterica.cli._app import app
from clusterica.cli._tables import read_table
from clusterica.cluster import KMeans
from clusterica.datasets import load_cifar10, load_image_folder, load_mnist, load_stl10
from clusterica.datasets._download import unpack_nested_tar
from clusterica.io import load_summary
from clusterica.optim import LoopState, Step, iterate
from clusterica.preprocessing import Whitener

# In memory, where there is such a folder: every execution writes a file.
ROOT = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None, prefix="fuzz-"))


class Target(NamedTuple):
    """A reader: what to call with bytes, valid inputs, and the errors that it may raise."""

    run: Callable[[bytes], object]
    seeds: Callable[[], list[bytes]]
    errors: tuple[type[BaseException], ...] = (ValueError, FileNotFoundError)


def at(name: str, content: bytes) -> Path:
    """Write a file below the folder of this process."""
    path = ROOT / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


# --- Model files and checkpoints --------------------------------------------------------------------


def sealed(description: bytes, data: bytes = bytes(64)) -> bytes:
    """Wrap JSON as a file with a right checksum and one array, "a", of shape (8,)."""
    text = '{"sha256": "' + "0" * 64 + '", ' + description.decode(errors="replace").lstrip("{ ")
    header = {
        "__metadata__": {"clusterica": text},
        "a": {"dtype": "F64", "shape": [8], "data_offsets": [0, 64]},
    }
    head = json.dumps(header, ensure_ascii=False).encode(errors="replace")
    content = struct.pack("<Q", len(head)) + head + data
    return content.replace(b"0" * 64, hashlib.sha256(content).hexdigest().encode(), 1)


def load(content: bytes) -> None:
    path = at("model", content)
    for reader in (clusterica.load, load_summary):
        try:
            reader(path)
        except ValueError:  # a ModelFileError, or a device that this machine does not have
            continue


def model_seeds() -> list[bytes]:
    X = np.random.default_rng(0).random((20, 3))
    models = [Whitener().fit(X), KMeans(2, random_state=np.random.default_rng(0))]
    return [clusterica.save(m, ROOT / "seed").read_bytes() for m in models]


def description_seeds() -> list[bytes]:
    random = {"dict": [["bit_generator", "PCG64"], ["state", {"dict": [["state", 5], ["inc", 7]]}]]}
    legacy = {"dict": [["bit_generator", "MT19937"], ["state", {"dict": [["pos", 3]]}]]}
    values = [
        {"array": "a", "order": "F"},
        {"text": "a"},
        {"tensor": "a", "device": "cpu"},
        {"items": ["x", None], "shape": [2], "dtype": "O"},
        {"scalar": 1, "dtype": "<f4"},
        {"float": "nan"},
        {"tuple": [{"list": [1.5]}]},
        {"dict": [["k", {"dtype": "<i8"}]]},
        {"random": random, "legacy": False},
        {"random": legacy, "legacy": True},
        {"named": "clusterica.optim:Step", "fields": {"params": 1, "objective": 2, "change": 3}},
        {"data": "clusterica.kernels:Gaussian", "fields": {"gamma": 0.5}},
    ]
    params = {"n_clusters": 2, "random_state": 0}
    model = {
        "estimator": "clusterica.cluster:KMeans",
        "params": params,
        "fitted": {"a_": values[0]},
    }
    head = {"format": 2, "clusterica": "0.1.0", "sklearn": "1.9"}
    return [
        json.dumps({**head, "model": model, "summary": {"dict": [["a", v]]}}).encode()
        for v in values
    ]


def loop() -> None:
    iterate(
        lambda x: Step(x + 1, float(x.sum()), 1.0), LoopState(0, np.zeros(2)), max_iter=3, tol=0.0
    )


def resume(content: bytes) -> None:
    folder = ROOT / "run"
    shutil.rmtree(folder, ignore_errors=True)
    at("run/running-00000001.safetensors", sealed(content))
    at("run/done-00000000-00000001.safetensors", content)
    with clusterica.checkpoints(folder, every=1e9):
        loop()


def checkpoint_seeds() -> list[bytes]:
    shutil.rmtree(ROOT / "seeds", ignore_errors=True)
    with clusterica.checkpoints(ROOT / "seeds", every=0):
        loop()
    texts = []
    for path in sorted((ROOT / "seeds").iterdir()):
        content = path.read_bytes()
        (size,) = struct.unpack_from("<Q", content)
        text = json.loads(json.loads(content[8 : 8 + size])["__metadata__"]["clusterica"])
        del text["sha256"]
        # The fingerprint stays, so that changes of the state behind it are tried.
        texts.append(json.dumps(text).replace('"0[1]"', '"a"').encode())
        texts.append(content)
    return texts


# --- Data sets --------------------------------------------------------------------------------------


def read_idx(content: bytes) -> None:
    folder = ROOT / "idx"
    at("idx/t10k-labels-idx1-ubyte", struct.pack(">II", 0x0801, 1) + b"\3")
    shutil.rmtree(folder / "t10k-images-idx3-ubyte.gz", ignore_errors=True)
    packed = content[:2] == b"\x1f\x8b"
    at(f"idx/t10k-images-idx3-ubyte{'.gz' if packed else ''}", content)
    if packed:
        (folder / "t10k-images-idx3-ubyte").unlink(missing_ok=True)
    load_mnist(folder, split="test", verify=False)


def idx_seeds() -> list[bytes]:
    plain = struct.pack(">4I", 0x0803, 1, 2, 2) + bytes(4)
    return [plain, gzip.compress(plain)]


def read_cifar(content: bytes) -> None:
    at("cifar-bin/test_batch.bin", content)
    load_cifar10(ROOT / "cifar-bin", split="test", verify=False)


def read_pickle(content: bytes) -> None:
    at("cifar-py/test_batch", content)
    load_cifar10(ROOT / "cifar-py", split="test", verify=False)


def pickle_seeds() -> list[bytes]:
    dtype = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    made = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
    data = made + b"(K\x01K\x00M\x00\x0c\x86" + dtype + b"\x89U\x00tb"  # of shape (0, 3072)
    return [b"\x80\x02}(U\x04data" + data + b"U\x06labels](eu."]


def tar_of(name: str, content: bytes, **settings: Any) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", **settings) as tar:
        info = tarfile.TarInfo(name)
        info.size = len(content)
        tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def read_archive(content: bytes) -> None:
    path = at("cifar.tar.gz", content)
    load_cifar10(path, split="test", verify=False)


def archive_seeds() -> list[bytes]:
    plain = [tar_of("x/test_batch.bin", bytes(10), format=f) for f in range(3)]
    long = tar_of("x" * 150 + "/test_batch.bin", b"", format=tarfile.GNU_FORMAT)
    pax = tar_of("ü/test_batch", b".", format=tarfile.PAX_FORMAT)
    return [*plain, long, pax, gzip.compress(plain[0])]


def read_stl(content: bytes) -> None:
    at("stl/train_X.bin", bytes(3 * 96 * 96))
    at("stl/train_y.bin", content[:1])
    at("stl/fold_indices.txt", content[1:])
    load_stl10(ROOT / "stl", verify=False)


def unpack_caltech(content: bytes) -> None:
    folder = ROOT / "caltech"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    # The fuzzer changes the archive inside, too: first the zip file as it is, then around the bytes.
    wrapped = io.BytesIO()
    with zipfile.ZipFile(wrapped, "w") as outer:
        outer.writestr("c/101_ObjectCategories.tar.gz", content)
    for number, archive in enumerate((content, wrapped.getvalue())):
        path = at(f"caltech-{number}.zip", archive)
        try:
            unpack_nested_tar(path, folder / "101_ObjectCategories")
        except ValueError:
            continue
    assert {p.name for p in folder.iterdir()} <= {"101_ObjectCategories"}


def caltech_seeds() -> list[bytes]:
    inner = tar_of("101_ObjectCategories/cat/a.jpg", b"jpeg")
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as outer:
        outer.writestr("c/101_ObjectCategories.tar.gz", gzip.compress(inner))
    return [inner, gzip.compress(inner), out.getvalue()]


def read_images(content: bytes) -> None:
    # The name says nothing: Pillow looks at the content.
    at("images/x", content)
    found = load_image_folder(ROOT / "images", resize=(4, 4), on_error="skip")
    assert found.images.shape[0] in (1, 2)
    load_image_folder(ROOT / "images", resize=(4, 4))


def image_seeds() -> list[bytes]:
    from PIL import Image

    rng, seeds = np.random.default_rng(0), []
    for mode, shape in {"RGB": (5, 6, 3), "L": (5, 6), "RGBA": (5, 6, 4), "I;16": (5, 6)}.items():
        dtype = np.uint16 if mode == "I;16" else np.uint8
        picture = Image.fromarray(rng.integers(256, size=shape).astype(dtype))
        for kind in ("png", "jpeg", "gif", "bmp", "tiff", "webp", "avif", "dds", "jpeg2000", "ppm"):
            out = io.BytesIO()
            try:
                picture.save(out, kind)
            except (OSError, KeyError, ValueError, RuntimeError):
                continue
            seeds.append(out.getvalue())
    at("images/a.png", seeds[0])
    return seeds


# --- The command ------------------------------------------------------------------------------------


def table_target(suffix: str, seeds: Callable[[], list[bytes]]) -> Target:
    """Return the target of one format of tables, which ends with numbers or by SystemExit."""
    return Target(lambda content: read_table(at(f"table{suffix}", content)), seeds, (SystemExit,))


def csv_seeds() -> list[bytes]:
    texts = [
        "a,b\n1,2\n3,4\n",
        "1;2\n3;4",
        '"x y"\t1e5\n-1\tna\n',
        "1 2\n3 4\n",
        "\ufeffa,b\n1,-inf\n",
    ]
    return [text.encode() for text in texts]


def wav_seeds() -> list[bytes]:
    from scipy.io import wavfile

    seeds = []
    for dtype in (np.uint8, np.int16, np.int32, np.float32):
        out = io.BytesIO()
        wavfile.write(out, 8000, np.arange(12, dtype=dtype).reshape(6, 2))
        seeds.append(out.getvalue())
    return seeds


def npy_seeds() -> list[bytes]:
    seeds = []
    for array in (np.arange(6.0).reshape(3, 2), np.arange(3, dtype=">i2"), np.array(["a"])):
        out = io.BytesIO()
        np.save(out, array)
        seeds.append(out.getvalue())
    return seeds


def parquet_seeds() -> list[bytes]:
    import pyarrow
    from pyarrow import parquet

    out = io.BytesIO()
    columns = {"a": [1.0, None], "b": [1, 2], "c": ["x", "y"], "d": [True, False]}
    parquet.write_table(pyarrow.table(columns), out)
    return [out.getvalue()]


def parse_arguments(content: bytes) -> None:
    # As an operating system hands them over: any bytes. They are parsed, and the command is not run.
    tokens = [token.decode(errors="surrogateescape") for token in content.split(b"\0")]
    with redirect_stdout(io.StringIO()):
        app.parse_args(tokens)


def argument_seeds() -> list[bytes]:
    lines = (
        "learn images -o model --filters 10 --seed 3",
        "separate a.csv b.wav --columns x --json",
        "cluster data.parquet --clusters 4 --device cpu",
        "reproduce P1-fig1 --quick --rows RICA --rows KICA --fresh",
        "predict model images --memory 1GB",
        "features m x -o out.npy",
        "download cifar10 --list",
        "info model --json",
        "--help",
        "report --version",
    )
    return [line.replace(" ", "\0").encode() for line in lines]


TARGETS = {
    "model files": Target(load, model_seeds, ()),
    "model contents": Target(lambda text: load(sealed(text)), description_seeds, ()),
    "checkpoints": Target(resume, checkpoint_seeds, (ValueError,)),
    "idx": Target(read_idx, idx_seeds),
    "CIFAR, binary": Target(read_cifar, lambda: [bytes(3073), bytes(3073 * 2)]),
    "CIFAR, pickles": Target(read_pickle, pickle_seeds),
    "CIFAR, archives": Target(read_archive, archive_seeds),
    "STL": Target(read_stl, lambda: [b"\1" + b"0\n" * 10]),
    "Caltech": Target(unpack_caltech, caltech_seeds, ()),
    "image folders": Target(read_images, image_seeds),
    "tables, CSV": table_target(".csv", csv_seeds),
    "tables, WAV": table_target(".wav", wav_seeds),
    "tables, npy": table_target(".npy", npy_seeds),
    "tables, Parquet": table_target(".parquet", parquet_seeds),
    "arguments": Target(parse_arguments, argument_seeds, (SystemExit,)),
}


def call(name: str, content: bytes) -> None:
    """Call a target; an error that the documentation does not name escapes."""
    target = TARGETS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with redirect_stderr(io.StringIO()):  # messages of the command
                target.run(content)
        except target.errors:
            return
