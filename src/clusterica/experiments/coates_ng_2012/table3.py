"""Coates & Ng 2012, table 3: STL-10, one to three layers; classifiers are trained on a fold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from clusterica.arrays import to_host
from clusterica.experiments._context import Context
from clusterica.experiments._recognition import (
    Constants,
    Labeled,
    Split,
    placed,
    rows_of,
    save_classifier,
    smaller,
    stl10,
)
from clusterica.experiments._registry import experiment
from clusterica.experiments._result import Check, Result
from clusterica.experiments.coates_ng_2012._methods import (
    RECIPES,
    Method,
    Row,
    make_features,
    make_recipe,
    method_note,
    network_checks,
    network_methods,
    network_settings,
    reached_checks,
    recipe_row,
    table,
    take_numbers,
)
from clusterica.linear import LinearSVC

NOTE = (
    "Filters are learned from the training images alone, at full size (the paper also had 100,000 "
    "unlabelled images). Each classifier is trained on the {n_fold:,} images of a fold, with C, the "
    "constant of contrast normalisation and the pooling chosen together by cross-validation among them, "
    "and scored on the {n_outside:,} training images outside it; the paper scored the test images. "
    "Rows of other codes and of several layers choose among {few} alone, those that one layer of 1600 maps "
    "chose in most folds. "
    "Chosen over the folds: {chosen}. The models of all folds with {n_saved} maps, and one trained on "
    "all training images, are written beside the table as P1-table3-fold0.safetensors and so on: "
    "clusterica.load reads one, and its predict takes images. "
)
WHERE = ", scored on training images, contrast and pooling by cross-validation"
# The constant of contrast normalisation, and the pooling, of features among which each fold chooses.
TRIED = [
    [c, pooling]
    for pooling in ("sum over 2 x 2", "L2 over 1, 2 x 2 and 3 x 3")
    for c in (10.0, 100.0, 1000.0)
]
# Those that one layer takes in most folds: others would take too long for networks and codes.
TRIED_FEW = TRIED[-2:]
METHODS = (
    Method("1 layer, 1600 maps", "54.5 ± 0.8", 1600),
    Method("1 layer, 4800 maps", "53.8 ± 1.6", 4800),
    Method("VQ, 1600 maps", "54.9 ± 0.4", 1600, codes="VQ"),
    Method("Sparse coding, 1600 maps", "59.0 ± 0.8", 1600, codes="sparse coding"),
    *network_methods(("55.0 ± 0.8", "54.4 ± 1.2", "58.9 ± 1.1", "60.1 ± 1.0")),
    *RECIPES,
)
# In a quick run: one layer of two sizes, VQ, a network, and a recipe.
QUICK = (METHODS[0], METHODS[1], METHODS[2], METHODS[6], RECIPES[0])


@experiment(
    "P1-table3",
    title="STL-10, one to three layers",
    paper="Coates & Ng 2012, table 3",
    claim="One layer reaches 54.5 % on STL-10, and 4800 filters do no better; two layers "
    "with learned receptive fields reach 58.9 %, three 60.1 %.",
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
    networks = {
        **network_settings(ctx),
        # Images of 96 x 96 have 89 x 89 patches: cells of 5 x 5 leave 18 x 18 for the next layer.
        "first_pool": 2 if built_in else 5,
    }
    sparse = {"sparse_stride": 4}
    few = {"tried": ctx.choose(full=TRIED_FEW, quick=TRIED[::3])}
    methods = ctx.choose(full=METHODS, quick=tuple(map(smaller, QUICK)))

    def its_own(method: Method) -> dict[str, Any]:
        own = networks if method.n_layers > 1 else sparse if method.codes == "sparse coding" else {}
        return own if method.one_layer or method.recipe else {**own, **few}

    def score(method: Method) -> dict[str, Any]:
        if method.recipe:
            model = make_recipe(ctx, method, train.images).learn(train.images)
            take_numbers(model, train.images)
            numbered = Labeled(np.arange(len(train.labels)), train.labels)
            splits = (_split(numbered, fold) for fold in ctx.track(folds, "Folds"))
            return {**recipe_row(model, splits)._asdict(), "chosen": [], "models": []}
        saves = method is methods[0]
        return _scores(ctx, {**settings, **its_own(method)}, train, folds, method, saves=saves)

    found = ctx.parts(
        settings,
        {method.name: partial(score, method) for method in methods},
        more={method.name: its_own(method) for method in methods},
        optional=[method.name for method in methods if not method.one_layer],
    )
    numbers = {
        "n_fold": len(folds[0]),
        "n_outside": len(train.labels) - len(folds[0]),
        "n_saved": methods[0].n_filters,
        "chosen": _chosen_words(found),
        "few": ", ".join(f"{pooling}, constant {c:g}" for c, pooling in few["tried"]),
    }
    columns, rows = table(methods, found, data)
    return Result(
        columns=columns,
        rows=rows,
        values={},
        settings={**settings, **networks, **sparse},
        note=NOTE.format(**numbers) + method_note(methods, found, {**networks, **sparse}),
        checks=()
        if ctx.quick
        else checks({name: one["accuracies"] for name, one in found.items()}),
    )


def _chosen_words(found: Mapping[str, Any]) -> str:
    words = []
    for name, row in found.items():
        if row["chosen"]:
            counts = Counter(f"{pooling}, constant {c:g}" for c, pooling in row["chosen"])
            folds = ", ".join(f"{what} ({n} folds)" for what, n in counts.most_common())
            words.append(f"{name}: {folds}")
    return "; ".join(words)


def checks(accuracies: Mapping[str, Sequence[float]]) -> list[Check]:
    """Ask whether the paper's figures are reached, whether more maps do no better, and what networks gain.

    Parameters
    ----------
    accuracies : mapping of str to sequence of float
        Accuracies outside the folds, one for each fold.

    Returns
    -------
    list of Check
    """
    means = {name: 100 * float(np.mean(folds)) for name, folds in accuracies.items()}
    own = [m for m in METHODS if m.paper]
    few, many = own[:2]
    return [
        *reached_checks((few, many), means, WHERE),
        Check(
            "4800 maps do no better than one layer of fewer, 1600 here",
            means[many.name] <= means[few.name],
            f"{means[many.name]:.1f} and {means[few.name]:.1f} %",
        ),
        *reached_checks([m for m in own[2:] if m.codes or m.measure == "energy"], means, WHERE),
        *network_checks(means, own),
    ]


def _split(train: Labeled, fold: np.ndarray) -> Split:
    """Return the images of a fold, and those outside it."""
    outside = np.setdiff1d(np.arange(len(train.labels)), fold)
    known, rest = (
        Labeled(rows_of(train.images, chosen), train.labels[chosen]) for chosen in (fold, outside)
    )
    return Split(known, rest, "a fold")


def _scores(
    ctx: Context,
    settings: dict[str, Any],
    train: Labeled,
    folds: Sequence[np.ndarray],
    method: Method,
    *,
    saves: bool,
) -> dict[str, Any]:
    """Learn features, train and score a classifier for every fold, and save the models if asked."""
    tried = []
    for contrast, pooling in settings["tried"]:
        features = make_features(
            method, settings, Constants(contrast), seed=ctx.seed, pooling=pooling
        ).fit(train.images)
        # In host memory: several sets of features of a network do not fit a GPU.
        tried.append((features, to_host(features.transform(train.images))))
    row, chosen, models = Row([], [], [], []), [], []
    for i, fold in enumerate(ctx.track(folds, "Folds")):
        best, classifier = _choose(ctx, tried, train.labels, fold)
        features, X = tried[best]
        known, rest, _ = _split(Labeled(X, train.labels), fold)
        row.add(
            features,
            classifier,
            known._replace(images=placed(ctx, known.images)),
            rest._replace(images=placed(ctx, rest.images)),
        )
        chosen.append(settings["tried"][best])
        if saves:
            models.append(save_classifier(ctx, features, classifier, f"P1-table3-fold{i}"))
    if saves:
        best, classifier = _choose(ctx, tried, train.labels, np.arange(len(train.labels)))
        models.append(save_classifier(ctx, tried[best][0], classifier, "P1-table3-all"))
    return {**row._asdict(), "chosen": chosen, "models": models}


def _choose(
    ctx: Context, tried: list[Any], labels: np.ndarray, known: np.ndarray
) -> tuple[int, LinearSVC]:
    """Return which features do best among the images with known labels, and the classifier on them.

    A classifier that chooses its C by cross-validation says how well it does there: no other fits are needed.
    """
    classifiers = [
        LinearSVC(C="auto", random_state=0).fit(placed(ctx, X[known]), labels[known])
        for _, X in tried
    ]
    best = int(np.argmax([found.validation_scores_.max() for found in classifiers]))
    return best, classifiers[best]
