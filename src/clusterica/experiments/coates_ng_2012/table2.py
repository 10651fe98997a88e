"""Coates & Ng 2012, table 2: CIFAR-10 with 400 labels a class, one to three layers; means over ten draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

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
    rows_of,
    smaller,
    validation_score,
)
from clusterica.experiments._registry import experiment
from clusterica.experiments._result import Check, Result
from clusterica.experiments.coates_ng_2012._methods import (
    DEFAULT_POOLING,
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
)
from clusterica.linear import LinearSVC

NOTE = (
    "Filters are learned from all training images without labels. Each of the draws "
    "takes so many labelled images a class from the training set at random; C is chosen on a part of them, "
    "and all test images are scored. The constants of contrast normalisation and whitening (contrast "
    "{contrast:g}, whitening {whitening:g}), and in the rows that say so the pooling ({pooling}), are chosen "
    "on training images that other draws of labels hold out; otherwise codes are summed over 2 x 2 cells. "
    "Mirrored training images and pooling by validation are not in the paper. "
)
METHODS = (
    Method("1 layer, 1600 maps", "64.6 ± 0.8", 1600),
    Method("1 layer, 4800 maps", "63.7 ± 0.7", 4800),
    Method("VQ, 1600 maps", "64.4 ± 1.0", 1600, codes="VQ"),
    Method("Sparse coding, 1600 maps", "66.4 ± 0.8", 1600, codes="sparse coding"),
    *network_methods(("65.8 ± 0.3", "65.8 ± 0.9", "69.2 ± 0.7", "70.7 ± 0.7")),
    Method("1 layer, 1600 maps, pooling by validation", "", 1600, pooled_by_choice=True),
    Method(
        "1 layer, 1600 maps, the same and mirrored training images",
        "",
        1600,
        mirrored=True,
        pooled_by_choice=True,
    ),
    *RECIPES,
)
# In a quick run: one layer, sparse coding, a network, pooling by validation, and a recipe.
QUICK = (METHODS[0], METHODS[3], METHODS[6], METHODS[8], METHODS[9], RECIPES[0])


@experiment(
    "P1-table2",
    title="CIFAR-10 with 400 labels a class, one to three layers",
    paper="Coates & Ng 2012, table 2",
    claim="With 400 labels a class one layer reaches 64.6 %, and more filters do not help; "
    "two layers with learned receptive fields reach 69.2 %, three 70.7 %.",
    draws=False,
    options=("data", "device", "rows"),
    needs="CIFAR-10, a GPU",
    minutes=1.4,
)
def run(ctx: Context) -> Result:
    """Learn filters once for each method, and train a classifier for every draw of labels."""
    split = cifar10(ctx)
    methods = ctx.choose(full=METHODS, quick=tuple(map(smaller, QUICK)))
    settings: dict[str, Any] = {
        "data": split.name,
        "patch_size": ctx.choose(full=6, quick=4),
        "n_patches": ctx.choose(full=400_000, quick=20_000),
        "labels_per_class": ctx.choose(full=400, quick=20),
        "n_draws": ctx.choose(full=10, quick=3),
    }
    networks = network_settings(ctx)
    # A recipe takes as long for a draw as a row of the paper for ten.
    recipes = {"recipe_draws": 3}
    draws = label_subsets(
        split.train.labels, settings["labels_per_class"], settings["n_draws"], ctx.seed
    )

    make = partial(make_features, settings={**settings, **networks}, seed=ctx.seed)

    def score(features: Any) -> float:
        n = settings["labels_per_class"]
        return validation_score(features, split.train, seed=ctx.seed, per_class=n)

    def choose() -> dict[str, Any]:
        chosen, scores = choose_constants(lambda c: score(make(methods[0], constants=c)))
        poolings = {
            name: score(make(methods[0], constants=chosen, pooling=name)) for name in POOLINGS
        }
        best = max(poolings, key=lambda name: poolings[name])
        return {
            "chosen": chosen._asdict(),
            "validation": scores,
            "pooling": best,
            "validation of poolings": poolings,
        }

    shared = ctx.parts(settings, {"constants": choose}, always=True, description="Constants")
    constants, best = Constants(**shared["constants"]["chosen"]), shared["constants"]["pooling"]

    def train(method: Method) -> dict[str, Any]:
        if method.recipe:
            model = make_recipe(ctx, method, split.train.images).learn(split.train.images)
            some = draws[: recipes["recipe_draws"]]
            return recipe_row(model, (_drawn(split, draw) for draw in some))._asdict()
        pooling = best if method.pooled_by_choice else DEFAULT_POOLING
        features = make(method, constants=constants, pooling=pooling).fit(split.train.images)
        return _scores(features, split, draws, mirrored=method.mirrored)._asdict()

    found = ctx.parts(
        settings,
        {method.name: partial(train, method) for method in methods},
        more={
            **{method.name: networks for method in methods if method.n_layers > 1},
            **{method.name: recipes for method in methods if method.recipe},
        },
        optional=[method.name for method in methods if not method.one_layer],
    )
    columns, rows = table(methods, found, split.name)
    return Result(
        columns=columns,
        rows=rows,
        values={},
        settings={**settings, **networks, **recipes},
        note=NOTE.format(**constants._asdict(), pooling=best)
        + method_note(methods, found, {**networks, **recipes}),
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
    own = [m for m in METHODS if m.paper]
    few, many = own[:2]
    spread = 100 * float(np.std(accuracies[few.name], ddof=1))
    gain = means[many.name] - means[few.name]
    return [
        *reached_checks((few, many), means),
        Check(
            "more maps do not help with few labels: 4800 are better than 1600, here, by no more than the "
            "deviation over draws",
            gain <= spread,
            f"{gain:+.2f} points, the deviation is {spread:.2f}",
        ),
        *reached_checks([m for m in own[2:] if m.codes or m.measure == "energy"], means),
        *network_checks(means, own),
    ]


def _drawn(split: Split, draw: np.ndarray) -> Split:
    """Return the images whose labels are drawn, and the test images."""
    known = Labeled(rows_of(split.train.images, draw), split.train.labels[draw])
    return Split(known, split.test, split.name)


def _scores(features: Any, split: Split, draws: list[np.ndarray], *, mirrored: bool) -> Row:
    """Train a classifier on every draw of labels and score it on the test images."""
    rest = Labeled(features.transform(split.test.images), split.test.labels)
    row = Row([], [], [], [])
    for draw in draws:
        X, y = encode_training(features, _drawn(split, draw).train, mirrored=mirrored)
        classifier = LinearSVC(C="auto", random_state=0)
        if mirrored:
            classifier.set_params(validation=np.tile(a_fifth(len(draw)), 2))
        row.add(features, classifier.fit(X, y), Labeled(X, y), rest)
    return row
