"""Coates & Ng 2012, figure 4: responses dᵀ y of white patches y to four kinds of filters; 64-by-64 patches.

Sparse responses have a large kurtosis, E[r⁴] / E[r²]² - 3. Of a cluster with gains s_i = dᵀ y_i, the
effective number of patches is (Σ s_i²)² / Σ s_i⁴, which is 1 where one patch makes the centroid. A centroid
is noise where it spreads over pixels and frequencies at once, at least half as much as random filters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from clusterica.arrays import to_host
from clusterica.cluster import GainShapeKMeans
from clusterica.experiments._checks import falls
from clusterica.experiments._context import Context
from clusterica.experiments._measures import NOISY, spread
from clusterica.experiments._panels import side_by_side
from clusterica.experiments._patches import PatchSource
from clusterica.experiments._registry import experiment
from clusterica.experiments._result import Check, Picture, Result
from clusterica.experiments.coates_ng_2012._sparse_coding import learn_sparse_code
from clusterica.experiments.coates_ng_2012._tools import draw_tiles, place
from clusterica.metrics import excess_kurtosis
from clusterica.preprocessing import ContrastNormalizer, Whitener

ALIKE = 0.7  # times the kurtosis of sparse coding from which a centroid's is similar or larger
MUCH = 1.5  # times the kurtosis of another filter from which a centroid's is much larger
FAR_MORE = 2.0  # times the share of near-empty clusters of 16-by-16 patches
NEAR_EMPTY = 0.1  # share of the mean size of a cluster under which one counts as near-empty
SINGLE = 2.0  # effective number of patches under which a cluster counts as a single patch
ALPHA = 1.0  # weight of the penalty of sparse coding
MAX_ITER = 30
BLOCK = 10_000  # rows at a time
KINDS = {
    "centroid": ("Centroid of K-means", "“very sparse”, “similar to sparse coding”", "#1f5fa8"),
    "basis": ("Basis vector of sparse coding", "sparse", "#2a9d5c"),
    "patch": ("Patch", "K-means is “much more sparse”", "#e08a1e"),
    "random": ("Random filter", "K-means is “much more sparse”", "#d62728"),
}
NOTE = (
    "Excess kurtosis of the responses to fresh patches, median over the filters of a kind; the paper prints "
    "histograms of one filter each. It is 0 for a Gaussian law; patches that differ in contrast give "
    "more than that for any filter. A cluster is near-empty with under 10 % of the mean number of patches, "
    "and a single patch in effect with (Σ s²)² / Σ s⁴ < 2, where s are the gains of its patches: the "
    "centroid is then that patch. It is noise where it spreads over many pixels and many frequencies at "
    "once: the product of both shares, each (Σ E)² / (n Σ E²) of n energies E, is at least half that of "
    "random filters. The patches come from {data}; filters are learned from {n_patches:,} of "
    "them, those of sparse coding from {n_coding:,}, and clusters of each size from {n_of_each_size:,} in "
    "{max_iter} iterations, whitened by the covariance of the first {n_whitening:,}. The paper had 500,000."
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
    noisy: float
    """Share of centroids that are noise."""


@experiment(
    "P1-fig4",
    title="Sparse responses of centroids, and patches that are too large",
    paper="Coates & Ng 2012, figure 4",
    claim="As filters, centroids have responses as sparse as those of sparse coding, and much sparser than "
    "those of patches and random filters. On 64-by-64 patches K-means becomes difficult to apply: it "
    "captures a few edges, and most clusters are a single patch.",
    options=("data", "device"),
    needs="BSDS500",
    minutes=12,
)
def run(ctx: Context) -> Result:
    """Compare responses of four kinds of filters, and clusters of patches of several sizes."""
    source = PatchSource(ctx)
    # Two photographs have 420,000 places for patches of 64 by 64 pixels: they are not worth 500,000 draws.
    many = 20_000 if ctx.data is None else 500_000
    settings: dict[str, Any] = {
        "data": source.name,
        "patch_size": ctx.choose(full=16, quick=8),
        "n_patches": ctx.choose(full=100_000 if ctx.data is None else 500_000, quick=10_000),
        "n_fresh": ctx.choose(full=20_000, quick=5_000),
        "n_clusters": ctx.choose(full=256, quick=64),
        "max_iter": MAX_ITER,
        "sparse_coding": {
            "n_patches": ctx.choose(full=10_000, quick=2_000),
            "alpha": ALPHA,
            "n_passes": ctx.choose(full=20, quick=10),
        },
        "sizes": ctx.choose(full=(8, 16, 32, 64), quick=(8, 16, 32)),
        "n_of_each_size": ctx.choose(full=many, quick=2_000),
        # The covariance of 4096 pixels takes 40 seconds of a core for 10,000 patches: for all of them it
        # would take more than everything else together.
        "n_whitening": ctx.choose(full=min(many, 50_000), quick=2_000),
        "near_empty_under": NEAR_EMPTY,
        "single_under": SINGLE,
        "noisy_above_random": NOISY,
    }
    filters, responses = _filters(ctx, source, settings)
    kurtosis = {kind: excess_kurtosis(r) for kind, r in responses.items()}
    crowds = [
        _crowd(ctx, source, size, settings) for size in ctx.track(settings["sizes"], "Patch sizes")
    ]
    medians = {kind: float(np.median(v)) for kind, v in kurtosis.items()}
    return Result(
        columns=("What", "The paper says", "Ours"),
        rows=_rows(kurtosis, crowds),
        values={
            "median_excess_kurtosis": medians,
            "clusters": {
                f"size{c.size}": {
                    "near_empty": c.near_empty,
                    "single_in_effect": c.single,
                    "median_effective_patches": c.effective,
                    "noise": c.noisy,
                }
                for c in crowds
            },
        },
        settings=settings,
        pictures=(_histograms(responses, kurtosis), _tiles(filters, crowds)),
        note=NOTE.format(**settings, n_coding=settings["sparse_coding"]["n_patches"]),
        checks=[*response_checks(medians), *crowd_checks(crowds)],
    )


def response_checks(kurtosis: dict[str, float]) -> list[Check]:
    """Ask whether centroids respond as sparsely as sparse coding, and more so than other filters.

    Parameters
    ----------
    kurtosis : dict of str to float
        Median excess kurtosis by kind of filter.

    Returns
    -------
    list of Check
    """
    centroid, basis = kurtosis["centroid"], kurtosis["basis"]
    found = [
        Check(
            "centroids respond as sparsely as basis vectors of sparse coding: their excess kurtosis is at "
            f"least {ALIKE:g} times as large",
            centroid >= ALIKE * basis,
            f"{centroid:.1f} against {basis:.1f}",
        )
    ]
    others = {"patch": "randomly chosen patches", "random": "random filters"}
    return found + [
        Check(
            f"centroids respond much more sparsely than {label}: their excess kurtosis is at least {MUCH:g} "
            "times as large",
            centroid >= MUCH * kurtosis[kind],
            f"{centroid:.1f} against {kurtosis[kind]:.1f}",
        )
        for kind, label in others.items()
    ]


def crowd_checks(crowds: Sequence[Crowd]) -> list[Check]:
    """Ask whether clusters of the largest patches are single patches or near-empty, and centroids noise.

    Parameters
    ----------
    crowds : sequence of Crowd
        Clusters of patches of rising sizes, 16 by 16 among them.

    Returns
    -------
    list of Check
    """
    large, usual = crowds[-1], next(crowd for crowd in crowds if crowd.size == 16)
    size = f"{large.size}-by-{large.size}"
    return [
        Check(
            f"on {size} patches most clusters are a single patch in effect",
            large.single > 0.5,
            f"{large.single:.0%} of them, with 16-by-16 patches {usual.single:.0%}",
        ),
        Check(
            f"on {size} patches near-empty clusters are far more common: at least {FAR_MORE:g} times as many "
            "as with 16-by-16 patches",
            large.near_empty > 0 and large.near_empty >= FAR_MORE * usual.near_empty,
            f"{large.near_empty:.1%} against {usual.near_empty:.1%}",
        ),
        Check(
            f"on {size} patches K-means captures a few edges only: some centroids are clear and most are "
            "noise, with 16-by-16 patches most are clear",
            0.5 < large.noisy < 1 and usual.noisy < 0.5,
            f"{large.noisy:.0%} are noise, with 16-by-16 patches {usual.noisy:.0%}",
        ),
        Check(
            "K-means becomes difficult to apply as patches grow: fewer patches in effect stand behind a "
            "centroid with every size, in the median",
            falls([crowd.effective for crowd in crowds]),
            ", ".join(f"{c.effective:.0f} with {c.size}-by-{c.size} patches" for c in crowds),
        ),
    ]


def whitening_eps(size: int) -> float:
    """Return the constant that the paper advises for contrast-normalised patches of this side.

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
    ctx: Context,
    source: PatchSource,
    size: int,
    counts: Sequence[int],
    rng: np.random.Generator,
    *,
    n_whitening: int | None = None,
) -> list[Any]:
    """Draw patches, normalise them, and whiten all in place with what the first of them say."""
    normalizer = ContrastNormalizer()
    drawn = [place(ctx, source.draw(n, size, rng=rng)) for n in counts]
    for X in drawn:
        _replace_rows(X, normalizer.fit_transform)
    whitener = Whitener(eps=whitening_eps(size)).fit(drawn[0][:n_whitening])
    for X in drawn:
        _replace_rows(X, whitener.transform)
    return drawn


