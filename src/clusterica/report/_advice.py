"""Advice from the numbers of a summary: a sentence for each thing that looks wrong, with what to change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from clusterica.cluster import near_empty

# Mean variance after whitening, of λ / (λ + eps). Patches of photographs and digits have .39 to .78 at the
# eps of Coates & Ng, .15 to .38 at ten times that, and .04 to .08 at a hundred times.
LEAST_WHITE = 0.1
# Ratio of the largest to the smallest variance that whitening makes equal. Grey patches of photographs have
# 80 to 1,400 without any eps; colour patches 500 at eps=0.1, and 44,000 without it, where filters are noise.
MOST_AMPLIFIED = 1e4
# Eigenvalues below this share of the largest are rounding errors, such as that of the mean of a patch.
ROUNDING = 1e-6
# Patches for each filter, and share of near-empty clusters: those of the warnings of ImageFeatures.
LEAST_PATCHES, MOST_EMPTY = 50, 0.1
# Excess kurtosis of a source that K-means can find: 0 is Gaussian, 1.2 the logistic law, 3 the Laplace law.
# That of 20,000 Gaussian values has a standard deviation of .035. Filters of 3 x 3 and 4 x 4 pixels of
# digits, which classify well, have medians of 0.2 and 0.4.
SPARSE = 0.1
# Improvement of the objective by the last iteration, beside all improvement so far.
STILL_IMPROVING = 0.02
# Counts of the largest and the smallest class.
MOST_UNBALANCED = 5


def advise(summary: dict[str, Any]) -> list[str]:
    """Return advice on a model: a sentence for each thing that looks wrong.

    Parameters
    ----------
    summary : dict
        What :func:`summarize` returned.

    Returns
    -------
    list of str
        Empty if nothing looks wrong.

    Examples
    --------
    >>> from clusterica.report import advise, summarize
    >>> from clusterica.preprocessing import Whitener
    >>> advise(summarize(Whitener(eps=0.0).fit([[0.0, 1.0], [2.0, 0.0], [1.0, 3.0]])))
    []
    """
    found = [*_on_validation(summary.get("validation")), *_on_classes(summary["data"])]
    for bank in summary["banks"]:
        where = f"{bank['name']}: " if bank["name"] else ""
        found += [where + text for text in _on_bank(bank)]
    if "rows" in summary:
        found += _on_rows(summary["rows"])
    # A capital letter after no name of a network, and none twice.
    return list(dict.fromkeys(text[0].upper() + text[1:] for text in found))


def _on_validation(validation: dict[str, Any] | None) -> Iterator[str]:
    if validation is None:
        return
    counts = np.asarray(validation["confusion"]).sum(axis=1)
    n, chance = int(counts.sum()), float(counts.max() / counts.sum())
    # Two standard deviations of the accuracy of always naming the most frequent class.
    if validation["accuracy"] <= chance + 2 * np.sqrt(chance * (1 - chance) / n):
        yield (
            f"an accuracy of {100 * validation['accuracy']:.1f} % is no better than naming the most frequent "
            f"class ({100 * chance:.1f} %): check that the labels belong to the images, and give more."
        )


def _on_classes(data: dict[str, Any]) -> Iterator[str]:
    if len(data["counts"]) > 1 and max(data["counts"]) > MOST_UNBALANCED * min(data["counts"]):
        most, least = (data["classes"][data["counts"].index(f(data["counts"]))] for f in (max, min))
        yield (
            f"classes are unbalanced: {max(data['counts']):,} of {most} and {min(data['counts']):,} of "
            f"{least}; use class_weight='balanced', or give more of the rare ones."
        )


def _on_bank(bank: dict[str, Any]) -> Iterator[str]:
    yield from _on_spectrum(bank["spectrum"])
    n, k = bank["n_learned_from"], bank["n_filters"]
    if n is not None and k and n < LEAST_PATCHES * k:
        yield (
            f"{n:,} patches are few for {k:,} filters: raise n_patches to {LEAST_PATCHES * k:,} or more, "
            "give more images, or lower n_filters."
        )
    if "empty" in bank and bank["empty"].mean() > MOST_EMPTY:
        yield (
            f"{int(bank['empty'].sum()):,} of {k:,} filters are near-empty: lower n_filters, use smaller "
            "patches or more of them, or change the eps of the whitening."
        )
    if "kurtosis" in bank:
        yield from _on_kurtosis(bank["kurtosis"], "filters")
    yield from _on_history(bank["history"])


def _on_rows(rows: dict[str, Any]) -> Iterator[str]:
    yield from _on_spectrum(rows["spectrum"])
    if rows["sizes"] is not None and near_empty(rows["sizes"]).mean() > MOST_EMPTY:
        few = near_empty(rows["sizes"])
        yield f"{few.sum()} of {len(few)} clusters are near-empty: lower the number of clusters."
    if rows["kurtosis"] is not None:
        yield from _on_kurtosis(rows["kurtosis"], "sources")
    yield from _on_history(rows["history"])


def _on_spectrum(spectrum: dict[str, Any] | None) -> Iterator[str]:
    if spectrum is None or not len(spectrum["eigenvalues"]) or spectrum["eigenvalues"].max() <= 0:
        return
    eps, values = spectrum["eps"], np.asarray(spectrum["eigenvalues"])
    values = values[values > ROUNDING * values.max()]
    white = float(np.mean(values / (values + eps)))
    if white < LEAST_WHITE:
        # At a tenth of the median, half of the directions keep ten elevenths of unit variance and more.
        yield (
            f"the eps of the whitening, {eps:.3g}, is large, and leaves {100 * white:.1f} % of unit variance "
            f"on average: lower it to about {np.median(values) / 10:.1g}."
        )
    elif values.max() > MOST_AMPLIFIED * (values.min() + eps):
        yield (
            f"the eps of the whitening, {eps:.3g}, is small, and directions with almost no variance are "
            f"amplified {np.sqrt(values.max() / (values.min() + eps)):,.0f} times as much as others: raise "
            f"it to about {values.mean() / 100:.1g}, or keep fewer components."
        )


def _on_kurtosis(kurtosis: np.ndarray, what: str) -> Iterator[str]:
    known = kurtosis[np.isfinite(kurtosis)]
    n_flat = int((known < SPARSE).sum())
    # Some filters of patches are near-Gaussian, those of the mean; of sources all should be sparse.
    if len(known) and n_flat > (0.5 * len(known) if what == "filters" else 0):
        yield (
            f"{n_flat:,} of {len(known):,} {what} are not sparse (kurtosis below {SPARSE:g}), and K-means "
            "finds sparse directions only: check that the data is whitened, or ask for fewer."
        )


def _on_history(history: dict[str, Any] | None) -> Iterator[str]:
    if history is None:
        return
    values = np.asarray(history["objective"])
    total, last = abs(values[-1] - values[0]), abs(values[-1] - values[-2])
    at_the_end = history["max_iter"] is not None and len(values) > history["max_iter"]
    if at_the_end and total > 0 and last > STILL_IMPROVING * total:
        yield (
            f"{history['learner']} has not converged: its last iteration made {100 * last / total:.0f} % of "
            f"all improvement; raise max_iter above {history['max_iter']}."
        )
