"""What the clusterers of the K-means family share: fit, partial_fit, predict, score around Lloyd's loop."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import (
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.callback import CallbackSupportMixin
from sklearn.exceptions import ConvergenceWarning

from clusterica.arrays import (
    Array,
    Estimator,
    Interval,
    Rows,
    StrOptions,
    as_generator,
    base_class,
    check_fitted_rows,
    check_model_device,
    check_rows,
    check_scale,
    check_score,
    check_weights,
    fit_context,
    map_rows,
    namespace_of,
    to_host,
    warn_user,
)
from clusterica.cluster._init import METHODS, count_starts, initial_centers
from clusterica.cluster._lloyd import Final, Lloyd, useful_shift
from clusterica.ops.assign import best_labels
from clusterica.ops.rules import Centers, Rule, center_counts
from clusterica.optim import LoopResult, Progress, best_of, fit_progress


@base_class
class BaseKMeans(
    CallbackSupportMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    ClusterMixin,
    Estimator,
    ABC,
):
    """Base of the K-means family; a subclass says its rule and names its parameters."""

    _size_name: ClassVar[str] = "n_clusters"  # the parameter that error messages name
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "init": [StrOptions(set(METHODS)), "array-like", callable],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left"), None],
        "empty": [StrOptions({"data", "keep", "drop"})],
        "min_count": [Interval(Real, 0, None, closed="left")],
        "compute_labels": ["boolean"],
        "random_state": ["random_state", np.random.Generator],
    }

    _centers: Centers  # with their masses, on the host: where partial_fit goes on
    # How many rows partial_fit has seen since each centre received one.
    _idle: np.ndarray | None = None
    n_iter_: int
    objective_history_: np.ndarray

    @property
    @abstractmethod
    def _rule(self) -> Rule:
        """Geometry of the clusterer, with its settings."""

    def _count_centers(self, n_features: int) -> int:
        """Return the number of free centres."""
        return int(self.n_clusters)

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn the centres.

        Parameters
        ----------
        X : array-like, CSR matrix, tensor, Dask array or iterable of blocks, (n_samples, n_features)
            The data.
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            Weight of each row; None counts every row once.

        Returns
        -------
        self
        """
        rows = check_rows(self, X, reset=True, accept_sparse=True)
        check_scale(rows)
        n_centers = self._check_n_centers(rows)
        weights = check_weights(sample_weight, rows)
        lloyd = self._lloyd(rows, weights, as_generator(self.random_state))
        n_init = count_starts(self.init, self.n_init)
        progress = fit_progress(self, n_init, X=X, y=y, sample_weight=sample_weight)
        result = best_of(
            lambda task: self._run(lloyd, n_centers, X, task),
            n_init,
            # The last iteration only knows the objective of the centres before it.
            objective=lambda r: self._merit(lloyd.finish(r.params.C).objective),
            n_subtasks=self.max_iter + 1,  # one for the iterations of an orthogonal start
            progress=progress,
        )
        self._set_fitted(lloyd, result, weighted=sample_weight is not None)
        progress.end()
        return self

    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Improve the centres with one more batch of rows.

        The first batch chooses the initial centres. A centre weighs as much as the rows it has
        received so far, so that later batches move it less and less. With ``empty="data"``, a
        centre that received none of the last 1000 rows for each centre moves to a row of the batch,
        and one that never received any does so after 100 for each. The objective is that of
        the batch before it moved the centres.

        Parameters
        ----------
        X : as in fit, (n_samples, n_features)
            The batch.
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            Weight of each row.

        Returns
        -------
        self
        """
        first = not hasattr(self, "_centers")
        rows = check_rows(self, X, reset=first, accept_sparse=True)
        check_scale(rows)
        weights = check_weights(sample_weight, rows)
        rng = as_generator(self.random_state)
        lloyd = self._lloyd(rows, weights, rng)
        lloyd.idle = None if first else self._idle
        if first:
            n_centers = self._check_n_centers(rows)
            C = initial_centers(
                self.init, lloyd, n_centers, X, max_iter=self.max_iter, tol=self.tol
            )
            old, n_iter, history = lloyd.start(C), 0, np.empty(0)
            old = Centers(*map(to_host, old))
            weighted = sample_weight is not None
        else:
            check_model_device(self, rows.home, self.cluster_centers_)
            old, n_iter, history = self._centers, self.n_iter_, self.objective_history_
            # Counts are integers as long as no batch had weights.
            whole_counts = np.issubdtype(to_host(self.counts_).dtype, np.integer)
            weighted = sample_weight is not None or not whole_counts
        # In float64: the moves of a heavy centre are smaller than the digits of float32.
        C = old.C.astype(np.float64)
        lloyd.shift = None if self._rule.unit_centers else useful_shift(C, rows)
        old = Centers(*map(rows.place.put, old._replace(C=_translated(C, lloyd.shift, -1))))
        # The products with the rows are in the dtype of the rows, as in predict.
        total = lloyd.sums(rows, weights, rows.place.put(to_host(old.C).astype(rows.dtype)))
        new = lloyd.rule.renew(total, old)
        # revive looks at what the centres received from this batch; counts_ is the sum over all batches.
        counts = old.counts + total.counts
        new = lloyd.revive(new, rows, weights)
        self.__dict__.pop("labels_", None)  # of other centres
        new = Centers(
            *map(to_host, new._replace(C=_translated(new.C, lloyd.shift, +1), counts=counts))
        )
        self._set_centers(rows, new, weighted=weighted)
        self._idle = lloyd.idle
        self.n_iter_ = n_iter + 1
        self.objective_history_ = np.append(history, lloyd.objective(float(total.gain)))
        self._set_objective(self.objective_history_[-1])
        return self

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> Array:
        """Learn the centres and return the label of every row; the parameters are those of fit."""
        # Without labels_ one more pass: the user asked fit not to keep them, and this method to return them.
        self.fit(X, sample_weight=sample_weight)
        return self.labels_ if self.compute_labels else self.predict(X)

    def predict(self, X: Any) -> Array:
        """Return the label of every row: the index of its best centre.

        Parameters
        ----------
        X : as in fit, (n_samples, n_features)
            The data.

        Returns
        -------
        labels : integer array of shape (n_samples,)
            In the library and on the device of X.
        """
        rows, C, shift = self._for_new_rows(X)
        return map_rows(partial(best_labels, rule=self._rule), rows, C, shift)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return how well the centres fit the rows; larger is better.

        It is minus the inertia of X, or the objective where that is maximised.
        """
        rows, C, shift = self._for_new_rows(X)
        weights = check_weights(sample_weight, rows)
        # Nothing is drawn: one assignment is neither batched nor refilled.
        lloyd = Lloyd(rows, weights, self._rule, np.random.default_rng(), shift)
        return check_score(self._merit(lloyd.finish(C).objective), rows)

    def _for_new_rows(self, X: Any) -> tuple[Rows, Array, np.ndarray | None]:
        rows = check_fitted_rows(self, X, "cluster_centers_", accept_sparse=True)
        C = self._rule.free_centers(self.cluster_centers_)
        return rows, *self._shifted(C, rows)

    def _shifted(self, C: Array, rows: Rows) -> tuple[np.ndarray, np.ndarray | None]:
        """Return centres minus their mean, and the mean, where that saves digits; else as they are.

        fit and predict must both use this: rows that two centres are equally far from get the label
        that rounding decides.
        """
        C = np.asarray(to_host(C), rows.dtype)
        shift = None if self._rule.unit_centers else useful_shift(C, rows)
        return _translated(C, shift, -1), shift

    def _merit(self, objective: float) -> float:
        """Return the objective as a number that is better when larger."""
        return objective if self._rule.maximized else -objective

    def _set_objective(self, objective: float) -> None:
        setattr(self, "objective_" if self._rule.maximized else "inertia_", objective)

    def _check_n_centers(self, rows: Rows) -> int:
        n_centers = self._count_centers(rows.n_features)
        n_clusters = self._rule.n_labels(n_centers)
        if rows.n_rows < n_clusters:
            raise ValueError(
                f"n_samples={rows.n_rows} should be >= {n_clusters}, the number of clusters; "
                f"lower {self._size_name} or give more rows"
            )
        return n_centers

    def _lloyd(self, rows: Rows, weights: np.ndarray, rng: np.random.Generator) -> Lloyd:
        """Return the problem to solve; Euclidean distances are taken from a point among the rows."""
        shift = None if self._rule.unit_centers else useful_shift(rows.glance(), rows)
        refill = self.empty == "data" and self._rule.can_be_empty
        return Lloyd(rows, weights, self._rule, rng, shift, refill=refill)

    def _run(self, lloyd: Lloyd, n_centers: int, X: Any, task: Progress) -> LoopResult:
        """Run one start: choose the centres, then iterate."""

        def fitted(centers: Centers) -> dict[str, Any]:
            # The attributes of a model with these centres, for callbacks that evaluate it.
            C = self._rule.all_centers(_translated(centers.C, lloyd.shift, +1))
            return {"cluster_centers_": lloyd.rows.home.put(C), "_n_features_out": C.shape[0]}

        C = initial_centers(
            self.init,
            lloyd,
            n_centers,
            X,
            max_iter=self.max_iter,
            tol=self.tol,
            progress=task,
        )
        return lloyd.run(
            _translated(C, lloyd.shift, -1),
            max_iter=self.max_iter,
            tol=self.tol,
            batch_size=self.batch_size,
            progress=task,
            fitted=fitted,
        )

    def _set_fitted(self, lloyd: Lloyd, result: LoopResult, *, weighted: bool) -> None:
        """Set the fitted attributes from the best run."""
        centers: Centers = result.params._replace(C=_translated(result.params.C, lloyd.shift, +1))
        centers = Centers(*map(to_host, centers))
        history = list(result.history)
        if self.compute_labels or self.empty == "drop":
            final, centers = self._assigned(lloyd, centers)
            # The rows of a dropped cluster go to others; some of those may lose rows in turn.
            while self.empty == "drop" and not (large := self._large(centers)).all():
                kept = centers._replace(C=centers.C[large], mass=centers.mass[large])
                final, centers = self._assigned(lloyd, kept)
            history.append(final.objective)
            if self.compute_labels:
                self.labels_ = lloyd.rows.in_model(final.labels)
        if not self.compute_labels:
            self.__dict__.pop("labels_", None)
        # Validation has found all rows finite, but their squares may overflow.
        if not np.isfinite(history[-1]):
            raise ValueError(
                f"the squares of the rows are too large for {lloyd.rows.dtype}; scale the rows down, or pass "
                "float64"
            )
        n_empty, n_centers = int((center_counts(centers) == 0).sum()), len(centers.C)
        # Where empty centres are refilled, none should stay empty; otherwise a few are normal.
        if n_empty > (0 if lloyd.refill else n_centers / 10):
            warn_user(
                f"{n_empty} of {n_centers} clusters are empty: there are fewer distinct rows than clusters, "
                "or too few rows for the number of features, or the data is not normalised and whitened as "
                f"this rule expects; lower {self._size_name}, or use empty='drop'",
                ConvergenceWarning,
            )
        self._set_centers(lloyd.rows, centers, weighted=weighted)
        self._idle = None
        self.n_iter_ = result.n_iter
        self.objective_history_ = np.array(history)
        self._set_objective(history[-1])

    def _assigned(self, lloyd: Lloyd, centers: Centers) -> tuple[Final, Centers]:
        """Assign all rows to the centres as predict does; return the centres with their counts."""
        C, lloyd.shift = self._shifted(centers.C, lloyd.rows)
        final = lloyd.finish(C)
        return final, centers._replace(counts=to_host(final.counts))

    def _set_centers(self, rows: Rows, centers: Centers, *, weighted: bool) -> None:
        """Set the centres and their counts, and keep what partial_fit needs to go on."""
        C, mass, counts = centers
        # In float64, so that many small moves of partial_fit add up.
        C = C.astype(np.float64)
        self._centers = Centers(C, mass, counts)
        self.cluster_centers_ = rows.learned(self._rule.all_centers(C))
        self.counts_ = rows.home.put(counts if weighted else counts.astype(np.int64))
        self._n_features_out = self.cluster_centers_.shape[0]

    def _large(self, centers: Centers) -> np.ndarray:
        """Return which centres hold at least min_count, and something."""
        # With min_count=0 empty clusters are dropped still: they have no rows to keep them.
        least = self.min_count if self.min_count > 0 else np.finfo(float).tiny
        large: np.ndarray = center_counts(centers) >= least
        if not large.any():
            raise ValueError(
                f"every cluster holds less than min_count={self.min_count}; lower min_count or "
                f"{self._size_name}"
            )
        return large

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _translated(C: Array, shift: np.ndarray | None, sign: int) -> Array:
    """Return the centres plus or minus the shift, if there is one."""
    if shift is None:
        return C
    xp = namespace_of(C)
    return C + sign * xp.astype(xp.asarray(shift, device=C.device), C.dtype)
