"""Lasso codes of a NumPy block, ``min_s 0.5 |x - Dᵀ s|^2 + alpha |s|_1``, row by row, all of it compiled.

Atoms come into use as they violate optimality, ``|D (x - Dᵀ s)| <= alpha``. Coordinate descent on the
atoms in use finds out which codes are zero and what signs the others have; Newton steps then solve for
those. Everything is read from the Gram matrix and the responses D x.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from clusterica.arrays import Array, pieces
from clusterica.ops.cpu.compiling import compiled, compiled_sum

# Rounding of the responses of a residual, in units in the last place of the largest response of the row.
GAP_ROUNDING = 16


class LassoCodes(NamedTuple):
    """Codes, shape (n_rows, n_atoms), and the relative duality gap of every row, shape (n_rows,)."""

    codes: Array
    gaps: Array


def lasso(
    B: np.ndarray,
    energies: np.ndarray,
    G: np.ndarray,
    *,
    alpha: float,
    max_iter: int,
    tol: float,
) -> LassoCodes:
    """Return codes and gaps; see :func:`clusterica.ops.gram_lasso.lasso_of_gram`."""
    codes, gaps = np.zeros_like(B), np.empty(B.shape[0], B.dtype)
    eps = np.finfo(B.dtype).eps
    B, G = np.ascontiguousarray(B), np.ascontiguousarray(G, B.dtype)
    for part in pieces(B.shape[0]):
        settings = (float(alpha), max_iter, tol, eps)
        _lasso(B[part], energies[part], G, *settings, codes[part], gaps[part])
    return LassoCodes(codes, gaps)


@compiled
def _lasso(B, energies, G, alpha, max_iter, tol, eps, codes, gaps):  # type: ignore[no-untyped-def]
    n, k = B.shape
    q, active = np.empty(k, B.dtype), np.empty(k, np.int64)
    # Only as much of these is ever touched as the atoms in use need.
    H, L, small = np.empty(k * k), np.empty(k * k), np.empty((5, k))
    for i in range(n):
        b, s, energy = B[i], codes[i], float(energies[i])
        enough = tol * energy / 2
        q[:] = b
        a, n_sweeps, rounding = 0, 0, 0.0
        while True:
            gap, largest = _gap(s, b, q, active[:a], energy, alpha, rounding)
            if gap <= enough or n_sweeps >= max_iter:
                break
            if n_sweeps == 0:
                rounding = GAP_ROUNDING * eps * largest
            a = _take_in(s, q, alpha, largest, active, a)
            at, x, r = active[:a], small[0, :a], small[1, :a]
            M = H[: a * a].reshape(a, a)
            # In float64, whatever the rows are: Newton steps need the digits where atoms are alike.
            for p in range(a):
                small[0, p], small[1, p], small[2, p] = s[at[p]], q[at[p]], b[at[p]]
                row = G[at[p]]
                for f in range(a):
                    M[p, f] = row[at[f]]
            n_sweeps += _descend(
                M,
                small[2, :a],
                x,
                r,
                energy,
                alpha,
                max(enough / 2, 0.2 * gap),  # better does not pay while atoms are still missing
                rounding,
                64 * eps,  # a pivot under this is rounding: the atoms before it span the atom
                max_iter - n_sweeps,
                L[: a * a].reshape(a, a),
                small[3:],
            )
            _residual(G, b, at, x, s, q)
        gaps[i] = max(0.0, 2 * gap / energy) if energy > 0 else 0.0


@compiled_sum
def _gap(s, b, q, active, energy, alpha, rounding):  # type: ignore[no-untyped-def]
    """Return the gap of codes that are zero outside of `active`, minus what may be rounding, and max |q|.

    The formula is explained at :func:`clusterica.ops.code.duality_gaps`.
    """
    largest = q.dtype.type(0)
    for j in range(q.shape[0]):
        largest = max(largest, abs(q[j]))
    length, inner, explained = 0.0, 0.0, 0.0
    for j in active:
        length += abs(s[j])
        inner += s[j] * q[j]
        explained += s[j] * b[j]
    c = alpha / max(alpha, float(largest))
    residual = energy - explained - inner
    gap = (1 - c) ** 2 * residual / 2 + alpha * length - c * inner
    return gap - rounding * length, float(largest)


@compiled
def _take_in(s, q, alpha, largest, active, a):  # type: ignore[no-untyped-def]
    """Keep the atoms with a code, add those that violate optimality most, and return how many there are."""
    kept = 0
    for p in range(a):
        j = active[p]
        if s[j] != 0:
            active[kept] = j
            kept += 1
    # An atom comes in if it violates optimality at least half as much as the worst one does: with 1 in place
    # of 0.5 they would come one by one, with 0 all at once.
    bound = alpha + 0.5 * (largest - alpha)
    # No more than ten come in, or than are in use: all responses to a wide kernel are near the largest.
    most = max(10, kept)
    while bound < largest * (1 - 1e-6):
        n_over = 0
        for j in range(q.shape[0]):
            if s[j] == 0 and abs(q[j]) >= bound:
                n_over += 1
        if n_over <= most:
            break
        bound = (bound + largest) / 2
    for j in range(q.shape[0]):
        if s[j] == 0 and abs(q[j]) > alpha and abs(q[j]) >= bound:
            active[kept] = j
            kept += 1
    return kept


@compiled
def _residual(G, b, at, x, s, q):  # type: ignore[no-untyped-def]
    """Write the codes x of the atoms in use to s, and the responses of the residual to q."""
    q[:] = b
    for p in range(at.shape[0]):
        value = s.dtype.type(x[p])
        s[at[p]] = value
        row = G[at[p]]
        for f in range(q.shape[0]):
            q[f] -= value * row[f]


@compiled
def _descend(  # type: ignore[no-untyped-def]
    H, b, x, r, energy, alpha, enough, rounding, singular, max_sweeps, L, small
):
    """Solve for the codes x of the atoms in use, to a gap of `enough`; return the number of sweeps.

    Coordinate descent alone is slow where atoms are alike. A Newton step ends where the first code
    reaches zero; the next one goes on without that code, until one is not cut short.
    """
    everything = np.arange(x.shape[0])
    n_sweeps = 0
    while n_sweeps < max_sweeps:
        for _ in range(4):  # cheap beside a Newton step, which needs the right signs to be worth it
            # Minimise over one code after the other; r are the responses of the residual.
            for p in range(x.shape[0]):
                v = r[p] + H[p, p] * x[p]
                new = 0.0
                if v > alpha:
                    new = (v - alpha) / H[p, p]
                elif v < -alpha:
                    new = (v + alpha) / H[p, p]
                delta = new - x[p]
                if delta != 0:
                    x[p] = new
                    for f in range(x.shape[0]):
                        r[f] -= delta * H[p, f]
        n_sweeps += 4
        if _gap(x, b, r, everything, energy, alpha, rounding)[0] <= enough:
            break
        while not _newton(H, x, r, alpha, singular, L, small[0], small[1].view(np.int64)):
            pass
        if _gap(x, b, r, everything, energy, alpha, rounding)[0] <= enough:
            break
    return n_sweeps


@compiled
def _newton(H, x, r, alpha, singular, L, y, where):  # type: ignore[no-untyped-def]
    """Move the nonzero codes to the minimum for their signs; return False if one became zero on the way."""
    m, regular = _factor(H, x, r, alpha, singular, L, y, where)
    # Solve Lᵀ z = y in place, from the last unknown to the first.
    for p in range(m - 1, -1, -1):
        y[p] /= L[p, p]
        for g in range(p):
            y[g] -= L[p, g] * y[p]
    if not regular:
        # Trade the atom for the others that span it: the fit stays, and |x|_1 must not rise.
        y[m] = 1.0
        slope = 0.0
        for g in range(m + 1):
            slope += y[g] * np.sign(x[where[g]])
        if slope > 0 or (slope == 0 and x[where[m]] > 0):
            for g in range(m + 1):
                y[g] = -y[g]
        m += 1
    # As far as the minimum, or to where the first code changes its sign: beyond, the signs no longer hold.
    step, first = (1.0 if regular else np.inf), -1
    for g in range(m):
        if y[g] * x[where[g]] < 0 and abs(x[where[g]]) < step * abs(y[g]):
            step, first = abs(x[where[g]] / y[g]), g
    for g in range(m):
        j = where[g]
        delta = step * y[g] if g != first else -x[j]
        x[j] += delta
        for f in range(x.shape[0]):
            r[f] -= delta * H[j, f]
    return first < 0


@compiled_sum
def _factor(H, x, r, alpha, singular, L, y, where):  # type: ignore[no-untyped-def]
    """Factor the Gram matrix of the nonzero codes, ``L Lᵀ``, and solve ``L y = gradient``.

    Return how many atoms were factored, and whether all: an atom that those before it span ends it.
    Its row of L is then put into y with a minus, and it stands last in `where`.
    """
    m = 0
    for p in range(x.shape[0]):
        if x[p] == 0:
            continue
        row = L[m]
        pivot = H[p, p]
        for g in range(m):
            total = H[p, where[g]]
            for h in range(g):
                total -= row[h] * L[g, h]
            row[g] = total / L[g, g]
            pivot -= row[g] * row[g]
        where[m] = p
        if pivot <= singular * H[p, p]:
            for g in range(m):
                y[g] = -row[g]
            return m, False
        row[m] = np.sqrt(pivot)
        total = r[p] - alpha * np.sign(x[p])
        for g in range(m):
            total -= row[g] * y[g]
        y[m] = total / row[m]
        m += 1
    return m, True
