"""The figures on the page of promises are those of the results files."""

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
if not (ROOT / "benchmarks").is_dir():  # tests of an installed package
    pytest.skip("benchmarks is not there", allow_module_level=True)
sys.path.insert(0, str(ROOT))
from benchmarks import trust  # noqa: E402


def test_figures_come_from_the_files():
    assert trust.PAGE.read_text() == trust.page()


def test_failures_are_shown(tmp_path, monkeypatch):
    monkeypatch.setattr(trust, "RESULTS", tmp_path / "trust.json")
    monkeypatch.setattr(trust, "FUZZ", tmp_path / "fuzz.json")
    seen = {"commit": "abc", "date": "2026-01-01", "seconds": 1}
    kills = {"learners": 3, "kills": 20, "not the same": ["RICA"], "seed": "1"}
    (tmp_path / "trust.json").write_text(
        json.dumps(
            {
                "killed runs": kills | seen,
                "differential tests": {"passed": 30, "failed": 2, "cases": 1234} | seen,
            }
        )
    )
    one = {"executions": 50_000, "errors": ["KeyError: x"], "runs": 2, "peak_mib": 300}
    (tmp_path / "fuzz.json").write_text(json.dumps({"idx": one | seen}))
    page = trust.page()
    assert "20 kills of 3 learners, other bits in RICA" in page
    assert "30 tests passed, 2 failed; 1,234 random cases" in page
    assert "50,000" in page
    assert "KeyError: x" in page
    assert [line for line in page.splitlines() if "not run" in line] == ["     - not run"] * 5
    assert "* - GPU\n     - not run" in page


def test_the_gpu_of_a_run_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(trust, "RESULTS", tmp_path / "trust.json")
    found = {
        "passed": 9,
        "failed": 0,
        "cases": 0,
        "gpu": "NVIDIA X",
        "commit": "abc",
        "date": "2026-01-01",
    }
    (tmp_path / "trust.json").write_text(json.dumps({"GPU": found}))
    assert "* - NVIDIA X\n     - 9 tests passed, 0 failed\n     - abc" in trust.page()
