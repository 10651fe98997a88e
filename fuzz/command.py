"""Targets: what the command reads, and its arguments."""

from __future__ import annotations

import io
import json
import math
import zipfile
import zlib
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
from cyclopts import CycloptsError

from clusterica.cli._app import app
from clusterica.cli.inputs import images
from clusterica.cli.inputs.sparse import read_sparse
from clusterica.cli.inputs.tables import read_table
from fuzz.data_sets import image_seeds
from fuzz.target import ROOT, Target, at, folder

# What the command turns into one line and an exit code.
ERRORS = (SystemExit, ValueError, TypeError, OSError, ImportError, MemoryError)


def table_target(
    suffix: str,
    seeds: Callable[[], list[bytes]],
    parsers: tuple[str, ...] = (),
    follow: tuple[str, ...] = (),
) -> Target:
    """Return the target of one format of tables, which ends with numbers or by SystemExit."""

    def run(content: bytes) -> None:
        read_table(at(f"table{suffix}", content))

    return Target(run, seeds, ("clusterica.cli.inputs.tables",), (SystemExit,), parsers, follow)


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


def npy(array: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def npy_seeds() -> list[bytes]:
    return [npy(a) for a in (np.ones((3, 2)), np.arange(3, dtype=">i2"), np.array(["a"]))]


def parquet_seeds() -> list[bytes]:
    import pyarrow
    from pyarrow import parquet

    seeds = []
    for number in (None, 2.0):
        out = io.BytesIO()
        columns = {"a": [1.0, number], "b": [1, 2], "c": ["x", "y"], "d": [True, False]}
        parquet.write_table(pyarrow.table(columns), out)
        seeds.append(out.getvalue())
    return seeds


def sparse_seeds() -> list[bytes]:
    from scipy.sparse import csr_array, save_npz

    out = io.BytesIO()
    save_npz(out, csr_array([[0.0, 1.0, 0.0], [2.0, 0.0, 3.0]]), compressed=False)
    return [out.getvalue()]


def read_images(path: Path) -> None:
    """Read the first images of what a user names."""
    source = images.open_images(str(path))
    first = source.read(0, min(2, len(source.names)))
    assert len(first) == min(2, len(source.names))


def zip_seeds() -> list[bytes]:
    seeds = []
    for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", compression) as box:
            box.writestr("cat/a.png", image_seeds()[0])
        seeds.append(out.getvalue())
    return seeds


def npz_seeds() -> list[bytes]:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as box:  # as np.savez, whose members have a longer header
        for name, array in {
            "images": np.ones((2, 2, 2), np.uint8),
            "labels": np.array([0, 1]),
            "class_names": np.array(["a", "b"]),
        }.items():
            box.writestr(f"{name}.npy", npy(array))
    return [out.getvalue()]


def read_zarr(content: bytes) -> None:
    # A line break separates the description of the array from its one chunk.
    description, _, chunk = content.partition(b"\n")
    at("images.zarr/zarr.json", description)
    at("images.zarr/c/0/0/0", chunk)
    source = images.open_images(str(ROOT / "images.zarr"))
    # What is not stored has a value, too: a few bytes can describe an image of gigabytes.
    if len(source.names) and math.prod(json.loads(description)["shape"][1:]) <= 2**12:
        source.read(0, 1)


def zarr_seeds() -> list[bytes]:
    import zarr

    path = folder("images.zarr")
    zarr.create_array(str(path), data=np.ones((2, 2, 2), np.float32), overwrite=True)
    text = json.dumps(json.loads((path / "zarr.json").read_text()), separators=(",", ":"))
    return [text.encode() + b"\n" + (path / "c/0/0/0").read_bytes()]


def read_labels(content: bytes) -> None:
    suffix = ".npy" if content[:1] == b"\x93" else ".csv"
    images.read_labels(at(f"labels{suffix}", content), ["a", "b"])


def label_seeds() -> list[bytes]:
    return [b"class\nx\ny\n", b"x\ny", b"file,class\na,x\nb,y\n", npy(np.array(["x", "y"]))]


def parse_arguments(content: bytes) -> None:
    # As an operating system hands them over: any bytes. They are parsed, and the command is not run.
    tokens = [token.decode(errors="surrogateescape") for token in content.split(b"\0")]
    # Printing an error takes longer than finding it: one in sixteen is printed, the text of all is made.
    printed = zlib.crc32(content) % 16 == 0
    with redirect_stdout(io.StringIO()):
        try:
            app.parse_args(tokens, print_error=printed, exit_on_error=printed)
        except CycloptsError as error:
            str(error)


def argument_seeds() -> list[bytes]:
    _reuse_arguments()
    lines = (
        "learn images -o model --filters 10 --seed 3",
        "separate a.csv b.wav --columns x --json",
        "cluster data.parquet --clusters 4 --device cpu",
        "reproduce P1-fig1 --quick --rows RICA --rows KICA --fresh",
        "train d -o m --recipe best --no-refit --validation 0.5",
        "predict model images --memory 1GB",
        "features m x -o out.npy",
        "download cifar10 --list",
        "info model --json",
        "--help",
        "report --version",
    )
    return [line.replace(" ", "\0").encode() for line in lines]


def _reuse_arguments() -> None:
    """Let cyclopts keep the arguments of a command that it derives from its signature: 3 times as fast."""
    derive, known = type(app).assemble_argument_collection, {}

    def assemble(self: Any, **options: Any) -> Any:
        key = (id(self), repr(options))
        if key not in known:
            known[key] = derive(self, **options)
        for argument in known[key]:
            argument.tokens.clear()  # of the execution before
        return known[key]

    type(app).assemble_argument_collection = assemble


IMAGES = ("clusterica.cli.inputs.images", "clusterica.datasets._pictures")
NPY = ("numpy.lib._format_impl", "numpy.lib._npyio_impl")
TARGETS = {
    "tables, CSV": table_target(".csv", csv_seeds),
    "tables, WAV": table_target(".wav", wav_seeds, ("scipy",), ("scipy.io.wavfile",)),
    "tables, npy": table_target(".npy", npy_seeds, ("numpy",), NPY),
    "tables, Parquet": table_target(".parquet", parquet_seeds, ("pyarrow",)),
    "tables, npz": Target(
        lambda content: read_sparse(at("table.npz", content)),
        sparse_seeds,
        ("clusterica.cli.inputs.sparse",),
        (SystemExit,),
        ("numpy", "scipy"),
        ("zipfile", *NPY),
    ),
    "images, zip": Target(
        lambda content: read_images(at("x.zip", content)),
        zip_seeds,
        IMAGES,
        ERRORS,
        ("pillow",),
        ("zipfile",),
    ),
    "images, npz": Target(
        lambda content: read_images(at("x.npz", content)),
        npz_seeds,
        IMAGES,
        ERRORS,
        ("numpy",),
        ("zipfile", *NPY),
    ),
    "images, Zarr": Target(
        read_zarr, zarr_seeds, IMAGES, ERRORS, ("zarr",), ("zarr.core.metadata",)
    ),
    "labels": Target(read_labels, label_seeds, IMAGES[:1], ERRORS, ("numpy",), NPY),
    "arguments": Target(
        parse_arguments,
        argument_seeds,
        ("clusterica.cli",),
        (SystemExit,),
        ("cyclopts", "rich"),
        ("cyclopts.core", "cyclopts.bind", "cyclopts._convert"),
    ),
}
