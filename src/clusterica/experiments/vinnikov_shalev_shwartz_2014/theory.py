"""Vinnikov & Shalev-Shwartz 2014, sections 5 and 7: J_x(c) = E max_j |<x, c_j>| for x = s_lap and x = u_lap.

s_lap has independent Laplace entries; u_lap is uniform on the sphere |x|₁ = 1, so that s_lap = r u_lap
with r = |s_lap|₁ independent of u_lap.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from clusterica.cluster import CosineKMeans, KMeans
from clusterica.datasets import make_sparse_sources
from clusterica.experiments._context import Context
from clusterica.experiments._registry import experiment
from clusterica.experiments._result import Result
from clusterica.experiments.vinnikov_shalev_shwartz_2014 import _theory_pictures as pictures
from clusterica.experiments.vinnikov_shalev_shwartz_2014._theory_checks import checks
from clusterica.metrics import recovery_distance
from clusterica.preprocessing import Whitener

NOTE = (
    "Lemma 2 is an integral over the four sides of |x|₁ = 1, on a grid of all pairs of angles. For "
    "lemma 3 the two objectives come from independent rows, over the same random unit vectors, half "
    "of the sets orthonormal: their ratio should be E |s|₁ = d / √2. For conjecture 1, "
    "cosine K-means climbs from random unit vectors, which nothing keeps orthogonal; its best end is "
    "compared with the axes on fresh rows, since on its own rows it must win by a hair. In section 7 "
    "s is the source of the unit row, s / |y|, and a code counts where it is not zero."
)
AT_AXES = 0.1  # distance up to which a start has ended at the axes
# Parts of the experiment, each with random numbers of its own.
LEMMA_3, CONJECTURE, SECTION_7 = range(3)


class PlaneObjective(NamedTuple):
    """Lemma 2: the objective of c = (cos a, sin a), (cos b, sin b) for all pairs of angles."""

    degrees: np.ndarray
    """Angles from 0 to below 180, shape (n_angles,)."""
    J: np.ndarray
    """Objective, shape (n_angles, n_angles)."""


class Proportion(NamedTuple):
    """Lemma 3 in d dimensions: both objectives of the same sets of unit vectors."""

    d: int
    J_slap: np.ndarray
    """Objective of Laplace rows, shape (n_sets,)."""
    J_ulap: np.ndarray
    """Objective of rows on the sphere, shape (n_sets,)."""

    def numbers(self) -> dict[str, float]:
        """Ratio of the objectives over its theoretical value, its spread, and that of J itself."""
        ratio = self.J_slap / self.J_ulap * np.sqrt(2) / self.d
        return {
            "ratio_over_theory": float(ratio.mean()),
            "relative_spread_of_ratio": float(ratio.std()),
            "relative_spread_of_objective": float(self.J_ulap.std() / self.J_ulap.mean()),
        }


class Search(NamedTuple):
    """Conjecture 1 in d dimensions; objectives are relative to that of the axes, less one."""

    d: int
    ends: np.ndarray
    """Distance from the axes, relative objective on fresh rows and its standard error, (n_starts, 3)."""
    around: np.ndarray
    """The same of random sets around the axes, near and far, shape (n_sets, 3)."""
    best: int
    """The start with the largest objective on its own rows."""
    axes: float
    """Objective of the axes on fresh rows."""

    def numbers(self) -> dict[str, Any]:
        """Distances, and the objective of the best start against that of the axes."""
        return {
            "axes_in_theory": sum(1 / i for i in range(1, self.d + 1)) / self.d,
            "axes_on_fresh_rows": self.axes,
            "starts": len(self.ends),
            "starts_at_the_axes": int((self.ends[:, 0] < AT_AXES).sum()),
            "best_distance": float(self.ends[self.best, 0]),
            "best_gain_over_axes": float(self.ends[self.best, 1]),
            "best_gain_error": float(self.ends[self.best, 2]),
            "largest_gain_around_the_axes": float(self.around[:, 1].max()),
            "largest_gain_around_in_errors": float((self.around[:, 1] / self.around[:, 2]).max()),
        }


class Codes(NamedTuple):
    """Section 7 in d dimensions: triangle codes and distances, with the sources they stand for."""

    d: int
    f: np.ndarray
    """Codes max(0, mean(z) - z_i), shape (n_samples, 2d)."""
    z: np.ndarray
    """Distances from the centroids, shape (n_samples, 2d)."""
    s: np.ndarray
    """The source of each centroid in the row that was encoded, with its sign, (n_samples, 2d)."""
    s_before: np.ndarray
    """The same source before the row was scaled, shape (n_samples, 2d)."""
    n_found: int
    """How many of the 2d signed sources have a centroid."""

    def numbers(self) -> dict[str, float]:
        """Spearman correlations with the source: median and worst centroid."""
        active = list(self.f.T > 0)
        codes, before = (
            [_rank_correlation(*one) for one in zip(self.f.T, s.T, active, strict=True)]
            for s in (self.s, self.s_before)
        )
        distances = [-_rank_correlation(z, s) for z, s in zip(self.z.T, self.s.T, strict=True)]
        return {
            "signed_sources_found": self.n_found,
            "n_signed_sources": 2 * self.d,
            "codes_median": float(np.median(codes)),
            "codes_worst": min(codes),
            "codes_with_source_before_scaling_median": float(np.median(before)),
            "distances_median": float(np.median(distances)),
            "active_share": float(np.mean(active)),
        }


@experiment(
    "P0-theory",
    title="The theory of axes and centroids, in numbers",
    paper="Vinnikov & Shalev-Shwartz 2014, figure 2, lemmas 2 and 3, conjecture 1, section 7",
    claim="The axes maximise E max |<u, c>| on the sphere of the 1-norm, proved for d = 2 and "
    "conjectured beyond; Laplace rows have the same maximiser; with k = 2d centroids, triangle "
    "codes are the sources of a row with a non-linearity on top.",
    minutes=4.3,
)
def run(ctx: Context) -> Result:
    """Measure each statement."""
    settings = _settings(ctx)
    third, conjecture, seventh = (settings[k] for k in ("lemma_3", "conjecture", "section_7"))
    plane = _landscape(settings["lemma_2_step_degrees"])
    proportions = [
        _proportion(d, third["rows"], third["sets"], seed=ctx.seed)
        for d in ctx.track(third["d"], "Lemma 3")
    ]
    searches = [
        _search(d, conjecture, seed=ctx.seed) for d in ctx.track(conjecture["d"], "Conjecture 1")
    ]
    cases = [(d, unit) for d in seventh["d"] for unit in (True, False)]
    codes = {
        case: _codes(*case, seventh["rows"], seed=ctx.seed)
        for case in ctx.track(cases, "Section 7")
    }
    values = {
        "lemma_2": _lemma_2(plane),
        "lemma_3": {f"d{one.d}": one.numbers() for one in proportions},
        "conjecture": {f"d{one.d}": one.numbers() for one in searches},
        "section_7": {
            f"d{d}_{'unit' if unit else 'plain'}": one.numbers() for (d, unit), one in codes.items()
        },
    }
    shown = [codes[seventh["d"][1], unit] for unit in (True, False)]
    return Result(
        columns=("Statement", "The paper says", "Measured"),
        rows=_table(values),
        values=values,
        settings=settings,
        pictures=(
            pictures.plane(plane.degrees, plane.J),
            pictures.proportions([(one.d, one.J_ulap, one.J_slap) for one in proportions]),
            pictures.searches([(one.d, one.ends, one.around) for one in searches]),
            pictures.codes([(one.s[:, 0], one.f[:, 0]) for one in shown]),
        ),
        note=NOTE,
        checks=checks(values),
    )


def _settings(ctx: Context) -> dict[str, Any]:
    """Return the sizes of every part."""
    return {
        "lemma_2_step_degrees": 1,
        "lemma_3": {
            "d": [2, 5, 10],
            "rows": ctx.choose(full=500_000, quick=20_000),
            "sets": ctx.choose(full=100, quick=50),
        },
        "conjecture": {
            "d": [3, 5, 10],
            "rows": ctx.choose(full=200_000, quick=20_000),
            "starts": ctx.choose(full=50, quick=5),
            "sets": ctx.choose(full=300, quick=60),
        },
        "section_7": {"d": [5, 10, 20], "rows": ctx.choose(full=100_000, quick=10_000)},
    }


def objective(X: np.ndarray, C: np.ndarray) -> np.ndarray:
    """Return max_j |<x, c_j>| of every row, the mean of which is J(c).

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Rows.
    C : ndarray of shape (n_vectors, n_features)
        Unit vectors, each of which stands for itself and its negative.

    Returns
    -------
    ndarray of shape (n_samples,)
    """
    return np.asarray(np.abs(X @ C.T).max(axis=1))


def draw_u_lap(n_samples: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Draw rows uniformly from |x|₁ = 1: Dirichlet weights are uniform on the simplex.

    Parameters
    ----------
    n_samples, d : int
        Rows and dimension.
    rng : Generator
        Random numbers.

    Returns
    -------
    ndarray of shape (n_samples, d)
    """
    simplex = rng.dirichlet(np.ones(d), n_samples)
    return np.asarray(simplex * rng.choice([-1.0, 1.0], size=(n_samples, d)))


