"""Figures of the runs: those of the same code add up, those of other code are dropped."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.machine import commit

from fuzz.target import Target

RESULTS = Path("benchmarks/results/fuzz.json")


class Run(NamedTuple):
    """What one process of the fuzzer did."""

    executions: int
    seconds: float
    """Of processor time."""
    peak_mib: int
    error: str | None
    """How it ended, if not well: the error that it found, or the signal that killed it."""


def read_results() -> dict[str, dict[str, Any]]:
    """Return the figures of all targets."""
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def executions_so_far(name: str, target: Target) -> int:
    """Return how often a target was executed with the code as it is."""
    entry = read_results().get(name, {})
    return int(entry["executions"]) if entry.get("code") == target.code_hash() else 0


def add_run(name: str, target: Target, run: Run) -> dict[str, Any]:
    """Add a run to the results file, and return the figures of its target."""
    known = read_results()
    entry = known.get(name, {})
    if entry.get("code") != target.code_hash():
        entry = {"executions": 0, "runs": 0, "seconds": 0.0, "peak_mib": 0, "errors": []}
    entry = {
        "executions": entry["executions"] + run.executions,
        "errors": entry["errors"] + ([] if run.error is None else [run.error]),
        "runs": entry["runs"] + 1,
        "seconds": round(entry["seconds"] + run.seconds, 1),
        "peak_mib": max(entry["peak_mib"], run.peak_mib),
        "code": target.code_hash(),
        "with": target.versions(),
        "commit": commit(),
        "date": datetime.now(UTC).date().isoformat(),
    }
    known[name] = entry
    RESULTS.write_text(json.dumps(known, indent=2) + "\n")
    return entry
