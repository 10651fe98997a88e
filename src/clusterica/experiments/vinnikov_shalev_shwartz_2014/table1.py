"""Vinnikov & Shalev-Shwartz 2014, table 1: distance of 2d centroids c from the axes e of d Laplace sources.

The distance is dist(c, e) = max_j |e_j - c_(n_j)|_∞ of unit centroids, each matched with one of ±e.
The rows are drawn as in section 6.1, s with p(s) ∝ exp(-√2 |s|₁), neither mixed nor whitened.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from clusterica.cluster import CosineKMeans, KMeans
from clusterica.experiments._bands import band
from clusterica.experiments._context import Context
from clusterica.experiments._measures import peak_memory
from clusterica.experiments._panels import side_by_side
from clusterica.experiments._registry import experiment
from clusterica.experiments._result import Picture, Result
from clusterica.experiments.vinnikov_shalev_shwartz_2014._table1_cells import (
    BAD,
    LEARNERS,
    PAPER,
    PAPERS,
    RANDOM,
    Learner,
    TableCell,
    checks,
    in_words,
)
from clusterica.ica import ClusterICA
from clusterica.ica.folding import fold
from clusterica.metrics import recovery_distance

# Relative and squared: from here to a thousandth of it, distances change by less than 2 % up to 5e6 rows.
TOL = 1e-9
MAX_ITER = 1000
START_ROWS = 100_000  # enough to find the axes; the passes over all rows begin there
TRIALS = 100  # of a search for a lower objective, where a distance is large
BLOCK = 2**20  # numbers drawn at a time
# Numbers (rows times d) that the random starts of a cell go over in all, but for two draws at least. With
# d = 50 and 5 million rows one random start takes about a minute of a core.
RANDOM_NUMBERS = 5 * 10**8

NOTE = (
    "Median over the draws with its 10 % and 90 % quantiles, and its ratio to the paper's figure, one "
    "draw a cell. The paper starts from random centroids; rows with a random start begin at random "
    "directions. All other clusterers have the orthogonal start: they begin at axes that are turned "
    f"under the orthogonal constraint on the first {START_ROWS:,} rows. Folded, orthogonal and refined "
    "are not in the paper. Folded is K-means with its 2d centroids joined to d pairs, as Cluster-ICA "
    "does (Algorithm 1); its ratio is to the paper's K-means. The ratio of the others is to its cosine "
    "K-means: orthogonal is cosine K-means under the orthogonal constraint, refined the maximum of the "
    f"likelihood from cosine K-means on (ClusterICA with refine='ml'). A distance above {BAD:g} may mean "
    "that an axis was missed. In the plane K-means has two mirrored optima, with the longer pair of "
    "centroids on one axis or on the other."
)


@experiment(
    "P0-table1",
    title="Distance of the centroids from the axes, over dimensions and numbers of rows",
    paper="Vinnikov & Shalev-Shwartz 2014, table 1",
    claim="With k = 2d the normalised centroids of K-means and of cosine K-means converge to the unit "
    "vectors and their negatives as the number of rows grows.",
    minutes=12,
)
def run(ctx: Context) -> Result:
    """Fit every learner on every draw of every cell."""
    settings: dict[str, Any] = {
        "n_features": ctx.choose(full=[2, 10, 20, 50], quick=[2, 10, 20]),
        # Numbers of rows, and draws of each.
        "n_draws": ctx.choose(full={10_000: 20, 100_000: 20, 5_000_000: 5}, quick={10_000: 3}),
        "random_start_numbers": RANDOM_NUMBERS,
        "tol": TOL,
        "start_rows": START_ROWS,
        "bad_above": BAD,
    }
    cells = {
        (d, m): TableCell.empty(d, m) for d in settings["n_features"] for m in settings["n_draws"]
    }
    draws = [(d, m, draw) for d, m in cells for draw in range(settings["n_draws"][m])]
    for d, m, draw in ctx.track(draws, "Draws of Laplace sources"):
        left_out = () if draw < _random_draws(d, m) else RANDOM
        _fit_draw(cells[d, m], seed=[ctx.seed, d, m, draw], left_out=left_out)
    values = _values(list(cells.values()))
    return Result(
        columns=("d", "Rows", "Learner", "Paper", "Median", "10–90 %", "Ratio"),
        rows=_rows(list(cells.values())),
        values=values,
        settings=settings,
        pictures=(_picture(cells, settings),),
        note=" ".join(
            (NOTE, _random_note(cells), _bad_note(values, len(draws)), _memory_note(values))
        ),
        checks=checks(cells.values()),
    )


def _random_draws(d: int, n_samples: int) -> int:
    """Return in how many draws both clusterers also start at random, at most."""
    return max(2, RANDOM_NUMBERS // (d * n_samples))


def laplace_rows(n_samples: int, n_features: int, *, rng: np.random.Generator) -> np.ndarray:
    """Draw Laplace sources of unit variance in float32, without an array of twice their size.

    Parameters
    ----------
    n_samples, n_features : int
        Shape of the draw.
    rng : numpy.random.Generator
        Where the numbers come from.

    Returns
    -------
    ndarray of shape (n_samples, n_features), float32
    """
    S = np.empty((n_samples, n_features), dtype=np.float32)
    flat = S.reshape(-1)
    for start in range(0, flat.size, BLOCK):
        part = flat[start : start + BLOCK]
        rng.standard_exponential(dtype=np.float32, out=part)
        # One random bit a number: 0 or √2 less √½ is a sign times the scale √½ of unit variance.
        bits = np.unpackbits(rng.integers(256, size=-(-part.size // 8), dtype=np.uint8))
        part *= bits[: part.size] * np.float32(np.sqrt(2)) - np.float32(np.sqrt(0.5))
    return S


def _fit_draw(cell: TableCell, *, seed: list[int], left_out: tuple[str, ...] = ()) -> None:
    """Draw rows once, fit every learner on them and note its distance and time."""
    rng = np.random.default_rng(seed)
    S = laplace_rows(cell.n_samples, cell.d, rng=rng)
    random_state = int(rng.integers(2**31))
    axes = CosineKMeans(
        orthogonal=True,
        init="orthonormal",
        tol=TOL,
        max_iter=MAX_ITER,
        compute_labels=False,
        random_state=random_state,
    ).fit(S[:START_ROWS])
    centers: dict[str, np.ndarray] = {}
    for name in (name for name in LEARNERS if name not in left_out):
        begin = time.perf_counter()
        # "folded" uses the centroids of K-means, so its time is not counted again.
        start = centers["kmeans"] if name == "folded" else axes.cluster_centers_
        centers[name] = found = _find(name, S, start, random_state=random_state)
        cell.seconds[name] += time.perf_counter() - begin
        distance = recovery_distance(found, np.eye(cell.d))
        cell.distances[name].append(distance)
        if name == "kmeans":
            cell.errors.append(_in_standard_errors(found, S))
        if name == "random":
            lines = fold(found, np.ones(len(found)), cell.d)
            cell.random_folded.append(recovery_distance(lines, np.eye(cell.d)))
        elif distance > BAD and name not in RANDOM:
            cell.doubts.append(_doubt(name, S, found, distance, random_state))


def _in_standard_errors(centers: np.ndarray, S: np.ndarray) -> float:
    """Return how far the worst coordinate of a centroid is off, in standard errors of a mean of its rows.

    Coordinates beside the axis of a centroid are 0 in the law of the rows. A missed axis is off by many
    standard errors, an optimum that only scatters by a few. Spreads are those of the first rows.
    """
    part = S[:START_ROWS]
    labels = np.argmax(part @ centers.T - (centers**2).sum(axis=1) / 2, axis=1)
    worst = 0.0
    for j, center in enumerate(centers):
        rows = part[labels == j]
        error = rows.std(axis=0, ddof=1) / np.sqrt(len(rows) * len(S) / len(part))
        off = abs(center) / error
        off[np.argmax(abs(center))] = 0.0
        worst = max(worst, float(off.max()))
    return worst


def _doubt(
    name: str, S: np.ndarray, found: np.ndarray, distance: float, random_state: int
) -> dict[str, Any]:
    """Explain a large distance: the worst axis, and the objective that better searches reach."""
    axes = np.concatenate([np.eye(S.shape[1]), -np.eye(S.shape[1])]).astype(S.dtype)
    cosines = axes @ (found / np.linalg.norm(found, axis=1, keepdims=True)).T
    cosines = cosines if len(found) == len(axes) else abs(cosines)  # a line has no sign
    from_truth = _find(name, S, axes, random_state=random_state)
    doubt = {
        "learner": name,
        "distance": distance,
        "least_cosine": float(cosines.max(axis=1).min()),
        "distance_from_true_axes": recovery_distance(from_truth, np.eye(S.shape[1])),
    }
    if name == "kmeans":
        deepest, gained = _searched(S, found, rng=np.random.default_rng(random_state))
        doubt["distance_after_search"] = recovery_distance(deepest, np.eye(S.shape[1]))
        doubt["gained_by_search"] = gained
        doubt["standard_errors"] = _in_standard_errors(found, S)
    return doubt


def _searched(
    S: np.ndarray, centers: np.ndarray, *, rng: np.random.Generator
) -> tuple[np.ndarray, float]:
    """Look for a lower objective of K-means: shake the centres, settle, and keep what is better.

    Returns the centres with the lowest objective, and by which share it is lower than at the start.
    """
    spread = 0.05 * np.linalg.norm(centers, axis=1).mean()
    start = lowest = KMeans(len(centers), init=centers, tol=1e-7, max_iter=MAX_ITER).fit(S).inertia_
    for _ in range(TRIALS):
        shaken = centers + spread * rng.standard_normal(centers.shape)
        trial = KMeans(len(centers), init=shaken, tol=1e-7, max_iter=MAX_ITER).fit(S)
        if trial.inertia_ < lowest:
            centers, lowest = trial.cluster_centers_, trial.inertia_
    return centers, float(1 - lowest / start)


def _find(name: str, S: np.ndarray, axes: np.ndarray, *, random_state: int) -> np.ndarray:
    """Return the centroids of a learner, or d lines of those that have no signs."""
    if name == "folded":
        centers = _find("kmeans", S, axes, random_state=random_state)
        return fold(centers, np.ones(len(centers)), S.shape[1])
    if name == "refined":
        ica = ClusterICA(refine="ml", random_state=random_state).fit(S)
        return np.asarray(ica.components_)
    estimator: Any
    if name in ("kmeans", "random"):
        # Unit vectors are where the data has unit variance.
        estimator = KMeans(
            len(axes),
            init="gaussian" if name == "random" else axes,
            tol=TOL,
            max_iter=MAX_ITER,
            compute_labels=False,
            random_state=random_state,
        )
    else:
        estimator = CosineKMeans(
            orthogonal=name == "orthogonal",
            init="gaussian" if name == "cosine_random" else axes,
            tol=TOL,
            max_iter=MAX_ITER,
            compute_labels=False,
            random_state=random_state,
        )
    return np.asarray(estimator.fit(S).cluster_centers_)


def _values(cells: list[TableCell]) -> dict[str, Any]:
    """Gather what was measured."""
    peak = peak_memory()
    largest = 4 * max(cell.d * cell.n_samples for cell in cells)
    return {
        "distances": {cell.name: cell.distances for cell in cells},
        "random_start_folded": {cell.name: cell.random_folded for cell in cells},
        "ratios": {cell.name: {name: cell.ratio(name) for name in LEARNERS} for cell in cells},
        "bad_draws": {
            name: sum(distance > BAD for cell in cells for distance in cell.distances[name])
            for name in LEARNERS
        },
        "kmeans_in_standard_errors": {cell.name: cell.errors for cell in cells},
        "doubts": {cell.name: cell.doubts for cell in cells if cell.doubts},
        "seconds": {cell.name: cell.seconds for cell in cells},
        "largest_data_mib": largest / 2**20,
        "peak_over_data_mib": None if peak is None else (peak - largest) / 2**20,
    }


def _random_note(cells: dict[tuple[int, int], TableCell]) -> str:
    """Say where the random start has fewer draws than the others."""
    fewer = [
        f"{len(cell.random_folded)} of {len(cell.errors)} draws with {in_words(cell.name)}"
        for cell in cells.values()
        if len(cell.random_folded) < len(cell.errors)
    ]
    if not fewer:
        return "Random starts have as many draws as the others."
    return f"Random starts have fewer draws where they take long: {'; '.join(fewer)}."


def _memory_note(values: dict[str, Any]) -> str:
    """Say how much memory was used at most."""
    peak = values["peak_over_data_mib"]
    if peak is None:
        return "This system does not tell the peak memory."
    return (
        f"Peak memory was {peak:.0f} MiB over the largest data ({values['largest_data_mib']:.0f} MiB), "
        "with the interpreter and all libraries."
    )


def _bad_note(values: dict[str, Any], n_draws: int) -> str:
    """Say how many draws of each learner are far off, and what a closer look at them shows."""
    counts = (f"{LEARNERS[name].label} {n}" for name, n in values["bad_draws"].items())
    text = f"Draws above {BAD:g}, of {n_draws} of a learner at most: {', '.join(counts)}."
    for cell, doubts in values["doubts"].items():
        errors = values["kmeans_in_standard_errors"][cell]
        for doubt in doubts:
            text += (
                f" In {cell} {LEARNERS[doubt['learner']].label} is off by {doubt['distance']:.3f}, with a "
                f"cosine of {doubt['least_cosine']:.3f} to the axis that is met worst; started at the true "
                f"axes it ends at {doubt['distance_from_true_axes']:.3f}."
            )
            if "gained_by_search" in doubt:
                text += (
                    f" Its worst coordinate is off by {doubt['standard_errors']:.1f} standard errors of the "
                    f"mean; over all draws of the cell the median is {np.median(errors):.1f} and the "
                    f"largest {max(errors):.1f}."
                    f" A search that lowers the objective by {100 * doubt['gained_by_search']:.2f} % ends "
                    f"at {doubt['distance_after_search']:.3f}."
                )
    return text


def _rows(cells: list[TableCell]) -> list[tuple[object, ...]]:
    """Compare medians with the paper's figures."""
    rows: list[tuple[object, ...]] = []
    for cell in cells:
        for name, learner in LEARNERS.items():
            low, median, high = band(cell.distances[name])
            printed = PAPER[cell.d, cell.n_samples][learner.column]
            rows.append(
                (
                    str(cell.d),
                    f"{cell.n_samples:.0e}".replace("e+0", "e"),
                    learner.label,
                    f"{printed:g}" if name in PAPERS else "—",
                    median,
                    f"{low:#.2g}–{high:#.2g}",
                    cell.ratio(name),
                )
            )
    return rows


