"""Targets: model files and checkpoints."""

from __future__ import annotations

import hashlib
import json
import struct
from importlib.util import find_spec

import numpy as np

import clusterica
from clusterica.cluster import KMeans
from clusterica.io import _checkpoint, load_summary
from clusterica.optim import LoopState, Step, iterate
from clusterica.preprocessing import Whitener
from fuzz.target import ROOT, Target, at, folder

CODE = tuple(f"clusterica.io.{name}" for name in ("_model", "_sealed", "_values"))
PARSERS = ("safetensors", "numpy", "scikit-learn")


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


def load_file(content: bytes) -> None:
    clusterica.load(at("model", content))


def model_seeds() -> list[bytes]:
    X = np.random.default_rng(0).random((20, 3))
    models = [Whitener().fit(X), KMeans(2, random_state=np.random.default_rng(0))]
    return [clusterica.save(m, ROOT / "seed").read_bytes() for m in models]


def load_contents(content: bytes) -> None:
    # A file has both, and both are read by the same code: the text says which one is.
    read = clusterica.load if b'"model"' in content else load_summary
    read(at("model", sealed(content)))


def description_seeds() -> list[bytes]:
    random = {"dict": [["bit_generator", "PCG64"], ["state", {"dict": [["state", 5], ["inc", 7]]}]]}
    legacy = {"dict": [["bit_generator", "MT19937"], ["state", {"dict": [["pos", 3]]}]]}
    values = [
        {"array": "a", "order": "F"},
        {"text": "a"},
        {"tensor": "a", "device": "cpu"},
        {"items": ["x", None], "shape": [2], "dtype": "O"},
        {"items": ["x", "yz"], "shape": [2], "dtype": "T"},
        {"scalar": 1, "dtype": "<f4"},
        {"float": "nan"},
        {"tuple": [{"list": [1.5]}]},
        {"dict": [["k", {"dtype": "<i8"}]]},
        {"random": random, "legacy": False},
        {"random": legacy, "legacy": True},
        {"named": "clusterica.optim:Step", "fields": {"params": 1, "objective": 2, "change": 3}},
        {"data": "clusterica.kernels:Gaussian", "fields": {"gamma": 0.5}},
    ]
    head = {"format": 2, "clusterica": "0.1.0", "sklearn": "1.9"}
    texts = [{**head, "summary": {"dict": [["a", value]]}} for value in values]
    for value in values:
        params = {**KMeans(2).get_params(), "random_state": value}
        model = {"estimator": "clusterica.cluster:KMeans", "params": params, "fitted": {"a_": 1}}
        texts.append({**head, "model": model})
    return [json.dumps(text).encode() for text in texts]


def loop() -> None:
    iterate(
        lambda x: Step(x + 1, float(x.sum()), 1.0), LoopState(0, np.zeros(2)), max_iter=3, tol=0.0
    )


def resume(content: bytes) -> None:
    if content[:1] == b"{":
        path = at("running/running-00000001.safetensors", sealed(content))
    else:
        path = at("done/done-00000000-00000001.safetensors", content)
    with clusterica.checkpoints(path.parent, every=1e9):
        loop()


def checkpoint_seeds() -> list[bytes]:
    with clusterica.checkpoints(folder("seeds"), every=0):
        loop()
    folder("running"), folder("done")
    _checkpoint._write_records = lambda path, records: None  # reading is tested here
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


# An ImportError says that a model holds tensors, where torch is not installed.
ERRORS = (ValueError,) if find_spec("torch") else (ValueError, ImportError)
TARGETS = {
    "model files": Target(load_file, model_seeds, CODE, ERRORS, PARSERS),
    "model contents": Target(load_contents, description_seeds, CODE, ERRORS, PARSERS),
    "checkpoints": Target(
        resume, checkpoint_seeds, (*CODE[1:], "clusterica.io._checkpoint"), ERRORS, PARSERS
    ),
}
