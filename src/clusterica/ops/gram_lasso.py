"""Lasso codes from products alone, ``min_s 0.5 sᵀ G s - bᵀ s + alpha |s|_1``, which may be a kernel's.

With ``b = k(W, x)`` and ``G = k(W, W)`` that is ``0.5 |φ(x) - Wᵀ s|² + alpha |s|_1``, less a constant.
"""

from __future__ import annotations

import numpy as np

from clusterica.arrays import namespace_of
from clusterica.arrays._namespace import Array, is_host_array
from clusterica.ops.code import LassoCodes, duality_gaps
from clusterica.ops.cpu import lasso as cpu_lasso

_CHECK_EVERY = 10  # steps between two looks at the duality gap, which costs as much as a step
_RELAXATION = 1.6
# The compiled solver takes a row at a time, and time that grows as the cube of its nonzeros; splitting takes
# products of all rows, whatever the nonzeros. Over this many on average the latter is faster.
_MANY = 64
_FEWEST_ROWS = 32
_LAST_CHANGE = 100  # steps after which the weight ρ stays, so that the method converges


def lasso_of_gram(
    B: Array, energies: Array, G: Array, *, alpha: float, max_iter: int, tol: float
) -> LassoCodes:
    """Return the codes that minimise ``0.5 |x - Dᵀ s|^2 + alpha |s|_1``.

    Parameters
    ----------
    B : (n_rows, n_atoms) array
        The products ``<x, d>`` of rows and atoms.
    energies : (n_rows,) array
        The squared lengths ``<x, x>``.
    G : (n_atoms, n_atoms) array
        The products of atoms.
    alpha : float
        Weight of the penalty, over 0.
    max_iter : int
        Most sweeps over the atoms (coordinate descent: NumPy, where codes are sparse) or steps (splitting).
    tol : float
        A row is done when its duality gap is at most tol times ``0.5 <x, x>``, the objective of s = 0.
    """
    if is_host_array(B) and not _is_dense(B, energies, G, alpha):
        args = (B, energies, G)
        return LassoCodes(*cpu_lasso.lasso(*args, alpha=alpha, max_iter=max_iter, tol=tol))
    return lasso_of_gram_reference(B, energies, G, alpha=alpha, max_iter=max_iter, tol=tol)


def lasso_of_gram_reference(
    B: Array, energies: Array, G: Array, *, alpha: float, max_iter: int, tol: float
) -> LassoCodes:
    """Splitting (ADMM, Boyd et al., 2011) on all rows at once; rows leave the batch when they are done.

    The least squares and the penalty get codes of their own, S and Z, which are pulled together with the
    weight ρ. Products with ``(G + ρ I)^-1`` do away with the conditioning of G: all products of a kernel
    may be near one, and gradient steps then take thousands.
    """
    xp = namespace_of(B)
    rho = max(float(xp.mean(xp.linalg.diagonal(G))), float(xp.finfo(G.dtype).smallest_normal))
    inverse = _shifted_inverse(G, rho)
    Z = U = xp.zeros_like(B)
    where, done = xp.arange(B.shape[0], device=B.device), []
    for i in range(max_iter):
        S = (B + rho * (Z - U)) @ inverse
        V = _RELAXATION * S + (1 - _RELAXATION) * Z + U
        U = xp.clip(V, min=-alpha / rho, max=alpha / rho)
        Z = V - U
        if (i + 1) % _CHECK_EVERY and i + 1 < max_iter:
            continue
        gaps = duality_gaps(Z, B, B - Z @ G, energies, alpha)
        is_done = gaps <= tol if i + 1 < max_iter else xp.ones_like(gaps, dtype=xp.bool)
        n_done = int(xp.sum(xp.astype(is_done, xp.int64)))
        if 4 * n_done >= gaps.shape[0]:  # few finished rows are not worth the copies
            out, rest = xp.nonzero(is_done)[0], xp.nonzero(~is_done)[0]
            done.append([xp.take(a, out, axis=0) for a in (where, Z, gaps)])
            if rest.shape[0] == 0:
                break
            B, Z, U, energies, where = (
                xp.take(a, rest, axis=0) for a in (B, Z, U, energies, where)
            )
        better = _weight(Z, alpha, rho) if i < _LAST_CHANGE else rho
        if better != rho:
            U, rho, inverse = U * (rho / better), better, _shifted_inverse(G, better)
    where, Z, gaps = (xp.concat(parts, axis=0) for parts in zip(*done, strict=True))
    order = xp.argsort(where)
    return LassoCodes(xp.take(Z, order, axis=0), xp.take(gaps, order, axis=0))


def _is_dense(B: np.ndarray, energies: np.ndarray, G: np.ndarray, alpha: float) -> bool:
    """Whether codes of a few rows, roughly found, have more nonzeros than coordinate descent is good for."""
    if B.shape[0] < _FEWEST_ROWS:
        return False
    few = slice(0, None, B.shape[0] // 4)
    codes, _ = cpu_lasso.lasso(B[few], energies[few], G, alpha=alpha, max_iter=100, tol=0.1)
    return bool((codes != 0).sum() > _MANY * len(codes))


def _weight(Z: Array, alpha: float, rho: float) -> float:
    """Return ρ for which the multipliers, up to alpha / ρ, are as large as codes, or the old one if near."""
    xp = namespace_of(Z)
    total = float(xp.sum(xp.abs(Z), dtype=xp.float64))
    if total == 0:
        return rho
    new = alpha * int(xp.sum(xp.astype(Z != 0, xp.int64))) / total
    return new if not 0.5 <= new / rho <= 2 else rho


def _shifted_inverse(G: Array, rho: float) -> Array:
    """Return ``(G + ρ I)^-1``, by way of float64."""
    xp = namespace_of(G)
    identity = xp.eye(G.shape[0], dtype=xp.float64, device=G.device)
    return xp.astype(xp.linalg.inv(xp.astype(G, xp.float64) + rho * identity), G.dtype)
