"""Kernel RICA: ``f(W) = mean_i [k(x, x) + a² sᵀG s - 2a sᵀs + λ g(s) + α d(s)]``, s = k(W, x), G = k(W, W).

By s the derivative is ``T = S (2a² G - 4a I) + λ g' + α d'``, which reaches W through the kernel of W and the
rows; by G it is ``a² M``, M the moment ``Sᵀ S``, which reaches W through the kernel of W and W. The factor a
of the reconstruction ``a WᵀW φ(x)`` is given (1 in the paper), or the best one, ``a = Σ sᵀs / Σ sᵀG s``. The
derivative of f by the best a is zero, so that the derivative by W is that of an a that is given.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from clusterica.arrays import (
    Array,
    is_host_array,
    namespace_of,
    pieces,
    sum_parts,
    to_host,
    working_memory,
)
from clusterica.ops.discrimination import Discrimination
from clusterica.ops.kernels import Kernel, Pull, gram, scale_rows
from clusterica.ops.linalg import unit_rows
from clusterica.ops.penalty import Elementwise, PenaltyFunction


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
    factor: float | None = 1.0
    """The a; None is the best one for W."""


class KernelSums(NamedTuple):
    """Sums over the rows of a block."""

    diagonal: Array
    """Of k(x, x)."""
    penalty: Array
    """Of g(s), and of d(s) below; not weighted."""
    discrimination: Array
    scale: Array
    """The pulls of the rows on W, shape (n_parts, n_basis); see :class:`clusterica.ops.kernels.Pull`. One
    part, that of T, where a is given. Else a is known after the last block only, and T comes in its parts:
    S G, S, and the slopes of the other terms if there are any."""
    vector: Array
    """Of shape (n_parts, n_basis, n_features)."""
    moment: Array
    """The M, shape (n_basis, n_basis)."""


class Landscape(NamedTuple):
    """The objective at some W, in float64: its terms, and its gradient ``scale_p w_p - vector_p``."""

    reconstruction: float
    penalty: float
    """Weighted, as is the discrimination below."""
    discrimination: float
    pull: Pull
    factor: float
    """The a."""

    @property
    def total(self) -> float:
        """The objective."""
        return self.reconstruction + self.penalty + self.discrimination


@working_memory(lambda row, W, G: (2 * row.n_features + 8 * W.shape[0]) * row.itemsize)
def kernel_sums(
    X: Array,
    W: Array,
    G: Array,
    labels: Array | None = None,
    *,
    model: Model,
    tile: int = 2**19,
) -> KernelSums:
    """Return what a block of rows adds to the objective and to its gradient.

    Parameters
    ----------
    X : (n_rows, n_features) array
        The block.
    W : (n_basis, n_features) array
        The basis.
    G : (n_basis, n_basis) array
        The kernel of W and W.
    labels : (n_rows,) array of int, optional
        Classes of the rows, where the model has a discrimination term.
    model : Model
        The terms of the objective.
    tile : int, default=2**19
        Codes that are worked on at a time in host memory, 4 MB in float64.
    """
    # At least half as many rows as the moment has, since each tile writes a whole moment.
    size = max(tile // W.shape[0], W.shape[0] // 2)
    if not is_host_array(X) or X.shape[0] <= size:
        return _kernel_sums(X, W, G, labels, model)
    return sum_parts(
        _kernel_sums(X[part], W, G, None if labels is None else labels[part], model)
        for part in pieces(X.shape[0], size)
    )


def _kernel_sums(X: Array, W: Array, G: Array, labels: Array | None, model: Model) -> KernelSums:
    xp = namespace_of(X)
    X = scale_rows(X, normalize=model.normalize)
    S = model.kernel(X, W)
    penalty = discrimination = xp.zeros((), dtype=xp.float64, device=X.device)
    slopes = None
    if model.sparsity:
        penalty, of_penalty = model.penalty(S)
        slopes = model.sparsity * of_penalty  # not in place: they may be the codes themselves
    if model.discrimination is not None and model.strength:
        discrimination, of_term = model.discrimination.of_codes(S, labels)
        weighted = model.strength * of_term
        slopes = weighted if slopes is None else slopes + weighted
    pulls = [model.kernel.pull(X, W, S, T) for T in _parts(S, G, slopes, model.factor)]
    return KernelSums(
        xp.sum(model.kernel.diagonal(X), dtype=xp.float64),
        penalty,
        discrimination,
        xp.stack([pull.scale for pull in pulls]),
        xp.stack([pull.vector for pull in pulls]),
        S.T @ S,
    )


def _parts(S: Array, G: Array, slopes: Array | None, factor: float | None) -> Iterator[Array]:
    """Yield T, or where its factor is not known yet what it is made of, one array at a time."""
    if factor is not None:
        T = S @ _bend(G, factor)
        yield T if slopes is None else T + slopes
        return
    yield S @ G
    yield S
    if slopes is not None:
        yield slopes


def _bend(G: Array, a: float) -> Array:
    """Return ``2a² G - 4a I``: ``a² sᵀG s - 2a sᵀs`` is ``sᵀ bend s / 2``, and its slope is ``bend s``."""
    return 2 * a * a * G - 4 * a * _identity(G)


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
    # The weights of the parts of T, as `_parts` has them.
    a, parts = model.factor, [1.0]
    if a is None:
        # Σ sᵀs / Σ sᵀG s minimises a² Σ sᵀG s - 2a Σ sᵀs; 0 where all codes are zero.
        squares, doubled = float(xp.linalg.trace(M)), float(xp.sum(G * M))
        a = squares / doubled if doubled > 0 else 0.0
        parts = [2 * a * a, -4 * a, 1.0]
    # Once M is known, the reconstruction needs no rows: Σ sᵀ bend s is the product of bend and M.
    error = total.diagonal + xp.sum(_bend(G, a) * M) / 2
    # k(w, w) = 1 whatever w is: that term must not hold w back.
    weights = M * (1 - _identity(M)) if model.kernel.unit_diagonal else M
    inner = model.kernel.pull(W, W, G, 2 * a * a * weights)
    scale, vector = inner.scale, inner.vector
    for i in range(total.scale.shape[0]):
        scale = scale + parts[i] * total.scale[i, :]
        vector = vector + parts[i] * total.vector[i, :, :]
    return Landscape(
        float(error) / n_rows,
        model.sparsity * float(total.penalty) / n_rows,
        model.strength * float(total.discrimination) / n_rows,
        Pull(scale / n_rows, vector / n_rows),
        a,
    )


@working_memory(lambda row, W: (row.n_features + 5 * W.shape[0]) * row.itemsize)
def codes(X: Array, W: Array, *, kernel: Kernel, normalize: bool, unit: bool = False) -> Array:
    """Return k(w_p, x_i) of a block, shape (n_rows, n_basis); of unit length for every row if asked."""
    S = kernel(scale_rows(X, normalize=normalize), W)
    return unit_rows(S) if unit else S


@working_memory(lambda row, W: (row.n_features + 6 * W.shape[0]) * row.itemsize)
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
        The terms of the objective; no discrimination, a factor of 1, and a kernel of the distance.
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
