"""The loop: parameters -> one step over all rows -> parameters, until they and the objective converge.

Progress goes to scikit-learn's callbacks as a tree (a fit, its starts, their iterations), and a callback may
stop the loop. Of several starts, :func:`best_of` keeps the best. A recorder that is set for the context, as
``clusterica.checkpoints`` does, keeps the state of every loop and can resume it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from clusterica.arrays import warn_user

Result = TypeVar("Result")


class Progress:
    """One task of a fit; its subtasks are reported to the estimator's callbacks as they end.

    Parameters
    ----------
    estimator : estimator with callback support
        Passed on to the callbacks.
    context : sklearn.callback.CallbackContext
        The task's place in the tree.
    X, y : data of the fit
        Passed on to callbacks that ask for them, such as scikit-learn's ScoringMonitor.
    sample_weight : weights of the fit
        Not for callbacks: a checkpoint compares all three, to resume the same fit only.
    """

    def __init__(
        self,
        estimator: Any,
        context: Any,
        *,
        X: Any = None,
        y: Any = None,
        sample_weight: Any = None,
    ) -> None:
        self.estimator = estimator
        self._context = context
        self.has_parts = context.max_subtasks != 0  # otherwise its iterations are not reported
        self.data = {"X": X, "y": y, "sample_weight": sample_weight}
        # Of a recorder, on the data of this fit; subtasks share them.
        self.notes: dict[str, Any] = {}
        context.call_on_fit_task_begin(estimator=estimator, X=X, y=y)

    def subtask(self, name: str, n_subtasks: int = 0) -> Progress:
        """Begin a subtask, which has at most n_subtasks subtasks itself."""
        context = self._context.subcontext(task_name=name, max_subtasks=n_subtasks)
        part = Progress(self.estimator, context, **self.data)
        part.notes = self.notes
        return part

    @contextmanager
    def lend_to(self, estimator: Any, name: str) -> Iterator[None]:
        """Report the fit of another estimator inside the ``with`` block as a subtask.

        Callbacks that follow inner estimators, such as scikit-learn's ProgressBar, see it too.
        """
        # An estimator that reports no progress of its own.
        if not hasattr(estimator, "set_callbacks"):
            task = self.subtask(name)
            yield
            task.end()
            return
        context = self._context.subcontext(task_name=name, max_subtasks=0)
        with context.propagate_callback_context(estimator):
            yield

    def end(self, fitted: Callable[[], dict[str, Any]] | None = None) -> bool:
        """End this task and return whether a callback requests to stop.

        ``fitted`` returns the attributes that make a copy of the estimator ready to predict; it is called
        only if a callback needs such a copy.
        """
        stop: bool = self._context.call_on_fit_task_end(
            estimator=self.estimator,
            X=self.data["X"],
            y=self.data["y"],
            reconstruction_attributes=fitted,
        )
        return stop


def fit_progress(
    estimator: Any, n_subtasks: int, *, X: Any = None, y: Any = None, sample_weight: Any = None
) -> Progress:
    """Begin the progress of a fit on X and y that has at most n_subtasks subtasks."""
    context = estimator._init_callback_context(max_subtasks=n_subtasks)
    return Progress(estimator, context, X=X, y=y, sample_weight=sample_weight)


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


class Stored(NamedTuple):
    """How a checkpoint stores the parameters of a loop, with what its steps change besides them."""

    pack: Callable[[Any], Any]
    """From the parameters to numbers, arrays and named tuples, such as the state of a generator as well."""
    unpack: Callable[[Any], Any]
    """From these to the parameters; sets what was stored besides."""


def stored_with(seen: list[Any]) -> Stored:
    """Store the parameters of a loop together with a list that its hook appends to."""

    def unpack(packed: Any) -> Any:
        params, seen[:] = packed
        return params

    return Stored(lambda params: (params, list(seen)), unpack)


def stored_draws(rng: np.random.Generator) -> Stored:
    """Store the parameters of a loop together with the generator that its steps draw from."""

    def unpack(packed: Any) -> Any:
        params, rng.bit_generator.state = packed
        return params

    return Stored(lambda params: (params, rng.bit_generator.state), unpack)


class Recorder(Protocol):
    """Runs loops, keeps their states, and resumes those that it has a state of."""

    def record(
        self,
        run: Callable[[LoopState, Callable[[LoopState], None]], LoopResult],
        start: LoopState,
        *,
        hook: Callable[[LoopState], None] | None,
        stored: Stored | None,
        progress: Progress | None,
        limits: tuple[int, float],
    ) -> LoopResult:
        """Return ``run(state, hook)`` from the start or from a later state of the same loop."""


recorder: ContextVar[Recorder | None] = ContextVar("clusterica_recorder", default=None)


def iterate(
    step: Callable[[Any], Step],
    start: LoopState,
    *,
    max_iter: int,
    tol: float,
    progress: Progress | None = None,
    fitted: Callable[[Any], dict[str, Any]] | None = None,
    hook: Callable[[LoopState], None] | None = None,
    stored: Stored | None = None,
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
        Task of this loop; every iteration is reported to it if it has parts, and a callback may stop the
        loop.
    fitted : callable, optional
        From the parameters to fitted attributes, for callbacks that need a fitted estimator.
    hook : callable, optional
        Called with the LoopState after every step.
    stored : Stored, optional
        For checkpoints, where a step changes more than the parameters or they hold more than arrays.
    """

    def run(state: LoopState, hook: Callable[[LoopState], None] | None) -> LoopResult:
        params, history, n_iter = state.params, list(state.history), state.n_iter
        # A loop that had converged when it was stored does nothing any more.
        converged, stopped = state.converged, False
        while n_iter < max_iter and not (converged or stopped):
            reporting = None if progress is None or not progress.has_parts else progress
            task = None if reporting is None else reporting.subtask("iteration")
            last = history[-1] if history else math.inf
            result = step(params)
            params, n_iter = result.params, n_iter + 1
            history.append(result.objective)
            # Both must be small: along a flat valley the objective stands still while the parameters move.
            flat = abs(result.objective - last) <= tol * abs(result.objective)
            converged = result.change == 0 or (result.change <= tol and flat)
            if hook is not None:
                hook(LoopState(n_iter, params, tuple(history), converged))
            if task is not None:
                # A partial, not a lambda: it keeps the parameters of this iteration.
                stopped = task.end(None if fitted is None else partial(fitted, params))
        return LoopResult(params, tuple(history), n_iter, converged, stopped)

    keeper = recorder.get()
    if keeper is None:
        return run(start, hook)
    limits = max_iter, tol
    return keeper.record(run, start, hook=hook, stored=stored, progress=progress, limits=limits)


def best_of(
    run: Callable[[Progress], Result],
    n_init: int,
    *,
    objective: Callable[[Result], float],
    n_subtasks: int,
    progress: Progress,
) -> Result:
    """Run n_init times and keep the result with the largest objective (the first of equals).

    Parameters
    ----------
    run : callable
        Takes the progress task of a start and returns a result.
    n_init : int
        Number of starts. A callback may stop after any of them.
    objective : callable
        From a result to the number that is maximised.
    n_subtasks : int
        Maximum number of subtasks of a start, for the progress bar.
    progress : Progress
        Task of the fit; every start is a subtask of it.
    """
    best, most = None, -math.inf
    for _ in range(n_init):
        task = progress.subtask("start", n_subtasks)
        result = run(task)
        value = objective(result) if n_init > 1 else 0.0  # it may cost a pass over the data
        # A NaN compares as false with everything: any other result replaces it.
        if best is None or value > most or math.isnan(most):
            best, most = result, value
        if task.end():
            break
    assert best is not None  # n_init is at least 1
    return best
