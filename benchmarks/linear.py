"""The solvers of the linear classifiers against each other, in turns: which one a fit should choose.

For every shape the fit of ``LinearSVC`` with one C, and with ``C="auto"``, is timed with each solver that
can be worth trying there. The rows have a falling spectrum and overlapping classes, as pooled image
features do; those of the widest shape are mostly zeros. ``python -m benchmarks.linear --device cuda`` times
them on a GPU; ``--shapes 0 2`` measures some shapes and adds them to the file. The gap that L-BFGS estimates
is set beside the one to the minimum that Newton's method finds.
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

from benchmarks.machine import Others, describe, stored
from benchmarks.rica import Device, take_turns
from clusterica import config_context
from clusterica.arrays import as_rows
from clusterica.linear import LinearSVC
from clusterica.linear._base import _solver_kind
from clusterica.linear._lbfgs import LBFGSSolver, PrincipalSolver
from clusterica.linear._newton import NewtonSolver

RESULTS = Path(__file__).parent / "results"
CLASSES = 10
SOLVERS = {"newton": NewtonSolver, "l-bfgs": LBFGSSolver, "principal": PrincipalSolver}
# What is tried with one C, and in a search for C.
FEW = ("newton", "l-bfgs", "principal"), ("newton", "l-bfgs", "principal")
WIDE = FEW[0], ("newton", "principal")  # a search by L-BFGS had not ended after 280 s
MANY = ("l-bfgs",), ("l-bfgs",)
SHAPES = {
    (500, 3000): FEW,
    (2000, 3200): FEW,
    (1000, 60_000): WIDE,
    (5000, 400): MANY,
    (5000, 1600): MANY,
    (10_000, 3200): MANY,
    (50_000, 1600): MANY,
}
QUICK = {(200, 300): FEW, (600, 50): MANY}
GAP_SHAPE = (2000, 300)
THREADS = 2
ONCE_OVER = 10.0  # seconds: longer fits are timed once, or all shapes would take an hour


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


def compare(
    shape: tuple[int, int], solvers: tuple[tuple[str, ...], ...], device: Device, repeats: int
) -> dict[str, Any]:
    """Return the seconds of fits with each solver, for one C and for ``C="auto"``."""
    X, y = features(*shape)
    placed, others = device.put(X), Others()
    models: dict[str, LinearSVC] = {}

    def fit(solver: str, C: float | str) -> None:
        where = "clusterica.linear._base._solver_kind"
        with patch(where, lambda rows, *, search: SOLVERS[solver]):
            models[solver] = LinearSVC(C=C, random_state=0).fit(placed, y)

    fits = []
    for kind, C, tried in zip(("one C", "auto"), (10 / len(X), "auto"), solvers, strict=True):
        chosen = _solver_kind(as_rows(placed), search=kind == "auto")
        jobs = {solver: partial(fit, solver, C) for solver in tried}
        for solver, seconds in take_turns(jobs, repeats, device, once_over=ONCE_OVER).items():
            found = {
                "C": kind,
                "solver": solver,
                "chosen": SOLVERS[solver] is chosen,
                "converged": bool(models[solver].converged_),
                "seconds": median(seconds),
                "all_seconds": seconds,
            }
            fits.append(found)
    return {"shape": shape, "classes": CLASSES, "share_of_others": others.share(), "fits": fits}


def gaps() -> list[dict[str, float]]:
    """Return how many times larger than ``gap_`` the distance to the minimum is, for several C."""
    X, y = features(*GAP_SHAPE)
    X = X.astype(np.float64)

    def fit(solver: type, C: float, **settings: Any) -> LinearSVC:
        with patch("clusterica.linear._base._solver_kind", lambda rows, *, search: solver):
            return LinearSVC(C=C, **settings).fit(X, y)

    found = []
    for strength in (1, 10, 1000, 100_000):
        C = strength / len(X)
        model = fit(LBFGSSolver, C, max_iter=5000)
        lowest = fit(NewtonSolver, C, tol=1e-13).objective_
        factors = (model.objective_ - lowest) / model.objective_ / model.gap_
        row = {"strength": strength, "factor": float(np.median(factors))}
        found.append(row | {"largest": float(factors.max()), "converged": bool(model.converged_)})
    return found


def main() -> None:
    """Measure and write ``results/linear-cpu.json``, or that of a GPU."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--device", help="a torch device, such as cuda")
    parser.add_argument("--shapes", type=int, nargs="*", help="which shapes, from 0")
    parser.add_argument("--quick", action="store_true", help="small shapes, for a try")
    parser.add_argument("--output")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    device, machine = Device(options.device), describe()
    kind = "quick" if options.quick else "gpu" if options.device else "cpu"
    target = Path(options.output or RESULTS / f"linear-{kind}.json")
    shapes = QUICK if options.quick else SHAPES
    order = list(shapes)
    known, found = stored(target).get("rows", []), gaps()
    for shape in order if options.shapes is None else [order[i] for i in options.shapes]:
        with config_context(threads=THREADS):
            row = compare(shape, shapes[shape], device, options.repeats)
        print(json.dumps(row), flush=True)
        known = [r for r in known if tuple(r["shape"]) != shape] + [row]
        known.sort(key=lambda r: order.index(tuple(r["shape"])))
        report = {"machine": machine, "device": device.describe(), "threads": THREADS}
        report |= {"repeats": options.repeats, "once_over": ONCE_OVER, "rows": known}
        report |= {"gap_shape": GAP_SHAPE, "gaps": found}
        target.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
