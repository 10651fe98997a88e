"""Vinnikov & Shalev-Shwartz 2014, figure 3: Cluster-ICA recovers a mixing matrix of rectangles from x = A s.

The measure is the mean over pixels and columns of |â_ij - a_ij|, where the columns â that were found
are matched with those of A, the sum of |cos| being largest, and turned to their signs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.decomposition import FastICA

from clusterica.cluster import CosineKMeans, KMeans
from clusterica.datasets import make_rectangles, make_sparse_sources
from clusterica.display import tile_images
from clusterica.experiments._bands import band
from clusterica.experiments._context import Context
from clusterica.experiments._measures import match_columns
from clusterica.experiments._panels import side_by_side
from clusterica.experiments._registry import experiment
from clusterica.experiments._result import Check, Picture, Result
from clusterica.ica import ClusterICA
from clusterica.preprocessing import Whitener

PAPER = 0.031
EPS = 1e-5  # of the whitening; the least variances of the five matrices are 3e-4 to 8e-4
SIMILAR = 2.0  # times the difference of Laplace sources up to which another law counts as similar
MISSED = 0.9  # |cos| with its match below which a column counts as missed
BLOCK = 20_000  # rows mixed at a time

NOTE = (
    "Mean absolute difference of a pixel, median over the matrices with the 10 % and 90 % quantiles. "
    "The paper does not say how it scales columns. Difference takes them as they are found, with "
    "sources of unit variance; scaled gives each the length nearest to the true column (least "
    "squares). A column is missed where its |cos| with its match is below {missed:g}. As many random "
    "rectangles as pixels almost never make an invertible matrix: one is kept only if it raises "
    "the rank. Whitening adds {eps:g} to the variances, as the paper's regularised one does; the least "
    "variance of a direction, that of A Aᵀ with sources of unit variance and pixels in 0..1, is {least:.2g}. "
    "Laplace is the paper's experiment; it reports "
    "“similar results” for the other laws. Cauchy is left out: it has no variance, and "
    "whitening is then undefined."
)
LAWS = {
    "laplace": "Laplace",
    "hypsecant": "hyperbolic secant",
    "logistic": "logistic",
    "t": "Student's t(5)",
}


class Learner(NamedTuple):
    """An estimator of the mixing matrix, and what the paper prints of it."""

    label: str
    make: Callable[[int], Any]
    printed: str = "—"


class Estimate(NamedTuple):
    """Columns and filters in the order and with the signs of the true ones, and their errors."""

    columns: np.ndarray
    filters: np.ndarray
    difference: float
    scaled: float
    n_missed: int


def _cluster_ica(seed: int, *, clusterer: Any = None, refine: str | None = None) -> ClusterICA:
    whitener = Whitener(eps=EPS)
    return ClusterICA(clusterer=clusterer, whitener=whitener, refine=refine, random_state=seed)


LEARNERS = {
    "kmeans": Learner(
        "K-means",
        lambda seed: _cluster_ica(
            seed, clusterer=KMeans(init="orthogonal", tol=1e-6, compute_labels=False)
        ),
        f"{PAPER:g}",
    ),
    "cosine": Learner("cosine K-means", lambda seed: _cluster_ica(seed)),
    "orthogonal": Learner(
        "cosine, orthogonal",
        lambda seed: _cluster_ica(
            seed,
            clusterer=CosineKMeans(orthogonal=True, init="orthonormal", compute_labels=False),
        ),
    ),
    "refined": Learner("refined", lambda seed: _cluster_ica(seed, refine="ml")),
    "fastica": Learner(
        "FastICA (scikit-learn)",
        lambda seed: FastICA(whiten="unit-variance", random_state=seed),
    ),
}


@experiment(
    "P0-rectangles",
    title="A mixing matrix of rectangles is recovered",
    paper="Vinnikov & Shalev-Shwartz 2014, section 6.2 and figure 3",
    claim="From 500,000 mixtures of 100 rectangles with Laplace coefficients, Cluster-ICA with K-means "
    "recovers the rectangles, with a mean absolute difference of 0.031 of a pixel.",
    minutes=8,
)
def run(ctx: Context) -> Result:
    """Recover several matrices, with every law and learner."""
    settings: dict[str, Any] = {
        "side": ctx.choose(full=10, quick=5),
        "n_samples": ctx.choose(full=500_000, quick=50_000),
        "n_matrices": {
            law: ctx.choose(full=5, quick=2) if law == "laplace" else ctx.choose(full=2, quick=1)
            for law in LAWS
        },
        "whitening_eps": EPS,
        "missed_below": MISSED,
    }
    estimates: dict[tuple[str, str], list[Estimate]] = {}
    shown: list[tuple[np.ndarray, np.ndarray]] = []
    jobs = [(law, i) for law, n in settings["n_matrices"].items() for i in range(n)]
    for law, index in ctx.track(jobs, "Laws and matrices"):
        rng = np.random.default_rng([ctx.seed, index])  # the same matrices for every law
        A = make_rectangles(settings["side"], random_state=rng)
        X = _mixtures(A, law, settings["n_samples"], rng)
        shown.append((A, X[: len(A)].copy()))
        for name in _learners_of(law):
            found = _estimate(LEARNERS[name].make(int(rng.integers(2**31))).fit(X), A)
            estimates.setdefault((law, name), []).append(found)
    values = _values(estimates)
    # The first law has the most matrices, and those of the others are among them.
    least = [
        float(np.linalg.eigvalsh(A @ A.T)[0]) for A, _ in shown[: settings["n_matrices"]["laplace"]]
    ]
    return Result(
        columns=("Sources, learner", "Paper", "Difference", "Scaled", "Missed"),
        rows=[_row(law, name, found) for (law, name), found in estimates.items()],
        values={**values, "least_variances": least},
        settings=settings,
        pictures=(_picture(*shown[0], estimates["laplace", "kmeans"][0]),),
        note=NOTE.format(eps=EPS, least=min(least), missed=MISSED),
        checks=checks(values, n_columns=settings["side"] ** 2),
    )


def checks(values: dict[str, Any], *, n_columns: int) -> list[Check]:
    """Ask of Cluster-ICA with K-means whether it recovers the matrix, from Laplace and from other sources.

    Parameters
    ----------
    values : dict
        Differences and missed columns by law and learner, one for each matrix.
    n_columns : int
        Columns of a matrix.

    Returns
    -------
    list of Check
    """
    found = {law: by_learner["kmeans"] for law, by_learner in values.items()}
    difference = {law: float(np.median(one["difference"])) for law, one in found.items()}
    laplace = difference["laplace"]
    checks = [
        Check(
            f"the mean absolute difference of a pixel is at most the paper's {PAPER:g} (Laplace sources, "
            "K-means)",
            laplace <= PAPER,
            f"median {laplace:.3f}, largest {max(found['laplace']['difference']):.3f}",
        )
    ]
    checks += [
        Check(
            f"similar results with {LAWS[law]} sources: a difference at most {SIMILAR:g} times that of "
            "Laplace",
            difference[law] <= SIMILAR * laplace,
            f"{difference[law]:.3f}, {difference[law] / laplace:.2f} times",
        )
        for law in found
        if law != "laplace"
    ]
    return checks + [
        Check(
            f"the correct matrix is recovered: no column missed ({LAWS[law]} sources, K-means)",
            not any(one["n_missed"]),
            f"{sum(one['n_missed'])} of {n_columns * len(one['n_missed'])} columns missed",
        )
        for law, one in found.items()
    ]


def _learners_of(law: str) -> list[str]:
    """Return the learners for a law: all for the paper's own."""
    return [name for name in LEARNERS if law == "laplace" or name != "fastica"]


