"""Xiao, Zhu & Zhao, figure 4: accuracy on STL-10 over γ."""

from __future__ import annotations

from clusterica.experiments._context import Context
from clusterica.experiments._registry import experiment
from clusterica.experiments._result import Check, Result
from clusterica.experiments.xiao_zhu_zhao_2013._methods import WHITE, Setting
from clusterica.experiments.xiao_zhu_zhao_2013._sweep import Curves, Point, best_place_check, sweep

METHODS = ("kRICA", "d-kRICA", *WHITE)


@experiment(
    "P4-fig4",
    title="Accuracy over the width of the Gaussian kernel",
    paper="Xiao, Zhu & Zhao 2013, figure 4",
    claim="The best γ of the Gaussian kernel is 0.1.",
    options=("data", "device", "rows"),
    needs="STL-10, a GPU",
    minutes=9,
)
def run(ctx: Context) -> Result:
    """Score the methods with every width."""
    values = ctx.choose(full=(0.01, 0.1, 0.3, 1.0, 3.0, 10.0), quick=(0.1, 3.0))
    points = [Point(value, Setting(gamma=value)) for value in values]
    return sweep(ctx, dict.fromkeys(METHODS, points), axis="γ", checks=_checks)


def _checks(curves: Curves) -> list[Check]:
    return [best_place_check(curves, name, "γ", 0.1) for name in METHODS if name in curves]
