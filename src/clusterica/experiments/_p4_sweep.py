"""Accuracy on STL-10 over one setting of several methods: what figures 1 to 4 of P4 show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from clusterica.experiments._context import Context
from clusterica.experiments._p4_methods import KERNEL, SUPERVISED, Setting, make_features
from clusterica.experiments._p4_notes import (
    PENALTY_NOTE,
    median_similarities,
    similarity_note,
    steps_in_words,
)
from clusterica.experiments._p4_stl import FoldScores, folds_note, score_cell, score_folds
from clusterica.experiments._panels import side_by_side
from clusterica.experiments._recognition import Constants, stl10
from clusterica.experiments._result import Picture, Result

NOTE = (
    "{n_patches:,} patches, {n_filters} filters where their number is not varied, one patch in {stride} "
    "encoded in each direction, by the method's own codes; {n_steps} steps at most; weights that are not "
    "varied are those of the paper (λ = 0.01, α = 0.1, γ = 0.1). In brackets: basis vectors with k(w, x) < "
    "0.01 for all patches."
)


class Sizes(NamedTuple):
    """How much is learned, and on how many folds it is scored."""

    n_filters: int
    patch_size: int
    n_patches: int
    stride: int
    n_folds: int


class Point(NamedTuple):
    """A place on the axis, and the setting there."""

    x: float
    setting: Setting
    n_filters: int | None = None
    """None is that of the figure."""


def sweep(
    ctx: Context,
    curves: Mapping[str, Sequence[Point]],
    *,
    axis: str,
) -> Result:
    """Score every method at every point, and draw the curves.

    Parameters
    ----------
    ctx : Context
        The run.
    curves : mapping of str to sequence of Point
        The points of every method; all methods have the same places.
    axis : str
        What is varied.
    """
    train, folds, data = stl10(ctx)
    built_in = ctx.quick and ctx.data is None
    sizes = Sizes(
        n_filters=ctx.choose(full=1600, quick=20),
        patch_size=4 if built_in else 8,
        n_patches=ctx.choose(full=50_000, quick=2000),
        stride=ctx.choose(full=2, quick=1),
        n_folds=ctx.choose(full=len(folds), quick=2),
    )
    parts = folds[: sizes.n_folds]
    jobs = [(name, point) for name, points in curves.items() for point in points]
    scores: dict[str, list[FoldScores]] = {name: [] for name in curves}
    for name, point in ctx.track(jobs, "Points"):
        make = partial(
            make_features,
            name,
            point.setting,
            n_filters=point.n_filters or sizes.n_filters,
            patch_size=sizes.patch_size,
            n_patches=sizes.n_patches,
            stride=sizes.stride,
            steps=Constants().steps(),
            seed=ctx.seed,
        )
        scores[name].append(score_folds(ctx, [make], train, parts, supervised=name in SUPERVISED))
    places = [point.x for point in next(iter(curves.values()))]
    similar = median_similarities(
        train.images,
        _kernels_of(curves),
        patch_size=sizes.patch_size,
        steps=Constants().steps(),
        seed=ctx.seed,
    )
    steps = steps_in_words({name: points[0].setting for name, points in curves.items()})
    return Result(
        columns=(axis, *(f"{name}, {data} (%)" for name in curves)),
        rows=[
            (f"{x:g}", *(score_cell(scores[name][i]) for name in curves))
            for i, x in enumerate(places)
        ],
        values={
            **{
                name: {f"{x:g}": s._asdict() for x, s in zip(places, found, strict=True)}
                for name, found in scores.items()
            },
            "median k": similar,
        },
        settings={"data": data, **sizes._asdict()},
        pictures=(_picture(places, scores, axis, data),),
        note=" ".join(
            (
                folds_note(train, parts),
                NOTE.format(**sizes._asdict(), n_steps=steps),
                PENALTY_NOTE,
                similarity_note(similar),
            )
        ),
    )


def _kernels_of(curves: Mapping[str, Sequence[Point]]) -> list[Setting]:
    """Return a setting for every γ that a method uses."""
    used = {
        point.setting.gamma for name, points in curves.items() if name in KERNEL for point in points
    }
    return [Setting(gamma=gamma) for gamma in sorted(used)]


def _picture(
    places: Sequence[float], scores: Mapping[str, Sequence[FoldScores]], axis: str, data: str
) -> Picture:
    """Draw accuracy over the setting, with the deviation over folds as bars."""
    figure, (ax,) = side_by_side(1, width=5.6, height=3.9)
    for name, found in scores.items():
        accuracies = 100 * np.array([s.accuracies for s in found])
        spread: Any = accuracies.std(axis=1, ddof=1) if accuracies.shape[1] > 1 else None
        ax.errorbar(places, accuracies.mean(axis=1), yerr=spread, marker="o", ms=4, label=name)
    ax.set_xscale("log")
    ax.set_xlabel(axis)
    ax.set_ylabel(f"accuracy on {data} (%)")
    ax.legend(frameon=False)
    ax.grid(alpha=0.3)
    what = f"Accuracy over {axis}: {', '.join(scores)}; bars are deviations over folds."
    return Picture(figure, what, what)
