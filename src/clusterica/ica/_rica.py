"""Reconstruction ICA: ``min_W E |WᵀW x - x|² + λ E g(W x)``, a sparse code ``W x`` that tells x."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.callback import CallbackSupportMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from clusterica.arrays import (
    Rows,
    as_generator,
    check_model_device,
    check_output_rows,
    check_rows,
    to_host,
    worker_pool,
)
from clusterica.arrays._namespace import Array
from clusterica.arrays._sklearn import Interval, StrOptions, fit_context
from clusterica.ica._reconstruction import Reconstruction, Supervision, minimize
from clusterica.ops.contrast import check_contrast
from clusterica.ops.linalg import combine, project, unit_rows
from clusterica.ops.moments import Moments, merge
from clusterica.ops.penalty import PENALTIES, PenaltyFunction, make_penalty
from clusterica.optim import fit_progress
from clusterica.preprocessing._map import apply_map
from clusterica.preprocessing._moments import moments_about_mean

# Adam: shares of the old averages, the first step as a share of the length of a basis vector, and the
# number of steps after which its square has halved.
_DECAY, _DECAY_OF_SQUARES = 0.9, 0.999
_STEP, _STEPS_TO_SLOW = 0.03, 100


class Averages(NamedTuple):
    """State of the mini-batch steps: how many, running means of the gradient and of its square."""

    n_steps: int
    gradient: np.ndarray
    square: np.ndarray


class BaseRICA(
    CallbackSupportMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    BaseEstimator,
    ABC,
):
    """What reconstruction ICA with and without labels share."""

    _parameter_constraints: ClassVar[dict] = {
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "sparsity": [Interval(Real, 0, None, closed="left")],
        "penalty": [StrOptions(set(PENALTIES)), callable],
        "pooling": "no_validation",
        "unit_norm": ["boolean"],
        "init": ["array-like", None],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state", np.random.Generator],
    }
    n_components: int | None
    sparsity: float
    penalty: Any
    pooling: Any
    unit_norm: bool
    init: Any
    max_iter: int
    tol: float
    random_state: Any

    @abstractmethod
    def _penalty(self, n_components: int) -> PenaltyFunction:
        """Return the penalty of codes."""

    def _n_components(self, rows: Rows, y: Any) -> int:
        """Return the number of components."""
        return rows.n_features if self.n_components is None else self.n_components

    def _supervision(self, rows: Rows, y: Any, mean: np.ndarray, K: int) -> Supervision | None:
        """Return the part of the objective with labels, if there is one."""
        return None

    def _fit(self, X: Any, y: Any) -> None:
        rows = check_rows(self, X, reset=True, min_rows=2)
        K = self._n_components(rows, y)
        penalty, W = self._penalty(K), self._start(rows, K)
        with worker_pool():
            progress = fit_progress(self, self.max_iter, X=X, y=y)
            total = Moments(*(to_host(part) for part in moments_about_mean(rows)))
            problem = self._problem(rows, total, penalty)
            supervision = self._supervision(rows, y, problem.mean, K)
            problem = replace(problem, supervision=supervision)
            found = minimize(problem, W, max_iter=self.max_iter, tol=self.tol, progress=progress)
        progress.end()
        self._set(rows, found.result.params, problem.mean)
        self.n_iter_ = found.result.n_iter
        self.objective_history_ = np.array(found.result.history)
        self.term_histories_ = found.terms
        self.reconstruction_error_ = float(found.terms["reconstruction"][-1])
        if not (found.result.converged or found.result.stopped):
            warnings.warn(
                f"the objective still fell after max_iter={self.max_iter} steps; raise max_iter, or tol",
                ConvergenceWarning,
                stacklevel=4,
            )

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
        check_is_fitted(self, "components_")
        rows = check_rows(self, X, reset=False)
        check_model_device(self, rows, self.components_)
        return apply_map(project, rows, self.components_, self.mean_)

    def inverse_transform(self, S: Any) -> Array:
        r"""Return the rows whose codes are nearest to these: ``S @ pinv(components_).T + mean_``.

        For codes of rows it is the rows themselves where there are as many components as features, or more.
        It is not ``Wᵀ s``, which the objective has: that agrees where :math:`W^\top W = I`, and for
        overcomplete unit vectors is too long by the number of components to a feature.

        Parameters
        ----------
        S : as returned by transform, (n_samples, n_components)
            Codes.

        Returns
        -------
        X : array of shape (n_samples, n_features)
        """
        check_is_fitted(self, "components_")
        rows = check_output_rows(self, S, self.components_.shape[0])
        check_model_device(self, rows, self.components_)
        back = np.linalg.pinv(to_host(self.components_).astype(np.float64))
        return apply_map(combine, rows, back, self.mean_)

    def _problem(self, rows: Rows, total: Moments, penalty: PenaltyFunction) -> Reconstruction:
        covariance = total.second / total.n
        return Reconstruction(
            rows, total.first, covariance, penalty, float(self.sparsity), self.unit_norm
        )

    def _start(self, rows: Rows, K: int) -> np.ndarray:
        """Return the basis to begin with, in float64 on the host."""
        if self.init is None:
            W = unit_rows(as_generator(self.random_state).normal(size=(K, rows.n_features)))
            # So that W x has the size of x, about.
            return W if self.unit_norm else W * min(1.0, np.sqrt(rows.n_features / K))
        W = np.array(to_host(self.init), dtype=np.float64)
        if W.shape != (K, rows.n_features):
            raise ValueError(
                f"init has shape {W.shape}; it must be (n_components, n_features) = {(K, rows.n_features)}"
            )
        if not np.isfinite(W).all() or not (W != 0).any(axis=1).all():
            raise ValueError("init must be finite, and no row of it may be all zeros")
        return unit_rows(W) if self.unit_norm else W

    def _set(self, rows: Rows, W: np.ndarray, mean: np.ndarray) -> None:
        self.components_, self.mean_ = (rows.export(a.astype(rows.dtype)) for a in (W, mean))
        self._n_features_out = len(W)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class RICA(BaseRICA):
    r"""Sparse codes :math:`s = W x` that tell the data, as many as asked for.

    Independent component analysis with a reconstruction cost [1]_ in place of orthogonal filters:

    .. math::
        \min_W \; \mathrm{E} \|W^\top W x - x\|^2 + \lambda\, \mathrm{E}\, g(W x), \qquad
        g(s) = \sum_j \sigma_j G(s_j) .

    It learns more filters than features (overcomplete), and works on data that is not white.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of components, K; None is the number of features.
    sparsity : float, default=0.1
        The :math:`\lambda`; 0 leaves the reconstruction alone.
    penalty : {"logcosh", "l1", "exp", "sqrt"} or contrast, default="logcosh"
        The G: :math:`\log\cosh s`; :math:`\sqrt{s^2 + w^2}` with w = 0.01 ("l1") or 1e-4 ("sqrt", that of
        MATLAB); :math:`-\exp(-s^2/2)`; or an object such as ``LogCosh(scale=2)`` or one of your own, see
        :func:`~clusterica.ica.check_contrast`. Not used with pooling, which has its own.
    pooling : {"1d", "2d"}, array-like of shape (n_components,), pooling object or None, default=None
        L2 pooling, :math:`g(s) = \sum_j \sigma_j \sqrt{\epsilon + H_j s^2}`, which brings codes that belong
        together near each other. H takes means over three neighbours on a ring, over 3 x 3 on a grid as
        square as it can be with its edges joined, or over given groups; or it is a
        :class:`~clusterica.ica.TorusPooling` of your own.
    signs : array-like of shape (n_components,) or None, default=None
        The :math:`\sigma_j`: 1 for a component with heavy tails (sparse), -1 for one with light tails. None
        is 1 for all.
    unit_norm : bool, default=True
        Keep every row of W at length one, as [1]_ does. The reconstruction then asks of overcomplete
        filters that they point evenly in all directions. False leaves their lengths free: penalties that are
        flat near zero lose their grip as filters become shorter.
    init : array-like of shape (n_components, n_features) or None, default=None
        Where to begin; None is at random.
    max_iter : int, default=200
        Most steps of L-BFGS.
    tol : float, default=1e-6
        Convergence: the relative change of the objective, and of the squared length of W, in a step.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the start, the same on every device.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        The filters W.
    mean_ : array of shape (n_features,)
        Mean of the data, taken from every row.
    reconstruction_error_ : float
        Mean of :math:`\|W^\top W x - x\|^2` over the data.
    objective_history_ : ndarray of shape (n_iter_ + 1,)
        The objective at the start and after every step.
    term_histories_ : dict of ndarray of shape (n_iter_ + 1,)
        Its terms, "reconstruction" and "penalty" (weighted), which add up to it.
    n_iter_ : int
        Number of steps.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, where X has them.

    See Also
    --------
    clusterica.ica.DiscriminativeRICA : With a part of the basis for every class.
    clusterica.ica.KernelRICA : In the feature space of a kernel.
    clusterica.ica.ClusterICA : As many components as features, and faster.

    Notes
    -----
    The reconstruction depends on the data by its covariance alone, so that a step costs two matrix
    products with the data, for the penalty, and not five. Data is read block by block wherever it lives.

    MATLAB's ``rica`` weighs the reconstruction, by Lambda, and not the penalty: ``sparsity = 1 / Lambda``.
    The user guide has a table of its options.

    References
    ----------
    .. [1] Q. V. Le, A. Karpenko, J. Ngiam and A. Y. Ng, "ICA with reconstruction cost for efficient
       overcomplete feature learning", 2011.

    Examples
    --------
    >>> from clusterica.datasets import make_sparse_sources
    >>> from clusterica.ica import RICA
    >>> from clusterica.metrics import amari_distance
    >>> X, S, A = make_sparse_sources(20_000, 5, mixing="orthogonal", random_state=0)
    >>> rica = RICA(sparsity=0.5, random_state=0).fit(X)
    >>> bool(amari_distance(rica.components_, A) < 0.03)
    True
    >>> RICA(20, random_state=0).fit_transform(X).shape
    (20000, 20)
    """

    _parameter_constraints: ClassVar[dict] = {
        **BaseRICA._parameter_constraints,
        "signs": ["array-like", None],
    }

    def __init__(
        self,
        n_components: int | None = None,
        *,
        sparsity: float = 0.1,
        penalty: Any = "logcosh",
        pooling: Any = None,
        signs: Any = None,
        unit_norm: bool = True,
        init: Any = None,
        max_iter: int = 200,
        tol: float = 1e-6,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.sparsity = sparsity
        self.penalty = penalty
        self.pooling = pooling
        self.signs = signs
        self.unit_norm = unit_norm
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the filters.

        Parameters
        ----------
        X : array-like, tensor, Dask array or iterable of blocks, (n_samples, n_features)
            The data.
        y : ignored

        Returns
        -------
        self
        """
        self.__dict__.pop("_averages", None)
        self._fit(X, y)
        return self

    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Take one step on a batch of rows, by its gradient and those of the batches before (Adam).

        Steps become shorter as their number grows. The mean is that of all rows seen.

        Parameters
        ----------
        X : as in fit, (n_samples, n_features)
            The batch; some hundred rows at least, for a good gradient.
        y : ignored

        Returns
        -------
        self
        """
        first = not hasattr(self, "_averages")
        rows = check_rows(self, X, reset=first, min_rows=2)
        K = self._n_components(rows, y)
        with worker_pool():
            batch = Moments(*(to_host(part) for part in moments_about_mean(rows)))
            if first:
                W, self._seen = self._start(rows, K), batch
                self._averages = Averages(0, np.zeros_like(W), np.zeros_like(W))
            else:
                check_model_device(self, rows, self.components_)
                W = to_host(self.components_).astype(np.float64)
                self._seen = merge(self._seen, batch)
            gap = batch.first - self._seen.first
            about = batch._replace(
                first=self._seen.first, second=batch.second + batch.n * np.outer(gap, gap)
            )
            problem = self._problem(rows, about, self._penalty(K))
            here = problem.evaluate(W)
        self._set(rows, problem.retract(W, self._step(here.gradient)), about.first)
        self.n_iter_ = self._averages.n_steps
        self.reconstruction_error_ = here.extra["reconstruction"]
        return self

    def _step(self, gradient: np.ndarray) -> np.ndarray:
        """Return the next step of Adam, and keep its averages."""
        n = self._averages.n_steps + 1
        g = _DECAY * self._averages.gradient + (1 - _DECAY) * gradient
        v = _DECAY_OF_SQUARES * self._averages.square + (1 - _DECAY_OF_SQUARES) * gradient**2
        self._averages = Averages(n, g, v)
        mean, spread = g / (1 - _DECAY**n), np.sqrt(v / (1 - _DECAY_OF_SQUARES**n))
        length = _STEP / np.sqrt(gradient.shape[1] * (1 + n / _STEPS_TO_SLOW))
        return -length * mean / (spread + np.finfo(float).tiny)

    def _penalty(self, n_components: int) -> PenaltyFunction:
        if not isinstance(self.penalty, str):
            check_contrast(self.penalty)
        signs = None
        if self.signs is not None:
            signs = np.asarray(to_host(self.signs), dtype=np.float64)
            if signs.shape != (n_components,) or not np.isin(signs, (-1, 1)).all():
                raise ValueError(
                    f"signs must be {n_components} numbers, 1 or -1, one for every component; got an array "
                    f"of shape {signs.shape} with values {np.unique(signs)[:5]}"
                )
        return make_penalty(self.penalty, self.pooling, n_codes=n_components, signs=signs)
