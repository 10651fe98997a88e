"""Vinnikov & Shalev-Shwartz 2014, figure 5: how many K-means filters of patches are noise, by the start.

A filter is noisy where it spreads over pixels and frequencies at once, at least half as much as random ones.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from clusterica.cluster import KMeans
from clusterica.display import FiltersDisplay
from clusterica.experiments._bands import band
from clusterica.experiments._context import Context
from clusterica.experiments._measures import NOISY, spread
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
from clusterica.metrics import excess_kurtosis

NOTE = (
    "Filters of K-means with k = 2d on the same white patches, medians over the starts with the 10 % and "
    "90 % quantiles. The paper shows pictures and does not say what its random start is: here random "
    "directions, or patches. “Orthonormal” is the paper's start, both signs of a random orthonormal basis. "
    "“Orthogonal” is ours: it turns that basis towards the sparse directions first, by iterations that keep "
    "it orthogonal. The paper does not define noisy: a filter is noisy here where it spreads over "
    "many pixels and many frequencies at once, as noise does: the product of both shares, each "
    "(Σ E)² / (n Σ E²) of n energies E, is at least half the median of random filters, {level:.2f}. A dot "
    "has many frequencies, a grating many pixels, an edge few of both. Low kurtosis counts filters whose "
    "responses to fresh patches have an excess kurtosis below half the median filter's. The patches come "
    "from {data}; the paper's come from Olshausen's natural scenes."
)
MANY = 1 / 3  # share of the noisy filters that has to vanish for “many”


class Start(NamedTuple):
    """A way to initialise K-means."""

    label: str
    paper: str


STARTS = {
    "gaussian": Start("random directions", "fig. 5 (a): noisy filters among clear ones"),
    "rows": Start("random patches", "—"),
    "orthonormal": Start(
        "orthonormal", "fig. 5 (b): “many of the noisy filters are replaced with clear ones”"
    ),
    "orthogonal": Start("orthogonal", "—"),
}


class Fit(NamedTuple):
    """Filters in pixels, those that spread least first, with the excess kurtosis of their responses."""

    filters: np.ndarray
    kurtosis: np.ndarray
    n_noisy: int

    @property
    def n_low_kurtosis(self) -> int:
        """Number of filters whose kurtosis is below half the median."""
        return int((self.kurtosis < np.median(self.kurtosis) / 2).sum())


@experiment(
    "P0-init",
    title="Noisy filters by the start of K-means",
    paper="Vinnikov & Shalev-Shwartz 2014, section 6.4 and figure 5",
    claim="Started from both signs of a random orthonormal basis, K-means on natural patches learns "
    "fewer noisy filters than from a random start.",
    options=("data",),
    needs="BSDS500",
    minutes=2.3,
)
def run(ctx: Context) -> Result:
    """Fit K-means from every start, several times, and count noisy filters."""
    source = PatchSource(ctx)
    settings: dict[str, Any] = {
        "data": source.name,
        "patch_size": 10,
        "n_patches": ctx.choose(full=100_000, quick=15_000),
        "n_fresh": ctx.choose(full=50_000, quick=10_000),
        "n_draws": ctx.choose(full=10, quick=2),
        "n_random": 1000,
        "noisy_above_random": NOISY,
        "max_iter": 100,
        "contrast_eps": CONTRAST_EPS,
        "whitening_eps": WHITENING_EPS,
        "starts": list(STARTS),
    }
    fits, level = _fit_all(ctx, source, settings)
    counts = {
        key: {name: [getattr(fit, key) for fit in fits[name]] for name in STARTS}
        for key in ("n_noisy", "n_low_kurtosis")
    }
    n_filters = len(fits["gaussian"][0].filters)
    return Result(
        columns=(
            "Start",
            "The paper says",
            f"Noisy, of {n_filters} (10–90 %)",
            "Low kurtosis (10–90 %)",
            "Median kurtosis",
        ),
        rows=[
            (
                start.label,
                start.paper,
                *(_counts(of_start[name]) for of_start in counts.values()),
                band([float(np.median(fit.kurtosis)) for fit in fits[name]]).median,
            )
            for name, start in STARTS.items()
        ],
        values={
            "n_filters": n_filters,
            "spread_of_random_filters": level,
            **counts,
            "median_excess_kurtosis": {
                name: [float(np.median(fit.kurtosis)) for fit in fits[name]] for name in STARTS
            },
        },
        settings=settings,
        pictures=(_picture({name: fits[name][0] for name in STARTS}),),
        note=NOTE.format(data=source.name, level=level),
        checks=checks(counts["n_noisy"], n_filters=n_filters),
    )


def checks(n_noisy: dict[str, list[int]], *, n_filters: int) -> list[Check]:
    """Compare the paper's start with both random ones.

    Parameters
    ----------
    n_noisy : dict of str to list of int
        Numbers of noisy filters by start, one for each draw.
    n_filters : int
        Filters of a draw.

    Returns
    -------
    list of Check
    """
    median = {name: float(np.median(counts)) for name, counts in n_noisy.items()}
    ours, found = median["orthonormal"], []
    for name in ("gaussian", "rows"):
        theirs, label = median[name], STARTS[name].label
        numbers = f"{ours:g} against {theirs:g} of {n_filters} filters, medians over the draws"
        found += [
            Check(
                f"from the orthonormal start fewer filters are noisy than from {label}",
                ours < theirs,
                numbers,
            ),
            Check(
                f"many of the noisy filters from {label} are replaced with clear ones: the orthonormal start "
                "has at least a third fewer",
                theirs > 0 and ours <= (1 - MANY) * theirs,
                numbers,
            ),
        ]
    return found


def _fit_all(
    ctx: Context, source: PatchSource, settings: dict[str, Any]
) -> tuple[dict[str, list[Fit]], float]:
    """Fit K-means from every start on the same white patches; the median spread of random filters too."""
    size = settings["patch_size"]
    patches = natural_patches(
        source, settings["n_patches"], size, n_fresh=settings["n_fresh"], seed=ctx.seed
    )
    whitener = patch_whitener(size).fit(patches.X)
    Y, fresh = (whitener.transform(rows) for rows in patches)
    random = np.random.default_rng(ctx.seed).standard_normal((settings["n_random"], Y.shape[1]))
    level = float(np.median(spread(random @ whitener.whitening_)))
    fits: dict[str, list[Fit]] = {name: [] for name in STARTS}
    jobs = [(name, draw) for name in STARTS for draw in range(settings["n_draws"])]
    for name, draw in ctx.track(jobs, "Starts of K-means"):
        kmeans = KMeans(
            2 * Y.shape[1],
            init=name,
            max_iter=settings["max_iter"],
            compute_labels=False,
            random_state=np.random.default_rng([ctx.seed, draw]),
        )
        C = kmeans.fit(Y).cluster_centers_
        filters = C @ whitener.whitening_
        spreads = spread(filters)
        order = np.argsort(spreads)
        n_noisy = int((spreads >= NOISY * level).sum())
        fits[name].append(Fit(filters[order], excess_kurtosis(fresh @ C.T)[order], n_noisy))
    return fits, level


def _counts(counts: list[int]) -> str:
    """Write the median of some counts with its band."""
    low, median, high = band(counts)
    return f"{median:g} ({low:.0f}–{high:.0f})"


def _picture(fits: dict[str, Fit]) -> Picture:
    """Draw the filters of each start in the order of their spread, as figure 5 of the paper."""
    figure, panels = side_by_side(len(fits), width=12.0, height=4.4)
    for ax, (name, fit) in zip(panels, fits.items(), strict=True):
        title = f"{STARTS[name].label}\n{fit.n_noisy} of {len(fit.filters)} noisy"
        FiltersDisplay(fit.filters).plot(ax=ax, title=title, n_columns=12)
    return Picture(
        figure,
        caption="Filters of K-means from four starts, each scaled to its own range: those that spread least "
        "over pixels and frequencies first, the noisy ones last.",
        alt="Four grids of small grey tiles, the filters of each start.",
    )
