"""Kernel RICA: ``min_W mean_i |a WᵀW φ(x_i) - φ(x_i)|² + λ g(k(W, x_i))``, with codes ``k(w, x)``."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar, Self

from clusterica.arrays import Interval, check_rows, fit_context
from clusterica.kernels import Kernel
from clusterica.rica._base_kernel_rica import BaseKernelRICA


class KernelRICA(BaseKernelRICA):
    r"""Kernel reconstruction ICA: sparse codes :math:`s = k(W, x)` (kRICA).

    Reconstruction ICA of mapped rows :math:`\phi(x)`, with :math:`k(x, y) = \phi(x)^\top \phi(y)`, over basis
    vectors w in the space of the rows (equations (5) and (6) of [1]_, where a = 1):

    .. math::
        \min_W \; \frac1m \sum_i k(x_i, x_i) + a^2 s_i^\top k(W, W)\, s_i - 2 a\, s_i^\top s_i
        + \lambda\, g(s_i), \qquad s_i = k(W, x_i) .

    Parameters
    ----------
    n_components : int or None, default=None
        Number of basis vectors, K; there may be more than features. None is the number of features.
    kernel : str or Kernel, default="rbf"
        "rbf" (:math:`e^{-\gamma \|x - y\|^2}`), "polynomial" (:math:`(1 + x^\top y)^3`), "inverse-distance"
        (:math:`1 / (1 + \|x - y\|)`), "inverse-square-distance" (:math:`1 / (1 + \|x - y\|^2)`),
        "histogram-intersection" (:math:`\sum_i \min(e^{x_i}, e^{y_i})`), or an object that
        :func:`~clusterica.kernels.check_kernel` accepts. Named kernels without :math:`k(x, x) = 1` are
        normalised; objects are taken as they are.
    gamma : float, "basis" or "median", default="basis"
        The :math:`\gamma` of "rbf". With "basis" two different basis vectors have a k of 0.2 on average at
        the start, so that they overlap little, or more where half of the rows would have a k below 0.1 with
        all of them; "median" is one over the median squared distance of random pairs of rows, which is too
        small for more than a few basis vectors. See Notes.
    scale : float or "best", default="best"
        The factor a of the reconstruction :math:`a W^\top W \phi(x)`. "best" is the one with the least error
        for the basis, :math:`\sum_i s_i^\top s_i / \sum_i s_i^\top k(W, W) s_i`, at every step; 1 is the
        objective of [1]_.
    sparsity : float or "auto", default="auto"
        The :math:`\lambda`. "auto" is the one with which the penalty is a hundredth of the reconstruction
        error at the start; [1]_ has 0.01 to 0.1.
    penalty : {"logcosh", "l1", "exp", "sqrt"} or contrast, default="logcosh"
        The g of ``pooling=None``, as in :class:`RICA`; an error if it is changed with pooling.
    pooling : {"1d", "2d"}, array-like of shape (n_components,), pooling object or None, default="2d"
        L2 pooling, :math:`g(s) = \sum_j \sqrt{\epsilon + H_j s^2}`, as in :class:`RICA`; by default over
        3 x 3 neighbours on a grid whose edges are joined.
    normalize : bool, default=False
        Whether to scale rows to unit length first. Rows of zeros stay zero.
    unit_codes : bool, default=True
        Whether ``transform`` scales the codes of a row to unit length, so that rows far from all basis
        vectors have codes of the same size as others; a single code stays as it is. The objective has the
        codes as they are, and so has [1]_.
    optimizer : {"auto", "fixed-point", "lbfgs"}, default="auto"
        "fixed-point" moves all basis vectors to the fixed points of [1]_ at once, or down the gradient where
        these lie uphill; "lbfgs" is L-BFGS; "auto" begins with the former and ends with the latter, when a
        step gains less than a ten-thousandth. With all of them the objective never rises. See Notes.
    max_iter : int, default=200
        Maximum number of iterations.
    tol : float, default=0.01
        Convergence: the relative change of the objective, and of the squared length of W, in a step. Codes
        are best for classifiers after few steps, see Notes; 1e-5 is near the minimum.
    random_state : int, RandomState, Generator or None, default=None
        Seed of all random draws, the same on every device.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        The basis W.
    kernel_ : Kernel
        The kernel in use.
    gamma_ : float or None
        Its :math:`\gamma`, if it is "rbf".
    scale_ : float
        The a in the end.
    sparsity_ : float
        The :math:`\lambda` in use.
    reconstruction_error_ : float
        Mean of :math:`\|a W^\top W \phi(x) - \phi(x)\|^2` over the data.
    median_similarity_ : float
        Median of :math:`k(w, x)` over basis vectors and some rows.
    n_dead_ : int
        Number of basis vectors far from all rows, :math:`\max_i k(w, x_i) < 0.01`.
    n_uphill_ : ndarray of shape (n_iter_ + 1,)
        Number of basis vectors whose fixed point is not a minimum (c <= 0), at the start and after each step.
    objective_history_ : ndarray of shape (n_iter_ + 1,)
        The objective at the start and after each step.
    term_histories_ : dict of ndarray of shape (n_iter_ + 1,)
        Its terms, "reconstruction" and "penalty" (weighted), which add up to it.
    n_iter_ : int
        Number of steps.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has column names.

    Warns
    -----
    UserWarning
        If more than 5 % of the basis are dead.
    ConvergenceWarning
        If the objective was still falling after max_iter steps.

    See Also
    --------
    clusterica.rica.RICA : Without a kernel.
    clusterica.rica.DiscriminativeKernelRICA : With a part of the basis for every class.
    clusterica.dictionaries.KernelSparseCoding : With free codes.

    Notes
    -----
    Kernel RICA with whitening, the other form in [1]_, is RICA of whitened rows:
    ``make_pipeline(KernelWhitener(n), RICA(K, unit_norm=False, pooling="2d"))``.

    The basis starts at K-means centres of the rows. The objective is not convex. Mapped basis vectors have
    unit length: where many are like the same rows, their sum is a reconstruction that is too long, and with
    ``scale=1`` they push each other out of the reach of all rows: dead. A scale below 1 makes up for that,
    as RICA does by shorter rows of W. The penalty drives them out as well: it is a sum over all codes, and
    the reconstruction error is at most 1, so that a :math:`\lambda` that suits ten vectors is too strong for
    hundreds. ``sparsity="auto"`` keeps it small. ``clusterica reproduce P4-defaults`` shows what the defaults
    reach. If many die, raise gamma.
    No basis vector moves farther in one step than the width of the kernel, since it does not come back from
    where no row is near.

    Most of the objective's fall is in the first steps. Later ones move the basis outwards, where vectors
    overlap less, and a linear classifier on the codes does not gain by it.

    The experiments of [1]_ have ``scale=1.0``, ``normalize=True``, ``unit_codes=False``, a gamma of 0.1 or
    0.01 and a sparsity of 0.01 to 0.1; we add ``tol=1e-5``.

    With the gradient by w written as :math:`c\, w - v`, the fixed point :math:`v / c` lowers the objective
    only where c > 0: often nowhere at the start, and nearly everywhere at the end where no vector died. The
    table that ``clusterica reproduce P4-bases`` prints shows how the optimizers end, and after how many
    steps.

    Data is read block by block, once for an evaluation, which costs about :math:`4 m K^2 + 4 m n K`
    operations in matrix products (:math:`4 m K^2 + 8 m n K` for the best scale); no array of the size
    rows x rows is made.

    References
    ----------
    .. [1] Y. Xiao, Z. Zhu and Y. Zhao, "Kernel reconstruction ICA for sparse representation", 2013.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from clusterica.rica import KernelRICA
    >>> X = load_digits().data
    >>> rica = KernelRICA(20, random_state=0).fit(X)
    >>> rica.transform(X).shape, rica.n_dead_
    ((1797, 20), 0)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseKernelRICA._parameter_constraints,
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
    }

    # Thirteen parameters: those of RICA, with the kernel, its gamma, the factor, the length of codes and the
    # optimizer in place of signs, lengths and the start.
    def __init__(
        self,
        n_components: int | None = None,
        *,
        kernel: str | Kernel = "rbf",
        gamma: float | str = "basis",
        scale: float | str = "best",
        sparsity: float | str = "auto",
        penalty: Any = "logcosh",
        pooling: Any = "2d",
        normalize: bool = False,
        unit_codes: bool = True,
        optimizer: str = "auto",
        max_iter: int = 200,
        tol: float = 0.01,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.gamma = gamma
        self.scale = scale
        self.sparsity = sparsity
        self.penalty = penalty
        self.pooling = pooling
        self.normalize = normalize
        self.unit_codes = unit_codes
        self.optimizer = optimizer
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the basis.

        Parameters
        ----------
        X : array-like, tensor, Dask array or iterable of blocks, (n_samples, n_features)
            The data.
        y : ignored

        Returns
        -------
        self
        """
        rows = check_rows(self, X, reset=True, min_rows=2)
        K = self.n_components or rows.n_features
        if rows.n_rows < K:
            raise ValueError(
                f"n_components={K} must be at most the number of rows, n_samples={rows.n_rows}; lower it, "
                "or give more rows"
            )
        self._fit(X, y, rows, K)
        return self