def _landscape(step: int) -> PlaneObjective:
    """Integrate the objective of two unit vectors over the sides of the square |x|₁ = 1."""
    degrees = np.arange(0, 180, step)
    along = (np.arange(1000) + 0.5) / 1000  # the midpoint rule, on two sides: J is even
    U = np.concatenate([np.column_stack([along, sign * (1 - along)]) for sign in (1, -1)])
    angles = np.radians(degrees)
    responses = np.abs(U @ np.array([np.cos(angles), np.sin(angles)]))
    J = [np.maximum(responses, one[:, np.newaxis]).mean(axis=0) for one in responses.T]
    return PlaneObjective(degrees, np.array(J))


def _lemma_2(plane: PlaneObjective) -> dict[str, Any]:
    """Return where the objective is largest, and by how much it leads."""
    a, b = np.unravel_index(int(np.argmax(plane.J)), plane.J.shape)
    at_axes = np.isin(plane.degrees, [0, 90])
    elsewhere = plane.J[~np.outer(at_axes, at_axes)]
    return {
        "best_angles": sorted([int(plane.degrees[a]), int(plane.degrees[b])]),
        "best_objective": float(plane.J.max()),
        "next_objective": float(elsewhere.max()),
    }


def _proportion(d: int, n_samples: int, n_sets: int, *, seed: int) -> Proportion:
    """Evaluate both objectives on random sets of unit vectors, half of them orthonormal."""
    rng = np.random.default_rng([seed, LEMMA_3, d])
    S = make_sparse_sources(n_samples, d, random_state=rng).S
    U = draw_u_lap(n_samples, d, rng)
    sets = rng.standard_normal((n_sets, d, d))
    sets[::2] = np.linalg.qr(sets[::2])[0]
    sets /= np.linalg.norm(sets, axis=2, keepdims=True)
    J_slap, J_ulap = (np.array([objective(X, C).mean() for C in sets]) for X in (S, U))
    return Proportion(d, J_slap, J_ulap)


