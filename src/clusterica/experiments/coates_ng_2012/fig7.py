"""Coates & Ng 2012, figure 7: centroids c = (c₁, c₂) of two signals; |c₁|² / |c|² is near 0 or 1.

The signals are two patches drawn independently, and the luminance and a colour of one patch.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from clusterica.arrays import to_host
from clusterica.cluster import GainShapeKMeans
from clusterica.experiments._context import Context
from clusterica.experiments._patches import PatchSource
from clusterica.experiments._registry import experiment
from clusterica.experiments._result import Check, Picture, Result
from clusterica.experiments.coates_ng_2012._tools import GAP, draw_tiles, panel_grid, place
from clusterica.metrics import excess_kurtosis
from clusterica.preprocessing import ContrastNormalizer, Whitener

NEARLY_ALL = 0.9  # share of the centroids that has to use one half only
WEAK = 0.2  # correlation of energies under which two signals are weakly related
ONE_HALF = 0.9  # share of the energy from which a centroid uses one half only
MAX_ITER = 50
SHOWN, COLUMNS = 32, 4  # tiles of a panel
LUMINANCE = np.array([0.299, 0.587, 0.114], dtype=np.float32)  # of red, green, blue (ITU-R BT.601)
BLUE_YELLOW = np.array([-0.5, -0.5, 1.0], dtype=np.float32)  # blue less yellow
NOTE = (
    "Energy is the squared length of a centroid in its half with more of it: 0.5 at least. Random directions "
    "are the centroids before learning, our control. The paper's figures 7c and 7d have depth beside "
    "intensity, from a collection of RGB-D pictures that is not part of this package; colour, blue less "
    "yellow, stands in for depth here. The correlation of the energies of the halves says how closely they "
    "are related. The patches come from {data}. Kurtosis is that of the responses to fresh examples, median "
    "over the centroids; learned apart, each half has half of the centroids and as many examples."
)


class Joint(NamedTuple):
    """Centroids of two signals side by side, and what they respond to."""

    examples: np.ndarray
    """Some white examples, of shape (n, 2 * n_pixels)."""
    centers: np.ndarray
    """Of shape (n_clusters, 2 * n_pixels)."""
    kurtosis: float
    energy_correlation: float
    """Between the two halves, over fresh examples."""


@experiment(
    "P1-fig7",
    title="Two independent patches side by side",
    paper="Coates & Ng 2012, figure 7",
    claim="On pairs of independent patches each centroid uses one half of the input, at the price of more "
    "data than each half alone would need; on two weakly related signals few centroids use both.",
    options=("data", "device"),
    needs="BSDS500",
    minutes=0.4,
)
def run(ctx: Context) -> Result:
    """Cluster pairs of patches, and pairs of luminance and colour."""
    source = PatchSource(ctx, color=True)
    settings: dict[str, Any] = {
        "data": source.name,
        "patch_size": ctx.choose(full=10, quick=6),
        "n_samples": ctx.choose(full=200_000, quick=20_000),
        "n_few": ctx.choose(full=10_000, quick=1_000),
        "n_fresh": ctx.choose(full=20_000, quick=5_000),
        "n_clusters": ctx.choose(full=200, quick=64),
        "whitening_eps": 0.1,
        "max_iter": MAX_ITER,
        "one_half_from": ONE_HALF,
    }
    pairs = {"pairs": _pairs, "color": _luminance_and_color}
    joint, few, apart = {}, {}, {}
    for name, draw in ctx.track(tuple(pairs.items()), "Signals"):
        rng = np.random.default_rng([ctx.seed, *name.encode()])
        X, fresh = (
            draw(source, settings[n], settings["patch_size"], rng) for n in ("n_samples", "n_fresh")
        )
        joint[name] = _learn(ctx, X, fresh, settings)
        few[name] = _learn(ctx, X[: settings["n_few"]], fresh, settings)
        apart[name] = _apart(ctx, X[: settings["n_few"]], fresh, settings)
    random = np.random.default_rng(ctx.seed).standard_normal(joint["pairs"].centers.shape)
    values = {
        name: {
            **_measure(joint[name].centers),
            "few": _measure(few[name].centers),
            "energy_correlation": joint[name].energy_correlation,
            "kurtosis": joint[name].kurtosis,
            "kurtosis_few": few[name].kurtosis,
            "kurtosis_few_apart": apart[name],
        }
        for name in pairs
    }
    values["random"] = _measure(random)
    return Result(
        columns=("Measure", "The paper says", "Two patches", "Luminance and colour", "Random"),
        rows=_rows(values, settings),
        values=values,
        settings=settings,
        pictures=(_picture(joint, settings["patch_size"]),),
        note=NOTE.format(data=source.name),
        checks=checks(values),
    )


def checks(values: dict[str, dict[str, Any]]) -> list[Check]:
    """Ask whether centroids of two signals use one half each, and what that costs.

    Parameters
    ----------
    values : dict
        Measures of pairs of patches, and of luminance and colour.

    Returns
    -------
    list of Check
    """
    pairs, color = values["pairs"], values["color"]
    return [
        Check(
            "on pairs of independent patches centroids involve half of the input at a time: "
            f"{NEARLY_ALL:.0%} of them at least have {ONE_HALF:.0%} of their energy in one half",
            pairs["share_in_one_half"] >= NEARLY_ALL,
            f"{pairs['share_in_one_half']:.0%} of them",
        ),
        Check(
            "this needs more data: from few examples fewer centroids use one half, and learned together they "
            "are less sparse than learned apart",
            pairs["few"]["share_in_one_half"] < pairs["share_in_one_half"]
            and pairs["kurtosis_few"] < pairs["kurtosis_few_apart"],
            f"{pairs['few']['share_in_one_half']:.0%} use one half; excess kurtosis "
            f"{pairs['kurtosis_few']:.2f} together, {pairs['kurtosis_few_apart']:.2f} apart",
        ),
        Check(
            "on two weakly related signals only a few centroids use both: a tenth at most, with colour in "
            f"place of depth, where the correlation of the energies is to be below {WEAK:g}",
            color["energy_correlation"] < WEAK and color["share_in_one_half"] >= NEARLY_ALL,
            f"{1 - color['share_in_one_half']:.0%} use both, with a correlation of "
            f"{color['energy_correlation']:.2f}",
        ),
    ]


def _pairs(source: PatchSource, n: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """Draw two grey patches a row, independent of each other, each normalised in contrast."""
    halves = (source.draw(n, size, rng=rng).reshape(n, -1, 3) @ LUMINANCE for _ in range(2))
    return np.hstack([ContrastNormalizer().fit_transform(half) for half in halves])


def _luminance_and_color(
    source: PatchSource, n: int, size: int, rng: np.random.Generator
) -> np.ndarray:
    """Draw a patch a row, its luminance beside its blue less yellow, each normalised in contrast."""
    patches = source.draw(n, size, rng=rng).reshape(n, -1, 3)
    halves = (patches @ weights for weights in (LUMINANCE, BLUE_YELLOW))
    return np.hstack([ContrastNormalizer().fit_transform(half) for half in halves])


def _learn(
    ctx: Context,
    X: np.ndarray,
    fresh: np.ndarray,
    settings: dict[str, Any],
    *,
    n_clusters: int | None = None,
) -> Joint:
    """Whiten rows, cluster them, and measure the responses to fresh rows."""
    rows = place(ctx, X)
    whitener = Whitener(eps=settings["whitening_eps"]).fit(rows)
    Y = whitener.transform(rows)
    estimator = GainShapeKMeans(
        n_clusters or settings["n_clusters"],
        max_iter=MAX_ITER,
        compute_labels=False,
        random_state=ctx.seed,
    )
    centers = to_host(ctx.watch(estimator).fit(Y).cluster_centers_)
    white = to_host(whitener.transform(place(ctx, fresh)))
    kurtosis = float(np.median(excess_kurtosis(white @ centers.T)))
    energies = [(half**2).sum(axis=1) for half in np.hsplit(white, 2)]
    return Joint(to_host(Y[:SHOWN]), centers, kurtosis, float(np.corrcoef(*energies)[0, 1]))


def _apart(ctx: Context, X: np.ndarray, fresh: np.ndarray, settings: dict[str, Any]) -> float:
    """Return the median kurtosis where each half is learned by itself."""
    halves = zip(np.hsplit(X, 2), np.hsplit(fresh, 2), strict=True)
    k = settings["n_clusters"] // 2
    return float(np.mean([_learn(ctx, *half, settings, n_clusters=k).kurtosis for half in halves]))


def half_energy(centers: np.ndarray) -> np.ndarray:
    """Return the share of each row's energy in the half that has more of it.

    Parameters
    ----------
    centers : ndarray of shape (n_rows, 2 * n_features)
        Rows of two halves.

    Returns
    -------
    ndarray of shape (n_rows,)
        Values from 0.5 to 1.
    """
    energy = np.stack([(half**2).sum(axis=1) for half in np.hsplit(centers, 2)])
    return np.asarray(energy.max(axis=0) / energy.sum(axis=0))


def _measure(centers: np.ndarray) -> dict[str, Any]:
    """Return how much of the centroids is in one half."""
    share = half_energy(centers)
    return {
        "mean_half_energy": float(share.mean()),
        "share_in_one_half": float((share >= ONE_HALF).mean()),
    }


def _rows(values: dict[str, dict[str, Any]], settings: dict[str, Any]) -> list[tuple[object, ...]]:
    """Compare each measure with the paper's statement."""
    pairs, color, random = values["pairs"], values["color"], values["random"]
    few = f"{settings['n_few']:,} examples"
    return [
        (
            "Correlation of the energies of the halves",
            "depth is “only weakly related” to intensity",
            *(f"{v['energy_correlation']:.2f}" for v in (pairs, color)),
            "—",
        ),
        (
            "Energy in one half (mean)",
            "“only involve half of the input at a time”",
            *(v["mean_half_energy"] for v in (pairs, color, random)),
        ),
        (
            f"Centroids with {ONE_HALF:.0%} of their energy in one half",
            "with depth “only a few weak features that use both”",
            *(f"{v['share_in_one_half']:.0%}" for v in (pairs, color, random)),
        ),
        (
            f"The same from {few}",
            "“significantly more data is needed”",
            *(f"{v['few']['share_in_one_half']:.0%}" for v in (pairs, color)),
            "—",
        ),
        (
            f"Excess kurtosis from {few}: together, apart",
            "“better to run K-means separately”",
            *(f"{v['kurtosis_few']:.2f}, {v['kurtosis_few_apart']:.2f}" for v in (pairs, color)),
            "—",
        ),
    ]


