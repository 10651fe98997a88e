"""Coates & Ng 2012, section 3, conclusions 5 and 6: atoms found in images over the number of images.

Images are x = Σ_j s_j d_j with atoms d_j. K-means against sparse coding, for several numbers of pixels; and
what becomes of K-means without whitening, and with heavier tails.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from clusterica.arrays import to_host
from clusterica.cluster import GainShapeKMeans
from clusterica.datasets import make_sparse_images
from clusterica.experiments._context import Context
from clusterica.experiments._measures import nearest_cosines
from clusterica.experiments._panels import side_by_side
from clusterica.experiments._registry import experiment
from clusterica.experiments._result import Picture, Result
from clusterica.experiments.coates_ng_2012._data_checks import (
    Curves,
    Point,
    condition_checks,
    count,
    data_checks,
    first_half,
    in_seconds,
)
from clusterica.experiments.coates_ng_2012._sparse_coding import learn_sparse_code
from clusterica.experiments.coates_ng_2012._tools import place
from clusterica.preprocessing import Whitener

FOUND = 0.9  # |cos| from which an atom counts as found
# Weight of the penalty by sqrt(log d): a direction at random lets so much of the other sources through.
ALPHA = 0.74
MAX_ITER = 100
LEARNERS = {
    "kmeans": "K-means",
    "kmeans_orthogonal": "K-means, orthogonal start",
    "sparse_coding": "Sparse coding",
}
COLORS = ("#1f5fa8", "#2a9d5c", "#d62728")
NOTE = (
    "An atom is found if |cos| to the nearest row learned is above 0.9. The images are sparse pixels with "
    "coefficients of a Laplace law, whitened, as many learned rows as pixels. Examples needed are those at "
    "which half of the atoms are found, read off between the numbers tried on a logarithmic scale; “over” or "
    "“under” is the largest or smallest number tried. K-means starts at random directions as in the "
    "paper, or at axes turned towards the sparse directions (ours). Sparse coding alternates between "
    "codes and atoms on at most 10,000 examples. Seconds are those of the first number of examples "
    "that finds half, on the machine of the run."
)


class Grid(NamedTuple):
    """Numbers of examples to try for images of one size."""

    size: int
    """Side of the images in pixels."""
    kmeans: tuple[int, ...]
    sparse_coding: tuple[int, ...]
    n_draws: int


FULL = (
    Grid(4, (100, 200, 500, 1000, 3000), (100, 200, 500, 1000), 8),
    Grid(6, (500, 1000, 2000, 5000, 10_000), (300, 500, 1000, 2000), 4),
    Grid(8, (2000, 5000, 10_000, 30_000), (1000, 2000, 5000), 2),
    Grid(12, (10_000, 20_000, 50_000, 100_000), (2000, 5000, 10_000), 1),
    Grid(16, (30_000, 50_000, 100_000, 300_000), (5000, 10_000), 1),
)
QUICK = (
    Grid(4, (100, 300, 1000, 3000), (100, 300, 1000), 3),
    Grid(6, (300, 1000, 3000, 10_000), (300, 1000), 2),
    Grid(8, (1000, 3000, 10_000, 30_000), (1000, 3000), 1),
)


@experiment(
    "P1-data",
    title="Recovery against the number of examples and the dimension",
    paper="Coates & Ng 2012, section 3, conclusions 5 and 6",
    claim="As the dimension increases, K-means needs increasingly large quantities of data to find sparse "
    "directions; sparse coding finds them with 10,000 examples. Without whitening or with too few "
    "examples K-means performs poorly.",
    options=("device",),
    minutes=7,
)
def run(ctx: Context) -> Result:
    """Learn from more and more examples, in more and more dimensions."""
    grids = ctx.choose(full=FULL, quick=QUICK)
    settings: dict[str, Any] = {
        "grids": [grid._asdict() for grid in grids],
        "found_above": FOUND,
        "alpha_by_root_of_log_dimension": ALPHA,
        "n_passes": ctx.choose(full=40, quick=20),
        "max_iter": MAX_ITER,
        "conditions": {
            "size": 8,
            "n_samples": ctx.choose(full=100_000, quick=10_000),
            "n_few": 1000,
            "density": 0.3,
        },
    }
    curves: Curves = {grid.size**2: {} for grid in grids}
    for grid, learner in ctx.track([(g, name) for g in grids for name in LEARNERS], "Curves"):
        curves[grid.size**2][learner] = _curve(ctx, grid, learner, settings["n_passes"])
    conditions = _conditions(ctx, settings["conditions"])
    needed = {name: {d: _needed(c[name]) for d, c in curves.items()} for name in LEARNERS}
    return Result(
        columns=("What", "The paper says", *LEARNERS.values()),
        rows=_rows(curves, needed, conditions, settings["conditions"]),
        values={
            "curves": {
                f"d{d}": {name: [point._asdict() for point in one] for name, one in c.items()}
                for d, c in curves.items()
            },
            "examples_needed": {
                name: {f"d{d}": n for d, n in one.items()} for name, one in needed.items()
            },
            "conditions": conditions,
        },
        settings=settings,
        pictures=(_picture(curves, needed),),
        note=NOTE,
        checks=[*data_checks(curves, needed), *condition_checks(conditions)],
    )


def _curve(ctx: Context, grid: Grid, learner: str, n_passes: int) -> list[Point]:
    """Return what a learner finds for every number of examples."""
    counts = grid.sparse_coding if learner == "sparse_coding" else grid.kmeans
    points = []
    for n_samples in counts:
        draws = [
            _recover(
                ctx, learner, size=grid.size, n_samples=n_samples, draw=draw, n_passes=n_passes
            )
            for draw in range(grid.n_draws)
        ]
        near = np.concatenate([cosines for cosines, _ in draws])
        seconds = float(np.median([seconds for _, seconds in draws]))
        points.append(Point(n_samples, float((near > FOUND).mean()), float(near.mean()), seconds))
    return points


def _recover(
    ctx: Context,
    learner: str,
    *,
    size: int,
    n_samples: int,
    draw: int = 0,
    n_passes: int = 0,
    kind: str = "pixels",
    density: float = 1.0,
    whiten: bool = True,
) -> tuple[np.ndarray, float]:
    """Draw images, learn from them, and return |cos| of every atom and the seconds of the learner."""
    rng = np.random.default_rng([ctx.seed, size, n_samples, draw])
    drawn = make_sparse_images(n_samples, kind=kind, size=size, density=density, random_state=rng)
    X, atoms = (part.reshape(len(part), -1) for part in drawn)
    back = np.eye(size * size)
    if whiten:
        whitener = Whitener(eps=0.0).fit(X)
        X, back = whitener.transform(X), whitener.dewhitening_.T
    start = time.perf_counter()
    rows = _learn(ctx, learner, X, rng, n_passes)
    seconds = time.perf_counter() - start
    return nearest_cosines(atoms, rows @ back), seconds


def _learn(
    ctx: Context, learner: str, X: np.ndarray, rng: np.random.Generator, n_passes: int
) -> np.ndarray:
    """Return as many rows as there are features."""
    n, d = X.shape
    if learner == "sparse_coding":
        return learn_sparse_code(
            X,
            d,
            alpha=ALPHA * np.sqrt(np.log(d)),
            n_passes=n_passes,
            batch_size=max(10, n // 20),
            random_state=rng,
        )
    init = "orthogonal" if learner == "kmeans_orthogonal" else "gaussian"
    estimator = GainShapeKMeans(
        d,
        init=init,
        max_iter=MAX_ITER,
        compute_labels=False,
        random_state=int(rng.integers(2**31)),
    )
    return np.asarray(to_host(estimator.fit(place(ctx, X)).cluster_centers_))


def _conditions(ctx: Context, settings: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Return the share that K-means finds with and without whitening, and with heavier tails."""
    size, many, few = (settings[key] for key in ("size", "n_samples", "n_few"))
    cases: dict[str, dict[str, Any]] = {
        "whitened": {"n_samples": many, "kind": "gabors"},
        "not_whitened": {"n_samples": many, "kind": "gabors", "whiten": False},
        "laplace": {"n_samples": few},
        "sparser": {"n_samples": few, "density": settings["density"]},
    }
    return {
        name: {
            learner: float((_recover(ctx, learner, size=size, **case)[0] > FOUND).mean())
            for learner in ("kmeans", "kmeans_orthogonal")
        }
        for name, case in cases.items()
    }


