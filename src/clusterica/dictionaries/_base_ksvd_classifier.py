"""K-SVD with labels: ``min |x - Dᵀ s|² + γ |h - W s|² + α |q - A s|²`` over D, W, A and codes of few atoms.

h is 1 at the class of the row, q at the atoms of its class. Both stand beside x as further features, so that
K-SVD on the rows ``[x, √γ h, √α q]`` learns all three.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from clusterica.arrays import (
    AccuracyMixin,
    Array,
    Interval,
    Labels,
    Rows,
    as_generator,
    base_class,
    check_fitted_rows,
    check_labels,
    check_rows,
    check_scale,
    fetched,
    fit_context,
    map_rows,
    to_host,
)
from clusterica.dictionaries._alternate import HostArray, draw_candidates, first_atoms
from clusterica.dictionaries._base import BaseDictionary
from clusterica.dictionaries._ksvd import KSVD, check_n_nonzero, code_rows, learn_atoms
from clusterica.encoders import BaseEncoder, OMPEncoder
from clusterica.ops.code import unit_atoms
from clusterica.ops.dictionary import CodeSums, Pursuit
from clusterica.ops.linalg import inverse_lengths, unit_rows
from clusterica.optim import fit_progress


class AtomPlan(NamedTuple):
    """What to learn from rows with labels."""

    n_atoms: int
    """Number of atoms."""
    of_class: HostArray | None
    """Index of the class of each atom; None where atoms have no class."""
    targets: HostArray
    """What stands beside a row of each class, shape (n_classes, n_targets), the classifier's first."""


