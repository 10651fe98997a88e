"""Kernel sparse codes: ``min_s |Wᵀ s - φ(x)|² + λ |s|_1`` for rows and atoms that a kernel maps to φ."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np

from clusterica.arrays import Array, Interval, StrOptions, namespace_of, to_host, working_memory
from clusterica.encoders._base import BaseEncoder
from clusterica.encoders._sparse import LassoEncoder
from clusterica.kernels import KERNEL_NAMES, Gaussian, Kernel, make_kernel, median_gamma
from clusterica.kernels.solvers import descend_on_host
from clusterica.ops.cpu.lasso import LassoCodes
from clusterica.ops.kernel_coding import kernel_codes
from clusterica.ops.kernels import gram
from clusterica.ops.linalg import unit_rows


class KernelSparseEncoder(LassoEncoder):
    r"""Kernel sparse coding: a mapped row as a combination of few mapped atoms (KSR).

    .. math::
        s = \arg\min_s \|W^\top s - \phi(x)\|^2 + \lambda \|s\|_1
          = \arg\min_s s^\top k(W, W) s - 2 s^\top k(W, x) + \lambda \|s\|_1 ,

    equation (8) of [2]_ for a given basis, after [1]_. The squared distance has no factor ½ as it has in
    :class:`SparseEncoder`: with a linear kernel the codes are those of ``SparseEncoder(alpha=sparsity / 2)``.

    Parameters
    ----------
    dictionary : array-like of shape (n_atoms, n_features) or None, default=None
        One atom per row, used as it is. Required by fit; None where another estimator provides it.
    kernel : str or Kernel, default="rbf"
        "rbf" (:math:`e^{-\gamma \|x - y\|^2}`), "polynomial" (:math:`(1 + x^\top y)^3`), "inverse-distance"
        (:math:`1 / (1 + \|x - y\|)`), "inverse-square-distance" (:math:`1 / (1 + \|x - y\|^2)`),
        "histogram-intersection" (:math:`\sum_i \min(e^{x_i}, e^{y_i})`), or an object that
        :func:`~clusterica.kernels.check_kernel` accepts. Named ones without :math:`k(x, x) = 1` are
        normalised.
    gamma : float or "median", default="median"
        The :math:`\gamma` of "rbf"; "median" is one over the median squared distance of pairs of atoms.
    sparsity : float, default=0.1
        The :math:`\lambda`. A row whose :math:`|k(W, x)|` are all at most :math:`\lambda / 2` has the code
        zero; fit warns if all rows that it looks at, about 1000, are such.
    normalize : bool, default=True
        Whether to scale rows to unit length first; rows of zeros stay zero. Atoms should then come from
        such rows.
    split_signs : bool, default=True
        Return the positive and the negative parts of the codes as features of their own, twice as many
        as there are atoms: pooled, they would cancel out. False returns the codes with their signs.
    transform_max_iter : int, default=1000
        Maximum number of iterations for a row; see Notes.
    tol : float, default=1e-4
        The codes of a row are found when their duality gap is at most this times
        :math:`\tfrac12 k(x, x)`.

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
    Two solvers compute the codes. Sparse codes come from coordinate descent, the compiled solver of
    :class:`SparseEncoder`, row by row on the host. Codes with many nonzeros, and large blocks on a device,
    come from splitting (ADMM) on all rows of a block: kernel values of atoms are often all near one, where
    gradient steps converge slowly. Rows that splitting does not solve, such as those much shorter or longer
    than the others, are solved by coordinate descent; if their codes are dense, splitting is tried again in
    float64 first.

    See Also
    --------
    clusterica.dictionaries.KernelSparseCoding : Learns the dictionary.
    SparseEncoder : Sparse codes of the rows themselves.

    References
    ----------
    .. [1] S. Gao, I. W. Tsang and L.-T. Chia, "Kernel sparse representation for image classification and
       face recognition", 2010.
    .. [2] Y. Xiao, Z. Zhu and Y. Zhao, "Kernel reconstruction ICA for sparse representation", 2013.

    Examples
    --------
    >>> import numpy as np
    >>> from clusterica.encoders import KernelSparseEncoder
    >>> W = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> encoder = KernelSparseEncoder(W, gamma=2.0, split_signs=False)
    >>> encoder.fit_transform(np.array([[3.0, 0.0], [1.0, -1.0]])).round(3)
    array([[0.95, 0.  ],
           [0.26, 0.  ]])
    """

    _penalty_name = "sparsity"
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseEncoder._parameter_constraints,
        "kernel": [StrOptions(set(KERNEL_NAMES)), callable],
        "gamma": [Interval(Real, 0, None, closed="neither"), StrOptions({"median"})],
        "sparsity": [Interval(Real, 0, None, closed="neither")],
        "normalize": ["boolean"],
        "split_signs": ["boolean"],
        "transform_max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        dictionary: Any = None,
        *,
        kernel: str | Kernel = "rbf",
        gamma: float | str = "median",
        sparsity: float = 0.1,
        normalize: bool = True,
        split_signs: bool = True,
        transform_max_iter: int = 1000,
        tol: float = 1e-4,
    ) -> None:
        self.dictionary = dictionary
        self.kernel = kernel
        self.gamma = gamma
        self.sparsity = sparsity
        self.normalize = normalize
        self.split_signs = split_signs
        self.transform_max_iter = transform_max_iter
        self.tol = tol

    def prepare(self, D: Array) -> tuple[Array, ...]:
        """Return the atoms, what multiplies rows, and products of atoms; see the base class.

        The Gaussian kernel of γ is that of 1 for rows and atoms times √γ. So γ travels with the arrays.
        """
        xp, gamma = namespace_of(D), 1.0
        if _is_rbf(self.kernel) and isinstance(self.gamma, str):
            if D.shape[0] < 2:
                raise ValueError(
                    "gamma='median' needs two atoms at least, and the dictionary has one; give a number"
                )
            # Of pairs drawn with a fixed seed, so that an encoder has no random state of its own.
            gamma = median_gamma(to_host(D).astype(np.float64), np.random.default_rng(0))
        elif _is_rbf(self.kernel):
            gamma = float(self.gamma)
        # An array, and not a number: `prepare` returns arrays only, which are moved to the blocks.
        scale = xp.full(1, float(gamma**0.5), dtype=D.dtype, device=D.device)
        W = D * scale
        return W, scale, gram(self._unit_kernel(), W)

    # The rows scaled and centred, and about thirteen arrays of the size of the codes.
    @working_memory(lambda self, row, W, *_: (3 * row.n_features + 13 * W.shape[0]) * row.itemsize)
    def _solve(self, X: Array, W: Array, scale: Array, G: Array) -> LassoCodes:
        """Return the codes of a block with their signs, and the relative duality gaps."""
        return kernel_codes(
            self._scaled(X, scale),
            W,
            G,
            kernel=self._unit_kernel(),
            sparsity=float(self.sparsity),
            max_iter=self.transform_max_iter,
            tol=float(self.tol),
            descend=descend_on_host,
        )

    def _least_penalty(self, X: np.ndarray, *prepared: np.ndarray) -> float:
        W, scale, _ = prepared
        return 2 * float(np.abs(self._unit_kernel()(self._scaled(X, scale), W)).max())

    def _scaled(self, X: Array, scale: Array) -> Array:
        """Return rows scaled as the atoms were in `prepare`, so that the unit kernel is that of gamma."""
        return (unit_rows(X) if self.normalize else X) * scale

    def _unit_kernel(self) -> Kernel:
        return Gaussian() if _is_rbf(self.kernel) else make_kernel(self.kernel, gamma=self.gamma)


def _is_rbf(kernel: str | Kernel) -> bool:
    return isinstance(kernel, str) and kernel == "rbf"
