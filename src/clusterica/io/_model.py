"""One file for a fitted model: a safetensors file with its arrays, and JSON in its header for the rest.

It contains no code: loading creates estimators of clusterica and scikit-learn by name, and nothing else.
"""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from sklearn.base import BaseEstimator
from sklearn.exceptions import InconsistentVersionWarning

from clusterica.arrays import warn_user
from clusterica.io._values import Reader, Writer

_FORMAT = 1

_ALTERED = (
    "{path} is not a model file of clusterica, or it is truncated or damaged ({error}); copy it again, or "
    "write it again with clusterica.save"
)


def save(model: BaseEstimator, path: str | Path, *, summary: dict[str, Any] | None = None) -> Path:
    """Write a model, fitted or not, to a file.

    Parameters
    ----------
    model : estimator
        An estimator of clusterica, or a scikit-learn Pipeline. Estimators of scikit-learn can be saved if
        their attributes are numbers, strings and arrays.
    path : str or Path
        The file, usually ``NAME.safetensors``. An existing file is replaced when the new one is complete.
    summary : dict or None, default=None
        What should be known of the model besides: data, time, accuracy, examples. Numbers, strings, arrays,
        and lists and dicts of them. :func:`load_summary` returns it.

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
        raise TypeError(
            f"model is a {type(model).__name__}; save takes an estimator of clusterica or a Pipeline"
        )
    path = Path(path)
    writer = Writer()
    description = {
        "format": _FORMAT,
        "clusterica": clusterica.__version__,
        "sklearn": sklearn.__version__,
        "model": writer.write(model, type(model).__name__),
        "summary": writer.write(summary, "summary"),
    }
    # Not ascontiguousarray, which turns a scalar array into a vector.
    arrays = {name: np.asarray(a, order="C") for name, a in writer.arrays.items()}
    content = to_bytes(arrays, {"clusterica": json.dumps(description, ensure_ascii=False)})
    if path.is_dir() or not path.parent.is_dir():
        what = (
            "is a folder"
            if path.is_dir()
            else f"needs the folder {path.parent}, which does not exist"
        )
        raise OSError(f"{path} {what}; give the name of a file in a folder that exists")
    # Not tempfile, whose files only their owner can read: a model gets the usual permissions.
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
        Device for the tensors of the model, such as "cpu" or "cuda"; None uses the one they were saved on.

    Returns
    -------
    estimator
    """
    path = Path(path)
    description, arrays = _read_file(path)
    reader = Reader(arrays, device, source=str(path))
    try:
        model = reader.read(description["model"])
    except KeyError as error:
        raise ValueError(_ALTERED.format(path=path, error=f"{error} is missing")) from error
    if reader.of_sklearn - {"Pipeline"} and description["sklearn"] != sklearn.__version__:
        warn_user(
            InconsistentVersionWarning(
                estimator_name=", ".join(sorted(reader.of_sklearn)),
                current_sklearn_version=sklearn.__version__,
                original_sklearn_version=description["sklearn"],
            )
        )
    return model


def load_summary(path: str | Path) -> dict[str, Any] | None:
    """Read the summary that :func:`save` wrote beside a model, without the model.

    Parameters
    ----------
    path : str or Path
        The file.

    Returns
    -------
    dict or None
        None if the model was saved without a summary.
    """
    path = Path(path)
    description, arrays = _read_file(path)
    summary: dict[str, Any] | None = Reader(arrays, None, source=str(path)).read(
        description.get("summary")
    )
    return summary


def load_versions(path: str | Path) -> dict[str, str]:
    """Read which versions wrote a model file, without the model.

    Parameters
    ----------
    path : str or Path
        The file.

    Returns
    -------
    dict
        The versions of "clusterica" and "sklearn".
    """
    description, _ = _read_file(Path(path))
    return {name: str(description[name]) for name in ("clusterica", "sklearn")}


def _read_file(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the description of a model and its arrays."""
    from safetensors import SafetensorError, safe_open

    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the name of a model file")
    if not path.is_file():
        raise FileNotFoundError(f"there is no model file {path}")
    with path.open("rb"):
        pass  # raises a clear error if the file is not readable, which safetensors does not
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        description = json.loads(metadata.get("clusterica", "null"))
    except (SafetensorError, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(_ALTERED.format(path=path, error=error)) from error
    if not isinstance(description, dict):
        raise ValueError(f"{path} is a safetensors file, but it was not written by clusterica.save")
    if description.get("format") != _FORMAT:
        raise ValueError(
            f"{path} has format {description.get('format')!r}, written by clusterica "
            f"{description.get('clusterica')}; this version reads format {_FORMAT}: update clusterica"
        )
    return description, arrays
