"""Supervised kernel RICA: kernel RICA plus ``α E d(k(W, x))``, with a part of the basis for every class."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, Self

from clusterica.arrays import Interval, StrOptions, check_rows, fit_context
from clusterica.kernels import Kernel
from clusterica.rica._base_kernel_rica import BaseKernelRICA
from clusterica.rica._labels import (
    CONSTRAINTS,
    check_basis_labels,
    make_discrimination,
)


class DiscriminativeKernelRICA(BaseKernelRICA):
    r"""Supervised kernel RICA: codes :math:`s = k(W, x)` with a part for every class (d-kRICA).

    :class:`KernelRICA` with the term of :class:`DiscriminativeRICA` that depends on labels (equation (11) of
    [1]_): :math:`\alpha\, d(s)` is added to its objective,

    .. math::
        d(s) = \Big(\sum_{\text{others}} s_j\Big)^2 - \Big(\sum_{\text{own}} s_j\Big)^2 + \eta \|s\|^2 .

    Parameters
    ----------
    n_components_per_class : int or None, default=None
        Number k of basis vectors of every class, so that there are K = k c for c classes. None is the number
        of features divided by c, one at least.
    kernel : str or Kernel, default="rbf"
        As in :class:`KernelRICA`.
    gamma : float, "basis" or "median", default="basis"
        As in :class:`KernelRICA`.
    scale : float or "best", default="best"
        As in :class:`KernelRICA`.
    sparsity : float or "auto", default="auto"
        As in :class:`KernelRICA`.
    discrimination : float or "auto", default="auto"
        The :math:`\alpha`; 0 is kernel RICA with a start by classes. "auto" is the one with which the term is
        a hundredth of the reconstruction error at the start (for an eta up to k, the term with k + 1: that
        with eta may be zero). See Notes.
    eta : "auto" or float, default="auto"
        The :math:`\eta`, with which d is convex in s exactly where it exceeds k. "auto" is k + 1. Values
        up to k are allowed, with a warning.
    constraint : {"both", "inhomogeneous"}, default="both"
        "inhomogeneous" is the first part of d alone, the codes of other classes; eta is not used then.
    penalty : {"logcosh", "l1", "exp", "sqrt"} or contrast, default="logcosh"
        As in :class:`KernelRICA`.
    pooling : {"1d", "2d"}, array-like of shape (n_components,), pooling object or None, default="2d"
        As in :class:`KernelRICA`.
    normalize : bool, default=False
        Whether to scale rows to unit length first. Rows of zeros stay zero.
    unit_codes : bool, default=True
        As in :class:`KernelRICA`.
    optimizer : {"auto", "fixed-point", "lbfgs"}, default="auto"
        As in :class:`KernelRICA`.
    max_iter : int, default=200
        Maximum number of iterations.
    tol : float, default=0.01
        Convergence: the relative change of the objective, and of the squared length of W, in a step.
    random_state : int, RandomState, Generator or None, default=None
        Seed of all random draws, the same on every device.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        The basis W, ordered by class as ``classes_`` are.
    component_classes_ : ndarray of shape (n_components,)
        The class of every basis vector.
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted.
    discrimination_ : float
        The :math:`\alpha` in use.
    eta_ : float
        The :math:`\eta`, which ``constraint="both"`` uses.
    kernel_ : Kernel
        The kernel in use.
    gamma_ : float or None
        Its :math:`\gamma`, if it is "rbf".
    scale_ : float
        The factor a in the end.
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
        Its terms, "reconstruction", "penalty" and "discrimination" (weighted), which add up to it.
    n_iter_ : int
        Number of steps.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has column names.

    Warns
    -----
    UserWarning
        If more than 5 % of the basis are dead, or if d is not convex.
    ConvergenceWarning
        If the objective was still falling after max_iter steps.

    See Also
    --------
    clusterica.rica.KernelRICA : Without labels; its notes explain gamma.
    clusterica.rica.DiscriminativeRICA : Without a kernel.

    Notes
    -----
    Every part of the basis starts at K-means centres of the rows of its class. Kernels of the distance have
    no negative codes, so that the sums in d do not cancel. With :math:`\eta \ge k + 1` the term is never
    below the squared length of the own codes: it can only shrink codes, and basis vectors die of it where it
    is strong; then lower discrimination, or eta. What labels gain comes from the start by classes: with 50
    labels a class the term itself, at 3 to 100 % of the reconstruction error and with an eta of 0 to k + 1,
    made no difference larger than chance on digits and MNIST. With 0.1, as in [1]_, half of the basis of the
    digits died.

    References
    ----------
    .. [1] Y. Xiao, Z. Zhu and Y. Zhao, "Kernel reconstruction ICA for sparse representation", 2013.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from clusterica.rica import DiscriminativeKernelRICA
    >>> X, y = load_iris(return_X_y=True)
    >>> rica = DiscriminativeKernelRICA(2, random_state=0).fit(X, y)
    >>> rica.component_classes_
    array([0, 0, 1, 1, 2, 2])
    >>> nearest = rica.component_classes_[rica.transform(X).argmax(axis=1)]
    >>> bool((nearest == y).mean() > 0.9)
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseKernelRICA._parameter_constraints,
        "n_components_per_class": [Interval(Integral, 1, None, closed="left"), None],
        "discrimination": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "eta": [StrOptions({"auto"}), Interval(Real, 0, None, closed="left")],
        "constraint": [StrOptions(set(CONSTRAINTS))],
    }

    # Sixteen parameters: the thirteen of KernelRICA, and three of the discrimination term.
    def __init__(
        self,
        n_components_per_class: int | None = None,
        *,
        kernel: str | Kernel = "rbf",
        gamma: float | str = "basis",
        scale: float | str = "best",
        sparsity: float | str = "auto",
        discrimination: float | str = "auto",
        eta: float | str = "auto",
        constraint: str = "both",
        penalty: Any = "logcosh",
        pooling: Any = "2d",
        normalize: bool = False,
        unit_codes: bool = True,
        optimizer: str = "auto",
        max_iter: int = 200,
        tol: float = 0.01,
        random_state: Any = None,
    ) -> None:
        self.n_components_per_class = n_components_per_class
        self.kernel = kernel
        self.gamma = gamma
        self.scale = scale
        self.sparsity = sparsity
        self.discrimination = discrimination
        self.eta = eta
        self.constraint = constraint
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
        """Learn the basis of every class.

        Parameters
        ----------
        X : array-like, tensor, Dask array or iterable of blocks, (n_samples, n_features)
            The data.
        y : array-like of shape (n_samples,)
            The class of every row.

        Returns
        -------
        self
        """
        rows = check_rows(self, X, reset=True, min_rows=2)
        labels = check_basis_labels(self, y, rows, self.n_components_per_class)
        self.classes_, self.component_classes_ = labels.classes, labels.component_classes
        # Warns where d is not convex in the codes (eta <= k), before time is spent.
        term = make_discrimination(labels, eta=self.eta, constraint=self.constraint)
        self.eta_ = term.eta
        self._fit(X, y, rows, labels.n_components, labels, (term, self.discrimination))
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
