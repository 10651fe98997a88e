"""Xiao, Zhu & Zhao, table 3: STL-10 by pixels, K-means, KICA, KSR, and RICA with its kernel and labels."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from clusterica.arrays import namespace_of
from clusterica.cluster import KMeans
from clusterica.experiments._context import Context
from clusterica.experiments._recognition import POOLINGS, Constants, stl10
from clusterica.experiments._registry import experiment
from clusterica.experiments._result import Check, Result
from clusterica.experiments.xiao_zhu_zhao_2013._methods import (
    NAMES,
    SUPERVISED,
    WHITE,
    Scored,
    Setting,
    accuracy_cell,
    candidates,
    describe,
    first_columns,
    is_slow,
    make_features,
)
from clusterica.experiments.xiao_zhu_zhao_2013._notes import (
    codes_note,
    column_checks,
    labels_note,
    median_similarities,
    similarity_note,
    slow_words,
)
from clusterica.experiments.xiao_zhu_zhao_2013._stl import FoldScores, folds_note, score_folds
from clusterica.images import ImageFeatures

NOTE = (
    "Settings: the paper's λ, α and γ, then those that cross-validation inside the fold chose among them and "
    "others, one of which takes L2 pooling over 1, 2 x 2 and 3 x 3 cells, for supervised methods the "
    "choice of RICA or kRICA in that fold. {n_filters} filters from {n_patches:,} patches. Own "
    "codes of {slow} are those of one patch in {stride_slow} in each "
    "direction, others of one in {stride}, where the paper takes all. “K-means, triangle” is learned from "
    "{n_patches_triangle:,} patches, and takes all: it is left out of the order. Codes of both signs are two "
    "features, summed over 2 x 2 cells. Raw pixels are those of the images at full size. The models of "
    "all folds are written beside the table, as P4-table3-kRICA-fold0.safetensors and so on: "
    "clusterica.load reads one, and its predict takes images."
)
TRIANGLE = "K-means, triangle"
PAPER = {
    "Raw pixels": "31.8",
    TRIANGLE: "51.5",
    "K-means, soft threshold": "",
    "RICA, 8x8": "51.4",
    "RICA, 10x10": "52.9",
    "KICA": "51.1",
    "KSR": "54.4",
    "DRICA": "54.2",
    "d-RICA": "54.8",
    "kRICA": "55.2",
    "d-kRICA": "56.9",
    "kRICA, white": "",
    "d-kRICA, white": "",
}
OPTIONAL = ("KSR", *WHITE)
"""Rows that the table can do without: with their codes, they take longer than all others together."""
TEACHERS = {
    "DRICA": "RICA, 8x8",
    "d-RICA": "RICA, 8x8",
    "d-kRICA": "kRICA",
    "d-kRICA, white": "kRICA, white",
}


class Sizes(NamedTuple):
    """How much is learned."""

    n_filters: int
    patch_size: int
    wider: int
    """The other size of patches, for RICA."""
    n_patches: int
    stride: int
    stride_slow: int
    n_scored: int
    """Of the three parts of a fold, how many are scored to choose settings of supervised methods."""


class Pixels(TransformerMixin, BaseEstimator):
    """Every image as a row of its pixels, from 0..255 to 0..1."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Keep nothing but the number of pixels."""
        self.n_pixels_ = int(np.prod(X.shape[1:]))
        return self

    def transform(self, X: Any) -> Any:
        """Return the pixels, shape (n_images, n_pixels)."""
        xp = namespace_of(X)
        return xp.astype(xp.reshape(X, (X.shape[0], self.n_pixels_)), xp.float32) / 255


@experiment(
    "P4-table3",
    title="STL-10: raw pixels, K-means, RICA and its kin",
    paper="Xiao, Zhu & Zhao 2013, table 3",
    claim="With 1600 filters kRICA (55.2 %) beats RICA (51.4 %), and d-kRICA both (56.9 %).",
    draws=False,
    options=("data", "device", "rows"),
    needs="STL-10, a GPU",
    minutes=35,
)
def run(ctx: Context) -> Result:
    """Make all kinds of features and train a classifier for every fold."""
    train, folds, data = stl10(ctx)
    built_in = ctx.quick and ctx.data is None
    sizes = Sizes(
        n_filters=ctx.choose(full=1600, quick=20),
        patch_size=4 if built_in else 8,
        wider=5 if built_in else 10,
        n_patches=ctx.choose(full=100_000, quick=3000),
        stride=ctx.choose(full=2, quick=1),
        stride_slow=ctx.choose(full=4, quick=2),
        n_scored=1,
    )
    folds = folds[: ctx.choose(full=3, quick=2)]
    settings = {"data": data, "n_folds": len(folds), **sizes._asdict()}

    def row(name: str, make: list[Any]) -> dict[str, Any]:
        supervised = name in SUPERVISED
        models = f"P4-table3-{_short(name)}"
        found = score_folds(
            ctx,
            make,
            train,
            folds,
            supervised=supervised,
            name=models,
            n_scored=sizes.n_scored,
        )
        return found._asdict()

    rows = {name: _candidates(ctx, name, sizes, {}) for name in PAPER if name not in TEACHERS}
    jobs: dict[str, Callable[[], Any]] = {
        name: partial(row, name, make) for name, (make, _) in rows.items()
    }
    # Supervised methods need their teachers alone: any other row may still be missing when they are run.
    values = ctx.parts(settings, jobs, optional=[*jobs], description="Unsupervised methods")
    # Those of every fold: the images of one fold are scored in others.
    choices = {
        name: [rows[name][1][chosen] for chosen in found["chosen"]]
        for name, found in values.items()
    }
    unsupervised, jobs = [*jobs], {}
    for name, teacher in TEACHERS.items():
        if teacher in choices:
            rows[name] = _candidates(ctx, name, sizes, choices)
            jobs[name] = partial(row, name, rows[name][0])
        else:
            jobs[name] = partial(_untaught, name, teacher)
    jobs["median k"] = lambda: median_similarities(
        train.images,
        [Setting(), Setting(gamma=3.0)],
        patch_size=sizes.patch_size,
        steps=Constants().steps(),
        seed=ctx.seed,
    )
    values |= ctx.parts(
        settings,
        jobs,
        needed=unsupervised,
        optional=OPTIONAL,
        description="Supervised methods",
    )
    similar = similarity_note(values.pop("median k"))
    # A row in white space without its teacher has settings that are not known here.
    scores = {name: FoldScores(**values[name]) for name in PAPER if name in values and name in rows}
    return Result(
        columns=(*first_columns(data), "Which, in the first fold"),
        rows=[
            (name, PAPER[name], *_cells(name, found, rows[name][1]))
            for name, found in scores.items()
        ],
        values={},
        settings=settings,
        note=" ".join(
            (
                NOTE.format(
                    n_patches_triangle=_n_triangle(ctx), slow=slow_words(scores), **sizes._asdict()
                ),
                folds_note(train, folds),
                labels_note(sizes.n_scored),
                codes_note({_method(name) for name in scores}),
                similar,
            )
        ),
        checks=() if ctx.quick else _checks(scores, sizes),
    )


