"""A run writes its numbers, settings and pictures, and passes on who watches it."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

import clusterica
from clusterica.experiments import Check, Context, Picture, Result, experiment, run
from clusterica.experiments import _registry as registry
from clusterica.experiments._provenance import _n_cores, source_commit

pytest.importorskip("matplotlib")


class Watched:
    """An estimator that remembers its callbacks."""

    callbacks = ()

    def set_callbacks(self, *callbacks):
        self.callbacks = callbacks
        return self


@pytest.fixture
def toy(monkeypatch):
    """Register an experiment; what it was told ends in the returned list."""
    from matplotlib.figure import Figure

    registry.available()  # imports them all, once and for all
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))
    told = []

    @experiment("T0-toy", title="A toy", paper="nowhere", claim="1 < 2")
    def toy(ctx):
        told.append(ctx)
        told.append(ctx.watch(Watched()).callbacks)
        items = list(ctx.track([1, 2], "counting"))
        return Result(
            columns=("what", "ours"),
            rows=[("sum", np.float64(sum(items)))],
            values={"items": np.array(items), "size": ctx.choose(full=100, quick=10)},
            settings={"n": 2},
            checks=(Check("1 < 2", True, "1 and 2"),),
            pictures=(
                Picture(Figure(), "first", "nothing"),
                Picture(Figure(), "second", "nothing", "more"),
            ),
        )

    return told


@pytest.mark.skipif(not hasattr(os, "getloadavg"), reason="this system does not tell its load")
def test_a_run_says_if_other_processes_had_the_cores_too(toy, tmp_path, monkeypatch):
    for load, shared in ((0.9, False), (3.0, True)):
        busy = (load * _n_cores(), 0.0, 0.0)
        monkeypatch.setattr(os, "getloadavg", lambda busy=busy: busy)
        run("T0-toy", output=tmp_path)
        made = json.loads((tmp_path / "T0-toy.json").read_text(encoding="utf-8"))["made"]
        assert made["device_was_shared"] is shared


def test_files(toy, tmp_path):
    outcome = run("t0-TOY", quick=True, output=tmp_path / "new", seed=5)
    record = json.loads((tmp_path / "new" / "T0-toy.json").read_text(encoding="utf-8"))
    made = record.pop("made")
    assert made["seconds"] == pytest.approx(outcome.seconds, abs=1e-3)
    assert made["seed"] == 5
    assert made["versions"]["clusterica"] == clusterica.__version__
    assert made["versions"]["numpy"] == np.__version__
    assert datetime.now(UTC) - datetime.fromisoformat(made["started"]) < timedelta(minutes=10)
    assert made["device"]
    assert record == {
        "name": "T0-toy",
        "title": "A toy",
        "paper": "nowhere",
        "claim": "1 < 2",
        "quick": True,
        "settings": {"n": 2},
        "values": {"items": [1, 2], "size": 10},
        "columns": ["what", "ours"],
        "rows": [["sum", 3.0]],
        "checks": [{"claim": "1 < 2", "holds": True, "found": "1 and 2"}],
        "note": "",
        "pictures": [
            {"file": "T0-toy.png", "caption": "first", "alt": "nothing"},
            {"file": "T0-toy-more.png", "caption": "second", "alt": "nothing"},
        ],
        "parts": {},
    }
    for path in outcome.picture_paths:
        assert path.read_bytes().startswith(b"\x89PNG")
    assert [p.name for p in outcome.picture_paths] == [p["file"] for p in record["pictures"]]


def test_commit_is_that_of_the_checkout():
    folder = Path(clusterica.__file__).parent
    command = ["git", "-C", str(folder), "rev-parse", "HEAD"]
    asked = subprocess.run(command, capture_output=True, text=True)
    if asked.returncode:
        pytest.skip("not a checkout")
    commit, changed = source_commit()
    assert commit == asked.stdout.strip()
    assert isinstance(changed, bool)


def test_commit_without_git(monkeypatch):
    """An installed package knows the commit from a file of the wheel, or says that it does not know it."""

    def missing(*args, **kwargs):
        raise FileNotFoundError("git")

    monkeypatch.setattr(subprocess, "run", missing)
    assert source_commit() == (None, None)


def test_watchers_reach_the_experiment(toy, tmp_path):
    shown = []

    def progress(items, description):
        shown.append(description)
        return items

    run("T0-toy", output=tmp_path, callbacks=("bar",), progress=progress)
    context, callbacks = toy
    assert callbacks == ("bar",)
    assert shown == ["counting"]
    assert context.output == tmp_path
    assert context.choose(full=1, quick=2) == 1


def test_unwatched_context_leaves_estimators_alone():
    estimator = object()  # has no set_callbacks
    assert Context().watch(estimator) is estimator


def test_missing_matplotlib_is_an_error_before_the_work(toy, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r'T0-toy needs.*pip install "clusterica\[plot\]"'):
        run("T0-toy", output=tmp_path)
    assert toy == []


@pytest.mark.parametrize(("value", "error"), [(float("nan"), ValueError), (object(), TypeError)])
def test_values_that_are_no_json(toy, tmp_path, value, error):
    @experiment("T1-bad", title="t", paper="p", claim="c")
    def bad(ctx):
        return Result(columns=(), rows=(), values={"x": value}, settings={})

    with pytest.raises(error):
        run("T1-bad", output=tmp_path)
    assert not (tmp_path / "T1-bad.json").exists()