def _replace_rows(X: Any, transform: Callable[[Any], Any]) -> None:
    """Transform rows block by block: 500,000 patches of 64 by 64 pixels fill 8 GB, and one copy is enough."""
    for start in range(0, len(X), BLOCK):
        X[start : start + BLOCK] = transform(X[start : start + BLOCK])


def _filters(
    ctx: Context, source: PatchSource, settings: dict[str, Any]
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return filters of each kind, one per row, and their responses to fresh patches."""
    rng = np.random.default_rng(ctx.seed)
    counts = (settings["n_patches"], settings["n_fresh"])
    X, fresh = _white(ctx, source, settings["patch_size"], counts, rng)
    k, coding = settings["n_clusters"], settings["sparse_coding"]
    kmeans = GainShapeKMeans(k, max_iter=MAX_ITER, compute_labels=False, random_state=ctx.seed)
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
    counts = (settings["n_of_each_size"],)
    (X,) = _white(ctx, source, size, counts, rng, n_whitening=settings["n_whitening"])
    k = settings["n_clusters"]
    kmeans = ctx.watch(GainShapeKMeans(k, max_iter=MAX_ITER, random_state=ctx.seed)).fit(X)
    gains = _gains(X, kmeans)
    labels, n_patches = to_host(kmeans.labels_), to_host(kmeans.counts_)
    second, fourth = (np.bincount(labels, gains**p, minlength=k) for p in (2, 4))
    effective = np.divide(second**2, fourth, out=np.zeros(k), where=fourth > 0)
    centers = to_host(kmeans.cluster_centers_)
    random = rng.standard_normal(centers.shape)
    return Crowd(
        size,
        centers,
        float((n_patches < NEAR_EMPTY * len(labels) / k).mean()),
        float((effective < SINGLE).mean()),
        float(np.median(effective)),
        float((spread(centers) >= NOISY * np.median(spread(random))).mean()),
    )


def _gains(X: Any, kmeans: Any) -> np.ndarray:
    """Return the response of every row's own centroid, block by block."""
    labels = to_host(kmeans.labels_)
    gains = np.empty(len(labels))
    for start in range(0, len(labels), BLOCK):
        rows = slice(start, start + BLOCK)
        responses = to_host(kmeans.transform(X[rows]))
        gains[rows] = responses[np.arange(len(responses)), labels[rows]]
    return gains


def _rows(kurtosis: dict[str, np.ndarray], crowds: Sequence[Crowd]) -> list[tuple[object, ...]]:
    """Compare each measure with the paper's statement."""
    rows: list[tuple[object, ...]] = [
        (f"{label}: excess kurtosis of the responses", said, f"{np.median(kurtosis[kind]):.1f}")
        for kind, (label, said, _) in KINDS.items()
    ]
    largest = crowds[-1].size
    for crowd in crowds:
        said = (
            "“a few edges”, most are “a single patch”; “empty or singletons”"
            if crowd.size == largest
            else ""
        )
        rows.append(
            (
                f"Clusters of {crowd.size}-by-{crowd.size} patches",
                said,
                f"{crowd.single:.0%} a single patch in effect (median {crowd.effective:.1f}), "
                f"{crowd.near_empty:.0%} near-empty, {crowd.noisy:.0%} noise",
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
    ax.set(xlabel="response (standard deviations)", ylabel="density")
    # Below the axes: inside it would hide a curve.
    figure.legend(
        fontsize=8,
        title="excess kurtosis in brackets",
        title_fontsize=8,
        ncols=3,
        loc="outside lower center",
    )
    ax.grid(alpha=0.25)
    return Picture(
        figure,
        caption="Responses of whitened patches to the filters of each kind. Sparse responses have a high "
        "peak at zero and long tails.",
        alt="A curve for every kind of filter over standardised responses, and that of a Gaussian.",
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
        caption="Centroids of whitened patches of two sizes, each scaled to its own range.",
        alt="Two grids of grey tiles, centroids of small patches on the left and of large ones on the right.",
        name="centroids",
    )
