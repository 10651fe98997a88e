"""Von Mises-Fisher mixtures: maximise ``Σ_i log Σ_j π_j c_d(κ_j) exp(κ_j μ_jᵀ x_i)`` by EM."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import DensityMixin
from sklearn.callback import CallbackSupportMixin
from sklearn.exceptions import ConvergenceWarning

from clusterica.arrays import (
    Array,
    Estimator,
    Interval,
    Rows,
    StrOptions,
    as_generator,
    check_fitted_rows,
    check_rows,
    check_scale,
    check_score,
    check_weights,
    fit_context,
    map_reduce,
    map_rows,
    to_host,
    warn_user,
)
from clusterica.cluster._init import METHODS, count_starts, initial_centers
from clusterica.cluster._lloyd import Lloyd
from clusterica.ops.rules import DIRECTION
from clusterica.ops.von_mises_fisher import (
    Mixture,
    MixtureSums,
    best_components,
    concentration,
    log_densities,
    memberships,
    mixture_sums,
    offsets,
    renew,
)
from clusterica.optim import LoopResult, LoopState, Progress, Step, best_of, fit_progress, iterate


class VonMisesFisherMixture(CallbackSupportMixin, DensityMixin, Estimator):
    r"""Mixture of von Mises-Fisher distributions [1]_: soft clusters of directions, for text and embeddings.

    Rows count by their direction only. On the unit sphere of d dimensions a component has the density

    .. math::
        f_j(x) = c_d(\kappa_j)\, e^{\kappa_j \mu_j^\top x}, \qquad
        c_d(\kappa) = \frac{\kappa^{d/2-1}}{(2\pi)^{d/2} I_{d/2-1}(\kappa)},

    with a mean direction :math:`\mu_j` and a concentration :math:`\kappa_j`, which is 0 for the uniform
    distribution. EM maximises the likelihood of :math:`\sum_j \pi_j f_j(x)`. With one large
    concentration for all it is spherical K-means. The constant is computed by its logarithm, in thousands
    of dimensions as well.

    Parameters
    ----------
    n_components : int, default=8
        Number of components.
    concentration : {"free", "tied"}, default="free"
        Whether every component has its own concentration, or all share one, which needs fewer rows and keeps
        a component from shrinking to a few of them.
    init : {"k-means++", "gaussian", "orthonormal", "orthogonal", "rows"}, array or callable, \
            default="k-means++"
        Start of ten iterations of spherical K-means, whose clusters are the first components; see
        :class:`~clusterica.cluster.SphericalKMeans`. An array has the shape (n_components, n_features).
    n_init : int, default=1
        Number of starts (one if the centres are given), of which the one with the largest likelihood is kept.
    max_iter : int, default=100
        Maximum number of EM iterations of a start.
    tol : float, default=1e-4
        A start ends when an iteration changes neither the mean log-likelihood (relative to its size) nor the
        mean directions (in squared length, weighted) by more than this.
    random_state : int, RandomState, Generator or None, default=None
        Seed of all random draws, the same on every device.

    Attributes
    ----------
    means_ : array of shape (n_components, n_features)
        Unit vectors, in the library and on the device of the data.
    concentrations_ : array of shape (n_components,)
        The :math:`\kappa_j`.
    weights_ : array of shape (n_components,)
        The :math:`\pi_j`, which sum to one.
    log_likelihood_ : float
        Mean log-likelihood of the rows.
    objective_history_ : ndarray of shape (n_iter_ + 1,)
        Mean log-likelihood before every iteration, and at the end. It never falls.
    n_iter_ : int
        Iterations of the start that was kept.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has column names.

    Warns
    -----
    ConvergenceWarning
        If max_iter was reached; if a component ended with less than one row, or with the largest
        concentration allowed, since all its rows have one direction.

    See Also
    --------
    SphericalKMeans : Hard clusters, faster.
    sklearn.mixture.GaussianMixture : Where lengths count.

    Notes
    -----
    A row of zeros has no direction. It counts for nothing in fit and score, its memberships are ``weights_``,
    and its log-density is reported as 0.

    The concentration solves :math:`I_{d/2}(\kappa) / I_{d/2-1}(\kappa) = r` by Newton's method, where r is
    the length of the mean of the unit rows of a component. Rows that are all the same have none. So it is at
    most 1e10, or 5e5 for float32 rows, whose cosines are not known better.

    References
    ----------
    .. [1] A. Banerjee, I. S. Dhillon, J. Ghosh and S. Sra, "Clustering on the unit hypersphere using von
       Mises-Fisher distributions", 2005.

    Examples
    --------
    >>> import numpy as np
    >>> from clusterica.cluster import VonMisesFisherMixture
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal([9, 0, 0], 1, (300, 3)), rng.normal([0, 0, 4], 1, (300, 3))])
    >>> mixture = VonMisesFisherMixture(2, random_state=0).fit(X)
    >>> mixture.means_.round(1).tolist() in ([[1, 0, 0], [0, 0, 1]], [[0, 0, 1], [1, 0, 0]])
    True
    >>> mixture.predict_proba([[1.0, 0.0, 0.5]]).shape
    (1, 2)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "concentration": [StrOptions({"free", "tied"})],
        "init": [StrOptions(set(METHODS)), "array-like", callable],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state", np.random.Generator],
    }

    def __init__(
        self,
        n_components: int = 8,
        *,
        concentration: str = "free",
        init: Any = "k-means++",
        n_init: int = 1,
        max_iter: int = 100,
        tol: float = 1e-4,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.concentration = concentration
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn the components.

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
        if rows.n_features < 2:
            raise ValueError(
                f"Found array with {rows.n_features} feature(s) (shape={(rows.n_rows, rows.n_features)}) "
                f"while a minimum of 2 is required by {type(self).__name__}: one feature has no direction "
                "but its sign."
            )
        if rows.n_rows < self.n_components:
            raise ValueError(
                f"n_samples={rows.n_rows} should be >= {self.n_components}, the number of components; lower "
                "n_components or give more rows"
            )
        check_scale(rows, np.float64)  # lengths are float64
        weights = check_weights(sample_weight, rows)
        rng = as_generator(self.random_state)
        n_init = count_starts(self.init, self.n_init)
        progress = fit_progress(self, n_init, X=X, y=y, sample_weight=sample_weight)
        result, final = best_of(
            lambda task: self._run(X, rows, weights, rng, task),
            n_init,
            objective=lambda run: run[1],
            n_subtasks=self.max_iter,
            progress=progress,
        )
        self.__dict__.update(self._learned(rows, result.params))
        self.n_iter_, self.log_likelihood_ = result.n_iter, final
        # An iteration knows the likelihood before it; that of the end is added.
        self.objective_history_ = np.array([*result.history, final])
        progress.end()
        result.warn_if_unfinished(self)
        # Components that hold nothing, or rows of one direction only.
        few = result.params.weights * np.count_nonzero(weights) < 1
        narrow = ~few & (result.params.kappa >= self._largest_concentration(rows))
        if few.any() or narrow.any():
            warn_user(
                f"of {len(few)} components {few.sum()} hold less than one row and {narrow.sum()} hold rows "
                "of one direction only, so that their likelihood has no bound; lower n_components, or use "
                "concentration='tied'",
                ConvergenceWarning,
            )
        return self

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> Array:
        """Learn the components and return the most probable one of every row, as predict does."""
        return self.fit(X, sample_weight=sample_weight).predict(X)

    def predict(self, X: Any) -> Array:
        """Return the index of the most probable component of every row.

        Parameters
        ----------
        X : as in fit, (n_samples, n_features)
            The data.

        Returns
        -------
        labels : integer array of shape (n_samples,)
            In the library and on the device of X.
        """
        rows = check_fitted_rows(self, X, "means_", accept_sparse=True)
        return map_rows(best_components, rows, *self._parameters(rows)[0])

    def predict_proba(self, X: Any) -> Array:
        """Return the probability of every component for every row (soft memberships).

        Parameters
        ----------
        X : as in fit, (n_samples, n_features)
            The data.

        Returns
        -------
        P : array of shape (n_samples, n_components)
            Rows sum to one.
        """
        rows = check_fitted_rows(self, X, "means_", accept_sparse=True)
        prior = np.asarray(to_host(self.weights_), rows.dtype)
        return map_rows(memberships, rows, *self._parameters(rows)[0], prior)

    def score_samples(self, X: Any) -> Array:
        """Return the log-density of the direction of every row, on the unit sphere.

        Parameters
        ----------
        X : as in fit, (n_samples, n_features)
            The data.

        Returns
        -------
        log_density : float64 array of shape (n_samples,)
            0 for a row of zeros.
        """
        rows = check_fitted_rows(self, X, "means_", accept_sparse=True)
        parameters, constant = self._parameters(rows)
        return map_rows(log_densities, rows, *parameters, np.array([constant]))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the mean log-likelihood of the rows; larger is better."""
        rows = check_fitted_rows(self, X, "means_", accept_sparse=True)
        parameters, constant = self._parameters(rows)
        total = map_reduce(
            mixture_sums, rows, *parameters, aligned=(check_weights(sample_weight, rows),)
        )
        return check_score(_mean_log_likelihood(total, constant), rows)

    def bic(self, X: Any) -> float:
        """Return the Bayesian information criterion of X, smaller is better: for choosing n_components.

        It is ``k log n - 2 L``, with L the log-likelihood of the n rows and k the number of free parameters.
        """
        rows = check_fitted_rows(self, X, "means_", accept_sparse=True)
        K, d = (int(n) for n in self.means_.shape)
        # A direction has d - 1 degrees of freedom, and the weights sum to one.
        n_free = K * (d - 1) + (1 if self.concentration == "tied" else K) + K - 1
        return n_free * float(np.log(rows.n_rows)) - 2 * rows.n_rows * self.score(X)

    def _run(
        self,
        X: Any,
        rows: Rows,
        weights: np.ndarray,
        rng: np.random.Generator,
        task: Progress,
    ) -> tuple[LoopResult, float]:
        """Run one start; return the end of its loop, and its mean log-likelihood."""
        # A start need not be exact: 10 iterations of K-means cost less than as many of EM.
        lloyd = Lloyd(rows, weights, DIRECTION, rng, refill=True)
        C = initial_centers(self.init, lloyd, self.n_components, X, max_iter=10, tol=1e-4)
        clusters = lloyd.run(C, max_iter=10, tol=1e-4)
        largest = self._largest_concentration(rows)

        def sums(mixture: Mixture) -> tuple[MixtureSums, float]:
            parameters, constant = _for_walk(mixture, rows)
            total = map_reduce(mixture_sums, rows, *parameters, aligned=(weights,))
            total = MixtureSums(*(np.asarray(to_host(value)) for value in total))
            return total, _mean_log_likelihood(total, constant)

        def step(old: Mixture) -> Step:
            total, objective = sums(old)
            new = renew(total, old, tied=self.concentration == "tied", largest=largest)
            # Weighted: a component of few rows may turn far without changing the mixture.
            moved = new.weights @ ((new.means - old.means) ** 2).sum(axis=1)
            return Step(new, objective, float(moved))

        means, _, counts = (to_host(a).astype(np.float64) for a in clusters.params)
        # One concentration for all at the start: the mean cosine is the mean length of the resultants.
        cosine = 1 - clusters.history[-1] / float(weights.sum(dtype=np.float64))
        kappa = concentration(means.shape[1], np.full(len(means), cosine), largest=largest)
        # A cluster without rows may win some as a component.
        shares = np.maximum(counts, 1e-3 * counts.mean())
        start = Mixture(means, kappa, shares / shares.sum())
        result = iterate(
            step,
            LoopState(0, start),
            max_iter=self.max_iter,
            tol=self.tol,
            progress=task,
            fitted=lambda mixture: self._learned(rows, mixture),
        )
        return result, sums(result.params)[1]

    def _learned(self, rows: Rows, mixture: Mixture) -> dict[str, Any]:
        """Return the attributes of a model with this mixture."""
        means, kappa, weights = map(rows.learned, mixture)
        return {"means_": means, "concentrations_": kappa, "weights_": weights}

    def _parameters(self, rows: Rows) -> tuple[tuple[np.ndarray, ...], float]:
        learned = (self.means_, self.concentrations_, self.weights_)
        return _for_walk(Mixture(*(to_host(a).astype(np.float64) for a in learned)), rows)

    def _largest_concentration(self, rows: Rows) -> float:
        # An error of eps in a cosine then changes a log-density by 1/16 at most.
        return min(1e10, 1 / (16 * float(np.finfo(rows.dtype).eps)))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _for_walk(mixture: Mixture, rows: Rows) -> tuple[tuple[np.ndarray, ...], float]:
    """Return what a block needs to know of a mixture, in the dtype of the rows, and a constant."""
    offset, constant = offsets(mixture)
    needed = (mixture.means, mixture.kappa, offset)
    return tuple(a.astype(rows.dtype) for a in needed), constant


def _mean_log_likelihood(total: MixtureSums, constant: float) -> float:
    if not float(total.weight) > 0:
        raise ValueError("all rows are zeros, which have no direction; give rows that are not")
    return float(total.log_likelihood) / float(total.weight) + constant
