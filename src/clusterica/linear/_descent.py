"""L-BFGS on all targets of a head, ``p_k <- p_k - α_k H_k g_k``, until no objective can fall further."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from clusterica.arrays import namespace_of, to_host
from clusterica.arrays._namespace import Array
from clusterica.linear._solvers import Task
from clusterica.optim import LoopState, ManyLBFGS, Progress, iterate

LAST_DIGITS = 64  # precisions of the dtype: for float32, 8e-6 of the objective


class Descent(NamedTuple):
    """Where the functions ended, on the host but for the parameters; ``close``: at their minimum or not."""

    params: Array
    objective: np.ndarray
    gap: np.ndarray
    close: np.ndarray
    n_iter: int
    stopped: bool


def descend(
    lbfgs: ManyLBFGS, params: Array, task: Task, progress: Progress | None, precision: float
) -> Descent:
    """Step from the parameters until all functions are done, or the steps of the task are used up."""
    positions = lbfgs.start(params)
    done = bool(namespace_of(params).all(lbfgs.done(positions)))
    loop = LoopState(0, positions, converged=done)
    result = iterate(lbfgs.step, loop, max_iter=task.max_iter, tol=0.0, progress=progress)
    end = result.params
    gap, at_rest = to_host(end.gap), to_host(lbfgs.done(end))
    # Where no move lowers the objective any more, all the digits of the dtype are used up.
    close = (gap <= task.tol) | (at_rest & (gap <= LAST_DIGITS * precision))
    return Descent(
        end.params, to_host(end.values.objective), gap, close, result.n_iter, result.stopped
    )
