"""Experiments are found by name, and listing them stays light."""

import subprocess
import sys

import pytest

from clusterica.experiments import _registry as registry
from clusterica.experiments import available, experiment, find


@pytest.fixture(autouse=True)
def own_registry(monkeypatch):
    available()
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))


def test_available():
    entries = available()
    names = [entry.name for entry in entries]
    assert {"P1-fig1", "P1-fig2"} <= set(names)
    assert names == sorted(names)
    for entry in entries:
        assert entry.title
        assert entry.paper
        assert entry.claim


def test_find_in_any_case():
    assert find("p1-FIG1").name == "P1-fig1"


def test_unknown_name_gets_close_matches():
    with pytest.raises(LookupError, match=r"no experiment 'P1-fi1'\. Did you mean P1-fig1"):
        find("P1-fi1")
    with pytest.raises(LookupError, match=r"no experiment 'zzzz'\. There are: .*P1-fig1, P1-fig2"):
        find("zzzz")


def test_register_and_refuse_a_second_of_the_same_name():
    @experiment("X9-own", title="t", paper="p", claim="c")
    def run(ctx):
        return None

    assert find("x9-own").run is run
    assert "X9-own" in [entry.name for entry in available()]

    def other(ctx):
        return None

    other.__module__ = "elsewhere"
    with pytest.raises(ValueError, match="'x9-own' is already registered"):
        experiment("x9-own", title="t", paper="p", claim="c")(other)


def test_listing_does_not_import_matplotlib():
    code = (
        "import sys; from clusterica.experiments import available; assert available(); "
        "sys.exit('matplotlib' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
