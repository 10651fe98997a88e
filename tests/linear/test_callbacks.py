"""Callbacks of scikit-learn see every solve and its iterations, and can stop a fit."""

import pytest

from clusterica.linear import LinearSVC
from clusterica.linear._lbfgs import PrincipalSolver


def test_iterations_are_reported(tall, watcher):
    seen = watcher()
    model = LinearSVC(C=0.025).set_callbacks(seen).fit(*tall)
    assert seen.names == ["iteration"] * model.n_iter_ + ["strength", "fit"]


def test_every_strength_is_reported(tall, watcher):
    seen = watcher()
    model = LinearSVC(random_state=0).set_callbacks(seen).fit(*tall)
    assert seen.names.count("strength") == 5 * len(model.C_path_) + 1
    # Iterations of the last one only: each task with iterations has a progress bar, and there is one screen.
    assert seen.names.index("iteration") > 5 * len(model.C_path_) - 1
    assert seen.names.count("iteration") == model.n_iter_


def test_stopped_by_a_callback(tall, watcher):
    """No warning: it was asked for."""
    seen = watcher(stop_after=3)
    model = LinearSVC(C=2.5).set_callbacks(seen).fit(*tall)
    assert model.n_iter_ == 3
    assert not model.converged_


def test_search_stopped_by_a_callback(tall, watcher):
    seen = watcher(stop_after=1, stop_at="strength")
    model = LinearSVC(random_state=0).set_callbacks(seen).fit(*tall)
    assert seen.names.count("strength") == 2
    assert pytest.approx(10 / 400) == model.C_


def test_folds_solved_together_are_one_task(wide, monkeypatch, watcher):
    kind = "clusterica.linear._base._solver_kind"
    monkeypatch.setattr(kind, lambda rows, *, search: PrincipalSolver)
    seen = watcher()
    model = LinearSVC(random_state=0).set_callbacks(seen).fit(*wide)
    assert seen.names.count("strength") == len(model.C_path_) / 4 + 1  # four values of C at once
    stopping = watcher(stop_after=1, stop_at="strength")
    LinearSVC(random_state=0).set_callbacks(stopping).fit(*wide)
    assert stopping.names.count("strength") == 2
