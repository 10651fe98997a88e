"""P0, section 8: centroids of a plane mixture x = A s of three very sparse sources lie on the columns of A.

The measure is the largest angle from the line of a column to the nearest centroid's.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from clusterica.cluster import CosineKMeans, KMeans
from clusterica.display import CentersDisplay
from clusterica.experiments._bands import band
from clusterica.experiments._context import Context
from clusterica.experiments._measures import worst_axis_angle
from clusterica.experiments._panels import side_by_side
from clusterica.experiments._registry import experiment
from clusterica.experiments._result import Picture, Result

LEAST_GAP = 30.0  # degrees between two columns
SHOWN = 20_000  # rows kept for the picture
NOTE = (
    "Median over the draws with the 10 % and 90 % quantiles, and the worst draw, of an angle: the largest "
    "from a column's line to the nearest centroid's. Columns are drawn at random, at least 30° apart, of "
    "equal length. The rows are not whitened, so that centroids are compared with the columns "
    "themselves; white rows would bring centroids c, and T⁻¹c the columns. Both learners keep the "
    "best of ten starts. The paper's picture says that K-means finds the columns. For its own "
    "objective it does not: a centroid on the many rows near zero, with two columns that share one, "
    "leaves a smaller squared error than a centroid on each side of each column (values: "
    "mean_squared_errors). Started at the cosine centroids, it stays at the columns where the "
    "sources are mostly zero."
)
LAWS = {"bernoulli": "Bernoulli(.05) × Laplace", "cubed": "Laplace cubed"}


class Learner(NamedTuple):
    """A clusterer with six centroids, and what the paper says of it."""

    label: str
    paper: str


LEARNERS = {
    "cosine": Learner("cosine K-means", "—"),
    "kmeans": Learner("K-means", "“appears to recover the columns”"),
    "kmeans_from_cosine": Learner("K-means from the cosine centroids", "—"),
}


KMEANS = ("kmeans", "kmeans_from_cosine")


class Draw(NamedTuple):
    """Some of the rows, the columns they were mixed from, centroids by learner, errors of K-means."""

    X: np.ndarray
    A: np.ndarray
    centers: dict[str, np.ndarray]
    mean_squared_errors: dict[str, float]

    def angle(self, learner: str) -> float:
        """Largest angle from a column to its centroid, in degrees."""
        return worst_axis_angle(self.centers[learner], self.A.T)


@experiment(
    "P0-overcomplete",
    title="Three columns in the plane, found by six centroids",
    paper="Vinnikov & Shalev-Shwartz 2014 (P0), section 8",
    claim="On an overcomplete mixture of sources that are more sparse than Laplace, K-means with k = 6 "
    "appears to recover the three columns of a 2-by-3 mixing matrix.",
)
def run(ctx: Context) -> Result:
    """Fit every learner on several draws of both laws and measure angles."""
    settings: dict[str, Any] = {
        "n_samples": ctx.choose(full=200_000, quick=20_000),
        "n_draws": ctx.choose(full=20, quick=4),
        "n_init": 10,
        "least_gap": LEAST_GAP,
        "laws": list(LAWS),
    }
    jobs = [(law, draw) for law in LAWS for draw in range(settings["n_draws"])]
    draws: dict[str, list[Draw]] = {law: [] for law in LAWS}
    for law, index in ctx.track(jobs, "Draws of three sources"):
        draws[law].append(_draw(law, settings, seed=[ctx.seed, index]))
    angles = {
        law: {name: [draw.angle(name) for draw in draws[law]] for name in LEARNERS} for law in LAWS
    }
    return Result(
        columns=("Sources, learner", "The paper says", "Angle (°)", "10–90 %", "Worst (°)"),
        rows=[_row(law, name, found[name]) for law, found in angles.items() for name in LEARNERS],
        values={
            "angles": angles,
            "mean_squared_errors": {
                law: {
                    name: [draw.mean_squared_errors[name] for draw in draws[law]] for name in KMEANS
                }
                for law in LAWS
            },
        },
        settings=settings,
        pictures=(_picture({law: draws[law][0] for law in LAWS}),),
        note=NOTE,
    )


def _draw(law: str, settings: dict[str, Any], *, seed: list[int]) -> Draw:
    """Draw columns and rows, and fit every learner."""
    rng = np.random.default_rng(seed)
    A = _columns(rng)
    S = rng.laplace(scale=np.sqrt(0.5), size=(settings["n_samples"], 3))
    S = S**3 if law == "cubed" else S * (rng.random(S.shape) < 0.05)
    X = S @ A.T
    X /= X.std()
    random_state, n_init = int(rng.integers(2**31)), settings["n_init"]
    cosine = CosineKMeans(
        6, init="gaussian", n_init=n_init, compute_labels=False, random_state=random_state
    ).fit(X)
    kmeans = KMeans(6, n_init=n_init, tol=1e-7, compute_labels=False, random_state=random_state)
    onward = KMeans(6, init=cosine.cluster_centers_, tol=1e-7, compute_labels=False)
    models = {"cosine": cosine, "kmeans": kmeans.fit(X), "kmeans_from_cosine": onward.fit(X)}
    return Draw(
        X=X[:SHOWN],
        A=A,
        centers={name: _long_enough(model.cluster_centers_) for name, model in models.items()},
        mean_squared_errors={name: models[name].inertia_ / len(X) for name in KMEANS},
    )


def _columns(rng: np.random.Generator) -> np.ndarray:
    """Draw three directions in the plane, no two nearer than the least gap, as columns."""
    while True:
        degrees = np.sort(rng.uniform(0, 180, size=3))
        gaps = np.diff(degrees, append=degrees[0] + 180)  # lines repeat after half a turn
        if gaps.min() >= LEAST_GAP:
            angle = np.radians(degrees)
            return np.stack([np.cos(angle), np.sin(angle)])


def _long_enough(centers: np.ndarray) -> np.ndarray:
    """Leave out centroids next to zero, on the rows where no source is active: they have no direction."""
    length = np.linalg.norm(centers, axis=1)
    return centers[length > 0.05 * np.median(length)]


def _row(law: str, name: str, angles: list[float]) -> tuple[object, ...]:
    """Write one line of the table."""
    low, median, high = band(angles)
    label = f"{LAWS[law]}, {LEARNERS[name].label}"
    return label, LEARNERS[name].paper, median, f"{low:.2g}–{high:.2g}", max(angles)


def _picture(draws: dict[str, Draw]) -> Picture:
    """Draw the first draw of both laws, with the centroids of both learners."""
    shown = [(law, name) for law in LAWS for name in ("cosine", "kmeans")]
    figure, panels = side_by_side(len(shown), width=12.0, height=3.5)
    for ax, (law, name) in zip(panels, shown, strict=True):
        draw = draws[law]
        rows = draw.X[draw.X.any(axis=1)]  # most rows of a Bernoulli source are zero
        title = f"{LAWS[law]}\n{LEARNERS[name].label}, {draw.angle(name):.1f}°"
        length = 2.5 if name == "cosine" else None  # directions have no length of their own
        display = CentersDisplay(rows, draw.centers[name])
        display.plot(ax=ax, length=length, title=title, max_points=6000)
        for column in draw.A.T:
            ax.axline((0, 0), tuple(column), color="0.4", lw=0.8, ls=(0, (4, 4)), zorder=0)
        ax.set(xticks=[], yticks=[], xlim=(-7, 7), ylim=(-7, 7))
    return Picture(
        figure,
        caption="Mixtures of three very sparse sources in the plane, the columns of the mixing matrix "
        "(dashed) and the centroids as arrows.",
        alt="Four scatter plots in the shape of six-pointed stars. The arrows of cosine K-means lie "
        "on the three dashed lines, those of K-means only in part.",
    )
