"""Coates & Ng 2012, table 2: CIFAR-10 with 400 labels a class, one layer; means over ten draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from clusterica.arrays import to_host
from clusterica.experiments._checks import reached
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
from clusterica.experiments._result import Check, Result
from clusterica.images import ImageFeatures
from clusterica.linear import LinearSVC

NOTE = (
    "One layer only: the paper's rows of more layers, and those that it quotes from others, are printed as "
    "the paper has them. Filters are learned from all training images without labels. Each of the draws "
    "takes so many labelled images a class from the training set at random; C is chosen on a part of them, "
    "and all test images are scored. The constants of contrast normalisation and whitening (contrast "
    "{contrast:g}, whitening {whitening:g}), and in the rows that say so the pooling ({pooling}), are chosen "
    "on training images that other draws of labels hold out; otherwise codes are summed over 2 x 2 cells. "
    "Mirrored training images, and pooling by validation, are not in the paper."
)
# Figures of the paper that are not run here, in percent: its own networks, then those that it quotes.
QUOTED = {
    "2 layers, single field": "65.8 ± 0.3",
    "2 layers, random fields": "65.8 ± 0.9",
    "2 layers, learned fields": "69.2 ± 0.7",
    "3 layers, learned fields": "70.7 ± 0.7",
    "Sparse coding (quoted)": "66.4 ± 0.8",
    "VQ (quoted)": "64.4 ± 1.0",
}


class Method(NamedTuple):
    """One row of the table."""

    name: str
    paper: str
    n_filters: int
    pooled_by_choice: bool = False
    mirrored: bool = False


PAPER_POOLING = "sum over 2 x 2"
METHODS = (
    Method("1 layer, 1600 maps", "64.6 ± 0.8", 1600),
    Method("1 layer, 4800 maps", "63.7 ± 0.7", 4800),
    Method("1 layer, 1600 maps, pooling by validation", "", 1600, True),
    Method("1 layer, 1600 maps, the same and mirrored training images", "", 1600, True, True),
)


@experiment(
    "P1-table2",
    title="CIFAR-10 with 400 labels a class, one layer",
    paper="Coates & Ng 2012, table 2",
    claim="With 400 labels a class one layer of 1600 filters reaches 64.6 %, and more filters do not help.",
    draws=False,
    options=("data", "device", "rows"),
    needs="CIFAR-10, a GPU",
    minutes=1.4,
)
def run(ctx: Context) -> Result:
    """Learn filters once for each method, and train a classifier for every draw of labels."""
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

    def choose() -> dict[str, Any]:
        chosen, scores = choose_constants(lambda c: score(make(methods[0].n_filters, c)))
        poolings = {name: score(make(methods[0].n_filters, chosen, name)) for name in POOLINGS}
        best = max(poolings, key=lambda name: poolings[name])
        return {
            "chosen": chosen._asdict(),
            "validation": scores,
            "pooling": best,
            "validation of poolings": poolings,
        }

    shared = ctx.parts(settings, {"constants": choose}, always=True, description="Constants")
    constants, best = Constants(**shared["constants"]["chosen"]), shared["constants"]["pooling"]

    def train(method: Method) -> dict[str, list[float]]:
        pooling = best if method.pooled_by_choice else PAPER_POOLING
        features = make(method.n_filters, constants, pooling).fit(split.train.images)
        return _scores(features, split, draws, mirrored=method.mirrored)

    found = ctx.parts(settings, {method.name: partial(train, method) for method in methods})
    rows = [(m.name, m.paper, percent(found[m.name]["accuracies"])) for m in methods]
    return Result(
        columns=("Method", "Paper (%)", f"Ours, {split.name} (%)"),
        rows=[*rows, *((name, figure, "") for name, figure in QUOTED.items())],
        values={},
        settings=settings,
        note=NOTE.format(**constants._asdict(), pooling=best),
        checks=()
        if ctx.quick
        else checks({name: one["accuracies"] for name, one in found.items()}),
    )


def checks(accuracies: Mapping[str, Sequence[float]]) -> list[Check]:
    """Ask whether the paper's figures are reached, and by which row.

    Parameters
    ----------
    accuracies : mapping of str to sequence of float
        Accuracies on the test images, one for each draw of labels.

    Returns
    -------
    list of Check
    """
    means = {name: 100 * float(np.mean(draws)) for name, draws in accuracies.items()}
    own = {m.name: m.paper for m in METHODS if m.paper}
    few, many = own
    spread = 100 * float(np.std(accuracies[few], ddof=1))
    return [
        *(reached(name, _mean(figure), {name: means[name]}) for name, figure in own.items()),
        Check(
            "more maps do not help with few labels: 4800 are better than 1600 by no more than the deviation "
            "over draws",
            means[many] - means[few] <= spread,
            f"{means[many] - means[few]:+.2f} points, the deviation is {spread:.2f}",
        ),
        *(
            reached(f"by one layer here, the paper's figure of “{name}”", _mean(figure), means)
            for name, figure in QUOTED.items()
        ),
    ]


def _mean(figure: str) -> float:
    """Return the mean of what is printed as mean ± deviation."""
    return float(figure.split()[0])


def _scores(
    features: ImageFeatures, split: Split, draws: list[np.ndarray], *, mirrored: bool
) -> dict[str, list[float]]:
    """Train a classifier on every draw of labels; return its accuracy on the test images, and its C."""
    X_test = features.transform(split.test.images)
    accuracies, strengths = [], []
    for draw in draws:
        some = Labeled(rows_of(split.train.images, draw), split.train.labels[draw])
        X, y = encode_training(features, some, mirrored=mirrored)
        classifier = LinearSVC(C="auto", random_state=0)
        if mirrored:
            classifier.set_params(validation=np.tile(a_fifth(len(draw)), 2))
        classifier.fit(X, y)
        predicted = to_host(classifier.predict(X_test))
        accuracies.append(float((predicted == split.test.labels).mean()))
        strengths.append(float(classifier.C_))
    return {"accuracies": accuracies, "C": strengths}
