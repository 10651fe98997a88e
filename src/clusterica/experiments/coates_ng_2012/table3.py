"""Coates & Ng, table 3: STL-10, one layer; classifiers are trained on a fold and scored outside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from clusterica.arrays import to_host
from clusterica.experiments._context import Context
from clusterica.experiments._recognition import (
    POOLINGS,
    Labeled,
    percent,
    rows_of,
    save_classifier,
    stl10,
)
from clusterica.experiments._registry import experiment
from clusterica.experiments._result import Check, Result
from clusterica.images import ImageFeatures
from clusterica.linear import LinearSVC
from clusterica.preprocessing import ContrastNormalizer

NOTE = (
    "Filters are learned from the training images alone, at full size (the paper also had 100,000 "
    "unlabelled images). Each classifier is trained on the {n_fold:,} images of a fold, with C, the constant "
    "of contrast normalisation and the pooling chosen together by cross-validation among them, and scored "
    "on the {n_outside:,} training images outside it; the paper scored the test images, and pooled sums "
    "over 2 x 2. Chosen over the folds: {chosen}. The models of all folds with {n_saved} maps, and one "
    "trained on all training images, are written beside the table as P1-table3-fold0.safetensors and so on: "
    "clusterica.load reads one, and its predict takes images."
)
# The constant of contrast normalisation, and the pooling, of features among which each fold chooses.
TRIED = [
    [c, pooling]
    for pooling in ("sum over 2 x 2", "L2 over 1, 2 x 2 and 3 x 3")
    for c in (10.0, 100.0, 1000.0)
]
PAPER = {"1 layer, 1600 maps": "54.5 ± 0.8", "1 layer, 4800 maps": "53.8 ± 1.6"}
QUOTED = (
    ("2 layers, single / random / learned fields", "55.0 ± 0.8 / 54.4 ± 1.2 / 58.9 ± 1.1"),
    ("3 layers, learned fields", "60.1 ± 1.0"),
    ("Sparse coding (quoted)", "59.0 ± 0.8"),
    ("VQ (quoted)", "54.9 ± 0.4"),
)


@experiment(
    "P1-table3",
    title="STL-10, one layer",
    paper="Coates & Ng 2012, table 3",
    claim="One layer of 1600 filters reaches 54.5 % on STL-10, and 4800 filters do no better.",
    draws=False,
    options=("data", "device", "rows"),
    needs="STL-10, a GPU",
    minutes=10,
)
def run(ctx: Context) -> Result:
    """Learn filters once for each row, and train a classifier for every fold."""
    train, folds, data = stl10(ctx)
    built_in = ctx.quick and ctx.data is None
    settings: dict[str, Any] = {
        "data": data,
        "patch_size": 4 if built_in else 8,
        "n_patches": ctx.choose(full=400_000, quick=20_000),
        "tried": ctx.choose(full=TRIED, quick=TRIED[::3]),
        "n_folds": len(folds),
    }
    small, large = ctx.choose(full=(1600, 4800), quick=(40, 120))
    sizes = dict(zip(PAPER, (small, large), strict=True))
    jobs = {
        name: partial(_row, ctx, settings, train, folds, n_filters, saves=n_filters == small)
        for name, n_filters in sizes.items()
    }
    found = ctx.parts(settings, jobs)
    rows = [
        (f"1 layer, {sizes[name]} maps", _printed(name, sizes[name]), percent(row["accuracies"]))
        for name, row in found.items()
    ]
    numbers = {
        "n_fold": len(folds[0]),
        "n_outside": len(train.labels) - len(folds[0]),
        "n_saved": small,
        "chosen": _chosen_words(found, sizes),
    }
    return Result(
        columns=("Method", "Paper (%)", f"Ours, {data} (%)"),
        rows=[*rows, *((what, figure, "") for what, figure in QUOTED)],
        values={},
        settings=settings,
        note=NOTE.format(**numbers),
        checks=() if ctx.quick else _checks(found),
    )


def _printed(name: str, n_filters: int) -> str:
    """Return the paper's figure, with the number of maps where this run has fewer."""
    return PAPER[name] if f" {n_filters} " in name else f"{PAPER[name]} ({name.split(', ')[1]})"


def _chosen_words(found: dict[str, Any], sizes: dict[str, int]) -> str:
    words = []
    for name, row in found.items():
        counts = Counter(f"{pooling}, constant {c:g}" for c, pooling in row["chosen"])
        folds = ", ".join(f"{what} ({n} folds)" for what, n in counts.most_common())
        words.append(f"{sizes[name]} maps: {folds}")
    return "; ".join(words)


def _checks(found: dict[str, Any]) -> list[Check]:
    """Return whether the paper's figures are reached, and whether more maps do no better."""
    means = {name: 100 * float(np.mean(row["accuracies"])) for name, row in found.items()}
    checks = []
    for name, figure in PAPER.items():
        at_least = float(figure.split()[0])
        checks.append(
            Check(
                f"{name}, with pooling and contrast by cross-validation where the paper pools sums over "
                f"2 x 2, reaches the paper's {at_least:g} %",
                round(means[name], 1) >= at_least,
                f"{means[name]:.1f} %",
            )
        )
    few, many = means.values()
    return [
        *checks,
        Check("4800 maps do no better than 1600", many <= few, f"{many:.1f} and {few:.1f} %"),
    ]


def _row(
    ctx: Context,
    settings: dict[str, Any],
    train: Labeled,
    folds: Sequence[np.ndarray],
    n_filters: int,
    *,
    saves: bool,
) -> dict[str, Any]:
    """Learn filters, train and score a classifier for every fold, and save the models if asked."""
    tried = []
    for contrast, pooling in settings["tried"]:
        features = ImageFeatures(
            n_filters,
            patch_size=settings["patch_size"],
            n_patches=settings["n_patches"],
            normalizer=ContrastNormalizer(contrast),
            random_state=ctx.seed,
            **POOLINGS[pooling],
        ).fit(train.images)
        tried.append((features, features.transform(train.images)))
    everything = np.arange(len(train.labels))
    row: dict[str, list[Any]] = {"accuracies": [], "C": [], "chosen": [], "models": []}
    for i, fold in enumerate(ctx.track(folds, "Folds")):
        best, classifier = _choose(tried, train.labels, fold)
        features, X = tried[best]
        outside = np.setdiff1d(everything, fold)
        predicted = to_host(classifier.predict(rows_of(X, outside)))
        row["accuracies"].append(float((predicted == train.labels[outside]).mean()))
        row["C"].append(float(classifier.C_))
        row["chosen"].append(settings["tried"][best])
        if saves:
            row["models"].append(save_classifier(ctx, features, classifier, f"P1-table3-fold{i}"))
    if saves:
        best, classifier = _choose(tried, train.labels, everything)
        features = tried[best][0]
        row["models"].append(save_classifier(ctx, features, classifier, "P1-table3-all"))
    return row


def _choose(tried: list[Any], labels: np.ndarray, known: np.ndarray) -> tuple[int, LinearSVC]:
    """Return which features do best among the images with known labels, and the classifier on them.

    A classifier that chooses its C by cross-validation says how well it does there: no other fits are needed.
    """
    classifiers = [
        LinearSVC(C="auto", random_state=0).fit(rows_of(X, known), labels[known]) for _, X in tried
    ]
    best = int(np.argmax([found.validation_scores_.max() for found in classifiers]))
    return best, classifiers[best]