def _needed(points: Sequence[Point]) -> float | None:
    """Return the number of examples at which half of the atoms are found; None beyond the last."""
    for before, after in zip((None, *points), points, strict=False):
        if after.share < 0.5:
            continue
        if before is None:
            return float(after.n_samples)
        way = (0.5 - before.share) / (after.share - before.share)
        return float(before.n_samples * (after.n_samples / before.n_samples) ** way)
    return None


def growth(needed: dict[int, float | None]) -> float | None:
    """Return the exponent b of n ~ d^b, by least squares on logarithms; None with less than two points.

    Parameters
    ----------
    needed : dict of int to float or None
        Examples needed by dimension; None where they are not known.

    Returns
    -------
    float or None
    """
    known = [(d, n) for d, n in needed.items() if n is not None]
    if len(known) < 2:
        return None
    d, n = np.log(known).T
    return float(np.polyfit(d, n, 1)[0])


def _rows(
    curves: Curves,
    needed: dict[str, dict[int, float | None]],
    conditions: dict[str, dict[str, float]],
    settings: dict[str, Any],
) -> list[tuple[object, ...]]:
    """Compare what was measured with the paper's statements."""
    largest = max(curves)
    rows: list[tuple[object, ...]] = [
        (
            f"Examples needed, {d} dimensions",
            "sparse coding: “just 10000 examples”" if d == largest else "",
            *(count(points, needed[name][d]) for name, points in c.items()),
        )
        for d, c in curves.items()
    ]
    exponents = [growth(needed[name]) for name in LEARNERS]
    rows.append(
        (
            "Power of the dimension with which they grow",
            "“increasingly large quantities of data”",
            *("—" if b is None else f"{b:.1f}" for b in exponents),
        )
    )
    rows.append(
        (
            f"Seconds to find half, {largest} dimensions",
            "“very large constant-factor speedup” by K-means",
            *(in_seconds(first_half(points)) for points in curves[largest].values()),
        )
    )
    many, few, density = (settings[key] for key in ("n_samples", "n_few", "density"))
    said = {
        "whitened": (f"Gabor functions, 8 by 8, {many:,} examples, whitened", "—"),
        "not_whitened": ("The same, not whitened", "“it may perform poorly”"),
        "laplace": (f"Pixels, 8 by 8, {few:,} examples", "“insufficient data”: “poorly”"),
        "sparser": (
            f"The same, {1 - density:.0%} of the coefficients zero",
            "seeks “heavy-tailed directions”",
        ),
    }
    for name, (what, words) in said.items():
        rows.append(
            (f"{what}: found", words, *(f"{v:.0%}" for v in conditions[name].values()), "—")
        )
    return rows


