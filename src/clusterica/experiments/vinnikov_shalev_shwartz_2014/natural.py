"""Vinnikov & Shalev-Shwartz 2014, figure 4: filters Tᵀ c of Cluster-ICA on natural patches y = T x."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from clusterica.cluster import KMeans
from clusterica.display import FiltersDisplay
from clusterica.experiments._context import Context
from clusterica.experiments._measures import orientation_share
from clusterica.experiments._panels import side_by_side
from clusterica.experiments._patches import (
    CONTRAST_EPS,
    WHITENING_EPS,
    PatchSource,
    natural_patches,
    patch_whitener,
)
from clusterica.experiments._registry import experiment
from clusterica.experiments._result import Check, Picture, Result
from clusterica.ica import ClusterICA
from clusterica.metrics import excess_kurtosis

SPARSE = 3.0  # excess kurtosis of a Laplace law
SPARSER = 1.5  # times the kurtosis of random filters, which contrast alone brings above 3
# cos(2 · 30°), the least orientation of a filter with all its energy within 30 degrees of one direction.
ORIENTED = 0.5
NOTE = (
    "The paper prints a picture; these numbers put its words into measures, on fresh patches. "
    "Orientation is |Σ E(f) exp(2iθ)| / Σ E(f) over the spatial frequencies f of a filter, with their "
    "energies E and directions θ: 0 for a filter without direction, 1 for a grating. Random filters "
    "are random directions of the white patches, our control: patches differ in contrast, and so the "
    "kurtosis of any filter is above that of a Gaussian. The patches come from {data}; the paper's come from "
    "Olshausen's natural scenes. Their contrast is normalised first, which takes the mean out and leaves 99 "
    "dimensions of 10-by-10 patches."
)
LEARNERS = {"kmeans": "K-means", "cosine": "Cosine K-means", "random": "Random filters"}


@experiment(
    "P0-natural",
    title="Filters of natural image patches",
    paper="Vinnikov & Shalev-Shwartz 2014, section 6.3 and figure 4",
    claim="On natural 10-by-10 patches, Cluster-ICA learns oriented edge filters with sparse responses.",
    options=("data",),
    needs="BSDS500",
    minutes=0.6,
)
def run(ctx: Context) -> Result:
    """Learn filters with both clusterers and compare them with random ones."""
    source = PatchSource(ctx)
    settings: dict[str, Any] = {
        "data": source.name,
        "patch_size": 10,
        "n_patches": ctx.choose(full=200_000, quick=20_000),
        "n_fresh": ctx.choose(full=50_000, quick=10_000),
        "contrast_eps": CONTRAST_EPS,
        "whitening_eps": WHITENING_EPS,
        "sparse_above": SPARSE,
    }
    X, fresh = natural_patches(
        source,
        settings["n_patches"],
        settings["patch_size"],
        n_fresh=settings["n_fresh"],
        seed=ctx.seed,
    )
    filters = _learn(ctx, X, settings["patch_size"])
    values = {name: _measure(found, fresh) for name, found in filters.items()}
    return Result(
        columns=("Measure", "The paper says", *LEARNERS.values()),
        rows=_rows(values),
        values=values,
        settings=settings,
        pictures=(_picture(X, filters["kmeans"]),),
        note=NOTE.format(data=source.name),
        checks=checks(values),
    )


def checks(values: dict[str, dict[str, float]]) -> list[Check]:
    """Ask of the filters of both clusterers whether they are oriented and have sparse responses.

    Parameters
    ----------
    values : dict
        Measures of the filters of every learner and of random ones.

    Returns
    -------
    list of Check
    """
    random, found = values["random"], []
    for name in ("kmeans", "cosine"):
        kurtosis, orientation = (
            (values[name][key], random[key])
            for key in ("median_excess_kurtosis", "median_orientation")
        )
        found += [
            Check(
                f"{LEARNERS[name]}: the filters are oriented, with a median orientation of at least "
                f"{ORIENTED:g}",
                orientation[0] >= ORIENTED,
                f"{orientation[0]:.2f}, random filters {orientation[1]:.2f}",
            ),
            Check(
                f"{LEARNERS[name]}: the responses are sparse, with a median excess kurtosis above {SPARSE:g} "
                f"and at least {SPARSER:g} times that of random filters",
                kurtosis[0] > SPARSE and kurtosis[0] >= SPARSER * kurtosis[1],
                f"{kurtosis[0]:.1f}, random filters {kurtosis[1]:.1f}",
            ),
        ]
    return found


def _learn(ctx: Context, X: np.ndarray, size: int) -> dict[str, np.ndarray]:
    """Return filters by name, each matrix of shape (n_filters, n_pixels)."""
    clusterers = {
        "kmeans": KMeans(init="orthogonal", max_iter=100, compute_labels=False),
        "cosine": None,
    }
    filters = {}
    for name, clusterer in clusterers.items():
        ica = ClusterICA(
            clusterer=clusterer,
            whitener=patch_whitener(size),
            refine=None,
            random_state=ctx.seed,
        )
        with warnings.catch_warnings():
            # One or two sources of patches look Gaussian; the table counts them.
            warnings.filterwarnings("ignore", ".*look Gaussian", UserWarning)
            filters[name] = ctx.watch(ica).fit(X).components_
    T = ica.whitener_.whitening_
    directions = np.random.default_rng(ctx.seed).standard_normal((len(T), len(T)))
    return {**filters, "random": directions @ T}


def _measure(filters: np.ndarray, fresh: np.ndarray) -> dict[str, float]:
    """Measure sparsity of the responses to fresh patches, and orientation."""
    kurtosis = excess_kurtosis(fresh @ filters.T)
    return {
        "share_sparse": float((kurtosis > SPARSE).mean()),
        "median_excess_kurtosis": float(np.median(kurtosis)),
        "median_orientation": float(np.median(orientation_share(filters))),
    }


def _rows(values: dict[str, dict[str, float]]) -> list[tuple[object, ...]]:
    """Compare each measure with the paper's statement."""
    said = {
        "share_sparse": (f"Filters with an excess kurtosis above {SPARSE:g} (share)", "—"),
        "median_excess_kurtosis": (
            "Excess kurtosis of the responses (median)",
            "“sparsely distributed outputs”",
        ),
        "median_orientation": ("Orientation (median)", "“oriented edges”"),
    }
    return [
        (measure, words, *(values[name][key] for name in LEARNERS))
        for key, (measure, words) in said.items()
    ]


def _picture(X: np.ndarray, filters: np.ndarray) -> Picture:
    """Draw some patches and the filters of K-means, as figure 4 of the paper."""
    figure, panels = side_by_side(2, width=9.6, height=5.0)
    tiles = {"(a) Some patches": X[: len(filters)], "(b) Filters by K-means": filters}
    for ax, (title, rows) in zip(panels, tiles.items(), strict=True):
        FiltersDisplay(rows).plot(ax=ax, title=title)
    return Picture(
        figure,
        caption="Contrast-normalised patches, and the filters of Cluster-ICA with K-means, "
        "sparsest first; each is scaled to its own range, grey is zero.",
        alt="Two grids of small grey tiles, patches on the left and filters on the right.",
    )
