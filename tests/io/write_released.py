"""Write ``data/estimators-VERSION.safetensors``, at a release: all public estimators with their parameters.

A file of that version holds these parameters and no others. So the test of this file fails when a later
version adds a parameter without saying, in ``_in_older_files`` of its class, what versions before it did.
"""

import importlib
import inspect
import pkgutil
from pathlib import Path

from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

import clusterica


def public_estimators():
    """Return one of each public estimator, by name; the parameters without a default are empty lists."""
    found = {}
    for _, package, _ in pkgutil.iter_modules(clusterica.__path__, "clusterica."):
        module = importlib.import_module(package)
        for name in getattr(module, "__all__", ()):
            cls = getattr(module, name)
            if not inspect.isclass(cls) or inspect.isabstract(cls):
                continue
            if issubclass(cls, BaseEstimator):
                parameters = inspect.signature(cls).parameters.values()
                found[name] = cls(**{p.name: [] for p in parameters if p.default is p.empty})
    return found


if __name__ == "__main__":
    path = Path(__file__).parent / "data" / f"estimators-{clusterica.__version__}.safetensors"
    print(clusterica.save(Pipeline(list(public_estimators().items())), path))
