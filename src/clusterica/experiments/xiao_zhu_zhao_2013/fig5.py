"""Xiao, Zhu & Zhao, figure 5: distances between the features of 90 images of three classes."""

from __future__ import annotations

from typing import Any

import numpy as np

from clusterica.experiments._context import Context
from clusterica.experiments._panels import side_by_side
from clusterica.experiments._recognition import Constants
from clusterica.experiments._registry import experiment
from clusterica.experiments._result import Check, Picture, Result
from clusterica.experiments.xiao_zhu_zhao_2013._caltech import RESIZED, caltech
from clusterica.experiments.xiao_zhu_zhao_2013._methods import (
    WHITE,
    Setting,
    few_steps,
    make_features,
    share_dead,
    share_in_words,
)
from clusterica.experiments.xiao_zhu_zhao_2013._notes import (
    PENALTY_NOTE,
    median_similarities,
    similarity_note,
)

NOTE = (
    "Euclidean distances between standardised features of 30 images of each of three classes, of which "
    "all filters are learned. Block contrast: the mean distance of images of different classes over that "
    "of images of the same class; 1 is none. The first five rows have the paper's weights (λ = 0.1, α = "
    "1, γ = 0.01), two of them in white kernel space, the others a narrower kernel and few steps. Dead: "
    "basis vectors with k(w, x) < 0.01 for all patches, in white kernel space those with |w| < 0.01. "
    "Supervised filters have seen the labels of these images, so that their contrast says nothing about "
    "other images."
)
WIDE = Setting(sparsity=0.1, discrimination=1.0, gamma=0.01)
NARROW = Setting(sparsity=0.1, discrimination=0.01, gamma=3.0, max_iter=5)
METHODS = {
    "RICA": ("RICA", WIDE),
    "kRICA": ("kRICA", WIDE),
    "d-kRICA": ("d-kRICA", WIDE),
    **{name: (name, WIDE) for name in WHITE},
    "kRICA, γ = 3, 5 steps": ("kRICA", NARROW),
    "d-kRICA, γ = 3, α = 0.01, 5 steps": ("d-kRICA", NARROW),
}
PAPER = {"RICA": "weakest blocks", "kRICA": "clearer", "d-kRICA": "clearest"}
CLASSES = ("Faces_easy", "Leopards", "Motorbikes")


@experiment(
    "P4-fig5",
    title="Similarity of the features of three classes",
    paper="Xiao, Zhu & Zhao 2013, figure 5",
    claim="The distances of kRICA's features show the classes as blocks better than those of RICA, and "
    "those of d-kRICA best.",
    options=("data",),
    needs="Caltech-101",
    minutes=4,
)
def run(ctx: Context) -> Result:
    """Learn each method from the 90 images, and draw the distances of their features."""
    settings: dict[str, Any] = {
        "longest_side": ctx.choose(full=128, quick=64),
        "n_filters": ctx.choose(full=1020, quick=30),
        "patch_size": 4 if ctx.quick else 10,
        "n_patches": ctx.choose(full=20_000, quick=2000),
        "stride": ctx.choose(full=2, quick=1),
    }
    pictures = caltech(ctx, longest_side=settings["longest_side"])
    known = [c for c in CLASSES if c in pictures.class_names] or list(pictures.class_names[:3])
    chosen = np.concatenate(
        [pictures.members(pictures.class_names.index(name))[:30] for name in known]
    )
    images, labels = pictures.of(chosen)
    distances: dict[str, np.ndarray] = {}
    dead: dict[str, float | None] = {}
    for name, (method, setting) in ctx.track(list(METHODS.items()), "Methods"):
        features = make_features(
            method,
            setting,
            n_filters=settings["n_filters"],
            patch_size=settings["patch_size"],
            n_patches=settings["n_patches"],
            stride=settings["stride"],
            steps=Constants().steps(),
            seed=ctx.seed,
        ).set_params(pooling="mean")
        with few_steps():
            distances[name] = _distances(features.fit(images, labels).transform(images))
        dead[name] = share_dead(features)
    contrasts = {name: _contrast(D, labels) for name, D in distances.items()}
    similar = median_similarities(
        images,
        [WIDE, NARROW],
        patch_size=settings["patch_size"],
        steps=Constants().steps(),
        seed=ctx.seed,
    )
    return Result(
        columns=("Method", "Paper", f"Block contrast, {pictures.name}"),
        rows=[(name, PAPER.get(name, ""), cell) for name, cell in _cells(contrasts, dead).items()],
        values={"block contrast": contrasts, "dead": dead, "median k": similar},
        settings={
            "data": pictures.name,
            "images": "grey, " + RESIZED.format(side=settings["longest_side"]),
            "classes": known,
            **settings,
        },
        pictures=(_picture(distances, contrasts, dead, labels, known),),
        note=f"{NOTE} {PENALTY_NOTE} {similarity_note(similar)}",
        checks=_checks(contrasts, dead),
    )


