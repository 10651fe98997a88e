"""Features from unlabeled data, by the methods in which clustering and ICA are two sides of one thing."""

from importlib.metadata import version as _version

from clusterica.arrays import config_context, get_config, set_config
from clusterica.io import load, save

__version__ = _version("clusterica")

__all__ = ["__version__", "config_context", "get_config", "load", "save", "set_config"]
