"""What reconstruction ICA with and without labels share: the fit around its problem, and the codes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.callback import CallbackSupportMixin
from sklearn.utils.validation import check_is_fitted

from clusterica.arrays import (
    Array,
    Estimator,
    FloatOutputMixin,
    Interval,
    Rows,
    StrOptions,
    as_generator,
    base_class,
    check_fitted_rows,
    check_not_masked,
    check_not_transposed,
    map_reduce,
    to_host,
    to_like,
    warn_user,
)
from clusterica.cluster import GainShapeKMeans
from clusterica.contrasts import PENALTIES
from clusterica.ops.discrimination import Discrimination
from clusterica.ops.kernels import DEAD, MUCH_DEAD
from clusterica.ops.linalg import combine, project, row_lengths, unit_rows
from clusterica.ops.moments import Moments
from clusterica.ops.penalty import PenaltyFunction
from clusterica.ops.rica import ClassMoments, class_moments, null_directions
from clusterica.optim import LoopResult, fit_progress
from clusterica.preprocessing.whitening import apply_map, moments_about_mean
from clusterica.rica._labels import BasisLabels
from clusterica.rica._reconstruction import Reconstruction, Supervision, minimize

# Mini-batch steps that a fit counts as. Steps of partial_fit become shorter with their number, and those
# after a fit must be short: they begin at a minimum. With 10,000 they start at a tenth of the usual length.
STEPS_OF_FIT = 10_000


class BatchState(NamedTuple):
    """Where partial_fit goes on: moments of all rows, directions without variance, number of steps."""

    moments: Moments
    null: np.ndarray
    n_steps: int


@base_class
class BaseRICA(
    CallbackSupportMixin,
    FloatOutputMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    Estimator,
):
    """What reconstruction ICA with and without labels share."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "sparsity": [Interval(Real, 0, None, closed="left")],
        "penalty": [StrOptions(set(PENALTIES)), callable],
        "pooling": "no_validation",
        "unit_norm": ["boolean", StrOptions({"tight"})],
        "init": [StrOptions({"gaussian", "k-means"}), "array-like"],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state", np.random.Generator],
    }
    sparsity: float
    penalty: Any
    pooling: Any
    unit_norm: bool | str
    init: Any
    max_iter: int
    tol: float
    random_state: Any

    def _fit(
        self,
        X: Any,
        y: Any,
        rows: Rows,
        K: int,
        penalty: PenaltyFunction,
        labels: BasisLabels | None = None,
        discrimination: tuple[Discrimination, float] | None = None,
    ) -> BatchState:
        """Learn K components; with labels, given the discrimination term and its weight."""
        check_not_transposed(self, rows)
        total = host_moments(rows)
        W = self._start(rows, K, total.first, labels)
        progress = fit_progress(self, self.max_iter, X=X, y=y)
        # Directions without variance, such as those of constant features: a filter there costs nothing and
        # stays.
        null = null_directions(total, rows.dtype)
        problem = self._problem(rows, total, penalty, null)
        # Random starts are projected out of these directions; a start that was given is refused instead of
        # changed.
        outside = np.flatnonzero(to_host(problem.outside(rows.place.put(W))))
        if outside.size and not isinstance(self.init, str):
            raise ValueError(
                f"row {outside[0]} of init, and {outside.size - 1} others, lie where the data does not vary, "
                "such as along a constant feature; give other directions, or set unit_norm=True"
            )
        if labels is not None and discrimination is not None:
            # Codes are linear in the rows, so that second moments of every class are all that the term needs.
            fn = partial(class_moments, n_classes=len(labels.classes))
            sums = ClassMoments(*map_reduce(fn, rows, problem.mean, aligned=(labels.codes,)))
            problem = replace(problem, supervision=Supervision(*discrimination, sums.second))
        found = minimize(
            problem,
            W,
            max_iter=self.max_iter,
            tol=self.tol,
            progress=progress,
            fitted=lambda W: self._learned(rows, W, total.first),
        )
        progress.end()
        # The same attributes that callbacks saw after each step.
        self.__dict__.update(self._learned(rows, found.result.params, total.first))
        self.n_iter_ = found.result.n_iter
        self.objective_history_ = np.array(found.result.history)
        self.term_histories_ = found.terms
        self.reconstruction_error_ = float(found.terms["reconstruction"][-1])
        self.n_dead_ = count_dead(found.result.params, total, null)
        self._warn(found.result, problem, W)
        # So that partial_fit can go on from here, with the covariance of all rows.
        return BatchState(total, null, STEPS_OF_FIT)

    def transform(self, X: Any) -> Array:
        """Return the codes ``W (x - mean)`` of the rows.

        Parameters
        ----------
        X : as in fit, (n_samples, n_features)
            The data.

        Returns
        -------
        S : array of shape (n_samples, n_components)
            In the library and on the device of X.
        """
        rows = check_fitted_rows(self, X, "components_")
        return apply_map(project, rows, self.components_, self.mean_)

    def inverse_transform(self, S: Any) -> Array:
        r"""Return the rows whose codes are nearest to these: ``S @ mixing_.T + mean_``.

        For codes of rows it is the rows themselves where there are as many components as features, or more.
        It is not ``Wᵀ s / t``, which the objective has: that agrees where :math:`W^\top W = t I`.

        Parameters
        ----------
        S : as returned by transform, (n_samples, n_components)
            Codes.

        Returns
        -------
        X : array of shape (n_samples, n_features)
        """
        rows = check_fitted_rows(self, S, "components_", is_output=True)
        return apply_map(combine, rows, self._pseudo_inverse(), self.mean_)

    @property
    def mixing_(self) -> Array:
        r"""The pseudo-inverse of ``components_``, shape (n_features, n_components), on their device.

        It is the map of ``inverse_transform``, as in scikit-learn's FastICA. The objective reconstructs by
        ``components_.T / t`` in its place; the two agree where :math:`W^\top W = t I`.
        """
        check_is_fitted(self, "components_")
        back = self._pseudo_inverse().astype(to_host(self.components_).dtype)
        return to_like(back, self.components_)

    def _pseudo_inverse(self) -> np.ndarray:
        W = to_host(self.components_)
        # Directions with singular values of the size of rounding errors are left out.
        rcond = max(W.shape) * np.finfo(W.dtype).eps
        inverse: np.ndarray = np.linalg.pinv(W.astype(np.float64), rcond=rcond)
        return inverse

    def _problem(
        self, rows: Rows, total: Moments, penalty: PenaltyFunction, null: np.ndarray
    ) -> Reconstruction:
        # True is the objective of Le et al.; "tight" divides by t, and keeps out of constant directions.
        tight = self.unit_norm == "tight"
        return Reconstruction(
            rows,
            rows.place.put(total.first),
            rows.place.put(total.second / total.n),
            penalty,
            float(self.sparsity),
            unit_norm=bool(self.unit_norm),
            null=rows.place.put(null if tight else null[:0]),
            tight=tight,
        )

    def _start(
        self, rows: Rows, K: int, mean: np.ndarray, labels: BasisLabels | None = None
    ) -> np.ndarray:
        """Return the basis to begin with, in float64 on the host."""
        if isinstance(self.init, str):
            rng = as_generator(self.random_state)
            if self.init == "k-means":
                W = cluster_directions(rows, K, mean, labels, rng)
            else:
                W = unit_rows(rng.normal(size=(K, rows.n_features)))
            # K unit vectors make W x longer than x by √(K / n): scaled back where lengths are free.
            return W if self.unit_norm else W * min(1.0, np.sqrt(rows.n_features / K))
        check_not_masked(self.init, "init")
        W = np.array(to_host(self.init), dtype=np.float64)
        if W.shape != (K, rows.n_features):
            raise ValueError(
                f"init has shape {W.shape}; it must be (n_components, n_features) = {(K, rows.n_features)}"
            )
        # A row of zeros has no direction, and unit_norm would divide by its length.
        if not np.isfinite(W).all() or not (W != 0).any(axis=1).all():
            raise ValueError("init must be finite, and no row of it may be all zeros")
        return W

    def _learned(self, rows: Rows, W: Array, mean: np.ndarray) -> dict[str, Any]:
        """Return the attributes that transform needs."""
        return {
            "components_": rows.learned(W),
            "mean_": rows.learned(mean),
            # Names of the output columns, for set_output.
            "_n_features_out": W.shape[0],
        }

    def _warn(self, result: LoopResult, problem: Reconstruction, start: np.ndarray) -> None:
        """Say that the fit did not converge, and that many filters, or all, have shrunk to nothing."""
        if self.n_dead_ < len(start):
            result.warn_if_unfinished(self)
            if self.n_dead_ > MUCH_DEAD * len(start):
                warn_user(
                    f"{self.n_dead_} of {len(start)} filters are dead, shorter than {DEAD} where the data "
                    "varies: no more are needed to reconstruct it; use unit_norm='tight', fewer filters, or "
                    f"a smaller sparsity (it is {self.sparsity:g})"
                )
            return
        # Orthonormal filters gain this much over none, and cost so much by the other terms.
        U, _, Vt = np.linalg.svd(start, full_matrices=False)
        none, some = (
            problem.evaluate(problem.rows.place.put(W)).extra for W in (0 * start, U @ Vt)
        )
        gain = none["reconstruction"] - some["reconstruction"]
        if not gain > 0:
            warn_user("the rows do not vary, so that nothing was learned: all filters are dead")
            return
        given = {"penalty": "sparsity", "discrimination": "discrimination"}
        costs = {given[name]: some[name] - none[name] for name in some if name in given}
        # Below that share of the weights such filters are better than none.
        share = gain / max(gain, sum(costs.values()))
        heavy = {name: getattr(self, name) for name, cost in costs.items() if cost > 0.1 * gain}
        found = " and ".join(f"{name}={value:g}" for name, value in heavy.items())
        below = " and ".join(f"{name} below {share * value:.3g}" for name, value in heavy.items())
        such = " and ".join(f"{0.1 * share * value:.2g}" for value in heavy.values())
        warn_user(
            f"the codes of all rows are nearly zero with {found}: all filters are dead; use {below}, such as "
            f"{such}"
        )


