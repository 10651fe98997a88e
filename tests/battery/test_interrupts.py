"""Ctrl-C is answered at once, wherever the work is, and leaves threads and BLAS as they were."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("long_runs.py")
NAMES = ("SparseEncoder", "OMPEncoder", "LLCEncoder")
LEARNERS = ("SparseCoding", "KSVD", "KMeans", "RICA")


@pytest.mark.slow  # depends on the time of a signal, or on the draw: not reliable yet
@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C can't be sent to one process")
@pytest.mark.parametrize(
    "name",
    ["SparseEncoder", *(pytest.param(n, marks=pytest.mark.slow) for n in (*NAMES[1:], *LEARNERS))],
)
def test_ctrl_c_is_answered_at_once(name):
    with subprocess.Popen([sys.executable, SCRIPT, name], stdout=subprocess.PIPE, text=True) as run:
        try:
            assert run.stdout.readline() == "started\n"
            time.sleep(1)  # into the work
            run.send_signal(signal.SIGINT)
            begun = time.monotonic()
            word, idle, same_blas = run.stdout.readline().split()
            assert time.monotonic() - begun < 10  # generous, for busy machines
        finally:
            run.kill()
    assert word == "stopped"
    assert float(idle) < 5
    assert same_blas == "True"
