"""Model files that are changed on purpose."""

import hashlib
import json
import struct

import pytest


@pytest.fixture
def rewritten():
    """A function that changes the JSON of a model file, and gives it the right checksum."""
    return rewrite


def rewrite(path, change):
    content = path.read_bytes()
    (size,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + size])
    description = json.loads(header["__metadata__"]["clusterica"])
    change(description)
    description.pop("sha256", None)
    header["__metadata__"]["clusterica"] = json.dumps({"sha256": "0" * 64, **description})
    text = json.dumps(header).encode()
    content = struct.pack("<Q", len(text)) + text + content[8 + size :]
    digest = hashlib.sha256(content).hexdigest().encode()
    path.write_bytes(content.replace(b"0" * 64, digest, 1))
    return path
