"""Inputs that the fuzzer found worth keeping are read again: only errors that the documentation names."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
if not (ROOT / "fuzz").is_dir():  # tests of an installed package
    pytest.skip("fuzz is not there", allow_module_level=True)
for package in ("PIL", "pyarrow", "zarr"):
    pytest.importorskip(package)
sys.path.insert(0, str(ROOT))
from fuzz import results, target, targets  # noqa: E402


def test_inputs_of_the_fuzzer():
    """In a process of its own: to be fast, targets change what the readers read with."""
    command = [sys.executable, "-m", "fuzz", "--replay"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert len(found.stdout.splitlines()) == len(targets.TARGETS)


def test_runs_of_the_same_code_add_up(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "RESULTS", tmp_path / "fuzz.json")
    idx = targets.TARGETS["idx"]
    results.add_run("idx", idx, results.Run(100, 1.5, 70, None))
    found = results.add_run("idx", idx, results.Run(50, 1.0, 90, "killed by SIGKILL"))
    assert (found["executions"], found["runs"], found["peak_mib"]) == (150, 2, 90)
    assert found["errors"] == ["killed by SIGKILL"]
    assert results.executions_so_far("idx", idx) == 150
    # Other code: what was found before says nothing about it.
    other = idx._replace(code=(*idx.code, "clusterica.files._write"))
    assert results.executions_so_far("idx", other) == 0
    found = results.add_run("idx", other, results.Run(7, 1.0, 50, None))
    assert (found["executions"], found["runs"], found["errors"]) == (7, 1, [])


def test_comments_and_imports_are_no_other_code():
    plain = target._plain_code(
        '"""Doc."""\nimport a\n\ndef f(x):\n    """Doc."""\n    return x  # why\n'
    )
    assert plain == target._plain_code("from b import a\ndef f(x):\n    return x")
    assert plain != target._plain_code("def f(x):\n    return -x")
