"""The time and the memory of a fit: counted work divided by measured rates, without touching data.

``time = products / rate of products + (bytes read + bytes made on the way) / bandwidth``
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from clusterica.arrays import MOST_ROWS, active_config
from clusterica.planning._costs import COSTS, Size, image_features
from clusterica.planning._machine import measure


@dataclass(frozen=True)
class Estimate:
    """What a run takes, as :func:`clusterica.estimate` returns it."""

    seconds: float
    """Time, with all cores of this machine or its GPU, if the data comes as fast as from memory."""
    memory: int
    """Peak memory in bytes, beside the data: blocks, samples, results and parameters."""
    bytes_read: int
    """Bytes of the data that are read, over all passes."""
    operations: float
    """Operations in matrix products."""
    n_iter: int
    """Iterations that were assumed."""
    title: str
    """Estimator, method, shape, dtype and device."""

    def __str__(self) -> str:
        """Return a table, a line for each quantity."""
        units = (("days", 86400), ("hours", 3600), ("minutes", 60), ("seconds", 1))
        unit, length = next((u for u in units if self.seconds >= 2 * u[1]), units[-1])
        time = f"{self.seconds / length:{'.2g' if length == 1 else '.1f'}} {unit}"
        iterations = f" for {self.n_iter} iterations" if self.n_iter > 1 else ""
        return (
            f"{self.title}\n"
            f"  time        {time}{iterations}\n"
            f"  memory      {_amount(self.memory)} beside the data\n"
            f"  read        {_amount(self.bytes_read)}\n"
            f"  operations  {self.operations:.2g}"
        )

    __repr__ = __str__


def estimate(
    estimator: BaseEstimator,
    shape: tuple[int, ...],
    *,
    method: str = "fit",
    n_iter: int | None = None,
    n_classes: int = 10,
    dtype: Any = "float32",
    device: str = "cpu",
) -> Estimate:
    """Estimate the time and the memory of a run from its size, without data.

    The first call for a device and a dtype measures, in a fraction of a second, how fast it multiplies and
    moves numbers. Expect the time to be right within a factor of three.

    Parameters
    ----------
    estimator : estimator
        KMeans and the other K-means estimators, Whitener, ClusterICA, RICA, LinearSVC or ImageFeatures,
        with its parameters set.
    shape : tuple of int
        Shape of X: (n_samples, n_features), or (n_images, height, width, channels).
    method : {"fit", "transform"}, default="fit"
        What is run; "transform" stands for ``predict`` and ``decision_function`` as well.
    n_iter : int or None, default=None
        Iterations of the fit, of one fit for ``C="auto"``; None takes ``max_iter`` of the estimator, the most
        that there can be.
    n_classes : int, default=10
        Number of classes, for classifiers.
    dtype : dtype, default="float32"
        Of the data: "float32" or "float64".
    device : str, default="cpu"
        Where the work is done: "cpu", or a torch device such as "cuda".

    Returns
    -------
    Estimate
        With ``seconds``, ``memory``, ``bytes_read`` and ``operations``.

    Examples
    --------
    >>> import clusterica
    >>> from clusterica.cluster import KMeans
    >>> plan = clusterica.estimate(KMeans(1600, max_iter=10), (400_000, 108))
    >>> plan.operations > 2 * 400_000 * 108 * 1600 * 10
    True
    """
    name = type(estimator).__name__
    # The formula of the nearest base class: a subclass does the same work.
    known = (COSTS[c.__name__] for c in type(estimator).__mro__ if c.__name__ in COSTS)
    cost = next(known, None)
    if cost is None:
        raise TypeError(
            f"there is no cost formula for {name}; there is one for the K-means family, "
            f"{', '.join(list(COSTS)[1:])}"
        )
    # Grey images may come without an axis of channels.
    n_dims = (3, 4) if cost is image_features else (2,)
    if len(shape) not in n_dims or min(shape) < 1:
        wanted = "(n_images, height, width, channels)" if 4 in n_dims else "(n_samples, n_features)"
        raise ValueError(f"shape={shape!r} must be {wanted}, all positive")
    if method not in ("fit", "transform"):
        raise ValueError(f"method={method!r} must be 'fit' or 'transform'")
    dtype = np.dtype(dtype)
    if dtype not in (np.float32, np.float64):
        raise ValueError(
            f"dtype={dtype.name!r} must be 'float32' or 'float64', in which work is done"
        )
    if n_iter is None:
        learner = getattr(estimator, "learner", estimator)
        # ImageFeatures learns by 20 iterations unless it is given a learner.
        n_iter = 20 if isinstance(learner, str) else getattr(learner, "max_iter", 1)
    n_iter = n_iter if method == "fit" else 1
    on_host = device == "cpu"
    work = cost(estimator, Size(tuple(shape), n_iter, n_classes, method, on_host))
    machine = measure(device, dtype.name)
    data = float(np.prod(shape)) * dtype.itemsize
    made = work.numbers * dtype.itemsize
    # Blocks hold no more than the data, and two arrays of the width of the op for each row. On the host there
    # is one for each thread, and one that waits.
    config = active_config()
    n_rows = min(shape[0], (config.n_threads + 1) * MOST_ROWS) if on_host else shape[0]
    rows = n_rows / shape[0] * data + 2.0 * n_rows * work.width * dtype.itemsize
    return Estimate(
        seconds=work.products / machine.products + (work.passes * data + made) / machine.bandwidth,
        memory=int(min(config.memory, rows) + work.kept * dtype.itemsize),
        bytes_read=int(work.passes * data),
        operations=work.products,
        n_iter=n_iter,
        title=f"{name}.{method} of {' x '.join(f'{s:,}' for s in shape)} {dtype.name} on {device}",
    )


def _amount(n_bytes: float) -> str:
    for unit, power in (("TiB", 40), ("GiB", 30), ("MiB", 20)):
        if n_bytes >= 2**power:
            return f"{n_bytes / 2**power:.1f} {unit}"
    return f"{n_bytes / 2**10:.1f} KiB"
