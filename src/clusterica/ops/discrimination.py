"""The discrimination term ``d(s) = (sum of other classes' s)² - (sum of own s)² + η |s|²`` of labelled codes.

Codes are ordered by class, k for each of the c classes: K = k c. Without the second and the third part it is
the inhomogeneous cost alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from clusterica.arrays import Array, namespace_of


class Discriminated(NamedTuple):
    """Sum of d over a block, a number in float64, and its derivative by every code."""

    value: Array
    slopes: Array


@dataclass(frozen=True)
class Discrimination:
    """The term as a function of codes, or of the class moments of rows where codes are ``W x``.

    Parameters
    ----------
    n_classes : int
        The c.
    eta : float
        Weight of the elastic part; d is convex exactly if it exceeds the number of codes of a class.
    homogeneous : bool, default=True
        False leaves the own class and the elastic part out.
    """

    n_classes: int
    eta: float
    homogeneous: bool = True

    def of_codes(self, S: Array, labels: Array) -> Discriminated:
        """Return the sum over a block of codes (n_rows, K) with classes 0 .. c - 1, and the slopes."""
        xp = namespace_of(S)
        n, K = S.shape
        classes = xp.arange(self.n_classes, device=S.device)
        own_class = labels[:, None] == classes[None, :]
        # Codes are ordered by class, so that a reshape brings those of a class together.
        sums = xp.sum(xp.reshape(S, (n, self.n_classes, -1)), axis=2)
        zero = xp.zeros_like(sums)
        own = xp.sum(xp.where(own_class, sums, zero), axis=1)
        others = xp.sum(xp.where(own_class, zero, sums), axis=1)
        inside = -2 * own if self.homogeneous else 0 * own
        slopes = xp.where(own_class, inside[:, None], 2 * others[:, None])
        # All codes of a class have the same slope, since only their sum counts.
        slopes = xp.reshape(
            xp.broadcast_to(slopes[:, :, None], (n, self.n_classes, K // self.n_classes)), (n, K)
        )
        value = xp.sum(others * others, dtype=xp.float64)
        if not self.homogeneous:
            return Discriminated(value, slopes)
        value = value - xp.sum(own * own, dtype=xp.float64)
        value = value + self.eta * xp.sum(S * S, dtype=xp.float64)
        return Discriminated(value, slopes + 2 * self.eta * S)

    def of_moments(self, W: Array, moments: Array) -> tuple[float, Array]:
        """Return the sum over all rows for codes ``W x``, and its gradient by W; no row is read.

        Parameters
        ----------
        W : (K, n_features) array
        moments : (n_classes, n_features, n_features) array
            Sums of x xᵀ over the rows of each class.
        """
        xp = namespace_of(W)
        k = W.shape[0] // self.n_classes
        own = xp.sum(xp.reshape(W, (self.n_classes, k, -1)), axis=1)
        others = xp.sum(own, axis=0) - own
        # The sum over rows of a class of (uᵀ x)² is uᵀ M u.
        bent = (moments @ others[:, :, None])[:, :, 0]
        value = float(xp.sum(others * bent))
        # A code is among the others of every other class.
        by_class = 2 * (xp.sum(bent, axis=0) - bent)
        if not self.homogeneous:
            return value, xp.repeat(by_class, k, axis=0)
        inward = (moments @ own[:, :, None])[:, :, 0]
        stretched = W @ xp.sum(moments, axis=0)
        value += self.eta * float(xp.sum(W * stretched)) - float(xp.sum(own * inward))
        return value, xp.repeat(by_class - 2 * inward, k, axis=0) + 2 * self.eta * stretched
