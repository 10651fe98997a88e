"""ClusterICA against scikit-learn's FastICA and extended picard-o, with defaults: time, memory, error.

Sparse, light-tailed and mixed sources, mixed by a Gaussian matrix, float64, two threads. All contenders
take turns on the same draws, a new draw every turn; medians over the draws. The error is the Amari distance.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.machine import describe, stored
from benchmarks.process import Contender

RESULTS = Path(__file__).parent / "results"
SHAPES = [(m, d) for d in (4, 10, 50) for m in (10_000, 100_000)] + [(1_000_000, 50)]
CASES = [(sources, shape) for sources in ("sparse", "light", "mixed") for shape in SHAPES]
JOBS = {
    "ClusterICA()": ("clusterica ica", "ml"),
    "ClusterICA(refine=None)": ("clusterica ica", "clusters"),
    "FastICA": ("sklearn ica", ""),
    "picard-o": ("picard ica", ""),
}
# With a million rows the others take a minute a fit.
LARGE_JOBS = {name: JOBS[name] for name in ("ClusterICA()", "FastICA")}


def measure(sources: str, shape: tuple[int, int], repeats: int) -> dict[str, Any]:
    """Time all contenders in turns, a new draw of data every turn."""
    jobs = JOBS if shape[0] < 1_000_000 else LARGE_JOBS
    contenders = {library: Contender(library, {}) for library in {job[0] for job in jobs.values()}}
    answers: dict[str, list[dict]] = {name: [] for name in jobs}
    try:
        for turn in range(-1, repeats):  # the first turn warms up, on few rows
            size = (2000, shape[1]) if turn < 0 else shape
            for contender in contenders.values():
                contender.ask(do="data", sources=sources, shape=size, seed=turn + 1)
            for name, (library, kind) in jobs.items():
                answer = contenders[library].ask(do="run", kind=kind, iterations=turn + 1)
                if turn >= 0:
                    answers[name].append(answer)
    finally:
        for contender in contenders.values():
            contender.close()
    return {
        "sources": sources,
        "shape": shape,
        "repeats": repeats,
        "fits": [
            {
                "library": name,
                "seconds": median(a["seconds"] for a in given),
                "cpu_seconds": median(a["cpu_seconds"] for a in given),
                "distance": median(a["distance"] for a in given),
                "extra_mib": max(a["extra_bytes"] for a in given) / 2**20,
                "iterations": median(a["iterations"] for a in given),
                "all_seconds": [a["seconds"] for a in given],
                "all_distances": [a["distance"] for a in given],
            }
            for name, given in answers.items()
        ],
    }


def _case(row: dict[str, Any]) -> tuple[str, tuple[int, ...]]:
    return row["sources"], tuple(row["shape"])


def main() -> None:
    """Measure and write ``results/ica-cpu.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--cases", type=int, nargs="*", help="which sources and shapes, from 0")
    parser.add_argument("--quick", action="store_true", help="the smallest shape, for a try")
    options = parser.parse_args()
    chosen = CASES if options.cases is None else [CASES[i] for i in options.cases]
    target = RESULTS / ("ica-quick.json" if options.quick else "ica-cpu.json")
    known = stored(target).get("rows", [])
    for case in [CASES[0]] if options.quick else chosen:
        row = measure(*case, options.repeats)
        print(*case, flush=True)
        for fit in row["fits"]:
            print("   ", {k: v for k, v in fit.items() if not k.startswith("all")}, flush=True)
        known = [r for r in known if _case(r) != case] + [row]
        known.sort(key=lambda r: CASES.index(_case(r)))
        RESULTS.mkdir(exist_ok=True)
        report = {"machine": describe(), "threads": 2, "rows": known}
        target.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
