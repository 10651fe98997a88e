"""P1, table 1: CIFAR-10 with all labels, one layer of filters, 2 x 2 pooling, a linear SVM.

Filters of spherical K-means on white 6 x 6 patches, codes max(0, ±Dᵀx - α); C by validation.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from clusterica.experiments._context import Context
from clusterica.experiments._recognition import (
    Constants,
    Outcome,
    choose_constants,
    cifar10,
    evaluate,
    percent,
    smaller,
    validation_score,
)
from clusterica.experiments._registry import experiment
from clusterica.experiments._result import Result
from clusterica.images import ImageFeatures

NOTE = (
    "The constants of contrast normalisation and whitening are chosen with the fewest maps on a fifth of the "
    "training images, C of each head on a part of them; the test images are scored once. Rows that the "
    "paper quotes from others are printed as quoted. Learn, encode and head are seconds."
)
QUOTED = (
    ("2 layers, single / random / learned fields", "77.4 / 77.6 / 81.2"),
    ("3 layers, learned fields", "82.0"),
    ("VQ, 6000 maps (quoted)", "81.5"),
    ("Convolutional DBN (quoted)", "78.9"),
    ("Deep NN (quoted)", "80.49"),
    ("Multi-column deep NN (quoted)", "88.79"),
)


class Method(NamedTuple):
    """One row of the table."""

    name: str
    paper: str
    n_filters: int
    mirrored: bool = False


METHODS = (
    Method("1 layer, 1600 maps", "78.3", 1600),
    Method("1 layer, 1600 maps, mirrored training images", "", 1600, True),
    Method("1 layer, 4800 maps", "80.6", 4800),
    Method("1 layer, 6000 maps", "", 6000),
    Method("1 layer, 6000 maps, mirrored training images", "", 6000, True),
)


@experiment(
    "P1-table1",
    title="CIFAR-10 with all labels, one layer",
    paper="Coates & Ng 2012 (P1), table 1",
    claim="One layer of 1600 filters reaches 78.3 % on CIFAR-10, 4800 filters 80.6 %.",
    draws=False,
    options=("data", "device"),
)
def run(ctx: Context) -> Result:
    """Train and score every method."""
    split = cifar10(ctx)
    methods = ctx.choose(full=METHODS, quick=tuple(map(smaller, METHODS[:3])))
    settings: dict[str, Any] = {
        "data": split.name,
        "patch_size": ctx.choose(full=6, quick=4),
        "n_patches": ctx.choose(full=400_000, quick=20_000),
        "n_train": len(split.train.labels),
        "n_test": len(split.test.labels),
        "methods": [method.name for method in methods],
    }

    def features(n_filters: int, constants: Constants) -> ImageFeatures:
        return ImageFeatures(
            n_filters,
            patch_size=settings["patch_size"],
            n_patches=settings["n_patches"],
            random_state=ctx.seed,
            **constants.steps(),
        )

    constants, validation = choose_constants(
        lambda c: validation_score(features(methods[0].n_filters, c), split.train, seed=ctx.seed)
    )
    outcomes: dict[str, Outcome] = {
        method.name: evaluate(
            features(method.n_filters, constants), split, mirrored=method.mirrored
        )
        for method in ctx.track(methods, "Methods")
    }
    rows: list[tuple] = [
        (
            method.name,
            method.paper,
            percent([o.accuracy]),
            f"{o.C:.3g}",
            f"{o.learn_seconds:.1f}",
            f"{o.encode_seconds:.1f}",
            f"{o.head_seconds:.1f}",
        )
        for method, o in zip(methods, outcomes.values(), strict=True)
    ]
    rows += [(name, figure, "", "", "", "", "") for name, figure in QUOTED]
    return Result(
        columns=("Method", "Paper (%)", f"Ours, {split.name} (%)", "C", "learn", "encode", "head"),
        rows=rows,
        values={
            "constants": constants._asdict(),
            "validation": validation,
            **{name: outcome._asdict() for name, outcome in outcomes.items()},
        },
        settings=settings,
        note=NOTE,
    )