def _search(d: int, settings: dict[str, Any], *, seed: int) -> Search:
    """Climb the objective from random starts, and look around the axes."""
    rng = np.random.default_rng([seed, CONJECTURE, d])
    U, fresh = (draw_u_lap(settings["rows"], d, rng) for _ in range(2))
    at_axes = objective(fresh, np.eye(d))

    def place(C: np.ndarray) -> tuple[float, float, float]:
        lead = (objective(fresh, C) - at_axes) / at_axes.mean()
        error = lead.std() / np.sqrt(len(lead))
        return recovery_distance(C, np.eye(d)), float(lead.mean()), float(error)

    models = [
        CosineKMeans(init="gaussian", random_state=int(rng.integers(2**31))).fit(U)
        for _ in range(settings["starts"])
    ]
    best = int(np.argmax([model.objective_ for model in models]))
    sets = [
        np.eye(d) + size * rng.standard_normal((d, d))
        for size in np.geomspace(0.01, 3, settings["sets"])
    ]
    return Search(
        d=d,
        ends=np.array([place(model.cluster_centers_[:d]) for model in models]),
        around=np.array([place(C / np.linalg.norm(C, axis=1, keepdims=True)) for C in sets]),
        best=best,
        axes=float(at_axes.mean()),
    )


def _codes(d: int, unit: bool, n_samples: int, *, seed: int) -> Codes:
    """Whiten a mixture, cluster it with k = 2d, and encode its rows, of unit length or as they are."""
    rng = np.random.default_rng([seed, SECTION_7, d])
    X, S, A = make_sparse_sources(
        n_samples, d, mixing=rng.standard_normal((d, d)), random_state=rng
    )
    whitener = Whitener(eps=0.0).fit(X)
    Y = whitener.transform(X)
    length = np.linalg.norm(Y, axis=1, keepdims=True) if unit else 1.0
    model = KMeans(2 * d, init="orthogonal", tol=1e-6, random_state=int(rng.integers(2**31)))
    z = model.fit(Y / length).transform(Y / length)
    f = np.maximum(0, z.mean(axis=1, keepdims=True) - z)
    # A centroid c answers to the sources by cᵀ T A s, of which one coefficient is near ±1.
    answers = model.cluster_centers_ @ whitener.whitening_ @ A
    source = np.abs(answers).argmax(axis=1)
    sign = np.sign(answers[np.arange(2 * d), source])
    n_found = len(set(zip(source.tolist(), sign.tolist(), strict=True)))
    s = sign * S[:, source]
    return Codes(d, f, z, s / length, s, n_found)