def host_moments(rows: Rows) -> Moments:
    """Return n, the mean, and the sums of products about it, in float64 on the host."""
    moments = Moments(*(to_host(part) for part in moments_about_mean(rows)))
    if not np.isfinite(moments.second).all():
        raise ValueError("the squares of the rows are too large to be summed; scale the rows down")
    return moments


def count_dead(W: np.ndarray, moments: Moments, null: np.ndarray) -> int:
    """Return how many filters are shorter than `DEAD` where the data varies; all, if so are all codes."""
    covariance = moments.second / moments.n
    # In units of the feature that varies most.
    energies = ((W @ covariance) * W).sum(axis=1) / max(
        covariance.diagonal().max(), np.finfo(float).tiny
    )
    if energies.max() < DEAD**2:
        return len(W)
    # Filters that reconstruct anything have about length one, whatever the scale of the data.
    return int((row_lengths(W - (W @ null.T) @ null) < DEAD).sum())


def cluster_directions(
    rows: Rows, n: int, mean: np.ndarray, labels: BasisLabels | None, rng: np.random.Generator
) -> np.ndarray:
    """Return n unit vectors where the rows cluster, by class if there are labels; float64 on the host.

    Parameters
    ----------
    rows : Rows
        The data, of which a sample is clustered.
    n : int
        Number of directions, a multiple of the number of classes.
    mean : ndarray of shape (n_features,)
        Mean of all rows, from which directions are seen. That of its own class would hide where a class lies.
    labels : BasisLabels or None
        The class of every row.
    rng : Generator
        Draws the rows and the start of K-means.
    """
    parts = [np.arange(rows.n_rows)] if labels is None else labels.rows_by_class()
    k = n // len(parts)
    # K-means needs a row for every centre, in every class.
    if min(map(len, parts)) < k:
        raise ValueError(
            f"init='k-means' needs a row for every component, and there are {rows.n_rows} rows for {n}; give "
            "more rows, lower n_components, or use init='gaussian'"
        )
    directions = []
    for part in parts:
        # 50 rows for every direction, or 20,000 in all if that is more: a start need not be exact.
        size = min(len(part), max(1, 20_000 // len(parts), 50 * k))
        sample = rows.take(np.sort(rng.choice(part, size=size, replace=False)))
        sample = sample - mean.astype(sample.dtype)
        seed = int(rng.integers(2**31))
        model = GainShapeKMeans(k, max_iter=10, tol=0.0, compute_labels=False, random_state=seed)
        # Clustered where the rows are worked on, which may be a GPU.
        W = to_host(model.fit(rows.place.put(sample)).cluster_centers_).astype(np.float64)
        # An empty cluster may leave a centre of zeros: it becomes a random direction.
        directions.append(unit_rows(W, unit_rows(rng.normal(size=W.shape))))
    return np.concatenate(directions)
