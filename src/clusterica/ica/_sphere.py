"""Descent on the unit sphere from many starts at once: ``b <- b cos θ - sin θ g / |g|``, g tangent to it.

Every start has its own step length: that of Barzilai and Borwein, which learns the curvature from the last
move, halved where the objective does not fall enough. One walk over the rows serves one trial of every
start that still moves, whether it is a new step or a shorter one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from clusterica.optim import Step

_SUFFICIENT = 1e-4  # share of the promised decrease that a step must keep (Armijo)
_LONGEST = 0.8  # radians; a longer step would rather jump to another hill than climb down this one
_SHORT = 0.8  # ratio of the two Barzilai-Borwein lengths under which the shorter one is taken
_TINY = 1e-100  # keeps a quotient finite


class Values(NamedTuple):
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
    """Whether a start has not come to rest, shape (n_starts,)."""


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
        ``evaluate(points, starts)`` returns the :class:`Values` at points of the starts of these indices.
    tol : float
        A start comes to rest when its next step is at most this long, in radians.
    """

    evaluate: Callable[[np.ndarray, np.ndarray], Values]
    tol: float

    def step(self, old: Paths) -> Step:
        """Try the next step of every start that moves; the objective is the least of all starts."""
        i = np.flatnonzero(old.moving)
        here = Paths(*(field[i] for field in old))
        cos, sin = np.cos(here.angles)[:, None], np.sin(here.angles)[:, None]
        points = here.points * cos + here.headings * sin
        points /= np.linalg.norm(points, axis=1, keepdims=True)
        there = self.evaluate(points, i)
        # Written so that a NaN fails.
        fell = there.values <= here.values - _SUFFICIENT * here.angles * here.slopes
        carried = here.headings * cos - here.points * sin
        gone, short = _arrived(here, there, points, carried), _shortened(here, there.values)
        new = Paths(*(_choose(fell, a, b) for a, b in zip(gone, short, strict=True)))
        new = new._replace(moving=new.angles > self.tol)
        result = Paths(*(field.copy() for field in old))
        for field, values in zip(result, new, strict=True):
            field[i] = values
        change = float(np.max(new.angles[new.moving], initial=0.0)) ** 2
        return Step(result, float(result.values.min()), change)


def _arrived(here: Paths, there: Values, points: np.ndarray, carried: np.ndarray) -> Paths:
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
    long, short = here.angles**2 / product, product / np.maximum(bend2, _TINY)
    learned = slopes * np.where(short < _SHORT * long, short, long)
    angles = np.minimum(np.where(curved_up, learned, onwards), _LONGEST)
    return Paths(points, there.values, slopes, headings, angles, here.moving)


def _shortened(here: Paths, values: np.ndarray) -> Paths:
    """Return the paths where they were, to try the lowest point of the parabola through both values."""
    rise = np.maximum(values - here.values + here.angles * here.slopes, _TINY)
    lowest = here.slopes * here.angles**2 / (2 * rise)
    return here._replace(angles=np.clip(lowest, 0.1 * here.angles, 0.5 * here.angles))


def _choose(which: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.where(which.reshape(-1, *(1,) * (a.ndim - 1)), a, b)


def _dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.einsum("ij,ij->i", a, b)
