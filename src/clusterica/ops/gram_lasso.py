"""Lasso codes from products alone, ``min_s 0.5 sᵀ G s - bᵀ s + alpha |s|_1``, which may be a kernel's.

With ``b = k(W, x)`` and ``G = k(W, W)`` that is ``0.5 |φ(x) - Wᵀ s|² + alpha |s|_1`` up to a constant.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from clusterica.arrays import (
    Array,
    is_cpu_tensor,
    is_host_array,
    namespace_of,
    pieces,
    stop_if_given_up,
)
from clusterica.ops.code import duality_gaps
from clusterica.ops.cpu import lasso as cpu_lasso
from clusterica.ops.cpu.lasso import LassoCodes

# Coordinate descent solves one row at a time, in a time that grows as the cube of its nonzeros. Splitting
# multiplies all rows by an n_atoms x n_atoms matrix, whatever the nonzeros. So they break even at a multiple
# of n_atoms^(2/3) nonzeros. CPU time of descent over that of splitting, with 512 rows and tol 1e-5: with 100
# atoms 0.5 at a multiple of 1.45 and 1.8 at 2.1, with 400 atoms 0.3 at 1.3 and 1.2 at 1.9.
_MANY = 1.5
# From this many rows on a device is faster by splitting even where codes are sparse. On an H200 with 1600
# atoms and 32,000 rows a row took 4.8 to 32 us by splitting, and 30 to 111 us on 16 threads of the host.
_ENOUGH_FOR_DEVICE = 4096
# Steps of splitting between two checks of the duality gap, which costs as much as a step.
_CHECK_EVERY = 10

Solver = Callable[..., LassoCodes]


def lasso_of_gram(
    B: Array,
    energies: Array,
    G: Array,
    *,
    alpha: float,
    max_iter: int,
    tol: float,
    descend: Solver | None = None,
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
        Maximum number of sweeps over the atoms (coordinate descent) or of steps (splitting). Rows that
        splitting does not solve, such as those much shorter or longer than the others, get as many steps
        again in float64 if their codes are not sparse, and then as many sweeps of coordinate descent.
    tol : float
        A row is solved when its duality gap is at most tol times ``0.5 <x, x>``, the objective of s = 0.
    descend : callable, optional
        Coordinate descent for tensors, which the compiled one does not take: ``descend(B, energies, G,
        alpha=..., max_iter=..., tol=...)`` returns :class:`LassoCodes` where B is, such as
        :func:`clusterica.kernels.solvers.descend_on_host`. Without it tensors are solved by splitting only.
        NumPy blocks do not need it.
    """
    settings: dict[str, Any] = {"alpha": alpha, "max_iter": max_iter, "tol": tol}
    if is_host_array(B):
        descend = cpu_lasso.lasso
    on_device = not (is_host_array(B) or is_cpu_tensor(B))
    sparse = descend is not None and _is_sparse(B, energies, G, alpha, descend)
    if descend is not None and sparse and not (on_device and B.shape[0] >= _ENOUGH_FOR_DEVICE):
        return descend(B, energies, G, **settings)
    # The rows that take the most steps do not fill a device: the last 2 % go to coordinate descent.
    leave = 0.02 if on_device and descend is not None else 0.0
    found = lasso_of_gram_reference(B, energies, G, **settings, leave=leave)
    xp = namespace_of(B)

    def in_float64(*products: Array, **settings: Any) -> LassoCodes:
        wide = (xp.astype(a, xp.float64) for a in products)
        again = lasso_of_gram_reference(*wide, **settings)
        return LassoCodes(*(xp.astype(a, B.dtype) for a in again))

    for solver in (None if sparse else in_float64, descend):
        is_done = found.gaps <= tol
        done, rest = xp.nonzero(is_done)[0], xp.nonzero(~is_done)[0]
        if solver is None or rest.shape[0] == 0:
            continue
        again = solver(xp.take(B, rest, axis=0), xp.take(energies, rest, axis=0), G, **settings)
        # Put the rows back in their order: those that were solved before, and those solved now.
        order = xp.argsort(xp.concat([done, rest]))
        pairs = zip(found, again, strict=True)
        joined = (xp.concat([xp.take(old, done, axis=0), new], axis=0) for old, new in pairs)
        found = LassoCodes(*(xp.take(a, order, axis=0) for a in joined))
    return found


