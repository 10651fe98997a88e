"""Codes by the nearest atoms: ``min_w |x - sum_j w_j d_j|² + λ tr(C) |w|²`` with weights that add up to one.

The sum runs over the k nearest atoms, and ``C = Z Zᵀ`` with the rows ``z_j = d_j - x`` of Z. The weights are
``(C + λ tr(C) I)⁻¹ 1``, divided by their sum (Wang et al. 2010, the approximated codes).
"""

from __future__ import annotations

import numpy as np

from clusterica.arrays import Array, is_host_array, namespace_of
from clusterica.ops.code import placed
from clusterica.ops.linalg import far_unit, row_energies


def local_codes(X: Array, D: Array, shift: Array, *, n_neighbors: int, ridge: float) -> Array:
    """Return the codes of a block, shape (n_rows, n_atoms).

    Parameters
    ----------
    X : (n_rows, n_features) array
    D, shift : arrays
        What :func:`clusterica.ops.code.center` returns for a dictionary.
    n_neighbors : int
        The k.
    ridge : float
        The λ.
    """
    xp = namespace_of(X)
    # Weights do not depend on the units of rows and atoms, in which squares may be no numbers.
    unit = far_unit(X, D, shift)
    if unit != 1:
        X, D, shift = X / unit, D / unit, shift / unit
    X = X - shift
    n, k = X.shape[0], n_neighbors
    scores = row_energies(D)[None, :] - 2 * (X @ D.T)  # squared distances without |x|²
    if is_host_array(scores):
        nearest = np.argpartition(scores, k - 1, axis=1)[:, :k]
    else:
        # k times the smallest one: the array API has no partial sort.
        columns, found = xp.arange(D.shape[0], device=X.device)[None, :], []
        for _ in range(k):
            found.append(xp.argmin(scores, axis=1)[:, None])
            scores = xp.where(columns == found[-1], xp.inf, scores)
        nearest = xp.concat(found, axis=1)
    Z = xp.reshape(xp.take(D, xp.reshape(nearest, (-1,)), axis=0), (n, k, -1)) - X[:, None, :]
    C = Z @ xp.matrix_transpose(Z)
    identity = xp.eye(k, dtype=X.dtype, device=X.device)
    trace = xp.sum(C * identity, axis=(1, 2))[:, None, None]
    # Atoms that all equal the row have equal weights.
    C = C + xp.where(trace > 0, ridge * trace, 1.0) * identity
    w = xp.linalg.solve(C, xp.ones((n, k, 1), dtype=X.dtype, device=X.device))[:, :, 0]
    w = w / xp.sum(w, axis=1, keepdims=True)
    return placed(w, [nearest[:, t : t + 1] for t in range(k)], D.shape[0])
