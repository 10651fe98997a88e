"""Feature learning from unlabeled data, by clustering and independent component analysis (ICA)."""

from importlib import import_module as _import_module
from importlib.metadata import version as _version
from typing import Any as _Any

from clusterica.arrays import config_context, describe_kernels, get_config, set_config
from clusterica.io import checkpoints, load, save, to_device
from clusterica.planning import estimate

__version__ = _version("clusterica")

__all__ = [
    "__version__",
    "checkpoints",
    "config_context",
    "describe_kernels",
    "estimate",
    "get_config",
    "load",
    "save",
    "set_config",
    "to_device",
]

_SUBMODULES = (
    "cluster",
    "contrasts",
    "datasets",
    "dictionaries",
    "display",
    "encoders",
    "experiments",
    "ica",
    "images",
    "kernels",
    "linear",
    "metrics",
    "networks",
    "preprocessing",
    "report",
    "rica",
)


def __getattr__(name: str) -> _Any:
    # Imported at first use, so that `import clusterica` stays fast.
    if name in _SUBMODULES:
        return _import_module(f"clusterica.{name}")
    raise AttributeError(f"module 'clusterica' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_SUBMODULES})
