"""Model files without code: safetensors for the arrays, JSON for the rest."""

from clusterica.io._model import load, load_summary, save
from clusterica.io._sealed import ModelFileError

__all__ = ["ModelFileError", "load", "load_summary", "save"]
