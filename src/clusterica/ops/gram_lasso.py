"""Lasso codes from products alone, ``min_s 0.5 sᵀ G s - bᵀ s + alpha |s|_1``, which may be a kernel's.

With ``b = k(W, x)`` and ``G = k(W, W)`` that is ``0.5 |φ(x) - Wᵀ s|² + alpha |s|_1``, less a constant.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from clusterica.arrays import (
    Array,
    active_config,
    in_order,
    is_cpu_tensor,
    is_host_array,
    namespace_of,
    to_host,
    to_like,
)
from clusterica.ops.code import LassoCodes, duality_gaps
from clusterica.ops.cpu import lasso as cpu_lasso

_CHECK_EVERY = 10  # steps between two looks at the duality gap, which costs as much as a step
_RELAXATION = 1.8
_STRONG = 4  # directions of the largest eigenvalues that are kept apart
_TRIED, _TRIALS = 256, 3  # rows and times that a weight is tried on before all rows begin
# The compiled solver takes a row at a time, and time that grows as the cube of its nonzeros; splitting takes
# products of all rows with a square of atoms, whatever the nonzeros. Over this times n_atoms^(2/3) on average
# the latter is faster.
_MANY = 1.5
# So many rows a device is faster with, however sparse their codes. The last ones, which take most steps, no
# longer fill it.
_ENOUGH_FOR_DEVICE, _LEFT_BY_DEVICE = 4096, 0.02
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
        Most sweeps over the atoms (coordinate descent on the host, where codes are sparse or rows few) or
        steps (splitting). Rows that splitting leaves, as where lengths differ by decades, have so many
        sweeps; if they are not sparse, so many steps before that, by themselves and in float64.
    tol : float
        A row is done when its duality gap is at most tol times ``0.5 <x, x>``, the objective of s = 0.
    """
    settings: dict[str, Any] = {"alpha": alpha, "max_iter": max_iter, "tol": tol}
    sparse = _density(B, energies, G, alpha) <= _MANY
    on_device = not (is_host_array(B) or is_cpu_tensor(B))
    if sparse and not (on_device and B.shape[0] >= _ENOUGH_FOR_DEVICE):
        return _by_descent(B, energies, G, **settings)
    leave = _LEFT_BY_DEVICE if on_device else 0.0
    found = lasso_of_gram_reference(B, energies, G, **settings, leave=leave)
    for solver in [_by_descent] if sparse else [_in_float64, _by_descent]:
        found = _solve_remaining(found, partial(solver, **settings), B, energies, G, tol)
    return found


def _solve_remaining(
    found: LassoCodes,
    solver: Callable[..., LassoCodes],
    B: Array,
    energies: Array,
    G: Array,
    tol: float,
) -> LassoCodes:
    """Return codes and gaps, with those of a solver for rows whose gap is over tol."""
    xp = namespace_of(B)
    is_done = found.gaps <= tol
    done, rest = xp.nonzero(is_done)[0], xp.nonzero(~is_done)[0]
    if rest.shape[0] == 0:
        return found
    again = solver(*(xp.take(a, rest, axis=0) for a in (B, energies)), G)
    order = xp.argsort(xp.concat([done, rest]))
    pairs = zip(found, again, strict=True)
    joined = (xp.concat([xp.take(old, done, axis=0), new], axis=0) for old, new in pairs)
    return LassoCodes(*(xp.take(a, order, axis=0) for a in joined))


def _in_float64(
    B: Array, energies: Array, G: Array, *, alpha: float, max_iter: int, tol: float
) -> LassoCodes:
    xp = namespace_of(B)
    wide = (xp.astype(a, xp.float64) for a in (B, energies, G))
    found = lasso_of_gram_reference(*wide, alpha=alpha, max_iter=max_iter, tol=tol)
    return LassoCodes(*(xp.astype(a, B.dtype) for a in found))


