"""P4, figure 1: accuracy on STL-10 over the size of the basis."""

from __future__ import annotations

from clusterica.experiments._context import Context
from clusterica.experiments._p4_methods import Setting, candidates
from clusterica.experiments._p4_sweep import Point, sweep
from clusterica.experiments._registry import experiment
from clusterica.experiments._result import Result

METHODS = ("K-means", "RICA", "DRICA", "d-RICA", "kRICA", "d-kRICA")


@experiment(
    "P4-fig1",
    title="Accuracy over the size of the basis",
    paper="Xiao, Zhu & Zhao, kernel reconstruction ICA (P4), figure 1",
    claim="Accuracy rises with the size of the basis up to 1600, slightly from 800 on; d-kRICA is best "
    "all the way.",
    options=("data", "device"),
)
def run(ctx: Context) -> Result:
    """Score every method with every number of filters."""
    sizes = ctx.choose(full=(50, 100, 200, 400, 800, 1200, 1600), quick=(10, 20))
    curves = {
        name: [Point(n, candidates(name, Setting(), quick=ctx.quick)[0], n) for n in sizes]
        for name in METHODS
    }
    result = sweep(ctx, curves, axis="number of filters")
    return result._replace(note=f"{result.note} Codes of K-means are soft thresholds.")
