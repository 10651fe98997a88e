r"""Modified Bessel functions of large order without overflow: ``log I_ν(κ)`` and ``I_{ν+1}(κ) / I_ν(κ)``.

Both come from Debye's expansion at an order of at least 64, which holds uniformly in κ, and from there by the
recurrence ``r_{μ-1} = 1 / (2μ / κ + r_μ)`` of the ratios ``r_μ = I_{μ+1} / I_μ``, which is stable downwards.
So there is one method for all orders and arguments. On the host, in float64.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.polynomial import Polynomial

# With ten terms the expansion has 15 digits from this order on, checked against 50 digits of mpmath.
_LEAST_ORDER, _TERMS = 64, 10


def _debye_polynomials() -> tuple[list[Polynomial], list[Polynomial]]:
    """Return U_k and V_k of Debye's expansions of I and its derivative (DLMF 10.41.9 and 10.41.11)."""
    U, V = [Polynomial([1.0])], [Polynomial([1.0])]
    slope, weight = Polynomial([0, 0, 0.5, 0, -0.5]), Polynomial([1, 0, -5])
    for _ in range(_TERMS - 1):
        u = U[-1]
        U.append(slope * u.deriv() + (weight * u).integ() / 8)
        V.append(
            U[-1]
            + Polynomial([0, -0.5, 0, 0.5]) * u
            + 2 * Polynomial([0, 0, -0.5, 0, 0.5]) * u.deriv()
        )
    return U, V


_U, _V = _debye_polynomials()


class Bessel(NamedTuple):
    """``log I_ν(κ)`` and the ratio ``I_{ν+1}(κ) / I_ν(κ)``, each of the shape of κ."""

    log_value: np.ndarray
    ratio: np.ndarray


def log_bessel(order: float, kappa: np.ndarray) -> Bessel:
    """Return the logarithm of a modified Bessel function of the first kind, and its ratio to the next.

    Parameters
    ----------
    order : float
        The ν, at least 0.
    kappa : ndarray of float64
        Arguments above 0.
    """
    # Ratios of a small argument lose digits in the expansion, and a step down wins back those of (κ / 2μ)².
    n_steps = max(8, int(np.ceil(_LEAST_ORDER - order)))
    top = order + n_steps
    z = kappa / top
    root = np.sqrt(1 + z * z)
    p = 1 / root
    values = sum(u(p) / top**k for k, u in enumerate(_U))
    slopes = sum(v(p) / top**k for k, v in enumerate(_V))
    exponent = top * (root + np.log(z / (1 + root)))
    log_value = exponent - np.log(2 * np.pi * top) / 2 - np.log(root) / 2 + np.log(values)
    # I'_μ / I_μ = r_μ + μ / κ.
    ratio = (root * slopes / values - 1) / z
    for step in range(n_steps):
        ratio = 1 / (2 * (top - step) / kappa + ratio)
        log_value = log_value - np.log(ratio)
    return Bessel(log_value, ratio)
