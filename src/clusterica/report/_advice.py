"""Advice from the numbers of a summary: a sentence for each thing that looks wrong, with what to change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from clusterica.cluster import near_empty

# Least excess kurtosis of what is not Gaussian: that of 20,000 Gaussian values has a standard deviation of
# .035; a logistic distribution has 1.2 and a Laplace distribution 3. Filters of 3 x 3 and 4 x 4 pixels of
# digits, which classify well, have medians of 0.2 and 0.4.
SPARSE = 0.1


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
    found = []
    if "validation" in summary:
        accuracy = summary["validation"]["accuracy"]
        sizes = np.asarray(summary["validation"]["confusion"]).sum(axis=1)
        n, chance = int(sizes.sum()), float(sizes.max() / sizes.sum())
        # Two standard deviations of the accuracy of always naming the most frequent class.
        if accuracy <= chance + 2 * np.sqrt(chance * (1 - chance) / n):
            found.append(
                f"an accuracy of {100 * accuracy:.1f} % is no better than naming the most frequent class "
                f"({100 * chance:.1f} %): check that the labels belong to the images, and give more."
            )
    classes, counts = summary["data"]["classes"], summary["data"]["counts"]
    # Five times as many: below that, errors of the rare classes still count in the accuracy.
    if len(counts) > 1 and max(counts) > 5 * min(counts):
        most, least = (classes[counts.index(f(counts))] for f in (max, min))
        found.append(
            f"classes are unbalanced: {max(counts):,} of {most} and {min(counts):,} of {least}; use "
            "class_weight='balanced', or give more of the rare ones."
        )
    for bank in summary["banks"]:
        where = f"{bank['name']}: " if bank["name"] else ""
        found += [where + text for text in _on_filters(bank)]
    if "rows" in summary:
        found += _on_rows(summary["rows"])
    # A capital letter where no name of a network precedes; and no sentence twice.
    return list(dict.fromkeys(text[0].upper() + text[1:] for text in found))


def _on_filters(bank: dict[str, Any]) -> Iterator[str]:
    """Yield advice on a bank of filters of patches."""
    yield from _on_spectrum(bank["spectrum"])
    n, k = bank["n_learned_from"], bank["n_filters"]
    # 50 patches for each filter, and a tenth of near-empty clusters: as in the warnings of ImageFeatures.
    if n is not None and k and n < 50 * k:
        yield (
            f"{n:,} patches are few for {k:,} filters: raise n_patches to {50 * k:,} or more, "
            "give more images, or lower n_filters."
        )
    if "empty" in bank and bank["empty"].mean() > 0.1:
        yield (
            f"{int(bank['empty'].sum()):,} of {k:,} filters are near-empty: lower n_filters, use smaller "
            "patches or more of them, or change the eps of the whitening."
        )
    known = _finite(bank.get("kurtosis"))
    n_flat = int((known < SPARSE).sum())
    # Some filters of patches are near-Gaussian, those of the mean.
    if n_flat > 0.5 * len(known):
        yield (
            f"{n_flat:,} of {len(known):,} filters are not sparse (kurtosis below {SPARSE:g}), and "
            "K-means finds sparse directions only: check that the data is whitened, or ask for fewer."
        )
    yield from _on_history(bank["history"])


def _on_rows(rows: dict[str, Any]) -> Iterator[str]:
    """Yield advice on the clusters or sources of rows."""
    yield from _on_spectrum(rows["spectrum"])
    if rows["sizes"] is not None and near_empty(rows["sizes"]).mean() > 0.1:
        n_empty = int(near_empty(rows["sizes"]).sum())
        yield (
            f"{n_empty:,} of {len(rows['sizes']):,} clusters are near-empty: lower the number of clusters."
        )
    known = _finite(rows["kurtosis"])
    n_gaussian = int((np.abs(known) < SPARSE).sum())
    # Sources may have light tails, and one Gaussian source is what the others leave.
    if n_gaussian > 1:
        yield (
            f"{n_gaussian:,} of {len(known):,} sources look Gaussian (kurtosis within {SPARSE:g} of 0), "
            "and Gaussian sources can't be separated: ask for fewer, or give more rows."
        )
    yield from _on_history(rows["history"])


def _finite(kurtosis: np.ndarray | None) -> np.ndarray:
    """Return the kurtosis of what varies; constant responses have none."""
    return np.empty(0) if kurtosis is None else kurtosis[np.isfinite(kurtosis)]


def _on_history(history: dict[str, Any] | None) -> Iterator[str]:
    if history is None:
        return
    values, max_iter = np.asarray(history["objective"]), history["max_iter"]
    total, last = abs(values[-1] - values[0]), abs(values[-1] - values[-2])
    # A history has a value before every iteration, and mostly one more for the end.
    at_the_end = max_iter is not None and len(values) >= max_iter
    # Two per cent of all improvement in one iteration: more of them would still change the filters.
    if at_the_end and total > 0 and last > 0.02 * total:
        yield (
            f"{history['learner']} has not converged: its last iteration made {100 * last / total:.0f} % of "
            f"all improvement; raise max_iter above {max_iter}."
        )


def _on_spectrum(spectrum: dict[str, Any] | None) -> Iterator[str]:
    if spectrum is None or not len(spectrum["eigenvalues"]) or spectrum["eigenvalues"].max() <= 0:
        return
    eps, values = spectrum["eps"], np.asarray(spectrum["eigenvalues"])
    # Smaller ones are rounding errors, such as that of the mean of a patch.
    values = values[values > 1e-6 * values.max()]
    white = float(np.mean(values / (values + eps)))
    # Patches of photographs and digits have .39 to .78 at the eps of Coates & Ng, .15 to .38 at ten times
    # that, and .04 to .08 at a hundred times.
    if white < 0.1:
        # At a tenth of the median, half of the directions keep ten elevenths of unit variance and more.
        yield (
            f"the eps of the whitening, {eps:.3g}, is large, and leaves {100 * white:.1f} % of unit variance "
            f"on average: lower it to about {np.median(values) / 10:.1g}."
        )
    # Grey patches of photographs have a ratio of 80 to 1,400 without any eps; colour patches 500 at eps=0.1,
    # and 44,000 without it, where filters are noise.
    elif values.max() > 1e4 * (values.min() + eps):
        yield (
            f"the eps of the whitening, {eps:.3g}, is small, and directions with almost no variance are "
            f"amplified {np.sqrt(values.max() / (values.min() + eps)):,.0f} times as much as others: raise "
            f"it to about {values.mean() / 100:.1g}, or keep fewer components."
        )
