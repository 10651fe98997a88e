"""Run the tests behind the promises of ``docs/trust.rst``, and write their figures into the page.

``python -m benchmarks.trust [PART ...]`` runs the parts, or all, and adds each to its results file with the
commit and the date. The page is written from that file and that of the fuzzer; ``--page`` writes no more.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from benchmarks.machine import commit
from benchmarks.rst import rst_table
from benchmarks.tables import ROOT

RESULTS = ROOT / "benchmarks" / "results" / "trust.json"
FUZZ = RESULTS.with_name("fuzz.json")
PAGE = ROOT / "docs" / "trust_figures.inc"
QUICK, ALL = "not slow and not gpu", "not gpu"


def killed_runs() -> dict[str, Any]:
    """Kill fits of every learner at random moments, and resume them."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(ROOT / "tests" / "io" / "killed_runs.py")]
        seed = str(time.time_ns() % 2**31)
        done = subprocess.run(
            [*command, "8", seed, folder], capture_output=True, text=True, check=True
        )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return {
        "learners": len(found),
        "kills": sum(one["kills"] for one in found),
        "not the same": [one["learner"] for one in found if not one["same"]],
        "seed": seed,
    }


def suite(*paths: str, marks: str = QUICK) -> Callable[[], dict[str, Any]]:
    """Return a function that runs tests and returns how many passed, and how many random cases they had."""

    def run() -> dict[str, Any]:
        # This file is a plugin of pytest, too: see below.
        options = ["-q", "-p", "no:cacheprovider", "-p", "benchmarks.trust", "-m", marks]
        command = [sys.executable, "-m", "pytest", *options, *paths]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        found = re.search(rf"^{_LINE}(.*)$", done.stdout, re.MULTILINE)
        if found is None:
            raise RuntimeError(f"no tests were run:\n{done.stdout}\n{done.stderr}")
        counts: dict[str, Any] = json.loads(found[1])
        if counts["failed"]:
            print(done.stdout)  # which tests, and the seed that repeats their draws
        return counts

    return run


def on_gpu() -> dict[str, Any]:
    """Run the tests that need a CUDA device, and name it."""
    import torch

    found = suite("tests/gpu", "tests/linear/test_cuda.py", marks="gpu")()
    return {**found, "gpu": torch.cuda.get_device_name()}


# --- The plugin: counts tests, and the random cases of those that say how many they have ---------------

_LINE = "counted "
_counts = {"passed": 0, "failed": 0, "cases": 0}


def pytest_runtest_logreport(report: Any) -> None:
    """Count a test that has ended; one that is expected to fail counts as skipped."""
    _counts["failed"] += report.failed
    _counts["passed"] += report.passed and report.when == "call"


def pytest_runtest_makereport(item: Any, call: Any) -> None:
    """Count the random cases of a test that passed."""
    if call.when == "call" and call.excinfo is None and hasattr(item, "callspec"):
        _counts["cases"] += item.callspec.params.get("n_cases", 0)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the counts."""
    terminalreporter.write_line(f"\n{_LINE}{json.dumps(_counts)}")


PARTS: dict[str, Callable[[], dict[str, Any]]] = {
    "killed runs": killed_runs,
    "files": suite("tests/io", "tests/files", "tests/datasets", "tests/cli/test_hostile_input.py"),
    "numerical edges": suite("tests/battery"),
    "Ctrl-C": suite("tests/battery/test_interrupts.py", marks=ALL),
    "differential tests": suite("tests/differential"),
    "differential tests, all": suite("tests/differential", marks=ALL),
    "GPU": on_gpu,
}


def measure(names: list[str]) -> None:
    """Run parts, and write each to the results file when it has ended."""
    for name in names:
        start = time.monotonic()
        measured = commit()
        found = PARTS[name]()
        known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        known[name] = {
            **found,
            "seconds": round(time.monotonic() - start),
            "commit": measured,
            "date": datetime.now(UTC).date().isoformat(),
        }
        RESULTS.write_text(json.dumps(known, indent=2) + "\n")
        print(name, known[name], flush=True)


def row_of(name: str, found: dict[str, Any] | None) -> list[str]:
    """Return the row of a part in the table; None stands for one that was not run."""
    if found is None:
        return [name, "not run", "none", "none"]
    if "kills" in found:
        wrong = found["not the same"]
        text = f"{found['kills']:,} kills of {found['learners']} learners, "
        text += f"other bits in {', '.join(wrong)}" if wrong else "the same bits in all"
    else:
        text = f"{found['passed']:,} tests passed, {found['failed']:,} failed"
        text += f"; {found['cases']:,} random cases" if found["cases"] else ""
    return [found.get("gpu", name), text, found["commit"], found["date"]]


def page() -> str:
    """Return the tables, from the results files alone."""
    lines = [".. Written by ``python -m benchmarks.trust``.", ""]
    if RESULTS.exists():
        parts = json.loads(RESULTS.read_text())
        rows = [row_of(name, parts.get(name)) for name in PARTS]
        lines += rst_table(["Tests", "Last run", "Commit", "Date"], rows)
    if FUZZ.exists():
        rows = [
            [
                name,
                f"{one['executions']:,}",
                "; ".join(one["errors"]) or "none",
                f"{one['runs']}",
                f"{one['peak_mib']:,} MiB",
                one["commit"],
            ]
            for name, one in json.loads(FUZZ.read_text()).items()
        ]
        columns = ["Fuzzed", "Executions", "Undocumented errors", "Runs", "Peak memory", "Commit"]
        lines += rst_table(columns, rows)
    return "\n".join(lines)


def main() -> None:
    """Run parts and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trust", description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; without any, all but GPU")
    parser.add_argument("--page", action="store_true", help="write the page only")
    options = parser.parse_args()
    if not options.page:
        # Most machines have no GPU: it is asked for by name.
        measure(options.parts or [name for name in PARTS if name != "GPU"])
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
