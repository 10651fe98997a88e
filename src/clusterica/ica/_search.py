"""The search of a pursuit: directions b of the white space with the least, or largest, oriented excess.

The white rows themselves are never made: with ``y = T (x - mean)``, ``b·y = (b T)·(x - mean)``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from clusterica.arrays import Rows, map_reduce, to_host
from clusterica.ica._sphere import Paths, SphereDescent, Values, start_paths
from clusterica.ops.contrast import Contrast
from clusterica.ops.linalg import unit_rows
from clusterica.ops.pursuit import OrientedContrast, PursuitSums, pursuit_sums
from clusterica.ops.whiten import spectrum, whiten_by_spectrum
from clusterica.optim import LoopState, Progress, iterate
from clusterica.preprocessing import Whitener


@dataclass(frozen=True)
class WhiteSpace:
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
        return self.T.shape[0]

    def within(self, Q: np.ndarray) -> WhiteSpace:
        """Return the part of the space that orthonormal directions Q span, shape (n, n_dims)."""
        return replace(self, T=Q @ self.T)

    def means(self, B: np.ndarray, contrast: Contrast) -> PursuitSums:
        """Return E G(p), E G'(p) (x - mean), E G''(p) of the projections on directions B: one walk."""
        rows = self.rows
        F, mean = (np.asarray(a, dtype=rows.dtype) for a in (B @ self.T, self.mean))
        row_bytes = (2 * rows.n_features + 6 * len(F)) * rows.dtype.itemsize
        fn = partial(pursuit_sums, contrast=contrast)
        total = map_reduce(fn, rows, F, mean, row_bytes=row_bytes)
        return PursuitSums(*(to_host(value) / rows.n_rows for value in total))


def white_space(rows: Rows, whitener: Whitener) -> WhiteSpace:
    """Return the space that a whitener spans, made exactly white: eps > 0 leaves less than unit variance."""
    W, mean = (to_host(a).astype(np.float64) for a in (whitener.whitening_, whitener.mean_))
    if whitener.method == "pca" and whitener.eps_ == 0:
        W = W[: whitener.rank_]
    else:
        # From the sums in float64: in the dtype of the rows, small variances would be lost.
        covariance = whitener._moments.second / (rows.n_rows - 1)
        s = spectrum(W @ covariance @ W.T, noise=4 * W.shape[0] ** 0.5 * np.finfo(rows.dtype).eps)
        W = whiten_by_spectrum(s, eps=0.0, n_components=s.rank, rotate_back=False).whitening @ W
    return WhiteSpace(rows, mean, W * np.sqrt(rows.n_rows / (rows.n_rows - 1)))


class Found(NamedTuple):
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
    """Whether the best start came to rest, or was stopped."""


@dataclass(frozen=True)
class Search:
    """The search for one direction.

    Parameters
    ----------
    white : WhiteSpace
        Where to look.
    contrast : OrientedContrast
        What to look for.
    sides : sequence of float
        1 to send every start down to the least excess, -1 up to the largest, or both.
    before : ndarray of shape (n_before, n_dims)
        Orthonormal directions to stay orthogonal to.
    """

    white: WhiteSpace
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
    ) -> Found:
        """Follow n_init random starts, all at the same time, and return the best end.

        They move in the space orthogonal to the directions before: moves in the whole space that only aim
        to stay there would drift out of it, as rounding adds up. ``fitted`` tells what a direction of the
        whole space makes of the model.
        """
        Q = _beside(self.before)
        space = self.white.within(Q)
        B = unit_rows(rng.standard_normal((n_init, space.n_dims)))
        # A step smaller than the digits of the rows is none.
        tol = max(tol, 8 * float(np.finfo(self.white.rows.dtype).eps))
        sides = np.repeat(self.sides, n_init)
        result = iterate(
            SphereDescent(partial(self._values, space=space, sides=sides), tol).step,
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
        return Found(
            paths.points[best] @ Q,
            float(sides[best] * paths.values[best]),
            sides.reshape(-1, n_init)[chosen] * ends[chosen],
            result.n_iter,
            result.stopped or not paths.moving[best],
        )

    def _values(
        self, B: np.ndarray, starts: np.ndarray, *, space: WhiteSpace, sides: np.ndarray
    ) -> Values:
        """Return the excess at directions B, negated where a start looks for the largest."""
        means = space.means(B, self.contrast.contrast)
        side = sides[starts]
        sign = self.contrast.sign * side
        values = side * self.contrast.excess(means.value)
        return Values(values, sign[:, None] * (means.gradient @ space.T.T), sign * means.curvature)


def _beside(before: np.ndarray) -> np.ndarray:
    """Return orthonormal directions that span what is orthogonal to those before, one a row."""
    return np.linalg.svd(before)[2][len(before) :] if len(before) else np.eye(before.shape[1])
