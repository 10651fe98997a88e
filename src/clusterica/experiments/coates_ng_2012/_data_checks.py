"""What Coates & Ng 2012 say of the amount of data, asked of curves of atoms found over examples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from clusterica.experiments._checks import rises
from clusterica.experiments._result import Check


class Point(NamedTuple):
    """What one learner found with so many examples, over all draws."""

    n_samples: int
    share: float
    cosine: float
    seconds: float


Curves = dict[int, dict[str, list[Point]]]  # by dimension and learner


def count(points: Sequence[Point], needed: float | None) -> str:
    """Write a number of examples to two digits, or that it is beyond those tried."""
    if needed is None:
        return f"over {points[-1].n_samples:,}"
    if needed <= points[0].n_samples:
        return f"under {points[0].n_samples:,}"
    return f"{float(f'{needed:.2g}'):,.0f}"


def first_half(points: Sequence[Point]) -> Point | None:
    """Return the first number of examples with which half is found, if there is one."""
    return next((point for point in points if point.share >= 0.5), None)


def in_seconds(point: Point | None) -> str:
    """Write the time that so many examples took."""
    return "—" if point is None else f"{point.seconds:.2g} s ({point.n_samples:,} examples)"


def data_checks(curves: Curves, needed: dict[str, dict[int, float | None]]) -> list[Check]:
    """Ask how many examples K-means and sparse coding need, and how long they take.

    Parameters
    ----------
    curves : dict
        Points by dimension and learner.
    needed : dict
        Examples needed by learner and dimension; None beyond those tried.

    Returns
    -------
    list of Check
    """
    kmeans, coding = (
        {d: np.inf if n is None else n for d, n in needed[name].items()}
        for name in ("kmeans", "sparse_coding")
    )
    numbers = "; ".join(
        f"d = {d}: {count(c['kmeans'], needed['kmeans'][d])} and "
        f"{count(c['sparse_coding'], needed['sparse_coding'][d])}"
        for d, c in curves.items()
    )
    largest = max(curves)
    seconds = {name: first_half(points) for name, points in curves[largest].items()}
    quick, slow = seconds["kmeans"], seconds["sparse_coding"]
    return [
        Check(
            "as the dimension increases K-means needs increasingly large quantities of data to find half of "
            "the atoms",
            rises(list(kmeans.values())),
            f"K-means and sparse coding: {numbers}",
        ),
        Check(
            "in every dimension K-means needs more data than sparse coding",
            all(kmeans[d] > coding[d] for d in curves),
            f"{min(kmeans[d] / coding[d] for d in curves):.2g} times at least",
        ),
        Check(
            f"sparse coding finds half of the atoms with 10,000 examples in {largest} dimensions",
            coding[largest] <= 10_000,
            count(curves[largest]["sparse_coding"], needed["sparse_coding"][largest]),
        ),
        Check(
            f"K-means is quicker all the same: it takes less time to find half of the atoms in {largest} "
            "dimensions",
            quick is not None and (slow is None or quick.seconds < slow.seconds),
            f"K-means {in_seconds(quick)}, sparse coding {in_seconds(slow)}",
        ),
    ]


def condition_checks(conditions: dict[str, dict[str, float]]) -> list[Check]:
    """Ask what K-means finds without whitening, from few examples and with heavier tails.

    Parameters
    ----------
    conditions : dict
        Share of the atoms found by condition and start.

    Returns
    -------
    list of Check
    """
    found = {name: case["kmeans"] for name, case in conditions.items()}
    return [
        Check(
            "K-means performs poorly where the data is not whitened: it finds less than half of what it "
            "finds in white data",
            found["not_whitened"] < found["whitened"] / 2,
            f"{found['not_whitened']:.0%} against {found['whitened']:.0%}",
        ),
        Check(
            "K-means performs poorly with insufficient data: it finds less than half of the atoms from 1,000 "
            "examples of 64 pixels",
            found["laplace"] < 0.5,
            f"{found['laplace']:.0%}",
        ),
        Check(
            "K-means seeks heavy-tailed directions: from as few examples it finds more of the atoms where "
            "their coefficients are sparser",
            found["sparser"] > found["laplace"],
            f"{found['sparser']:.0%} against {found['laplace']:.0%}",
        ),
    ]
