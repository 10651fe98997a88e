"""Sparse coding, equation (2) of Coates & Ng: min of ½ Σ |x - Dᵀ s|² + α |s|₁ over unit atoms D and s."""

from __future__ import annotations

import numpy as np

from clusterica.encoders import SparseEncoder

GAP = 1e-3  # relative duality gap of codes; the dictionary needs no more while it moves
FIRST_MEMORY = 10  # rows that count at first, by the number of features: fewer, and learning stalls


def learn_sparse_code(
    X: np.ndarray,
    n_atoms: int,
    *,
    alpha: float,
    n_passes: int,
    batch_size: int,
    random_state: np.random.Generator,
) -> np.ndarray:
    """Learn a dictionary for sparse codes from batches of rows.

    Each batch is encoded, then every atom in turn takes its best place for the sums
    A = Σ s sᵀ and B = Σ s xᵀ over the latest rows (Mairal et al. 2010). How many rows count grows
    from ten times the number of features to twice the number of rows, so that the atoms move fast
    at first and come to rest at the end. scikit-learn's MiniBatchDictionaryLearning solves the
    same problem; for 256 atoms one of its passes takes as long as some dozens of these.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Rows, whitened.
    n_atoms : int
        Number of atoms.
    alpha : float
        Weight of the penalty.
    n_passes : int
        Passes over the rows.
    batch_size : int
        Rows of a batch.
    random_state : Generator
        Random numbers.

    Returns
    -------
    ndarray of shape (n_atoms, n_features)
        Atoms of unit length.
    """
    D = random_state.standard_normal((n_atoms, X.shape[1])).astype(X.dtype)
    D /= np.linalg.norm(D, axis=1, keepdims=True)
    A, B = np.zeros((n_atoms, n_atoms), X.dtype), np.zeros_like(D)
    first = max(FIRST_MEMORY * X.shape[1], batch_size)
    last = max(2 * len(X), first)
    for done in range(n_passes):
        memory = first * (last / first) ** ((done / max(n_passes - 1, 1)) ** 3)
        fade = X.dtype.type(1 - batch_size / memory)
        order = random_state.permutation(len(X))
        for start in range(0, len(X), batch_size):
            batch = X[order[start : start + batch_size]]
            encoder = SparseEncoder(D, alpha=alpha, split_signs=False, tol=GAP)
            S = encoder.fit_transform(batch)
            A, B = fade * A + S.T @ S, fade * B + S.T @ batch
            _renew(D, A, B, batch)
    return D


def _renew(D: np.ndarray, A: np.ndarray, B: np.ndarray, batch: np.ndarray) -> None:
    """Give every atom its best place, one after the other; one without codes starts anew at a row."""
    for j, weight in enumerate(A.diagonal()):
        atom = B[j] - A[j] @ D + weight * D[j] if weight > 0 else batch[j % len(batch)]
        length = np.linalg.norm(atom)
        if length > 0:
            D[j] = atom / length
