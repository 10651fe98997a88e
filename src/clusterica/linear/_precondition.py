"""The preconditioner of L-BFGS, ``M = I + 2C (τ I + Zᵀ Z / m)`` over m sampled rows.

The loss bends at most as much as ``I + 2C G``, where G is the Gram matrix of all rows, and nearly as much
in most directions. A sample gives G up to a floor τ, under which its eigenvalues are noise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property

import numpy as np

from clusterica.arrays import Rows, namespace_of
from clusterica.arrays._namespace import Array
from clusterica.linear._equations import add_to_diagonal, positive_solver, solve_positive
from clusterica.linear._problem import HostArray, Standard, standardised_rows


class SampledGram:
    """The preconditioners of all C, from one sample of the rows.

    With more sampled rows than features, the d x d matrix M is factored; with fewer, one of the m x m
    products of the sample, by Woodbury's identity. Features much larger than all others are scaled down
    first.

    Parameters
    ----------
    rows : Rows
        The data.
    standard : Standard
        How its features are standardised.
    fewest : int, default=4096
        Rows to sample at least: few enough to cost little, enough for a thousand directions.
    chunk : int, default=1024
        Rows that are standardised at a time.
    """

    def __init__(
        self, rows: Rows, standard: Standard, *, fewest: int = 4096, chunk: int = 1024
    ) -> None:
        self._rows, self._standard = rows, standard
        d, budget = rows.n_features, rows.memory // rows.dtype.itemsize
        # A factor of m³ should cost about two passes over n x d; and more than 1.5 rows a feature hardly
        # save a pass.
        worth = (200 * rows.n_rows * d) ** (1 / 3)
        m = min(rows.n_rows, max(fewest, int(min(worth, 1.5 * d))))
        # Memory for a matrix and its factor; or for the sample, its products, and their factor.
        self.by_features = m >= d and 2 * d * d <= budget
        if not self.by_features:
            most = int((d * d / 16 + budget / 2) ** 0.5 - d / 4)
            m = max(1, min(m, most))
        # The result does not depend on the sample, so no random_state is needed.
        self._indices = np.sort(np.random.default_rng(0).permutation(rows.n_rows)[:m])
        self.n_sampled, self._chunk = m, chunk

    def at(self, C: float, *, intercept: bool) -> Callable[[Array], Array]:
        """Return ``G -> M⁻¹ G`` for gradients of shape (n_targets, n_features + 1) at this C."""
        # M and the gradient are both divided by 1 + 2C, so no C is too large or too small for float32:
        # M / (1 + 2C) = a I + b Zᵀ Z / m.
        a, b = (1 + 2 * C * self.floor) / (1 + 2 * C), 2 * C / (1 + 2 * C)
        if self.by_features:
            solve = positive_solver(add_to_diagonal(b * self._gram, a))

            def apply(W: Array) -> Array:
                return solve(W.T).T
        else:
            # (a I + b Zᵀ Z)⁻¹ = (I - b Zᵀ (a I + b Z Zᵀ)⁻¹ Z) / a
            Z, b = self._sample, b / self.n_sampled
            solve = positive_solver(add_to_diagonal(b * self._products, a))

            def apply(W: Array) -> Array:
                return (W - b * (solve(Z @ W.T).T @ Z)) / a

        bend = 1 / (2 * C) if intercept else 0.0
        shrink = self._standard.shrink

        def precondition(G: Array) -> Array:
            xp = namespace_of(G)
            W = G[:, :-1] / (1 + 2 * C)
            W = xp.astype(W if shrink is None else W * shrink, getattr(xp, self._rows.dtype.name))
            W = xp.astype(apply(W), G.dtype)
            W = W if shrink is None else W * shrink
            return xp.concat([W, bend * G[:, -1:]], axis=1)

        return precondition

    @cached_property
    def floor(self) -> float:
        """The floor τ: half of what a quarter of the sample leaves unexplained, per row of that quarter."""
        matrix, m = self._gram if self.by_features else self._products, self.n_sampled
        trace = float(namespace_of(matrix).linalg.trace(matrix))
        energy = (trace if self.by_features else trace / m) or 1.0
        least = 4 * float(np.finfo(self._rows.dtype).eps) * energy  # the factor needs that much
        k = min(m // 4, self._rows.n_features)
        tested = min(256, m - k)  # rows that show how much the quarter leaves unexplained
        if m == self._rows.n_rows or k < 1:
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
            if isinstance(total, np.ndarray):
                total += Z.T @ Z  # in place: it may be large
            else:
                total = total + Z.T @ Z
        return total / self.n_sampled

    @cached_property
    def _sample(self) -> Array:
        return self._standardised(self._indices)

    @cached_property
    def _products(self) -> Array:
        return self._sample @ self._sample.T

    def _chunks(self) -> Iterator[Array]:
        # A source without random access is read once, not once a chunk.
        size = self._chunk if self._rows.indexable else self.n_sampled
        for start in range(0, self.n_sampled, size):
            yield self._standardised(self._indices[start : start + size])

    def _standardised(self, indices: HostArray) -> Array:
        Z = standardised_rows(self._rows, self._standard, indices, self._rows.dtype)
        if self._standard.shrink is None:
            return Z
        return Z * namespace_of(Z).astype(self._standard.shrink, Z.dtype)
