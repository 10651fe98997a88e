"""Bugrien & Kent 2005, figure 1: the direction of least kurtosis of Fisher's iris data, cut by its density.

The density is that of the projection, of unit variance, smoothed by a Gaussian of variance t = 0.1.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_iris

from clusterica.cluster import DensityClusterer
from clusterica.display import DensityDisplay
from clusterica.experiments._context import Context
from clusterica.experiments._panels import side_by_side
from clusterica.experiments._registry import experiment
from clusterica.experiments._result import Check, Picture, Result
from clusterica.ica import KurtosisPursuit

CONTRASTS = ("kurtosis", "logcosh", "exp", "negentropy")
OBJECTIVES = {"min": "sub-ICA", "max": "super-ICA", "abs": "standard ICA"}
NAMES = ("I. setosa", "I. versicolor", "I. virginica")
OUTLIER = "outlier"  # comes after the species in the order of characters, and so keeps their colors
SCALE = 0.1
N_OUTLIERS, DISTANCE = 6, 4.0
NOTE = (
    "Setosa is apart if a cluster holds its 50 flowers and none of the others. Starts that found it: how "
    "many of the random starts end in the best direction. Beyond chance: whether the objective is more "
    "than Gaussian rows of this number and dimension have in their best direction. Outliers are not in the "
    f"paper: {N_OUTLIERS} rows {DISTANCE:g} standard deviations from the mean in random directions, drawn "
    "anew each time (kurtosis and starts are medians over draws), and one row at this distance along the "
    "direction that the contrast finds without it. negentropy has the directions of exp."
)


class Fit(NamedTuple):
    """A direction and the clusters along it."""

    pursuit: Any
    density: Any
    projection: np.ndarray
    apart: bool
    """Whether one cluster holds setosa and nothing else of the flowers."""
    beyond_chance: bool

    @property
    def sizes(self) -> list[int]:
        """Number of rows in every cluster, from left to right."""
        return [int(n) for n in np.bincount(self.density.labels_)]

    @property
    def share_of_starts(self) -> float:
        """Share of the starts that reached the best direction."""
        ends = self.pursuit.start_objectives_[0]
        return float(np.isclose(ends, self.pursuit.objective_[0], rtol=1e-5, atol=0).mean())


@experiment(
    "P2-iris",
    title="The direction of least kurtosis shows the clusters of the iris data",
    paper="Bugrien & Kent 2005, section 4 and figure 1",
    claim="Along the direction of least kurtosis the density of the iris data at scale t = 0.1 falls into "
    "two clusters, of 50 (one species) and 100 (two unresolved species); robust contrasts give similar "
    "results.",
    minutes=0.1,
)
def run(ctx: Context) -> Result:
    """Find the directions of every kind and contrast, on the data as it is and with outliers."""
    settings: dict[str, Any] = {
        "scale": SCALE,
        "n_init": 200,
        "n_outliers": N_OUTLIERS,
        "outlier_distance": DISTANCE,
        "n_draws": ctx.choose(full=100, quick=10),
        "n_init_of_draws": 20,
    }
    X, species = load_iris(return_X_y=True)
    setosa = species == 0
    clean = {
        (objective, contrast): _fit(
            X, setosa, objective, contrast, n_init=settings["n_init"], seed=ctx.seed
        )
        for objective in OBJECTIVES
        for contrast in CONTRASTS
    }
    seeds = [[ctx.seed, index] for index in range(settings["n_draws"])]
    draws = [
        _with_outliers(
            X, setosa, rng=np.random.default_rng(seed), n_init=settings["n_init_of_draws"]
        )
        for seed in ctx.track(seeds, "Draws of outliers")
    ]
    along = {c: _with_one_along(X, setosa, clean["min", c], seed=ctx.seed) for c in CONTRASTS}
    values = _values(clean, draws, along)
    return Result(
        columns=(
            "Direction",
            "Contrast",
            "The paper says",
            "Excess kurtosis",
            "Clusters at t = 0.1",
            "Setosa apart",
            "Starts that found it",
            "Beyond chance",
        ),
        rows=[
            *(_row(objective, contrast, fit) for (objective, contrast), fit in clean.items()),
            *(_outlier_row(c, [draw[c] for draw in draws]) for c in CONTRASTS),
            *(_along_row(c, fit) for c, fit in along.items()),
        ],
        values=values,
        settings=settings,
        pictures=(_picture(clean["min", "kurtosis"], along, species),),
        note=NOTE,
        checks=checks(values),
    )


def checks(values: dict[str, Any]) -> list[Check]:
    """Ask whether the direction of least kurtosis sets one species apart, and whether others do.

    Parameters
    ----------
    values : dict
        What was measured of every objective and contrast, and with outliers.

    Returns
    -------
    list of Check
    """
    least, robust = values["min_kurtosis"], CONTRASTS[1:]
    sizes = {c: sorted(values[f"min_{c}"]["cluster_sizes"]) for c in CONTRASTS}
    apart, along = values["outliers_setosa_apart"], values["one_outlier_along"]
    return [
        Check(
            "along the direction of least kurtosis the density falls into clusters of 50, one species, and "
            "100",
            sizes["kurtosis"] == [50, 100] and least["setosa_apart"],
            f"clusters of {sizes['kurtosis']}, setosa apart: {_yes(least['setosa_apart'])}",
        ),
        Check(
            "the kurtosis is negative in the clustering direction",
            least["excess_kurtosis"] < 0 and least["beyond_chance"],
            f"{least['excess_kurtosis']:.3f}, beyond chance: {_yes(least['beyond_chance'])}",
        ),
        Check(
            "robust contrasts give similar results: the same two clusters",
            all(sizes[c] == [50, 100] and values[f"min_{c}"]["setosa_apart"] for c in robust),
            ", ".join(f"{c} {sizes[c]}" for c in robust),
        ),
        Check(
            "kurtosis is not robust to outliers and the other contrasts are: with random outliers each of "
            "these sets setosa apart more often, and with one outlier along the direction they do and "
            "kurtosis does not",
            all(apart[c] > apart["kurtosis"] for c in robust)
            and all(along[c]["setosa_apart"] for c in robust)
            and not along["kurtosis"]["setosa_apart"],
            "; ".join(
                f"{c}: {apart[c]:.0%} of the draws, one along it {_yes(along[c]['setosa_apart'])}"
                for c in CONTRASTS
            ),
        ),
    ]


def _fit(
    X: np.ndarray, setosa: np.ndarray, objective: str, contrast: str, *, n_init: int, seed: int
) -> Fit:
    """Find a direction of X, whose first rows are the flowers, and cut the density along it."""
    pursuit = KurtosisPursuit(
        objective=objective, contrast=contrast, n_init=n_init, random_state=seed
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        P = pursuit.fit_transform(X)
    by_chance = any("direction was found" in str(w.message) for w in caught)
    density = DensityClusterer(method="scale-space", scale=SCALE).fit(P)
    labels = density.labels_[: len(setosa)]
    apart = any(np.array_equal(labels == label, setosa) for label in np.unique(labels))
    return Fit(pursuit, density, P[:, 0], apart, not by_chance)


def _with_outliers(
    X: np.ndarray, setosa: np.ndarray, *, rng: np.random.Generator, n_init: int
) -> dict[str, Fit]:
    """Add outliers in random directions, all as far by the covariance of the data, and fit each contrast."""
    U = rng.standard_normal((N_OUTLIERS, X.shape[1]))
    U /= np.linalg.norm(U, axis=1, keepdims=True)
    outliers = X.mean(axis=0) + DISTANCE * U @ np.linalg.cholesky(np.cov(X.T)).T
    Z, seed = np.vstack([X, outliers]), int(rng.integers(2**31))
    return {c: _fit(Z, setosa, "min", c, n_init=n_init, seed=seed) for c in CONTRASTS}


def _with_one_along(X: np.ndarray, setosa: np.ndarray, clean: Fit, *, seed: int) -> Fit:
    """Add one outlier along the direction of a fit, and fit again."""
    outlier = X.mean(axis=0) + DISTANCE * np.cov(X.T) @ clean.pursuit.components_[0]
    pursuit = clean.pursuit
    Z = np.vstack([X, outlier])
    return _fit(Z, setosa, "min", pursuit.contrast, n_init=pursuit.n_init, seed=seed)


def _row(objective: str, contrast: str, fit: Fit) -> tuple[str, ...]:
    says = "—"
    if objective == "min":
        says = "50 / 100" if contrast == "kurtosis" else "“similar results”"
    return (OBJECTIVES[objective], contrast, says, *_cells(fit))


def _along_row(contrast: str, fit: Fit) -> tuple[str, ...]:
    return ("sub-ICA, 1 outlier along it", contrast, "—", *_cells(fit))


def _cells(fit: Fit) -> tuple[str, ...]:
    return (
        f"{fit.pursuit.kurtosis_[0]:.3f}",
        " / ".join(map(str, fit.sizes)),
        _yes(fit.apart),
        f"{round(fit.share_of_starts * fit.pursuit.n_init)} of {fit.pursuit.n_init}",
        _yes(fit.beyond_chance),
    )


def _outlier_row(contrast: str, fits: list[Fit]) -> tuple[str, ...]:
    return (
        f"sub-ICA, {N_OUTLIERS} outliers",
        contrast,
        "kurtosis “is not robust”" if contrast == "kurtosis" else "“robust”",
        f"{np.median([fit.pursuit.kurtosis_[0] for fit in fits]):.3f}",
        "—",
        f"in {sum(fit.apart for fit in fits)} of {len(fits)} draws",
        f"{np.median([fit.share_of_starts for fit in fits]):.0%}",
        f"in {sum(fit.beyond_chance for fit in fits)} of {len(fits)} draws",
    )


def _yes(fact: bool) -> str:
    return "yes" if fact else "no"


def _values(
    clean: dict[tuple[str, str], Fit], draws: list[dict[str, Fit]], along: dict[str, Fit]
) -> dict[str, Any]:
    """Return every measured number by name."""

    def of(fit: Fit) -> dict[str, Any]:
        return {
            "excess_kurtosis": float(fit.pursuit.kurtosis_[0]),
            "objective": float(fit.pursuit.objective_[0]),
            "direction": fit.pursuit.components_[0].tolist(),
            "share_of_starts": fit.share_of_starts,
            "cluster_sizes": fit.sizes,
            "setosa_apart": fit.apart,
            "beyond_chance": fit.beyond_chance,
        }

    values: dict[str, Any] = {
        f"{objective}_{contrast}": of(fit) for (objective, contrast), fit in clean.items()
    }
    values["outliers_setosa_apart"] = {
        c: float(np.mean([draw[c].apart for draw in draws])) for c in CONTRASTS
    }
    values["one_outlier_along"] = {c: of(fit) for c, fit in along.items()}
    return values


def _picture(clean: Fit, along: dict[str, Fit], species: np.ndarray) -> Picture:
    """Draw the paper's figure, and beside it what one outlier does to two contrasts."""
    figure, panels = side_by_side(3, width=11.0, height=3.8)
    cases = (
        (clean, "Least kurtosis (the paper's figure)"),
        (along["kurtosis"], "Least kurtosis, one outlier"),
        (along["exp"], "Least exp contrast, one outlier"),
    )
    for ax, (fit, title) in zip(panels, cases, strict=True):
        kinds = [NAMES[k] for k in species] + [OUTLIER] * (len(fit.projection) - len(species))
        DensityDisplay.from_estimator(
            fit.density, fit.projection[:, None], y=kinds, title=title, ax=ax
        )
        ax.set_xlabel("projection (standard deviations)")
    return Picture(
        figure,
        caption="Density of the projected iris data at scale t = 0.1, with its cuts, and the flowers by "
        "species below. Left: the direction of least kurtosis. Middle: the same with an outlier added on "
        "that line. Right: the direction of the exp contrast with an outlier on its line.",
        alt="Three density curves with the flowers of each species below them.",
    )
