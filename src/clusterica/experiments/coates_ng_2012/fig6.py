"""Coates & Ng 2012, figure 6: sparse codes against a soft threshold, over the number of labels.

min_s 0.5 |x - Dᵀs|² + α |s|₁ against max(0, ±Dx - α); each pooled over 2 x 2 cells, with α by validation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from clusterica.arrays import to_host
from clusterica.encoders import SoftThresholdEncoder, SparseEncoder
from clusterica.experiments._context import Context
from clusterica.experiments._panels import side_by_side
from clusterica.experiments._recognition import (
    Labeled,
    cifar10,
    label_subsets,
    percent,
    rows_of,
)
from clusterica.experiments._registry import experiment
from clusterica.experiments._result import Check, Picture, Result
from clusterica.images import ImageFeatures
from clusterica.linear import LinearSVC

NOTE = (
    "Both encoders use the same filters, of gain-shape K-means, learned from all training images without "
    "labels. For each encoder α is chosen on a part of the training images; so is C, for every draw of "
    "labels. Mean and deviation over the draws, on all test images. The paper prints a picture."
)
HUNDREDS = 400  # labels a class up to which they are scarce: “hundreds of examples per class” (conclusion 9)
SUFFICIENT = (
    0.01  # by which the soft threshold may be worse with all labels, and still be sufficient
)
_GAP = 1e-3  # relative duality gap of sparse codes; features do not change by what is left
_COLORS = {"sparse coding": "#b8360e", "soft threshold": "#2f5d8c"}


class Sizes(NamedTuple):
    """How much of everything there is in a run."""

    n_filters: int
    patch_size: int
    n_patches: int
    labels_per_class: tuple[int, ...]
    n_draws: int
    tuning: tuple[int, int]
    """Images to train on and to validate with while α is chosen."""


FULL = Sizes(400, 6, 400_000, (20, 50, 100, 200, 400, 1000, 2000, 5000), 5, (4000, 4000))
QUICK = Sizes(32, 4, 10_000, (2, 5, 20, 100), 3, (200, 600))


@experiment(
    "P1-fig6",
    title="Sparse coding against a soft threshold over the number of labels",
    paper="Coates & Ng 2012, figure 6, conclusion 9",
    claim="With few labels sparse coding is better than a soft threshold; with many the difference "
    "decreases significantly.",
    options=("data", "device"),
    needs="CIFAR-10",
    minutes=32,
)
def run(ctx: Context) -> Result:
    """Encode all images in both ways, and train a classifier for every draw of labels."""
    split = cifar10(ctx)
    sizes = ctx.choose(full=FULL, quick=QUICK)
    curves: dict[str, list[list[float]]] = {}
    tuned: dict[str, dict[str, float]] = {}
    for name, encoders in ctx.track(tuple(_encoders().items()), "Encoders"):
        tuned[name] = _tuning(split.train, encoders, sizes, ctx.seed)
        best = max(encoders, key=lambda alpha: tuned[name][alpha])
        features = _features(split.train, encoders[best], sizes, ctx.seed)
        X, X_test = (features.transform(part.images) for part in (split.train, split.test))
        curves[name] = [
            _accuracies(X, split.train.labels, Labeled(X_test, split.test.labels), draws)
            for draws in _draws(split.train.labels, sizes, ctx.seed)
        ]
    return Result(
        columns=("Labels a class", *(f"{name}, {split.name} (%)" for name in curves), "Difference"),
        rows=[
            (n, *(percent(a) for a in pair), f"{100 * (np.mean(pair[0]) - np.mean(pair[1])):+.1f}")
            for n, *pair in zip(sizes.labels_per_class, *curves.values(), strict=True)
        ],
        values={"accuracies": curves, "validation by alpha": tuned},
        settings={"data": split.name, **sizes._asdict()},
        pictures=(_picture(sizes.labels_per_class, curves, split.name),),
        note=NOTE,
        checks=checks(sizes.labels_per_class, curves),
    )


def checks(counts: Sequence[int], curves: dict[str, list[list[float]]]) -> list[Check]:
    """Ask where sparse coding is better than the soft threshold.

    Parameters
    ----------
    counts : sequence of int
        Labels a class, rising.
    curves : dict of str to list of lists of float
        Accuracies of both encoders, for every number of labels one a draw.

    Returns
    -------
    list of Check
    """
    sparse, soft = (
        np.array([np.mean(draws) for draws in curves[name]])
        for name in ("sparse coding", "soft threshold")
    )
    lead = {n: float(ahead) for n, ahead in zip(counts, sparse - soft, strict=True)}
    few, many = counts[0], counts[-1]
    scarce = {n: ahead for n, ahead in lead.items() if n <= HUNDREDS}
    return [
        Check(
            f"with few labels sparse coding is better: at every number up to {max(scarce)} a class",
            min(scarce.values()) > 0,
            ", ".join(f"{100 * ahead:+.1f} points with {n}" for n, ahead in scarce.items()),
        ),
        Check(
            "with many labels the advantage of sparse coding decreases significantly: to less than half of "
            "that with the fewest",
            lead[few] > 0 and lead[many] < lead[few] / 2,
            f"{100 * lead[few]:+.1f} points with {few}, {100 * lead[many]:+.1f} with {many}",
        ),
        Check(
            f"with the most labels the soft threshold is sufficient: at most {100 * SUFFICIENT:g} point "
            "worse",
            lead[many] <= SUFFICIENT,
            f"{100 * lead[many]:+.1f} points for sparse coding",
        ),
        Check(
            f"with the most labels both work equally well: within {100 * SUFFICIENT:g} point",
            abs(lead[many]) <= SUFFICIENT,
            f"{100 * lead[many]:+.1f} points for sparse coding",
        ),
    ]


def _encoders() -> dict[str, dict[str, Any]]:
    """Return the encoders by kind and threshold."""
    return {
        "sparse coding": {f"{a:g}": SparseEncoder(alpha=a, tol=_GAP) for a in (0.25, 0.5, 1.0)},
        "soft threshold": {f"{a:g}": SoftThresholdEncoder(alpha=a) for a in (0.1, 0.25, 0.5, 1.0)},
    }


def _features(train: Labeled, encoder: Any, sizes: Sizes, seed: int) -> ImageFeatures:
    """Learn filters, which are the same for every encoder since the seed is."""
    features = ImageFeatures(
        sizes.n_filters,
        patch_size=sizes.patch_size,
        n_patches=sizes.n_patches,
        encoder=encoder,
        random_state=seed,
    )
    features.fit(train.images)
    return features


def _tuning(train: Labeled, encoders: dict[str, Any], sizes: Sizes, seed: int) -> dict[str, float]:
    """Return the accuracy of each threshold on training images that its classifier has not seen."""
    order = np.random.default_rng(seed).permutation(len(train.labels))[: sum(sizes.tuning)]
    images, labels = rows_of(train.images, order), train.labels[order]
    first, rest = np.split(np.arange(len(order)), [sizes.tuning[0]])
    found = {}
    for alpha, encoder in encoders.items():
        X = _features(train, encoder, sizes, seed).transform(images)
        held_out = Labeled(rows_of(X, rest), labels[rest])
        found[alpha] = _accuracies(X, labels, held_out, [first])[0]
    return found


def _draws(labels: np.ndarray, sizes: Sizes, seed: int) -> list[list[np.ndarray]]:
    """Return the draws of each size; one, of all images, where that is all there are."""
    fewest = int(np.bincount(labels).min())
    return [
        label_subsets(labels, min(n, fewest), 1 if n >= fewest else sizes.n_draws, seed)
        for n in sizes.labels_per_class
    ]


def _accuracies(
    X: Any, labels: np.ndarray, test: Labeled, draws: Sequence[np.ndarray]
) -> list[float]:
    """Train on each draw, and return the share of the test rows that is right."""
    found = []
    for draw in draws:
        rows = X if len(draw) == len(labels) else rows_of(X, draw)
        classifier = LinearSVC(C="auto", random_state=0).fit(rows, labels[draw])
        found.append(float((to_host(classifier.predict(test.images)) == test.labels).mean()))
    return found


def _picture(counts: Sequence[int], curves: dict[str, list[list[float]]], data: str) -> Picture:
    """Draw accuracy over labels a class, with the deviation over draws as bars."""
    figure, (ax,) = side_by_side(1, width=5.6, height=3.9)
    for name, accuracies in curves.items():
        means = [100 * np.mean(a) for a in accuracies]
        spread = [100 * float(np.std(a, ddof=1)) if len(a) > 1 else 0.0 for a in accuracies]
        ax.errorbar(
            counts, means, spread, label=name, color=_COLORS[name], marker="o", ms=4, capsize=3
        )
    ax.set_xscale("log")
    ax.set_xticks(counts, [f"{n:,}" for n in counts])
    ax.minorticks_off()
    ax.set(xlabel="labelled images a class", ylabel=f"accuracy, {data} (%)")
    ax.grid(color="0.9", linewidth=0.7)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, loc="lower right")
    return Picture(
        figure,
        caption="Accuracy over the number of labels, for two encoders of the same filters; bars are "
        "deviations over draws of labels.",
        alt="Two curves, of sparse coding and of the soft threshold, over labels a class.",
    )
