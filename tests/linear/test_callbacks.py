"""Callbacks of scikit-learn see every solve and its iterations, and can stop a fit."""

import pytest

from clusterica.linear import LinearSVC
from clusterica.linear._principal import PrincipalSolver


class Watcher:
    """Writes down the tasks that end, and asks to stop where told."""

    def __init__(self, stop_at=None):
        self.stop_at, self.ended = stop_at, []

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context):
        self.ended.append(context.task_name)
        return self.stop_at is not None and self.ended.count("iteration") >= self.stop_at


def test_iterations_are_reported(tall):
    watcher = Watcher()
    model = LinearSVC(C=10.0).set_callbacks(watcher).fit(*tall)
    assert watcher.ended == ["iteration"] * model.n_iter_ + ["strength", "fit"]


def test_every_strength_is_reported(tall):
    watcher = Watcher()
    model = LinearSVC(random_state=0).set_callbacks(watcher).fit(*tall)
    assert watcher.ended.count("strength") == 5 * len(model.C_path_) + 1


def test_stopped_by_a_callback(tall):
    """No warning: it was asked for."""
    watcher = Watcher(stop_at=3)
    model = LinearSVC(C=1000.0).set_callbacks(watcher).fit(*tall)
    assert model.n_iter_ == 3
    assert not model.converged_


def test_search_stopped_by_a_callback(tall):
    watcher = Watcher(stop_at=3)
    model = LinearSVC(random_state=0).set_callbacks(watcher).fit(*tall)
    assert watcher.ended.count("strength") == 2
    assert model.C_ == 10


def test_folds_solved_together_are_one_task(wide, monkeypatch):
    kind = "clusterica.linear._base._kind_of_solver"
    monkeypatch.setattr(kind, lambda rows, *, search: PrincipalSolver)
    watcher = Watcher()
    model = LinearSVC(random_state=0).set_callbacks(watcher).fit(*wide)
    assert watcher.ended.count("strength") == len(model.C_path_) + 1
    stopping = Watcher(stop_at=3)
    stopped = LinearSVC(random_state=0).set_callbacks(stopping).fit(*wide)
    assert stopping.ended.count("strength") == 2
    assert pytest.approx(1) == stopped.C_
