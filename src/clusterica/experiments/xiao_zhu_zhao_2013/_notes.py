"""What the tables of Xiao, Zhu & Zhao are checked for: their order, their figures, how alike patches are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from clusterica.arrays import to_host
from clusterica.experiments._result import Check
from clusterica.experiments.xiao_zhu_zhao_2013._methods import (
    NAMES,
    STEPLESS,
    WHITE,
    Setting,
    candidates,
)
from clusterica.images import sample_patches
from clusterica.kernels import make_kernel
from clusterica.ops.linalg import unit_rows

LABELS_NOTE = (
    "Supervised methods (DRICA, d-RICA, d-kRICA, white or not) learn filters with the labels of all images "
    "that the classifier is trained on. The cross-validation that chooses among their settings learns "
    "filters and classifier anew from all parts but one, and scores that one: nothing has seen its labels. "
    "Nor has anything seen those of the images of the table."
)
PENALTY_NOTE = (
    "The penalty pools codes, as in the paper, which does not tell over which: here over 3 x 3 "
    "neighbours."
)
CODES_NOTE = (
    "Own codes are k(w, x) of kRICA and d-kRICA, the codes of KICA and KSR, W x of the others, each sign "
    "a feature; white: RICA and d-RICA with free lengths after kernel whitening over landmarks, section "
    "4.1 of the paper, on all dimensions with a thousandth of the largest variance; threshold t: what the "
    "responses to the basis exceed t by, of both signs, whatever learned it. Dead: basis vectors with "
    "k(w, x) < 0.01 for all patches, or in white space of length |w| < 0.01. The paper does not tell the "
    "number of steps; with its settings it is {steps} at most."
)
_PATCHES = 4000  # enough to whiten by
_COMPARED = 1000  # of them, with as many others: a million pairs


def median_similarities(
    images: Any,
    settings: Sequence[Setting],
    *,
    patch_size: int,
    steps: Mapping[str, Any],
    seed: int,
) -> dict[str, dict[str, float]]:
    """Return the median k of two patches for every kernel, of unit length and before they are scaled to it.

    Parameters
    ----------
    images : array or list of images
        Where patches are cut from.
    settings : sequence of Setting
        Their kernels are used.
    patch_size : int
        Side of a patch.
    steps : mapping
        The normaliser and the whitener.
    seed : int
        Seed of the draw.
    """
    patches = sample_patches(images, _PATCHES, patch_size=patch_size, random_state=seed)
    white = to_host(patches)
    for step in ("normalizer", "whitener"):
        white = clone(steps[step]).fit_transform(white)
    unit = unit_rows(white)
    found = {}
    for setting in settings:
        gamma = setting.gamma if setting.kernel == "rbf" else "median"
        kernel = make_kernel(setting.kernel, gamma=gamma)
        name = f"γ = {setting.gamma:g}" if setting.kernel == "rbf" else setting.kernel
        found[name] = {"unit length": _median(kernel, unit)}
        if setting.kernel == "rbf":
            found[name]["not scaled"] = _median(kernel, white)
    return found


def _median(kernel: Any, rows: np.ndarray) -> float:
    return float(np.median(kernel(rows[:_COMPARED], rows[-_COMPARED:])))


def similarity_note(found: Mapping[str, Mapping[str, float]]) -> str:
    """Return the median similarities in words."""
    words = [f"{medians['unit length']:.2g} ({name})" for name, medians in found.items()]
    plain = [f"{m['not scaled']:.2g}" for m in found.values() if "not scaled" in m]
    before = f"; before they are scaled {', '.join(plain)}" if plain else ""
    return f"Median k of two patches of unit length: {', '.join(words)}{before}."


class Difference(NamedTuple):
    """The mean difference of two accuracies of the same splits, and its standard error, in percent."""

    mean: float
    error: float

    def __str__(self) -> str:
        # Where all splits differ by the same, most often by nothing, there is no error to divide by.
        times = f" ({self.mean / self.error:+.1f} SE)" if self.error else ""
        return f"{self.mean:+.2f}{times}"

    @property
    def is_gain(self) -> bool:
        """Whether the first is better by more than a standard error."""
        return self.mean > self.error


def difference(a: Sequence[float], b: Sequence[float]) -> Difference:
    """Return the mean of a - b over splits with its standard error; two splits at least."""
    each = 100 * (np.array(a) - np.array(b))
    return Difference(float(each.mean()), float(each.std(ddof=1) / len(each) ** 0.5))


def order_check(paper: Mapping[str, str], ours: Mapping[str, float], where: str) -> Check:
    """Return whether our figures have the order of the paper's.

    Parameters
    ----------
    paper : mapping of str to str
        Figures of the paper in percent; empty where it has none.
    ours : mapping of str to float
        Our accuracies.
    where : str
        Which figures these are.
    """
    n_kept, n_pairs = pairs_kept(paper, ours)
    ranking = ", ".join(
        f"{name} {100 * ours[name]:.1f}" for name in sorted(ours, key=lambda n: -ours[n])
    )
    return Check(
        f"{where}: the rows have the paper's order",
        n_kept == n_pairs,
        f"{n_kept} of {n_pairs} pairs of rows do: {ranking}",
    )


def pairs_kept(paper: Mapping[str, str], ours: Mapping[str, float]) -> tuple[int, int]:
    """Return how many pairs of rows stand as in the paper, and how many there are; see `order_check`."""
    figures = {name: float(figure) for name, figure in paper.items() if figure and name in ours}
    pairs = [(a, b) for a, b in combinations(figures, 2) if figures[a] != figures[b]]
    return sum((figures[a] > figures[b]) == (ours[a] > ours[b]) for a, b in pairs), len(pairs)


def in_white(ours: Mapping[str, float]) -> dict[str, float]:
    """Return our accuracies with those of white kernel space for kRICA and d-kRICA, where there are any."""
    white = {name.split(",")[0]: ours[name] for name in WHITE if name in ours}
    return {name: white.get(name, value) for name, value in ours.items() if name not in WHITE}


def figures_check(paper: Mapping[str, str], ours: Mapping[str, float], where: str) -> Check:
    """Return whether all of the paper's figures are reached, with both figures of those that are not.

    Parameters
    ----------
    paper, ours, where
        As in `order_check`; ``where`` says how the setting differs from the paper's.
    """
    printed = {name: figure for name, figure in paper.items() if figure and name in ours}
    # As they are printed: to a tenth.
    missed = {n: f for n, f in printed.items() if round(100 * ours[n], 1) < float(f)}
    reached = ", ".join(name for name in printed if name not in missed) or "none"
    names = ", ".join(f"{name} ({100 * ours[name]:.1f} of {f})" for name, f in missed.items())
    found = f"reached by {reached}" + (f"; missed by {names}" if missed else "")
    return Check(f"{where}: every figure of the paper is reached", not missed, found)


def steps_in_words(settings: Mapping[str, Setting]) -> str:
    """Return the largest numbers of steps, and where they differ the methods that take so many."""
    methods: dict[int, list[str]] = {}
    for name, setting in settings.items():
        if name not in STEPLESS:
            methods.setdefault(setting.max_iter, []).append(name)
    if len(methods) == 1:
        return str(*methods)
    return ", ".join(f"{n} ({', '.join(names)})" for n, names in methods.items())


def codes_note() -> str:
    """Return what the words of a table of methods mean, and how the paper's settings were taken."""
    settings = {name: candidates(name, Setting(), quick=False)[0] for name in NAMES}
    others = "Where log cosh is named, it is of every code alone; that of KSR is L1."
    return f"{CODES_NOTE.format(steps=steps_in_words(settings))} {PENALTY_NOTE} {others}"