def _cells(contrasts: dict[str, float], dead: dict[str, float | None]) -> dict[str, str]:
    """Return the contrast of every method in words, with its dead share where there is any."""
    return {
        name: f"{contrast:.2f}" + (f" ({share_in_words(share)} dead)" if share else "")
        for (name, contrast), share in zip(contrasts.items(), dead.values(), strict=True)
    }


def _checks(contrasts: dict[str, float], dead: dict[str, float | None]) -> list[Check]:
    """Return whether the blocks of kRICA are clearer than those of RICA, and those of d-kRICA clearest."""
    rica = contrasts["RICA"]
    cells = _cells(contrasts, dead)
    checks = []
    for plain, labeled in (("kRICA", "d-kRICA"), WHITE):
        krica, supervised = contrasts[plain], contrasts[labeled]
        found = "block contrast " + ", ".join(f"{n} {cells[n]}" for n in ("RICA", plain, labeled))
        checks += [
            Check(f"{plain} shows the classes as blocks better than RICA", krica > rica, found),
            Check(f"{labeled} shows them best", supervised > max(rica, krica), found),
        ]
    return checks


def _distances(X: np.ndarray) -> np.ndarray:
    """Return the distances of all pairs of rows, features standardised."""
    X = X.astype(np.float64)  # in which squares of the codes of dead basis vectors do not vanish
    spread = X.std(axis=0)
    X = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1)
    return np.asarray(np.linalg.norm(X[:, None, :] - X[None, :, :], axis=2))


def _contrast(D: np.ndarray, labels: np.ndarray) -> float:
    inside = _inside(D, labels)
    # Where all vectors are dead, features are equal, and there is no contrast.
    return float(D[labels[:, None] != labels[None, :]].mean() / inside) if inside else 1.0


def _inside(D: np.ndarray, labels: np.ndarray) -> float:
    """Return the mean distance of two images of the same class."""
    same = labels[:, None] == labels[None, :]
    return float(D[same & ~np.eye(len(D), dtype=bool)].mean())


def _picture(
    distances: dict[str, np.ndarray],
    contrasts: dict[str, float],
    dead: dict[str, float | None],
    labels: np.ndarray,
    classes: list[str],
) -> Picture:
    """Draw the matrices side by side on one scale: distances over their mean within a class."""
    figure, panels = side_by_side(len(distances), width=2.6 * len(distances), height=3.4)
    # Images of a class follow each other.
    middles = [float(np.flatnonzero(labels == label).mean()) for label in dict.fromkeys(labels)]
    for ax, (name, D) in zip(panels, distances.items(), strict=True):
        drawn = ax.imshow(D / (_inside(D, labels) or 1), cmap="magma_r", vmin=0, vmax=2.5)
        title = f"{name}\nblock contrast {_cells(contrasts, dead)[name]}"
        ax.set_title(title, fontsize=8)
        ax.set_xticks(middles, classes, fontsize=7)
        ax.set_yticks([])
    panels[0].set_yticks(middles, classes, fontsize=7, rotation=90, va="center")
    bar = figure.colorbar(drawn, ax=panels, shrink=0.8, pad=0.01)
    bar.set_label("distance / mean in a class", fontsize=8)
    what = (
        f"Distances between the features of images of {', '.join(classes)}, over the mean distance of two "
        "images of a class; near pairs are bright."
    )
    return Picture(figure, what, what)
