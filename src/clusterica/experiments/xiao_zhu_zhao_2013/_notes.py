"""What the tables of Xiao, Zhu & Zhao are checked for: their order, their figures, how alike patches are."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from clusterica.arrays import to_host
from clusterica.experiments._recognition import N_INNER
from clusterica.experiments._result import Check
from clusterica.experiments.xiao_zhu_zhao_2013._methods import (
    NAMES,
    STEPLESS,
    WHITE,
    Scored,
    Setting,
    candidates,
    share_in_words,
)
from clusterica.images import sample_patches
from clusterica.kernels import make_kernel
from clusterica.ops.linalg import unit_rows

PENALTY_NOTE = (
    "The penalty pools codes, as in the paper, which does not tell over which: here over 3 x 3 "
    "neighbours."
)
CODES_NOTE = (
    "Own codes are k(w, x) of kRICA and d-kRICA, {learned}W x of the others, each sign "
    "a feature; threshold t: what the responses to the basis exceed t by, of both signs, whatever learned "
    "it. Dead: basis vectors with k(w, x) < 0.01 for all patches. The paper does not tell the number of "
    "steps; with its weights it is {steps} at most."
)
WHITE_NOTE = (
    "White: RICA and d-RICA with free lengths after kernel whitening over landmarks, section 4.1 of the "
    "paper, on all dimensions with a thousandth of the largest variance; dead are those of length |w| < 0.01."
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
        # Where one split alone differs the two are equal, up to rounding.
        return self.mean > self.error * (1 + 1e-9)


def difference(a: Sequence[float], b: Sequence[float]) -> Difference:
    """Return the mean of a - b over splits with its standard error; two splits at least."""
    each = 100 * (np.array(a) - np.array(b))
    return Difference(float(each.mean()), float(each.std(ddof=1) / len(each) ** 0.5))


def order_check(paper: Mapping[str, str], ours: Mapping[str, Scored], where: str) -> Check:
    """Return whether our figures have the order of the paper's.

    Parameters
    ----------
    paper : mapping of str to str
        Figures of the paper in percent; empty where it has none.
    ours : mapping of str to Scored
        Our accuracies.
    where : str
        Which figures these are.
    """
    figures = {name: float(figure) for name, figure in paper.items() if figure and name in ours}
    pairs = [(a, b) for a, b in combinations(figures, 2) if figures[a] != figures[b]]
    n_pairs = len(pairs)
    n_kept = sum(
        (figures[a] > figures[b]) == (ours[a].accuracy > ours[b].accuracy) for a, b in pairs
    )
    ranked = sorted(ours.items(), key=lambda item: -item[1].accuracy)
    ranking = ", ".join(f"{name} {score}" for name, score in ranked)
    return Check(
        f"{where}: the rows have the paper's order",
        n_kept == n_pairs,
        f"{n_kept} of {n_pairs} pairs of rows do: {ranking}",
    )


def in_white(ours: Mapping[str, Scored]) -> dict[str, Scored]:
    """Return our accuracies with those of white kernel space for kRICA and d-kRICA, where there are any."""
    white = {name.split(",")[0]: ours[name] for name in WHITE if name in ours}
    return {name: white.get(name, value) for name, value in ours.items() if name not in WHITE}


def figures_check(paper: Mapping[str, str], ours: Mapping[str, Scored], where: str) -> Check:
    """Return whether all of the paper's figures are reached, with both figures of those that are not.

    Parameters
    ----------
    paper, ours, where
        As in `order_check`; ``where`` says how the setting differs from the paper's.
    """
    printed = {name: figure for name, figure in paper.items() if figure and name in ours}
    # As they are printed: to a tenth.
    missed = {n: f for n, f in printed.items() if round(100 * ours[n].accuracy, 1) < float(f)}
    reached = ", ".join(n + _dead(ours[n], " ({})") for n in printed if n not in missed) or "none"
    names = ", ".join(
        f"{n} ({100 * ours[n].accuracy:.1f} of {f}{_dead(ours[n], ', {}')})"
        for n, f in missed.items()
    )
    found = f"reached by {reached}" + (f"; missed by {names}" if missed else "")
    return Check(f"{where}: every figure of the paper is reached", not missed, found)


def _dead(score: Scored, words: str) -> str:
    """Return the share of dead basis vectors in words, where there are any."""
    return words.format(f"{share_in_words(score.dead)} dead") if score.dead else ""


def steps_in_words(settings: Mapping[str, Setting]) -> str:
    """Return the largest numbers of steps, and where they differ the methods that take so many."""
    methods: dict[int, list[str]] = {}
    for name, setting in settings.items():
        if name not in STEPLESS:
            methods.setdefault(setting.max_iter, []).append(name)
    if len(methods) == 1:
        return str(*methods)
    return ", ".join(f"{n} ({', '.join(names)})" for n, names in methods.items())


def codes_note(rows: Collection[str]) -> str:
    """Return what the words of a table of methods mean, and how many steps its rows take."""
    settings = {name: candidates(name, Setting(), quick=False)[0] for name in NAMES if name in rows}
    names = [name for name in ("KICA", "KSR") if name in rows]
    learned = f"the codes of {' and '.join(names)}, " if names else ""
    notes = [CODES_NOTE.format(steps=steps_in_words(settings), learned=learned)]
    if any(name in rows for name in WHITE):
        notes.append(WHITE_NOTE)
    l1 = "; that of KSR is L1" if "KSR" in rows else ""
    others = f"Where log cosh is named, it is of every code alone{l1}."
    return " ".join((*notes, PENALTY_NOTE, others))


def slow_words(rows: Collection[str]) -> str:
    """Return which methods of a table take longest by their own codes; empty if none of them was run."""
    names = [name for name in ("KICA", "KSR") if name in rows]
    if any(name in rows for name in WHITE):
        names.append("kRICA and d-kRICA in white kernel space")
    return " and ".join(names) if len(names) < 3 else f"{', '.join(names[:-1])}, and {names[-1]}"


def labels_note(n_scored: int = N_INNER) -> str:
    """Return what supervised methods see of the labels.

    ``n_scored`` is for how many of the parts of the training images validation learns filters anew.
    """
    some = "" if n_scored == N_INNER else f", for {n_scored} of {N_INNER} parts"
    return (
        "Supervised methods (DRICA, d-RICA, d-kRICA) learn filters with the labels of all images that the "
        "classifier is trained on. The cross-validation that chooses their settings and C learns filters "
        f"and classifier anew from all parts but one, and scores that one{some}. Nothing has seen the labels "
        "of the images that the table scores."
    )


def method_checks(
    paper: Mapping[str, str], found: Mapping[str, Any], several: str, differences: str
) -> tuple[Check, ...]:
    """Return whether the order and the figures of a table of methods hold, column by column.

    Parameters
    ----------
    paper : mapping of str to str
        As in `order_check`.
    found : mapping
        What was found of every method: with the paper's weights, by validation, with several features.
    several : str
        How the features of the last column differ from the paper's.
    differences : str
        What differs from the paper in all columns.
    """
    columns = {
        "paper": f"With the paper's λ, α and γ, but {differences}",
        "best": "With weights, starts, steps and codes by validation, and the same differences",
        "several": f"With these settings and {several}",
    }
    checks: list[Check] = []
    for key, where in columns.items():
        ours = {
            name: Scored(found[name][key]["accuracy"], found[name][key]["dead"])
            for name in paper
            if key in found.get(name, {})
        }
        checks += column_checks(paper, ours, where)
    return tuple(checks)


def column_checks(
    paper: Mapping[str, str], ours: Mapping[str, Scored], where: str, *, unequal: str = ""
) -> tuple[Check, ...]:
    """Return whether the figures and the order of a column hold, as they are and in white kernel space.

    ``unequal`` is a row that had more to learn from than the others, and is left out of their order.
    """
    columns = {where: dict(ours)}
    if any(name in ours for name in WHITE):
        columns[f"{where}, kRICA and d-kRICA in white kernel space"] = in_white(ours)
    checks: list[Check] = []
    for words, column in columns.items():
        equal = {name: score for name, score in column.items() if name != unequal}
        checks += [figures_check(paper, column, words), order_check(paper, equal, words)]
    return tuple(checks)
