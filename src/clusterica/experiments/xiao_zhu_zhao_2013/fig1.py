"""Xiao, Zhu & Zhao, figure 1: accuracy on STL-10 over the size of the basis."""

from __future__ import annotations

from clusterica.experiments._context import Context
from clusterica.experiments._registry import experiment
from clusterica.experiments._result import Check, Result
from clusterica.experiments.xiao_zhu_zhao_2013._methods import WHITE, Setting, candidates
from clusterica.experiments.xiao_zhu_zhao_2013._notes import difference
from clusterica.experiments.xiao_zhu_zhao_2013._sweep import (
    Curves,
    Point,
    better_check,
    sweep,
)

KERNELS = ("kRICA", "d-kRICA", *WHITE)
METHODS = ("K-means", "RICA", "DRICA", "d-RICA", *KERNELS)


@experiment(
    "P4-fig1",
    title="Accuracy over the size of the basis",
    paper="Xiao, Zhu & Zhao 2013, figure 1",
    claim="The accuracies of kRICA and d-kRICA rise with the size of the basis up to 1600, slightly from 800 "
    "on; d-kRICA is best all the way.",
    options=("data", "device", "rows"),
    needs="STL-10, a GPU",
    minutes=13,
)
def run(ctx: Context) -> Result:
    """Score every method with every number of filters."""
    sizes = ctx.choose(full=(50, 100, 200, 400, 800, 1200, 1600), quick=(10, 20))
    curves = {
        name: [Point(n, candidates(name, Setting(), quick=ctx.quick)[0], n) for n in sizes]
        for name in METHODS
    }
    result = sweep(ctx, curves, axis="number of filters", checks=_checks)
    return result._replace(note=f"{result.note} Codes of K-means are soft thresholds.")


def _checks(curves: Curves) -> list[Check]:
    checks = []
    for name in KERNELS:
        if name not in curves:
            continue
        curve = {n: scores.scored for n, scores in curves[name].items()}
        best, last = max(curve, key=lambda n: curve[n].accuracy), max(curve)
        found = f"best with {best:g}: {curve[best]}"
        checks.append(
            Check(f"{name} does best with the largest basis, {last:g}", best == last, found)
        )
        if {800, 1600} <= {*curve}:
            gain = difference(*(curves[name][n].accuracies for n in (1600, 800)))
            checks.append(
                Check(
                    f"from 800 to 1600 filters {name} gains slightly, more than an SE and less than 2 points",
                    gain.is_gain and gain.mean < 2,
                    f"{gain}, from {curve[800]} to {curve[1600]}",
                )
            )
    others = [name for name in curves if name not in ("d-kRICA", *WHITE)]
    for best_of_all in (name for name in ("d-kRICA", "d-kRICA, white") if name in curves):
        checks.append(better_check(curves, best_of_all, others, "size"))
    return checks
