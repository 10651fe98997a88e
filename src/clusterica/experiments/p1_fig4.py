"""P1, figure 4: responses dᵀ y of whitened patches y to filters of four kinds, and 64-by-64 patches.

Sparse responses have a large kurtosis, E[r⁴] / E[r²]² - 3. Of a cluster with gains s_i = dᵀ y_i, the
effective number of patches is (Σ s_i²)² / Σ s_i⁴, which is 1 where one patch makes the centroid.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from clusterica.arrays import to_host
from clusterica.cluster import SphericalKMeans
from clusterica.experiments._context import Context
from clusterica.experiments._measures import excess_kurtosis
from clusterica.experiments._p1_patches import PatchSource
from clusterica.experiments._p1_sparse_coding import learn_sparse_code
from clusterica.experiments._p1_tools import draw_tiles, place
from clusterica.experiments._panels import side_by_side
from clusterica.experiments._registry import experiment
from clusterica.experiments._result import Picture, Result
from clusterica.preprocessing import ContrastNormalizer, Whitener

NEAR_EMPTY = 0.1  # share of the mean size of a cluster under which one counts as near-empty
SINGLE = 2.0  # effective number of patches under which a cluster counts as a single patch
ALPHA = 1.0  # weight of the penalty of sparse coding
MAX_ITER = 30
KINDS = {
    "centroid": ("Centroid of K-means", "“very sparse”, “similar to sparse coding”", "#1f5fa8"),
    "basis": ("Basis vector of sparse coding", "sparse", "#2a9d5c"),
    "patch": ("Patch", "K-means is “much more sparse”", "#e08a1e"),
    "random": ("Random filter", "K-means is “much more sparse”", "#d62728"),
}
NOTE = (
    "Excess kurtosis of the responses to fresh patches, median over the filters of a kind; the paper prints "
    "histograms of one filter each. It is 0 for a Gaussian law; patches that differ in contrast give "
    "more than that for any filter. Clusters of larger patches are learned from the same number of "
    "patches. A cluster is near-empty with under 10 % of the mean number of patches, and a single patch in "
    "effect with (Σ s²)² / Σ s⁴ < 2, where s are the gains of its patches: the centroid is then that "
    "patch. The paper used 500,000 patches of 64 by 64 pixels; so does a run on a GPU."
)


class Crowd(NamedTuple):
    """Centroids of patches of one size, and how many patches stand behind them."""

    size: int
    centers: np.ndarray
    near_empty: float
    """Share of clusters."""
    single: float
    """Share of clusters."""
    effective: float
    """Median number of patches, by their gains."""


@experiment(
    "P1-fig4",
    title="Sparse responses of centroids, and patches that are too large",
    paper="Coates & Ng 2012 (P1), figure 4",
    claim="As filters, centroids have responses as sparse as those of sparse coding, and much sparser than "
    "those of patches and random filters. On 64-by-64 patches most clusters are a single patch.",
    options=("data", "device"),
)
def run(ctx: Context) -> Result:
    """Compare responses of four kinds of filters, and clusters of patches of several sizes."""
    source = PatchSource(ctx)
    on_gpu = ctx.device is not None and ctx.device.startswith("cuda")
    settings: dict[str, Any] = {
        "data": source.name,
        "patch_size": ctx.choose(full=16, quick=8),
        "n_patches": ctx.choose(full=100_000, quick=10_000),
        "n_fresh": ctx.choose(full=20_000, quick=5_000),
        "n_clusters": ctx.choose(full=256, quick=64),
        "max_iter": MAX_ITER,
        "sparse_coding": {
            "n_patches": ctx.choose(full=10_000, quick=2_000),
            "alpha": ALPHA,
            "n_passes": ctx.choose(full=20, quick=10),
        },
        "sizes": ctx.choose(full=(8, 16, 32, 64), quick=(8, 16, 32)),
        "n_of_each_size": ctx.choose(full=500_000 if on_gpu else 20_000, quick=2_000),
        "near_empty_under": NEAR_EMPTY,
        "single_under": SINGLE,
    }
    filters, responses = _filters(ctx, source, settings)
    kurtosis = {kind: excess_kurtosis(r) for kind, r in responses.items()}
    crowds = [
        _crowd(ctx, source, size, settings) for size in ctx.track(settings["sizes"], "Patch sizes")
    ]
    return Result(
        columns=("What", "The paper says", "Ours"),
        rows=_rows(kurtosis, crowds),
        values={
            "median_excess_kurtosis": {k: float(np.median(v)) for k, v in kurtosis.items()},
            "clusters": {
                f"size{c.size}": {
                    "near_empty": c.near_empty,
                    "single_in_effect": c.single,
                    "median_effective_patches": c.effective,
                }
                for c in crowds
            },
        },
        settings=settings,
        pictures=(_histograms(responses, kurtosis), _tiles(filters, crowds)),
        note=NOTE,
    )


def whitening_eps(size: int) -> float:
    """Return the constant that P1 advises for contrast-normalised patches of this side.

    Parameters
    ----------
    size : int
        Side of a patch in pixels.

    Returns
    -------
    float
        0.1 for small patches, 0.01 from 16 by 16 on.
    """
    return 0.1 if size < 16 else 0.01


def _white(
    ctx: Context, source: PatchSource, size: int, counts: Sequence[int], rng: np.random.Generator
) -> list[Any]:
    """Draw patches, normalise them, and whiten all with what the first of them say."""
    normalizer = ContrastNormalizer()
    drawn = [normalizer.fit_transform(place(ctx, source.draw(n, size, rng=rng))) for n in counts]
    whitener = Whitener(eps=whitening_eps(size)).fit(drawn[0])
    return [whitener.transform(X) for X in drawn]


def _filters(
    ctx: Context, source: PatchSource, settings: dict[str, Any]
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return filters of each kind, one a row, and their responses to fresh patches."""
    rng = np.random.default_rng(ctx.seed)
    counts = (settings["n_patches"], settings["n_fresh"])
    X, fresh = _white(ctx, source, settings["patch_size"], counts, rng)
    k, coding = settings["n_clusters"], settings["sparse_coding"]
    kmeans = SphericalKMeans(k, max_iter=MAX_ITER, compute_labels=False, random_state=ctx.seed)
    few = to_host(X[: coding["n_patches"]])
    filters = {
        "centroid": to_host(ctx.watch(kmeans).fit(X).cluster_centers_),
        "basis": learn_sparse_code(
            few,
            k,
            alpha=coding["alpha"],
            n_passes=coding["n_passes"],
            batch_size=max(10, len(few) // 20),
            random_state=rng,
        ),
        "patch": few[:k],
        "random": rng.standard_normal((k, X.shape[1])).astype(np.float32),
    }
    white = to_host(fresh)
    return filters, {kind: white @ D.T for kind, D in filters.items()}


def _crowd(ctx: Context, source: PatchSource, size: int, settings: dict[str, Any]) -> Crowd:
    """Cluster patches of a size and count what is in the clusters."""
    rng = np.random.default_rng([ctx.seed, size])
    (X,) = _white(ctx, source, size, (settings["n_of_each_size"],), rng)
    k = settings["n_clusters"]
    kmeans = ctx.watch(SphericalKMeans(k, max_iter=MAX_ITER, random_state=ctx.seed)).fit(X)
    gains = _gains(X, kmeans)
    labels, counts = to_host(kmeans.labels_), to_host(kmeans.counts_)
    second, fourth = (np.bincount(labels, gains**p, minlength=k) for p in (2, 4))
    effective = np.divide(second**2, fourth, out=np.zeros(k), where=fourth > 0)
    return Crowd(
        size,
        to_host(kmeans.cluster_centers_),
        float((counts < NEAR_EMPTY * len(labels) / k).mean()),
        float((effective < SINGLE).mean()),
        float(np.median(effective)),
    )


def _gains(X: Any, kmeans: Any) -> np.ndarray:
    """Return the response of every row's own centroid, block by block."""
    labels = to_host(kmeans.labels_)
    gains = np.empty(len(labels))
    for start in range(0, len(labels), 10_000):
        rows = slice(start, start + 10_000)
        responses = to_host(kmeans.transform(X[rows]))
        gains[rows] = responses[np.arange(len(responses)), labels[rows]]
    return gains


def _rows(kurtosis: dict[str, np.ndarray], crowds: Sequence[Crowd]) -> list[tuple[object, ...]]:
    """Set each measure beside the paper's words."""
    rows: list[tuple[object, ...]] = [
        (f"{label}: excess kurtosis of the responses", said, f"{np.median(kurtosis[kind]):.1f}")
        for kind, (label, said, _) in KINDS.items()
    ]
    largest = crowds[-1].size
    for crowd in crowds:
        said = "most are “a single patch”; “empty or singletons”" if crowd.size == largest else ""
        rows.append(
            (
                f"Clusters of {crowd.size}-by-{crowd.size} patches",
                said,
                f"{crowd.single:.0%} a single patch in effect (median {crowd.effective:.1f}), "
                f"{crowd.near_empty:.0%} near-empty",
            )
        )
    return rows


def _histograms(responses: dict[str, np.ndarray], kurtosis: dict[str, np.ndarray]) -> Picture:
    """Draw the responses to all filters of each kind, every filter in units of its deviation."""
    figure, (ax,) = side_by_side(1, width=6.4, height=4.4)
    bins = np.linspace(-10, 10, 101)
    middles = 0.5 * (bins[1:] + bins[:-1])
    for kind, (label, _, color) in KINDS.items():
        r = responses[kind]
        density, _ = np.histogram((r - r.mean(axis=0)) / r.std(axis=0), bins, density=True)
        density[density == 0] = np.nan
        name = f"{label} ({np.median(kurtosis[kind]):.1f})"
        ax.plot(middles, density, color=color, linewidth=1.4, label=name)
    gauss = np.exp(-(bins**2) / 2) / np.sqrt(2 * np.pi)
    ax.plot(bins, gauss, color="0.6", linewidth=1, linestyle="--", label="Gaussian (0)")
    ax.set(yscale="log", ylim=(1e-5, 2), xlim=(-10, 10), xticks=range(-10, 11, 2))
    ax.set(xlabel="response, in deviations", ylabel="density")
    ax.legend(fontsize=8, title="excess kurtosis in brackets", title_fontsize=8, loc="lower center")
    ax.grid(alpha=0.25)
    return Picture(
        figure,
        caption="Responses of whitened patches to the filters of each kind. Sparse responses have a high "
        "peak at zero and long tails.",
        alt="Curves over responses from -10 to 10 deviations. Those of centroids and of sparse coding "
        "are the most peaked and have the longest tails.",
    )


def _tiles(filters: dict[str, np.ndarray], crowds: Sequence[Crowd]) -> Picture:
    """Draw centroids of the small and of the largest patches."""
    figure, (left, right) = side_by_side(2, width=9.6, height=5.1)
    size = int(np.sqrt(filters["centroid"].shape[1]))
    largest = crowds[-1]
    draw_tiles(left, filters["centroid"][:64], title=f"Centroids, {size} by {size}")
    draw_tiles(right, largest.centers[:64], title=f"Centroids, {largest.size} by {largest.size}")
    return Picture(
        figure,
        caption="Centroids of whitened patches. On the left edges; on the right, from patches that are "
        "too large for their number, mostly single patches.",
        alt="Two grids of grey tiles: thin edges on the left, noisy textures on the right.",
        name="centroids",
    )
