"""Xiao, Zhu & Zhao, figure 2: accuracy on STL-10 over λ."""

from __future__ import annotations

from clusterica.experiments._context import Context
from clusterica.experiments._registry import experiment
from clusterica.experiments._result import Check, Result
from clusterica.experiments.xiao_zhu_zhao_2013._methods import Setting
from clusterica.experiments.xiao_zhu_zhao_2013._sweep import (
    Curves,
    Point,
    best_place_check,
    better_check,
    sweep,
)

METHODS = ("RICA", "kRICA", "kRICA, white")


@experiment(
    "P4-fig2",
    title="Accuracy over the weight of the penalty",
    paper="Xiao, Zhu & Zhao 2013, figure 2",
    claim="kRICA does best at λ = 0.01, and better than RICA at every λ.",
    options=("data", "device", "rows"),
    needs="STL-10, a GPU",
    minutes=2,
)
def run(ctx: Context) -> Result:
    """Score the methods with every weight."""
    values = ctx.choose(full=(1e-4, 1e-3, 1e-2, 1e-1, 1.0), quick=(1e-2, 1.0))
    points = [Point(value, Setting(sparsity=value)) for value in values]
    return sweep(ctx, dict.fromkeys(METHODS, points), axis="λ", checks=_checks)


def _checks(curves: Curves) -> list[Check]:
    checks = []
    for name in (name for name in METHODS[1:] if name in curves):
        checks.append(best_place_check(curves, name, "λ", 0.01))
        checks.append(better_check(curves, name, ["RICA"], "λ"))
    return checks
