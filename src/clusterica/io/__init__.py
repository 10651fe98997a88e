"""Model files without code: safetensors for the arrays, JSON for the rest."""

from clusterica.io._model import load, load_summary, load_versions, save

__all__ = ["load", "load_summary", "load_versions", "save"]
