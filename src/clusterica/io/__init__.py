"""Model files and checkpoints without code (safetensors and JSON), and export to torch."""

from clusterica.io._checkpoint import checkpoints
from clusterica.io._export import to_torch
from clusterica.io._model import load, load_summary, load_versions, save
from clusterica.io._move import to_device
from clusterica.io._sealed import ModelFileError

__all__ = [
    "ModelFileError",
    "checkpoints",
    "load",
    "load_summary",
    "load_versions",
    "save",
    "to_device",
    "to_torch",
]