def _picture(curves: Curves, needed: dict[str, dict[int, float | None]]) -> Picture:
    """Draw the share found over the examples, and the examples needed over the dimension."""
    figure, panels = side_by_side(3, width=11.4, height=4.3)
    shades = np.linspace(0.25, 1.0, len(curves))
    tried = [point.n_samples for c in curves.values() for one in c.values() for point in one]
    ends = (0.8 * min(tried), 1.25 * max(tried))
    styles = {"kmeans": "o-", "kmeans_orthogonal": "s--", "sparse_coding": "^-"}
    for ax, names in zip(
        panels, (("kmeans", "kmeans_orthogonal"), ("sparse_coding",)), strict=False
    ):
        for (d, by_learner), shade in zip(curves.items(), shades, strict=True):
            for name in names:
                counts = [point.n_samples for point in by_learner[name]]
                share = [100 * point.share for point in by_learner[name]]
                label = f"{d}" if name == names[0] else None
                ax.plot(counts, share, styles[name], color=_blue(shade), markersize=4, label=label)
        ax.set(xscale="log", xlabel="examples", xlim=ends, ylim=(-4, 104))
        ax.set_ylabel("atoms found (%)")
        ax.grid(alpha=0.25)
    panels[0].set_title("K-means (dashed: orthogonal start)")
    panels[1].set_title("Sparse coding")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(
        handles,
        [f"d = {d}" for d in labels],
        fontsize=8,
        ncols=len(labels),
        loc="outside lower center",
    )
    _draw_needed(panels[2], needed)
    return Picture(
        figure,
        caption="Left and middle: share of the atoms found over the number of examples, for images of "
        "d pixels. Right: examples at which half are found over the dimension.",
        alt="Two panels with curves of the share found over the examples, one for every dimension; "
        "a third with the examples needed over the dimensions on logarithmic axes.",
    )


def _blue(shade: float) -> tuple[float, float, float]:
    """Return a blue between light (0) and dark (1)."""
    light, dark = np.array([0.75, 0.85, 0.95]), np.array([0.05, 0.15, 0.4])
    red, green, blue = light + shade * (dark - light)
    return float(red), float(green), float(blue)


def _draw_needed(ax: Any, needed: dict[str, dict[int, float | None]]) -> None:
    """Draw the examples needed over the dimension, for every learner."""
    from matplotlib.ticker import LogLocator

    for (name, label), color in zip(LEARNERS.items(), COLORS, strict=True):
        known = [(d, n) for d, n in needed[name].items() if n is not None]
        if known:
            ax.plot(*zip(*known, strict=True), "o-", color=color, markersize=4, label=label)
    dimensions = sorted(needed["kmeans"])
    ax.set(xscale="log", yscale="log", xlabel="dimensions", ylabel="examples needed")
    ax.set_xticks(dimensions, [str(d) for d in dimensions])
    ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    ax.yaxis.set_major_formatter("{x:,.0f}")
    ax.minorticks_off()
    ax.set_title("To find half of the atoms")
    ax.legend(fontsize=8)
    ax.grid(alpha=0.25)
