"""Vinnikov & Shalev-Shwartz 2014, section 6.1: distances of centroids from the axes, for many laws of s.

The distance is dist(c, e) = max_j |e_j - c_(n_j)|_∞.
The sources are clustered as they are drawn, unmixed and unwhitened, as in table 1 of the paper.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from clusterica.cluster import CosineKMeans, KMeans, SphericalKMeans
from clusterica.datasets import make_sparse_sources
from clusterica.experiments._bands import band
from clusterica.experiments._context import Context
from clusterica.experiments._panels import side_by_side
from clusterica.experiments._registry import experiment
from clusterica.experiments._result import Check, Picture, Result
from clusterica.experiments.vinnikov_shalev_shwartz_2014._table1_cells import in_words
from clusterica.metrics import recovery_distance

NOTE = (
    "Median distance over the draws, and below it the 10 % and 90 % quantiles. The paper prints one draw "
    "of K-means and one of cosine K-means for Laplace sources, and says “similar results” of the others, "
    "Cauchy included; it does not name the degrees of freedom of Student's t, 5 and 3 are ours, nor from "
    "which ratio on results are similar, 2 is ours. All learners have 2d centroids and the orthogonal "
    "start. “Directions” is spherical K-means without a sign, on rows scaled to unit length. Uniform and "
    "Gaussian sources are our controls: there is nothing on the axes to find. Random rotations of the "
    "axes have a median distance over as many draws of {chance} or more, but for one case in 1000. "
    "Sources with t(3) have no fourth moment and Cauchy sources not even a mean, so that squared errors, "
    "which K-means sums, are a matter of a few far rows; the cosine rule is linear in the rows."
)
SIMILAR = "similar"
FACTOR = 2  # up to which the median distance counts as similar to that of Laplace sources
ROTATIONS = 1000  # random ones, whose distances from the axes are those of chance
RARE = 0.001  # share of the medians of random rotations below which a median is not one of chance


class Law(NamedTuple):
    """A law of the sources."""

    label: str
    distribution: str
    df: float
    paper: str


class Learner(NamedTuple):
    """A clusterer with 2d centroids."""

    label: str
    make: Callable[[int, int], Any]
    color: str
    marker: str


LAWS = {
    "laplace": Law("Laplace", "laplace", 5, "table 1"),
    "hypsecant": Law("hyperbolic secant", "hypsecant", 5, SIMILAR),
    "logistic": Law("logistic", "logistic", 5, SIMILAR),
    "t5": Law("Student's t(5)", "t", 5, SIMILAR),
    "t3": Law("Student's t(3)", "t", 3, SIMILAR),
    "cauchy": Law("Cauchy", "cauchy", 5, SIMILAR),
    "uniform": Law("uniform", "uniform", 5, "—"),
    "gaussian": Law("Gaussian", "gaussian", 5, "—"),
}
LEARNERS = {
    "kmeans": Learner(
        "K-means",
        lambda k, seed: KMeans(
            k,
            init="orthogonal",
            max_iter=100,
            tol=1e-6,
            compute_labels=False,
            random_state=seed,
        ),
        "#d62728",
        "o",
    ),
    "cosine": Learner(
        "cosine K-means",
        lambda k, seed: CosineKMeans(k // 2, max_iter=100, compute_labels=False, random_state=seed),
        "#2a7a2a",
        "s",
    ),
    "directions": Learner(
        "directions",
        lambda k, seed: SphericalKMeans(
            k,
            init="orthogonal",
            tol=1e-6,
            compute_labels=False,
            random_state=seed,
        ),
        "#7f4fa3",
        "D",
    ),
}
PAPERS = ("kmeans", "cosine")  # the learners that the paper has
# Table 1 of the paper, Laplace sources: (d, rows) to the distances of both of its learners.
TABLE_1 = {
    (2, 10_000): (0.0306, 0.0131),
    (2, 100_000): (0.0063, 0.0033),
    (10, 10_000): (0.0908, 0.0495),
    (10, 100_000): (0.0190, 0.0148),
    (20, 10_000): (0.3849, 0.0749),
    (20, 100_000): (0.0367, 0.0238),
}


@experiment(
    "P0-dists",
    title="Which distributions of the sources pull centroids to the axes",
    paper="Vinnikov & Shalev-Shwartz 2014, section 6.1",
    claim="Hyperbolic secant, logistic, Cauchy and Student's t sources show results similar to "
    "Laplace sources: the distance of the centroids from the axes goes to zero.",
    minutes=4.5,
)
def run(ctx: Context) -> Result:
    """Measure the distance for every law, dimension and number of rows."""
    settings: dict[str, Any] = {
        "n_features": ctx.choose(full=[2, 10, 20], quick=[2, 10]),
        "n_samples": ctx.choose(full=[10_000, 100_000], quick=[10_000]),
        "n_draws": ctx.choose(full=10, quick=3),
        "laws": list(LAWS),
        "learners": list(LEARNERS),
    }
    sizes = [(d, m) for d in settings["n_features"] for m in settings["n_samples"]]
    cells = [(law, d, m) for law in LAWS for d, m in sizes]
    values: dict[str, Any] = {law: {} for law in LAWS}
    for law, d, m in ctx.track(cells, "Laws, dimensions, numbers of rows"):
        values[law][f"d{d}_m{m}"] = _distances(
            law, d, m, n_draws=settings["n_draws"], seed=ctx.seed
        )
    chance = {
        f"d{d}": _chance(d, settings["n_draws"], seed=ctx.seed) for d in settings["n_features"]
    }
    labels = [learner.label for learner in LEARNERS.values()]
    return Result(
        columns=("Sources", "Paper", *labels),
        rows=[
            (
                _sources(law, d, m),
                _paper(law, d, m),
                *(_cell(values[law][f"d{d}_m{m}"][name]) for name in LEARNERS),
            )
            for law, d, m in cells
        ],
        values={**values, "random_rotations": chance},
        settings=settings,
        pictures=(_picture(values, settings),),
        note=NOTE.format(chance=", ".join(f"{low:.2f} (d = {d[1:]})" for d, low in chance.items())),
        checks=checks(values, chance),
    )


def checks(values: dict[str, Any], chance: dict[str, float]) -> list[Check]:
    """Compare the laws that the paper names with Laplace, for both of its learners; then the controls.

    Parameters
    ----------
    values : dict
        Distances by law, cell and learner; a cell is named like ``d10_m100000``.
    chance : dict of str to float
        The least median distance that random rotations have but for rare cases, by dimension (``d10``).

    Returns
    -------
    list of Check
    """
    medians = {
        law: {
            name: {cell: float(np.median(found[name])) for cell, found in cells.items()}
            for name in LEARNERS
        }
        for law, cells in values.items()
    }
    named = [law for law, about in LAWS.items() if about.paper == SIMILAR]
    return [
        *(_similar(LAWS[law].label, medians[law], medians["laplace"]) for law in named),
        *_convergence({law: medians[law] for law in ("laplace", *named)}),
        _controls({law: medians[law] for law in ("uniform", "gaussian")}, chance),
    ]


Medians = dict[str, dict[str, float]]  # by learner and cell


def _similar(label: str, found: Medians, laplace: Medians) -> Check:
    """Ask whether both learners of the paper come as near to the axes as on Laplace sources."""
    worst = {
        name: max((found[name][cell] / laplace[name][cell], cell) for cell in found[name])
        for name in PAPERS
    }
    return Check(
        f"{label} sources give results similar to Laplace sources, with K-means and cosine K-means: a median "
        f"distance at most {FACTOR} times theirs in every cell",
        all(ratio <= FACTOR for ratio, _ in worst.values()),
        ", ".join(
            f"{LEARNERS[name].label} at most {ratio:.3g} times ({in_words(cell)})"
            for name, (ratio, cell) in worst.items()
        ),
    )


def _convergence(medians: dict[str, Medians]) -> list[Check]:
    """Ask whether distances fall where rows grow tenfold; nothing where there is one number of rows."""
    pairs = [(cell, f"{cell}0") for cell in medians["laplace"]["kmeans"]]
    pairs = [(few, many) for few, many in pairs if many in medians["laplace"]["kmeans"]]
    if not pairs:
        return []
    risen = [
        f"{LEARNERS[name].label} on {LAWS[law].label} sources (from {in_words(few)}, to {in_words(many)})"
        for law, found in medians.items()
        for name in PAPERS
        for few, many in pairs
        if found[name][many] >= found[name][few]
    ]
    n = len(medians) * len(PAPERS) * len(pairs)
    return [
        Check(
            "on all these distributions the median distances of K-means and cosine K-means fall as rows grow "
            "tenfold",
            not risen,
            f"in {n - len(risen)} of {n} cases" + (f"; not {', '.join(risen)}" if risen else ""),
        )
    ]


def _controls(medians: dict[str, Medians], chance: dict[str, float]) -> Check:
    """Ask whether the axes are not found where the law has no positive excess kurtosis."""
    cases = [
        (
            distance,
            chance[cell.partition("_")[0]],
            f"{LEARNERS[name].label} on {law} sources ({in_words(cell)})",
        )
        for law, found in medians.items()
        for name in PAPERS
        for cell, distance in found[name].items()
    ]
    distance, low, where = min(cases, key=lambda case: case[0] / case[1])
    return Check(
        "positive excess kurtosis is needed (our controls): on uniform and Gaussian sources K-means and "
        "cosine K-means come no nearer to the axes than random rotations do by chance, in every cell",
        all(distance >= low for distance, low, _ in cases),
        f"the nearest, {where}, has a median of {distance:.2g}; random rotations have {low:.2g} or more but "
        f"for {RARE:.1%} of the cases",
    )


def _chance(d: int, n_draws: int, *, seed: int) -> float:
    """Return the median distance of random rotations over the draws, low enough that few are below it."""
    rng = np.random.default_rng([seed, d])
    turned = np.linalg.qr(rng.standard_normal((ROTATIONS, d, d))).Q
    distances = [recovery_distance(np.concatenate([Q, -Q]), np.eye(d)) for Q in turned]
    medians = np.median(rng.choice(distances, (round(10 / RARE), n_draws)), axis=1)
    return float(np.quantile(medians, RARE))


def _distances(law: str, d: int, m: int, *, n_draws: int, seed: int) -> dict[str, list[float]]:
    """Return the distances of every learner over the draws; all learners see the same rows."""
    found: dict[str, list[float]] = {name: [] for name in LEARNERS}
    for draw in range(n_draws):
        rng = np.random.default_rng([seed, list(LAWS).index(law), d, m, draw])
        S = make_sparse_sources(
            m, d, distribution=LAWS[law].distribution, df=LAWS[law].df, random_state=rng
        ).S
        start = int(rng.integers(2**31))
        for name, learner in LEARNERS.items():
            with warnings.catch_warnings():
                # Far rows may leave other centroids without any: the distance shows that.
                warnings.simplefilter("ignore", ConvergenceWarning)
                model = learner.make(2 * d, start).fit(S)
            found[name].append(recovery_distance(model.cluster_centers_, np.eye(d)))
    return found


# Cells are broken into lines, so that three learners fit side by side into a terminal.


def _sources(law: str, d: int, m: int) -> str:
    """Write the law, the dimension and the number of rows."""
    rows = f"{m:.0e}".replace("e+0", "e")
    return "\n".join([*LAWS[law].label.split(), f"d = {d}", f"m = {rows}"])


def _cell(distances: list[float]) -> str:
    """Write the median and its band."""
    low, median, high = band(distances)
    return f"{median:#.3g}\n{low:#.2g}–{high:#.2g}"


def _paper(law: str, d: int, m: int) -> str:
    """Return the paper's word for a row of the table."""
    if law == "laplace" and (d, m) in TABLE_1:
        return "{}\n{}".format(*TABLE_1[d, m])
    return LAWS[law].paper