def method_checks(
    paper: Mapping[str, str], found: Mapping[str, Any], several: str
) -> tuple[Check, ...]:
    """Return whether the order and the figures of a table of methods hold, column by column.

    Parameters
    ----------
    paper : mapping of str to str
        As in `order_check`.
    found : mapping
        What was found of every method: with the paper's settings, by validation, with several features.
    several : str
        How the features of the last column differ from the paper's.
    """
    columns = {
        "paper": "With the paper's settings",
        "best": "With weights, starts, steps and codes by validation",
        "several": f"With these and {several}",
    }
    checks: list[Check] = []
    for key, where in columns.items():
        ours = {n: found[n][key]["accuracy"] for n in paper if key in found[n]}
        checks += column_checks(paper, ours, where)
    return tuple(checks)


def column_checks(
    paper: Mapping[str, str], ours: Mapping[str, float], where: str
) -> tuple[Check, ...]:
    """Return whether the figures and the order of a column hold, as they are and in white kernel space."""
    checks = [figures_check(paper, ours, where), order_check(paper, ours, where)]
    if any(name in ours for name in WHITE):
        white = f"{where}, kRICA and d-kRICA in white kernel space"
        checks += [figures_check(paper, in_white(ours), white)]
        checks += [order_check(paper, in_white(ours), white)]
    return tuple(checks)
