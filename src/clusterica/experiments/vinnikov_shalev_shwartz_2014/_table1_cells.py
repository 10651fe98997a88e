"""The cells of table 1 in Vinnikov & Shalev-Shwartz 2014: what it prints, what was measured, what holds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from clusterica.experiments._bands import band
from clusterica.experiments._checks import falls
from clusterica.experiments._result import Check

# (d, rows) to what the paper prints of K-means and of cosine K-means, one draw each.
PAPER = {
    (2, 10_000): (0.0306, 0.0131),
    (2, 100_000): (0.0063, 0.0033),
    (2, 5_000_000): (0.0023, 0.00058),
    (10, 10_000): (0.0908, 0.0495),
    (10, 100_000): (0.0190, 0.0148),
    (10, 5_000_000): (0.0032, 0.0024),
    (20, 10_000): (0.3849, 0.0749),
    (20, 100_000): (0.0367, 0.0238),
    (20, 5_000_000): (0.0044, 0.0033),
    (50, 10_000): (0.6124, 0.3748),
    (50, 100_000): (0.2466, 0.1722),
    (50, 5_000_000): (0.0079, 0.0046),
}
BAD = 0.2  # a larger distance may mean that an axis was missed
# Up to which ratio a median agrees with the paper's one draw. In the plane a distance is the largest of few
# errors, and single draws scatter by a factor of three around their median.
LIMIT, LIMIT_IN_THE_PLANE = 1.4, 1.9


class Learner(NamedTuple):
    """A learner, the column of the paper's table that it is compared with, and its looks."""

    label: str
    column: int
    color: str


LEARNERS = {
    "kmeans": Learner("K-means", 0, "#d62728"),
    "folded": Learner("K-means, folded", 0, "#e8871e"),
    "random": Learner("K-means, random start", 0, "#8c6d4f"),
    "cosine": Learner("cosine K-means", 1, "#2a7a2a"),
    "cosine_random": Learner("cosine K-means, random start", 1, "#9bc46a"),
    "orthogonal": Learner("orthogonal", 1, "#1f77b4"),
    "refined": Learner("refined", 1, "#7f4fa3"),
}
RANDOM = ("random", "cosine_random")  # learners that start at random directions
_OURS, _THEIRS = "from the orthogonal start (the paper starts at random)", "from a random start"
# The learners that the paper has, from our start and from its own.
PAPERS = {
    "kmeans": f"K-means {_OURS}",
    "random": f"K-means {_THEIRS}",
    "cosine": f"cosine K-means {_OURS}",
    "cosine_random": f"cosine K-means {_THEIRS}",
}


def in_words(cell: str) -> str:
    """Return ``d = 10, 10,000 rows`` for the name ``d10_m10000`` of a cell."""
    d, m = cell[1:].split("_m")
    return f"d = {d}, {int(m):,} rows"


class TableCell(NamedTuple):
    """Distances of every learner over the draws of one cell, and the seconds that each took."""

    d: int
    n_samples: int
    distances: dict[str, list[float]]
    seconds: dict[str, float]
    random_folded: list[float]
    """Distances of K-means from a random start, its centroids folded."""
    errors: list[float]
    """How far off K-means is in standard errors, for every draw."""
    doubts: list[dict[str, Any]]
    """A closer look at every distance that is large."""

    @classmethod
    def empty(cls, d: int, n_samples: int) -> TableCell:
        """Return a cell without draws."""
        distances: dict[str, list[float]] = {name: [] for name in LEARNERS}
        return cls(d, n_samples, distances, dict.fromkeys(LEARNERS, 0.0), [], [], [])

    @property
    def name(self) -> str:
        """Name of the cell in the values."""
        return f"d{self.d}_m{self.n_samples}"

    def ratio(self, learner: str) -> float:
        """Return the median over the paper's figure."""
        printed = PAPER[self.d, self.n_samples][LEARNERS[learner].column]
        return band(self.distances[learner]).median / printed


def checks(cells: Iterable[TableCell]) -> list[Check]:
    """Ask whether distances go to zero, agree with the paper's, and whether axes are missed.

    Parameters
    ----------
    cells : iterable of TableCell
        With at least one draw each, the numbers of rows of a dimension rising.

    Returns
    -------
    list of Check
    """
    cells = list(cells)
    by_dimension: dict[int, list[TableCell]] = {}
    for cell in cells:
        by_dimension.setdefault(cell.d, []).append(cell)
    found = []
    if any(len(row) > 1 for row in by_dimension.values()):
        found += [_convergence(by_dimension, name) for name in PAPERS]
    found += [_agreement(cells, name) for name in PAPERS]
    folded = {name: [cell.distances[name] for cell in cells] for name in PAPERS}
    folded["kmeans"] = [cell.distances["folded"] for cell in cells]  # cosine pairs are folded
    folded["random"] = [cell.random_folded for cell in cells]
    return found + [_no_bad_optimum(PAPERS[name], cells, part) for name, part in folded.items()]


def _convergence(by_dimension: dict[int, list[TableCell]], name: str) -> Check:
    """Ask whether the median falls with the number of rows, in every dimension."""
    medians = {
        d: [band(cell.distances[name]).median for cell in row] for d, row in by_dimension.items()
    }
    return Check(
        f"{PAPERS[name]}: distances tend to zero, the median falls with every step in the number of rows in "
        "every dimension",
        all(falls(row) for row in medians.values()),
        "; ".join(f"d = {d}: " + ", ".join(f"{m:.2g}" for m in row) for d, row in medians.items()),
    )


def _agreement(cells: list[TableCell], name: str) -> Check:
    """Ask whether medians are as small as the paper's figures, up to a factor."""
    limits = [LIMIT_IN_THE_PLANE if cell.d == 2 else LIMIT for cell in cells]
    within = [cell.ratio(name) <= limit for cell, limit in zip(cells, limits, strict=True)]
    worst = max(cells, key=lambda cell: cell.ratio(name))
    return Check(
        f"{PAPERS[name]}: the paper's distances are reached, medians are at most {LIMIT:g} times its one "
        f"draw ({LIMIT_IN_THE_PLANE:g} times at d = 2) in every cell",
        all(within),
        f"in {sum(within)} of {len(cells)} cells; the largest ratio is {worst.ratio(name):.2f} "
        f"({in_words(worst.name)})",
    )


def _no_bad_optimum(label: str, cells: list[TableCell], distances: list[list[float]]) -> Check:
    """Ask whether no draw of any cell ends far from the axes."""
    counts = {c.name: sum(d > BAD for d in part) for c, part in zip(cells, distances, strict=True)}
    n = sum(len(part) for part in distances)
    where = "; ".join(f"{count} with {in_words(name)}" for name, count in counts.items() if count)
    return Check(
        f"{label}: no draw ends in a bad optimum (folded distance above {BAD:g})",
        not where,
        f"{sum(counts.values())} of {n} draws" + (f" ({where})" if where else ""),
    )
