"""Supervised reconstruction ICA: RICA plus ``α E d(W x)``, with a part of the basis for every class."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, Self

from clusterica.arrays import Interval, StrOptions, check_rows, fit_context
from clusterica.contrasts import make_penalty
from clusterica.rica._base_rica import BaseRICA
from clusterica.rica._labels import (
    CONSTRAINTS,
    check_basis_labels,
    make_discrimination,
)


class DiscriminativeRICA(BaseRICA):
    r"""Supervised reconstruction ICA: codes :math:`s = W x` with a part for every class (d-RICA, DRICA).

    :class:`RICA` with a term that depends on labels: the codes of a row should be large in the part of its
    own class and small in those of the others (equations (9) and (10) of [1]_),

    .. math::
        \min_W \; & \mathrm{E} \|W^\top W x / t - x\|^2 + \lambda\, \mathrm{E}\, g(W x)
        + \alpha\, \mathrm{E}\, d(W x), \\
        d(s) = & \Big(\sum_{\text{others}} s_j\Big)^2 - \Big(\sum_{\text{own}} s_j\Big)^2
        + \eta \|s\|^2 .

    Parameters
    ----------
    n_components_per_class : int or None, default=None
        Number k of components of every class, so that there are K = k c for c classes. None is the number of
        features divided by c, one at least.
    sparsity : float, default=0.1
        The :math:`\lambda`.
    discrimination : float, default=0.1
        The :math:`\alpha`; 0 is RICA.
    eta : "auto" or float, default="auto"
        The :math:`\eta`, with which d is convex exactly where it exceeds k. "auto" is k + 1. Values up to
        k are allowed, with a warning.
    constraint : {"both", "inhomogeneous"}, default="both"
        "inhomogeneous" is the first part of d alone, the codes of other classes (DRICA, [2]_); eta is not
        used then.
    penalty : {"logcosh", "l1", "exp", "sqrt"} or contrast, default="logcosh"
        As in :class:`RICA`.
    pooling : {"1d", "2d"}, array-like of shape (n_components,), pooling object or None, default=None
        As in :class:`RICA`.
    unit_norm : {"tight", True, False}, default="tight"
        As in :class:`RICA`. With unit length :math:`\eta \|s\|^2`, which otherwise only shrinks codes, is the
        same for all bases of white data.
    init : {"gaussian", "k-means"} or array-like of shape (n_components, n_features), default="gaussian"
        Where to begin, ordered by class; "k-means" clusters every class apart.
    max_iter : int, default=500
        Maximum number of iterations of L-BFGS.
    tol : float, default=1e-7
        Convergence: the relative change of the objective, and of the squared length of W, in a step.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the start, the same on every device.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        The filters W, ordered by class as ``classes_`` are.
    component_classes_ : ndarray of shape (n_components,)
        The class of every filter.
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted.
    eta_ : float
        The :math:`\eta`, which ``constraint="both"`` uses.
    mixing_ : array of shape (n_features, n_components)
        The pseudo-inverse of ``components_``, by which ``inverse_transform`` goes back. Computed when asked
        for.
    mean_ : array of shape (n_features,)
        Mean of the data, taken from every row.
    reconstruction_error_ : float
        Mean of :math:`\|W^\top W x / t - x\|^2` over the data.
    objective_history_ : ndarray of shape (n_iter_ + 1,)
        The objective at the start and after every step.
    term_histories_ : dict of ndarray of shape (n_iter_ + 1,)
        Its terms, "reconstruction", "penalty" and "discrimination" (weighted), which add up to it.
    n_dead_ : int
        Number of filters that are shorter than 0.01 where the data varies, which "tight" ones never are.
    n_iter_ : int
        Number of steps.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has column names.

    Warns
    -----
    UserWarning
        If more than 5 % of the filters are dead; if all are, with weights that are small enough.
        If d is not convex.
    ConvergenceWarning
        If the objective was still falling after max_iter steps.

    See Also
    --------
    clusterica.rica.RICA : Without labels.
    clusterica.rica.DiscriminativeKernelRICA : In the feature space of a kernel.

    Notes
    -----
    The sums in d are taken before they are squared, so that codes of both signs cancel. With
    :math:`\eta \ge k + 1` the term is never below the squared length of the own codes: it can only shrink
    codes, the others' more than the own. The user guide shows what eta does to accuracy.

    The term needs the second moments of every class only, c matrices of n_features x n_features.

    References
    ----------
    .. [1] Y. Xiao, Z. Zhu and Y. Zhao, "Kernel reconstruction ICA for sparse representation", 2013.
    .. [2] Y. Xiao, Z. Zhu, S. Wei and Y. Zhao, "Discriminative ICA model with reconstruction constraint for
       image classification", 2012.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from clusterica.rica import DiscriminativeRICA
    >>> X, y = load_iris(return_X_y=True)
    >>> rica = DiscriminativeRICA(2, discrimination=1.0, random_state=0).fit(X, y)
    >>> rica.component_classes_
    array([0, 0, 1, 1, 2, 2])
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseRICA._parameter_constraints,
        "n_components_per_class": [Interval(Integral, 1, None, closed="left"), None],
        "discrimination": [Interval(Real, 0, None, closed="left")],
        "eta": [StrOptions({"auto"}), Interval(Real, 0, None, closed="left")],
        "constraint": [StrOptions(set(CONSTRAINTS))],
    }

    # Twelve parameters: those of RICA except signs, and three of the discrimination term.
    def __init__(
        self,
        n_components_per_class: int | None = None,
        *,
        sparsity: float = 0.1,
        discrimination: float = 0.1,
        eta: float | str = "auto",
        constraint: str = "both",
        penalty: Any = "logcosh",
        pooling: Any = None,
        unit_norm: bool | str = "tight",
        init: Any = "gaussian",
        max_iter: int = 500,
        tol: float = 1e-7,
        random_state: Any = None,
    ) -> None:
        self.n_components_per_class = n_components_per_class
        self.sparsity = sparsity
        self.discrimination = discrimination
        self.eta = eta
        self.constraint = constraint
        self.penalty = penalty
        self.pooling = pooling
        self.unit_norm = unit_norm
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the filters of every class.

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
        K = labels.n_components
        penalty = make_penalty(self.penalty, self.pooling, n_codes=K)
        # Warns where d is not convex in the codes (eta <= k), before time is spent.
        term = make_discrimination(labels, eta=self.eta, constraint=self.constraint)
        self.eta_ = term.eta
        self._fit(X, y, rows, K, penalty, labels, (term, float(self.discrimination)))
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
