"""Model files without code: safetensors for the arrays, JSON for the rest."""

from clusterica.io._model import load, save

__all__ = ["load", "save"]
