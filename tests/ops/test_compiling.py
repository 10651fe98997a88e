"""The first compilation says so, once; code from the cache says nothing; without a cache all works."""

import logging
import os
import subprocess
import sys
from types import SimpleNamespace

import numba
import pytest
from numba.core import dispatcher

from clusterica.ops.cpu import compiling
from clusterica.ops.cpu.compiling import Announcer

# The smallest of the compiled functions.
CODE = """
import clusterica.cluster
from clusterica.ops.rules import gain_and_share
gain_and_share(0.5, 1.0, 0)
gain_and_share(0.5, 1.0, 1.0)
"""


def test_a_first_run_and_a_second(tmp_path):
    """In processes of their own, with a cache of their own."""
    texts = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", CODE],
            capture_output=True,
            text=True,
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
        )
        assert done.returncode == 0, done.stderr
        texts.append(done.stderr)
    assert texts[0].count("clusterica compiles its loops") == 1
    assert texts[0].count("\n") == 1
    assert texts[1] == ""


def test_functions_of_others_are_none_of_our_business(caplog):
    @numba.njit
    def theirs(x):
        return x + 1

    announcer = Announcer()
    with caplog.at_level(logging.INFO, "clusterica"):
        announcer.on_start(SimpleNamespace(data={"dispatcher": theirs}))
    assert not caplog.records


@pytest.mark.parametrize("keeps", [True, False])
def test_where_nothing_can_be_written_code_is_compiled_and_not_kept(keeps, monkeypatch, caplog):
    """As in a container whose user has no home, with a package that belongs to somebody else."""

    def enable_caching(self):
        if not keeps:
            raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr(dispatcher.Dispatcher, "enable_caching", enable_caching)
    monkeypatch.setattr(compiling, "ANNOUNCER", Announcer())

    @compiling.compiled
    def one_more(x):
        return x + 1

    assert one_more(1) == 2
    with caplog.at_level(logging.INFO, "clusterica"):
        compiling.ANNOUNCER.on_start(
            SimpleNamespace(data={"dispatcher": compiling.compiled(Announcer.on_end)})
        )
    assert ("NUMBA_CACHE_DIR" in caplog.text) != keeps