def _by_descent(
    B: Array, energies: Array, G: Array, *, alpha: float, max_iter: int, tol: float
) -> LassoCodes:
    """Coordinate descent on the host, row by row; rows of a device on all threads."""
    B_host, energies_host, G_host = (to_host(a) for a in (B, energies, G))

    def solve(part: slice) -> tuple[np.ndarray, np.ndarray]:
        args = B_host[part], energies_host[part], G_host
        return cpu_lasso.lasso(*args, alpha=alpha, max_iter=max_iter, tol=tol)

    if is_host_array(B):  # by one of the threads
        return LassoCodes(*solve(slice(None)))
    size = -(-len(B_host) // active_config().n_threads)
    parts = [slice(start, start + size) for start in range(0, len(B_host), size)]
    found = list(in_order(solve, ((part,) for part in parts)))
    return LassoCodes(*(to_like(np.concatenate(a), B) for a in zip(*found, strict=True)))


def lasso_of_gram_reference(
    B: Array,
    energies: Array,
    G: Array,
    *,
    alpha: float,
    max_iter: int,
    tol: float,
    leave: float = 0.0,
) -> LassoCodes:
    """Splitting (ADMM, Boyd et al., 2011) on all rows at once; rows leave the batch when they are done.

    It ends when no more than the share `leave` of the rows is not done.

    The least squares and the penalty get codes of their own, S and Z, which are pulled together with the
    weight ρ. Products with ``(G + ρ I)^-1`` do away with the conditioning of G: all products of a kernel
    may be near one, and gradient steps then take thousands.
    """
    xp = namespace_of(B)
    split = _first_weight(B, G, alpha)
    Z = U = xp.zeros_like(B)
    where, done = xp.arange(B.shape[0], device=B.device), []
    fewest = leave * B.shape[0]
    for i in range(max_iter):
        Z, U = split.step(B, Z, U)
        if (i + 1) % _CHECK_EVERY and i + 1 < max_iter:
            continue
        gaps = duality_gaps(Z, B, B - Z @ G, energies, alpha)
        is_done = gaps <= tol
        n_done = int(xp.sum(xp.astype(is_done, xp.int64)))
        if i + 1 == max_iter or gaps.shape[0] - n_done <= fewest:
            is_done, n_done = xp.ones_like(is_done), gaps.shape[0]
        if 4 * n_done >= gaps.shape[0]:  # few finished rows are not worth the copies
            out, rest = xp.nonzero(is_done)[0], xp.nonzero(~is_done)[0]
            done.append([xp.take(a, out, axis=0) for a in (where, Z, gaps)])
            if rest.shape[0] == 0:
                break
            B, Z, U, energies, where = (
                xp.take(a, rest, axis=0) for a in (B, Z, U, energies, where)
            )
        if i < _LAST_CHANGE:
            split, U = _reweighted(split, Z, U)
    where, Z, gaps = (xp.concat(parts, axis=0) for parts in zip(*done, strict=True))
    order = xp.argsort(where)
    return LassoCodes(xp.take(Z, order, axis=0), xp.take(gaps, order, axis=0))


class _Split:
    """Steps of splitting with one weight ρ.

    The products of a kernel may be near one, so that G has an eigenvalue as large as its number of atoms.
    Along such directions the products of rows with ``(G + ρ I)^-1`` are small differences of large numbers,
    of which float32 leaves little. So they are taken out of the rows first, and multiplied apart.
    """

    def __init__(self, G: Array, alpha: float, rho: float) -> None:
        xp = namespace_of(G)
        self.G, self.alpha, self.rho = G, alpha, rho
        wide = xp.astype(G, xp.float64)
        identity = xp.eye(G.shape[0], dtype=xp.float64, device=G.device)
        inverse = xp.linalg.inv(wide + rho * identity)
        strong = _strong_directions(wide)
        self.largest_rho = _largest_weight(wide, strong)
        self.inverse, self.strong, self.of_strong = (
            xp.astype(M, G.dtype) for M in (inverse, strong, strong.T @ inverse)
        )

    def step(self, B: Array, Z: Array, U: Array) -> tuple[Array, Array]:
        """Return the codes of the penalty, and the multipliers over ρ, after a step."""
        P = B + self.rho * (Z - U)
        along = P @ self.strong
        S = (P - along @ self.strong.T) @ self.inverse + along @ self.of_strong
        V = _RELAXATION * S + (1 - _RELAXATION) * Z + U
        most = self.alpha / self.rho
        U = namespace_of(V).clip(V, min=-most, max=most)
        return V - U, U


def _strong_directions(G: Array) -> Array:
    """Return orthonormal directions, one a column, that hold the largest eigenvalues nearly whole."""
    xp = namespace_of(G)
    n = G.shape[0]
    start = np.random.default_rng(0).standard_normal((n, min(n, _STRONG)))
    found = xp.asarray(start, dtype=G.dtype, device=G.device)
    for _ in range(2):
        found = xp.linalg.qr(G @ found)[0]
    return found


def _largest_weight(G: Array, strong: Array) -> float:
    """Return the largest weight ρ that still converges fast.

    That is near the mean eigenvalue, and below it where a few directions hold nearly all of G.
    """
    xp = namespace_of(G)
    size = _size(G)
    rest = size - float(xp.sum(strong * (G @ strong))) / G.shape[0]
    return 4 * math.sqrt(size * max(rest, 0.01 * size))


def _first_weight(B: Array, G: Array, alpha: float) -> _Split:
    """Return a splitting whose weight some steps on a few rows have found."""
    xp = namespace_of(B)
    split = _Split(G, alpha, _size(G))
    few = B[:: max(1, B.shape[0] // _TRIED), :]
    Z = U = xp.zeros_like(few)
    for _ in range(_TRIALS):
        for _ in range(_CHECK_EVERY):
            Z, U = split.step(few, Z, U)
        split, U = _reweighted(split, Z, U)
    return split


def _size(G: Array) -> float:
    """Return the mean squared length of an atom, over 0."""
    xp = namespace_of(G)
    return max(float(xp.mean(xp.linalg.diagonal(G))), float(xp.finfo(G.dtype).smallest_normal))


def _reweighted(split: _Split, Z: Array, U: Array) -> tuple[_Split, Array]:
    """Return the splitting for these codes, and the multipliers over its ρ.

    It converges fast where multipliers, up to alpha / ρ, are about half as large as codes. Early codes are
    many and small, and would raise ρ too far without a limit. A ρ that is near stays.
    """
    xp = namespace_of(Z)
    total = float(xp.sum(xp.abs(Z), dtype=xp.float64))
    if total == 0:
        return split, U
    mean = total / max(1, int(xp.sum(xp.astype(Z != 0, xp.int64))))
    rho = min(split.largest_rho, 2 * split.alpha / mean)
    if 0.5 <= rho / split.rho <= 2:
        return split, U
    return _Split(split.G, split.alpha, rho), U * (split.rho / rho)


def _density(B: Array, energies: Array, G: Array, alpha: float) -> float:
    """Return the nonzeros of codes of a few rows, roughly found, over n_atoms^(2/3); 0 for a few rows."""
    if B.shape[0] < _FEWEST_ROWS:
        return 0.0
    few = slice(0, None, B.shape[0] // 4)
    args = (to_host(a) for a in (B[few, :], energies[few], G))
    codes, _ = cpu_lasso.lasso(*args, alpha=alpha, max_iter=100, tol=0.03)
    return float((codes != 0).sum(axis=1).mean()) / G.shape[0] ** (2 / 3)
