"""Sparse codes: ``min_s 0.5 |x - Dᵀ s|^2 + alpha |s|_1``, or the best fit by a few atoms chosen greedily."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar

from sklearn.exceptions import ConvergenceWarning

from clusterica.arrays import Array, Interval, namespace_of
from clusterica.encoders._base import BaseEncoder
from clusterica.ops import code


class SparseEncoder(BaseEncoder):
    r"""Sparse coding: a row as a combination of few atoms, by the lasso.

    .. math::
        s = \arg\min_s \tfrac12 \|x - D^\top s\|^2 + \alpha \|s\|_1 .

    Costly beside the soft threshold, and worth it where labels are few (section 4.2 of [1]_).

    Parameters
    ----------
    dictionary : array-like of shape (n_atoms, n_features) or None, default=None
        One atom a row. Needed by fit; None where another estimator gives the dictionary.
    alpha : float, default=1.0
        Weight of the penalty. A row with :math:`|D x| \le \alpha` in all places has the code zero.
    split_signs : bool, default=True
        Return the positive and the negative parts of the codes as features of their own, twice as many
        as there are atoms: pooled, they would cancel out. False returns the codes with their signs.
    transform_max_iter : int, default=1000
        Most sweeps over the atoms of a row (NumPy), or gradient steps (other libraries).
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
        Names of the features, where X has them.

    Notes
    -----
    On the CPU the codes come from coordinate descent on the Gram matrix over the atoms in use, with
    Newton steps between the sweeps, row by row in compiled code. On other devices they come from
    FISTA [2]_ on all rows of a block, with restarts. Both stop at the same gap. A dictionary with
    equal atoms has codes that are not unique, and the two may differ.

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
        return (D, *code.gram_and_curvature(D))

    def n_features_out(self, n_atoms: int) -> int:
        """Return how many features a row has after encoding with so many atoms."""
        return n_atoms * (2 if self.split_signs else 1)

    def row_bytes(self, n_atoms: int, n_features: int, itemsize: int) -> int:
        """Return the working memory that `encode` takes for each row, its codes among it."""
        return (n_features + 12 * n_atoms) * itemsize

    def _function(self) -> Callable[..., Array]:
        return partial(
            _lasso,
            alpha=float(self.alpha),
            split_signs=self.split_signs,
            max_iter=self.transform_max_iter,
            tol=float(self.tol),
        )


class OMPEncoder(BaseEncoder):
    r"""Orthogonal matching pursuit: a row as a combination of at most so many atoms.

    .. math::
        \min_s \|x - D^\top s\|^2 \quad\text{where}\quad \|s\|_0 \le k,

    solved greedily: the atom that points most in the direction of what is left of the row is added,
    and all codes are fitted anew by least squares. With one atom it is the code of
    :class:`clusterica.cluster.GainShapeKMeans`, equation (1) of [1]_.

    Parameters
    ----------
    dictionary : array-like of shape (n_atoms, n_features) or None, default=None
        One atom a row, of any length. Needed by fit; None where another estimator gives the dictionary.
    n_nonzero : int, default=5
        Most atoms of a row, at most as many as the dictionary has.
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
        Names of the features, where X has them.

    Notes
    -----
    A row gets fewer atoms where they reproduce it exactly, or where those left point in directions that
    the chosen ones span already. The Gram matrix is computed once; a row is coded without a look at
    its features from then on.

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
        return code.unit_atoms(D)

    def n_features_out(self, n_atoms: int) -> int:
        """Return how many features a row has after encoding with so many atoms."""
        return n_atoms * (2 if self.split_signs else 1)

    def row_bytes(self, n_atoms: int, n_features: int, itemsize: int) -> int:
        """Return the working memory that `encode` takes for each row, its codes among it."""
        per_row = n_features + (self.n_nonzero + 10) * n_atoms + self.n_nonzero**2
        return per_row * itemsize

    def _function(self) -> Callable[..., Array]:
        return partial(_omp, n_nonzero=self.n_nonzero, split_signs=self.split_signs)


def _lasso(
    X: Array,
    D: Array,
    G: Array,
    curvature: Array,
    *,
    alpha: float,
    split_signs: bool,
    max_iter: int,
    tol: float,
) -> Array:
    S, gaps = code.lasso(X, D, G, curvature, alpha=alpha, max_iter=max_iter, tol=tol)
    warn_of_gaps(gaps, max_iter=max_iter, tol=tol, name="alpha")
    return code.split_signs(S) if split_signs else S


def warn_of_gaps(gaps: Array, *, max_iter: int, tol: float, name: str) -> None:
    """Warn of codes that were not found to tol; `name` is the parameter that weighs the penalty."""
    if bool(namespace_of(gaps).any(gaps > tol)):
        warnings.warn(
            f"the codes of some rows did not reach a relative duality gap of tol={tol:g} in "
            f"transform_max_iter={max_iter} iterations; raise transform_max_iter, tol or {name}",
            ConvergenceWarning,
            stacklevel=3,
        )


def _omp(
    X: Array, D: Array, G: Array, inverse: Array, *, n_nonzero: int, split_signs: bool
) -> Array:
    S = code.omp(X, D, G, inverse, n_nonzero=n_nonzero)
    return code.split_signs(S) if split_signs else S
