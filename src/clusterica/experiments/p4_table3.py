"""P4, table 3, the rows of raw pixels and K-means: STL-10, a head trained on each official fold."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from clusterica.arrays import namespace_of, to_host
from clusterica.cluster import KMeans
from clusterica.experiments._context import Context
from clusterica.experiments._recognition import (
    Labeled,
    device_name,
    percent,
    rows_of,
    save_classifier,
    stl10,
)
from clusterica.experiments._registry import experiment
from clusterica.experiments._result import Result
from clusterica.images import ImageFeatures
from clusterica.linear import LinearSVC

NOTE = (
    "Each head is trained on the 1,000 images of a fold, with C chosen on a part of them, and scored on "
    "the 4,000 training images outside it; the paper scored the test images. Raw pixels are those of the "
    "images at full size. The models of all folds are written beside the table, as "
    "P4-table3-triangle-fold0.safetensors and so on: clusterica.load reads one, and its predict takes "
    "images of shape (n, 96, 96, 3). The rows of other methods are printed as the paper has them."
)
QUOTED = (
    ("RICA 8x8 / 10x10", "51.4 / 52.9"),
    ("KICA / KSR", "51.1 / 54.4"),
    ("DRICA / d-RICA / kRICA / d-kRICA", "54.2 / 54.8 / 55.2 / 56.9"),
)


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
    title="STL-10: raw pixels and K-means",
    paper="Xiao, Zhu & Zhao 2013 (P4), table 3",
    claim="Raw pixels reach 31.8 % on STL-10, triangle codes of 1600 centroids 51.5 %.",
    draws=False,
)
def run(ctx: Context) -> Result:
    """Make both kinds of features and train a head for every fold."""
    train, folds, name = stl10(ctx)
    built_in = ctx.quick and ctx.data is None
    settings: dict[str, Any] = {
        "data": name,
        "n_filters": ctx.choose(full=1600, quick=40),
        "patch_size": 4 if built_in else 8,
        "n_patches": ctx.choose(full=400_000, quick=20_000),
        "max_iter": ctx.choose(full=50, quick=10),
        "device": device_name(ctx),
    }
    features = ImageFeatures(
        settings["n_filters"],
        patch_size=settings["patch_size"],
        n_patches=settings["n_patches"],
        learner=KMeans(init="gaussian", max_iter=settings["max_iter"], compute_labels=False),
        encoder="triangle",
        random_state=ctx.seed,
    )
    accuracies, models = {}, []
    for what, kind, step in (
        ("Raw pixels", "pixels", Pixels()),
        ("K-means, triangle", "triangle", features),
    ):
        heads, accuracies[what] = _scores(ctx, step.fit_transform(train.images), train, folds)
        models += [
            save_classifier(ctx, step, head, f"P4-table3-{kind}-fold{i}")
            for i, head in enumerate(heads)
        ]
    papers = {"Raw pixels": "31.8", "K-means, triangle": "51.5"}
    rows = [(what, papers[what], percent(values)) for what, values in accuracies.items()]
    return Result(
        columns=("Method", "Paper (%)", f"Ours, {name} (%)"),
        rows=[*rows, *((what, figure, "") for what, figure in QUOTED)],
        values={**accuracies, "models": models},
        settings=settings,
        note=NOTE,
    )


def _scores(
    ctx: Context, X: Any, train: Labeled, folds: tuple
) -> tuple[list[LinearSVC], list[float]]:
    """Train on each fold; return the heads, and the share of the images outside that is right."""
    labels, heads, accuracies = train.labels, [], []
    for fold in ctx.track(folds, "Folds"):
        head = LinearSVC(C="auto", random_state=0).fit(rows_of(X, fold), labels[fold])
        outside = np.setdiff1d(np.arange(len(labels)), fold)
        predicted = to_host(head.predict(rows_of(X, outside)))
        heads.append(head)
        accuracies.append(float((predicted == labels[outside]).mean()))
    return heads, accuracies