def _side_by_side(rows: np.ndarray, size: int) -> np.ndarray:
    """Reorder the pixels of two halves, one after the other, to those of one wide picture."""
    return rows.reshape(len(rows), 2, size, size).transpose(0, 2, 1, 3).reshape(len(rows), -1)


def _picture(joint: dict[str, Joint], size: int) -> Picture:
    """Draw examples and centroids of both signals."""
    figure, grid = panel_grid(2, 2, width=8.4, height=9.0)
    titles = {"pairs": "Two independent patches", "color": "Luminance and colour"}
    for row, letters, (name, title) in zip(grid, ("ab", "cd"), titles.items(), strict=True):
        centers = joint[name].centers
        spread = np.linspace(0, len(centers) - 1, min(SHOWN, len(centers))).astype(int)
        shown = centers[np.argsort(-half_energy(centers))[spread]]
        _draw(row[0], joint[name].examples, size, f"({letters[0]}) {title}, whitened")
        _draw(row[1], shown, size, f"({letters[1]}) Centroids")
    return Picture(
        figure,
        caption="Left: whitened examples, one signal in each half of a tile. Right: centroids, from those "
        "that use one half only to those that use both most. A half that is not used is grey.",
        alt="Four grids of wide tiles of two halves: examples on the left, centroids on the right.",
    )


def _draw(ax: Any, rows: np.ndarray, size: int, title: str) -> None:
    """Draw tiles of two halves, with a line between the halves."""
    shape = (size, 2 * size)
    draw_tiles(ax, _side_by_side(rows, size), title=title, shape=shape, n_columns=COLUMNS)
    for column in range(COLUMNS):
        ax.axvline(0.5 + size + column * (2 * size + 1), color=GAP, linewidth=1)
