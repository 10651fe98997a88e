"""Coates & Ng 2012, table 1: CIFAR-10 with all labels, one layer of filters, 2 x 2 pooling, a linear SVM.

Filters of spherical K-means on white 6 x 6 patches, codes max(0, ±Dᵀx - α); C by validation.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

from clusterica.experiments._checks import reached
from clusterica.experiments._context import Context
from clusterica.experiments._recognition import (
    Constants,
    choose_constants,
    cifar10,
    evaluate,
    percent,
    smaller,
    validation_score,
)
from clusterica.experiments._registry import experiment
from clusterica.experiments._result import Check, Result
from clusterica.images import ImageFeatures

NOTE = (
    "One layer only: the paper's rows of more layers, and those that it quotes from others, are printed as "
    "the paper has them. The constants of contrast normalisation and whitening are chosen with the fewest "
    "maps on a fifth of the training images (contrast {contrast:g}, whitening {whitening:g}), C of each "
    "classifier on a part of them; the test images are scored once. Codes keep both signs of a response. "
    "Rows with 6000 maps and with mirrored training images are not in the paper. Learn, encode and "
    "classifier are seconds."
)
# Figures of the paper that are not run here, in percent: its own networks, then those that it quotes.
QUOTED = {
    "2 layers, single field": 77.4,
    "2 layers, random fields": 77.6,
    "2 layers, learned fields": 81.2,
    "3 layers, learned fields": 82.0,
    "VQ, 6000 maps (quoted)": 81.5,
    "Convolutional DBN (quoted)": 78.9,
    "Deep NN (quoted)": 80.49,
    "Multi-column deep NN (quoted)": 88.79,
}


class Method(NamedTuple):
    """One row of the table."""

    name: str
    paper: str
    n_filters: int
    mirrored: bool = False


METHODS = (
    Method("1 layer, 1600 maps", "78.3", 1600),
    Method("1 layer, 4800 maps", "80.6", 4800),
    Method("1 layer, 6000 maps", "", 6000),
    Method("1 layer, 1600 maps, mirrored training images", "", 1600, True),
    Method("1 layer, 6000 maps, mirrored training images", "", 6000, True),
)


@experiment(
    "P1-table1",
    title="CIFAR-10 with all labels, one layer",
    paper="Coates & Ng 2012, table 1",
    claim="One layer of 1600 filters reaches 78.3 % on CIFAR-10, 4800 filters 80.6 %.",
    draws=False,
    options=("data", "device", "rows"),
    needs="CIFAR-10, a GPU",
    minutes=0.7,
)
def run(ctx: Context) -> Result:
    """Train and score every method."""
    split = cifar10(ctx)
    methods = ctx.choose(full=METHODS, quick=tuple(map(smaller, METHODS[:2])))
    settings: dict[str, Any] = {
        "data": split.name,
        "patch_size": ctx.choose(full=6, quick=4),
        "n_patches": ctx.choose(full=400_000, quick=20_000),
        "n_train": len(split.train.labels),
        "n_test": len(split.test.labels),
    }

    def features(n_filters: int, constants: Constants) -> ImageFeatures:
        return ImageFeatures(
            n_filters,
            patch_size=settings["patch_size"],
            n_patches=settings["n_patches"],
            random_state=ctx.seed,
            **constants.steps(),
        )

    def choose() -> dict[str, Any]:
        chosen, scores = choose_constants(
            lambda c: validation_score(
                features(methods[0].n_filters, c), split.train, seed=ctx.seed
            )
        )
        return {"chosen": chosen._asdict(), "validation": scores}

    shared = ctx.parts(settings, {"constants": choose}, always=True, description="Constants")
    constants = Constants(**shared["constants"]["chosen"])

    def score(method: Method) -> dict[str, Any]:
        made = features(method.n_filters, constants)
        return evaluate(made, split, mirrored=method.mirrored)._asdict()

    found = ctx.parts(settings, {method.name: partial(score, method) for method in methods})
    accuracies = {name: 100 * one["accuracy"] for name, one in found.items()}
    return Result(
        columns=(
            "Method",
            "Paper (%)",
            f"Ours, {split.name} (%)",
            "C",
            "learn",
            "encode",
            "classifier",
        ),
        rows=[
            *(_row(method, found[method.name]) for method in methods),
            *((name, f"{figure:g}", "", "", "", "", "") for name, figure in QUOTED.items()),
        ],
        values={},
        settings=settings,
        note=NOTE.format(**constants._asdict()),
        checks=() if ctx.quick else checks(accuracies),
    )


def _row(method: Method, found: Mapping[str, Any]) -> tuple[str, ...]:
    """Write one line of the table."""
    seconds = [
        f"{found[key]:.1f}" for key in ("learn_seconds", "encode_seconds", "classifier_seconds")
    ]
    return (method.name, method.paper, percent([found["accuracy"]]), f"{found['C']:.3g}", *seconds)


def checks(accuracies: Mapping[str, float]) -> list[Check]:
    """Ask whether the paper's figures are reached, and by which row.

    Parameters
    ----------
    accuracies : mapping of str to float
        Accuracy of every method on the test images in percent.

    Returns
    -------
    list of Check
    """
    own = {m.name: float(m.paper) for m in METHODS if m.paper}
    few, many = (accuracies[name] for name in own)
    return [
        *(reached(name, figure, {name: accuracies[name]}) for name, figure in own.items()),
        Check(
            "4800 maps are better than 1600",
            many > few,
            f"{many:.1f} % against {few:.1f} %",
        ),
        *(
            reached(f"by one layer here, the paper's figure of “{name}”", figure, accuracies)
            for name, figure in QUOTED.items()
        ),
    ]
