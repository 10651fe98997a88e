"""Codes of a NumPy block, compiled: products by tiles that stay in cache, matching pursuit row by row.

The signatures, and what they compute, are those of :mod:`clusterica.ops.code`.
"""

from __future__ import annotations

import numpy as np

from clusterica.arrays import pieces
from clusterica.ops.cpu.compiling import compiled, compiled_sum
from clusterica.ops.linalg import row_energies

# What is under this many units in the last place, relative to what it was computed from, is rounding.
ROUNDING = 64


def soft_threshold(X: np.ndarray, D: np.ndarray, *, alpha: float, two_sided: bool) -> np.ndarray:
    """Return the thresholded responses; see :func:`clusterica.ops.code.soft_threshold`."""
    X, D = np.ascontiguousarray(X), np.ascontiguousarray(D, X.dtype)
    codes = np.empty((X.shape[0], D.shape[0] * (2 if two_sided else 1)), X.dtype)
    _soft_threshold(X, D, X.dtype.type(alpha), _tile_rows(D), codes)
    return codes


def triangle(X: np.ndarray, D: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """Return the triangle codes; see :func:`clusterica.ops.code.triangle`."""
    X, D = np.ascontiguousarray(X), np.ascontiguousarray(D, X.dtype)
    codes = np.empty((X.shape[0], D.shape[0]), X.dtype)
    _triangle(X, D, shift.astype(X.dtype, copy=False), row_energies(D), _tile_rows(D), codes)
    return codes


def omp(
    X: np.ndarray, D: np.ndarray, G: np.ndarray, inverse: np.ndarray, *, n_nonzero: int
) -> np.ndarray:
    """Return the codes; see :func:`clusterica.ops.code.omp`."""
    B: np.ndarray = X @ D.T
    codes = np.zeros_like(B)
    G, rounding = np.ascontiguousarray(G), ROUNDING * np.finfo(B.dtype).eps
    for part in pieces(B.shape[0]):
        _omp(B[part], G, inverse, n_nonzero, rounding, codes[part])
    return codes


def _tile_rows(D: np.ndarray) -> int:
    # One MiB of products stays in the cache between the multiplication and what is done with them.
    return int(np.clip(2**20 // (D.shape[0] * D.itemsize), 32, 1024))


@compiled_sum
def _soft_threshold(X, D, alpha, size, codes):  # type: ignore[no-untyped-def]
    n, k = X.shape[0], D.shape[0]
    zero = alpha - alpha
    S = np.empty(size * k, X.dtype)
    for start in range(0, n, size):
        stop = min(start + size, n)
        tile = S[: (stop - start) * k].reshape(stop - start, k)
        np.dot(X[start:stop], D.T, tile)
        for i in range(stop - start):
            row = codes[start + i]
            mark = zero  # NaN after a response that is not finite: the threshold might hide it
            for j in range(k):
                mark += tile[i, j] * zero
                value = tile[i, j] - alpha
                row[j] = value if value > zero else zero
            if row.shape[0] > k:
                for j in range(k):
                    value = -tile[i, j] - alpha
                    row[k + j] = value if value > zero else zero
            row[0] += mark


@compiled_sum
def _triangle(X, D, shift, energies, size, codes):  # type: ignore[no-untyped-def]
    (n, d), k = X.shape, D.shape[0]
    zero = X.dtype.type(0)
    shifted = np.empty((size, d), X.dtype)
    for start in range(0, n, size):
        stop = min(start + size, n)
        for i in range(stop - start):
            for f in range(d):
                shifted[i, f] = X[start + i, f] - shift[f]
        np.dot(shifted[: stop - start], D.T, codes[start:stop])
        for i in range(stop - start):
            row = codes[start + i]
            energy = zero
            for f in range(d):
                energy += shifted[i, f] * shifted[i, f]
            total = mark = zero  # NaN after a square that is not finite, as above
            for j in range(k):
                square = energy + energies[j] - row[j] - row[j]
                mark += square * zero
                row[j] = np.sqrt(square if square > zero else zero)
                total += row[j]
            mean = X.dtype.type(total / k)
            for j in range(k):
                value = mean - row[j]
                row[j] = value if value > zero else zero
            row[0] += mark


@compiled
def _omp(B, G, inverse, n_nonzero, rounding, codes):  # type: ignore[no-untyped-def]
    """Row by row; the chosen atoms are made orthonormal as they come, as in the reference."""
    n, k = B.shape
    q, z = np.empty(k, B.dtype), np.empty(n_nonzero, B.dtype)
    V, chosen = np.empty((n_nonzero, k), B.dtype), np.empty(n_nonzero, np.int64)
    for i in range(n):
        q[:] = B[i]
        smallest, t = 0.0, 0
        while t < n_nonzero:
            j = 0
            for f in range(k):
                if abs(q[f]) > abs(q[j]):
                    j = f
            if t == 0:
                smallest = rounding * abs(q[j])
            v = V[t]
            v[:] = G[j]
            for p in range(t):
                share = V[p, j]
                for f in range(k):
                    v[f] -= share * V[p, f]
            if not (abs(q[j]) > smallest and v[j] > rounding):
                break
            scale = B.dtype.type(1 / np.sqrt(v[j]))
            z[t], chosen[t] = q[j] * scale, j
            for f in range(k):
                v[f] *= scale
                q[f] -= z[t] * v[f]
            t += 1
        for p in range(t - 1, -1, -1):
            z[p] /= V[p, chosen[p]]
            for r in range(p):
                z[r] -= V[r, chosen[p]] * z[p]
            codes[i, chosen[p]] = z[p] * inverse[chosen[p]]