def _picture(cells: dict[tuple[int, int], TableCell], settings: dict[str, Any]) -> Picture:
    """Draw distances over the number of rows, a panel for each dimension."""
    dimensions, sizes = settings["n_features"], list(settings["n_draws"])
    figure, panels = side_by_side(len(dimensions), width=2.9 * len(dimensions), height=4.4)
    for ax, d in zip(panels, dimensions, strict=True):
        for name, learner in LEARNERS.items():
            _draw_line(ax, [cells[d, m] for m in sizes], name, learner)
        for column, learner in enumerate((LEARNERS["kmeans"], LEARNERS["cosine"])):
            printed = [(m, both[column]) for (k, m), both in PAPER.items() if k == d]
            x, y = zip(*printed, strict=True)
            ax.plot(x, y, "x", color=learner.color, markersize=8, markeredgewidth=2)
        ax.axhline(BAD, color="0.5", linewidth=0.8, linestyle=(0, (4, 4)))
        ax.set(xscale="log", yscale="log", xlim=(5e3, 1e7), ylim=(1.5e-4, 1))
        ax.set(title=f"d = {d}", xlabel="rows")
        ax.grid(alpha=0.25)
        ax.label_outer()
    panels[0].set_ylabel("distance from the axes")
    panels[-1].plot([], [], "x", color="0.3", markersize=8, markeredgewidth=2, label="the paper")
    handles, labels = panels[-1].get_legend_handles_labels()
    figure.legend(handles, labels, fontsize=8, ncols=4, loc="outside lower center")
    return Picture(
        figure,
        caption="Distance of the centroids from the axes over the number of rows: median with its "
        "10–90 % band, and the paper's single draws as crosses. Above the dashed line an axis may have "
        "been missed.",
        alt=f"A panel for each dimension, with a line of distance over the number of rows for each of "
        f"{len(LEARNERS)} learners and crosses for the paper's figures.",
    )


def _draw_line(ax: Any, cells: list[TableCell], name: str, learner: Learner) -> None:
    """Draw one learner's medians and bands."""
    sizes = [cell.n_samples for cell in cells]
    low, median, high = zip(*(band(cell.distances[name]) for cell in cells), strict=True)
    if len(sizes) > 1:
        ax.fill_between(sizes, low, high, color=learner.color, alpha=0.15, linewidth=0)
    else:  # one number of rows has no area between
        ax.plot(sizes * 2, [low[0], high[0]], color=learner.color, alpha=0.4, linewidth=2)
    ax.plot(sizes, median, "o-", color=learner.color, markersize=4, label=learner.label)