def _rank_correlation(a: np.ndarray, b: np.ndarray, kept: Any = slice(None)) -> float:
    return float(stats.spearmanr(a[kept], b[kept]).statistic)


def _table(values: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Write a line for every statement and dimension."""
    first = values["lemma_2"]
    rows = [
        (
            "Lemma 2, d = 2",
            "±e₁, ±e₂ are the only maximiser",
            "largest at {}° and {}°".format(*first["best_angles"])
            + f": {first['best_objective']:.5f}, next {first['next_objective']:.5f}",
        )
    ]
    rows += [
        (
            f"Lemma 3, {d.replace('d', 'd = ')}",
            "J of s_lap and of u_lap have the same maximiser",
            f"J_slap / J_ulap is {v['ratio_over_theory']:.4f} d / √2, relative spread "
            f"{v['relative_spread_of_ratio']:.1e}; that of J is "
            f"{v['relative_spread_of_objective']:.1e}",
        )
        for d, v in values["lemma_3"].items()
    ]
    rows += [
        (
            f"Conjecture 1, {d.replace('d', 'd = ')}",
            "the axes maximise J",
            f"{v['starts_at_the_axes']} of {v['starts']} starts end at the axes; the best is "
            f"{v['best_distance']:.4f} from them, its J on fresh rows differs from theirs "
            f"by {v['best_gain_over_axes']:+.1e} ± {v['best_gain_error']:.0e}",
        )
        for d, v in values["conjecture"].items()
    ]
    return rows + _section_7_lines(values["section_7"])


def _section_7_lines(cases: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Write a line for every dimension and kind of rows."""
    return [
        (
            f"Section 7, {case.split('_')[0].replace('d', 'd = ')}, "
            + ("unit rows" if case.endswith("unit") else "rows as they are"),
            "codes are monotone in the sources" if case.endswith("unit") else "—",
            f"rank correlation with the source: codes {v['codes_median']:.3f} (worst "
            f"{v['codes_worst']:.3f}), distances {v['distances_median']:.3f}"
            + (
                f"; codes with s before scaling {v['codes_with_source_before_scaling_median']:.3f}"
                if case.endswith("unit")
                else ""
            ),
        )
        for case, v in cases.items()
    ]
