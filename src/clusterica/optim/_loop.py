"""The loop: parameters -> one step over all rows -> parameters, until both they and the objective rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from sklearn.exceptions import ConvergenceWarning

from clusterica.arrays import warn_user
from clusterica.optim._progress import Progress


class Step(NamedTuple):
    """What one step gives: the next parameters, an objective, how far it moved.

    The objective is that of the old parameters, or of the new ones where the step knows it anyway.
    ``change`` is the squared length of the move relative to that of the parameters.
    """

    params: Any
    objective: float
    change: float


class LoopState(NamedTuple):
    """Where a loop stands after ``n_iter`` steps; a loop can start again from it."""

    n_iter: int
    params: Any
    history: tuple[float, ...] = ()
    converged: bool = False


class LoopResult(NamedTuple):
    """Where a loop ended, and why: converged, or stopped by a callback, or neither (max_iter)."""

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
        Parameters to begin with; one with ``n_iter > 0`` continues an earlier loop.
    max_iter : int
        Maximum number of iterations, those before the start counted in.
    tol : float
        The loop has converged when the relative change of the objective and that of the parameters
        are both at most tol, or when a step changes nothing.
    progress : Progress, optional
        Task of this loop; every step is reported as one part of it, and may ask to stop.
    fitted : callable, optional
        From the parameters to fitted attributes, for callbacks that want an estimator to evaluate.
    hook : callable, optional
        Called with the LoopState after every step: the place where checkpoints are written.
    """
    params, history, n_iter = start.params, list(start.history), start.n_iter
    converged, stopped = start.converged, False
    while n_iter < max_iter and not (converged or stopped):
        task = progress.subtask("iteration") if progress is not None else None
        result = step(params)
        params, n_iter = result.params, n_iter + 1
        history.append(result.objective)
        converged = result.change == 0 or (result.change <= tol and _rests(history, tol))
        if hook is not None:
            hook(LoopState(n_iter, params, tuple(history), converged))
        if task is not None:
            attributes = None if fitted is None else _later(fitted, params)
            stopped = task.end(attributes)
    return LoopResult(params, tuple(history), n_iter, converged, stopped)


def _rests(history: list[float], tol: float) -> bool:
    """Whether the objective changed by at most tol of its size in the last step."""
    return len(history) > 1 and abs(history[-1] - history[-2]) <= tol * abs(history[-1])


def _later(fitted: Callable[[Any], dict[str, Any]], params: Any) -> Callable[[], dict[str, Any]]:
    return lambda: fitted(params)
