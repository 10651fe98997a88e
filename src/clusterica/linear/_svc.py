"""A linear support vector machine: ``min 0.5 |w|² + C mean(max(0, 1 - t (w z + b))²)`` for every class."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

import numpy as np

from clusterica.arrays._sklearn import Interval, StrOptions
from clusterica.linear._base import LinearHead
from clusterica.linear._search import Search


class LinearSVC(LinearHead):
    r"""Linear support vector machine with the squared hinge, one class against the rest.

    Minimises for every class, over its weights and intercept,

    .. math:: \tfrac12 |w|^2 + C \, \tfrac1n \sum_i \max(0, 1 - t_i (w \cdot z_i + b))^2,

    where :math:`z` are the standardised features and :math:`t_i` is 1 in the class and -1 outside. The
    intercept is not penalised. It is made for wide, collinear features of many rows: the features are
    read in blocks and never copied, and a fit takes some tens of passes over them.

    Parameters
    ----------
    C : float or "auto", default="auto"
        Strength of the loss. It is scikit-learn's C times the number of rows, so that it need not
        change with them. "auto" holds rows out of every class and tries strengths along a path of half
        decades from 10 up and down, each solve starting from the last, until the two on either side of
        the one with the best accuracy on the rows held out are known. It takes the top of a parabola
        through the scores around the best one, and fits to all rows.
    standardize : bool, default=True
        Divide every feature by its standard deviation.
    fit_intercept : bool, default=True
        Learn an intercept, with features counted from their mean. Without it they are not centred.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, ``{label: weight}``; classes that are not in it have weight 1. They multiply
        ``sample_weight`` row by row, in the classifier of every class. "balanced" gives every class the same
        total weight, ``n_samples / (n_classes * count)``, where a row of weight 2 counts as two rows.
        Rows have shares of the loss that add up to 1, so that only the ratios of weights matter: ``C`` stays
        the strength of the whole loss. Held-out rows count by the same weights in the accuracies of
        ``C="auto"``. scikit-learn's LinearSVC, for more than two classes, weighs only the one class and not
        the rest.
    validation : float or array of bool, shape (n_samples,), default=0.2
        Share of the rows of every class to hold out for ``C="auto"``. Where that is less than 10,000
        rows, others are held out in turn, up to all of them (cross-validation). An array says which
        rows to hold out: together, where rows belong together, as an image and its mirror image do.
    tol : float, default=1e-7
        The fit ends when the objective of no class can fall by more than tol of itself, as measured by
        the gradient g and the curvature H learned on the way: :math:`g^\top H^{-1} g / 2`.
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
    C_ : float
        The strength in use.
    C_path_ : ndarray or None
        Strengths tried by ``C="auto"``, in rising order.
    validation_scores_ : ndarray or None
        Accuracy on the rows held out, for every strength tried.
    n_iter_ : int
        Iterations of the final solve.
    n_passes_ : int
        Passes over the rows of the whole fit, after those that look at mean and variance.
    objective_ : ndarray of shape (n_classes,) or (1,)
        Objective of every class at ``coef_`` and ``intercept_`` as they are, computed in float64.
    gap_ : ndarray of shape (n_classes,) or (1,)
        By how much of itself (or of a millionth of C, if that is more) each objective may still fall: the
        estimate of the solver, by the curvature learned on the way, plus what the rounding of ``coef_`` and
        ``intercept_`` to the dtype of X adds. The estimate is too low for a C of thousands on features that
        go together.
    converged_ : bool
        Whether that is at most tol for all of them, or at most 64 times the precision of the dtype (8e-6 for
        float32).
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, where X has them.

    See Also
    --------
    RidgeClassifier : least squares in place of the hinge.
    sklearn.svm.LinearSVC : the same objective for small or sparse data; it penalises the intercept.

    Notes
    -----
    All classes are solved together by L-BFGS, each with step lengths of its own, preconditioned by the
    Gram matrix of a sample of the rows. With fewer rows than features, or 500 at most, it works on the
    products of rows instead. For one strength that is Newton's method; up to 5,000 rows it moves these
    products to the host, where the many small systems are solved sooner than on a GPU. Where products are
    singular, as of dependent rows at a weak penalty, it keeps the rows in float64. A search over strengths on
    more than 1,500 rows, or 500 on a device, turns the rows to their principal coordinates once, where L-BFGS
    has a diagonal preconditioner for every strength and solves all folds together; these solves do not read
    the rows again, and their iterations are no passes. The matrices stay within the memory budget of
    :func:`clusterica.config_context`; more memory means a better preconditioner and fewer passes.

    Mean and variance for standardising are those of all rows, held out ones included.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from clusterica.linear import LinearSVC
    >>> X, y = load_digits(return_X_y=True)
    >>> head = LinearSVC(C="auto", random_state=0).fit(X[:1000], y[:1000])
    >>> head.converged_, head.score(X[1000:], y[1000:]) > 0.9
    (True, True)
    """

    _parameter_constraints: ClassVar[dict] = {
        **LinearHead._parameter_constraints,
        "C": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
    }
    _hinge = True

    def __init__(
        self,
        C: float | str = "auto",
        *,
        standardize: bool = True,
        fit_intercept: bool = True,
        class_weight: dict | str | None = None,
        validation: float | Any = 0.2,
        tol: float = 1e-7,
        max_iter: int = 1000,
        random_state: Any = None,
    ) -> None:
        self.C = C
        self.standardize = standardize
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.validation = validation
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def _given_strength(self, total: float) -> float | None:
        return None if isinstance(self.C, str) else float(self.C) * total

    def _grid(self, step: float, total: float) -> float:
        return float(10 ** (1 + step / 2))

    def _name_strength(self, chosen: float, search: Search | None, total: float) -> None:
        self.C_ = chosen / total
        self.C_path_ = self.validation_scores_ = None
        if search is not None:
            self.C_path_ = np.array([self._grid(s, total) / total for s in search.steps])
            self.validation_scores_ = search.scores
