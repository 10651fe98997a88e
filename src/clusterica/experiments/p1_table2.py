"""P1, table 2: CIFAR-10 with 400 labels a class, one layer; mean and deviation over ten draws of labels."""

from __future__ import annotations

from typing import Any, NamedTuple

from clusterica.arrays import to_host
from clusterica.experiments._context import Context
from clusterica.experiments._recognition import (
    Constants,
    choose_constants,
    cifar10,
    device_name,
    label_subsets,
    percent,
    rows_of,
    validation_score,
)
from clusterica.experiments._registry import experiment
from clusterica.experiments._result import Result
from clusterica.images import ImageFeatures
from clusterica.linear import LinearSVC

NOTE = (
    "Filters are learned from all training images without labels. Each of the draws takes so many "
    "labelled images a class from the training set at random; C is chosen on a part of them, and all test "
    "images are scored. The constants of contrast normalisation and whitening are chosen on training images "
    "that other draws of labels hold out. Rows quoted by the paper are printed as quoted."
)
QUOTED = (
    ("2 layers, single / random / learned fields", "65.8 ± 0.3 / 65.8 ± 0.9 / 69.2 ± 0.7"),
    ("3 layers, learned fields", "70.7 ± 0.7"),
    ("Sparse coding (quoted)", "66.4 ± 0.8"),
    ("VQ (quoted)", "64.4 ± 1.0"),
)


class Method(NamedTuple):
    """One row of the table."""

    name: str
    paper: str
    n_filters: int


METHODS = (
    Method("1 layer, 1600 maps", "64.6 ± 0.8", 1600),
    Method("1 layer, 4800 maps", "63.7 ± 0.7", 4800),
)


@experiment(
    "P1-table2",
    title="CIFAR-10 with 400 labels a class, one layer",
    paper="Coates & Ng 2012 (P1), table 2",
    claim="With 400 labels a class one layer of 1600 filters reaches 64.6 %, and more filters do not help.",
    draws=False,
)
def run(ctx: Context) -> Result:
    """Learn filters once for each method, and train a head for every draw of labels."""
    split = cifar10(ctx)
    shrink = ctx.choose(full=1, quick=40)
    settings: dict[str, Any] = {
        "data": split.name,
        "patch_size": ctx.choose(full=6, quick=4),
        "n_patches": ctx.choose(full=400_000, quick=20_000),
        "labels_per_class": ctx.choose(full=400, quick=20),
        "n_draws": ctx.choose(full=10, quick=3),
        "device": device_name(ctx),
    }
    draws = label_subsets(
        split.train.labels, settings["labels_per_class"], settings["n_draws"], ctx.seed
    )

    def make(n_filters: int, constants: Constants) -> ImageFeatures:
        return ImageFeatures(
            max(16, n_filters // shrink),
            patch_size=settings["patch_size"],
            n_patches=settings["n_patches"],
            random_state=ctx.seed,
            **constants.steps(),
        )

    constants, validation = choose_constants(
        lambda c: validation_score(
            make(1600, c), split.train, seed=ctx.seed, per_class=settings["labels_per_class"]
        )
    )
    accuracies: dict[str, list[float]] = {}
    strengths: dict[str, list[float]] = {}
    for method in ctx.track(METHODS, "Methods"):
        features = make(method.n_filters, constants).fit(split.train.images)
        X, X_test = (features.transform(part.images) for part in (split.train, split.test))
        heads = [
            LinearSVC(C="auto", random_state=0).fit(rows_of(X, draw), split.train.labels[draw])
            for draw in draws
        ]
        accuracies[method.name] = [
            float((to_host(head.predict(X_test)) == split.test.labels).mean()) for head in heads
        ]
        strengths[method.name] = [float(head.C_) for head in heads]
    rows = [(m.name, m.paper, percent(accuracies[m.name])) for m in METHODS]
    return Result(
        columns=("Method", "Paper (%)", f"Ours, {split.name} (%)"),
        rows=[*rows, *((name, figure, "") for name, figure in QUOTED)],
        values={
            "constants": constants._asdict(),
            "validation": validation,
            "accuracies": accuracies,
            "C": strengths,
        },
        settings=settings,
        note=NOTE,
    )
