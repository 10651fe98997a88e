"""What kernel RICA with and without labels share: the start, the fit around its problem, and the codes."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.callback import CallbackSupportMixin
from sklearn.exceptions import ConvergenceWarning

from clusterica.arrays import (
    Array,
    FloatOutputMixin,
    Interval,
    Rows,
    StrOptions,
    as_generator,
    check_fitted_rows,
    check_rows,
    map_reduce,
    map_rows,
    to_host,
)
from clusterica.cluster import KMeans
from clusterica.contrasts import PENALTIES, make_penalty
from clusterica.kernels import KERNEL_NAMES, Gaussian, Kernel, make_kernel
from clusterica.ops.kernel_rica import Model, codes, reached
from clusterica.ops.kernels import DEAD, MUCH_DEAD, scale_rows
from clusterica.optim import Progress, fit_progress
from clusterica.rica._kernel_descent import OPTIMIZERS, KernelMinimum, KernelProblem, descend
from clusterica.rica._labels import Labels


class BaseKernelRICA(
    CallbackSupportMixin,
    FloatOutputMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    BaseEstimator,
    ABC,
):
    """What kernel RICA with and without labels share."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "kernel": [StrOptions(set(KERNEL_NAMES)), callable],
        "gamma": [Interval(Real, 0, None, closed="neither"), StrOptions({"median"})],
        "sparsity": [Interval(Real, 0, None, closed="left")],
        "penalty": [StrOptions(set(PENALTIES)), callable],
        "pooling": "no_validation",
        "normalize": ["boolean"],
        "optimizer": [StrOptions(set(OPTIMIZERS))],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state", np.random.Generator],
    }
    kernel: Any
    gamma: float | str
    sparsity: float
    penalty: Any
    pooling: Any
    normalize: bool
    optimizer: str
    max_iter: int
    tol: float
    random_state: Any

    @abstractmethod
    def _check_size(self, rows: Rows, y: Any) -> tuple[int, Labels | None]:
        """Return the number of components, and the labels of the rows if they are needed."""

    def _supervised(self, model: Model, labels: Labels) -> Model:
        """Return the model with its discrimination term."""
        raise NotImplementedError

    def _fit(self, X: Any, y: Any) -> None:
        rows = check_rows(self, X, reset=True, min_rows=2)
        K, labels = self._check_size(rows, y)
        penalty = make_penalty(self.penalty, self.pooling, n_codes=K)
        rng = as_generator(self.random_state)
        n_parts = 1 if labels is None else len(labels.classes)
        progress = fit_progress(self, n_parts + 1, X=X, y=y)
        chosen, parts = _sample(rows, K, labels, rng)
        sample = scale_rows(rows.take(chosen), normalize=self.normalize)
        self.kernel_ = make_kernel(self.kernel, gamma=self.gamma, rows=sample, rng=rng)
        self.gamma_ = self.kernel_.gamma if isinstance(self.kernel_, Gaussian) else None
        model = Model(self.kernel_, penalty, float(self.sparsity), normalize=self.normalize)
        if labels is not None:
            model = self._supervised(model, labels)
        start = np.concatenate(
            [_centres(rows, sample[p], K // n_parts, rng, progress) for p in parts]
        )
        problem = KernelProblem(rows, model, None if labels is None else labels.places)
        found = self._descend(problem, start, _reach(self.kernel_, sample), progress)
        self._keep(rows, found, start, sample)
        progress.end()

    def transform(self, X: Any) -> Array:
        """Return the codes ``k(w, x)`` of the rows.

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
        W = np.asarray(to_host(self.components_), dtype=rows.dtype)
        fn = partial(codes, kernel=self.kernel_, normalize=self.normalize)
        row_bytes = (rows.n_features + 4 * len(W)) * rows.dtype.itemsize
        return map_rows(fn, rows, W, row_bytes=row_bytes)

    def _descend(
        self, problem: KernelProblem, W: np.ndarray, reach: float, progress: Progress
    ) -> KernelMinimum:
        task = progress.subtask("basis", self.max_iter)
        found = descend(
            problem,
            W,
            optimizer=self.optimizer,
            reach=reach,
            max_iter=self.max_iter,
            tol=self.tol,
            progress=task,
            fitted=lambda V: {
                "components_": problem.rows.learned(V),
                "kernel_": self.kernel_,
                "_n_features_out": V.shape[0],
            },
        )
        task.end()
        return found

    def _keep(
        self, rows: Rows, found: KernelMinimum, start: np.ndarray, sample: np.ndarray
    ) -> None:
        """Set the fitted attributes, and warn of what went wrong."""
        self.n_iter_ = found.result.n_iter
        self.objective_history_ = np.array(found.result.history)
        self.term_histories_ = found.terms
        self.reconstruction_error_ = float(found.terms["reconstruction"][-1])
        if not (found.result.converged or found.result.stopped):
            warnings.warn(
                f"the objective still fell after max_iter={self.max_iter} steps; raise max_iter, or tol",
                ConvergenceWarning,
                stacklevel=5,
            )
        W = found.result.params.astype(rows.dtype)
        self.components_, self._n_features_out = rows.home.put(W), len(W)
        self.n_uphill_ = found.n_uphill
        some = sample[:: max(1, len(sample) // 1000)]
        self.median_similarity_ = float(np.median(self.kernel_(some, W)))
        self.n_dead_ = self._count_dead(rows, W)
        if self.n_dead_ > MUCH_DEAD * len(W):
            from_start = self._count_dead(rows, start.astype(rows.dtype)) > MUCH_DEAD * len(W)
            warnings.warn(
                f"{self.n_dead_} of {len(W)} basis vectors are dead: no row has k(w, x) of {DEAD}; "
                f"{self._remedy(too_narrow=from_start)}",
                UserWarning,
                stacklevel=5,
            )

    def _count_dead(self, rows: Rows, W: np.ndarray) -> int:
        fn = partial(reached, kernel=self.kernel_, normalize=self.normalize, least=DEAD)
        row_bytes = (rows.n_features + 6 * len(W)) * rows.dtype.itemsize
        return int((to_host(map_reduce(fn, rows, W, row_bytes=row_bytes)[0]) == 0).sum())

    def _remedy(self, *, too_narrow: bool) -> str:
        """Return what may help against dead basis vectors, which were dead at the start if too narrow."""
        gamma = self.gamma_
        if too_narrow:
            wider = f"lower gamma (it is {gamma:.3g})" if gamma else "use a wider kernel"
            return (
                f"{wider}, which is too narrow for the rows, so that the start was dead; gamma='median' is a "
                "value to begin with"
            )
        narrower = (
            f"raise gamma (it is {gamma:.3g}; try {4 * gamma:.3g})"
            if gamma
            else "use a narrower kernel, such as 'rbf' with a large gamma"
        )
        return (
            f"those that are like the same rows push each other away; {narrower}, fewer n_components, or a "
            "smaller max_iter"
        )


def _sample(
    rows: Rows, K: int, labels: Labels | None, rng: np.random.Generator
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return which rows the start looks at, in order, and where among them those of each class are."""
    # More rows hardly change where K-means starts the basis.
    most = max(20_000, 100 * K)
    if labels is None:
        chosen = rng.choice(rows.n_rows, size=min(most, rows.n_rows), replace=False)
        return np.sort(chosen), [np.arange(len(chosen))]
    picked = []
    for own in labels.rows_by_class():
        size = min(len(own), -(-most // len(labels.classes)))
        picked.append(rng.choice(own, size=size, replace=False))
    chosen = np.sort(np.concatenate(picked))
    return chosen, [np.searchsorted(chosen, part) for part in picked]


def _centres(
    rows: Rows, sample: np.ndarray, n: int, rng: np.random.Generator, progress: Progress
) -> np.ndarray:
    """Return the centres of K-means of some rows, in float64."""
    kmeans = KMeans(n, max_iter=50, compute_labels=False, random_state=rng)
    with warnings.catch_warnings(), progress.lend_to(kmeans, "start"):
        # A start need not have converged, and equal rows share a centre.
        warnings.simplefilter("ignore", ConvergenceWarning)
        kmeans.fit(rows.home.put(sample))
    return to_host(kmeans.cluster_centers_).astype(np.float64)


def _reach(kernel: Kernel, sample: np.ndarray) -> float:
    """Return how far a basis vector may move in one step: the spread of the rows, or the kernel's width."""
    spread = float(np.sqrt(np.square(sample - sample.mean(axis=0)).sum(axis=1).mean(dtype=float)))
    width = (2 * kernel.gamma) ** -0.5 if isinstance(kernel, Gaussian) else np.inf
    return min(spread or 1.0, width)
