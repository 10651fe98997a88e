"""P0, section 6.3 and figure 4: the filters Tᵀ c that Cluster-ICA learns from natural patches y = T x."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from clusterica.cluster import KMeans
from clusterica.display import FiltersDisplay
from clusterica.experiments._context import Context
from clusterica.experiments._measures import excess_kurtosis, orientation_share
from clusterica.experiments._panels import side_by_side
from clusterica.experiments._patches import (
    CONTRAST_EPS,
    WHITENING_EPS,
    natural_patches,
    patch_whitener,
)
from clusterica.experiments._registry import experiment
from clusterica.experiments._result import Picture, Result
from clusterica.ica import ClusterICA

SPARSE = 3.0  # excess kurtosis of a Laplace law
NOTE = (
    "The paper prints a picture; these numbers put its words into measures, on fresh patches. "
    "Orientation is |Σ E(f) exp(2iθ)| / Σ E(f) over the spatial frequencies f of a filter, with their "
    "energies E and directions θ: 0 for a filter without direction, 1 for a grating. Random filters "
    "are random directions of the white patches: their kurtosis is above 3 as well, since patches "
    "differ in contrast, so that the median and the orientation tell more. The patches come from "
    "the two photographs of scikit-learn, not from the paper's scenes. Their contrast is normalised "
    "first, which takes the mean out and leaves 99 dimensions of 10-by-10 patches."
)
LEARNERS = {"kmeans": "K-means", "cosine": "Cosine K-means", "random": "Random filters"}


@experiment(
    "P0-natural",
    title="Filters of natural image patches",
    paper="Vinnikov & Shalev-Shwartz 2014 (P0), section 6.3 and figure 4",
    claim="On natural 10-by-10 patches, Cluster-ICA learns oriented edge filters with sparse responses.",
)
def run(ctx: Context) -> Result:
    """Learn filters with both clusterers and measure them beside random ones."""
    settings: dict[str, Any] = {
        "patch_size": 10,
        "n_patches": ctx.choose(full=200_000, quick=20_000),
        "n_fresh": ctx.choose(full=50_000, quick=10_000),
        "contrast_eps": CONTRAST_EPS,
        "whitening_eps": WHITENING_EPS,
        "sparse_above": SPARSE,
    }
    X, fresh = natural_patches(
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
        note=NOTE,
    )


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
    """Set each measure beside the paper's words."""
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
        caption="Contrast-normalised patches of photographs and the filters that Cluster-ICA with "
        "K-means learned from them, sparsest first; each is scaled to its own range, grey is zero.",
        alt="Two grids of small grey tiles. On the left blurred patches of photographs, on the right "
        "thin bars and edges of many directions and places.",
    )
