"""Xiao, Zhu & Zhao, figure 1: accuracy on STL-10 over the size of the basis."""

from __future__ import annotations

from clusterica.experiments._context import Context
from clusterica.experiments._registry import experiment
from clusterica.experiments._result import Check, Result
from clusterica.experiments.xiao_zhu_zhao_2013._methods import WHITE, Setting, candidates
from clusterica.experiments.xiao_zhu_zhao_2013._sweep import (
    Curves,
    Point,
    always_better_check,
    sweep,
)

METHODS = ("K-means", "RICA", "DRICA", "d-RICA", "kRICA", "d-kRICA", *WHITE)


@experiment(
    "P4-fig1",
    title="Accuracy over the size of the basis",
    paper="Xiao, Zhu & Zhao 2013, figure 1",
    claim="Accuracy rises with the size of the basis up to 1600, slightly from 800 on; d-kRICA is best "
    "all the way.",
    options=("data", "device", "rows"),
    needs="STL-10, a GPU",
    minutes=31,
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
    last = {name: list(curve)[-1] for name, curve in curves.items()}
    rising = [
        name for name, curve in curves.items() if max(curve, key=curve.__getitem__) == last[name]
    ]
    checks = [
        Check(
            "every method does best with the largest basis",
            len(rising) == len(curves),
            f"{', '.join(rising) or 'none'} of {', '.join(curves)} do",
        )
    ]
    if 800 in curves["RICA"]:
        gains = {name: curve[1600] - curve[800] for name, curve in curves.items()}
        checks.append(
            Check(
                "from 800 to 1600 filters accuracy rises slightly, by 0 to 2 points",
                all(0 < gain < 2 for gain in gains.values()),
                ", ".join(f"{name} {gain:+.1f}" for name, gain in gains.items()),
            )
        )
    others = [name for name in curves if name not in ("d-kRICA", *WHITE)]
    for best in ("d-kRICA", "d-kRICA, white"):
        checks.append(always_better_check(curves, best, others, "size"))
    return checks
