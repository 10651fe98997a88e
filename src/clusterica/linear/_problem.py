"""The problem of a linear classifier: ``min 0.5 |w|² + C sum_i s_i r_i²`` for every class, over w and b.

``r = 1 - t (z w + b)`` for targets t = ±1, cut off at 0 for the hinge. The shares s of the rows add up to
1, so that C here is scikit-learn's C times the total weight of the rows. The features ``z = (x - mean) /
scale`` are standardised but never stored: a classifier ``z Wᵀ + b`` is applied to the rows as ``x Aᵀ + c``,
with ``A = W / scale`` and ``c = b - A mean``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from clusterica.arrays import (
    Array,
    Rows,
    map_reduce,
    map_rows,
    namespace_of,
    pieces,
    to_host,
)
from clusterica.ops import linalg
from clusterica.ops.margin import (
    feature_sums,
    products_with,
    squared_losses,
    weighted_rows,
    wide_feature_sums,
)
from clusterica.optim import Progress

HostArray = np.ndarray[Any, Any]


class Standard(NamedTuple):
    """Mean and scale of the features in float64, where the rows are, shape (n_features,).

    ``about`` is a point, in the working dtype, to subtract from every row before products are computed; None
    where the mean is near enough to zero to be corrected afterwards. ``offset`` is the mean minus that point.
    ``shrink`` holds factors that scale down features much larger than the others, 1 for nearly all features;
    None where all are 1.
    """

    mean: Array
    scale: Array
    about: Array | None
    offset: Array
    shrink: Array | None = None


@dataclass(frozen=True)
class Problem:
    """The rows with the codes of their classes, the target classes, and the loss: hinge or least squares."""

    rows: Rows
    codes: HostArray
    targets: HostArray
    standard: Standard
    hinge: bool
    intercept: bool


ALL = -1  # the part of a task that is no fold


class Task(NamedTuple):
    """One solve of a problem: C, the shares of the rows in float64, and when to stop.

    Tasks of one ``part``, a fold or `ALL`, have the same shares: solvers may learn from one for the next.
    """

    C: float
    shares: HostArray
    tol: float
    max_iter: int
    part: int = ALL

    @property
    def floor(self) -> float:
        """An objective that counts as zero; that of w = 0 and b = 0 is C.

        A class whose rows all have weight 0 has a minimum of 0, relative to which no gap is small.
        """
        return 1e-6 * self.C * float(self.shares.sum())


class Solution(NamedTuple):
    """Result of a solve; ``state`` belongs to the solver, which can start the next solve from it.

    ``gap`` is an estimate of how much each target's objective can still fall, relative to the objective.
    """

    state: Any
    objective: HostArray
    gap: HostArray
    n_iter: int
    converged: bool
    stopped: bool = False


class Solver(ABC):
    """Solves a problem for different C and shares, one after the other.

    ``search_tol`` is the gap at which held-out scores no longer change; ``strengths_at_once`` is how many
    values of C a search should pass together; ``n_passes`` counts passes over all rows.
    """

    search_tol: ClassVar[float]
    strengths_at_once: int = 1
    n_passes: int

    @abstractmethod
    def solve(self, task: Task, start: Solution | None, progress: Progress | None) -> Solution:
        """Minimise, from an earlier solution if there is one."""

    def solve_all(
        self,
        tasks: list[Task],
        starts: list[Solution | None],
        progress: Progress,
        *,
        show_iterations: bool,
    ) -> list[Solution]:
        """Solve tasks that differ in C and shares, one after the other, each a subtask of the progress.

        A search shows no iterations: every task would get a progress bar, and fill the screen. A task
        without a start begins from the solution before it. No task begins after a callback has asked to stop.
        """
        solutions: list[Solution] = []
        for task, start in zip(tasks, starts, strict=True):
            part = progress.subtask("strength", task.max_iter if show_iterations else 0)
            begin = solutions[-1] if start is None and solutions else start
            solution = self.solve(task, begin, part)
            stopped = part.end() or solution.stopped
            solutions.append(solution._replace(stopped=stopped))
            if stopped:
                break
        return solutions

    @abstractmethod
    def classifiers(self, solution: Solution) -> tuple[Array, Array]:
        """Return weights of standardised features, (n_targets, n_features), and intercepts."""

    @abstractmethod
    def decisions(self, solution: Solution) -> HostArray:
        """Return ``z Wᵀ + b`` of every row, shape (n_rows, n_targets), on the host."""


def learn_standard(rows: Rows, weights: HostArray, *, centre: bool, scale: bool) -> Standard:
    """Return mean and scale of the features: 0 without ``centre``, and 1 without ``scale``."""
    d = rows.n_features
    mean, deviation = np.zeros(d), np.ones(d)
    if centre or scale:
        mean, deviation = _mean_and_deviation(rows, weights)
    # A constant feature is zero after centring; an infinite scale makes it exactly zero.
    scales = np.where(deviation > 0, deviation if scale else 1.0, np.inf if centre else 1.0)
    if not centre:
        mean = np.zeros(d)
    # How many standard deviations the mean is away from zero.
    far = np.where(deviation > 0, np.abs(mean), 0.0) / np.where(deviation > 0, deviation, 1.0)
    # Products lose digits in proportion to the distance of the mean: about 5 of them must remain, which in
    # float32 allows a mean of 34 deviations.
    about = None
    if float(far.max()) > 4e-6 / float(np.finfo(rows.dtype).eps):
        about = mean.astype(rows.dtype)
    offset = mean if about is None else mean - about
    shrink = None
    if not (centre and scale):
        # A feature a thousand times larger than the median leaves one digit to the others in a float32 Gram
        # matrix. The first hundred rows show the size of a feature well enough.
        sizes = np.abs((rows.glance(100).astype(np.float64) - mean) / scales).max(axis=0)
        usual = float(np.median(sizes[sizes > 0])) if sizes.any() else 1.0
        large = sizes > 1e3 * usual
        if large.any():
            shrink = np.where(large, usual / np.where(large, sizes, 1.0), 1.0)
    place = rows.place.put
    about, shrink = (None if values is None else place(values) for values in (about, shrink))
    return Standard(place(mean), place(scales), about, place(offset), shrink)


def _mean_and_deviation(rows: Rows, weights: HostArray) -> tuple[HostArray, HostArray]:
    # Sums about a point near the mean: the variance of rows far from zero keeps its digits.
    about = rows.glance().mean(axis=0, dtype=np.float64).astype(rows.dtype)

    aligned = (weights.astype(rows.dtype),)
    sums = map_reduce(feature_sums, rows, about, aligned=aligned)
    total, first, second = map(to_host, sums)
    limits = np.finfo(rows.dtype)
    if not np.isfinite(second).all():
        j = int(np.flatnonzero(~np.isfinite(second))[0])
        raise ValueError(
            f"the squares of feature {j} are too large for {rows.dtype}; scale the features down, or pass "
            "float64"
        )
    if rows.dtype != np.float64 and (second < total * limits.tiny / limits.eps).any():
        # Features that are constant, or so small that their squares underflow.
        sums = map_reduce(wide_feature_sums, rows, about, aligned=aligned)
        total, first, second = map(to_host, sums)
    shift = first / total
    mean = about + shift
    variance = np.clip(second / total - shift**2, 0, None)
    # Two kinds of features count as constant: those whose variance is rounding error, and those so small that
    # weights divided by their deviation would overflow.
    noise = np.maximum(8 * limits.eps * np.abs(mean), limits.tiny / limits.eps**0.5)
    return mean, np.where(variance > noise**2, variance, 0.0) ** 0.5


def affine(standard: Standard, W: Array, b: Array, dtype: np.dtype[Any]) -> tuple[Array, Array]:
    """Return A and c of ``(x - about) Aᵀ + c = z Wᵀ + b``, where the rows are, in the working dtype."""
    xp = namespace_of(W)
    A = W / standard.scale
    c = b - A @ standard.offset
    working = getattr(xp, dtype.name)
    return xp.astype(A, working), xp.astype(c, working)


def original(
    standard: Standard, W: Array, b: Array, dtype: np.dtype[Any]
) -> tuple[HostArray, HostArray]:
    """Return coef_ and intercept_ for the features as they were given, on the host, rounded to dtype."""
    A = to_host(W / standard.scale).astype(dtype)
    # Computed from the rounded weights: it corrects their rounding errors, times the mean.
    return A, (to_host(b) - A.astype(np.float64) @ to_host(standard.mean)).astype(dtype)


def standardised_rows(
    rows: Rows, standard: Standard, indices: HostArray, dtype: np.dtype[Any]
) -> Array:
    """Return the rows at sorted indices, standardised, where the rows are."""
    if not rows.on_device:
        X = rows.place.put(rows.take(indices))
    else:  # on a device, without a detour through the host
        parts = []
        for start, stop, load in rows.blocks(rows.n_rows):
            low, high = np.searchsorted(indices, (start, stop))
            block = load()
            picked = rows.place.put(indices[low:high] - start)
            parts.append(namespace_of(block).take(block, picked, axis=0))
        X = namespace_of(parts[0]).concat(parts, axis=0)
    xp = namespace_of(X)
    working = getattr(xp, dtype.name)
    X = xp.astype(X, working, copy=False)
    mean, scale = xp.astype(standard.mean, working), xp.astype(standard.scale, working)
    if isinstance(X, np.ndarray):
        X -= mean  # in place: X is a copy already, and may be large
        X /= scale
        return X
    return (X - mean) / scale


def row_products(problem: Problem, place: Callable[[Any], Array]) -> tuple[Array, int]:
    """Return ``K = Z Zᵀ`` in float64, and the number of passes over the rows.

    Rows in memory are read once, some features at a time; of others each pass gives 512 columns of K.
    """
    rows, n = problem.rows, problem.rows.n_rows
    mean, scale = problem.standard.mean, problem.standard.scale
    in_memory = rows.place.is_numpy and not (rows.streamed or rows.sparse)
    blocks = list(rows.blocks(n)) if in_memory else []
    if len(blocks) == 1:  # Dask has several
        X = blocks[0][2]()
        # At most 2**34 products at a time, so that Ctrl-C is answered.
        parts = pieces(rows.n_features, max(16, min(2048, 2**34 // n**2)))
        return place(linalg.gram_of_columns(((X[:, p] - mean[p]) / scale[p] for p in parts), n)), 1
    K = place(np.empty((n, n)))
    starts = range(0, n, 512)  # so many standardised rows are kept in float64
    for start in starts:
        indices = np.arange(start, min(start + 512, n))
        Z = standardised_rows(rows, problem.standard, indices, np.dtype(np.float64))
        K[:, start : start + len(indices)] = place(
            rows.in_model(map_rows(products_with, rows, mean, scale, Z))
        )
    return K, len(starts)


def sums_of_rows(problem: Problem, a: HostArray) -> Array:
    """Return ``sum_i a_i z_i`` for coefficients of shape (n_rows, n_targets), in float64, from one pass."""
    rows, standard = problem.rows, problem.standard
    a = np.ascontiguousarray(a, dtype=np.float64)
    (sums,) = map_reduce(weighted_rows, rows, standard.mean, aligned=(a,))
    return rows.place.put(sums) / standard.scale


def objectives(problem: Problem, task: Task, A: HostArray, c: HostArray) -> Array:
    """Return the objectives of ``x Aᵀ + c`` on the rows as they were given, in float64, from one pass."""
    rows, scale = problem.rows, to_host(problem.standard.scale)
    A, c = A.astype(np.float64), c.astype(np.float64)
    (loss,) = map_reduce(
        partial(squared_losses, hinge=problem.hinge),
        rows,
        A,
        c,
        problem.targets,
        aligned=(problem.codes, task.shares),
    )
    W = A * np.where(np.isfinite(scale), scale, 0.0)  # constant features have an infinite scale
    return (W * W).sum(axis=1) / 2 + task.C * to_host(loss)
