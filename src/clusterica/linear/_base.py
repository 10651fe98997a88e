"""Base of the linear classifiers: checks labels and weights, chooses solver and strength, predicts."""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.callback import CallbackSupportMixin
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from clusterica.arrays import (
    AccuracyMixin,
    Array,
    Estimator,
    Interval,
    Rows,
    StrOptions,
    as_generator,
    base_class,
    check_fitted_rows,
    check_labels,
    check_rows,
    check_weights,
    fetched,
    fit_context,
    map_rows,
    to_host,
    warn_user,
    working_memory,
)
from clusterica.linear._held_out import (
    HeldOutScores,
    StrengthSearch,
    check_fold,
    climb,
    fit_temperature,
    held_out,
    probabilities,
)
from clusterica.linear._lbfgs import LAST_DIGITS, LBFGSSolver, PrincipalSolver
from clusterica.linear._newton import NewtonSolver
from clusterica.linear._problem import (
    HostArray,
    Problem,
    Solution,
    Solver,
    Task,
    learn_standard,
    objectives,
    original,
)
from clusterica.ops.linalg import SingularError
from clusterica.ops.margin import decisions, predicted, shown_decisions
from clusterica.optim import Progress, fit_progress

# Newton's method solves so few rows in less time than L-BFGS needs for its start, whatever the features.
_FEW_ROWS = 500


class _Chosen(NamedTuple):
    """A strength, where to start its solve, and if there was a search, its steps and held-out decisions."""

    strength: float
    start: Solution | None = None
    search: StrengthSearch | None = None
    decisions: HostArray | None = None


def _chooses_strength(classifier: LinearClassifier) -> bool:
    """Whether rows are held out, by which probabilities can be calibrated; raises AttributeError if not."""
    if classifier._given_strength(1.0) is not None:
        name, parameter = type(classifier).__name__, "C" if classifier._hinge else "alpha"
        raise AttributeError(
            f"{name} has predict_proba only with {parameter}='auto', which holds out the rows that calibrate "
            "it; set that, or use sklearn.calibration.CalibratedClassifierCV"
        )
    return True


