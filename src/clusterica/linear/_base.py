"""What the heads share: labels, the choice of a solver and of the strength, predictions."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.callback import CallbackSupportMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from clusterica.arrays import (
    Rows,
    as_generator,
    check_model_device,
    check_rows,
    check_weights,
    map_rows,
    namespace_of,
    to_host,
    worker_pool,
)
from clusterica.arrays._namespace import Array, is_host_array
from clusterica.arrays._sklearn import Interval, StrOptions, fit_context
from clusterica.linear._class_weight import check_two_classes, class_weights
from clusterica.linear._descent import LAST_DIGITS
from clusterica.linear._factor import SingularError
from clusterica.linear._kernel import KernelSolver, kernel_bytes
from clusterica.linear._primal import PrimalSolver
from clusterica.linear._principal import PrincipalSolver, principal_bytes
from clusterica.linear._products import objectives
from clusterica.linear._search import Search, climb, held_out
from clusterica.linear._solvers import Problem, Solution, Solver, Task
from clusterica.linear._standard import learn_standard, original
from clusterica.ops.margin import decisions, winners
from clusterica.optim import Progress, fit_progress

_FEW = 500  # so many rows are solved exactly in no time, at any strength
# In a search over strengths, more rows than this are worth their eigenvectors on the host: Newton's method
# takes a factor for every class, fold and strength. A device finds eigenvectors in no time, and is slow at
# many short steps: there they are worth it for so many rows even where features are fewer.
_FEW_IN_SEARCH = 1500
_FEW_ON_DEVICE = 6000
# Fewer rows than features want a weaker loss. Solves of a strong one, which tells them all apart, are long.
_FIRST_OF_FEW = -2
_MOST_STRENGTH = 1e100  # its square, times those of features, is still a float64
_MOST_SOLVES = 130  # of a search, for progress bars


class _Chosen(NamedTuple):
    """A strength, where to start its solve, and the search that chose it, if there was one."""

    C: float
    start: Solution | None
    search: Search | None


class LinearHead(CallbackSupportMixin, ClassifierMixin, BaseEstimator):
    """Base of the heads; a subclass says its loss and what its strength is called."""

    _parameter_constraints: ClassVar[dict] = {
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
        """Return C where the user gives one, for rows of this total weight; None to choose it."""

    @abstractmethod
    def _grid(self, step: float, total: float) -> float:
        """Return C at a step of the grid of the search, or between steps."""

    @abstractmethod
    def _name_strength(self, chosen: float, search: Search | None, total: float) -> None:
        """Set the fitted attributes that say which strength was used."""

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn the classifiers.

        Parameters
        ----------
        X : array-like, tensor, Dask array or iterable of blocks, (n_samples, n_features)
            The features.
        y : array-like or tensor of shape (n_samples,)
            The class of each row: numbers or strings, at least two different ones.
        sample_weight : array-like of shape (n_samples,), optional
            Weight of each row; None counts every row once.

        Returns
        -------
        self
        """
        rows = check_rows(self, X, reset=True, min_rows=2)
        weights = check_weights(sample_weight, rows, np.float64)
        self.classes_, codes = self._check_labels(y, rows, weights)
        weights, total = self._class_weighted(weights, codes)
        if not 0 < total < np.inf:
            raise ValueError(
                f"the weights of all rows add up to {total:g}, which must be positive and finite; scale "
                "sample_weight or class_weight"
            )
        given = self._given_strength(total)
        if given is not None and not 1 / _MOST_STRENGTH <= given <= _MOST_STRENGTH:
            raise ValueError(
                f"C times the sum of all weights (RidgeClassifier: that sum / (2 alpha)) is {given:g}; it must be "
                f"between {1 / _MOST_STRENGTH:g} and {_MOST_STRENGTH:g}, beyond which its products overflow. "
                "Change C or alpha, or scale sample_weight"
            )
        kind = _kind_of_solver(rows, search=given is None)
        with worker_pool() if kind is KernelSolver else nullcontext():
            problem = self._problem(rows, codes, weights)
            try:
                solver: Solver = kind(problem)
            except SingularError:
                solver = PrimalSolver(problem)
            progress = fit_progress(self, _MOST_SOLVES + 1, X=X, y=y)
            chosen = self._choose(solver, problem, weights, total, progress)
            task = Task(chosen.C, weights / weights.sum(), self.tol, self.max_iter)
            solution = solver.solve_all([task], [chosen.start], progress)[0]
            self._keep(problem, solver, solution, task)
        self._name_strength(chosen.C, chosen.search, total)
        progress.end()
        return self

    def decision_function(self, X: Any) -> Array:
        """Return the decision function of every class: positive on the side of the class.

        Parameters
        ----------
        X : as in fit, (n_samples, n_features)
            The features.

        Returns
        -------
        scores : array of shape (n_samples, n_classes), or (n_samples,) for two classes
            In the library and on the device of X; of two classes, positive ones for ``classes_[1]``.
        """
        scores = self._walk(X, decisions)
        return scores[:, 0] if self.coef_.shape[0] == 1 else scores

    def predict(self, X: Any) -> Array:
        """Return the class of every row.

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
            return self._walk(X, partial(_labels_of_block, classes=self.classes_))
        codes = self._walk(X, partial(_labels_of_block, classes=np.arange(len(self.classes_))))
        return self.classes_[to_host(codes)]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of rows that are given their class.

        Parameters
        ----------
        X : as in fit, (n_samples, n_features)
            The features.
        y : array-like or tensor of shape (n_samples,)
            The true classes.
        sample_weight : array-like of shape (n_samples,), optional
            Weight of each row.
        """
        predicted = to_host(self.predict(X))
        truth = column_or_1d(to_host(y))
        if len(truth) != len(predicted):
            raise ValueError(_lengths(len(predicted), len(truth)))
        weights = None if sample_weight is None else to_host(sample_weight)
        return float(np.average(predicted == truth, weights=weights))

    def _check_labels(
        self, y: Any, rows: Rows, weights: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        name = type(self).__name__
        if y is None:
            raise ValueError(f"{name} requires y to be passed, but the target y is None")
        y = to_host(y) if not isinstance(y, list | tuple) else np.asarray(y)
        y = column_or_1d(y, warn=True)
        assert_all_finite(y, input_name="y", estimator_name=name)
        if len(y) != rows.n_rows:
            raise ValueError(_lengths(rows.n_rows, len(y)))
        check_classification_targets(y)
        classes, codes = np.unique(y, return_inverse=True)
        classes = classes.astype(classes.dtype.newbyteorder("="))  # which tensors need
        check_two_classes(name, classes, codes[weights > 0])
        return classes, codes.astype(np.int32)

    def _class_weighted(self, weights: np.ndarray, codes: np.ndarray) -> tuple[np.ndarray, float]:
        """Return weights of rows times those of their classes, over the largest, and the sum before that."""
        if self.class_weight is not None:
            of_classes = class_weights(self.class_weight, self.classes_, codes, weights)
            weights = weights * of_classes[codes]
            check_two_classes(type(self).__name__, self.classes_, codes[weights > 0])
        largest = float(weights.max())
        if largest != 1:
            weights = (
                weights / largest
            )  # no sum over rows is too large or too small for float32 then
        return weights, largest * float(weights.sum())

    def _problem(self, rows: Rows, codes: np.ndarray, weights: np.ndarray) -> Problem:
        n_classes = len(self.classes_)
        targets = np.arange(n_classes) if n_classes > 2 else np.ones(1, dtype=int)
        standard = learn_standard(rows, weights, centre=self.fit_intercept, scale=self.standardize)
        return Problem(
            rows, codes, targets.astype(np.int32), standard, self._hinge, self.fit_intercept
        )

    def _choose(
        self,
        solver: Solver,
        problem: Problem,
        weights: np.ndarray,
        total: float,
        progress: Progress,
    ) -> _Chosen:
        """Return the strength to use: as given, or the best one on held-out rows."""
        given = self._given_strength(total)
        if given is not None:
            return _Chosen(given, None, None)
        folds = self._folds(problem, weights)
        trial = _Trial(self, solver, problem, weights, folds, progress)
        search = climb(
            lambda steps: trial.scores({step: self._grid(step, total) for step in steps}),
            n_rows=sum(int(out.sum()) for out in folds),
            first=0 if problem.rows.n_rows > problem.rows.n_features else _FIRST_OF_FEW,
            at_once=solver.strengths_at_once,
        )
        return _Chosen(self._grid(search.top, total), trial.last(search.best), search)

    def _folds(self, problem: Problem, weights: np.ndarray) -> list[np.ndarray]:
        """Return the rows to hold out, fold by fold."""
        if isinstance(self.validation, Real):
            rng = as_generator(self.random_state)
            folds = held_out(problem.codes, weights, float(self.validation), rng)
        else:
            folds = [self._given_fold(problem, weights)]
        if not folds:
            raise ValueError(
                "no class has two rows, so that none can be held out to choose the strength by; give "
                "more rows, or a number in place of 'auto'"
            )
        return folds

    def _given_fold(self, problem: Problem, weights: np.ndarray) -> np.ndarray:
        mask = np.asarray(to_host(self.validation))
        if mask.shape != problem.codes.shape or mask.dtype != np.bool_:
            raise ValueError(
                f"validation is an array of {mask.dtype} of shape {mask.shape}; it must be a share of the "
                f"rows, or an array of bool that says which of the {len(problem.codes)} rows to hold out"
            )
        counted = weights > 0
        n_classes = len(np.unique(problem.codes[counted & ~mask]))
        if not (counted & mask).any() or n_classes < 2:
            raise ValueError(
                f"validation holds out {np.count_nonzero(mask)} of {len(mask)} rows and leaves {n_classes} "
                "classes to fit; it must hold out some rows, and leave rows of two classes at least"
            )
        return mask

    def _keep(self, problem: Problem, solver: Solver, solution: Solution, task: Task) -> None:
        """Set the fitted attributes, and warn where the minimum was not reached."""
        rows = problem.rows
        A, c = original(problem.standard, *solver.classifiers(solution), rows.dtype)
        self.coef_, self.intercept_ = rows.export(A), rows.export(c)
        about = problem.standard.about
        self._about = None if about is None else rows.export(about)
        self.objective_ = objectives(problem, task, A, c)
        # The solver may count digits that coef_ and intercept_ no longer have.
        lost = np.clip(self.objective_ - solution.objective, 0, None)
        lost /= np.maximum(self.objective_, task.floor)
        self.gap_ = solution.gap + lost
        self.n_iter_, self.n_passes_ = max(1, solution.n_iter), solver.n_passes + 1
        most = task.tol + LAST_DIGITS * float(np.finfo(rows.dtype).eps)
        self.converged_ = solution.converged and bool((self.gap_ <= most).all())
        if not (self.converged_ or solution.stopped):
            self._warn(solution, lost, rows.dtype)

    def _warn(self, solution: Solution, lost: np.ndarray, dtype: np.dtype) -> None:
        if solution.converged:
            text = (
                f"is inexact: rounding coef_ and intercept_ to {dtype} raises the objective of a class by "
                f"{lost.max():.1e} of itself; pass float64, or centre the features"
            )
        else:
            text = (
                f"has not converged after {solution.n_iter} iterations: the objective of a class may still "
                f"fall by some {self.gap_.max():.1e} of itself (tol={self.tol:.1e}); raise max_iter or tol, "
                "lower the strength of the loss, or pass float64"
            )
        warnings.warn(f"{type(self).__name__} {text}", ConvergenceWarning, stacklevel=5)

    def _walk(self, X: Any, fn: Any) -> Array:
        check_is_fitted(self, "coef_")
        rows = check_rows(self, X, reset=False)
        check_model_device(self, rows, self.coef_)
        A, c = (np.asarray(to_host(v), dtype=np.float64) for v in (self.coef_, self.intercept_))
        about = None if self._about is None else np.asarray(to_host(self._about), rows.dtype)
        c = c if about is None else c + A @ about.astype(np.float64)
        row_bytes = 2 * A.shape[0] * rows.dtype.itemsize + (0 if about is None else rows.row_nbytes)
        place = (A.astype(rows.dtype), c.astype(rows.dtype), about)
        return map_rows(fn, rows, *place, row_bytes=row_bytes)


class _Trial:
    """Tries strengths on held-out rows, each solve from the nearest one before it."""

    def __init__(
        self,
        head: LinearHead,
        solver: Solver,
        problem: Problem,
        weights: np.ndarray,
        folds: list[np.ndarray],
        progress: Progress,
    ) -> None:
        self._head, self._solver, self._problem = head, solver, problem
        self._weights, self._folds, self._progress = weights, folds, progress
        self._solutions: dict[int, list[Solution]] = {}

    def scores(self, strengths: dict[int, float]) -> list[float]:
        """Return the scores of these strengths C, given with their steps."""
        if any(solution.stopped for tried in self._solutions.values() for solution in tried):
            return [-np.inf] * len(strengths)  # a callback asked to stop: the rest is not tried
        starts = [start for step in strengths for start in self._starts(step)]
        tasks = [self._task(out, C) for C in strengths.values() for out in self._folds]
        solutions = self._solver.solve_all(tasks, starts, self._progress)
        n = len(self._folds)
        for i, step in enumerate(strengths):
            self._solutions[step] = solutions[i * n : (i + 1) * n]
        return [self._score(self._solutions[step]) for step in strengths]

    def _starts(self, step: int) -> list[Solution] | list[None]:
        """Return the solutions of the nearest step that was tried."""
        near = min(self._solutions, key=lambda s: abs(s - step), default=None)
        return [None] * len(self._folds) if near is None else self._solutions[near]

    def _score(self, solutions: list[Solution]) -> float:
        """Return the share of held-out rows that are given their class, over all folds."""
        right = counted = 0.0
        for out, solution in zip(self._folds, solutions, strict=False):  # fewer where it stopped
            hits = self._solver.predicted(solution)[out] == self._problem.codes[out]
            right += float(self._weights[out] @ hits)
            counted += float(self._weights[out].sum())
        return right / counted

    def last(self, step: int) -> Solution:
        """Return a solution of a strength that was tried."""
        return self._solutions[step][-1]

    def _task(self, out: np.ndarray, C: float) -> Task:
        kept = np.where(out, 0, self._weights)
        tol = max(self._head.tol, self._solver.search_tol)
        return Task(C, kept / kept.sum(), tol, self._head.max_iter)


def _kind_of_solver(rows: Rows, *, search: bool) -> Callable[[Problem], Solver]:
    """Return the solver to use: by features; or by products of rows, for one strength or for many."""
    n, on_host = rows.n_rows, is_host_array(rows.place(np.zeros(1)))
    if n > max(rows.n_features, _FEW if on_host or not search else _FEW_ON_DEVICE):
        return PrimalSolver
    if search and n > (_FEW_IN_SEARCH if on_host else _FEW):
        return PrincipalSolver if principal_bytes(n) <= rows.memory else PrimalSolver
    return KernelSolver if kernel_bytes(n) <= rows.memory else PrimalSolver


def _labels_of_block(X: Array, A: Array, c: Array, about: Array | None, *, classes: Any) -> Array:
    codes = winners(decisions(X, A, c, about))
    xp = namespace_of(codes)
    return xp.take(xp.asarray(classes, device=codes.device), codes, axis=0)


def _lengths(n_rows: int, n_labels: int) -> str:
    return (
        f"X has {n_rows} rows and y has {n_labels} labels; found input variables with inconsistent numbers "
        f"of samples: {[n_rows, n_labels]}"
    )
