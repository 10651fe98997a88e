"""Symmetric fixed point of ICA: ``W <- polar((E[G'(y) yᵀ] - diag E[G''(y)]) W)`` for white z, ``y = W z``.

It rests where every ``E G(y_j)`` is a minimum or a maximum for its contrast G, and so finds sources that are
sparser than Gaussian ones and sources that are flatter.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from clusterica.arrays import Rows, map_reduce, to_host
from clusterica.ops.contrast import Contrast
from clusterica.ops.likelihood import LikelihoodSums, likelihood_sums
from clusterica.ops.linalg import polar_factor
from clusterica.optim import LoopResult, LoopState, Progress, Step, iterate


def symmetric_fixed_point(
    rows: Rows,
    start: np.ndarray,
    *,
    contrast: Contrast,
    max_iter: int,
    tol: float,
    whitening: np.ndarray | None = None,
    mean: np.ndarray | None = None,
    progress: Progress | None = None,
    fitted: Callable[[np.ndarray], dict[str, Any]] | None = None,
) -> LoopResult:
    """Return orthonormal directions of white rows, shape (n_dims, n_dims), whose responses are independent.

    Parameters
    ----------
    rows : Rows
        The rows x.
    start : ndarray of shape (n_dims, n_dims)
        Directions to begin with.
    contrast : callable
        ``y -> (G(y), G'(y), G''(y))``.
    max_iter : int
        Maximum number of iterations, each a walk over the rows.
    tol : float
        Ends when no direction turns by more than an angle with ``1 - cos`` of this.
    whitening, mean : ndarray of shape (n_dims, n_features) and (n_features,), optional
        ``z = whitening (x - mean)`` is white: of mean 0 and with ``E[z zᵀ] = I``. Without them the rows are.
    progress : Progress, optional
        Task of which the steps are parts.
    fitted : callable, optional
        From directions to fitted attributes, for callbacks.
    """
    whitening = np.eye(rows.n_features) if whitening is None else whitening
    mean = np.zeros(rows.n_features) if mean is None else mean
    step = partial(_step, rows=rows, whitening=whitening, mean=mean, contrast=contrast)
    state = LoopState(0, polar_factor(start))
    return iterate(step, state, max_iter=max_iter, tol=tol, progress=progress, fitted=fitted)


def _step(
    W: np.ndarray, *, rows: Rows, whitening: np.ndarray, mean: np.ndarray, contrast: Contrast
) -> Step:
    fn = partial(likelihood_sums, contrast=contrast)
    row_bytes = 7 * rows.n_features * rows.dtype.itemsize
    B, about = (np.asarray(a, dtype=rows.dtype) for a in (W @ whitening, mean))
    total = map_reduce(fn, rows, B, about, row_bytes=row_bytes)
    of = LikelihoodSums(*(to_host(value) / rows.n_rows for value in total))
    M = (of.gradient - np.diag(of.curvature)) @ W
    new = to_host(polar_factor(rows.place(M)))
    # A direction may change its sign from step to step, which is no move.
    change = float(np.abs(1 - np.abs((new * W).sum(axis=1))).max())
    return Step(new, float(of.value), change)
