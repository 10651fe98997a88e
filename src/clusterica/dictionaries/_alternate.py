"""Alternating dictionary learning: compute the codes of all rows, then update the atoms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from clusterica.arrays import Rows, check_not_masked, one_blas_thread, to_host
from clusterica.ops.dictionary import CodeSums, coding_error, renew_atoms
from clusterica.ops.linalg import row_energies, unit_rows
from clusterica.optim import Step

HostArray = np.ndarray[Any, Any]


class Coded(NamedTuple):
    """Atoms, the sums of the rows coded by them, their objective, and how many atoms were replaced so far."""

    D: HostArray
    sums: CodeSums
    objective: float
    n_replaced: int = 0


@dataclass(frozen=True)
class Alternation:
    """One step of the loop: update every atom in turn, then compute the codes of all rows again.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    code : callable
        ``code(D)`` returns the sums over all rows coded by D, on the host: one walk.
    candidates : ndarray of shape (n_candidates, n_features)
        Rows that may replace atoms.
    explain : callable
        ``explain(rows, D)`` returns what D makes of rows on the host, ``S D``.
    alpha : float, default=0.0
        Weight of the lengths of codes in the objective.
    most_alike : float, default=1.0
        Of two atoms with a larger cosine than that, of any sign, the one that fewer rows use is replaced.
    """

    n_rows: int
    code: Callable[[HostArray], CodeSums]
    candidates: HostArray
    explain: Callable[[HostArray, HostArray], HostArray]
    alpha: float = 0.0
    most_alike: float = 1.0

    def start(self, D: HostArray) -> Coded:
        """Return the first atoms with the codes of all rows."""
        return self._coded(D, 0)

    def step(self, old: Coded) -> Step:
        """Return the atoms after a step, with their objective."""
        with one_blas_thread():  # products of small matrices, many times over
            D = renew_atoms(old.D, old.sums.products, old.sums.moments, max_sweeps=20)
        bad = self._useless(D, old.sums.uses)
        change = float(((D - old.D)[~bad] ** 2).sum()) / len(D)
        places = np.flatnonzero(bad)[: len(self.candidates)]
        if places.size:
            D[places] = worst_rows(self.candidates, self.explain(self.candidates, D), len(places))
        new = self._coded(D, old.n_replaced + places.size)
        return Step(new, new.objective, change)

    def _coded(self, D: HostArray, n_replaced: int) -> Coded:
        sums = self.code(D)
        total = coding_error(sums, D) / 2 + self.alpha * float(sums.length)
        return Coded(D, sums, total / self.n_rows, n_replaced)

    def _useless(self, D: HostArray, uses: HostArray) -> HostArray:
        """Return which atoms no row uses, or are alike to one that more rows use."""
        bad: HostArray = uses == 0
        if self.most_alike < 1:
            alike = np.abs(D @ D.T) > self.most_alike
            # By uses; of equals the first stays.
            rank = np.argsort(np.argsort(-uses, kind="stable"))
            bad = bad | (alike & (rank[None, :] < rank[:, None])).any(axis=1)
        return bad


def draw_candidates(rows: Rows, n: int, rng: np.random.Generator) -> tuple[HostArray, HostArray]:
    """Return random rows that are not zero, float64 on the host, and their indices.

    Raises a ValueError where there are fewer than n rows, or all of those drawn are zero.
    """
    if n > rows.n_rows:
        raise ValueError(
            f"n_components={n} must be at most the number of rows, n_samples={rows.n_rows}; lower it, or "
            "give more rows"
        )
    # 2,000 at least: enough that the worst of them is a bad one.
    size = min(rows.n_rows, max(2000, 2 * n))
    indices = np.sort(rng.choice(rows.n_rows, size=size, replace=False))
    drawn = np.asarray(rows.take(indices), dtype=np.float64)
    order = rng.permutation(size)
    order = order[row_energies(drawn)[order] > 0]
    if len(order) == 0:
        raise ValueError(
            f"all of {size} rows drawn at random are zero, so that there is nothing to learn; check the "
            "data, or drop rows of zeros"
        )
    return drawn[order], indices[order]


def first_atoms(init: Any, candidates: HostArray, n: int, rng: np.random.Generator) -> HostArray:
    """Return n unit atoms to begin with: those of init, or candidates, and then random directions."""
    n_features = candidates.shape[1]
    if init is None:
        missing = max(0, n - len(candidates))
        D = np.concatenate([candidates[:n], rng.normal(size=(missing, n_features))], axis=0)
        return np.asarray(unit_rows(D))
    check_not_masked(init, "init")
    D = np.array(to_host(init), dtype=np.float64)
    if D.shape != (n, n_features):
        raise ValueError(
            f"init has shape {D.shape}; it must be (n_components, n_features) = {(n, n_features)}"
        )
    if not np.isfinite(D).all() or not (D != 0).any(axis=1).all():
        raise ValueError("init must be finite, and no row of it may be all zeros")
    return np.asarray(unit_rows(D))


def worst_rows(X: HostArray, explained: HostArray, n: int) -> HostArray:
    """Return the n rows of which most is left unexplained, in squared length, at unit length."""
    worst = np.argsort(-row_energies(X - explained), kind="stable")[:n]
    return np.asarray(unit_rows(X[worst]))


def sums_on_host(total: CodeSums) -> CodeSums:
    """Return sums over rows in float64 on the host."""
    return CodeSums(*(np.asarray(to_host(value), dtype=np.float64) for value in total))
