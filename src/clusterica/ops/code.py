"""Codes of a block of rows by a dictionary, ``f(x; D)``: nearest atom, triangle, thresholds, lasso, OMP.

This is the reference text, in the array API; where a NumPy block has a compiled twin in
:mod:`clusterica.ops.cpu`, it goes there. A dictionary has one atom a row, shape (n_atoms, n_features).
"""

from __future__ import annotations

import array_api_extra as xpx
import numpy as np

from clusterica.arrays import Array, is_host_array, namespace_of
from clusterica.ops.assign import assign
from clusterica.ops.cpu import code as cpu
from clusterica.ops.cpu import lasso as cpu_lasso
from clusterica.ops.cpu.lasso import LassoCodes
from clusterica.ops.linalg import far_unit, inverse_lengths, row_energies
from clusterica.ops.rules import EUCLIDEAN


def center(D: Array) -> tuple[Array, Array]:
    """Return the atoms about their mean, and the mean.

    Distances do not change if the mean is taken from atoms and rows, and the difference of squares
    that they are computed from keeps its digits when the data lies far from the origin.
    """
    mean = namespace_of(D).mean(D, axis=0)
    return D - mean, mean


def one_hot(X: Array, D: Array, shift: Array) -> Array:
    """Return 1 for the nearest atom and 0 for all others; D and shift come from `center`."""
    labels = assign(X, D, shift, rule=EUCLIDEAN).labels
    if is_host_array(X):
        codes = np.zeros((X.shape[0], D.shape[0]), X.dtype)
        codes[np.arange(X.shape[0]), labels] = 1
        return codes
    return xpx.one_hot(labels, D.shape[0], dtype=X.dtype, xp=namespace_of(X))


def triangle(X: Array, D: Array, shift: Array) -> Array:
    """Return ``max(0, mean(z) - z_k)`` with ``z_k = |x - d_k|``; D and shift come from `center`."""
    if is_host_array(X):
        return cpu.triangle(X, D, shift)
    return triangle_reference(X, D, shift)


def triangle_reference(X: Array, D: Array, shift: Array) -> Array:
    """Reference in the array API; the compiled version is tested against it."""
    xp = namespace_of(X)
    X = X - shift
    squares = row_energies(X)[:, None] + row_energies(D)[None, :] - 2 * (X @ D.T)
    Z = xp.sqrt(xp.clip(squares, min=0))
    return xp.clip(xp.mean(Z, axis=1, keepdims=True) - Z, min=0)


def soft_threshold(X: Array, D: Array, *, alpha: float, two_sided: bool) -> Array:
    """Return ``max(0, D x - alpha)`` and, if two-sided, ``max(0, -D x - alpha)`` in columns after it."""
    if is_host_array(X):
        return cpu.soft_threshold(X, D, alpha=alpha, two_sided=two_sided)
    return soft_threshold_reference(X, D, alpha=alpha, two_sided=two_sided)


def soft_threshold_reference(X: Array, D: Array, *, alpha: float, two_sided: bool) -> Array:
    """Reference in the array API; the compiled version is tested against it."""
    xp = namespace_of(X)
    S = X @ D.T
    positive = xp.clip(S - alpha, min=0)
    return xp.concat([positive, xp.clip(-S - alpha, min=0)], axis=1) if two_sided else positive


def sigmoid(X: Array, D: Array, *, bias: float) -> Array:
    """Return ``1 / (1 + exp(-D x + bias))``."""
    # As a hyperbolic tangent, which does not overflow.
    return namespace_of(X).tanh((X @ D.T - bias) / 2) / 2 + 0.5


def split_signs(S: Array) -> Array:
    """Return the positive parts ``max(0, S)`` and in columns after them the negative, ``max(0, -S)``."""
    xp = namespace_of(S)
    return xp.concat([xp.clip(S, min=0), xp.clip(-S, min=0)], axis=1)


# --- Lasso -----------------------------------------------------------------------------------------


def gram_and_curvature(D: Array) -> tuple[Array, Array]:
    """Return the Gram matrix ``D Dᵀ`` and its largest eigenvalue, of shape (1,)."""
    xp = namespace_of(D)
    G = D @ D.T
    # Both products have the same largest eigenvalue; that of the smaller one costs less.
    small = G if D.shape[0] <= D.shape[1] else D.T @ D
    return G, xp.linalg.eigvalsh(small)[-1:]


