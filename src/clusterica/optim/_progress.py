"""Progress of a fit, reported to scikit-learn's callbacks as a tree: fit, its starts, their iterations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


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
    """

    def __init__(self, estimator: Any, context: Any, *, X: Any = None, y: Any = None) -> None:
        self._estimator = estimator
        self._context = context
        self._data = {"X": X, "y": y}
        context.call_on_fit_task_begin(estimator=estimator, **self._data)

    def subtask(self, name: str, n_subtasks: int = 0) -> Progress:
        """Begin a subtask, which has at most n_subtasks subtasks itself."""
        context = self._context.subcontext(task_name=name, max_subtasks=n_subtasks)
        return Progress(self._estimator, context, **self._data)

    @contextmanager
    def lend_to(self, estimator: Any, name: str) -> Iterator[None]:
        """Report the fit of another estimator inside the ``with`` block as a subtask.

        Callbacks that follow inner estimators, such as scikit-learn's ProgressBar, see it too.
        """
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
            estimator=self._estimator, reconstruction_attributes=fitted, **self._data
        )
        return stop


def fit_progress(estimator: Any, n_subtasks: int, *, X: Any = None, y: Any = None) -> Progress:
    """Begin the progress of a fit on X and y that has at most n_subtasks subtasks."""
    context = estimator._init_callback_context(max_subtasks=n_subtasks)
    return Progress(estimator, context, X=X, y=y)
