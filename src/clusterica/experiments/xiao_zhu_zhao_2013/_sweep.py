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
    WHITE,
    Setting,
    make_features,
)
from clusterica.experiments.xiao_zhu_zhao_2013._notes import (
    PENALTY_NOTE,
    labels_note,
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
    "0.01 for all patches; the picture has open circles where more than half are dead."
)
N_SCORED = 1
"""Of the three parts of a fold, how many are scored to choose C of supervised methods."""
MOSTLY_DEAD = 0.5
"""Share above which a point is drawn open: more of its codes are those of dead vectors than of others."""


Curves = Mapping[str, Mapping[float, FoldScores]]
"""What was found, by method and by place on the axis."""


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
        From the scores by method and place to what holds of the paper's claims.
    """
    train, folds, data = stl10(ctx)
    built_in = ctx.quick and ctx.data is None
    sizes = Sizes(
        n_filters=ctx.choose(full=1600, quick=20),
        patch_size=4 if built_in else 8,
        n_patches=ctx.choose(full=50_000, quick=2000),
        stride=ctx.choose(full=2, quick=1),
        n_folds=ctx.choose(full=3, quick=2),
    )
    parts = folds[: sizes.n_folds]
    places = [point.x for point in next(iter(curves.values()))]
    settings: dict[str, Any] = {"data": data, axis: places, **sizes._asdict()}
    learns_labels = not {*curves}.isdisjoint(SUPERVISED)
    if learns_labels:
        settings["n_scored"] = N_SCORED

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
            scores = score_folds(
                ctx, [make], train, parts, supervised=name in SUPERVISED, n_scored=N_SCORED
            )
            found.append(scores._asdict())
        return found

    jobs: dict[str, Callable[[], Any]] = {name: partial(curve, name) for name in curves}
    jobs["median k"] = lambda: median_similarities(
        train.images,
        _kernels_of(curves),
        patch_size=sizes.patch_size,
        steps=Constants().steps(),
        seed=ctx.seed,
    )
    values = ctx.parts(settings, jobs, optional=WHITE, description="Curves")
    similar = similarity_note(values.pop("median k"))
    scores = {
        name: {x: FoldScores(**point) for x, point in zip(places, found, strict=True)}
        for name, found in values.items()
    }
    steps = steps_in_words({name: curves[name][0].setting for name in scores})
    return Result(
        columns=(axis, *(f"{name}, {data} (%)" for name in scores)),
        rows=[(f"{x:g}", *(score_cell(curve[x]) for curve in scores.values())) for x in places],
        values={},
        settings=settings,
        pictures=(_picture(scores, axis, data),),
        note=" ".join(
            (
                folds_note(train, parts),
                NOTE.format(**sizes._asdict(), n_steps=steps),
                *([labels_note(N_SCORED)] if learns_labels else []),
                PENALTY_NOTE,
                similar,
            )
        ),
        checks=checks(scores),
    )


def best_place_check(curves: Curves, name: str, axis: str, expected: float) -> Check:
    """Return whether a method does best where the paper says."""
    curve = {x: scores.scored for x, scores in curves[name].items()}
    best = max(curve, key=lambda x: curve[x].accuracy)
    found = f"at {best:g}, with {curve[best]}"
    if expected in curve and best != expected:
        found += f"; {curve[expected]} at {expected:g}"
    return Check(f"{name} does best at {axis} = {expected:g}", best == expected, found)


def better_check(
    curves: Curves, name: str, others: Sequence[str], axis: str, *, wide: bool = False
) -> Check:
    """Return whether a method is better than others at every place, or in a wide range: at most places."""
    ours = {x: scores.scored for x, scores in curves[name].items()}
    theirs = {x: max(curves[other][x].scored.accuracy for other in others) for x in ours}
    won = [x for x in ours if ours[x].accuracy > theirs[x]]
    found = f"at {len(won)} of {len(ours)}: {_list(won)}"
    dead = [x for x in won if (ours[x].dead or 0) > MOSTLY_DEAD]
    if dead:
        found += f"; with more than half of its basis dead at {_list(dead)}"
    return Check(
        f"{name} is better than {' and '.join(others)} at {'most' if wide else 'every'} {axis}",
        len(won) > len(ours) / 2 if wide else len(won) == len(ours),
        found,
    )


def _list(places: Sequence[float]) -> str:
    return ", ".join(f"{x:g}" for x in places) or "none"


def _kernels_of(curves: Mapping[str, Sequence[Point]]) -> list[Setting]:
    """Return a setting for every γ that a method uses."""
    used = {
        point.setting.gamma for name, points in curves.items() if name in KERNEL for point in points
    }
    return [Setting(gamma=gamma) for gamma in sorted(used)]


def _picture(scores: Curves, axis: str, data: str) -> Picture:
    """Draw accuracy over the setting, with the deviation over folds as bars."""
    figure, (ax,) = side_by_side(1, width=5.6, height=3.9)
    settings = sorted({place for found in scores.values() for place in found})
    for name, found in scores.items():
        places = np.array(list(found))
        accuracies = 100 * np.array([s.accuracies for s in found.values()])
        means = accuracies.mean(axis=1)
        spread: Any = accuracies.std(axis=1, ddof=1) if accuracies.shape[1] > 1 else None
        (line, *_) = ax.errorbar(places, means, yerr=spread, marker="o", ms=4, label=name)
        dead = np.array([(s.scored.dead or 0) > MOSTLY_DEAD for s in found.values()])
        ax.plot(places[dead], means[dead], "o", ms=4, mfc="white", color=line.get_color(), zorder=3)
    ax.set_xscale("log")
    ax.set_xticks(settings, [f"{x:g}" for x in settings], fontsize="small")
    ax.minorticks_off()
    ax.set_xlabel(axis)
    ax.set_ylabel(f"accuracy on {data} (%)")
    ax.legend(frameon=False)
    ax.grid(alpha=0.3)
    what = (
        f"Accuracy over {axis}: {', '.join(scores)}; bars are deviations over folds, open circles points "
        "where more than half of the basis is dead."
    )
    return Picture(figure, what, what)
