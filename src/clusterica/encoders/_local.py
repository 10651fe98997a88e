"""Codes by the k nearest atoms: ``min_w |x - sum_j w_j d_j|²`` with weights that add up to one."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

from clusterica.arrays import Array, Interval, working_memory
from clusterica.encoders._base import BaseEncoder
from clusterica.ops.code import center
from clusterica.ops.llc import local_codes


class LLCEncoder(BaseEncoder):
    r"""Locality-constrained linear coding: a row as a weighted mean of its nearest atoms.

    .. math::
        \min_w \Big\| x - \sum_j w_j d_j \Big\|^2 + \lambda \operatorname{tr}(C) \|w\|^2
        \quad\text{where}\quad \sum_j w_j = 1 ,

    over the k atoms nearest to the row, with :math:`C_{jl} = (d_j - x)^\top (d_l - x)`: the approximated
    codes of [1]_, section 3. All other codes are zero. Meant for the centres of
    :class:`clusterica.cluster.KMeans`, and for pooling by the maximum.

    Parameters
    ----------
    dictionary : array-like of shape (n_atoms, n_features) or None, default=None
        One atom per row, such as ``cluster_centers_``. Required by fit; None where another estimator
        provides it.
    n_neighbors : int, default=5
        The k, at most as many as the dictionary has atoms.
    ridge : float, default=1e-4
        The :math:`\lambda`, which keeps weights finite where atoms are in line with the row.

    Attributes
    ----------
    dictionary_ : array of shape (n_atoms, n_features)
        The dictionary, in the library, on the device and of the dtype of X.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has column names.

    References
    ----------
    .. [1] J. Wang, J. Yang, K. Yu, F. Lv, T. Huang and Y. Gong, "Locality-constrained linear coding for image
       classification", 2010.

    Examples
    --------
    >>> import numpy as np
    >>> from clusterica.encoders import LLCEncoder
    >>> D = np.array([[0.0, 0.0], [4.0, 0.0], [9.0, 9.0]])
    >>> LLCEncoder(D, n_neighbors=2).fit_transform(np.array([[1.0, 0.0]])).round(2)
    array([[0.75, 0.25, 0.  ]])
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseEncoder._parameter_constraints,
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "ridge": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(
        self, dictionary: Any = None, *, n_neighbors: int = 5, ridge: float = 1e-4
    ) -> None:
        self.dictionary = dictionary
        self.n_neighbors = n_neighbors
        self.ridge = ridge

    def prepare(self, D: Array) -> tuple[Array, ...]:
        """Return the atoms about their mean, and the mean; see the base class."""
        if self.n_neighbors > D.shape[0]:
            raise ValueError(
                f"n_neighbors={self.n_neighbors} must be at most the number of atoms, {D.shape[0]}; lower "
                "it, or give a larger dictionary"
            )
        return center(D)

    # Scores, a copy of them with the chosen ones marked, the codes and a term of them; the atoms of a row
    # twice, and the small systems.
    @working_memory(
        lambda self, row, D, shift: (
            row.itemsize
            * (
                5 * D.shape[0]
                + 2 * (self.n_neighbors + 1) * row.n_features
                + 3 * self.n_neighbors**2
            )
        )
    )
    def encode(self, X: Array, D: Array, shift: Array) -> Array:
        """Return the codes of one block; see the base class."""
        return local_codes(X, D, shift, n_neighbors=self.n_neighbors, ridge=float(self.ridge))