def _is_sparse(B: Array, energies: Array, G: Array, alpha: float, descend: Solver) -> bool:
    """Return whether coordinate descent is faster, from rough codes of four or five rows."""
    if B.shape[0] < 32:
        return True  # so few rows do not repay the inverse of G + ρ I
    few = slice(0, None, B.shape[0] // 4)
    codes = descend(B[few, :], energies[few], G, alpha=alpha, max_iter=100, tol=0.03).codes
    xp = namespace_of(codes)
    nonzeros = float(xp.sum(xp.astype(codes != 0, xp.int64))) / codes.shape[0]
    return bool(nonzeros <= _MANY * G.shape[0] ** (2 / 3))


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
    """Solve all rows at once by splitting (ADMM, Boyd et al., 2011); solved rows leave the batch.

    It ends when at most the share `leave` of the rows is left.

    The least squares and the penalty have codes of their own, S and Z, which the weight ρ pulls together.
    Steps multiply by ``(G + ρ I)^-1``, so that the conditioning of G does not matter: the products of a
    kernel may all be near one, and gradient steps would then need thousands of iterations.
    """
    xp = namespace_of(B)
    # The weight is adapted by some steps on a few hundred rows: only the mean size of codes is needed, and it
    # adapts later on.
    split = _Split(G, alpha, _size(G))
    few = B[:: max(1, B.shape[0] // 256), :]
    Z = U = xp.zeros_like(few)
    for _ in range(3):
        for _ in range(_CHECK_EVERY):
            Z, U = split.step(few, Z, U)
        split, U = _reweighted(split, Z, U)
    Z = U = xp.zeros_like(B)
    where, done = xp.arange(B.shape[0], device=B.device), []
    fewest = leave * B.shape[0]
    for i in range(max_iter):
        Z, U = split.step(B, Z, U)
        if (i + 1) % _CHECK_EVERY and i + 1 < max_iter:
            continue
        (gaps,) = _in_pieces(
            lambda Z, B, energies: (duality_gaps(Z, B, B - Z @ G, energies, alpha),), Z, B, energies
        )
        is_done = gaps <= tol
        n_done = int(xp.sum(xp.astype(is_done, xp.int64)))
        if i + 1 == max_iter or gaps.shape[0] - n_done <= fewest:
            is_done, n_done = xp.ones_like(is_done), gaps.shape[0]
        # A few solved rows are not worth the copies.
        if 4 * n_done >= gaps.shape[0]:
            out, rest = xp.nonzero(is_done)[0], xp.nonzero(~is_done)[0]
            done.append([xp.take(a, out, axis=0) for a in (where, Z, gaps)])
            if rest.shape[0] == 0:
                break
            B, Z, U, energies, where = (
                xp.take(a, rest, axis=0) for a in (B, Z, U, energies, where)
            )
        # Later the weight ρ stays: with a fixed one the method is known to converge.
        if i < 100:
            split, U = _reweighted(split, Z, U)
    where, Z, gaps = (xp.concat(parts, axis=0) for parts in zip(*done, strict=True))
    order = xp.argsort(where)
    return LassoCodes(xp.take(Z, order, axis=0), xp.take(gaps, order, axis=0))


class _Split:
    """Steps of splitting with one weight ρ.

    The products of a kernel may all be near one, and G then has an eigenvalue as large as the number of
    atoms. Along such directions the products of rows with ``(G + ρ I)^-1`` are small differences of large
    numbers, which float32 can't hold. So these directions are taken out of the rows and multiplied apart.
    """

    def __init__(self, G: Array, alpha: float, rho: float) -> None:
        stop_if_given_up()  # 1600 atoms take 0.3 s
        xp = namespace_of(G)
        self.G, self.alpha, self.rho = G, alpha, rho
        wide = xp.astype(G, xp.float64)
        identity = xp.eye(G.shape[0], dtype=xp.float64, device=G.device)
        inverse = xp.linalg.inv(wide + rho * identity)
        # Orthonormal directions that contain nearly all of the largest eigenvalues, by subspace iteration.
        # Four of them. Without any, rows of 400 atoms with products near one never reached tol in float32.
        start = np.random.default_rng(0).standard_normal((G.shape[0], min(G.shape[0], 4)))
        strong = xp.asarray(start, dtype=wide.dtype, device=G.device)
        for _ in range(2):
            strong = xp.linalg.qr(wide @ strong)[0]
        # The largest weight that still converges fast is near the mean eigenvalue, and below it where a few
        # directions contain nearly all of G.
        size = _size(wide)
        rest = size - float(xp.sum(strong * (wide @ strong))) / G.shape[0]
        self.largest_rho = 4 * math.sqrt(size * max(rest, 0.01 * size))
        self.inverse, self.strong, self.of_strong = (
            xp.astype(M, G.dtype) for M in (inverse, strong, strong.T @ inverse)
        )

    def step(self, B: Array, Z: Array, U: Array) -> tuple[Array, Array]:
        """Return the codes of the penalty, and the multipliers over ρ, after a step."""
        Z, U = _in_pieces(self._step, B, Z, U)
        return Z, U

    def _step(self, B: Array, Z: Array, U: Array) -> tuple[Array, Array]:
        P = B + self.rho * (Z - U)
        along = P @ self.strong
        S = (P - along @ self.strong.T) @ self.inverse + along @ self.of_strong
        # Over-relaxation by 1.8: Boyd et al. recommend 1.5 to 1.8.
        V = 1.8 * S - 0.8 * Z + U
        most = self.alpha / self.rho
        U = namespace_of(V).clip(V, min=-most, max=most)
        return V - U, U


def _in_pieces(fn: Callable[..., tuple[Array, ...]], *rows: Array) -> tuple[Array, ...]:
    """Return ``fn(*rows)``; on the host of pieces of the rows in turn, so that Ctrl-C is answered between."""
    n_rows, n_atoms = rows[0].shape
    # A billion products take one core less than 0.1 s.
    size = max(64, 2**30 // n_atoms**2) if is_host_array(rows[0]) else n_rows
    if n_rows <= size:
        stop_if_given_up()
        return fn(*rows)
    parts = [fn(*(a[part] for a in rows)) for part in pieces(n_rows, size)]
    return tuple(np.concatenate(joined) for joined in zip(*parts, strict=True))


def _size(G: Array) -> float:
    """Return the mean squared length of an atom, over 0."""
    xp = namespace_of(G)
    return max(float(xp.mean(xp.linalg.diagonal(G))), float(xp.finfo(G.dtype).smallest_normal))


def _reweighted(split: _Split, Z: Array, U: Array) -> tuple[_Split, Array]:
    """Return the splitting whose weight suits these codes, and the multipliers over its ρ.

    It converges fast where the multipliers, up to alpha / ρ, are about half as large as the codes. Early
    codes are many and small, so that ρ needs an upper limit. Within a factor of two ρ stays: a new one costs
    an inverse.
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
