"""Dictionaries of unit atoms from the codes S of rows: ``min_D |X - S D|²``, from ``SᵀS`` and ``SᵀX`` alone.

A block gives these sums. The update of the atoms, one after the other, no longer sees the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from clusterica.arrays import Array, Row, is_host_array, namespace_of, working_memory
from clusterica.ops.code import lasso, omp
from clusterica.ops.cpu.dictionary import sparse_products
from clusterica.ops.linalg import power_of_two, wide_row_energies

HostArray = np.ndarray[Any, Any]

# Atoms that are updated between two products of matrices. Groups of 16 to 128 took about the same time for
# 1600 atoms of 108 features; single atoms take three times as long.
_GROUP = 64


class CodeSums(NamedTuple):
    """Sums over rows x with codes s."""

    products: Array
    """``sum s sᵀ``, shape (n_atoms, n_atoms)."""
    moments: Array
    """``sum s xᵀ``, shape (n_atoms, n_features)."""
    uses: Array
    """Number of rows that use an atom, shape (n_atoms,)."""
    energy: Array
    """``sum |x|²``."""
    length: Array
    """``sum |s|_1``."""
    unsolved: Array
    """Number of rows whose codes were not found to the tolerance."""


# FISTA holds about ten arrays of the size of the codes; compiled code holds responses and codes.
@working_memory(
    lambda row, D, G, curvature: (
        (row.n_features + (3 if row.is_numpy else 12) * int(D.shape[0])) * row.itemsize
    )
)
def lasso_sums(
    X: Array, D: Array, G: Array, curvature: Array, *, alpha: float, max_iter: int, tol: float
) -> CodeSums:
    """Return the sums of a block with codes by the lasso; see :func:`clusterica.ops.code.lasso`."""
    S, gaps = lasso(X, D, G, curvature, alpha=alpha, max_iter=max_iter, tol=tol)
    xp = namespace_of(gaps)
    return code_sums(X, S, xp.sum(xp.astype(gaps > tol, xp.int64)))


@dataclass(frozen=True)
class Pursuit:
    """Functions of a block with codes by orthogonal matching pursuit, of at most ``n_nonzero`` atoms per row.

    D, G and inverse are what :func:`clusterica.ops.code.unit_atoms` returns for a dictionary of unit atoms.
    """

    n_nonzero: int

    def _bytes(self, row: Row, D: Array, *_: Any) -> int:
        # The responses of every atom that was chosen, and the factor of those atoms; less in compiled code.
        of_atoms = 4 if row.is_numpy else self.n_nonzero + 10
        numbers = 2 * int(D.shape[1]) + of_atoms * int(D.shape[0]) + self.n_nonzero**2
        return numbers * row.itemsize

    @working_memory(_bytes)
    def sums(
        self,
        X: Array,
        D: Array,
        G: Array,
        inverse: Array,
        targets: Array | None = None,
        labels: Array | None = None,
    ) -> CodeSums:
        """Return the sums of a block, in which the targets of its class may stand beside a row.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)
            The block.
        D, G, inverse : arrays
            The dictionary, with atoms of n_features or of n_features + n_targets numbers. The first code the
            rows alone, the second the rows and their targets.
        targets : array of shape (n_classes, n_targets) or None
            What is put beside the features of a row, by its class.
        labels : array of shape (n_rows,) or None
            The class of every row, if there are targets.
        """
        xp, Z = namespace_of(X), X
        if targets is not None:
            Z = xp.concat([X, xp.take(targets, labels, axis=0)], axis=1)
        # Atoms without targets code the rows alone, also where the sums include targets.
        coded = Z if D.shape[1] == Z.shape[1] else X
        S = omp(coded, D, G, inverse, n_nonzero=self.n_nonzero)
        # Matching pursuit has no tolerance: no row is unsolved.
        return code_sums(Z, S, xp.zeros((), device=X.device))

    @working_memory(_bytes)
    def scores(self, X: Array, D: Array, G: Array, inverse: Array, W: Array) -> Array:
        """Return ``W s`` for every row, shape (n_rows, n_classes)."""
        return omp(X, D, G, inverse, n_nonzero=self.n_nonzero) @ W.T

    @working_memory(_bytes)
    def decisions(self, X: Array, D: Array, G: Array, inverse: Array, W: Array) -> Array:
        """Return the scores; of two classes their difference, shape (n_rows,), as scikit-learn does."""
        scores = self.scores(X, D, G, inverse, W)
        return scores[:, 1] - scores[:, 0] if W.shape[0] == 2 else scores

    @working_memory(_bytes)
    def classes(
        self, X: Array, D: Array, G: Array, inverse: Array, W: Array, classes: Array
    ) -> Array:
        """Return the class with the largest score for every row, shape (n_rows,)."""
        xp = namespace_of(X)
        return xp.take(classes, xp.argmax(self.scores(X, D, G, inverse, W), axis=1), axis=0)


def code_sums(X: Array, S: Array, unsolved: Array) -> CodeSums:
    """Return the sums of rows X, shape (n_rows, n_features), and their codes S, (n_rows, n_atoms)."""
    xp = namespace_of(X)
    if is_host_array(X):
        products, moments, uses = sparse_products(S, X)
    else:
        products, moments = S.T @ S, S.T @ X
        uses = xp.sum(xp.astype(S != 0, xp.int64), axis=0)
    energy = xp.sum(wide_row_energies(X))
    return CodeSums(products, moments, uses, energy, xp.sum(xp.abs(S), dtype=xp.float64), unsolved)


def coding_error(sums: CodeSums, D: HostArray) -> float:
    """Return ``sum |x - Dᵀ s|²``, on the host."""
    fit = sums.energy - 2 * np.vdot(sums.moments, D) + np.vdot(sums.products, D @ D.T)
    return max(0.0, float(fit))  # rounding may leave less than nothing of an exact fit


def renew_atoms(
    D: HostArray,
    products: HostArray,
    moments: HostArray,
    *,
    max_sweeps: int = 1,
    tol: float = 1e-8,
) -> HostArray:
    """Give every atom in turn its best place of unit length (Mairal et al. 2009, algorithm 2).

    ``d_j`` is the direction of ``sum_i s_ij (x_i - sum_{k≠j} s_ik d_k)``, which is the atom of the
    approximate K-SVD too (Rubinstein et al. 2008). Atoms that no row uses stay as they are.

    Parameters
    ----------
    D : ndarray of shape (n_atoms, n_features), float64
        Unit atoms.
    products, moments : ndarrays
        ``SᵀS`` and ``SᵀX``.
    max_sweeps : int, default=1
        Maximum number of sweeps over the atoms.
    tol : float, default=1e-8
        Sweeps end when one moves the atoms by no more, in mean squared length.
    """
    D = D.copy()
    # The squares of these sums are fourth powers of the rows. In units of a power of two that changes no
    # digit they neither overflow nor vanish.
    unit = power_of_two(float(products.diagonal().max(initial=0)))
    if not 1e-100 < unit < 1e100:
        products, moments = products / unit, moments / unit
    for _ in range(max_sweeps):
        before = D.copy()
        for start in range(0, len(D), _GROUP):
            group = slice(start, start + _GROUP)
            # What the other atoms leave to the atoms of the group; kept up to date inside of it.
            A, left = products[group, group], moments[group] - products[group] @ D
            for j, weight in enumerate(A.diagonal()):
                # What is left to this atom alone, with its own part put back.
                atom = left[j] + weight * D[start + j]
                length = np.sqrt(atom @ atom)
                if weight > 0 and length > 0:
                    move = atom / length - D[start + j]
                    D[start + j] += move
                    left -= A[:, j : j + 1] * move
        if ((D - before) ** 2).sum() <= tol * len(D):
            break
    return D
