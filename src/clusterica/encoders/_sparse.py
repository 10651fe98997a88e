"""Sparse codes: ``min_s 0.5 |x - Dᵀ s|^2 + alpha |s|_1``, or the best fit by a few atoms chosen greedily."""

from __future__ import annotations

from abc import abstractmethod
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from clusterica.arrays import (
    Array,
    Interval,
    base_class,
    namespace_of,
    row_bytes_of,
    warn_user,
    working_memory,
)
from clusterica.encoders._base import BaseEncoder
from clusterica.ops import code
from clusterica.ops.cpu.lasso import LassoCodes


@base_class
class LassoEncoder(BaseEncoder):
    """Base of encoders that solve a lasso for every row, until its duality gap is small."""

    _penalty_name: ClassVar[str]  # the parameter that the warning names
    split_signs: bool
    transform_max_iter: int
    tol: float

    @abstractmethod
    def _solve(self, X: Array, *prepared: Array) -> LassoCodes:
        """Return the codes of a block with their signs, and the relative duality gaps."""

    @abstractmethod
    def _least_penalty(self, X: np.ndarray, *prepared: np.ndarray) -> float:
        """Return the smallest penalty with which the codes of all rows of a block are zero."""

    def _warn_of_zero_codes(self, X: np.ndarray, *prepared: np.ndarray) -> None:
        with np.errstate(over="ignore", invalid="ignore"):  # transform says what is too large
            name, least = self._penalty_name, self._least_penalty(X, *prepared)
        if 0 < least <= getattr(self, name):
            warn_user(
                f"{name}={getattr(self, name):g} makes the codes of all of {len(X)} rows zero; use one below "
                f"{least:.3g}, such as {0.1 * least:.2g}"
            )

    @working_memory(lambda self, row, *prepared: row_bytes_of(self._solve, row, prepared))
    def encode(self, X: Array, *prepared: Array) -> Array:
        """Return the codes of one block; see the base class."""
        return self.encode_and_count(X, *prepared)[0]

    @working_memory(lambda self, row, *prepared: row_bytes_of(self._solve, row, prepared))
    def encode_and_count(self, X: Array, *prepared: Array) -> tuple[Array, tuple[Array]]:
        """Return the codes of one block and the number of rows whose gap is over tol."""
        S, gaps = self._solve(X, *prepared)
        xp = namespace_of(gaps)
        n_rows = xp.sum(xp.astype(gaps > self.tol, xp.int64))
        return (code.split_signs(S) if self.split_signs else S), (n_rows,)

    def warn_not_converged(self, n_rows: int) -> None:
        """Warn if the codes of ``n_rows`` rows, one or more, did not converge."""
        if n_rows:
            warn_user(
                f"the codes of {n_rows} rows did not reach a relative duality gap of tol={self.tol:g} in "
                f"transform_max_iter={self.transform_max_iter} iterations; raise transform_max_iter, tol "
                f"or {self._penalty_name}",
                ConvergenceWarning,
            )

    def n_features_out(self, n_atoms: int) -> int:
        """Return the number of features of a code, for a dictionary of ``n_atoms`` atoms."""
        return n_atoms * (2 if self.split_signs else 1)


class SparseEncoder(LassoEncoder):
    r"""Sparse coding: a row as a combination of few atoms, by the lasso.

    .. math::
        s = \arg\min_s \tfrac12 \|x - D^\top s\|^2 + \alpha \|s\|_1 .

    Slower than the soft threshold, and better where labels are few (section 4.2 of [1]_).

    Parameters
    ----------
    dictionary : array-like of shape (n_atoms, n_features) or None, default=None
        One atom per row. Required by fit; None where another estimator provides it.
    alpha : float, default=1.0
        Weight of the penalty. A row whose :math:`|D x|` are all at most :math:`\alpha` has the code zero;
        fit warns if all rows that it looks at, about 1000, are such.
    split_signs : bool, default=True
        Return the positive and the negative parts of the codes as features of their own, twice as many
        as there are atoms: pooled, they would cancel out. False returns the codes with their signs.
    transform_max_iter : int, default=1000
        Maximum number of sweeps over the atoms of a row (NumPy), or of gradient steps (other libraries).
    tol : float, default=1e-5
        The codes of a row are found when their duality gap is at most this times
        :math:`\tfrac12 \|x\|^2`, the objective of the code zero. float32 reaches about 1e-6.

    Attributes
    ----------
    dictionary_ : array of shape (n_atoms, n_features)
        The dictionary, in the library, on the device and of the dtype of X.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has column names.

    Notes
    -----
    On the CPU the codes come from coordinate descent on the Gram matrix over the atoms in use, with
    Newton steps between the sweeps, row by row in compiled code. On other devices they come from
    FISTA [2]_ on all rows of a block, with restarts. Both stop at the same gap. A dictionary with
    equal atoms has codes that are not unique, and the two may differ.

    A warning gives the number of rows that did not converge. A Dask array is encoded later, when it is
    computed, and without the warning.

    References
    ----------
    .. [1] A. Coates and A. Y. Ng, "Learning feature representations with K-means", 2012.
    .. [2] A. Beck and M. Teboulle, "A fast iterative shrinkage-thresholding algorithm for linear inverse
       problems", 2009.

    Examples
    --------
    >>> import numpy as np
    >>> from clusterica.encoders import SparseEncoder
    >>> SparseEncoder(np.eye(2), alpha=0.5, split_signs=False).fit_transform(
    ...     np.array([[2.0, -1.0]])
    ... )
    array([[ 1.5, -0.5]])
    """

    _penalty_name = "alpha"
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseEncoder._parameter_constraints,
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "split_signs": ["boolean"],
        "transform_max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        dictionary: Any = None,
        *,
        alpha: float = 1.0,
        split_signs: bool = True,
        transform_max_iter: int = 1000,
        tol: float = 1e-5,
    ) -> None:
        self.dictionary = dictionary
        self.alpha = alpha
        self.split_signs = split_signs
        self.transform_max_iter = transform_max_iter
        self.tol = tol

    def prepare(self, D: Array) -> tuple[Array, ...]:
        """Return the dictionary, its Gram matrix and the largest eigenvalue of that; see the base class."""
        # FISTA takes steps of one over that eigenvalue; coordinate descent does not need it.
        return (D, *code.gram_and_curvature(D))

    # FISTA holds about ten arrays of the size of the codes, and the two signs take two more.
    @working_memory(lambda self, row, D, *_: (row.n_features + 12 * D.shape[0]) * row.itemsize)
    def _solve(self, X: Array, D: Array, G: Array, curvature: Array) -> LassoCodes:
        """Return the codes of a block with their signs, and the relative duality gaps."""
        max_iter, tol = self.transform_max_iter, float(self.tol)
        return code.lasso(X, D, G, curvature, alpha=float(self.alpha), max_iter=max_iter, tol=tol)

    def _least_penalty(self, X: np.ndarray, *prepared: np.ndarray) -> float:
        return float(np.abs(X @ prepared[0].T).max())