@base_class
class LinearClassifier(AccuracyMixin, CallbackSupportMixin, ClassifierMixin, Estimator):
    """Base of the linear classifiers; a subclass defines the loss and the parameter of its strength.

    The strength is the C of :class:`clusterica.linear._problem.Task`, the weight of the mean loss relative to
    ``0.5 |w|²``: scikit-learn's C times the total weight of the rows.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "standardize": ["boolean"],
        "fit_intercept": ["boolean"],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "validation": [Interval(Real, 0, 1, closed="neither"), "array-like"],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state", np.random.Generator],
    }
    _hinge: ClassVar[bool]

    @abstractmethod
    def _given_strength(self, total: float) -> float | None:
        """Return the strength for rows of this total weight; None where it is to be chosen."""

    @abstractmethod
    def _grid(self, step: float, total: float) -> float:
        """Return the strength at a step of the grid of the search, or between steps."""

    @abstractmethod
    def _set_strength(self, chosen: float, path: HostArray | None, total: float) -> None:
        """Set the fitted attributes of the strength, and of those that were tried, in increasing order."""

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn the classifiers.

        Parameters
        ----------
        X : array-like, tensor, Dask array or iterable of blocks, (n_samples, n_features)
            The features.
        y : array-like or tensor of shape (n_samples,)
            The class of each row: numbers or strings, at least two different ones.
        sample_weight : array-like of shape (n_samples,), optional
            Weight of each row; None gives every row the weight 1.

        Returns
        -------
        self
        """
        self.fit_validate(X, y, sample_weight)
        return self

    @fit_context(prefer_skip_nested_validation=True)
    def fit_validate(self, X: Any, y: Any = None, sample_weight: Any = None) -> HostArray | None:
        """Learn the classifiers, and return the decisions on the rows that were held out.

        The model does not keep them: there are as many as rows.

        Parameters
        ----------
        X, y, sample_weight
            As in fit.

        Returns
        -------
        decisions : ndarray of shape (n_samples,) or (n_samples, n_classes), or None
            Decisions on training rows, each by a classifier that was fitted without the row, at the best
            strength tried; NaN for rows that were not held out. None if the strength is given, and not
            "auto".
        """
        rows = check_rows(self, X, reset=True, min_rows=2)
        weights = check_weights(sample_weight, rows, np.float64)
        self.classes_, codes = check_labels(self, y, rows)
        codes = codes.astype(np.int32)
        weights, total = self._class_weighted(weights, codes)
        given = self._given_strength(total)
        # The square of 1e100, times squared features, is still a float64.
        if given is not None and not 1e-100 <= given <= 1e100:
            raise ValueError(
                f"C times the sum of all weights (RidgeClassifier: that sum / (2 alpha)) is {given:g}; it "
                "must be between 1e-100 and 1e+100, beyond which products overflow. Change C or alpha, or "
                "scale sample_weight"
            )
        kind = _solver_kind(rows, search=given is None)
        if self._hinge and given is not None and _all_but_separates(rows, given):
            kind = NewtonSolver
        problem = self._problem(rows, codes, weights)
        try:
            solver: Solver = kind(problem)
        except SingularError:
            # The Gram matrix has no digits for small features; L-BFGS does not need it.
            solver = LBFGSSolver(problem)
        # At most 25 steps of the grid in 5 folds, and the last solve.
        progress = fit_progress(self, 126, X=X, y=y, sample_weight=sample_weight)
        chosen = self._choose(solver, problem, weights, total, progress)
        task = Task(chosen.strength, weights / weights.sum(), self.tol, self.max_iter)
        solution = solver.solve_all([task], [chosen.start], progress, show_iterations=True)[0]
        self._set_fitted(problem, solver, solution, task)
        search = chosen.search
        path = None if search is None else np.array([self._grid(s, total) for s in search.steps])
        self.validation_scores_: Any = None if search is None else search.scores
        self._set_strength(chosen.strength, path, total)
        progress.end()
        self.temperature_ = None
        if chosen.decisions is None:
            return None
        self.temperature_ = fit_temperature(chosen.decisions, codes, sample_weight=weights)
        return chosen.decisions[:, 0] if chosen.decisions.shape[1] == 1 else chosen.decisions

    def decision_function(self, X: Any) -> Array:
        """Return the decision function of every class: positive on the side of the class.

        Parameters
        ----------
        X : as in fit, (n_samples, n_features)
            The features.

        Returns
        -------
        scores : array of shape (n_samples, n_classes), or (n_samples,) for two classes
            In the library and on the device of X; of two classes, positive for ``classes_[1]``.
        """
        return self._map(X, shown_decisions)

    def predict(self, X: Any) -> Array:
        """Return the predicted class of every row.

        Parameters
        ----------
        X : as in fit, (n_samples, n_features)
            The features.

        Returns
        -------
        y : array of shape (n_samples,)
            In the library and on the device of X where the labels are numbers; NumPy otherwise.
        """
        check_is_fitted(self, "coef_")
        if self.classes_.dtype.kind in "biuf":
            return self._map(X, predicted, self.classes_)
        # Strings are not arrays of other libraries: look the names up on the host.
        codes = self._map(X, predicted, np.arange(len(self.classes_)))
        return self.classes_[fetched(codes)]

    @available_if(_chooses_strength)
    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities of the classes; only where the strength is "auto".

        They are the softmax of the decisions (for two classes the sigmoid of the one decision) divided by
        ``temperature_``, which has the smallest log loss on the rows that were held out.

        Parameters
        ----------
        X : as in fit, (n_samples, n_features)
            The features.

        Returns
        -------
        probabilities : array of shape (n_samples, n_classes)
            In the library and on the device of X, in the order of ``classes_``.
        """
        check_is_fitted(self, "temperature_")
        if self.temperature_ is None:  # "auto" was set after fit
            raise NotFittedError(f"{type(self).__name__} was fitted without 'auto'; call fit again")
        return self._map(X, partial(_block_probabilities, temperature=self.temperature_))

    def _class_weighted(self, weights: HostArray, codes: HostArray) -> tuple[HostArray, float]:
        """Return weights times class weights, divided by the largest, and their sum before division."""
        self._check_two_classes(codes[weights > 0])
        if self.class_weight is not None:
            # "balanced" would divide by zero for a class without weight; a dict may name such a class.
            counted = weights > 0 if isinstance(self.class_weight, str) else weights >= 0
            present = np.unique(codes[counted])
            of_classes = np.zeros(len(self.classes_))
            of_classes[present] = compute_class_weight(
                self.class_weight,
                classes=self.classes_[present],
                y=self.classes_[codes[counted]],
                sample_weight=weights[counted],
            )
            # Above this the product of both weights overflows.
            most = float(np.finfo(np.float64).max) / max(1.0, float(weights.max()))
            for label, weight in zip(self.classes_.tolist(), of_classes.tolist(), strict=True):
                if not 0 <= weight < most:  # a NaN must raise, too
                    raise ValueError(
                        f"class_weight of class {label!r} is {weight}; it must be a number that is not "
                        "negative, and finite when it is multiplied by sample_weight"
                    )
            weights = weights * of_classes[codes]
            self._check_two_classes(codes[weights > 0])
        largest = float(weights.max())
        if largest != 1:
            weights = weights / largest  # so that no sum over rows leaves the range of float32
        total = largest * float(weights.sum())
        if not 0 < total < np.inf:
            raise ValueError(
                f"the weights of all rows add up to {total:g}, which must be positive and finite; scale "
                "sample_weight or class_weight"
            )
        return weights, total

    def _check_two_classes(self, codes: HostArray) -> None:
        """Refuse rows of one class; the codes are those of rows with a positive weight."""
        present = np.unique(codes)
        if len(present) < 2:
            only = self.classes_.tolist()[present[0]] if len(present) else "no class"
            raise ValueError(
                f"{type(self).__name__} needs at least two classes in y, and rows with a positive weight are "
                f"of class {only!r} only"
            )

    def _problem(self, rows: Rows, codes: HostArray, weights: HostArray) -> Problem:
        n_classes = len(self.classes_)
        # Two classes need one classifier: positive on the side of the second class.
        targets = np.arange(n_classes) if n_classes > 2 else np.ones(1, dtype=int)
        standard = learn_standard(rows, weights, centre=self.fit_intercept, scale=self.standardize)
        return Problem(
            rows, codes, targets.astype(np.int32), standard, self._hinge, self.fit_intercept
        )

    def _choose(
        self,
        solver: Solver,
        problem: Problem,
        weights: HostArray,
        total: float,
        progress: Progress,
    ) -> _Chosen:
        """Return the strength to use: as given, or the best one on held-out rows."""
        given = self._given_strength(total)
        if given is not None:
            return _Chosen(given)
        if isinstance(self.validation, Real):
            rng = as_generator(self.random_state)
            folds = held_out(problem.codes, weights, float(self.validation), rng)
        else:
            folds = [check_fold(self.validation, problem.codes, weights)]
        if not folds:
            raise ValueError(
                "no class has two rows, so that none can be held out to choose the strength by; give "
                "more rows, or a number in place of 'auto'"
            )
        trial = HeldOutScores(solver, problem, weights, folds, self.tol, self.max_iter, progress)
        # With fewer rows than features a weaker loss is best, and at a stronger one, where all rows can be
        # separated, solves take long: start a decade lower.
        first = 0 if problem.rows.n_rows > problem.rows.n_features else -2
        search = climb(
            lambda steps: trial.scores({step: self._grid(step, total) for step in steps}),
            n_rows=sum(int(out.sum()) for out in folds),
            first=first,
            at_once=solver.strengths_at_once,
        )
        # The solution of a fold is a good start for the fit on all rows.
        start = trial.solutions[search.best][-1]
        return _Chosen(self._grid(search.top, total), start, search, trial.decisions)

    def _set_fitted(self, problem: Problem, solver: Solver, solution: Solution, task: Task) -> None:
        """Set the fitted attributes, and warn where the minimum was not reached."""
        rows = problem.rows
        A, c = original(problem.standard, *solver.classifiers(solution), rows.dtype)
        self.coef_, self.intercept_ = rows.home.put(A), rows.home.put(c)
        about = problem.standard.about
        # Predictions subtract the same point before they multiply.
        self._about = None if about is None else rows.home.put(about)
        self.objective_ = objectives(problem, task, A, c)
        # coef_ and intercept_ may have fewer digits than the solver had.
        lost = np.clip(self.objective_ - solution.objective, 0, None)
        lost /= np.maximum(self.objective_, task.floor)
        self.gap_ = solution.gap + lost
        # One more pass: the one that has just computed the objectives.
        self.n_iter_, self.n_passes_ = max(1, solution.n_iter), solver.n_passes + 1
        most = task.tol + LAST_DIGITS * float(np.finfo(rows.dtype).eps)
        self.converged_ = solution.converged and bool((self.gap_ <= most).all())
        if self.converged_ or solution.stopped:
            return
        if solution.converged:
            text = (
                f"is inexact: rounding coef_ and intercept_ to {rows.dtype} raises the objective of a class "
                f"by {lost.max():.1e} of itself; pass float64, or centre the features"
            )
        else:
            text = (
                f"has not converged after {solution.n_iter} iterations: the objective of a class may still "
                f"fall by some {self.gap_.max():.1e} of itself (tol={self.tol:.1e}); raise max_iter or tol, "
                "regularise more, or pass float64"
            )
        warn_user(f"{type(self).__name__} {text}", ConvergenceWarning)

    def _map(self, X: Any, op: Any, *params: Any) -> Array:
        """Return ``op(block, A, c, about, *params)`` of all rows."""
        rows = check_fitted_rows(self, X, "coef_")
        A, c = (np.asarray(to_host(v), dtype=np.float64) for v in (self.coef_, self.intercept_))
        about = None if self._about is None else np.asarray(to_host(self._about), rows.dtype)
        # x Aᵀ + c = (x - about) Aᵀ + (c + A about): products of large means would lose digits.
        c = c if about is None else c + A @ about.astype(np.float64)
        return map_rows(op, rows, A.astype(rows.dtype), c.astype(rows.dtype), about, *params)


# The decisions, two columns for two classes, and three arrays of their size for the softmax.
@working_memory(lambda row, A, c, about: 5 * row.itemsize * max(2, A.shape[0]) + row.nbytes)
def _block_probabilities(
    X: Array, A: Array, c: Array, about: Array | None, *, temperature: float
) -> Array:
    return probabilities(decisions(X, A, c, about), temperature)


def _solver_kind(
    rows: Rows, *, search: bool
) -> type[NewtonSolver] | type[PrincipalSolver] | type[LBFGSSolver]:
    """Return the solver that is fastest for this number of rows and features.

    Seconds to fit 10 classes in float32 on 2 cores, with ``C="auto"``, and in brackets with C = 10 / rows
    (``benchmarks.linear``; synthetic rows with a falling spectrum, the widest sparse):

    ================  =================  ===================  ===================
    rows x features   Newton             L-BFGS               Newton, principal
    ================  =================  ===================  ===================
    500 x 3000        **0.3** (0.05)     2.3 (0.5)            1.2 (0.1)
    2000 x 3200       **2.3** (0.5)      5.9 (1.1)            14 (1.3)
    1000 x 60000      **1.1** (0.8)      -- (1.5)             1.7 (1.0)
    5000 x 1600       --                 **3.6** (0.4)        --
    10000 x 3200      --                 **14** (1.1)         --
    50000 x 1600      --                 **3.3** (1.1)        --
    ================  =================  ===================  ===================

    Principal coordinates are never the fastest on the host. On an H200 they made a search on 500 to 6,000
    rows three times as fast as L-BFGS on the rows, and there Newton's method takes 16 steps and about 220
    products on 1000 x 6400 rows where L-BFGS took 248 steps, ten times as many pieces of work.
    """
    n, d = rows.n_rows, rows.n_features
    if search and not rows.place.is_numpy and _FEW_ROWS < n <= max(d, 6000):
        return PrincipalSolver if PrincipalSolver.memory(n) <= rows.place.memory else LBFGSSolver
    if n <= max(d, _FEW_ROWS) and NewtonSolver.memory(n) <= rows.place.memory:
        return NewtonSolver
    return LBFGSSolver


def _all_but_separates(rows: Rows, strength: float) -> bool:
    """Return whether the hinge is all but a constraint, and Newton's method can afford to meet it.

    With fewer than two rows a feature, classes can be separated. Then few rows are active, and their
    curvature is not that of all rows, by which L-BFGS steps and estimates its gap. On 600 x 500 normal rows
    of three classes 300 steps of it end 5e-6 above the minimum at a strength of 1e3, 3 % above at 1e4 and at
    nearly three times the minimum at 1e8, which it takes for converged. Newton's method needs as long there,
    and 6 seconds for 2000 x 1500 rows.
    """
    few = rows.n_rows <= min(2 * rows.n_features, 2000)
    return strength >= 1e4 and few and NewtonSolver.memory(rows.n_rows) <= rows.place.memory
