"""Coates & Ng 2012, figure 3: centroids of images x = Σ_j s_j d_j with sparse s, against the atoms d.

Three kinds of atoms: pixels, gratings, and Gabor functions that are not orthogonal. The images are
whitened, y = W x, and a centroid c is shown as the image W⁻¹ c that whitens to it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from clusterica.arrays import to_host
from clusterica.cluster import GainShapeKMeans
from clusterica.datasets import make_sparse_images
from clusterica.experiments._context import Context
from clusterica.experiments._measures import match_columns, nearest_cosines
from clusterica.experiments._panels import side_by_side
from clusterica.experiments._registry import experiment
from clusterica.experiments._result import Check, Picture, Result
from clusterica.experiments.coates_ng_2012._tools import draw_tiles, panel_grid, place
from clusterica.preprocessing import Whitener

FOUND = 0.9  # |cos| from which an atom counts as found
ROUGHLY = 0.8  # share of the atoms that has to be found for “roughly recovered”
UNLIKE = 0.7  # |cos| under which no image is especially similar to an atom
MAX_ITER = 100
STARTS = {"random": "Random start", "orthogonal": "Orthogonal start"}
NAMES = {"pixels": "pixels", "gratings": "gratings", "gabors": "Gabor functions"}
SAID = {
    "pixels": "“roughly” recovered",
    "gratings": "the same",
    "gabors": "the same; “non-orthogonal”",
}
NOTE = (
    "An atom is found if |cos| to the nearest centroid, taken back to pixels, is above 0.9; beside it the "
    "mean |cos| over the atoms. The start "
    "at random directions is that of the paper. The orthogonal start is ours: axes turned towards the sparse "
    "directions of the first images under an orthogonal constraint. The last column is the median over the "
    "atoms of |cos| to the nearest of 10,000 whitened images. All coefficients are draws of a Laplace law, "
    "and the images are whitened but not normalised in contrast, since they have neither brightness nor "
    "contrast to take out. The paper prints pictures."
)


class Learned(NamedTuple):
    """One kind of images, and what was learned from them."""

    images: np.ndarray
    """Some of them, of shape (n, n_pixels)."""
    atoms: np.ndarray
    """Of shape (n_atoms, n_pixels)."""
    patterns: dict[str, np.ndarray]
    """Centroids of every start, taken back to pixels."""
    nearest_image: float


@experiment(
    "P1-fig3",
    title="Centroids of sparse pixels, gratings and Gabor functions",
    paper="Coates & Ng 2012, figure 3",
    claim="On images that are sparse combinations of pixels, of gratings or of Gabor functions, K-means "
    "roughly recovers the atoms, although no single image looks like them.",
    options=("device",),
    minutes=2.4,
)
def run(ctx: Context) -> Result:
    """Learn as many centroids as there are atoms, from every kind of images."""
    size = ctx.choose(full=16, quick=8)
    settings: dict[str, Any] = {
        "size": size,
        "n_clusters": size * size,
        "n_samples": ctx.choose(full=500_000, quick=30_000),
        "n_start": ctx.choose(full=100_000, quick=30_000),
        "max_iter": MAX_ITER,
        "found_above": FOUND,
    }
    parts = {kind: _learn(ctx, kind, settings) for kind in ctx.track(tuple(SAID), "Kinds")}
    values = {kind: _measure(part) for kind, part in parts.items()}
    return Result(
        columns=("Atoms", "The paper says", *STARTS.values(), "Nearest image"),
        rows=[(NAMES[kind], SAID[kind], *_row(measured)) for kind, measured in values.items()],
        values=values,
        settings=settings,
        pictures=(_picture(parts, values), _examples(parts)),
        note=NOTE,
        checks=checks(values),
    )


def checks(values: dict[str, dict[str, float]]) -> list[Check]:
    """Ask of every kind of atoms whether K-means recovers them, and whether images look like them.

    Parameters
    ----------
    values : dict
        Measures by kind of atoms.

    Returns
    -------
    list of Check
    """
    found = [
        Check(
            f"K-means from a random start roughly recovers {NAMES[kind]}: {ROUGHLY:.0%} of the atoms at "
            "least",
            measured["random_share_found"] >= ROUGHLY,
            f"{measured['random_share_found']:.1%} found, {measured['orthogonal_share_found']:.1%} from the "
            "orthogonal start, which the paper does not have",
        )
        for kind, measured in values.items()
    ]
    nearest = {NAMES[kind]: measured["nearest_image_cosine"] for kind, measured in values.items()}
    return [
        *found,
        Check(
            "the atoms are not especially similar to individual images: the median |cos| to the nearest "
            f"image is below {UNLIKE:g}",
            max(nearest.values()) < UNLIKE,
            ", ".join(f"{name} {cosine:.2f}" for name, cosine in nearest.items()),
        ),
    ]


def _learn(ctx: Context, kind: str, settings: dict[str, Any]) -> Learned:
    """Draw images of a kind, whiten them, and cluster them from both starts."""
    drawn = make_sparse_images(
        settings["n_samples"],
        kind=kind,
        size=settings["size"],
        random_state=np.random.default_rng([ctx.seed, *kind.encode()]),
    )
    X, atoms = (part.reshape(len(part), -1) for part in drawn)
    whitener = Whitener(eps=0.0).fit(place(ctx, X))
    Y = whitener.transform(place(ctx, X))
    W, back = to_host(whitener.whitening_), to_host(whitener.dewhitening_)
    near = nearest_cosines(atoms @ W.T, to_host(Y[:10_000]))
    return Learned(
        images=X[:36].copy(),
        atoms=atoms,
        patterns={start: _centers(ctx, Y, start, settings) @ back.T for start in STARTS},
        nearest_image=float(np.median(near)),
    )


def _centers(ctx: Context, Y: Any, start: str, settings: dict[str, Any]) -> np.ndarray:
    """Cluster white images; an orthogonal start is made on the first of them."""
    init: Any = "gaussian"
    if start == "orthogonal":
        first = _clusterer(ctx, "orthogonal", settings).fit(Y[: settings["n_start"]])
        init = to_host(first.cluster_centers_)
    return np.asarray(to_host(_clusterer(ctx, init, settings).fit(Y).cluster_centers_))


def _clusterer(ctx: Context, init: Any, settings: dict[str, Any]) -> Any:
    return ctx.watch(
        GainShapeKMeans(
            settings["n_clusters"],
            init=init,
            max_iter=settings["max_iter"],
            compute_labels=False,
            random_state=ctx.seed,
        )
    )


def _measure(part: Learned) -> dict[str, float]:
    """Return the share of atoms found and the mean |cos|, for both starts."""
    measured = {}
    for start, patterns in part.patterns.items():
        near = nearest_cosines(part.atoms, patterns)
        measured[f"{start}_share_found"] = float((near > FOUND).mean())
        measured[f"{start}_mean_cosine"] = float(near.mean())
    return {**measured, "nearest_image_cosine": part.nearest_image}


def _row(measured: dict[str, float]) -> list[str]:
    """Write what was found from every start, and how near the images come to atoms."""
    starts = [
        f"{measured[f'{start}_share_found']:.1%} found, mean {measured[f'{start}_mean_cosine']:.3f}"
        for start in STARTS
    ]
    return [*starts, f"{measured['nearest_image_cosine']:.3f}"]


def _picture(parts: dict[str, Learned], values: dict[str, dict[str, float]]) -> Picture:
    """Draw the atoms above, and below each the centroid that stands for it."""
    figure, (above, below) = panel_grid(2, len(parts), width=9.6, height=6.75)
    for top, bottom, (kind, part) in zip(above, below, parts.items(), strict=True):
        patterns = part.patterns["random"]
        match = match_columns(patterns.T, part.atoms.T)
        matched = match.signs[:, np.newaxis] * patterns[match.order]
        found = 100 * values[kind]["random_share_found"]
        draw_tiles(top, part.atoms, title=f"Truth: {NAMES[kind]}")
        draw_tiles(bottom, matched, title=f"Centroids: {found:.0f} % found")
    return Picture(
        figure,
        caption="Top: the atoms. Bottom, at the same places: centroids of K-means from a random start, "
        "taken back to pixels, with the signs of the atoms. A tile unlike the one above it is a "
        "centroid that was left over: it ended between atoms, or on one that has another.",
        alt="Three grids of small tiles above three others: atoms that are single pixels, waves and small "
        "wavelets, and centroids.",
    )


def _examples(parts: dict[str, Learned]) -> Picture:
    """Draw some images of every kind, as the top of the paper's figure does."""
    figure, panels = side_by_side(len(parts), width=9.6, height=3.5)
    for ax, (kind, part) in zip(panels, parts.items(), strict=True):
        draw_tiles(ax, part.images, title=f"Images of sparse {NAMES[kind]}")
    return Picture(
        figure,
        caption="Some of the images that the centroids were learned from, each scaled to its own range.",
        alt="Three grids of noisy tiles.",
        name="images",
    )
