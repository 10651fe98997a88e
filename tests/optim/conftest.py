"""An estimator that can be watched, and one who watches it."""

import pytest
from sklearn.base import BaseEstimator
from sklearn.callback import CallbackSupportMixin, with_callbacks

from clusterica.optim import fit_progress


class Watched(CallbackSupportMixin, BaseEstimator):
    """Fits by calling a function with its progress."""

    def __init__(self, work=None, n_subtasks=0):
        self.work = work
        self.n_subtasks = n_subtasks

    @with_callbacks
    def fit(self, X=None, y=None):
        progress = fit_progress(self, self.n_subtasks, X=X, y=y)
        self.result_ = self.work(progress)
        progress.end()
        return self


class Watcher:
    """A callback of scikit-learn that writes down the tree of tasks, and may ask to stop."""

    def __init__(self, stop=lambda path: False):
        self.stop = stop
        self.events = []
        self.ended = []

    def setup(self, estimator, context):
        self.events.append("setup")

    def teardown(self, estimator, context):
        self.events.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.events.append(("begin", path_of(context)))

    def on_fit_task_end(self, estimator, context):
        path = path_of(context)
        self.events.append(("end", path))
        self.ended.append((path, context.max_subtasks))
        return self.stop(path)


class Judge(Watcher):
    """A callback that wants an estimator to evaluate at every end."""

    def __init__(self):
        super().__init__()
        self.models = []
        self.data = []

    def on_fit_task_end(self, estimator, context, *, X, y, fitted_estimator):
        self.models.append(fitted_estimator)
        self.data.append((X, y))


def path_of(context):
    """Return names and numbers of the tasks from the root down, such as fit/start0/iteration3."""
    if context.parent is None:
        return context.task_name
    return f"{path_of(context.parent)}/{context.task_name}{context.task_id}"


@pytest.fixture
def watcher():
    return Watcher


@pytest.fixture
def judge():
    return Judge()


@pytest.fixture
def watch():
    """A function that does the work under the eyes of a callback and returns its result."""

    def watch(work, callback, n_subtasks):
        return Watched(work, n_subtasks).set_callbacks(callback).fit("X", "y").result_

    return watch
