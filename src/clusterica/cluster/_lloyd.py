"""Lloyd's algorithm under any rule: assign all rows, renew the centres, until both rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from clusterica.arrays import (
    Rows,
    map_reduce,
    map_rows_reduce,
    namespace_of,
    shuffled_batches,
    to_host,
)
from clusterica.arrays._namespace import Array
from clusterica.cluster._sample import draw_rows
from clusterica.ops.assign import fit_sums, lloyd_sums
from clusterica.ops.linalg import polar_factor, unit_rows
from clusterica.ops.moments import Energy, energy
from clusterica.ops.renew import Centers, center_counts, renew
from clusterica.ops.rules import LloydSums, Rule, n_labels
from clusterica.optim import LoopResult, LoopState, Progress, Step, iterate


class Final(NamedTuple):
    """The assignment of all rows to the final centres."""

    labels: Array | None
    counts: Array
    objective: float


@dataclass
class Lloyd:
    """Lloyd's algorithm on given rows.

    Parameters
    ----------
    rows, weights : Rows and ndarray of shape (n_rows,)
        The data.
    rule : Rule
        Geometry; see :mod:`clusterica.ops.rules`.
    rng : numpy.random.Generator
        For batches and for refilling empty clusters.
    shift : ndarray of shape (n_features,) or None
        Origin of the Euclidean rule; centres are given and returned without it.
    damping : float
        Mass of the old centre in a full step of a spherical rule.
    orthogonal : bool
        Keep unit centres orthogonal.
    refill : bool
        Put a random row in the place of a centre that received nothing.
    """

    rows: Rows
    weights: np.ndarray
    rule: Rule
    rng: np.random.Generator
    shift: np.ndarray | None = None
    damping: float = 0.0
    orthogonal: bool = False
    refill: bool = False

    def run(
        self,
        C: np.ndarray,
        *,
        max_iter: int,
        tol: float,
        batch_size: int | None = None,
        progress: Progress | None = None,
        fitted: Callable[[Centers], dict[str, Any]] | None = None,
    ) -> LoopResult:
        """Iterate from the centres C; an iteration is a pass over the data, in batches if asked."""
        step = self.step if batch_size is None else partial(self.batch_step, batch_size=batch_size)
        start = LoopState(0, self.start(C))
        return iterate(step, start, max_iter=max_iter, tol=tol, progress=progress, fitted=fitted)

    def start(self, C: Array) -> Centers:
        """Return centres with the mass that they have before any row is seen."""
        C = np.asarray(to_host(C), dtype=self.rows.dtype)
        C = self.rows.place(polar_factor(C) if self.orthogonal else C)
        mass, counts = self._first_mass(C.shape[0]), np.zeros(n_labels(C, self.rule))
        return Centers(C, self.rows.place(mass), self.rows.place(counts))

    def step(self, old: Centers) -> Step:
        """Renew the centres from all rows at once."""
        total = self.sums(self.rows, self.weights, old.C)
        first_mass = self.rows.place(self._first_mass(old.C.shape[0]))
        new = renew(
            total, old._replace(mass=first_mass), rule=self.rule, orthogonal=self.orthogonal
        )
        return self._finished_step(old, new, float(total.gain))

    def batch_step(self, old: Centers, *, batch_size: int) -> Step:
        """Renew the centres after every batch, over all rows once."""
        gain, new, seen = 0.0, old, 0
        for indices, batch in shuffled_batches(self.rows, batch_size, self.rng):
            total = self.sums(batch, self.weights[indices], new.C)
            total = LloydSums(*(self.rows.place(value) for value in total))
            new = renew(total, new, rule=self.rule, orthogonal=self.orthogonal)
            gain += float(total.gain)
            seen = seen + total.counts
        return self._finished_step(old, new._replace(counts=seen), gain)

    def sums(self, rows: Rows, weights: np.ndarray, C: Array) -> LloydSums:
        """Return the sums of one assignment of these rows."""
        fn = partial(_sums_of_block, rule=self.rule)
        return map_reduce(
            fn, rows, C, self.shift, aligned=(weights,), row_bytes=assign_bytes(rows, C)
        )

    def finish(self, C: Array) -> Final:
        """Assign all rows to the centres and measure how well they fit."""
        labels, total = map_rows_reduce(
            partial(fit_sums, rule=self.rule),
            self.rows,
            C,
            self.shift,
            aligned=(self.weights,),
            row_bytes=assign_bytes(self.rows, C),
        )
        objective = float(total.objective)
        return Final(labels, total.counts, objective / self._weight if self._is_mean else objective)

    def objective(self, gain: float) -> float:
        """Return the objective of a gain: what remains unexplained, or under AXIS the mean gain."""
        if self._is_mean:
            return gain / self._weight
        total = self._energy
        # Rounding may leave a tiny negative number where every row is a centre.
        return max(0.0, float(total.weight if self.rule is Rule.DIRECTION else total.energy) - gain)

    @property
    def _is_mean(self) -> bool:
        return self.rule is Rule.AXIS

    @cached_property
    def _weight(self) -> float:
        return float(self.weights.sum(dtype=np.float64))

    @cached_property
    def _energy(self) -> Energy:
        row_bytes = 2 * self.rows.n_features * self.rows.dtype.itemsize
        return map_reduce(
            energy, self.rows, self.shift, aligned=(self.weights,), row_bytes=row_bytes
        )

    def _first_mass(self, n_centers: int) -> np.ndarray:
        damped = self.rule in (Rule.GAIN_SHAPE, Rule.DIRECTION)
        return np.full(n_centers, self.damping if damped else 0.0)

    def _finished_step(self, old: Centers, new: Centers, gain: float) -> Step:
        xp = namespace_of(new.C)
        moved = float(xp.sum((new.C - old.C) ** 2))
        size = float(xp.sum(new.C**2))
        change = moved / size if size > 0 else moved
        empty = np.flatnonzero(to_host(center_counts(new)) == 0)
        if self.refill and len(empty):
            # A random row is no move of the algorithm, but there is something left to do.
            new, change = self._refilled(new, empty), max(change, np.finfo(float).tiny)
        return Step(new, self.objective(gain), change)

    def _refilled(self, centers: Centers, empty: np.ndarray) -> Centers:
        drawn, _ = draw_rows(self.rows, self.weights, len(empty), self.rng)
        drawn = drawn.toarray() if sp.issparse(drawn) else drawn
        C, mass = np.array(to_host(centers.C)), np.array(to_host(centers.mass))
        fresh = drawn if self.shift is None else drawn - self.shift
        empty = empty[: len(drawn)]
        C[empty] = unit_rows(fresh, fallback=C[empty]) if self.rule.unit_centers else fresh
        mass[empty] = self._first_mass(len(empty))
        return Centers(self.rows.place(C), self.rows.place(mass), centers.counts)


def assign_bytes(rows: Rows, C: Array) -> int:
    """Return the working memory per row of an assignment: tiles on the host, all scores elsewhere."""
    row = rows.row_nbytes
    return row if rows.on_host else 2 * row + 2 * C.shape[0] * rows.dtype.itemsize


def useful_shift(points: Array, rows: Rows) -> np.ndarray | None:
    """Return the mean of points among the rows if it exceeds their spread: taking it saves digits.

    Sparse rows are not shifted, so that they stay sparse.
    """
    if rows.sparse or sp.issparse(points):
        return None
    points = np.asarray(to_host(points), dtype=np.float64)
    mean = points.mean(axis=0)
    far = mean @ mean > ((points - mean) ** 2).sum(axis=1).mean()
    return mean.astype(rows.dtype) if far else None


def _sums_of_block(*args: Array, rule: Rule) -> LloydSums:
    return lloyd_sums(*args, rule=rule)[1]
