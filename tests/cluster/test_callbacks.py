"""Progress, early stopping and scores through scikit-learn's callbacks."""

import numpy as np
import pytest
from sklearn.callback import ProgressBar, ScoringMonitor

from clusterica.cluster import CosineKMeans, KMeans


class Recorder:
    """Notes every task that ends; asks to stop at the one that is told."""

    def __init__(self, stop_at=None):
        self.stop_at, self.ended, self.torn_down = stop_at, [], False

    def setup(self, estimator, context):
        self.ended, self.torn_down = [], False

    def teardown(self, estimator, context):
        self.torn_down = True

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        self.ended.append((context.task_name, context.task_id, fitted_estimator))
        return (context.task_name, context.task_id) == self.stop_at

    def count(self, name):
        return sum(task == name for task, _, _ in self.ended)


def test_tree_of_tasks(make, heavy):
    recorder = Recorder()
    model = make(4, init="gaussian", n_init=3, max_iter=2, random_state=0)
    model.set_callbacks(recorder).fit(heavy)
    assert recorder.count("fit") == 1
    assert recorder.count("start") == 3
    assert 3 <= recorder.count("iteration") <= 6
    assert recorder.ended[-1][0] == "fit"
    assert recorder.torn_down
    assert model.n_iter_ <= 2


def test_the_orthogonal_start_is_a_task(heavy):
    recorder = Recorder()
    CosineKMeans(max_iter=2, random_state=0).set_callbacks(recorder).fit(heavy)
    assert recorder.count("orthogonal start") == 1
    assert 2 <= recorder.count("iteration") <= 4


def test_early_stopping(make, heavy):
    model = make(4, init="gaussian", tol=0, random_state=0)
    model.set_callbacks(Recorder(stop_at=("iteration", 1))).fit(heavy)
    expected = make(4, init="gaussian", tol=0, max_iter=2, random_state=0).fit(heavy)
    assert model.n_iter_ == 2
    np.testing.assert_array_equal(model.cluster_centers_, expected.cluster_centers_)
    np.testing.assert_array_equal(model.labels_, expected.labels_)


def test_stopping_after_a_start(heavy):
    recorder = Recorder(stop_at=("start", 1))
    KMeans(4, n_init=5, random_state=0).set_callbacks(recorder).fit(heavy)
    assert recorder.count("start") == 2


def test_models_on_the_way(make, heavy):
    """Every iteration gives callbacks a model that can be evaluated, each no worse than the last."""
    recorder = Recorder()
    make(4, init="orthonormal", random_state=0).set_callbacks(recorder).fit(heavy)
    models = [model for task, _, model in recorder.ended if task == "iteration"]
    scores = [model.score(heavy) for model in models]
    assert np.diff(scores).min(initial=0) >= -1e-9
    assert models[0].transform(heavy).shape == (600, 4)
    assert models[0].predict(heavy).shape == (600,)
    assert len(models[0].get_feature_names_out()) == 4


def test_models_on_the_way_far_from_the_origin():
    X = 1e3 + np.random.default_rng(0).normal(size=(200, 2))
    recorder = Recorder()
    model = KMeans(3, random_state=0).set_callbacks(recorder).fit(X)
    last = [m for task, _, m in recorder.ended if task == "iteration"][-1]
    np.testing.assert_allclose(last.cluster_centers_, model.cluster_centers_)


def test_callbacks_change_nothing(make, heavy):
    plain = make(4, random_state=0).fit(heavy)
    watched = make(4, random_state=0).set_callbacks(Recorder()).fit(heavy)
    np.testing.assert_array_equal(plain.cluster_centers_, watched.cluster_centers_)


def test_progress_bar(heavy, capsys):
    pytest.importorskip("rich")
    CosineKMeans(2, n_init=2, random_state=0).set_callbacks(ProgressBar()).fit(heavy)
    assert "CosineKMeans" in capsys.readouterr().out


def test_a_failed_fit_ends_its_callbacks(heavy):
    recorder = Recorder()

    def broken(X, n_clusters, random_state):
        raise RuntimeError("no centres today")

    with pytest.raises(RuntimeError, match="no centres today"):
        KMeans(4, init=broken).set_callbacks(recorder).fit(heavy)
    assert recorder.torn_down


def test_scoring_monitor(heavy):
    """A score for every iteration; scikit-learn's monitor asks for y beside X."""
    monitor = ScoringMonitor(scoring=lambda model, X, y: {"inertia": -model.score(X)})
    model = KMeans(4, tol=0, max_iter=5, random_state=0).set_callbacks(monitor)
    model.fit(heavy, np.zeros(600))
    rows = [row for row in monitor.get_logs().data if row["task_name"] == "iteration"]
    assert len(rows) == model.n_iter_
    assert [row["inertia"] for row in rows] == pytest.approx(list(model.objective_history_[1:]))