class OMPEncoder(BaseEncoder):
    r"""Orthogonal matching pursuit: a row as a combination of at most ``n_nonzero`` atoms.

    .. math::
        \min_s \|x - D^\top s\|^2 \quad\text{where}\quad \|s\|_0 \le k,

    solved greedily: the atom with the largest correlation with the residual is added, and all codes are
    fitted again by least squares. With one atom it is the code of
    :class:`clusterica.cluster.GainShapeKMeans`, equation (1) of [1]_.

    Parameters
    ----------
    dictionary : array-like of shape (n_atoms, n_features) or None, default=None
        One atom per row, of any length. Required by fit; None where another estimator provides it.
    n_nonzero : int, default=5
        Maximum number of atoms of a row, at most as many as the dictionary has.
    split_signs : bool, default=True
        Return the positive and the negative parts of the codes as features of their own, twice as many
        as there are atoms: pooled, they would cancel out. False returns the codes with their signs.

    Attributes
    ----------
    dictionary_ : array of shape (n_atoms, n_features)
        The dictionary, in the library, on the device and of the dtype of X.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has column names.

    Notes
    -----
    A row gets fewer atoms where they reproduce it exactly, or where those left point in directions that
    the chosen ones span already. The Gram matrix is computed once; from then on a row is coded
    without reading its features.

    References
    ----------
    .. [1] A. Coates and A. Y. Ng, "Learning feature representations with K-means", 2012.

    Examples
    --------
    >>> import numpy as np
    >>> from clusterica.encoders import OMPEncoder
    >>> D = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    >>> OMPEncoder(D, n_nonzero=1, split_signs=False).fit_transform(np.array([[3.0, 4.0]]))
    array([[0., 0., 5.]])
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseEncoder._parameter_constraints,
        "n_nonzero": [Interval(Integral, 1, None, closed="left")],
        "split_signs": ["boolean"],
    }

    def __init__(
        self, dictionary: Any = None, *, n_nonzero: int = 5, split_signs: bool = True
    ) -> None:
        self.dictionary = dictionary
        self.n_nonzero = n_nonzero
        self.split_signs = split_signs

    def prepare(self, D: Array) -> tuple[Array, ...]:
        """Return the atoms at unit length, their Gram matrix and inverse lengths; see the base class."""
        if self.n_nonzero > D.shape[0]:
            raise ValueError(
                f"n_nonzero={self.n_nonzero} must be at most the number of atoms, {D.shape[0]}; "
                "lower it, or give a larger dictionary"
            )
        # At unit length, so that the largest response is that of the atom nearest in direction.
        return code.unit_atoms(D)

    def n_features_out(self, n_atoms: int) -> int:
        """Return the number of features of a code, for a dictionary of ``n_atoms`` atoms."""
        return n_atoms * (2 if self.split_signs else 1)

    # The responses of every atom that was chosen, and the Cholesky factor of those atoms.
    @working_memory(
        lambda self, row, D, *_: (
            (row.n_features + (self.n_nonzero + 10) * D.shape[0] + self.n_nonzero**2) * row.itemsize
        )
    )
    def encode(self, X: Array, D: Array, G: Array, inverse: Array) -> Array:
        """Return the codes of one block; see the base class."""
        S = code.omp(X, D, G, inverse, n_nonzero=self.n_nonzero)
        return code.split_signs(S) if self.split_signs else S