def _untaught(name: str, teacher: str) -> None:
    """Stop, since a supervised method cannot be run yet."""
    raise ValueError(
        f"row {name!r} takes the settings that row {teacher!r} chose, which is not there yet; give both to "
        "--rows"
    )


def _cells(name: str, found: FoldScores, settings: list[Any]) -> tuple[str, str, str]:
    """Return accuracy with the paper's weights, with settings of validation, and what these are."""
    best = found.chosen[0]
    first_dead, best_dead = (found.dead[i] if found.dead else None for i in (0, best))
    return (
        accuracy_cell(found.first, first_dead),
        accuracy_cell(found.accuracies, best_dead),
        _words(name, settings[best]),
    )


def _checks(scores: dict[str, FoldScores], sizes: Sizes) -> tuple[Check, ...]:
    """Return whether the order and the figures hold, with the paper's weights and with ours."""
    differences = (
        f"one patch in {sizes.stride} in each direction ({sizes.stride_slow}: {slow_words(scores)}), each "
        "sign of a code as a feature, and images outside a fold in place of test images"
    )
    given, chosen = {}, {}
    for name, found in scores.items():
        first, best = (found.dead[i] if found.dead else None for i in (0, found.chosen[0]))
        given[name] = Scored(float(np.mean(found.first)), first)
        chosen[name] = Scored(float(np.mean(found.accuracies)), best)
    where = f"With the paper's λ, α and γ, but {differences}"
    tuned = "With weights, starts, steps, codes and pooling by validation, and the same differences"
    return (
        *column_checks(PAPER, given, where, unequal=TRIANGLE),
        *column_checks(PAPER, chosen, tuned, unequal=TRIANGLE),
    )


def _candidates(
    ctx: Context, name: str, sizes: Sizes, choices: dict[str, list[Setting]]
) -> tuple[list[Any], list[Any]]:
    """Return the features of a row, that of the paper first, and their settings, in the first fold."""
    if name == "Raw pixels":
        return [Pixels], [None]
    if name == TRIANGLE:
        return [partial(_triangle, ctx, sizes)], [None]
    method = _method(name)
    settings = candidates(method, Setting(), quick=ctx.quick)
    if name in TEACHERS:
        taught = choices[TEACHERS[name]]
        make = [_maker(ctx, name, sizes, setting) for setting in taught]
        return [_maker(ctx, name, sizes, settings[0]), make], [settings[0], taught[0]]
    if not is_slow(method, settings[-1]):
        settings.append(settings[-1]._replace(threshold=0.25, pooling=list(POOLINGS)[-1]))
    return [_maker(ctx, name, sizes, setting) for setting in settings], settings


def _maker(ctx: Context, name: str, sizes: Sizes, setting: Setting) -> Callable[[], Any]:
    """Return what makes the features of a row with a setting."""
    method = _method(name)
    return partial(
        make_features,
        method,
        setting,
        n_filters=sizes.n_filters,
        patch_size=sizes.wider if name == "RICA, 10x10" else sizes.patch_size,
        n_patches=sizes.n_patches,
        stride=sizes.stride_slow if is_slow(method, setting) else sizes.stride,
        steps=Constants().steps(),
        seed=ctx.seed,
    )


def _n_triangle(ctx: Context) -> int:
    """Return the number of patches of triangle codes, whose row is as Coates et al. have it."""
    return ctx.choose(full=400_000, quick=20_000)


def _triangle(ctx: Context, sizes: Sizes) -> ImageFeatures:
    return ImageFeatures(
        sizes.n_filters,
        patch_size=sizes.patch_size,
        n_patches=_n_triangle(ctx),
        learner=KMeans(
            init="gaussian", max_iter=ctx.choose(full=50, quick=10), compute_labels=False
        ),
        encoder="triangle",
        random_state=ctx.seed,
    )


def _words(name: str, setting: Setting | None) -> str:
    return "" if setting is None else describe(_method(name), setting)


def _method(name: str) -> str:
    """Return the method of a row: its name without the size of patches or the codes."""
    return name if name in NAMES else name.split(",")[0]


def _short(name: str) -> str:
    return name.replace(", ", "-").replace(" ", "-")