def lasso(
    X: Array, D: Array, G: Array, curvature: Array, *, alpha: float, max_iter: int, tol: float
) -> LassoCodes:
    """Return the codes that minimise ``0.5 |x - Dᵀ s|^2 + alpha |s|_1``.

    Parameters
    ----------
    X : (n_rows, n_features) array
    D : (n_atoms, n_features) array
    G, curvature : arrays
        What `gram_and_curvature` returns for D.
    alpha : float
        Weight of the penalty, over 0.
    max_iter : int
        Most sweeps over the atoms (NumPy: coordinate descent) or gradient steps (other libraries: FISTA).
    tol : float
        A row is done when its duality gap is at most tol times ``0.5 |x|^2``, the objective of s = 0.
    """
    # Rows whose squares are no numbers are coded in other units, with alpha in these units too: codes of
    # zero would pass for the best ones.
    unit = far_unit(X)
    if unit != 1:
        scaled = lasso(X / unit, D, G, curvature, alpha=alpha / unit, max_iter=max_iter, tol=tol)
        return LassoCodes(scaled.codes * unit, scaled.gaps)
    if is_host_array(X):
        args = (X @ D.T, row_energies(X), G)
        return cpu_lasso.lasso(*args, alpha=alpha, max_iter=max_iter, tol=tol)
    return lasso_reference(X, D, G, curvature, alpha=alpha, max_iter=max_iter, tol=tol)


def lasso_reference(
    X: Array, D: Array, G: Array, curvature: Array, *, alpha: float, max_iter: int, tol: float
) -> LassoCodes:
    """FISTA on all rows at once; rows leave the batch when they are done.

    Where the momentum points uphill it restarts, row by row (O'Donoghue and Candès, 2015), which
    makes the convergence linear.
    """
    xp = namespace_of(X)
    step = 1 / xp.where(curvature > 0, curvature, 1)  # a dictionary of zeros has no curvature
    B, energies = X @ D.T, row_energies(X)
    S = Y = xp.zeros_like(B)
    t = xp.ones_like(B[:, :1])
    # Finished rows leave the batch; `where` remembers their places.
    where, done = xp.arange(X.shape[0], device=X.device), []
    for i in range(max_iter):
        V = Y + step * (B - Y @ G)
        last, S = S, V - xp.clip(V, min=-alpha * step, max=alpha * step)
        uphill = xp.sum((Y - S) * (S - last), axis=1, keepdims=True) > 0
        t = xp.where(uphill, 1.0, t)
        t_next = (1 + xp.sqrt(1 + 4 * t * t)) / 2
        Y, t = S + ((t - 1) / t_next) * (S - last), t_next
        # Every ten steps: a look at the duality gap costs as much as a step.
        if (i + 1) % 10 and i + 1 < max_iter:
            continue
        gaps = duality_gaps(S, B, B - S @ G, energies, alpha)
        is_done = gaps <= tol if i + 1 < max_iter else xp.ones_like(gaps, dtype=xp.bool)
        n_done = int(xp.sum(xp.astype(is_done, xp.int64)))
        if 4 * n_done < gaps.shape[0]:
            continue  # few finished rows are not worth the copies
        out, rest = xp.nonzero(is_done)[0], xp.nonzero(~is_done)[0]
        done.append([xp.take(a, out, axis=0) for a in (where, S, gaps)])
        if rest.shape[0] == 0:
            break
        state = (xp.take(a, rest, axis=0) for a in (B, S, Y, t, energies, where))
        B, S, Y, t, energies, where = state
    where, S, gaps = (xp.concat(parts, axis=0) for parts in zip(*done, strict=True))
    order = xp.argsort(where)
    return LassoCodes(xp.take(S, order, axis=0), xp.take(gaps, order, axis=0))


def duality_gaps(S: Array, B: Array, Q: Array, energies: Array, alpha: float) -> Array:
    """Return the duality gap of every row, relative to ``0.5 |x|^2``; 0 for a row of zeros.

    With the residual r = x - Dᵀ s, its responses Q = D r, and B = D x. The dual point is ``c r``, with
    the largest c up to 1 that makes it feasible; the gap is then
    ``0.5 (1 - c)^2 |r|^2 + alpha |s|_1 - c <s, q>``, in which no large numbers cancel. What the
    rounding of Q can make of it is taken off, so that float32 ends the search where it has no more digits.
    """
    xp = namespace_of(S)
    c = alpha / xp.clip(xp.max(xp.abs(Q), axis=1), min=alpha)
    inner = xp.vecdot(S, Q)
    residual = energies - xp.vecdot(S, B) - inner
    rounding = cpu_lasso.GAP_ROUNDING * float(xp.finfo(S.dtype).eps) * xp.max(xp.abs(B), axis=1)
    penalty = (alpha - rounding) * xp.sum(xp.abs(S), axis=1)
    gap = xp.clip((1 - c) ** 2 * residual / 2 + penalty - c * inner, min=0)
    return xp.where(energies > 0, 2 * gap / xp.where(energies > 0, energies, 1.0), 0.0)


