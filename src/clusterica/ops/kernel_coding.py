"""Kernel sparse codes, ``min_s k(x, x) - 2 sᵀ k(W, x) + sᵀ k(W, W) s + λ |s|_1``, and their pull on W.

That is ``|Wᵀ s - φ(x)|² + λ |s|_1`` for the rows φ(x) and the basis φ(w) that a kernel maps to. At the best
codes its derivative by W is the one at codes held fixed: they are at a minimum, so that their own change
does not count.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from clusterica.arrays import Array, namespace_of, working_memory
from clusterica.ops.cpu.lasso import LassoCodes
from clusterica.ops.gram_lasso import Solver, lasso_of_gram
from clusterica.ops.kernels import DEAD, Kernel, Pull, scale_rows


class CodingSums(NamedTuple):
    """Sums over the rows of a block: what the objective and its gradient by the basis are made of."""

    objective: Array
    """Sum of the objective."""
    scale: Array
    """Of the pull of the rows, shape (n_basis,)."""
    vector: Array
    """Of the pull of the rows, shape (n_basis, n_features)."""
    products: Array
    """Products of codes ``Sᵀ S``, shape (n_basis, n_basis): weights of the pull of the basis on itself."""
    reached: Array
    """How many rows have a k(w, x) of 0.01 or more, shape (n_basis,)."""
    unsolved: Array
    """How many rows have codes whose duality gap is over ten times tol."""


def coding_objective(
    values: Array, G: Array, S: Array, energies: Array, *, sparsity: float
) -> Array:
    """Return ``|Wᵀ s - φ(x)|² + λ |s|_1`` of every row, shape (n_rows,).

    Parameters
    ----------
    values : (n_rows, n_basis) array
        The k(w, x).
    G : (n_basis, n_basis) array
        The k(w, w) of all pairs.
    S : (n_rows, n_basis) array
        Any codes. With ``S = values``, codes that are no free variables, it is the objective of kernel
        RICA with an L1 penalty.
    energies : (n_rows,) array
        The k(x, x).
    sparsity : float
        The λ.
    """
    xp = namespace_of(values)
    fit = energies + xp.sum(S * (S @ G - 2 * values), axis=1)
    return fit + sparsity * xp.sum(xp.abs(S), axis=1)


def coding_row_bytes(row: Any, W: Array, G: Array) -> int:
    """Return the working memory of codes for each row: splitting keeps about a dozen arrays of their size."""
    return int((3 * row.n_features + 13 * W.shape[0]) * row.itemsize)


@working_memory(coding_row_bytes)
def kernel_codes(
    X: Array,
    W: Array,
    G: Array,
    *,
    kernel: Kernel,
    sparsity: float,
    max_iter: int,
    tol: float,
    normalize: bool = False,
    descend: Solver | None = None,
) -> LassoCodes:
    """Return the codes of a block, shape (n_rows, n_basis), and their relative duality gaps.

    Parameters
    ----------
    X : (n_rows, n_features) array
    W : (n_basis, n_features) array
    G : (n_basis, n_basis) array
        What `gram` returns for W.
    kernel : Kernel
    sparsity : float
        The λ. The lasso has half of the squared distance, so that its alpha is λ / 2.
    max_iter, tol, descend
        As in :func:`clusterica.ops.gram_lasso.lasso_of_gram`.
    normalize : bool, default=False
        Whether rows are scaled to unit length first.
    """
    X = scale_rows(X, normalize=normalize)
    args = (kernel(X, W), kernel.diagonal(X), G)
    return lasso_of_gram(*args, alpha=sparsity / 2, max_iter=max_iter, tol=tol, descend=descend)


@working_memory(coding_row_bytes)
def coding_sums(
    X: Array,
    W: Array,
    G: Array,
    *,
    kernel: Kernel,
    sparsity: float,
    max_iter: int,
    tol: float,
    normalize: bool = False,
    descend: Solver | None = None,
) -> CodingSums:
    """Return the sums over a block at its best codes; the parameters are those of `kernel_codes`."""
    xp = namespace_of(X)
    X = scale_rows(X, normalize=normalize)
    values, energies = kernel(X, W), kernel.diagonal(X)
    args = (values, energies, G)
    # The lasso has half of the squared distance, so that its alpha is λ / 2.
    S, gaps = lasso_of_gram(*args, alpha=sparsity / 2, max_iter=max_iter, tol=tol, descend=descend)
    # Of the objective only -2 sᵀ k(W, x) depends on both rows and basis; codes count as fixed.
    pull = kernel.pull(X, W, values, -2 * S)
    return CodingSums(
        xp.sum(coding_objective(values, G, S, energies, sparsity=sparsity), dtype=xp.float64),
        pull.scale,
        pull.vector,
        S.T @ S,
        xp.sum(xp.astype(values >= DEAD, xp.int64), axis=0),
        count_unsolved(gaps, tol),
    )


def count_unsolved(gaps: Array, tol: float) -> Array:
    """Return how many rows have codes whose duality gap is over ten times tol."""
    xp = namespace_of(gaps)
    return xp.sum(xp.astype(gaps > 10 * tol, xp.int64))


def metric(kernel: Kernel, W: np.ndarray) -> float:
    """Return about how far φ(w) moves, squared, for a step of w, squared: 2γ for the Gaussian kernel.

    A step of a tenth of the basis' length is tried along its features, in turn. The kernel has a unit
    diagonal, so that ``|φ(w) - φ(v)|² = 2 - 2 k(w, v)``.
    """
    n, d = W.shape
    # Long enough that 1 - k has digits, short enough that k is still a parabola.
    length = 0.1 * max(float(np.sqrt((W**2).sum() / n)), float(np.finfo(float).eps))
    steps = np.zeros((n, d))
    steps[np.arange(n), np.arange(n) % d] = length
    moved = [2 - 2 * float(kernel(W[p : p + 1], W[p : p + 1] + steps[p])[0, 0]) for p in range(n)]
    return max(float(np.mean(moved)), float(np.finfo(float).eps)) / length**2


def basis_pull(kernel: Kernel, W: Array, G: Array, products: Array) -> Pull:
    """Return the gradient by W of ``sum_pq M_pq k(w_p, w_q)``, with M the `products`.

    Both ends of a pair move; so twice that of one end. On the diagonal they move together, by
    nothing where k(w, w) = 1.
    """
    xp = namespace_of(W)
    own = xp.eye(W.shape[0], dtype=xp.bool, device=W.device)
    # The diagonal apart: a kernel with a peak has no slope at w = w.
    pull = kernel.pull(W, W, G, xp.where(own, 0, 2 * products))
    if kernel.unit_diagonal:
        return pull
    diagonal = kernel.diagonal_pull(W, xp.linalg.diagonal(products))
    return Pull(pull.scale + diagonal.scale, pull.vector + diagonal.vector)
