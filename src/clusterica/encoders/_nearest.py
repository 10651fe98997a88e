"""Codes by distances: one for the nearest atom, or ``max(0, mean(z) - z_k)`` with ``z_k = |x - d_k|``."""

from __future__ import annotations

from typing import Any

from clusterica.arrays import Array, working_memory
from clusterica.encoders._base import BaseEncoder, dense_bytes
from clusterica.ops import code
from clusterica.ops.cpu.encode import Code


class HardEncoder(BaseEncoder):
    r"""Hard assignment: 1 for the nearest atom, 0 for all others.

    The code of K-means itself, :math:`f_k = 1` for :math:`k = \arg\min_j \|x - d_j\|`. As features
    for a classifier it does much worse than the other encoders [1]_; it is here for comparison, and
    for histograms of visual words.

    Parameters
    ----------
    dictionary : array-like of shape (n_atoms, n_features) or None, default=None
        One atom per row, such as ``cluster_centers_``. Required by fit; None where another estimator
        provides it.

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
    Of several atoms that are equally near, up to rounding the first one is taken.

    References
    ----------
    .. [1] A. Coates and A. Y. Ng, "Learning feature representations with K-means", 2012.

    Examples
    --------
    >>> import numpy as np
    >>> from clusterica.encoders import HardEncoder
    >>> D = np.array([[0.0, 0.0], [3.0, 4.0]])
    >>> HardEncoder(D).fit_transform(np.array([[1.0, 0.0], [3.0, 3.0]]))
    array([[1., 0.],
           [0., 1.]])
    """

    def __init__(self, dictionary: Any = None) -> None:
        self.dictionary = dictionary

    def compiled_form(self) -> tuple[Code, float]:
        """Return the function by which compiled code computes these codes, and its threshold."""
        return Code.ONE_HOT, 0.0  # no threshold

    def prepare(self, D: Array) -> tuple[Array, ...]:
        """Return the atoms about their mean, and the mean; see the base class."""
        return code.center(D)

    @working_memory(dense_bytes)
    def encode(self, X: Array, D: Array, shift: Array) -> Array:
        """Return the codes of one block; see the base class."""
        # Ties go to the first atom, as in KMeans.predict.
        return code.one_hot(X, D, shift)


class TriangleEncoder(BaseEncoder):
    r"""Triangle encoding: how much nearer an atom is than the average atom.

    .. math::
        f_k = \max(0, \operatorname{mean}(z) - z_k), \qquad z_k = \|x - d_k\|

    of [1]_. About half of the codes are zero. Meant for the
    centroids of Euclidean K-means, :class:`clusterica.cluster.KMeans`.

    Parameters
    ----------
    dictionary : array-like of shape (n_atoms, n_features) or None, default=None
        One atom per row, such as ``cluster_centers_``. Required by fit; None where another estimator
        provides it.

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
    Distances come from a difference of squares. In float32 that of a row to an atom which is equal to
    it comes out as up to about one thousandth of the row's length in place of zero.

    References
    ----------
    .. [1] A. Coates, H. Lee and A. Y. Ng, "An analysis of single-layer networks in unsupervised
       feature learning", 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from clusterica.encoders import TriangleEncoder
    >>> D = np.array([[0.0, 0.0], [3.0, 4.0]])
    >>> TriangleEncoder(D).fit_transform(np.array([[0.0, 0.0], [0.0, 4.0]]))
    array([[2.5, 0. ],
           [0. , 0.5]])
    """

    def __init__(self, dictionary: Any = None) -> None:
        self.dictionary = dictionary

    def compiled_form(self) -> tuple[Code, float]:
        """Return the function by which compiled code computes these codes, and its threshold."""
        return Code.TRIANGLE, 0.0  # no threshold

    def prepare(self, D: Array) -> tuple[Array, ...]:
        """Return the atoms about their mean, and the mean; see the base class."""
        return code.center(D)

    @working_memory(dense_bytes, marks_overflow=True)
    def encode(self, X: Array, D: Array, shift: Array) -> Array:
        """Return the codes of one block; see the base class."""
        return code.triangle(X, D, shift)
