"""One file for a fitted model: a safetensors file with its arrays, and JSON in its header for the rest.

It contains no code: loading creates estimators of clusterica and scikit-learn by name, and nothing else.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import sklearn
from sklearn.base import BaseEstimator
from sklearn.exceptions import InconsistentVersionWarning

from clusterica.arrays import warn_user
from clusterica.io._move import to_device
from clusterica.io._sealed import ModelFileError, damaged, read_sealed, write_sealed
from clusterica.io._values import Reader, Writer

# Raised when files of older versions can no longer be read. 2 added the checksum.
_FORMAT = 2


def save(model: BaseEstimator, path: str | Path, *, summary: dict[str, Any] | None = None) -> Path:
    """Write a model, fitted or not, to a file.

    Parameters
    ----------
    model : estimator
        An estimator of clusterica, or a scikit-learn Pipeline. Estimators of scikit-learn can be saved if
        their attributes are numbers, strings and arrays.
    path : str or Path
        The file, usually ``NAME.safetensors``. An existing file is replaced when the new one is complete and
        on the disk; it keeps its permissions, and a symbolic link stays one.
    summary : dict or None, default=None
        What should be known of the model besides: data, time, accuracy, examples. Numbers, strings, arrays,
        and lists and dicts of them. :func:`clusterica.io.load_summary` returns it.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    TypeError
        If the model holds something that can't be stored without code, such as a function.
    OSError
        If the file can't be written; an older one is then unchanged.

    Notes
    -----
    The file is a safetensors file with a SHA-256 checksum of all its bytes, which
    :func:`clusterica.load` verifies.

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
    write_sealed(path, description, writer.arrays)
    return path


def load(path: str | Path, *, device: str | None = None) -> Any:
    """Read a model that :func:`clusterica.save` wrote.

    Parameters
    ----------
    path : str or Path
        The file.
    device : str or None, default=None
        Where the model is to take data: "cuda" or another torch device, to which its learned arrays are moved
        as by :func:`clusterica.to_device`; "cpu", which moves tensors only, since models of NumPy arrays take
        CPU tensors as well; or "numpy" for NumPy arrays. None uses what it was saved with.

    Returns
    -------
    estimator

    Raises
    ------
    clusterica.io.ModelFileError
        A ValueError: the file is not a model file, or is truncated, damaged or of another version. Its
        checksum finds every changed bit.
    OSError
        If there is no such file, or it can't be read.
    ImportError
        If the model holds tensors and PyTorch is not installed.
    ValueError
        If the model's device can't be used here.
    """
    path = Path(path)
    model, reader, versions = _read(path, "model", device)
    if not isinstance(model, BaseEstimator):
        raise damaged(path, f"it holds a {type(model).__name__} in place of an estimator")
    # Models of NumPy arrays take CPU tensors as they are.
    if device not in (None, "cpu"):
        model = to_device(model, device)
    # A Pipeline has learned nothing itself; attributes of other estimators may change from version to
    # version.
    if reader.of_sklearn - {"Pipeline"} and versions["sklearn"] != sklearn.__version__:
        warn_user(
            InconsistentVersionWarning(
                estimator_name=", ".join(sorted(reader.of_sklearn)),
                current_sklearn_version=sklearn.__version__,
                original_sklearn_version=versions["sklearn"],
            )
        )
    return model


def load_summary(path: str | Path) -> dict[str, Any] | None:
    """Read the summary that :func:`clusterica.save` wrote beside a model, without the model.

    Parameters
    ----------
    path : str or Path
        The file.

    Returns
    -------
    dict or None
        None if the model was saved without a summary.

    Raises
    ------
    clusterica.io.ModelFileError, OSError, ImportError
        As :func:`clusterica.load` does.
    """
    path = Path(path)
    summary, _, _ = _read(path, "summary", None)
    if not isinstance(summary, dict | None):
        raise damaged(path, f"its summary is a {type(summary).__name__}")
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

    Raises
    ------
    clusterica.io.ModelFileError, OSError, ImportError
        As :func:`clusterica.load` does.
    """
    # The summary is read along with them: it is small beside the model.
    _, _, versions = _read(Path(path), "summary", None)
    return versions


def _read(path: Path, part: str, device: str | None) -> tuple[Any, Reader, dict[str, str]]:
    """Return the model or the summary in a file, what read it, and the versions that wrote it."""
    description, arrays = read_sealed(path)
    versions = {name: str(description.get(name)) for name in ("clusterica", "sklearn")}
    if description.get("format") != _FORMAT:
        raise ModelFileError(
            f"{path} has format {description.get('format')!r:.20}, written by clusterica "
            f"{versions['clusterica']}; this version reads format {_FORMAT}: update clusterica"
        )
    if part not in description:
        raise damaged(path, f"{part!r} is missing")
    # Tensors that are to be NumPy arrays come by way of the CPU.
    reader = Reader(arrays, "cpu" if device == "numpy" else device, source=str(path))
    return reader.read_all(description[part]), reader, versions
