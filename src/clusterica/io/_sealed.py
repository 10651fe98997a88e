"""A safetensors file with JSON in its header and a checksum over all of its bytes.

The JSON is a text in the metadata of the header, and begins with the checksum: the SHA-256 of the whole file,
with zeros where the checksum is written. So every byte is covered (the length of the header, names, shapes,
numbers), any reader of safetensors opens the file, and the same content gives the same file. A checksum there
needs no second file that can be lost, and no tensor that other readers would take for data.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np

from clusterica.files import write_file

# Stands for the checksum while it is computed: SHA-256 as hexadecimal digits.
_BLANK = "0" * 64


class ModelFileError(ValueError):
    """A file is not a model file or checkpoint, or it is truncated, damaged or of another version."""


def damaged(path: str | os.PathLike[str], reason: object) -> ModelFileError:
    """Return the error for a file that is not what was written."""
    return ModelFileError(
        f"{path} is not a model file of clusterica, or it is truncated or damaged ({reason}); copy it again, "
        "or write it again with clusterica.save"
    )


def write_sealed(path: Path, description: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Write JSON and arrays to a file, with a checksum, in one step."""
    from safetensors.numpy import save as to_bytes

    text = json.dumps({"sha256": _BLANK, **description}, ensure_ascii=False)
    # Not ascontiguousarray, which turns a scalar array into a vector.
    plain = {name: np.asarray(a, order="C") for name, a in arrays.items()}
    content = bytearray(to_bytes(plain, {"clusterica": text}))
    content[_place_of(content, _BLANK)] = hashlib.sha256(content).hexdigest().encode()
    write_file(path, bytes(content))


def read_sealed(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the JSON and the arrays of a file; raise ModelFileError if a bit of it has changed."""
    from safetensors.numpy import load as from_bytes

    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the name of a model file")
    if not path.is_file():
        raise FileNotFoundError(f"there is no model file {path}")
    content = bytearray(path.read_bytes())
    try:
        header = json.loads(bytes(_header(content)))
        # Other safetensors files have no such text.
        text = header.get("__metadata__", {}).get("clusterica")
        description = None if text is None else json.loads(text)
        if text is not None and not isinstance(description, dict):
            raise ValueError("its description is not a JSON object")
        if description is not None and "sha256" in description:
            claimed = str(description.pop("sha256"))
            content[_place_of(content, claimed)] = _BLANK.encode()
            found = hashlib.sha256(content).hexdigest()
            if found != claimed:
                raise damaged(path, f"its SHA-256 checksum is {found} in place of {claimed}")
            return description, from_bytes(bytes(content))
    except ModelFileError:
        raise
    # Whatever the readers of JSON and safetensors raise, MemoryError and RecursionError included.
    except Exception as error:
        raise damaged(path, f"{type(error).__name__}: {error}") from error
    if description is None:
        raise ModelFileError(
            f"{path} is a safetensors file, but it was not written by clusterica.save"
        )
    if description.get("format") == 1:
        raise ModelFileError(
            f"{path} has format 1, of versions before the first release, without a checksum; fit the model "
            "again and save it"
        )
    raise damaged(path, "its checksum is missing")


def _header(content: bytearray) -> memoryview:
    """Return the JSON header of a safetensors file, which follows its length in 8 bytes."""
    if len(content) < 8:
        raise ValueError("it is shorter than the header")
    (size,) = struct.unpack_from("<Q", content)
    if size > len(content) - 8:
        raise ValueError("it ends within the header")
    return memoryview(content)[8 : 8 + size]


def _place_of(content: bytearray, checksum: str) -> slice:
    """Return where in the file its checksum is written."""
    # In the header the description is a text, so that its own quotation marks are escaped.
    before, after = rb"{\"sha256\": \"", rb"\""
    header = bytes(_header(content))
    pattern = before + checksum.encode() + after
    if len(checksum) != len(_BLANK) or header.count(pattern) != 1:
        raise ValueError("its checksum is not where it should be")
    start = 8 + header.index(pattern) + len(before)
    return slice(start, start + len(_BLANK))
