"""Model files and checkpoints without code: safetensors for the arrays, JSON for the rest."""

from clusterica.io._checkpoint import checkpoints
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
]
