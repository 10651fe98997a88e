"""Move a fitted model between NumPy and the devices of PyTorch."""

from __future__ import annotations

import copy
from typing import Any

import array_api_compat
import numpy as np
from sklearn.base import BaseEstimator

from clusterica.arrays import on_torch_device, to_host


def to_device(estimator: BaseEstimator, device: str) -> Any:
    """Return a copy of a fitted estimator whose learned arrays are on a device.

    The copy then takes data of that device. The estimator itself stays as it is.

    Parameters
    ----------
    estimator : estimator
        A fitted estimator of clusterica, or a scikit-learn Pipeline of them.
    device : str
        "numpy" for NumPy arrays, or a torch device such as "cpu" or "cuda" for tensors.

    Returns
    -------
    estimator
        The arrays that a fit on data of that device would have there are moved. The rest, such as classes,
        scores and objectives, stays NumPy.

    Raises
    ------
    ImportError
        If PyTorch is needed and not installed.
    ValueError
        If the device can't be used.

    Examples
    --------
    >>> import clusterica
    >>> from clusterica.preprocessing import Whitener
    >>> whitener = Whitener().fit([[0.0, 1.0], [2.0, 0.0], [1.0, 3.0]])
    >>> type(clusterica.to_device(whitener, "numpy").mean_).__name__
    'ndarray'
    """
    if not isinstance(estimator, BaseEstimator):
        raise TypeError(f"to_device takes an estimator, and got a {type(estimator).__name__}")
    if device != "numpy":
        on_torch_device(np.empty(0), device)  # says at once what is missing
    return _moved(estimator, device)


# Learners keep these in host memory, wherever the data is.
_OF_THE_FIT = (
    "activity_",
    "decisions_",
    "dependency_",
    "gap_",
    "history_",
    "objective_",
    "objectives_",
    "path_",
    "scores_",
)


def _moved(value: Any, device: str, *, kinds: str = "f") -> Any:
    """Return a value with its arrays of these kinds on the device."""
    if isinstance(value, BaseEstimator):
        found = copy.copy(value)
        params = value.get_params(deep=False)
        # Parameters are what the user gave; the steps of a Pipeline are its fitted estimators.
        for name, held in vars(value).items():
            if (name not in params and not name.endswith(_OF_THE_FIT)) or name == "steps":
                # Labels and counts are the integers that follow the data; all others stay.
                is_count = name in ("labels_", "counts_")
                setattr(found, name, _moved(held, device, kinds="iuf" if is_count else "f"))
        return found
    if type(value) in (list, tuple):
        return type(value)(_moved(item, device) for item in value)
    if array_api_compat.is_torch_array(value):
        return np.array(to_host(value)) if device == "numpy" else value.detach().to(device)
    if isinstance(value, np.ndarray) and value.dtype.kind in kinds and device != "numpy":
        return on_torch_device(value.copy(), device)
    return value
