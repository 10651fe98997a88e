"""The loop: parameters -> one step over all rows -> parameters, until they and the objective converge."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from sklearn.exceptions import ConvergenceWarning

from clusterica.arrays import warn_user
from clusterica.optim._progress import Progress


class Step(NamedTuple):
    """The result of one step: the next parameters, an objective, and how far it moved.

    The objective is that of the old parameters, or of the new ones if the step has computed it.
    ``change`` is the squared length of the move relative to that of the parameters.
    """

    params: Any
    objective: float
    change: float


class LoopState(NamedTuple):
    """State of a loop after ``n_iter`` steps; a loop can resume from it."""

    n_iter: int
    params: Any
    history: tuple[float, ...] = ()
    converged: bool = False


class LoopResult(NamedTuple):
    """The end of a loop, and why it ended: converged, stopped by a callback, or neither (max_iter)."""

    params: Any
    history: tuple[float, ...]
    n_iter: int
    converged: bool
    stopped: bool

    def warn_if_unfinished(self, estimator: Any, advice: str = "raise max_iter or tol") -> None:
        """Warn if the loop neither converged nor was stopped by a callback."""
        if not (self.converged or self.stopped):
            warn_user(
                f"{type(estimator).__name__} did not converge in {self.n_iter} iterations; {advice}",
                ConvergenceWarning,
            )


def iterate(
    step: Callable[[Any], Step],
    start: LoopState,
    *,
    max_iter: int,
    tol: float,
    progress: Progress | None = None,
    fitted: Callable[[Any], dict[str, Any]] | None = None,
    hook: Callable[[LoopState], None] | None = None,
) -> LoopResult:
    """Repeat a step until it converges.

    Parameters
    ----------
    step : callable
        Takes the parameters, returns a :class:`Step`.
    start : LoopState
        Initial parameters; ``n_iter > 0`` resumes an earlier loop.
    max_iter : int
        Maximum number of iterations, including those of a resumed loop.
    tol : float
        The loop has converged when the relative change of the objective and that of the parameters
        are both at most tol, or when a step changes nothing.
    progress : Progress, optional
        Task of this loop; every iteration is reported to it, and a callback may stop the loop.
    fitted : callable, optional
        From the parameters to fitted attributes, for callbacks that need a fitted estimator.
    hook : callable, optional
        Called with the LoopState after every step, for checkpoints.
    """
    params, history, n_iter = start.params, list(start.history), start.n_iter
    converged, stopped = start.converged, False
    while n_iter < max_iter and not (converged or stopped):
        task = progress.subtask("iteration") if progress is not None else None
        result = step(params)
        params, n_iter = result.params, n_iter + 1
        history.append(result.objective)
        converged = result.change == 0 or (result.change <= tol and _is_flat(history, tol))
        if hook is not None:
            hook(LoopState(n_iter, params, tuple(history), converged))
        if task is not None:
            # A partial, not a lambda: it keeps the parameters of this iteration.
            stopped = task.end(None if fitted is None else partial(fitted, params))
    return LoopResult(params, tuple(history), n_iter, converged, stopped)


def _is_flat(history: list[float], tol: float) -> bool:
    """Whether the objective changed by at most tol of its size in the last step."""
    return len(history) > 1 and abs(history[-1] - history[-2]) <= tol * abs(history[-1])
