"""Kernel RICA: ``f(W) = mean_i [k(x, x) + sᵀG s - 2 sᵀs + λ g(s) + α d(s)]``, s = k(W, x), G = k(W, W).

By s the derivative is ``T = S (2 G - 4 I) + λ g' + α d'``, which reaches W through the kernel of W and the
rows; by G it is the moment ``M = Sᵀ S``, which reaches W through the kernel of W and W.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from clusterica.arrays import Array, is_host_array, namespace_of, to_host
from clusterica.ops.discrimination import Discrimination
from clusterica.ops.kernels import Kernel, Pull, gram, scale_rows
from clusterica.ops.penalty import Elementwise, PenaltyFunction

_TILE = 2**19  # numbers in the codes of a tile


class Model(NamedTuple):
    """What f is made of, besides W: the kernel, and the weighted terms of the codes."""

    kernel: Kernel
    penalty: PenaltyFunction
    sparsity: float
    discrimination: Discrimination | None = None
    strength: float = 0.0
    """The α."""
    normalize: bool = False
    """Whether rows are scaled to unit length first."""


class KernelSums(NamedTuple):
    """Sums over the rows of a block."""

    diagonal: Array
    """Of k(x, x)."""
    penalty: Array
    """Of g(s), and of d(s) below; not weighted."""
    discrimination: Array
    scale: Array
    """The pull of the rows on W; see :class:`clusterica.ops.kernels.Pull`."""
    vector: Array
    moment: Array
    """The M, shape (n_basis, n_basis)."""


class Landscape(NamedTuple):
    """The objective at some W, in float64: its terms, and its gradient ``scale_p w_p - vector_p``."""

    reconstruction: float
    penalty: float
    """Weighted, as is the discrimination below."""
    discrimination: float
    pull: Pull

    @property
    def total(self) -> float:
        """The objective."""
        return self.reconstruction + self.penalty + self.discrimination


def kernel_sums(
    X: Array, W: Array, bend: Array, labels: Array | None = None, *, model: Model
) -> KernelSums:
    """Return what a block of rows adds to the objective and to its gradient.

    Parameters
    ----------
    X : (n_rows, n_features) array
        The block.
    W : (n_basis, n_features) array
        The basis.
    bend : (n_basis, n_basis) array
        ``2 G - 4 I``, from :func:`bend_of`.
    labels : (n_rows,) array of int, optional
        Classes of the rows, where the model has a discrimination term.
    model : Model
        The terms of the objective.
    """
    # Tiles of some rows, for fast products, and of half as many as the moment has: it is written for each.
    size = max(_TILE // W.shape[0], W.shape[0] // 2)
    if not is_host_array(X) or X.shape[0] <= size:
        return _kernel_sums(X, W, bend, labels, model)
    total: list[np.ndarray] | None = None
    for start in range(0, X.shape[0], size):
        part = slice(start, start + size)
        own = None if labels is None else labels[part]
        sums = _kernel_sums(X[part], W, bend, own, model)
        if total is None:
            total = [np.array(value, dtype=np.float64) for value in sums]
        else:
            for t, value in zip(total, sums, strict=True):
                t += value
    assert total is not None
    return KernelSums(*total)


def _kernel_sums(X: Array, W: Array, bend: Array, labels: Array | None, model: Model) -> KernelSums:
    xp = namespace_of(X)
    X = scale_rows(X, normalize=model.normalize)
    S = model.kernel(X, W)
    T = S @ bend
    penalty = discrimination = xp.zeros((), dtype=xp.float64, device=X.device)
    if model.sparsity:
        penalty, slopes = model.penalty(S)
        T += model.sparsity * slopes  # not in place: slopes may be the codes themselves
    if model.discrimination is not None and model.strength:
        discrimination, slopes = model.discrimination.of_codes(S, labels)
        T += model.strength * slopes
    pull = model.kernel.pull(X, W, S, T)
    diagonal = xp.sum(model.kernel.diagonal(X), dtype=xp.float64)
    return KernelSums(diagonal, penalty, discrimination, pull.scale, pull.vector, S.T @ S)


def bend_of(G: Array) -> Array:
    """Return ``2 G - 4 I``, with which ``sᵀG s - 2 sᵀs = sᵀ bend s / 2`` and its slope is ``bend s``."""
    return 2 * G - 4 * _identity(G)


def landscape(total: KernelSums, W: Array, G: Array, *, n_rows: int, model: Model) -> Landscape:
    """Return the objective from the sums over all rows; W, G and M stay where they are.

    Parameters
    ----------
    total : KernelSums
        Over all rows, float64.
    W : (n_basis, n_features) float64 array
        The basis.
    G : (n_basis, n_basis) float64 array
        The kernel of W and W.
    n_rows : int
        Number of rows.
    model : Model
        The terms of the objective.
    """
    xp = namespace_of(G)
    M = total.moment
    # Once M is known, the reconstruction needs no rows.
    error = total.diagonal + xp.sum(bend_of(G) * M) / 2
    # k(w, w) = 1 whatever w is: that term must not hold w back.
    weights = M * (1 - _identity(M)) if model.kernel.unit_diagonal else M
    inner = model.kernel.pull(W, W, G, 2 * weights)
    return Landscape(
        float(error) / n_rows,
        model.sparsity * float(total.penalty) / n_rows,
        model.strength * float(total.discrimination) / n_rows,
        Pull((total.scale + inner.scale) / n_rows, (total.vector + inner.vector) / n_rows),
    )


def codes(X: Array, W: Array, *, kernel: Kernel, normalize: bool) -> Array:
    """Return k(w_p, x_i) of a block, shape (n_rows, n_basis)."""
    return kernel(scale_rows(X, normalize=normalize), W)


def reached(X: Array, W: Array, *, kernel: Kernel, normalize: bool, least: float) -> tuple[Array]:
    """Return for every basis vector how many rows of a block have ``k(w, x) >= least``, shape (n_basis,)."""
    S = codes(X, W, kernel=kernel, normalize=normalize)
    xp = namespace_of(S)
    return (xp.sum(xp.astype(least <= S, xp.float64), axis=0),)


def _identity(G: Array) -> Array:
    return namespace_of(G).eye(G.shape[0], dtype=G.dtype, device=G.device)


# --- Row by row ------------------------------------------------------------------------------------


def sweep(X: Array, W: Array, *, model: Model) -> Array:
    """Return the basis after one pass of the paper's fixed point: each w_p in turn, the others fixed.

    ``df/dw_p = 0`` is solved for w_p with the kernel's values as they were: equation (7), with k(w_p, x)
    squared in its second and third terms, and without v = p, which is zero. It is the reference that
    batched steps are compared with, vectorised over the rows only; nothing keeps the objective from rising.

    Parameters
    ----------
    X : (n_rows, n_features) array
        All rows.
    W : (n_basis, n_features) array
        The basis, which stays as it is.
    model : Model
        The terms of the objective; no discrimination, and a kernel of the distance.
    """
    xp = namespace_of(X)
    kernel = model.kernel
    X = scale_rows(X, normalize=model.normalize)
    W = xp.asarray(W, copy=True)
    # Rows and basis change places, so that the values of one basis vector lie side by side.
    S, G = kernel(W, X), gram(kernel, W)
    slopes = _ColumnSlopes(model.penalty, S)
    for p in range(W.shape[0]):
        w, s = W[p : p + 1, :], S[p, :]
        T = 2 * (G[p, :] @ S) - 4 * s
        if model.sparsity:
            T = T + model.sparsity * slopes.of(p, s)
        m = 2 * (S @ s)
        if kernel.unit_diagonal:
            m[p] = 0
        outer = kernel.pull(X, w, s[:, None], T[:, None])
        inner = kernel.pull(W, w, G[p, :][:, None], m[:, None])
        w = (outer.vector + inner.vector) / (outer.scale + inner.scale)[:, None]
        W[p, :] = w[0, :]
        new = kernel(w, X)[0, :]
        slopes.renew(p, s, new)
        S[p, :] = new
        G[p, :] = kernel(w, W)[0, :]
        G[p, p] = kernel.diagonal(w)[0]
        G[:, p] = G[p, :]
    return W


class _ColumnSlopes:
    """The penalty's slope by one code of every row, its pools kept up to date."""

    def __init__(self, penalty: PenaltyFunction, S: Array) -> None:
        self._penalty = penalty
        if isinstance(penalty, Elementwise):
            return
        H = penalty.pooling.average(_identity(S[:, :1] @ S[:, :1].T))
        self._H = to_host(H)
        self._pools = H.T @ (S * S)

    def of(self, p: int, s: Array) -> Array:
        """Return g'(s)_p for every row, shape (n_rows,)."""
        penalty = self._penalty
        signs = penalty.signs
        if isinstance(penalty, Elementwise):
            own = Elementwise(penalty.contrast, None if signs is None else signs[p : p + 1])
            return own(s[:, None]).slopes[:, 0]
        total = 0 * s
        for j in self._H[:, p].nonzero()[0].tolist():
            weight = float(self._H[j, p]) * (1 if signs is None else float(signs[j]))
            total = total + weight * (self._pools[j, :] + penalty.eps) ** -0.5
        return s * total

    def renew(self, p: int, old: Array, new: Array) -> None:
        """Bring the pools up to date after code p of every row has changed."""
        if isinstance(self._penalty, Elementwise):
            return
        change = new * new - old * old
        for j in self._H[p, :].nonzero()[0].tolist():
            self._pools[j, :] = self._pools[j, :] + float(self._H[p, j]) * change
