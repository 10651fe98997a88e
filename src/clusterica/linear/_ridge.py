"""Ridge regression as a classifier: ``min sum s (t - w z - b)² + alpha |w|²`` for every class."""

from __future__ import annotations

from math import log10
from numbers import Real
from typing import Any, ClassVar

from clusterica.arrays import Interval, StrOptions
from clusterica.linear._base import LinearClassifier
from clusterica.linear._problem import HostArray


class RidgeClassifier(LinearClassifier):
    r"""Ridge regression to targets of 1 in a class and -1 outside it, one class against the rest.

    Minimises for every class, over its weights and intercept,

    .. math:: \sum_i s_i (t_i - w \cdot z_i - b)^2 + \alpha |w|^2,

    where :math:`z` are the standardised features and :math:`s_i` is the weight of a row: 1, or
    ``sample_weight`` times ``class_weight``. The intercept is not penalised. It is
    :class:`sklearn.linear_model.RidgeClassifier`, with the same ``alpha``, after a StandardScaler, for wide
    features of many rows, which are read in blocks and never copied; with ``standardize=False`` it is that
    classifier alone.

    Parameters
    ----------
    alpha : float or "auto", default="auto"
        Strength of the penalty, as in scikit-learn. "auto" holds rows out of every class and tries half
        decades around a twentieth of the sum of all weights, as :class:`LinearSVC` does.
    standardize : bool, default=True
        Divide every feature by its standard deviation.
    fit_intercept : bool, default=True
        Learn an intercept, and centre the features. Without it they are not centred.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, ``{label: weight}``; classes that are not in it have weight 1. They multiply
        ``sample_weight`` row by row. "balanced" gives every class the same total weight,
        ``n_samples / (n_classes * count)``, where a row of weight 2 counts as two rows; scikit-learn's
        RidgeClassifier counts it once.
    validation : float or array of bool, shape (n_samples,), default=0.2
        Rows to hold out for ``alpha="auto"``, as in :class:`LinearSVC`.
    tol : float, default=1e-7
        As in :class:`LinearSVC`.
    max_iter : int, default=1000
        Maximum number of iterations of a solve; one iteration is one pass over the rows.
    random_state : int, RandomState, Generator or None, default=None
        Draws the rows to hold out.

    Attributes
    ----------
    coef_ : array of shape (n_classes, n_features), or (1, n_features) for two classes
        Weights of the features as they were given, not standardised.
    intercept_ : array of shape (n_classes,) or (1,)
        Intercepts.
    classes_ : ndarray of shape (n_classes,)
        The labels.
    alpha_ : float
        The penalty in use.
    alpha_path_ : ndarray or None
        Penalties tried by ``alpha="auto"``, in increasing order.
    validation_scores_ : ndarray or None
        Accuracy on the held-out rows, for every penalty tried.
    temperature_ : float or None
        Divides the decisions in :meth:`predict_proba`: the value with the smallest log loss on the
        rows that were held out.
    n_iter_ : int
        Iterations of the final solve.
    n_passes_ : int
        Passes over the rows of the whole fit, after those for mean and variance.
    objective_ : ndarray of shape (n_classes,) or (1,)
        The objective above for every class, at ``coef_`` and ``intercept_`` as they are, computed in float64.
    gap_ : ndarray of shape (n_classes,) or (1,)
        By how much of itself each objective may still fall, as in :class:`LinearSVC`, counting what the
        rounding of ``coef_`` and ``intercept_`` to the dtype of X adds.
    converged_ : bool
        Whether all gaps are at most tol, plus 64 times the precision of the dtype (8e-6 for float32).
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has column names.

    See Also
    --------
    LinearSVC : the squared hinge; on image features it is better by some points.
    sklearn.linear_model.RidgeClassifier : the same objective.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from clusterica.linear import RidgeClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> classifier = RidgeClassifier(alpha="auto", random_state=0).fit(X[:1000], y[:1000])
    >>> classifier.converged_, classifier.score(X[1000:], y[1000:]) > 0.85
    (True, True)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **LinearClassifier._parameter_constraints,
        "alpha": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
    }
    _hinge = False

    def __init__(
        self,
        alpha: float | str = "auto",
        *,
        standardize: bool = True,
        fit_intercept: bool = True,
        class_weight: dict[Any, float] | str | None = None,
        validation: float | Any = 0.2,
        tol: float = 1e-7,
        max_iter: int = 1000,
        random_state: Any = None,
    ) -> None:
        self.alpha = alpha
        self.standardize = standardize
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.validation = validation
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def _given_strength(self, total: float) -> float | None:
        # sum r² + alpha |w|² = 2 alpha (|w|²/2 + C mean r²) with C = n / (2 alpha)
        return None if isinstance(self.alpha, str) else total / (2 * float(self.alpha))

    def _grid(self, step: float, total: float) -> float:
        # A twentieth of the total weight is C = 10 of LinearSVC, total / (2 alpha). Rounded to half
        # decades, so that the alphas tried are round numbers, 1, 3.2, 10 and so on.
        middle = round(2 * log10(total / 20))
        return total / (2 * 10 ** ((middle - step) / 2))

    def _set_strength(self, chosen: float, path: HostArray | None, total: float) -> None:
        self.alpha_ = total / (2 * chosen)
        self.objective_ *= 2 * self.alpha_  # the solvers divide by it
        self.alpha_path_ = None
        if path is not None and self.validation_scores_ is not None:
            # A larger alpha is a smaller strength: turned round to be in increasing order.
            self.alpha_path_ = total / (2 * path[::-1])
            self.validation_scores_ = self.validation_scores_[::-1]
