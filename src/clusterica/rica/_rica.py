"""Reconstruction ICA: ``min_W E |WᵀW x - x|² + λ E g(W x)``, sparse codes ``W x`` that reconstruct x."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np

from clusterica.arrays import (
    Interval,
    check_model_device,
    check_rows,
    fit_context,
    to_host,
)
from clusterica.contrasts import make_penalty
from clusterica.ops.moments import merge
from clusterica.ops.penalty import PenaltyFunction
from clusterica.ops.rica import null_directions
from clusterica.optim import adam, no_averages
from clusterica.rica._base_rica import STEPS_OF_FIT, BaseRICA, BatchState, host_moments


class RICA(BaseRICA):
    r"""Reconstruction ICA: sparse codes :math:`s = W x` that reconstruct the data, also overcomplete.

    Independent component analysis with a reconstruction cost [1]_ in place of orthogonal filters:

    .. math::
        \min_W \; \mathrm{E} \|W^\top W x / t - x\|^2 + \lambda\, \mathrm{E}\, g(W x), \qquad
        g(s) = \sum_j \sigma_j G(s_j) .

    It learns more filters than features (overcomplete), and works on data that is not white. t is 1, except
    for more filters of unit length than features; see ``unit_norm``.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of components, K; None is the number of features.
    sparsity : float, default=0.1
        The :math:`\lambda`; 0 leaves the reconstruction alone.
    penalty : {"logcosh", "l1", "exp", "sqrt"} or contrast, default="logcosh"
        The G: :math:`\log\cosh s`; :math:`\sqrt{s^2 + w^2}` with w = 0.01 ("l1") or 1e-4 ("sqrt", that of
        MATLAB); :math:`-\exp(-s^2/2)`; or an object such as ``LogCosh(scale=2)`` or one of your own, see
        :func:`~clusterica.contrasts.check_contrast`. Pooling has its own: an error if both are
        given.
    pooling : {"1d", "2d"}, array-like of shape (n_components,), pooling object or None, default=None
        L2 pooling, :math:`g(s) = \sum_j \sigma_j \sqrt{\epsilon + H_j s^2}`, which brings codes that belong
        together near each other. H takes means over three neighbours on a ring, over 3 x 3 on a grid as
        square as it can be with its edges joined (a ring, where that is one row or all codes), or over given
        groups; or it is a :class:`~clusterica.contrasts.TorusPooling` of your own. Pools never take all
        codes.
    signs : array-like of shape (n_components,) or None, default=None
        The :math:`\sigma_j`: 1 for a component with heavy tails (sparse), -1 for one with light tails. None
        is 1 for all.
    unit_norm : {"tight", True, False}, default="tight"
        Whether every row of W has length one. K unit vectors that point evenly in all of n directions have
        :math:`W^\top W = (K/n) I`. With n the number of directions in which the data varies, "tight"
        reconstructs with t = K / n for K > n, and keeps filters out of all others. True is the same with t =
        1, as [1]_ and MATLAB have it: much of an overcomplete basis then points to where the data varies
        least, where it costs nothing. False is the plain objective, t = 1 and lengths free: of more filters
        than features it needs about as many as features, and lets the others shrink to nothing.
    init : {"gaussian", "k-means"} or array-like of shape (n_components, n_features), default="gaussian"
        Where to begin: at random directions, at those in which the data clusters, or at given ones. Far from
        the end of the descent an overcomplete basis is as varied as its start; at the end many filters are
        copies of others.
    max_iter : int, default=500
        Maximum number of iterations of L-BFGS.
    tol : float, default=1e-7
        Convergence: the relative change of the objective, and of the squared length of W, in a step.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the start, the same on every device.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        The filters W.
    mixing_ : array of shape (n_features, n_components)
        The pseudo-inverse of ``components_``, by which ``inverse_transform`` goes back. Computed when asked
        for.
    mean_ : array of shape (n_features,)
        Mean of the data, taken from every row.
    reconstruction_error_ : float
        Mean of :math:`\|W^\top W x / t - x\|^2` over the data.
    objective_history_ : ndarray of shape (n_iter_ + 1,)
        The objective at the start and after every step.
    term_histories_ : dict of ndarray of shape (n_iter_ + 1,)
        Its terms, "reconstruction" and "penalty" (weighted), which add up to it.
    n_dead_ : int
        Number of filters that are shorter than 0.01 where the data varies, which "tight" ones never are.
    n_iter_ : int
        Number of steps.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has column names.

    Warns
    -----
    UserWarning
        If more than 5 % of the filters are dead; if all are, with weights that are small enough.
    ConvergenceWarning
        If the objective was still falling after max_iter steps.

    See Also
    --------
    clusterica.rica.DiscriminativeRICA : With a part of the basis for every class.
    clusterica.rica.KernelRICA : In the feature space of a kernel.
    clusterica.ica.ClusterICA : As many components as features, and faster.

    Notes
    -----
    The reconstruction depends on the data by its covariance alone, so that a step costs two matrix
    products with the data, for the penalty, and not five. Data is read block by block.

    MATLAB's ``rica`` weighs the reconstruction, by Lambda, and not the penalty: ``sparsity = 1 / Lambda``.
    The documentation has a table of its options.

    References
    ----------
    .. [1] Q. V. Le, A. Karpenko, J. Ngiam and A. Y. Ng, "ICA with reconstruction cost for efficient
       overcomplete feature learning", 2011.

    Examples
    --------
    >>> from clusterica.datasets import make_sparse_sources
    >>> from clusterica.rica import RICA
    >>> from clusterica.metrics import amari_distance
    >>> X, S, A = make_sparse_sources(20_000, 5, mixing="orthogonal", random_state=0)
    >>> rica = RICA(sparsity=0.5, random_state=0).fit(X)
    >>> bool(amari_distance(rica.components_, A) < 0.03)
    True
    >>> RICA(20, random_state=0).fit_transform(X).shape
    (20000, 20)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseRICA._parameter_constraints,
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
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
        unit_norm: bool | str = "tight",
        init: Any = "gaussian",
        max_iter: int = 500,
        tol: float = 1e-7,
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
        rows = check_rows(self, X, reset=True, min_rows=2)
        K = self.n_components or rows.n_features
        seen = self._fit(X, y, rows, K, self._penalty(K))
        self.__dict__.pop("_averages", None)  # the next partial_fit begins with its own gradients
        self._seen = seen
        return self

    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Update the filters with one batch of rows, by a step of Adam.

        The first batch chooses the start, as fit does; after fit it goes on from there. Steps become shorter
        as their number grows. Mean and reconstruction error, which is that before the step, are those of
        all rows seen; only the penalty is that of the batch.

        Parameters
        ----------
        X : as in fit, (n_samples, n_features)
            The batch; some hundred rows at least, for a good gradient.
        y : ignored

        Returns
        -------
        self
        """
        # The state, and not a fitted attribute: a failed first batch leaves none behind.
        first = not hasattr(self, "_seen")
        rows = check_rows(self, X, reset=first, min_rows=2)
        if not first:
            check_model_device(self, rows.home, self.components_)
        K = (self.n_components or rows.n_features) if first else self.components_.shape[0]
        penalty = self._penalty(K)
        batch = host_moments(rows)
        W = self._start(rows, K, batch.first) if first else to_host(self.components_)
        # Small steps would be lost in float32.
        W = W.astype(np.float64)
        # Adam keeps running means of the gradient and of its square; after a fit they start from zero.
        averages = getattr(self, "_averages", None) or no_averages(W)
        if first:
            seen = BatchState(batch, null_directions(batch, rows.dtype), 1)
        else:
            moments, n_steps = merge(self._seen.moments, batch), self._seen.n_steps + 1
            # Eigenvectors cost more than a small batch does, and change seldom: only after 1, 2, 4, 8, ...
            # steps since the fit.
            since = n_steps % STEPS_OF_FIT
            is_due = not since & (since - 1)
            null = null_directions(moments, rows.dtype) if is_due else self._seen.null
            seen = BatchState(moments, null, n_steps)
        # Of all rows seen: their covariance is known better than that of the batch.
        problem = self._problem(rows, seen.moments, penalty, seen.null)
        # On the sphere, and out of directions that no row has shown so far.
        position = problem.start(W)
        here = problem.evaluate(position)
        averages, step = adam(averages, to_host(here.gradient))
        # Entries of a step of Adam are about one: the first move is 0.6 of the length of a unit vector, and
        # the square of a move has halved after 100 steps.
        length = 0.6 / np.sqrt(rows.n_features * (1 + seen.n_steps / 100))
        position = problem.retract(position, rows.place.put(length * step))
        self.__dict__.update(self._learned(rows, position, seen.moments.first))
        self._averages, self._seen = averages, seen
        self.n_iter_ = getattr(self, "n_iter_", 0) + 1
        self.reconstruction_error_ = here.extra["reconstruction"]
        # Those of an earlier fit do not describe the filters any more.
        for stale in ("objective_history_", "term_histories_", "n_dead_"):
            self.__dict__.pop(stale, None)
        return self

    def _penalty(self, n_components: int) -> PenaltyFunction:
        """Return g of ``n_components`` codes, with the signs of the components."""
        signs = None
        if self.signs is not None:
            signs = np.asarray(to_host(self.signs))
            if signs.shape != (n_components,) or not np.isin(signs, (-1, 1)).all():
                raise ValueError(
                    f"signs must be {n_components} numbers, 1 or -1, one for every component; got an array "
                    f"of shape {signs.shape} with values {np.unique(signs)[:5]}"
                )
            # They multiply sums in float64.
            signs = signs.astype(np.float64)
        return make_penalty(self.penalty, self.pooling, n_codes=n_components, signs=signs)
