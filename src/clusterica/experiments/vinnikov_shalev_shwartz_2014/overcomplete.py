"""Vinnikov & Shalev-Shwartz 2014, section 8: centroids of a plane mixture x = A s of three sparse sources.

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
from clusterica.experiments._result import Check, Picture, Result

LEAST_GAP = 30.0  # degrees between two columns
SHOWN = 20_000  # rows kept for the picture
NOTE = (
    "Median over the draws with the 10 % and 90 % quantiles, and the worst draw, of an angle: the largest "
    "from a column's line to the nearest centroid's. Columns are drawn at random, at least 30° apart, of "
    "equal length. The rows are not whitened, so that centroids are compared with the columns "
    "themselves; white rows would bring centroids c, and T⁻¹c the columns. Both learners keep the "
    "best of ten starts; K-means from the cosine centroids has that one start. It shows what the objective "
    "of K-means prefers: {compared} (values: mean_squared_errors)."
)
NEAR = 2.0  # degrees up to which a column counts as found
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
    paper="Vinnikov & Shalev-Shwartz 2014, section 8",
    claim="On an overcomplete mixture of sources that are more sparse than Laplace, K-means with k = 6 "
    "appears to recover the three columns of a 2-by-3 mixing matrix.",
    minutes=1,
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
    errors = {
        law: {name: [draw.mean_squared_errors[name] for draw in draws[law]] for name in KMEANS}
        for law in LAWS
    }
    return Result(
        columns=("Sources, learner", "The paper says", "Angle (°)", "10–90 %", "Worst (°)"),
        rows=[_row(law, name, found[name]) for law, found in angles.items() for name in LEARNERS],
        values={
            "angles": angles,
            "mean_squared_errors": errors,
        },
        settings=settings,
        pictures=(_picture({law: draws[law][0] for law in LAWS}),),
        note=NOTE.format(compared=_compared(errors)),
        checks=checks(angles),
    )


def checks(angles: dict[str, dict[str, list[float]]]) -> list[Check]:
    """Ask of K-means and cosine K-means whether they find the columns, for each law of the sources.

    Parameters
    ----------
    angles : dict
        Largest angle from a column to its centroid by law and learner, one for each draw.

    Returns
    -------
    list of Check
    """
    found = []
    for law, by_learner in angles.items():
        for name in ("kmeans", "cosine"):
            n_found = sum(angle <= NEAR for angle in by_learner[name])
            found.append(
                Check(
                    f"{LEARNERS[name].label} with k = 6 recovers the columns ({LAWS[law]} sources): within "
                    f"{NEAR:g} degrees in at least nine of ten draws",
                    10 * n_found >= 9 * len(by_learner[name]),
                    f"in {n_found} of {len(by_learner[name])} draws, median "
                    f"{np.median(by_learner[name]):.2g} degrees",
                )
            )
    return found


def _compared(errors: dict[str, dict[str, list[float]]]) -> str:
    """Say in how many draws the best of ten starts has a smaller squared error than the cosine start."""
    texts = []
    for law, by_learner in errors.items():
        own, cosine = (by_learner[name] for name in KMEANS)
        lower = sum(a < b for a, b in zip(own, cosine, strict=True))
        texts.append(f"{lower} of {len(own)} draws of {LAWS[law]} sources")
    return f"the best of ten starts has the smaller squared error in {' and in '.join(texts)}"


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
        3, init="gaussian", n_init=n_init, compute_labels=False, random_state=random_state
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
    return np.asarray(centers[length > 0.05 * np.median(length)])


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
        alt="Four scatter plots in the shape of six-pointed stars, with three dashed lines and the centroids "
        "of a learner as arrows.",
    )
