"""Vinnikov & Shalev-Shwartz 2014, figure 1: four centroids of Laplace rows in the plane lie on the axes.

Rows are drawn from p(s) ∝ exp(-√2 |s|₁).
The distance is max_j |e_j - c_(n_j)|_∞ of unit centroids c, matched with both signs of both axes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from clusterica.cluster import CosineKMeans, KMeans
from clusterica.datasets import make_sparse_sources
from clusterica.display import CentersDisplay
from clusterica.experiments._bands import band
from clusterica.experiments._checks import falls
from clusterica.experiments._context import Context
from clusterica.experiments._panels import side_by_side
from clusterica.experiments._registry import experiment
from clusterica.experiments._result import Check, Picture, Result
from clusterica.metrics import recovery_distance

NOTE = (
    "Distance of the unit centroids from ±e₁, ±e₂: median over the draws, with the 10 % and 90 % "
    "quantiles. The paper prints one draw a cell (its table 1, d = 2), and the last of its columns "
    "is for 5 million rows. K-means starts from k-means++; the paper starts at random. Four centroids on the "
    "axes at equal distances from zero would leave a mean squared error of 2 - 1.5² / 2 = 0.875; those of "
    "the drawn fit have lengths {lengths} and leave {error:.3f}."
)
NEAR = 0.02  # distance under which centroids count as on the axes


class Learner(NamedTuple):
    """A clusterer and what the paper prints of it."""

    label: str
    make: Callable[[int], Any]
    printed: dict[int, float]
    color: str


class Fit(NamedTuple):
    """Rows, the estimator fitted on them, and its distance from the axes."""

    S: np.ndarray
    model: Any
    distance: float


LEARNERS = {
    "kmeans": Learner(
        "K-means",
        lambda seed: KMeans(4, tol=1e-8, compute_labels=False, random_state=seed),
        {10_000: 0.0306, 100_000: 0.0063, 5_000_000: 0.0023},
        "#d62728",
    ),
    "cosine": Learner(
        "cosine K-means",
        lambda seed: CosineKMeans(compute_labels=False, random_state=seed),
        {10_000: 0.0131, 100_000: 0.0033, 5_000_000: 0.00058},
        "#2a7a2a",
    ),
}
SHOWN = 100_000  # rows of the draw in the picture


@experiment(
    "P0-fig1",
    title="Four centroids of Laplace rows lie on the axes",
    paper="Vinnikov & Shalev-Shwartz 2014, figure 1",
    claim="On independent Laplace variables in two dimensions, K-means with k = 4 converges to "
    "points on the axes, and hence to the unit vectors when normalised.",
    minutes=0.7,
)
def run(ctx: Context) -> Result:
    """Measure distances over the number of rows, and draw one fit."""
    settings: dict[str, Any] = {
        "n_samples": ctx.choose(
            full=[1_000, 10_000, 100_000, 1_000_000], quick=[1_000, 10_000, 100_000]
        ),
        "n_draws": ctx.choose(full=20, quick=5),
    }
    sizes = settings["n_samples"]
    cells = [(name, m) for m in sizes for name in LEARNERS]
    values: dict[str, Any] = {name: {} for name in LEARNERS}
    for name, m in ctx.track(cells, "Learners and numbers of rows"):
        draws = range(settings["n_draws"])
        values[name][str(m)] = [fit(name, m, [ctx.seed, m, draw]).distance for draw in draws]
    shown = fit("kmeans", SHOWN, [ctx.seed, SHOWN, 0])
    values["mean_squared_error"] = float(shown.model.inertia_ / SHOWN)
    lengths = np.sort(np.linalg.norm(shown.model.cluster_centers_, axis=1))
    values["lengths"] = lengths
    return Result(
        columns=("Learner", "Rows", "The paper", "Distance (10–90 %)", "Worst draw"),
        rows=[
            (
                LEARNERS[name].label,
                f"{m:,}",
                str(LEARNERS[name].printed.get(m, "—")),
                str(band(values[name][str(m)])),
                max(values[name][str(m)]),
            )
            for name, m in cells
        ],
        values=values,
        settings=settings,
        pictures=(_picture(values, sizes, shown),),
        note=NOTE.format(
            lengths=", ".join(f"{one:.2f}" for one in lengths), error=values["mean_squared_error"]
        ),
        checks=checks(values, sizes),
    )


def checks(values: dict[str, Any], sizes: Sequence[int]) -> list[Check]:
    """Ask of both learners whether their centroids reach the axes as the number of rows grows.

    Parameters
    ----------
    values : dict
        Distances of every learner, by number of rows.
    sizes : sequence of int
        The numbers of rows, rising.

    Returns
    -------
    list of Check
    """
    found = []
    for name, learner in LEARNERS.items():
        medians = {m: band(values[name][str(m)]).median for m in sizes}
        numbers = ", ".join(f"{distance:.2g} with {m:,} rows" for m, distance in medians.items())
        found += [
            Check(
                f"the centroids of {learner.label} converge to the axes: their median distance falls with "
                "every step in the number of rows",
                falls(list(medians.values())),
                numbers,
            ),
            Check(
                f"with {SHOWN:,} rows the median distance of {learner.label} is below {NEAR:g}",
                medians[SHOWN] < NEAR,
                f"{medians[SHOWN]:.2g}, worst draw {max(values[name][str(SHOWN)]):.2g}",
            ),
        ]
    return found


def fit(name: str, n_samples: int, seed: list[int]) -> Fit:
    """Fit a learner on one draw; both learners see the same rows.

    Parameters
    ----------
    name : {"kmeans", "cosine"}
        The learner.
    n_samples : int
        Rows of the draw.
    seed : list of int
        Seed of the rows and of the learner.

    Returns
    -------
    Fit
    """
    rng = np.random.default_rng(seed)
    S = make_sparse_sources(n_samples, 2, random_state=rng).S
    model = LEARNERS[name].make(int(rng.integers(2**31))).fit(S)
    return Fit(S, model, recovery_distance(model.cluster_centers_, np.eye(2)))


def _picture(values: dict[str, Any], sizes: list[int], shown: Fit) -> Picture:
    """Draw the rows with their centroids, and the distances over the number of rows."""
    figure, (left, right) = side_by_side(2, width=8.6, height=4.0)
    title = f"K-means, k = 4, {SHOWN:,} rows"
    CentersDisplay.from_estimator(shown.model, shown.S, max_points=8000, title=title, ax=left)
    left.set(xlabel="$s_1$", ylabel="$s_2$")

    for name, learner in LEARNERS.items():
        low, median, high = zip(*(band(values[name][str(m)]) for m in sizes), strict=True)
        right.fill_between(sizes, low, high, color=learner.color, alpha=0.15, linewidth=0)
        right.plot(sizes, median, "o-", color=learner.color, label=learner.label)
        right.plot(
            list(learner.printed),
            list(learner.printed.values()),
            "x",
            color=learner.color,
            markersize=8,
            markeredgewidth=2,
            label=f"{learner.label}, the paper",
        )
    right.set(xscale="log", yscale="log", xlabel="rows", ylabel="distance from the axes")
    right.set_title("Distance over the number of rows")
    right.grid(alpha=0.25)
    right.legend(fontsize=8)
    return Picture(
        figure,
        caption=f"Left: rows of two Laplace sources and the centroids of K-means as arrows "
        f"(distance {shown.distance:.4f}). Right: median distance over the draws with its 10–90 % band, "
        "and the single draws that the paper prints.",
        alt="A star-shaped cloud of points with four red arrows; beside it two lines of distance over the "
        "number of rows, and crosses for the paper's figures.",
    )
