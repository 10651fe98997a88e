"""Xiao, Zhu & Zhao, figure 3: accuracy on STL-10 over α."""

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

METHODS = ("DRICA", "d-RICA", "d-kRICA", "d-kRICA, white")


@experiment(
    "P4-fig3",
    title="Accuracy over the weight of the discrimination term",
    paper="Xiao, Zhu & Zhao 2013, figure 3",
    claim="d-kRICA does best at α = 0.1; d-RICA beats DRICA over a wide range of α, and d-kRICA beats both.",
    options=("data", "device", "rows"),
    needs="STL-10, a GPU",
    minutes=11,
)
def run(ctx: Context) -> Result:
    """Score the supervised methods with every weight."""
    values = ctx.choose(full=(1e-4, 1e-3, 1e-2, 1e-1, 1.0), quick=(1e-3, 1e-1))
    points = [Point(value, Setting(discrimination=value)) for value in values]
    return sweep(ctx, dict.fromkeys(METHODS, points), axis="α", checks=_checks)


def _checks(curves: Curves) -> list[Check]:
    kernels = [name for name in METHODS[2:] if name in curves]
    return [
        *(best_place_check(curves, name, "α", 0.1) for name in kernels),
        better_check(curves, "d-RICA", ["DRICA"], "α", wide=True),
        *(better_check(curves, name, ["DRICA", "d-RICA"], "α") for name in kernels),
    ]
