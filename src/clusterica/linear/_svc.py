"""A linear support vector machine: ``min 0.5 |w|² + C sum s max(0, 1 - t (w z + b))²`` for every class."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

from clusterica.arrays import Interval, StrOptions
from clusterica.linear._base import LinearClassifier
from clusterica.linear._problem import HostArray


class LinearSVC(LinearClassifier):
    r"""Linear support vector machine with the squared hinge loss, one class against the rest.

    Minimises for every class, over its weights and intercept,

    .. math:: \tfrac12 |w|^2 + C \sum_i s_i \max(0, 1 - t_i (w \cdot z_i + b))^2,

    where :math:`z` are the standardised features, :math:`t_i` is 1 in the class and -1 outside, and
    :math:`s_i` is the weight of a row: 1, or ``sample_weight`` times ``class_weight``. It is made for wide,
    collinear features of many rows: the features are read in blocks and never copied, and a fit takes some
    tens of passes over them.

    ``C`` has the meaning of :class:`sklearn.svm.LinearSVC`. The differences to that class are:

    - The intercept is not penalised. scikit-learn's is, by ``0.5 * (b / intercept_scaling) ** 2``.
    - Features are standardised, unless ``standardize=False``.
    - ``C="auto"``, the default, chooses C on held-out rows.
    - ``class_weight`` multiplies the weights of rows in the classifier of every class. For more than two
      classes, scikit-learn's weights only the one class and not the rest.

    With ``standardize=False, fit_intercept=False`` and the same C and weights of rows both have the same
    minimum.

    Parameters
    ----------
    C : float or "auto", default="auto"
        Weight of the loss, as in scikit-learn: the larger, the weaker the regularisation. "auto" holds rows
        out of every class and tries half decades of C around ``10 / sum(s)``, up and down, each solve
        starting from the last, until the two on either side of the one with the best accuracy on the
        held-out rows are known. It takes the maximum of a parabola through the scores around the best one,
        and fits all rows. Where rows are held out, C grows in inverse proportion to the rows that are left.
    standardize : bool, default=True
        Divide every feature by its standard deviation.
    fit_intercept : bool, default=True
        Learn an intercept, and centre the features. Without it they are not centred.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, ``{label: weight}``; classes that are not in it have weight 1. They multiply
        ``sample_weight`` row by row. "balanced" gives every class the same total weight, ``n_samples /
        (n_classes * count)``, where a row of weight 2 counts as two rows. Held-out rows have the same
        weights in the accuracies of ``C="auto"``.
    validation : float or array of bool, shape (n_samples,), default=0.2
        Share of the rows of every class to hold out for ``C="auto"``. Where that is less than 10,000
        rows, others are held out in turn, up to all of them (cross-validation). An array says which
        rows to hold out: use it where rows belong together, as an image and its mirror image do.
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
        The C in use.
    C_path_ : ndarray or None
        Values tried by ``C="auto"``, in increasing order.
    validation_scores_ : ndarray or None
        Accuracy on the held-out rows, for every C tried.
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
        By how much of itself (or of a millionth of C times the sum of all weights, if that is more) each
        objective may still fall: the estimate of the solver, by the curvature learned on the way, plus what
        the rounding of ``coef_`` and ``intercept_`` to the dtype of X adds. The estimate may be too low, the
        more the larger C times the sum of all weights is and the more collinear features are; far too low
        where L-BFGS separates all rows.
    converged_ : bool
        Whether all gaps are at most tol, plus 64 times the precision of the dtype (8e-6 for float32).
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has column names.

    See Also
    --------
    RidgeClassifier : least squares in place of the hinge.
    sklearn.svm.LinearSVC : the same loss for small or sparse data; it penalises the intercept.

    Notes
    -----
    The solver is chosen by the number of rows and features:

    - L-BFGS solves all classes together, each with its own step lengths. It is preconditioned by the Gram
      matrix of a sample of the rows.
    - Newton's method is used for fewer rows than features, or at most 500 rows; with a C of your own of 1e4
      over the sum of all weights or more, also for at most 2,000 rows and two rows a feature, where L-BFGS
      would end far from the minimum. It solves for coefficients of the rows, from their Gram matrix, or for
      the weights where that matrix is singular. Up to 5,000 rows the matrix is moved to the host, whose
      cores solve many small systems faster than a GPU.
    - A search for C on a GPU, for 500 to 6,000 rows or fewer rows than features, rotates the rows to their
      principal coordinates once. There the Hessian is nearly diagonal for every C, and Newton's method by
      conjugate gradients solves several C together. These solves do not read the rows again, so their
      iterations are not passes.

    The matrices stay within the memory budget of :func:`clusterica.config_context`; more memory means a
    better preconditioner and fewer passes.

    Mean and variance for standardising are those of all rows, the held-out ones included.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from clusterica.linear import LinearSVC
    >>> X, y = load_digits(return_X_y=True)
    >>> classifier = LinearSVC(C="auto", random_state=0).fit(X[:1000], y[:1000])
    >>> classifier.converged_, classifier.score(X[1000:], y[1000:]) > 0.9
    (True, True)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **LinearClassifier._parameter_constraints,
        "C": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
    }
    _hinge = True

    def __init__(
        self,
        C: float | str = "auto",
        *,
        standardize: bool = True,
        fit_intercept: bool = True,
        class_weight: dict[Any, float] | str | None = None,
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
        # The best strengths on image features lie around 10 to 100, whatever the number of rows.
        return float(10 ** (1 + step / 2))

    def _set_strength(self, chosen: float, path: HostArray | None, total: float) -> None:
        # The solvers weight the mean loss; C weights the sum over rows.
        self.C_, self.C_path_ = chosen / total, None if path is None else path / total
