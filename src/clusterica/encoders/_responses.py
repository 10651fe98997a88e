"""Codes that are a function of the responses, ``f = g(D x)``: soft threshold and sigmoid."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

from clusterica.arrays import Array, Interval, working_memory
from clusterica.encoders._base import BaseEncoder, dense_bytes
from clusterica.ops import code
from clusterica.ops.cpu.encode import Code


class SoftThresholdEncoder(BaseEncoder):
    r"""Soft threshold: the part of each response that exceeds a constant.

    .. math::
        f = \max(0, D x - \alpha), \quad\text{and two-sided also}\quad \max(0, -D x - \alpha),

    section 4.2 of [1]_: fast, and as good as any other encoder where labels are many.

    Parameters
    ----------
    dictionary : array-like of shape (n_atoms, n_features) or None, default=None
        One atom per row, such as ``cluster_centers_``. Required by fit; None where another estimator
        provides it.
    alpha : float, default=0.25
        The threshold. 0.25 suits whitened patches and atoms of unit length; tune it on held-out rows.
    two_sided : bool, default=True
        Whether the negative responses count as well, as features of their own: twice as many as there
        are atoms, first all positive and then all negative sides.

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
    .. [1] A. Coates and A. Y. Ng, "Learning feature representations with K-means", 2012.

    Examples
    --------
    >>> import numpy as np
    >>> from clusterica.encoders import SoftThresholdEncoder
    >>> SoftThresholdEncoder(np.eye(2), alpha=0.5).fit_transform(np.array([[2.0, -1.0]]))
    array([[1.5, 0. , 0. , 0.5]])
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseEncoder._parameter_constraints,
        "alpha": [Interval(Real, 0, None, closed="left")],
        "two_sided": ["boolean"],
    }

    def __init__(
        self, dictionary: Any = None, *, alpha: float = 0.25, two_sided: bool = True
    ) -> None:
        self.dictionary = dictionary
        self.alpha = alpha
        self.two_sided = two_sided

    def compiled_form(self) -> tuple[Code, float]:
        """Return the function by which compiled code computes these codes, and its threshold."""
        return (Code.BOTH_SIGNS if self.two_sided else Code.POSITIVE), float(self.alpha)

    def n_features_out(self, n_atoms: int) -> int:
        """Return the number of features of a code, for a dictionary of ``n_atoms`` atoms."""
        return n_atoms * (2 if self.two_sided else 1)

    @working_memory(dense_bytes, marks_overflow=True)
    def encode(self, X: Array, D: Array) -> Array:
        """Return the codes of one block; see the base class."""
        return code.soft_threshold(X, D, alpha=float(self.alpha), two_sided=self.two_sided)


class SigmoidEncoder(BaseEncoder):
    r"""Sigmoid of the responses, as in a layer of a neural network.

    .. math::
        f = \frac{1}{1 + \exp(-D x + b)},

    section 4.2 of [1]_, where it is found to do much worse than the soft threshold.

    Parameters
    ----------
    dictionary : array-like of shape (n_atoms, n_features) or None, default=None
        One atom per row, such as ``cluster_centers_``. Required by fit; None where another estimator
        provides it.
    bias : float, default=0.0
        The constant b: the response at which the code is one half.

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
    .. [1] A. Coates and A. Y. Ng, "Learning feature representations with K-means", 2012.

    Examples
    --------
    >>> import numpy as np
    >>> from clusterica.encoders import SigmoidEncoder
    >>> SigmoidEncoder(np.eye(2), bias=1.0).fit_transform(np.array([[1.0, 1000.0]]))
    array([[0.5, 1. ]])
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseEncoder._parameter_constraints,
        "bias": [Interval(Real, None, None, closed="neither")],
    }

    def __init__(self, dictionary: Any = None, *, bias: float = 0.0) -> None:
        self.dictionary = dictionary
        self.bias = bias

    def compiled_form(self) -> tuple[Code, float]:
        """Return the function by which compiled code computes these codes, and its threshold."""
        return Code.SIGMOID, float(self.bias)

    @working_memory(dense_bytes)
    def encode(self, X: Array, D: Array) -> Array:
        """Return the codes of one block; see the base class."""
        return code.sigmoid(X, D, bias=float(self.bias))
