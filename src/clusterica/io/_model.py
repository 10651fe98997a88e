"""One file for a fitted model: a safetensors file with its arrays, and JSON in its header for the rest.

Nothing in it is code: opening one builds estimators of clusterica and scikit-learn by name, and no others.
"""

from __future__ import annotations

import json
import secrets
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from sklearn.base import BaseEstimator
from sklearn.exceptions import InconsistentVersionWarning

from clusterica.io._values import Reader, Writer

_FORMAT = 1

_ALTERED = (
    "{path} is not a model file of clusterica, or it was cut short or altered ({error}); copy it again, or "
    "write it anew with clusterica.save"
)


def save(model: BaseEstimator, path: str | Path) -> Path:
    """Write a model, fitted or not, to a file.

    Parameters
    ----------
    model : estimator
        One of clusterica, or a scikit-learn Pipeline of such; estimators of scikit-learn inside it are
        taken if their attributes are numbers, strings and arrays.
    path : str or Path
        The file, usually ``NAME.safetensors``. It is replaced at once when all is written, so that a
        failure leaves an older one as it was.

    Returns
    -------
    Path
        The file.

    Examples
    --------
    >>> import tempfile, clusterica
    >>> from clusterica.preprocessing import Whitener
    >>> whitener = Whitener().fit([[0.0, 1.0], [2.0, 0.0], [1.0, 3.0]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = clusterica.save(whitener, f"{folder}/whitener.safetensors")
    ...     again = clusterica.load(path)
    >>> (again.whitening_ == whitener.whitening_).all()
    np.True_
    """
    from safetensors.numpy import save as to_bytes

    import clusterica

    if not isinstance(model, BaseEstimator):
        raise TypeError(f"save takes an estimator, and got {type(model).__name__}")
    path = Path(path)
    writer = Writer()
    description = {
        "format": _FORMAT,
        "clusterica": clusterica.__version__,
        "sklearn": sklearn.__version__,
        "model": writer.write(model, type(model).__name__),
    }
    # Not by ascontiguousarray, which makes a vector of a number.
    arrays = {name: np.asarray(a, order="C") for name, a in writer.arrays.items()}
    content = to_bytes(arrays, {"clusterica": json.dumps(description, ensure_ascii=False)})
    if path.is_dir() or not path.parent.is_dir():
        what = (
            "is a folder"
            if path.is_dir()
            else f"needs the folder {path.parent}, which is not there"
        )
        raise OSError(f"{path} {what}; give the name of a file in a folder that exists")
    # Not a file of tempfile: those are closed to other users, as the model need not be.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with temporary.open("xb") as file:
            file.write(content)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return path


def load(path: str | Path, *, device: str | None = None) -> Any:
    """Read a model that :func:`save` wrote.

    Parameters
    ----------
    path : str or Path
        The file.
    device : str or None, default=None
        Where tensors of the model go, such as "cpu" or "cuda"; None is where they were.

    Returns
    -------
    estimator
    """
    from safetensors import SafetensorError, safe_open

    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the name of a model file")
    if not path.is_file():
        raise FileNotFoundError(f"there is no model file {path}")
    with path.open("rb"):
        pass  # says whether it may be read, which safetensors does not
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        description = json.loads(metadata.get("clusterica", "null"))
    except (SafetensorError, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(_ALTERED.format(path=path, error=error)) from error
    if not isinstance(description, dict):
        raise ValueError(f"{path} is a safetensors file, but no model that clusterica.save wrote")
    if description.get("format") != _FORMAT:
        raise ValueError(
            f"{path} has format {description.get('format')!r}, written by clusterica "
            f"{description.get('clusterica')}; this version reads format {_FORMAT}: update clusterica"
        )
    reader = Reader(arrays, device, source=str(path))
    try:
        model = reader.read(description["model"])
    except KeyError as error:
        raise ValueError(_ALTERED.format(path=path, error=f"{error} is missing")) from error
    if reader.of_sklearn - {"Pipeline"} and description["sklearn"] != sklearn.__version__:
        warnings.warn(
            InconsistentVersionWarning(
                estimator_name=", ".join(sorted(reader.of_sklearn)),
                current_sklearn_version=sklearn.__version__,
                original_sklearn_version=description["sklearn"],
            ),
            stacklevel=2,
        )
    return model
