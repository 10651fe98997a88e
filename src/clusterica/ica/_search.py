"""The search of a pursuit: directions b of the white space with the least, or largest, oriented excess.

The white rows themselves are never made: with ``y = T (x - mean)``, ``b·y = (b T)·(x - mean)``. All starts
descend on the unit sphere at once, ``b <- b cos θ - sin θ g / |g|`` with g tangent to it. Every start has
its own step length: that of Barzilai and Borwein, which learns the curvature from the last move, halved
where the objective does not fall enough. One walk over the rows serves one trial of every start that still
moves, whether it is a new step or a shorter one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from clusterica.arrays import Rows, map_reduce, to_host
from clusterica.contrasts import Contrast
from clusterica.ops.linalg import unit_rows
from clusterica.ops.moments import spectrum, whiten_by_spectrum
from clusterica.ops.pursuit import OrientedContrast, PursuitSums, pursuit_sums
from clusterica.optim import LoopState, Progress, Step, iterate
from clusterica.preprocessing import Whitener

_TINY = 1e-100  # keeps a quotient finite


@dataclass(frozen=True)
class PursuitSpace:
    """Rows x, and the matrix T for which ``T (x - mean)`` has unit variance in every direction.

    All moments are divided by n, as the means of a contrast are.
    """

    rows: Rows
    mean: np.ndarray
    T: np.ndarray
    """Shape (n_dims, n_features)."""

    @property
    def n_dims(self) -> int:
        """Number of dimensions in which the rows vary."""
        return len(self.T)

    def within(self, Q: np.ndarray) -> PursuitSpace:
        """Return the part of the space that orthonormal directions Q span, shape (n, n_dims)."""
        return replace(self, T=Q @ self.T)

    def means(self, B: np.ndarray, contrast: Contrast) -> PursuitSums:
        """Return E G(p), E G'(p) (x - mean), E G''(p) of the projections on directions B: one walk."""
        rows = self.rows
        F, mean = (np.asarray(a, dtype=rows.dtype) for a in (B @ self.T, self.mean))
        total = map_reduce(partial(pursuit_sums, contrast=contrast), rows, F, mean)
        return PursuitSums(*(to_host(value) / rows.n_rows for value in total))


def pursuit_space(rows: Rows, whitener: Whitener) -> PursuitSpace:
    """Return the space that a whitener spans, made exactly white: eps > 0 leaves less than unit variance."""
    W, mean = (to_host(a).astype(np.float64) for a in (whitener.whitening_, whitener.mean_))
    if whitener.method == "pca" and whitener.eps_ == 0:
        W = W[: whitener.rank_]
    else:
        # From the sums in float64: in the dtype of the rows, small variances would be lost.
        covariance = whitener._moments.second / (rows.n_rows - 1)
        s = spectrum(W @ covariance @ W.T, noise=4 * W.shape[0] ** 0.5 * np.finfo(rows.dtype).eps)
        W = whiten_by_spectrum(s, eps=0.0, n_components=s.rank, rotate_back=False).whitening @ W
    return PursuitSpace(rows, mean, W * np.sqrt(rows.n_rows / (rows.n_rows - 1)))


class FoundDirection(NamedTuple):
    """The best direction of the white space, and how it was found."""

    direction: np.ndarray
    """Unit vector, shape (n_dims,)."""
    excess: float
    """Its oriented excess."""
    start_excesses: np.ndarray
    """Where every start ended, shape (n_init,)."""
    n_iter: int
    """Passes over the rows."""
    converged: bool
    """Whether the best start converged, or was stopped."""


@dataclass(frozen=True)
class DirectionSearch:
    """The search for one direction.

    Parameters
    ----------
    white : PursuitSpace
        Where to look.
    contrast : OrientedContrast
        What to look for.
    sides : sequence of float
        1 to send every start down to the least excess, -1 up to the largest, or both.
    before : ndarray of shape (n_before, n_dims)
        Orthonormal directions to stay orthogonal to.
    """

    white: PursuitSpace
    contrast: OrientedContrast
    sides: Sequence[float]
    before: np.ndarray

    def run(
        self,
        n_init: int,
        rng: np.random.Generator,
        *,
        max_iter: int,
        tol: float,
        progress: Progress | None = None,
        fitted: Callable[[np.ndarray], dict[str, Any]],
    ) -> FoundDirection:
        """Follow n_init random starts, all at the same time, and return the best end.

        They move in the space orthogonal to the directions before: moves in the whole space that only aim
        to stay there would drift out of it, as rounding adds up. ``fitted`` returns the attributes of the
        model with a direction of the whole space.
        """
        # Orthonormal directions that span what is orthogonal to those before, one per row.
        before = self.before
        Q = np.linalg.svd(before)[2][len(before) :] if len(before) else np.eye(before.shape[1])
        space = self.white.within(Q)
        B = unit_rows(rng.standard_normal((n_init, space.n_dims)))
        # A step smaller than the digits of the rows is none.
        tol = max(tol, 8 * float(np.finfo(self.white.rows.dtype).eps))
        sides = np.repeat(self.sides, n_init)

        def values(B: np.ndarray, starts: np.ndarray) -> SphereValues:
            # The excess, negated where a start looks for the largest.
            means, side = space.means(B, self.contrast.contrast), sides[starts]
            excess, sign = side * self.contrast.excess(means.value), self.contrast.sign * side
            gradients = sign[:, None] * (means.gradient @ space.T.T)
            return SphereValues(excess, gradients, sign * means.curvature)

        result = iterate(
            SphereDescent(values, tol).step,
            LoopState(0, start_paths(np.tile(B, (len(self.sides), 1)))),
            max_iter=max_iter,
            tol=0,
            progress=progress,
            fitted=lambda paths: fitted(paths.points[paths.values.argmin()] @ Q),
        )
        paths: Paths = result.params
        best = int(paths.values.argmin())
        # Of a start that went both ways, the end that is farther out.
        ends = paths.values.reshape(-1, n_init)
        chosen = ends.argmin(axis=0), np.arange(n_init)
        return FoundDirection(
            paths.points[best] @ Q,
            float(sides[best] * paths.values[best]),
            sides.reshape(-1, n_init)[chosen] * ends[chosen],
            result.n_iter,
            result.stopped or not paths.moving[best],
        )


