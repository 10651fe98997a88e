"""Checks that several experiments share: decreasing numbers, and accuracies of a paper that are reached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from clusterica.experiments._result import Check


def falls(numbers: Sequence[float]) -> bool:
    """Return whether each number is below the one before it.

    Parameters
    ----------
    numbers : sequence of float
        Numbers that should decrease.

    Returns
    -------
    bool
    """
    return all(after < before for before, after in pairwise(numbers))


def rises(numbers: Sequence[float]) -> bool:
    """Return whether each number is above the one before it.

    Parameters
    ----------
    numbers : sequence of float
        Numbers that should increase.

    Returns
    -------
    bool
    """
    return falls([-number for number in numbers])


def reaches(accuracy: float, figure: float) -> bool:
    """Return whether an accuracy, rounded as it is printed, is at least the paper's.

    Parameters
    ----------
    accuracy, figure : float
        Ours and the paper's in percent. Ours is rounded to one decimal, or to two where the paper has two.

    Returns
    -------
    bool
    """
    decimals = max(1, len(f"{figure:g}".partition(".")[2]))
    return round(accuracy, decimals) >= figure


def reached(claim: str, figure: float, ours: Mapping[str, float]) -> Check:
    """Check whether a row of a table reaches an accuracy of the paper, and name the first that does.

    Parameters
    ----------
    claim : str
        The method in the paper, such as ``one layer of 1600 maps``.
    figure : float
        The paper's accuracy in percent.
    ours : mapping of str to float
        Accuracies of this run in percent, by row; rows closest to the paper first.

    Returns
    -------
    Check
    """
    rows = [
        f"“{name}” {accuracy:.1f}" for name, accuracy in ours.items() if reaches(accuracy, figure)
    ]
    best = max(ours, key=lambda name: ours[name])
    found = f"first by {rows[0]}" if rows else f"the best row is “{best}” with {ours[best]:.1f}"
    return Check(f"{claim}: {figure:g} % is reached", bool(rows), found)
