"""Products of sparse codes of a NumPy block, ``SᵀS`` and ``SᵀX``: codes of zero are skipped."""

from __future__ import annotations

import numpy as np

from clusterica.ops.cpu.compiling import compiled


def sparse_products(S: np.ndarray, X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return ``SᵀS``, ``SᵀX`` and the number of codes of every atom that are not zero, in float64."""
    k = S.shape[1]
    products, moments, uses = np.zeros((k, k)), np.zeros((k, X.shape[1])), np.zeros(k)
    _sparse_products(S, X, products, moments, uses)
    return products, moments, uses


@compiled
def _sparse_products(S, X, products, moments, uses):  # type: ignore[no-untyped-def]
    (n, k), d = S.shape, X.shape[1]
    used = np.empty(k, np.int64)
    for i in range(n):
        s, x = S[i], X[i]
        m = 0
        for j in range(k):
            if s[j] != 0:
                used[m] = j
                m += 1
        for p in range(m):
            j = used[p]
            value = np.float64(s[j])
            uses[j] += 1
            row = products[j]
            for q in range(p + 1):  # the lower triangle, for the codes come in order
                row[used[q]] += value * s[used[q]]
            row = moments[j]
            for f in range(d):
                row[f] += value * x[f]
    for j in range(k):
        for p in range(j):
            products[p, j] = products[j, p]