# --- Descent on the sphere --------------------------------------------------------------------------


class SphereValues(NamedTuple):
    """A function of unit vectors and its derivatives, at k of them."""

    values: np.ndarray
    """Shape (k,)."""
    gradients: np.ndarray
    """Shape (k, n_dims)."""
    curvatures: np.ndarray
    """Shape (k,): a rough second derivative along any tangent, without the part that the sphere adds."""


class Paths(NamedTuple):
    """Where every start stands, and where it tries to go."""

    points: np.ndarray
    """Shape (n_starts, n_dims), unit rows."""
    values: np.ndarray
    """Objective at the points, shape (n_starts,); infinite before it is known."""
    slopes: np.ndarray
    """Length of the tangent gradient at the points, shape (n_starts,)."""
    headings: np.ndarray
    """Unit tangents at the points, downhill, shape (n_starts, n_dims)."""
    angles: np.ndarray
    """Length of the step to try, shape (n_starts,)."""
    moving: np.ndarray
    """Whether a start has not converged yet, shape (n_starts,)."""


def start_paths(points: np.ndarray) -> Paths:
    """Return the state before the objective is known at the points."""
    n = len(points)
    still = np.zeros_like(points)
    return Paths(
        points, np.full(n, np.inf), np.zeros(n), still, np.zeros(n), np.ones(n, dtype=bool)
    )


@dataclass(frozen=True)
class SphereDescent:
    """One step of all starts, for :func:`clusterica.optim.iterate` with ``tol=0``.

    Parameters
    ----------
    evaluate : callable
        ``evaluate(points, starts)`` returns the :class:`SphereValues` at points of these starts.
    tol : float
        A start has converged when its next step is at most this long, in radians.
    """

    evaluate: Callable[[np.ndarray, np.ndarray], SphereValues]
    tol: float

    def step(self, old: Paths) -> Step:
        """Try the next step of every start that moves; the objective is the least of all starts."""
        i = np.flatnonzero(old.moving)
        here = Paths(*(field[i] for field in old))
        cos, sin = np.cos(here.angles)[:, None], np.sin(here.angles)[:, None]
        points = here.points * cos + here.headings * sin
        points /= np.linalg.norm(points, axis=1, keepdims=True)
        there = self.evaluate(points, i)
        # Armijo's rule, with the usual share of the promised decrease; written so that a NaN fails.
        fell = there.values <= here.values - 1e-4 * here.angles * here.slopes
        carried = here.headings * cos - here.points * sin
        gone = _arrived(here, there, points, carried)
        # Else stay, and try the lowest point of the parabola through both values next; neither so near that
        # the search stalls, nor so far that it fails again: the usual safeguard.
        rise = np.maximum(there.values - here.values + here.angles * here.slopes, _TINY)
        lowest = here.slopes * here.angles**2 / (2 * rise)
        short = here._replace(angles=np.clip(lowest, 0.1 * here.angles, 0.5 * here.angles))
        # The fields have one or two axes, the first of which is that of the starts.
        new = Paths(
            *(
                np.where(fell.reshape(-1, *(1,) * (a.ndim - 1)), a, b)
                for a, b in zip(gone, short, strict=True)
            )
        )
        new = new._replace(moving=new.angles > self.tol)
        result = Paths(*(field.copy() for field in old))
        for field, values in zip(result, new, strict=True):
            field[i] = values
        change = float(np.max(new.angles[new.moving], initial=0.0)) ** 2
        return Step(result, float(result.values.min()), change)


def _arrived(here: Paths, there: SphereValues, points: np.ndarray, carried: np.ndarray) -> Paths:
    """Return the paths at their new points; `carried` are the old headings, carried along."""
    radial = _dot(there.gradients, points)
    tangents = there.gradients - radial[:, None] * points
    slopes = np.linalg.norm(tangents, axis=1)
    headings = -tangents / np.maximum(slopes, _TINY)[:, None]
    # On independent sources the second derivative is the same along all tangents. Where it is negative along
    # the last step there is no telling how far to go, so that steps grow.
    newton = slopes / np.maximum(np.abs(there.curvatures - radial), _TINY)
    onwards = np.maximum(newton, 2 * here.angles)
    bend = tangents + here.slopes[:, None] * carried
    product, bend2 = here.angles * _dot(carried, bend), _dot(bend, bend)
    curved_up = product > 0
    product = np.where(curved_up, product, 1.0)
    # The two lengths of Barzilai and Borwein; the shorter one where they differ by a fifth or more.
    long, short = here.angles**2 / product, product / np.maximum(bend2, _TINY)
    learned = slopes * np.where(short < 0.8 * long, short, long)
    # At most 0.8 radians: a longer step would jump to another hill rather than climb down this one.
    angles = np.minimum(np.where(curved_up, learned, onwards), 0.8)
    return Paths(points, there.values, slopes, headings, angles, here.moving)


def _dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    products: np.ndarray = np.einsum("ij,ij->i", a, b)
    return products
