"""Ctrl-C is answered at once, wherever the work is, and leaves threads and BLAS as they were."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("long_runs.py")
# Those that took the longest: many nonzeros in a row.
QUICK = ("SparseEncoder, dense", "KernelSparseEncoder, dense")
SLOW = (
    "SparseEncoder",
    "KernelSparseEncoder",
    "OMPEncoder",
    "LLCEncoder",
    "SparseCoding",
    "KernelSparseCoding",
    "KSVD",
    "KMeans",
    "RICA",
)


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C can't be sent to one thread")
@pytest.mark.parametrize("names", [QUICK, pytest.param(SLOW, marks=pytest.mark.slow)])
def test_ctrl_c_is_answered_at_once(names):
    done = subprocess.run([sys.executable, SCRIPT, *names], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [run["name"] for run in found] == list(names)
    for run in found:
        # A piece takes a tenth of a second.
        assert run["seconds"] < 1, run
        assert run["same_blas"], run
