"""Margins ``m = X Aᵀ + c`` of a few classifiers on a NumPy block, and ``sum s t r x``, from one read of X.

For so few columns BLAS spends more time on packing the rows than on each of the two products. Here six rows
are multiplied with two classifiers at a time, so that every number that is loaded is used more than once, and
rows are still in cache for the second product.
"""

from __future__ import annotations

import numpy as np

from clusterica.ops.cpu.compiling import compiled, compiled_sum

# Twelve sums, each a vector register, leave room for the operands in the 16 registers of AVX2.
_ROWS, _CLASSIFIERS = 6, 2
# Rows between the two products: 48 rows of 6,400 float32 features take 1.2 MiB, a second-level cache.
_TILE = 48


def margin_sums(
    X: np.ndarray,
    A: np.ndarray,
    c: np.ndarray,
    targets: np.ndarray,
    codes: np.ndarray,
    weights: np.ndarray,
    *,
    hinge: bool,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return loss, pull and lift; see :func:`clusterica.ops.margin.margin_sums`."""
    k, d = A.shape
    even = -(-k // _CLASSIFIERS) * _CLASSIFIERS
    padded = np.zeros((even, d), X.dtype)
    padded[:k] = A
    loss, pull, lift = np.zeros(k), np.zeros((even, d)), np.zeros(k)
    arrays = (c.astype(X.dtype), targets, codes, weights.astype(X.dtype), hinge)
    _sums(X, padded, *arrays, loss, pull, lift)
    return loss, pull[:k], lift


@compiled
def _sums(X, A, c, targets, codes, weights, hinge, loss, pull, lift):  # type: ignore[no-untyped-def]
    n, (k_even, d) = len(X), A.shape
    M = np.zeros((_TILE, k_even), X.dtype)
    part = np.zeros(A.shape, X.dtype)
    for start in range(0, n, _TILE):
        stop = min(start + _TILE, n)
        rows = X[start:stop]
        whole = len(rows) // _ROWS * _ROWS
        for k in range(0, k_even, _CLASSIFIERS):
            for i in range(0, whole, _ROWS):
                _six_margins(
                    rows[i : i + _ROWS], A[k], A[k + 1], M[i : i + _ROWS, k : k + _CLASSIFIERS]
                )
            for i in range(whole, len(rows)):
                M[i, k], M[i, k + 1] = _dot(rows[i], A[k]), _dot(rows[i], A[k + 1])
        for i in range(stop - start):
            for k in range(len(c)):
                t = 1 if codes[start + i] == targets[k] else -1
                r = 1 - t * (M[i, k] + c[k])
                if hinge and r < 0:
                    r = X.dtype.type(0)
                w = weights[start + i] * r
                loss[k] += w * r
                lift[k] += t * w
                M[i, k] = t * w
        for k in range(0, k_even, _CLASSIFIERS):
            p, q = part[k], part[k + 1]
            for i in range(0, whole, _ROWS):
                _six_pulls(rows[i : i + _ROWS], M[i : i + _ROWS, k : k + _CLASSIFIERS], p, q)
            for i in range(whole, len(rows)):
                for j in range(d):
                    p[j] += M[i, k] * rows[i, j]
                    q[j] += M[i, k + 1] * rows[i, j]
        # After six tiles, float32 sums are added to float64 ones, so that they keep their digits.
        if (start // _TILE) % 6 == 5 or stop == n:
            pull += part
            part[:] = 0


@compiled_sum
def _dot(x, a):  # type: ignore[no-untyped-def]
    total = x.dtype.type(0)
    for j in range(len(x)):
        total += x[j] * a[j]
    return total


@compiled_sum
def _six_margins(X, a, b, M):  # type: ignore[no-untyped-def]
    x0, x1, x2, x3, x4, x5 = X[0], X[1], X[2], X[3], X[4], X[5]
    s0 = s1 = s2 = s3 = s4 = s5 = X.dtype.type(0)
    t0 = t1 = t2 = t3 = t4 = t5 = X.dtype.type(0)
    for j in range(len(a)):
        u, v = a[j], b[j]
        s0 += x0[j] * u
        t0 += x0[j] * v
        s1 += x1[j] * u
        t1 += x1[j] * v
        s2 += x2[j] * u
        t2 += x2[j] * v
        s3 += x3[j] * u
        t3 += x3[j] * v
        s4 += x4[j] * u
        t4 += x4[j] * v
        s5 += x5[j] * u
        t5 += x5[j] * v
    M[0, 0], M[1, 0], M[2, 0], M[3, 0], M[4, 0], M[5, 0] = s0, s1, s2, s3, s4, s5
    M[0, 1], M[1, 1], M[2, 1], M[3, 1], M[4, 1], M[5, 1] = t0, t1, t2, t3, t4, t5


@compiled_sum
def _six_pulls(X, W, p, q):  # type: ignore[no-untyped-def]
    x0, x1, x2, x3, x4, x5 = X[0], X[1], X[2], X[3], X[4], X[5]
    v0, v1, v2, v3, v4, v5 = W[0, 0], W[1, 0], W[2, 0], W[3, 0], W[4, 0], W[5, 0]
    w0, w1, w2, w3, w4, w5 = W[0, 1], W[1, 1], W[2, 1], W[3, 1], W[4, 1], W[5, 1]
    for j in range(len(p)):
        u0, u1, u2, u3, u4, u5 = x0[j], x1[j], x2[j], x3[j], x4[j], x5[j]
        p[j] += v0 * u0 + v1 * u1 + v2 * u2 + v3 * u3 + v4 * u4 + v5 * u5
        q[j] += w0 * u0 + w1 * u1 + w2 * u2 + w3 * u3 + w4 * u4 + w5 * u5