@base_class
class BaseKSVDClassifier(AccuracyMixin, ClassifierMixin, BaseDictionary):
    """What K-SVD with labels shares: the fit on rows with targets beside them, and predictions."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseDictionary._parameter_constraints,
        "n_nonzero": [Interval(Integral, 1, None, closed="left"), None],
        "classification": [Interval(Real, 0, None, closed="left")],
    }
    n_nonzero: int | None
    classification: float

    @abstractmethod
    def _plan(self, rows: Rows, labels: Labels) -> AtomPlan:
        """Return how many atoms to learn, their classes, and the targets of rows."""

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the atoms and the classifier.

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
        check_scale(rows, np.float64)  # sums of squares are float64
        labels = check_labels(self, y, rows, min_classes=2)
        # torch takes indices as int64 only.
        labels = labels._replace(codes=labels.codes.astype(np.int64))
        self.classes_ = labels.classes
        plan = self._plan(rows, labels)
        self.n_nonzero_ = check_n_nonzero(self.n_nonzero, plan.n_atoms, rows.n_features)
        targets = plan.targets
        rng = as_generator(self.random_state)
        progress = fit_progress(self, self.max_iter, X=X, y=y)
        code = partial(code_rows, rows, Pursuit(self.n_nonzero_), labels=labels.codes)
        candidates, where = draw_candidates(rows, plan.n_atoms, rng)
        if self.init is None:
            D = self._start(rows, labels, plan, rng)
        else:
            D = first_atoms(self.init, candidates, plan.n_atoms, rng)
        # The targets as a function of the codes, so that they begin where the atoms do.
        beside = _ridge(code(D, targets=targets), rows.n_features)
        result = learn_atoms(
            partial(code, targets=targets),
            np.asarray(unit_rows(np.hstack([D, beside]))),
            np.hstack([candidates, targets[labels.codes[where]]]),
            n_rows=rows.n_rows,
            n_nonzero=self.n_nonzero_,
            max_iter=self.max_iter,
            tol=self.tol,
            progress=progress,
            fitted=lambda coded: self._split(rows, coded.D, code),
        )
        progress.end()
        self.__dict__.update(self._split(rows, result.params.D, code))
        self.objective_history_, self.n_iter_ = np.array(result.history), result.n_iter
        self.n_replaced_ = result.params.n_replaced
        result.warn_if_unfinished(self)
        # Coded without their labels, as new rows will be.
        uses = code(np.asarray(to_host(self.components_), np.float64)).uses
        self._warn_of_dead(uses, "learn fewer atoms, give more rows, or weigh the labels less")
        return self

    def decision_function(self, X: Any) -> Array:
        """Return the score of every class, ``W s``.

        Parameters
        ----------
        X : as in fit, (n_samples, n_features)
            The data.

        Returns
        -------
        scores : array of shape (n_samples, n_classes), or (n_samples,) for two classes
            In the library and on the device of X; of two classes, positive for ``classes_[1]``.
        """
        return self._map(X, "decisions")

    def predict(self, X: Any) -> Array:
        """Return the predicted class of every row.

        Parameters
        ----------
        X : as in fit, (n_samples, n_features)
            The data.

        Returns
        -------
        y : array of shape (n_samples,)
            In the library and on the device of X where the labels are numbers; NumPy otherwise.
        """
        check_is_fitted(self, "components_")
        if self.classes_.dtype.kind in "biuf":
            return self._map(X, "classes", self.classes_)
        # Strings are not arrays of other libraries: look the names up on the host.
        codes = self._map(X, "classes", np.arange(len(self.classes_)))
        return self.classes_[fetched(codes)]

    def _map(self, X: Any, function: str, *params: HostArray) -> Array:
        """Return a function of the codes of all rows, by the atoms and the classifier."""
        rows = check_fitted_rows(self, X, "components_")
        D, W = (np.asarray(to_host(a), dtype=rows.dtype) for a in (self.components_, self.coef_))
        fn = getattr(Pursuit(self.n_nonzero_), function)
        return map_rows(fn, rows, *unit_atoms(D), W, *params)

    def _start(
        self, rows: Rows, labels: Labels, plan: AtomPlan, rng: np.random.Generator
    ) -> HostArray:
        """Return atoms by K-SVD on a sample of the rows, or of the rows of every class."""
        groups = [np.arange(rows.n_rows)]
        # The atoms of a class start from its own rows.
        if plan.of_class is not None:
            groups = [np.flatnonzero(labels.codes == c) for c in range(len(labels.classes))]
        k = plan.n_atoms // len(groups)
        found = []
        for members in groups:
            # 100 rows for each atom and ten passes: a start need not be exact.
            size = min(len(members), max(100 * k, 2))
            sample = rows.take(np.sort(rng.choice(members, size=size, replace=False)))
            sample = np.asarray(sample, dtype=np.float64)
            if size < 2 or not sample.any():  # nothing to learn from: as they are
                found.append(first_atoms(None, sample, k, rng))
                continue
            ksvd = KSVD(
                k,
                n_nonzero=min(k, self.n_nonzero_),
                max_iter=10,
                random_state=rng,
            )
            with warnings.catch_warnings():
                # A start need not have converged, and a class may need fewer atoms than it has.
                warnings.simplefilter("ignore", ConvergenceWarning)
                warnings.filterwarnings("ignore", message=".*are used by no row")
                found.append(ksvd.fit(sample).components_)
        return np.concatenate(found)

    def _split(
        self, rows: Rows, stacked: HostArray, code: Callable[..., CodeSums]
    ) -> dict[str, Any]:
        """Return the atoms at unit length and the classifier that goes with them."""
        d, c = rows.n_features, len(self.classes_)
        D, W = stacked[:, :d], stacked[:, d : d + c]
        # Atoms are learned at unit length together with their targets; rows without labels are coded
        # without.
        inverse = inverse_lengths(D)[:, None]
        D = D * inverse
        if self.classification > 0:
            # Codes of longer atoms are smaller: scale the classifier as the atoms.
            W = W * inverse / np.sqrt(self.classification)
        else:
            W = _ridge(code(D, targets=np.eye(c)), d)
        return {**self._learned(rows, D), "coef_": rows.learned(W.T)}

    def _encoder(self) -> BaseEncoder:
        return OMPEncoder(n_nonzero=self.n_nonzero_, split_signs=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def _ridge(sums: CodeSums, n_features: int) -> HostArray:
    """Return the map from codes to targets by ridge regression, shape (n_atoms, n_targets)."""
    A = sums.products
    # In units of the mean squared code of an atom: so little that it only decides where codes are alike.
    ridge = 1e-3 * max(float(np.diag(A).mean()), np.finfo(float).tiny)
    solved: HostArray = np.linalg.solve(A + ridge * np.eye(len(A)), sums.moments[:, n_features:])
    return solved
