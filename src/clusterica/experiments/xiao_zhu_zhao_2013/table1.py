"""Xiao, Zhu & Zhao, table 1: Caltech-101 with 15 training images a class."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from clusterica.arrays import namespace_of, to_host
from clusterica.experiments._context import Context
from clusterica.experiments._recognition import (
    Constants,
    choose_constants,
    rows_of,
    score_unseen,
)
from clusterica.experiments._registry import experiment
from clusterica.experiments._result import Result
from clusterica.experiments.xiao_zhu_zhao_2013._caltech import RESIZED, Pictures, caltech
from clusterica.experiments.xiao_zhu_zhao_2013._methods import (
    SLOW,
    SUPERVISED,
    Setting,
    candidates,
    cells,
    describe,
    few_steps,
    first_columns,
    is_slow,
    make_features,
    most_dead,
    share_dead,
)
from clusterica.experiments.xiao_zhu_zhao_2013._notes import (
    codes_note,
    labels_note,
    median_similarities,
    method_checks,
    similarity_note,
    slow_words,
)
from clusterica.images import ImageFeatures
from clusterica.linear import LinearSVC

NOTE = (
    "{n_train} images of each of {n_classes} classes are drawn for training and {n_test} others are scored; "
    "the paper also trained on 30, and does not tell which others it scored. Filters are learned from the "
    "training images. Other than in the paper: {differences}. The constants of contrast normalisation and "
    "whitening, of which the paper tells nothing, are chosen with K-means by the cross-validation of its "
    "classifier, on training images. Settings: the paper's λ, α and γ, then those that "
    "the cross-validation of the classifier chose among others, then these on several kinds of images "
    "({kinds}: colour and pixels of a patch), all features side by side. {slow}Dead there: the most of a "
    "kind. Accuracy is the mean over classes. Quoted rows are printed as the paper has them; P4-descriptors "
    "computes ScSPM, D-KSVD and LC-KSVD, from descriptors in place of patches."
)
SLOW_NOTE = "Own codes of {slow} have no last column. "
KSR_NOTE = "KSR's own codes are those of half as many patches in each direction as the others'. "
DIFFERENCES = (
    "{n_filters} filters{kica} in place of 1020, one patch in {stride} in each direction "
    "in place of all, and the largest of each sign of a code over {n_cells} cells ({grid}) in place of four "
    "numbers of a filter"
)
PAPER = {
    "K-means": "",
    "RICA": "67.1",
    "KICA": "65.2",
    "KSR": "67.9",
    "DRICA": "67.8",
    "d-RICA": "68.7",
    "kRICA": "68.2",
    "d-kRICA": "71.3",
    "kRICA, white": "",
    "d-kRICA, white": "",
}
QUOTED = (("ScSPM (quoted)", "67.0"), ("D-KSVD (quoted)", "65.1"), ("LC-KSVD (quoted)", "67.7"))
SETTING = Setting(sparsity=0.1, discrimination=1.0, gamma=0.01)


class Sizes(NamedTuple):
    """How much is learned and tried."""

    n_classes: int
    longest_side: int
    filters_per_class: int
    filters_per_class_kica: int
    """With its wide kernel rows vary in fewer directions than the others have filters."""
    n_patches: int
    stride: int
    patch_size: int
    grid: list[tuple[int, int]]
    kinds: list[tuple[str, int]]
    """Colour and patch size of the features that are put side by side."""
    n_train: int = 15
    n_test: int = 15
    n_scored: int = 1
    """Of the three parts of the training images, how many are scored to choose among settings."""


FULL = Sizes(
    n_classes=101,
    longest_side=128,
    filters_per_class=10,
    filters_per_class_kica=9,
    n_patches=50_000,
    stride=2,
    patch_size=10,
    grid=[(1, 1), (2, 2), (4, 4)],
    kinds=[(color, p) for color in ("grey", "rgb") for p in (6, 10, 16)],
)
QUICK = Sizes(
    n_classes=10,
    longest_side=64,
    filters_per_class=2,
    filters_per_class_kica=2,
    n_patches=2000,
    stride=1,
    patch_size=4,
    grid=[(1, 1), (2, 2)],
    kinds=[("grey", 3), ("grey", 4)],
)


class Halves(NamedTuple):
    """Images to train on and to score, in every colour that is used, with their labels."""

    train: dict[str, list[Any]]
    labels: np.ndarray
    test: dict[str, list[Any]]
    truth: np.ndarray


class Score(NamedTuple):
    """Mean accuracy over the classes, and accuracy in the cross-validation on training images.

    That is the classifier's, or that of features and classifier where both learn from labels.
    """

    accuracy: float
    validation: float


@experiment(
    "P4-table1",
    title="Caltech-101, 15 training images a class",
    paper="Xiao, Zhu & Zhao 2013, table 1",
    claim="With 1020 filters of 10 x 10 kRICA (68.2 %) beats RICA (67.1 %), and d-kRICA both (71.3 %).",
    draws=False,
    options=("data", "device", "rows"),
    needs="Caltech-101",
    minutes=65,
)
def run(ctx: Context) -> Result:
    """Train and score every method."""
    sizes = ctx.choose(full=FULL, quick=QUICK)
    pictures = {
        color: caltech(ctx, longest_side=sizes.longest_side, color=color)
        for color in dict(sizes.kinds)
    }
    data = pictures["grey"].name
    halves = _halves(pictures, sizes, ctx.seed)
    settings = {
        "data": data,
        "images": RESIZED.format(side=sizes.longest_side),
        **sizes._asdict(),
    }
    shared = {"constants": lambda: _constants(ctx, sizes, halves)}
    values = ctx.parts(settings, shared, always=True)
    constants = Constants(**values["constants"]["chosen"])
    jobs: dict[str, Callable[[], Any]] = {
        name: partial(_method, ctx, name, sizes, constants, halves) for name in PAPER
    }
    jobs["median k"] = lambda: median_similarities(
        halves.train["grey"],
        [SETTING, SETTING._replace(gamma=3.0)],
        patch_size=sizes.patch_size,
        steps=constants.steps(),
        seed=ctx.seed,
    )
    values |= ctx.parts(settings, jobs, optional=SLOW)
    quoted = [
        (f"{name} (quoted)", PAPER[name]) for name in SLOW if PAPER[name] and name not in values
    ]
    return Result(
        columns=(*first_columns(data), "Which", "Several sizes, grey and colour (%)"),
        rows=[
            *((name, PAPER[name], *cells(values[name])) for name in PAPER if name in values),
            *((name, figure, "", "", "", "") for name, figure in (*quoted, *QUOTED)),
        ],
        values={},
        settings=settings,
        note=_note(values, sizes),
        checks=()
        if ctx.quick
        else method_checks(PAPER, values, _kinds(sizes), _differences(values, sizes)),
    )


def _kinds(sizes: Sizes) -> str:
    words = ", ".join(f"{color} {size}" for color, size in sizes.kinds)
    return f"{len(sizes.kinds)} kinds of features side by side ({words}) where the paper has one"


def _differences(values: dict[str, Any], sizes: Sizes) -> str:
    n_kica = sizes.n_classes * sizes.filters_per_class_kica
    return DIFFERENCES.format(
        n_filters=sizes.n_classes * sizes.filters_per_class,
        kica=f" (KICA: {n_kica})" if "KICA" in values else "",
        stride=sizes.stride,
        n_cells=sum(height * width for height, width in sizes.grid),
        grid=", ".join(f"{height} x {width}" for height, width in sizes.grid),
    )


def _note(values: dict[str, Any], sizes: Sizes) -> str:
    kinds = ", ".join(f"{color} {size}" for color, size in sizes.kinds)
    slow = slow_words(values)
    numbers = sizes._asdict() | {
        "kinds": kinds,
        "differences": _differences(values, sizes),
        "slow": (KSR_NOTE if "KSR" in values else "")
        + (SLOW_NOTE.format(slow=slow) if slow else ""),
    }
    similar = similarity_note(values["median k"])
    return " ".join(
        (
            NOTE.format(**numbers),
            labels_note(sizes.n_scored),
            codes_note(values),
            similar,
        )
    )


def _constants(ctx: Context, sizes: Sizes, halves: Halves) -> dict[str, Any]:
    """Choose the constants of contrast normalisation and whitening with K-means."""

    def score(constants: Constants) -> float:
        setting = SETTING._replace(threshold=0.25)
        features = _features(ctx, "K-means", setting, sizes, constants, halves)
        return _score([features], ["grey"], halves).validation

    constants, scores = choose_constants(score)
    return {"chosen": constants._asdict(), "validation": scores}


def _halves(pictures: dict[str, Pictures], sizes: Sizes, seed: int) -> Halves:
    """Draw so many images of each class for training, and so many others to be scored."""
    rng = np.random.default_rng(seed)
    grey = pictures["grey"]
    orders = [rng.permutation(grey.members(c)) for c in np.unique(grey.labels)[: sizes.n_classes]]
    n, stop = sizes.n_train, sizes.n_train + sizes.n_test
    train, test = (
        np.concatenate([order[part] for order in orders]) for part in (slice(n), slice(n, stop))
    )

    def shape(i: int) -> tuple[int, ...]:
        return tuple(grey.images[i].shape[:2])

    # Images of one size one after the other: they are encoded together, twenty times as many at once.
    train, test = (np.array(sorted(chosen, key=shape)) for chosen in (train, test))
    return Halves(
        {color: found.of(train)[0] for color, found in pictures.items()},
        grey.labels[train],
        {color: found.of(test)[0] for color, found in pictures.items()},
        grey.labels[test],
    )


def _features(
    ctx: Context,
    name: str,
    setting: Setting,
    sizes: Sizes,
    constants: Constants,
    halves: Halves,
    patch_size: int | None = None,
) -> ImageFeatures:
    per_class = sizes.filters_per_class_kica if name == "KICA" else sizes.filters_per_class
    features = make_features(
        name,
        setting,
        n_filters=per_class * len(np.unique(halves.labels)),
        patch_size=sizes.patch_size if patch_size is None else patch_size,
        n_patches=sizes.n_patches,
        stride=sizes.stride * (2 if name == "KSR" and is_slow(name, setting) else 1),
        steps=constants.steps(),
        seed=ctx.seed,
    )
    features.set_params(pooling="max", grid=sizes.grid)
    return features


def _score(
    kinds: list[ImageFeatures],
    colors: list[str],
    halves: Halves,
    *,
    supervised: bool = False,
    n_scored: int = 1,
) -> Score:
    """Learn every kind of features on the images of its colour, and train one classifier on all of them.

    ``n_scored`` is that of `score_unseen`, which chooses C if features are supervised.
    """

    def learn(some: np.ndarray) -> Any:
        parts = []
        for features, color in zip(kinds, colors, strict=True):
            images = halves.train[color]
            again = clone(features).fit(rows_of(images, some), halves.labels[some])
            parts.append(again.transform(images))
        return _side_by_side(tuple(parts))

    unseen = score_unseen(learn, halves.labels, n_scored=n_scored) if supervised else None
    parts = []
    for features, color in zip(kinds, colors, strict=True):
        X = features.fit(halves.train[color], halves.labels).transform(halves.train[color])
        parts.append((X, features.transform(halves.test[color])))
    X, X_test = (_side_by_side(part) for part in zip(*parts, strict=True))
    classifier = LinearSVC(C=unseen.C if unseen else "auto", random_state=0).fit(X, halves.labels)
    right = to_host(classifier.predict(X_test)) == halves.truth
    accuracy = np.mean([right[halves.truth == c].mean() for c in np.unique(halves.truth)])
    validation = unseen.accuracy if unseen else classifier.validation_scores_.max()
    return Score(float(accuracy), float(validation))


def _side_by_side(parts: tuple[Any, ...]) -> Any:
    return parts[0] if len(parts) == 1 else namespace_of(parts[0]).concat(parts, axis=1)


def _method(
    ctx: Context, name: str, sizes: Sizes, constants: Constants, halves: Halves
) -> dict[str, Any]:
    """Score a method with the paper's weights, with the best ones of its classifier, and all we know."""
    tried: list[dict[str, Any]] = []
    settings = candidates(name, SETTING, quick=ctx.quick)
    labels: dict[str, Any] = {"supervised": name in SUPERVISED, "n_scored": sizes.n_scored}
    for setting in settings:
        features = _features(ctx, name, setting, sizes, constants, halves)
        with few_steps():
            score = _score([features], ["grey"], halves, **labels)
        tried.append(
            {"setting": describe(name, setting), **score._asdict(), "dead": share_dead(features)}
        )
    best = max(range(len(tried)), key=lambda i: tried[i]["validation"])
    found: dict[str, Any] = {"paper": tried[0], "best": tried[best], "tried": tried}
    if not is_slow(name, settings[best]):
        kinds = [
            _features(ctx, name, settings[best], sizes, constants, halves, patch_size)
            for _, patch_size in sizes.kinds
        ]
        with few_steps():
            together = _score(kinds, [color for color, _ in sizes.kinds], halves, **labels)
        found["several"] = {**together._asdict(), "dead": most_dead(kinds)}
    return found
