"""P1, table 3: STL-10, one layer; a head is trained on each official fold and scored outside it."""

from __future__ import annotations

from typing import Any

import numpy as np

from clusterica.arrays import to_host
from clusterica.experiments._context import Context
from clusterica.experiments._recognition import (
    POOLINGS,
    percent,
    rows_of,
    save_classifier,
    stl10,
)
from clusterica.experiments._registry import experiment
from clusterica.experiments._result import Result
from clusterica.images import ImageFeatures
from clusterica.linear import LinearSVC
from clusterica.preprocessing import ContrastNormalizer

NOTE = (
    "Filters are learned from the training images alone, at full size (the paper also had 100,000 "
    "unlabelled images). Each head is trained on the {n_fold:,} images of a fold, with C, the constant of "
    "contrast normalisation and the pooling chosen together by cross-validation among them, and scored "
    "on the {n_outside:,} training images outside it; the paper scored the test images. The models of all "
    "folds, and one trained on all training images, are written beside the table as "
    "P1-table3-fold0.safetensors and so on: clusterica.load reads one, and its predict takes images."
)
# The constant of contrast normalisation, and the pooling, of features among which each fold chooses.
TRIED = [
    [c, pooling]
    for pooling in ("sum over 2 x 2", "L2 over 1, 2 x 2 and 3 x 3")
    for c in (10.0, 100.0, 1000.0)
]
QUOTED = (
    ("1 layer, 4800 maps", "53.8 ± 1.6"),
    ("2 layers, single / random / learned fields", "55.0 ± 0.8 / 54.4 ± 1.2 / 58.9 ± 1.1"),
    ("3 layers, learned fields", "60.1 ± 1.0"),
    ("Sparse coding (quoted)", "59.0 ± 0.8"),
    ("VQ (quoted)", "54.9 ± 0.4"),
)


@experiment(
    "P1-table3",
    title="STL-10, one layer",
    paper="Coates & Ng 2012 (P1), table 3",
    claim="One layer of 1600 filters reaches 54.5 % on STL-10.",
    draws=False,
    options=("data", "device"),
)
def run(ctx: Context) -> Result:
    """Learn filters once, train a head for every fold, and save the models."""
    train, folds, name = stl10(ctx)
    settings: dict[str, Any] = {
        "data": name,
        "n_filters": ctx.choose(full=1600, quick=40),
        "patch_size": ctx.choose(full=8, quick=4) if ctx.data is not None or not ctx.quick else 4,
        "n_patches": ctx.choose(full=400_000, quick=20_000),
        "tried": ctx.choose(full=TRIED, quick=TRIED[::3]),
    }
    tried = []
    for contrast, pooling in settings["tried"]:
        features = ImageFeatures(
            settings["n_filters"],
            patch_size=settings["patch_size"],
            n_patches=settings["n_patches"],
            normalizer=ContrastNormalizer(contrast),
            random_state=ctx.seed,
            **POOLINGS[pooling],
        ).fit(train.images)
        tried.append((features, features.transform(train.images)))
    everything = np.arange(len(train.labels))
    accuracies, strengths, chosen, models = [], [], [], []
    for i, fold in enumerate(ctx.track(folds, "Folds")):
        best, head = _choose(tried, train.labels, fold)
        features, X = tried[best]
        outside = np.setdiff1d(everything, fold)
        predicted = to_host(head.predict(rows_of(X, outside)))
        accuracies.append(float((predicted == train.labels[outside]).mean()))
        strengths.append(float(head.C_))
        chosen.append(settings["tried"][best])
        models.append(save_classifier(ctx, features, head, f"P1-table3-fold{i}"))
    best, head = _choose(tried, train.labels, everything)
    models.append(save_classifier(ctx, tried[best][0], head, "P1-table3-all"))
    n_filters = settings["n_filters"]
    paper = "54.5 ± 0.8" if n_filters == 1600 else "54.5 ± 0.8 (1600 maps)"
    rows = [(f"1 layer, {n_filters} maps", paper, percent(accuracies))]
    n_fold = len(folds[0])
    return Result(
        columns=("Method", "Paper (%)", f"Ours, {name} (%)"),
        rows=[*rows, *((what, figure, "") for what, figure in QUOTED)],
        values={
            "accuracies": accuracies,
            "C": strengths,
            "chosen": chosen,
            "models": models,
        },
        settings=settings,
        note=NOTE.format(n_fold=n_fold, n_outside=len(everything) - n_fold),
    )


def _choose(tried: list, labels: np.ndarray, known: np.ndarray) -> tuple[int, LinearSVC]:
    """Return which features do best among the images with known labels, and the head on them.

    A head that chooses its C by cross-validation says how well it does there: no other fits are needed.
    """
    heads = [
        LinearSVC(C="auto", random_state=0).fit(rows_of(X, known), labels[known]) for _, X in tried
    ]
    best = int(np.argmax([head.validation_scores_.max() for head in heads]))
    return best, heads[best]
