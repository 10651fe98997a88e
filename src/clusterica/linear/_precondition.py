"""A stand-in for the second derivative of a head's loss: ``M = I + 2C (τ I + Zᵀ Z / m)`` over m sampled rows.

The loss bends at most as much as ``I + 2C G``, where G is the Gram matrix of all rows, and nearly as
much in most directions. A sample gives G up to a floor τ, under which its eigenvalues are noise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property

import numpy as np

from clusterica.arrays import Rows, namespace_of
from clusterica.arrays._namespace import Array
from clusterica.linear._factor import add_to_diagonal, positive_solver, solve_positive
from clusterica.linear._standard import Standard, standardised_rows

_FEWEST_ROWS = 4096  # few enough to cost little, enough for a thousand directions
_ROWS_PER_FEATURE = 1.5  # more hardly saves a pass
_FACTOR_PER_PASS = 200  # cube of the rows sampled, to n x d: a factor should cost about two passes
_CHUNK = 1024
_TESTED = 256  # rows that tell how much a part of the sample leaves unexplained


class SampledGram:
    """The preconditioner of all strengths C, from one sample of the rows.

    With more sampled rows than features, the d x d matrix is factored; with fewer, that of the m x m
    products of the sample, by the identity of Woodbury. Features that outweigh all others are scaled down
    first.

    Parameters
    ----------
    rows : Rows
        The data.
    standard : Standard
        How its features are standardised.
    """

    def __init__(self, rows: Rows, standard: Standard) -> None:
        self._rows, self._standard = rows, standard
        d, budget = rows.n_features, rows.memory // rows.dtype.itemsize
        worth = (_FACTOR_PER_PASS * rows.n_rows * d) ** (1 / 3)
        m = min(rows.n_rows, max(_FEWEST_ROWS, int(min(worth, _ROWS_PER_FEATURE * d))))
        # A matrix and its factor; or the sample, its products, and their factor.
        self.by_features = m >= d and 2 * d * d <= budget
        if not self.by_features:
            most = int((d * d / 16 + budget / 2) ** 0.5 - d / 4)
            m = max(1, min(m, most))
        # The result does not depend on the sample, so that no random state is asked for.
        self._indices = np.sort(np.random.default_rng(0).permutation(rows.n_rows)[:m])
        self.n_sampled = m

    def at(self, C: float, *, intercept: bool) -> Callable[[Array], Array]:
        """Return ``G -> M⁻¹ G`` for gradients of shape (n_targets, n_features + 1) at this strength."""
        apply = self._by_features(C) if self.by_features else self._by_rows(C)
        bend = 1 / (2 * C) if intercept else 0.0

        def precondition(G: Array) -> Array:
            xp = namespace_of(G)
            working = getattr(xp, self._rows.dtype.name)
            # M and the gradient are both divided by 1 + 2 C: no C is too large or too small for float32.
            W, shrink = G[:, :-1] / (1 + 2 * C), self._standard.shrink
            W = xp.astype(W if shrink is None else W * shrink, working)
            W = xp.astype(apply(W), G.dtype)
            W = W if shrink is None else W * shrink
            return xp.concat([W, bend * G[:, -1:]], axis=1)

        return precondition

    def _shares(self, C: float) -> tuple[float, float]:
        """Return a and b of ``M / (1 + 2 C) = a I + b Zᵀ Z / m``."""
        return (1 + 2 * C * self.floor) / (1 + 2 * C), 2 * C / (1 + 2 * C)

    def _by_features(self, C: float) -> Callable[[Array], Array]:
        a, b = self._shares(C)
        solve = positive_solver(add_to_diagonal(b * self._gram, a))
        return lambda W: solve(W.T).T

    def _by_rows(self, C: float) -> Callable[[Array], Array]:
        """(a I + b Zᵀ Z)⁻¹ = (I - b Zᵀ (a I + b Z Zᵀ)⁻¹ Z) / a."""
        Z = self._sample
        a, b = self._shares(C)
        b /= self.n_sampled
        solve = positive_solver(add_to_diagonal(b * self._products, a))
        return lambda W: (W - b * (solve(Z @ W.T).T @ Z)) / a

    @cached_property
    def floor(self) -> float:
        """The floor τ: half of what a quarter of the sample leaves unexplained, per row of that quarter."""
        d = self._rows.n_features
        energy = self._trace / self.n_sampled or 1.0
        least = 4 * float(np.finfo(self._rows.dtype).eps) * energy  # the factor needs that much
        k = min(self.n_sampled // 4, d)
        tested = min(_TESTED, self.n_sampled - k)
        if self.n_sampled == self._rows.n_rows or k < 1:
            return least
        # Rows of one class may lie together: the two parts are drawn, not cut.
        rng = np.random.default_rng(1)
        drawn = self._standardised(np.sort(rng.permutation(self._indices)[: k + tested]))
        order = self._rows.place(rng.permutation(k + tested))
        drawn = namespace_of(drawn).take(drawn, order, axis=0)
        Z, T = drawn[:k, :], drawn[k:, :]
        xp = namespace_of(Z)
        cross = Z @ T.T
        explained = cross * solve_positive(add_to_diagonal(Z @ Z.T, 4 * k * least), cross)
        left = xp.sum(T * T, axis=1) - xp.sum(explained, axis=0)
        return max(least, 0.5 * float(xp.mean(left)) / k)

    @cached_property
    def _gram(self) -> Array:
        chunks = self._chunks()
        first = next(chunks)
        total = first.T @ first
        for Z in chunks:
            total = _added(total, Z.T @ Z)
        return total / self.n_sampled

    @cached_property
    def _sample(self) -> Array:
        return self._standardised(self._indices)

    @cached_property
    def _products(self) -> Array:
        return self._sample @ self._sample.T

    @cached_property
    def _trace(self) -> float:
        matrix = self._gram if self.by_features else self._products
        trace = float(namespace_of(matrix).linalg.trace(matrix))
        return trace * self.n_sampled if self.by_features else trace

    def _chunks(self) -> Iterator[Array]:
        # A source that can only be walked is walked once.
        size = _CHUNK if self._rows.indexable else self.n_sampled
        for start in range(0, self.n_sampled, size):
            yield self._standardised(self._indices[start : start + size])

    def _standardised(self, indices: np.ndarray) -> Array:
        Z = standardised_rows(self._rows, self._standard, indices, self._rows.dtype)
        if self._standard.shrink is None:
            return Z
        return Z * namespace_of(Z).astype(self._standard.shrink, Z.dtype)


def _added(total: Array, part: Array) -> Array:
    if isinstance(total, np.ndarray):
        total += part
        return total
    return total + part
