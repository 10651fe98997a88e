"""Sums for auto-encoders ``x̂ = Uᵀ h + a``, ``h = sigmoid(W x + b)``: errors, their gradients, activities."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from clusterica.arrays import Array, in_tiles, namespace_of, working_memory

HostArray = np.ndarray[Any, Any]


class Weights(NamedTuple):
    """W and U, shape (n_units, n_features); b, shape (n_units,); a, shape (n_features,)."""

    W: Array
    b: Array
    U: Array
    a: Array


class AutoencoderSums(NamedTuple):
    """Sums over rows: ``½ |x̂ - x|²``, its gradients, and what the sparsity of the mean activity needs."""

    error: Array
    W: Array
    b: Array
    U: Array
    a: Array
    activity: Array
    """``sum h``, shape (n_units,)."""
    squares: Array
    """``sum h²``, shape (n_units,)."""
    slope: Array
    """``sum h'``, the derivative of the activity by b, shape (n_units,)."""
    slope_moments: Array
    """``sum h' xᵀ``, that by W, shape (n_units, n_features)."""


@working_memory(lambda row, W, b: 2 * int(W.shape[0]) * row.itemsize)
def activations(X: Array, W: Array, b: Array) -> Array:
    """Return ``sigmoid(W x + b)`` for every row, shape (n_rows, n_units)."""
    # As a hyperbolic tangent, which does not overflow.
    return namespace_of(X).tanh((X @ W.T + b) / 2) / 2 + 0.5


@working_memory(lambda row, W, b, U, a: (2 * row.n_features + 5 * int(W.shape[0])) * row.itemsize)
@in_tiles(lambda X, W, b, U, a: max(W.shape))
def autoencoder_sums(X: Array, W: Array, b: Array, U: Array, a: Array) -> AutoencoderSums:
    """Return the sums of a block."""
    xp = namespace_of(X)
    h = activations(X, W, b)
    residual = h @ U + a - X
    # The derivative of the sigmoid.
    slope = h * (1 - h)
    # The error of the reconstruction, propagated back to the units.
    back = (residual @ U.T) * slope
    return AutoencoderSums(
        xp.sum(residual * residual, dtype=xp.float64) / 2,
        back.T @ X,
        xp.sum(back, axis=0),
        h.T @ residual,
        xp.sum(residual, axis=0),
        xp.sum(h, axis=0),
        xp.sum(h * h, axis=0),
        xp.sum(slope, axis=0),
        slope.T @ X,
    )


class Objective(NamedTuple):
    """The objective of an auto-encoder and its gradients, on the host."""

    value: float
    gradients: Weights


def objective(
    sums: AutoencoderSums,
    weights: Weights,
    n_rows: int,
    *,
    weight_decay: float,
    sparsity: float,
    target: float,
) -> Objective:
    r"""Return ``mean ½ |x̂ - x|² + λ/2 (|W|² + |U|²) + β sum_j KL(ρ, ρ_j)`` on the host.

    ρ_j is the mean activity of a unit, and ``KL = ρ log ρ/ρ_j + (1-ρ) log (1-ρ)/(1-ρ_j)``. It depends on all
    rows, but its gradient is a factor for every unit times sums that one walk has.
    """
    W, _, U, _ = weights
    # A unit that is never or always active has an infinite penalty: as large as float64 allows.
    active = np.clip(sums.activity / n_rows, 1e-15, 1 - 1e-15)
    divergence = target * np.log(target / active)
    divergence += (1 - target) * np.log((1 - target) / (1 - active))
    value = float(sums.error) / n_rows + sparsity * float(divergence.sum())
    value += weight_decay / 2 * float((W * W).sum() + (U * U).sum())
    # The derivative of the divergence by the mean activation.
    pull = sparsity * ((1 - target) / (1 - active) - target / active)
    return Objective(
        value,
        Weights(
            (sums.W + pull[:, None] * sums.slope_moments) / n_rows + weight_decay * W,
            (sums.b + pull * sums.slope) / n_rows,
            sums.U / n_rows + weight_decay * U,
            sums.a / n_rows,
        ),
    )
