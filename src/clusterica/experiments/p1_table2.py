"""P1, table 2: CIFAR-10 with 400 labels a class, one layer; mean and deviation over ten draws of labels."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from clusterica.arrays import to_host
from clusterica.experiments._context import Context
from clusterica.experiments._recognition import (
    POOLINGS,
    Constants,
    Labeled,
    Split,
    a_fifth,
    choose_constants,
    cifar10,
    encode_training,
    label_subsets,
    percent,
    rows_of,
    smaller,
    validation_score,
)
from clusterica.experiments._registry import experiment
from clusterica.experiments._result import Result
from clusterica.images import ImageFeatures
from clusterica.linear import LinearSVC

NOTE = (
    "Filters are learned from all training images without labels. Each of the draws takes so many "
    "labelled images a class from the training set at random; C is chosen on a part of them, and all test "
    "images are scored. The constants of contrast normalisation and whitening, and in the rows that say so "
    "the pooling, are chosen on training images that other draws of labels hold out; otherwise codes are "
    "summed over 2 x 2 cells as in the paper. Rows quoted by the paper are printed as quoted."
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
    pooled_by_choice: bool = False
    mirrored: bool = False


class Heads(NamedTuple):
    """How well the heads of all draws did, and the strengths that they chose."""

    accuracies: list[float]
    strengths: list[float]


PAPER_POOLING = "sum over 2 x 2"
METHODS = (
    Method("1 layer, 1600 maps", "64.6 ± 0.8", 1600),
    Method("1 layer, 1600 maps, pooling by validation", "", 1600, True),
    Method("1 layer, 1600 maps, the same and mirrored training images", "", 1600, True, True),
    Method("1 layer, 4800 maps", "63.7 ± 0.7", 4800),
)


@experiment(
    "P1-table2",
    title="CIFAR-10 with 400 labels a class, one layer",
    paper="Coates & Ng 2012 (P1), table 2",
    claim="With 400 labels a class one layer of 1600 filters reaches 64.6 %, and more filters do not help.",
    draws=False,
    options=("data", "device"),
)
def run(ctx: Context) -> Result:
    """Learn filters once for each method, and train a head for every draw of labels."""
    split = cifar10(ctx)
    methods = ctx.choose(full=METHODS, quick=tuple(map(smaller, METHODS)))
    settings: dict[str, Any] = {
        "data": split.name,
        "patch_size": ctx.choose(full=6, quick=4),
        "n_patches": ctx.choose(full=400_000, quick=20_000),
        "labels_per_class": ctx.choose(full=400, quick=20),
        "n_draws": ctx.choose(full=10, quick=3),
    }
    draws = label_subsets(
        split.train.labels, settings["labels_per_class"], settings["n_draws"], ctx.seed
    )

    def make(n_filters: int, constants: Constants, pooling: str = PAPER_POOLING) -> ImageFeatures:
        return ImageFeatures(
            n_filters,
            patch_size=settings["patch_size"],
            n_patches=settings["n_patches"],
            random_state=ctx.seed,
            **constants.steps(),
            **POOLINGS[pooling],
        )

    def score(features: ImageFeatures) -> float:
        n = settings["labels_per_class"]
        return validation_score(features, split.train, seed=ctx.seed, per_class=n)

    constants, validation = choose_constants(lambda c: score(make(methods[0].n_filters, c)))
    pooled = {name: score(make(methods[0].n_filters, constants, name)) for name in POOLINGS}
    best = max(pooled, key=lambda name: pooled[name])
    found: dict[str, Heads] = {}
    for method in ctx.track(methods, "Methods"):
        pooling = best if method.pooled_by_choice else PAPER_POOLING
        features = make(method.n_filters, constants, pooling).fit(split.train.images)
        found[method.name] = _heads(features, split, draws, mirrored=method.mirrored)
    rows = [(m.name, m.paper, percent(found[m.name].accuracies)) for m in methods]
    return Result(
        columns=("Method", "Paper (%)", f"Ours, {split.name} (%)"),
        rows=[*rows, *((name, figure, "") for name, figure in QUOTED)],
        values={
            "constants": constants._asdict(),
            "validation": validation,
            "pooling": best,
            "validation of poolings": pooled,
            "accuracies": {name: heads.accuracies for name, heads in found.items()},
            "C": {name: heads.strengths for name, heads in found.items()},
        },
        settings=settings,
        note=NOTE,
    )


def _heads(
    features: ImageFeatures, split: Split, draws: list[np.ndarray], *, mirrored: bool
) -> Heads:
    """Train a head on every draw of labels, and score it on the test images."""
    X_test = features.transform(split.test.images)
    accuracies, strengths = [], []
    for draw in draws:
        some = Labeled(rows_of(split.train.images, draw), split.train.labels[draw])
        X, y = encode_training(features, some, mirrored=mirrored)
        head = LinearSVC(C="auto", random_state=0)
        if mirrored:
            head.set_params(validation=np.tile(a_fifth(len(draw)), 2))
        head.fit(X, y)
        accuracies.append(float((to_host(head.predict(X_test)) == split.test.labels).mean()))
        strengths.append(float(head.C_))
    return Heads(accuracies, strengths)
