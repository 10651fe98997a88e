"""Accuracy on STL-10 over one setting of several methods: what figures 1 to 4 of Xiao, Zhu & Zhao show."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from clusterica.experiments._context import Context
from clusterica.experiments._panels import side_by_side
from clusterica.experiments._recognition import Constants, stl10
from clusterica.experiments._result import Check, Picture, Result
from clusterica.experiments.xiao_zhu_zhao_2013._methods import (
    KERNEL,
    SUPERVISED,
    Setting,
    make_features,
)
from clusterica.experiments.xiao_zhu_zhao_2013._notes import (
    PENALTY_NOTE,
    median_similarities,
    similarity_note,
    steps_in_words,
)
from clusterica.experiments.xiao_zhu_zhao_2013._stl import (
    FoldScores,
    folds_note,
    score_cell,
    score_folds,
)

NOTE = (
    "{n_patches:,} patches, {n_filters} filters where their number is not varied, one patch in {stride} "
    "encoded in each direction, by the method's own codes; {n_steps} steps at most; weights that are not "
    "varied are those of the paper (λ = 0.01, α = 0.1, γ = 0.1). In brackets: basis vectors with k(w, x) < "
    "0.01 for all patches."
)


Curves = Mapping[str, Mapping[float, float]]
"""Mean accuracy in percent, by method and by place on the axis."""


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
    checks: Callable[[Curves], Sequence[Check]],
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
    checks : callable
        From the mean accuracies in percent, by method and place, to what holds of the paper's claims.
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
    places = [point.x for point in next(iter(curves.values()))]
    settings = {"data": data, axis: places, **sizes._asdict()}

    def curve(name: str) -> list[dict[str, Any]]:
        found = []
        for point in curves[name]:
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
            supervised = name in SUPERVISED
            found.append(score_folds(ctx, [make], train, parts, supervised=supervised)._asdict())
        return found

    jobs: dict[str, Callable[[], Any]] = {name: partial(curve, name) for name in curves}
    jobs["median k"] = lambda: median_similarities(
        train.images,
        _kernels_of(curves),
        patch_size=sizes.patch_size,
        steps=Constants().steps(),
        seed=ctx.seed,
    )
    values = ctx.parts(settings, jobs, description="Curves")
    similar = similarity_note(values.pop("median k"))
    scores = {name: [FoldScores(**point) for point in found] for name, found in values.items()}
    means = {
        name: {x: 100 * float(np.mean(s.accuracies)) for x, s in zip(places, found, strict=True)}
        for name, found in scores.items()
    }
    steps = steps_in_words({name: points[0].setting for name, points in curves.items()})
    return Result(
        columns=(axis, *(f"{name}, {data} (%)" for name in curves)),
        rows=[
            (f"{x:g}", *(score_cell(scores[name][i]) for name in curves))
            for i, x in enumerate(places)
        ],
        values={},
        settings=settings,
        pictures=(_picture(places, scores, axis, data),),
        note=" ".join(
            (
                folds_note(train, parts),
                NOTE.format(**sizes._asdict(), n_steps=steps),
                PENALTY_NOTE,
                similar,
            )
        ),
        checks=checks(means),
    )


def best_place_check(curves: Curves, name: str, axis: str, expected: float) -> Check:
    """Return whether a method does best where the paper says."""
    curve = curves[name]
    best = max(curve, key=lambda x: curve[x])
    found = f"at {best:g}, with {curve[best]:.1f} %"
    if expected in curve and best != expected:
        found += f"; {curve[expected]:.1f} at {expected:g}"
    return Check(f"{name} does best at {axis} = {expected:g}", best == expected, found)


def always_better_check(curves: Curves, name: str, others: Sequence[str], axis: str) -> Check:
    """Return whether a method is better than others at every place."""
    places = list(curves[name])
    won = [x for x in places if curves[name][x] > max(curves[other][x] for other in others)]
    where = ", ".join(f"{x:g}" for x in won) or "none"
    return Check(
        f"{name} is better than {' and '.join(others)} at every {axis}",
        len(won) == len(places),
        f"at {len(won)} of {len(places)}: {where}",
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
