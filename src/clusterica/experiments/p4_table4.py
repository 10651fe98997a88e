"""P4, table 4: kernels of kRICA and d-kRICA on STL-10."""

from __future__ import annotations

from functools import partial
from typing import Any

from clusterica.experiments._context import Context
from clusterica.experiments._p4_methods import SUPERVISED, Setting, make_features
from clusterica.experiments._p4_stl import FoldScores, score_folds
from clusterica.experiments._recognition import Constants, device_name, percent, stl10
from clusterica.experiments._registry import experiment
from clusterica.experiments._result import Result

NOTE = (
    "b = 3 for the polynomial kernel and 1 for the others, γ = 0.1 for the Gaussian one, rows of unit "
    "length, as in the paper; then Gaussian with γ = 3. The paper's 56.9 is d-kRICA's figure in its "
    "table 3. Each head is trained on the 1,000 images of a fold and scored on the 4,000 training "
    "images outside it. Dead: basis vectors with k(w, x) < 0.01 for all patches."
)
PAPER = {
    "polynomial": "54.2",
    "inverse-distance": "38.3",
    "inverse-square-distance": "47.6",
    "histogram-intersection": "36.5",
    "rbf": "56.9",
    "rbf, γ = 3": "",
}
METHODS = ("kRICA", "d-kRICA")


@experiment(
    "P4-table4",
    title="Kernels on STL-10",
    paper="Xiao, Zhu & Zhao, kernel reconstruction ICA (P4), table 4",
    claim="The Gaussian kernel is the best of five, with 56.9 %.",
    draws=False,
)
def run(ctx: Context) -> Result:
    """Score both methods with every kernel."""
    train, folds, data = stl10(ctx)
    built_in = ctx.quick and ctx.data is None
    sizes: dict[str, Any] = {
        "n_filters": ctx.choose(full=400, quick=20),
        "patch_size": 4 if built_in else 8,
        "n_patches": ctx.choose(full=30_000, quick=1000),
        "stride": ctx.choose(full=4, quick=2),
    }
    n_folds = ctx.choose(full=5, quick=2)
    scores: dict[str, dict[str, FoldScores]] = {}
    for kernel in ctx.track(list(PAPER), "Kernels"):
        name, _, other = kernel.partition(", ")
        setting = Setting(kernel=name, gamma=3.0 if other else 0.1, max_iter=30)
        scores[kernel] = {
            method: score_folds(
                ctx,
                [
                    partial(
                        make_features,
                        method,
                        setting,
                        steps=Constants().steps(),
                        seed=ctx.seed,
                        **sizes,
                    )
                ],
                train,
                folds[:n_folds],
                supervised=method in SUPERVISED,
            )
            for method in METHODS
        }
    return Result(
        columns=(
            "Kernel",
            "Paper (%)",
            *(f"{m}, {data} ({what})" for m in METHODS for what in ("%", "% dead")),
        ),
        rows=[
            (kernel, PAPER[kernel], *(cell for m in METHODS for cell in _cells(found[m])))
            for kernel, found in scores.items()
        ],
        values={
            kernel: {method: s._asdict() for method, s in found.items()}
            for kernel, found in scores.items()
        },
        settings={"data": data, "n_folds": n_folds, **sizes, "device": device_name(ctx)},
        note=NOTE,
    )


def _cells(scores: FoldScores) -> tuple[str, str]:
    return percent(scores.accuracies), f"{100 * max(scores.dead):.0f}"