def _mixtures(A: np.ndarray, law: str, n_samples: int, rng: np.random.Generator) -> np.ndarray:
    """Draw rows x = A s in float32, a block at a time."""
    X = np.empty((n_samples, len(A)), dtype=np.float32)
    for start in range(0, n_samples, BLOCK):
        part = X[start : start + BLOCK]
        part[:] = make_sparse_sources(
            len(part), len(A), distribution=law, mixing=A, random_state=rng
        ).X
    return X


def _estimate(model: Any, A: np.ndarray) -> Estimate:
    """Match the columns that a model found with those of A and measure what remains."""
    found, filters = (M.astype(np.float64) for M in (model.mixing_, model.components_))
    match = match_columns(found, A)
    columns = found[:, match.order] * match.signs
    # Least squares: the factor t of a column with the smallest |t â - a|².
    scaled = columns * ((columns * A).sum(axis=0) / (columns**2).sum(axis=0))
    return Estimate(
        columns=columns,
        filters=filters[match.order] * match.signs[:, np.newaxis],
        difference=float(np.abs(columns - A).mean()),
        scaled=float(np.abs(scaled - A).mean()),
        n_missed=int((match.cosines < MISSED).sum()),
    )


def _row(law: str, name: str, found: list[Estimate]) -> tuple[object, ...]:
    """Write one line of the table."""
    learner = LEARNERS[name]
    n_columns = sum(one.columns.shape[1] for one in found)
    return (
        f"{LAWS[law]}, {learner.label}",
        learner.printed if law == "laplace" else "—",
        str(band([one.difference for one in found])),
        band([one.scaled for one in found]).median,
        f"{sum(one.n_missed for one in found)}/{n_columns}",
    )


def _values(estimates: dict[tuple[str, str], list[Estimate]]) -> dict[str, Any]:
    """Gather the errors by law and learner, one a matrix."""
    values: dict[str, Any] = {law: {} for law in LAWS}
    for (law, name), found in estimates.items():
        values[law][name] = {
            "difference": [one.difference for one in found],
            "scaled_difference": [one.scaled for one in found],
            "n_missed": [one.n_missed for one in found],
        }
    return values


def _picture(A: np.ndarray, samples: np.ndarray, estimate: Estimate) -> Picture:
    """Draw columns, rows, and what K-means made of them, as figure 3 of the paper."""
    figure, panels = side_by_side(4, width=12.0, height=3.4)
    tiles = {
        "(a) Columns of A": A.T,
        "(b) Some of the data": samples,
        "(c) Estimated columns": estimate.columns.T,
        "(d) Estimated filters": estimate.filters,
    }
    for ax, (title, rows) in zip(panels, tiles.items(), strict=True):
        # White rectangles would run into a white ground between the tiles.
        picture = tile_images(rows, background=0.0)
        ax.imshow(picture, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        ax.set_title(title)
        ax.set_axis_off()
    return Picture(
        figure,
        caption="Rectangles, mixtures of all of them, and the columns and filters that Cluster-ICA "
        f"with K-means found, matched with (a). Mean difference of a pixel: {estimate.difference:.3f} "
        f"(the paper: {PAPER:g}). Grey is zero.",
        alt="Four grids of small tiles: rectangles, mixtures of them, the columns found, and the filters.",
    )
