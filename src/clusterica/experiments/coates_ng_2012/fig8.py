"""Coates & Ng 2012, figure 8: groups of first-layer filters by energy correlation, corr(z_j², z_k²)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from clusterica.display import FiltersDisplay
from clusterica.experiments._context import Context
from clusterica.experiments._panels import side_by_side
from clusterica.experiments._patches import PatchSource
from clusterica.experiments._registry import experiment
from clusterica.experiments._result import Check, Picture, Result
from clusterica.networks import DependencyGroups, Layer

SHOWN = 5  # groups in the picture
ALIKE = 1.2  # times the likeness of random pairs, from which members of a group are much more alike
NOTE = (
    "The network is that of the paper's example in section 5.1, smaller: filters of {patch} by {patch} "
    "pixels, applied with a step of 4 to pictures of {size} by {size} pixels, and summed over four "
    "places; {filters} filters where the example has 10,000, and groups of {group} inputs where the "
    "paper suggests 100 or 200. An input is a filter with one sign of its response. The paper prints a "
    "picture and no numbers; the likeness of two filters is the cosine of their amplitude spectra, which "
    "have the same orientation and frequency wherever the edge is."
)


class Groups(NamedTuple):
    """Groups of inputs, and how alike their filters are."""

    filters: np.ndarray
    """Patterns of pixels of all inputs, with their signs."""
    groups: list[np.ndarray]
    dependency: list[np.ndarray]
    alike: float
    """Mean likeness of a seed and the other filters of its group."""
    alike_random: float
    """The same for groups drawn at random."""


@experiment(
    "P1-fig8",
    title="Groups of filters by energy correlation",
    paper="Coates & Ng 2012, figure 8",
    claim="The energy correlation of pooled responses finds groups of filters that belong together.",
    options=("data",),
    minutes=2,
    needs="BSDS500",
)
def run(ctx: Context) -> Result:
    """Learn a layer, and group its filters."""
    source = PatchSource(ctx)
    settings: dict[str, Any] = {
        "images": source.name,
        "image_size": 20,
        "patch_size": 16,
        "stride": 4,
        "n_images": ctx.choose(full=100_000, quick=4_000),
        "n_patches": ctx.choose(full=400_000, quick=8_000),
        "n_filters": ctx.choose(full=400, quick=48),
        "group_size": ctx.choose(full=25, quick=8),
    }
    found = _find(source, settings, seed=ctx.seed)
    strongest = np.mean([values[1:].mean() for values in found.dependency])
    return Result(
        columns=("Measure", "By energy correlation", "At random"),
        rows=[
            ("Likeness of a seed and its group (mean)", found.alike, found.alike_random),
            ("Energy correlation with the seed (mean)", float(strongest), ""),
            ("Groups that cover all inputs", len(found.groups), ""),
        ],
        values={
            "likeness": {"groups": found.alike, "random": found.alike_random},
            "dependency": float(strongest),
            "dependency_of_groups": [float(values[1:].mean()) for values in found.dependency],
            "n_groups": len(found.groups),
        },
        settings=settings,
        pictures=(_picture(found),),
        note=NOTE.format(
            patch=settings["patch_size"],
            size=settings["image_size"],
            filters=settings["n_filters"],
            group=settings["group_size"],
        ),
        checks=checks(found.alike, found.alike_random),
    )


def checks(alike: float, alike_random: float) -> list[Check]:
    """Ask whether the filters of a group belong together.

    Parameters
    ----------
    alike, alike_random : float
        Mean likeness of a seed and its group, for groups by dependency and at random.

    Returns
    -------
    list of Check
    """
    return [
        Check(
            "filters of a group are of similar orientation and frequency: their likeness to the seed is "
            f"at least {ALIKE:g} times that of random ones",
            alike >= ALIKE * alike_random,
            f"{alike:.2f} in groups, {alike_random:.2f} at random",
        )
    ]


def _find(source: PatchSource, settings: dict[str, Any], *, seed: int) -> Groups:
    size, patch = settings["image_size"], settings["patch_size"]
    rng = np.random.default_rng(seed)
    images = source.draw(settings["n_images"], size, rng=rng).reshape(-1, size, size, 1)
    layer = Layer(
        settings["n_filters"],
        patch_size=patch,
        stride=settings["stride"],
        pool_size=2,
        n_patches=settings["n_patches"],
        random_state=seed,
    ).fit(images)
    inputs = layer.transform(images).reshape(len(images), -1)
    groups = DependencyGroups(settings["group_size"], random_state=seed).fit(inputs)
    random = DependencyGroups(settings["group_size"], measure="random", random_state=seed)
    patterns = np.asarray(layer.features_[0].pixel_patterns_)
    filters = np.concatenate([patterns, -patterns])  # codes are both signs of a response
    spectra = np.abs(np.fft.rfft2(filters.reshape(-1, patch, patch))).reshape(len(filters), -1)
    spectra /= np.linalg.norm(spectra, axis=1, keepdims=True)
    return Groups(
        filters,
        groups.groups_,
        groups.dependency_,
        _likeness(spectra, groups.groups_),
        _likeness(spectra, random.fit(inputs).groups_),
    )


def _likeness(spectra: np.ndarray, groups: list[np.ndarray]) -> float:
    """Return the mean cosine of the spectra of a seed, the first of a group, and of the others."""
    return float(np.mean([(spectra[g[1:]] @ spectra[g[0]]).mean() for g in groups]))


def _picture(found: Groups) -> Picture:
    """Draw the groups that depend most on their seeds, the seed of each first."""
    means = np.array([values[1:].mean() for values in found.dependency])
    order = np.argsort(-means)[:SHOWN]
    figure, panels = side_by_side(len(order), width=9.6, height=2.4)
    for panel, index in zip(panels, order, strict=True):
        title = f"mean {means[index]:.2f}"
        FiltersDisplay(found.filters[found.groups[index]]).plot(ax=panel, title=title)
    return Picture(
        figure,
        caption=f"First-layer filters of the {len(order)} groups, of {len(means)}, with the largest mean "
        "energy correlation with their seed, which is at the top left. The titles give it; over all "
        f"groups the mean is {means.mean():.2f}.",
        alt=f"{len(order)} grids of small grey tiles, the filters of a group each.",
    )
