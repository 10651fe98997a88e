"""The solvers of the linear classifiers against each other, in turns: which one a fit should choose.

For every shape the fit of ``LinearSVC`` with one C, and with ``C="auto"``, is timed with each solver that
can be worth trying there. The rows have a falling spectrum and overlapping classes, as pooled image
features do; those of the widest shape are sparse. ``python -m benchmarks.linear --device cuda`` times them
on a GPU.
"""

from __future__ import annotations

import argparse
import json
import warnings
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks.machine import describe
from benchmarks.rica import Device, take_turns
from clusterica.linear import LinearSVC
from clusterica.linear._lbfgs import LBFGSSolver, PrincipalSolver
from clusterica.linear._newton import NewtonSolver

RESULTS = Path(__file__).parent / "results"
CLASSES = 10
SOLVERS = {"newton": NewtonSolver, "l-bfgs": LBFGSSolver, "principal": PrincipalSolver}
FEW, MANY = ("newton", "l-bfgs", "principal"), ("l-bfgs",)
SHAPES = {
    (500, 3000): FEW,
    (2000, 3200): FEW,
    (1000, 60_000): FEW,
    (5000, 400): MANY,
    (5000, 1600): MANY,
    (10_000, 3200): MANY,
    (50_000, 1600): MANY,
}
QUICK = {(200, 300): FEW, (600, 50): MANY}


def features(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows like pooled image features, or sparse ones where there are very many, and their classes."""
    rng = np.random.default_rng(0)
    y = rng.integers(CLASSES, size=n)
    if d > 20_000:
        often = 0.004 + 0.02 * rng.random((CLASSES, d), dtype=np.float32) ** 8
        kept = rng.random((n, d), dtype=np.float32) < often[y]
        return kept * rng.exponential(size=(n, d)).astype(np.float32), y
    hidden = min(d, 1500)
    Z = rng.standard_normal((n, hidden), dtype=np.float32)
    Z[:, :40] += 0.55 * rng.standard_normal((CLASSES, 40), dtype=np.float32)[y]
    Z *= np.arange(1, hidden + 1, dtype=np.float32) ** -0.6
    X = 5 * Z @ rng.standard_normal((hidden, d), dtype=np.float32) / hidden**0.5
    X += 0.02 * rng.standard_normal((n, d), dtype=np.float32)
    return np.maximum(X + 1, 0), y


def compare(shape: tuple[int, int], solvers: tuple[str, ...], device: Device, repeats: int) -> Any:
    """Return the median seconds of a fit with each solver, for one C and for ``C="auto"``."""
    X, y = features(*shape)
    placed = device.put(X)

    def fit(solver: str, C: float | str) -> None:
        where = "clusterica.linear._base._solver_kind"
        with patch(where, lambda rows, *, search: SOLVERS[solver]):
            LinearSVC(C=C, random_state=0).fit(placed, y)

    found = {"rows": shape[0], "features": shape[1], "classes": CLASSES}
    for name, C in (("one C", 10 / len(X)), ("auto", "auto")):
        jobs = {solver: partial(fit, solver, C) for solver in solvers}
        seconds = take_turns(jobs, repeats, device)
        found[name] = {solver: median(times) for solver, times in seconds.items()}
    return found


def main() -> None:
    """Measure and write ``results/linear-cpu.json``, or that of a GPU."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--device", help="a torch device, such as cuda")
    parser.add_argument("--quick", action="store_true", help="small shapes, for a try")
    parser.add_argument("--output")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    kind = "quick" if options.quick else "gpu" if options.device else "cpu"
    target = Path(options.output or RESULTS / f"linear-{kind}.json")
    report: dict[str, Any] = {"machine": describe(), "repeats": options.repeats, "rows": []}
    for shape, solvers in (QUICK if options.quick else SHAPES).items():
        report["rows"].append(compare(shape, solvers, Device(options.device), options.repeats))
        print(json.dumps(report["rows"][-1]), flush=True)
        target.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
