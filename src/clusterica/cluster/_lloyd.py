"""Lloyd's algorithm under any rule: assign all rows, renew the centres, until neither changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from clusterica.arrays import (
    Array,
    Replayed,
    Rows,
    device_of,
    map_reduce,
    map_rows_reduce,
    namespace_of,
    shuffled_batches,
    side_by_side,
    to_host,
    why_no_kernels,
)
from clusterica.cluster._init import SAMPLE, draw_rows, more_centers
from clusterica.ops.assign import center_sums, energy, fit_sums
from clusterica.ops.rules import Centers, LloydSums, Rule, center_counts
from clusterica.optim import LoopResult, LoopState, Progress, Step, Stored, iterate

# A centre of a mini-batch fit is dead if so many rows for each centre came and none of them for it:
# if it has received none since it was placed, or if it has. Measured as the inertia of 8 fits of 30
# clusters of very different sizes: from k-means++, 8910 with these and without any revival, 10654 with
# (30, 300), 15344 with (10, 1000), 20785 with (100, 100), 26122 by scikit-learn's rule. With all centres
# far from the rows at first, these end between 13255 and 18666, and scikit-learn at 85712.
_IDLE = 100, 1000


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
        Geometry and its settings; see :mod:`clusterica.ops.rules`.
    rng : numpy.random.Generator
        For batches and for refilling empty clusters.
    shift : ndarray of shape (n_features,) or None
        Origin of the Euclidean rule; centres are given and returned without it.
    refill : bool
        Move centres that received nothing to rows.
    """

    rows: Rows
    weights: np.ndarray
    rule: Rule
    rng: np.random.Generator
    shift: np.ndarray | None = None
    refill: bool = False
    idle: np.ndarray | None = None  # rows of batches since each centre received one

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
        start, self.idle = LoopState(0, self.start(C)), None
        # With tol=0 the last digits of a damped centre could alternate without end.
        tol = max(tol, (4 * float(np.finfo(self.rows.dtype).eps)) ** 2)

        # Steps draw random numbers: a loop that is resumed must go on with the same ones.
        def pack(centers: Centers) -> Any:
            return centers, self.rng.bit_generator.state, self.idle

        def unpack(packed: Any) -> Centers:
            centers, self.rng.bit_generator.state, self.idle = packed
            return Centers(*centers)

        loop = partial(
            iterate, step, start, max_iter=max_iter, tol=tol, stored=Stored(pack, unpack)
        )
        try:
            return loop(progress=progress, fitted=fitted)
        finally:
            # A recorded step keeps memory of the device, and itself: it refers to this object.
            self.__dict__.pop("_full_step", None)

    def start(self, C: Array) -> Centers:
        """Return centres with the mass that they have before any row is seen."""
        C = self.rule.start(np.asarray(to_host(C), dtype=self.rows.dtype))
        mass, counts = self._first_mass(len(C)), np.zeros(self.rule.n_labels(len(C)))
        return Centers(*map(self.rows.place.put, (C, mass, counts)))

    def step(self, old: Centers) -> Step:
        """Renew the centres from all rows at once."""
        *parts, numbers = self._full_step(self.rows.place.put(old.C))
        new = Centers(*parts)
        # One transfer from a device: each waits for all work there.
        moved, size, gain, fewest = to_host(numbers).tolist()
        if self.refill and fewest == 0:
            empty = np.flatnonzero(to_host(center_counts(new)) == 0)
            new, _ = self._refilled(new, empty, self.rows, self.weights)
            moved, size = to_host(side_by_side(*_move(old.C, new.C))).tolist()
        return self._finished_step(new, gain, moved, size)

    @cached_property
    def _full_step(self) -> Callable[[Array], tuple[Array, ...]]:
        """The numbers of a full step; on a device they are recorded and replayed where that is possible."""

        def full_step(C: Array) -> tuple[Array, ...]:
            total = self.sums(self.rows, self.weights, C)
            # A pass over all rows forgets what earlier passes have put into the centres; batches do not.
            xp, damping = namespace_of(C), self.rule.damping
            mass = xp.full((C.shape[0],), damping, dtype=xp.float64, device=device_of(C))
            new = self.rule.renew(total, Centers(C, mass, mass), massless=damping == 0)
            counts = center_counts(new)
            fewest = xp.min(counts)
            return *new, side_by_side(*_move(C, new.C), total.gain, fewest)

        rows = self.rows
        on_device = not (rows.place.on_host or rows.sent or rows.engine is not None)
        # Kernels give the same sums in one pass, without a look at the rows by the host.
        fused = on_device and rows.dtype == np.float32 and why_no_kernels(rows.place.like) is None
        one_weight = self.weights.strides == (0,)
        return Replayed(full_step) if fused and one_weight and self.rule.replayable else full_step

    def batch_step(self, old: Centers, *, batch_size: int) -> Step:
        """Renew the centres after every batch, over all rows once."""
        gain, new, seen = 0.0, old, 0
        for indices, batch in shuffled_batches(self.rows, batch_size, self.rng):
            weights = self.weights[indices]
            total = self.sums(batch, weights, new.C)
            total = LloydSums(*(self.rows.place.put(value) for value in total))
            new = self.rule.renew(total, new)
            new = self.revive(new, batch, weights, most_idle=self.rows.n_rows)
            gain += float(total.gain)
            seen = seen + total.counts  # of the whole pass, while `new` has those of a batch
        move = to_host(side_by_side(*_move(old.C, new.C))).tolist()
        return self._finished_step(new._replace(counts=seen), gain, *move)

    def sums(self, rows: Rows, weights: np.ndarray, C: Array) -> LloydSums:
        """Return the sums of one assignment of these rows."""
        fn = partial(center_sums, rule=self.rule)
        total: LloydSums = map_reduce(fn, rows, C, self._shift_there, aligned=(weights,))
        return total

    def finish(self, C: Array) -> Final:
        """Assign all rows to the centres and measure how well they fit."""
        labels, total = map_rows_reduce(
            partial(fit_sums, rule=self.rule),
            self.rows,
            C,
            self.shift,
            aligned=(self.weights,),
        )
        objective = float(total.objective)
        if self.rule.maximized:
            objective /= self._weight
        return Final(labels, total.counts, objective)

    def objective(self, gain: float) -> float:
        """Return the objective of a gain: the mean gain, or the inertia that it leaves."""
        if self.rule.maximized:
            return gain / self._weight
        # Rounding may leave a tiny negative number where every row is a centre.
        return max(0.0, self._whole - gain)

    @cached_property
    def _shift_there(self) -> Array | None:
        """The shift where the rows are worked on."""
        return None if self.shift is None else self.rows.place.put(self.shift)

    @cached_property
    def _weight(self) -> float:
        return float(self.weights.sum(dtype=np.float64))

    @cached_property
    def _whole(self) -> float:
        """The inertia without any gain: the energy of all rows, or of all rows at unit length."""
        total = map_reduce(energy, self.rows, self.shift, aligned=(self.weights,))
        return float(total.weight if self.rule.unit_rows else total.energy)

    def _first_mass(self, n_centers: int) -> np.ndarray:
        return np.full(n_centers, self.rule.damping)

    def _finished_step(self, new: Centers, gain: float, moved: float, size: float) -> Step:
        # Squared lengths, as `iterate` compares them with tol; relative, so that units do not matter.
        change = moved / size if size > 0 else moved  # all centres may be at the origin
        objective = self.objective(gain)
        # The inertia of sparse rows, which are not shifted, is a difference of squares; that of directions is
        # one of lengths. Where rounding hides what is left of it, rows may go to other centres in every step,
        # without end. A damped centre still moves there: it comes nearer to its rows in every step.
        differs = self.rows.sparse or self.rule.unit_rows
        if differs and not self.rule.maximized and self.rule.damping == 0:
            hidden = 4 * float(np.finfo(self.rows.dtype).eps) * self._whole
            change = change if objective > hidden else 0.0
        return Step(new, objective, change)

    def revive(
        self, new: Centers, batch: Rows, weights: np.ndarray, *, most_idle: float = np.inf
    ) -> Centers:
        """Move centres that have received nothing from many rows to rows of the current batch.

        `new` are the centres after the batch, with what they received from it as their counts.
        """
        if not self.refill:
            return new
        received = to_host(center_counts(new)) > 0
        before = np.zeros(len(received)) if self.idle is None else self.idle
        idle = np.where(received, 0, before + np.count_nonzero(weights))
        # Whether it received nothing since it was placed: its mass is the first, up to rounding.
        untouched = np.isclose(to_host(new.mass), self._first_mass(len(idle)), atol=0)
        limit = np.where(untouched, *_IDLE) * len(idle)
        dead = np.flatnonzero(idle >= np.minimum(limit, most_idle))
        new, moved = self._refilled(new, dead, batch, weights)
        idle[moved] = 0
        self.idle = idle
        return new

    def _refilled(
        self, centers: Centers, empty: np.ndarray, rows: Rows, weights: np.ndarray
    ) -> tuple[Centers, np.ndarray]:
        """Move empty centres to rows, chosen as k-means++ goes on after the other centres.

        Returns the centres, and which of them were moved: fewer than `empty` if too few rows are off
        their centre.

        Chosen by measurement, 10 fits each: data with 1 to 3 empty centres or nearly all of them
        empty, for 3 data sets under the Euclidean rule and 3 (with whitened digits and patches) under
        each other rule. With many empty centres k-means++ ends lowest: an inertia of 1398 on 30 blobs,
        where random rows end at 1990 and the farthest rows, as in scikit-learn, at 17249, since they
        lie together; for patches under the gain-shape rule 93443, 96724 and 93882, and Gaussian
        directions (Coates & Ng, 2012) 97063. With few of them the ways differ by less than the fits do,
        except for 1 to 3 empty centres on normal rows with one outlier in 100, where the farthest rows end
        5 % lower.
        """
        if not len(empty) or not weights.any():
            return centers, empty[:0]
        C, mass = np.array(to_host(centers.C)), np.array(to_host(centers.mass))
        # As many rows as an initial k-means++ would look at; losses of all rows would cost another pass.
        X, weights = draw_rows(rows, weights, max(SAMPLE, 3 * len(C)), self.rng)
        others = np.delete(C, empty, axis=0)
        fresh = more_centers(
            X, weights, others, len(empty), shift=self.shift, rule=self.rule, rng=self.rng
        )
        moved = empty[: len(fresh)]
        C[moved], mass[moved] = fresh, self._first_mass(len(moved))
        return Centers(self.rows.place.put(C), self.rows.place.put(mass), centers.counts), moved


def _move(old: Array, new: Array) -> tuple[Array, Array]:
    """Return the squared length of the move of all centres, and that of the new ones."""
    xp = namespace_of(new)
    return xp.sum((new - old) ** 2), xp.sum(new**2)


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