# --- Orthogonal matching pursuit -------------------------------------------------------------------


def unit_atoms(D: Array) -> tuple[Array, Array, Array]:
    """Return the atoms scaled to unit length, their Gram matrix, and one over their lengths."""
    inverse = inverse_lengths(D)
    unit = D * inverse[:, None]
    return unit, unit @ unit.T, inverse


def omp(X: Array, D: Array, G: Array, inverse: Array, *, n_nonzero: int) -> Array:
    """Return codes of at most n_nonzero atoms, chosen one by one and fitted by least squares.

    Parameters
    ----------
    X : (n_rows, n_features) array
    D, G, inverse : arrays
        What `unit_atoms` returns for a dictionary. Codes refer to the atoms before they were scaled.
    n_nonzero : int
        Most atoms of a row. There are fewer where the rest of the row is orthogonal to all atoms.
    """
    if is_host_array(X):
        return cpu.omp(X, D, G, inverse, n_nonzero=n_nonzero)
    return omp_reference(X, D, G, inverse, n_nonzero=n_nonzero)


def omp_reference(X: Array, D: Array, G: Array, inverse: Array, *, n_nonzero: int) -> Array:
    """All rows at once: the t-th step adds a t-th atom to every row.

    The chosen atoms are made orthonormal as they come: ``u_t`` is the t-th atom minus its projections,
    scaled to unit length. A step keeps ``V_t = D u_t``, the responses of u_t, from which follow the
    Cholesky factor of the chosen atoms, ``L[t, i] = <d_t, u_i> = V_i[j_t]``, and the responses of what
    is left of the row, ``Q <- Q - <x, u_t> V_t``.
    """
    xp = namespace_of(X)
    Q = X @ D.T
    n, k = Q.shape
    rounding = cpu.ROUNDING * float(xp.finfo(Q.dtype).eps)
    smallest = rounding * xp.max(xp.abs(Q), axis=1, keepdims=True)  # less is left of a row: nothing
    V = xp.zeros((n, n_nonzero, k), dtype=Q.dtype, device=Q.device)
    L = xp.zeros((n, n_nonzero, n_nonzero), dtype=Q.dtype, device=Q.device)
    z = xp.zeros((n, n_nonzero), dtype=Q.dtype, device=Q.device)
    chosen = []
    for t in range(n_nonzero):
        j = xp.argmax(xp.abs(Q), axis=1)[:, None]
        q = xp.take_along_axis(Q, j, axis=1)
        at_j = xp.take_along_axis(V, xp.broadcast_to(j[:, :, None], (n, n_nonzero, 1)), axis=2)
        v = xp.take(G, j[:, 0], axis=0) - (xp.matrix_transpose(at_j) @ V)[:, 0, :]
        pivot = xp.take_along_axis(v, j, axis=1)
        # Nothing of the row is left, or only rounding is left of the atom: the row is done.
        go_on = (xp.abs(q) > smallest) & (pivot > rounding)
        length = xp.sqrt(xp.where(go_on, pivot, 1.0))
        v = xp.where(go_on, v / length, 0.0)
        z[:, t : t + 1] = xp.where(go_on, q / length, 0.0)
        Q = Q - z[:, t : t + 1] * v
        V[:, t, :] = v
        L[:, t, :] = xp.where(go_on, at_j[:, :, 0], 0.0)
        L[:, t, t] = length[:, 0]
        chosen.append(j)
    # Solve Lᵀ s = z for every row, from the last unknown to the first, by hand: the array API has no
    # triangular solver, and L has only n_nonzero rows.
    for t in reversed(range(n_nonzero)):
        z[:, t] = z[:, t] / L[:, t, t]
        z[:, :t] = z[:, :t] - L[:, t, :t] * z[:, t : t + 1]
    return placed(z, chosen, k) * inverse


def placed(s: Array, chosen: list[Array], k: int) -> Array:
    """Return codes of k atoms with the value ``s[i, t]`` at the atom ``chosen[t][i]``."""
    xp = namespace_of(s)
    atoms = xp.arange(k, device=s.device)
    codes = xp.zeros((s.shape[0], k), dtype=s.dtype, device=s.device)
    for t, j in enumerate(chosen):
        # Added, since a row that is done may name one of its atoms again, with the value 0.
        codes = codes + xp.where(j == atoms, s[:, t : t + 1], 0.0)
    return codes