def _picture(values: dict[str, Any], settings: dict[str, Any]) -> Picture:
    """Draw medians and bands, a panel for each dimension."""
    dimensions, sizes = settings["n_features"], settings["n_samples"]
    figure, panels = side_by_side(len(dimensions), width=3.4 * len(dimensions) + 1.2, height=4.6)
    for ax, d in zip(panels, dimensions, strict=True):
        for row, law in enumerate(LAWS):
            if row % 2:
                ax.axhspan(row - 0.5, row + 0.5, color="0.95", linewidth=0)
            for m in sizes:
                _draw_learners(ax, values[law][f"d{d}_m{m}"], row, filled=m == sizes[-1])
        ax.set(xscale="log", xlim=(1.5e-4, 2), ylim=(len(LAWS) - 0.5, -0.5), title=f"d = {d}")
        ax.set_yticks(range(len(LAWS)), [law.label for law in LAWS.values()] if d == 2 else [])
        ax.set_xlabel("distance from the axes")
        ax.grid(axis="x", alpha=0.25)
    panels[0].legend(
        handles=[_handle(learner) for learner in LEARNERS.values()], fontsize=8, loc="lower left"
    )
    open_markers = f"; open: {sizes[0]:,}" if len(sizes) > 1 else ""
    return Picture(
        figure,
        caption=f"Median distance over the draws with its 10–90 % band (filled: {sizes[-1]:,} "
        f"rows{open_markers}).",
        alt="A panel for each dimension with a row for each distribution, and in it markers of three "
        "learners along an axis of distance.",
    )


def _draw_learners(ax: Any, distances: dict[str, list[float]], row: int, *, filled: bool) -> None:
    """Draw one cell: a marker and a band for each learner, one below the other."""
    for (name, learner), shift in zip(LEARNERS.items(), (-0.24, 0.0, 0.24), strict=True):
        low, median, high = band(distances[name])
        color = learner.color
        ax.plot([low, high], [row + shift] * 2, color=color, alpha=0.6, linewidth=1.4)
        face = color if filled else "white"
        ax.plot(
            median, row + shift, learner.marker, color=color, markerfacecolor=face, markersize=4.5
        )


def _handle(learner: Learner) -> Any:
    """Return a legend entry."""
    from matplotlib.lines import Line2D

    return Line2D(
        [], [], color=learner.color, marker=learner.marker, markersize=5, label=learner.label
    )
