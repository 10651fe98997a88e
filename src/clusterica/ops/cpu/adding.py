"""What a row adds to its centre, ``share x``, for the compiled loops over tiles of rows.

Numba keeps compiled code as long as the file of the calling function does not change. After an edit
here, touch the callers too, or clear ``__pycache__``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from clusterica.arrays import Array
from clusterica.ops.cpu.compiling import compiled_sum, inlined
from clusterica.ops.rules import Flags, gain_and_share


class StepArrays(NamedTuple):
    """What a Lloyd step reads besides rows and centres, and the arrays that it fills and adds to."""

    bias: np.ndarray
    weights: np.ndarray  # of the rows; empty where nothing is added
    labels: np.ndarray
    scores: np.ndarray
    rule: Flags
    sums: np.ndarray
    counts: np.ndarray

    def of(self, rows: Array | slice) -> StepArrays:
        """Return the step of some rows; their labels and scores are copies where rows are indices."""
        weights = self.weights[rows] if len(self.weights) else self.weights
        return self._replace(weights=weights, labels=self.labels[rows], scores=self.scores[rows])


@compiled_sum
def inverse_length(x, shift):  # type: ignore[no-untyped-def]
    """One over the length of a row minus the shift; 0 for a row of zeros."""
    energy = x[:1].sum() * 0  # zero, of the type of x, for a row without entries too
    for f in range(x.shape[0]):
        energy += (x[f] - shift[f]) ** 2
    if not 1e-30 < energy < 1e30:  # squares of float32 may be lost there; those of float64 are not
        energy = 0.0
        for f in range(x.shape[0]):
            energy += np.float64(x[f] - shift[f]) ** 2
    inverse = 1 / np.sqrt(energy) if energy > 0 else 0.0
    return x.dtype.type(inverse)


@inlined
def invert_lengths(X, shift, energy):  # type: ignore[no-untyped-def]
    """Replace the squared length of every row, a sum in its dtype, by one over its length."""
    for i in range(X.shape[0]):
        plain = 1e-30 < energy[i] < 1e30
        energy[i] = 1 / np.sqrt(energy[i]) if plain else inverse_length(X[i], shift)


@inlined
def add_rows(X, shift, centers, scores, inverse, weights, rule, sums):  # type: ignore[no-untyped-def]
    """Add every row to the sum of its centre, in float64, and return the gain of all."""
    total = 0.0
    for i in range(X.shape[0]):
        c = centers[i]
        gain, share = gain_and_share(scores[i], inverse[i], rule.code)
        share *= weights[i]
        for f in range(X.shape[1]):
            sums[c, f] += share * (X[i, f] - shift[f])
        total += gain * weights[i]
    return total
