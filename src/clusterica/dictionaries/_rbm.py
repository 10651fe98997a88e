"""Sparse restricted Boltzmann machine with Gaussian inputs: ``log P(x)`` by contrastive divergence."""

from __future__ import annotations

from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.callback import CallbackSupportMixin

from clusterica.arrays import (
    Array,
    Estimator,
    FloatOutputMixin,
    Interval,
    Rows,
    StrOptions,
    as_generator,
    check_fitted_rows,
    check_rows,
    check_scale,
    fit_context,
    map_reduce,
    shuffled_batches,
    to_host,
    warn_user,
)
from clusterica.dictionaries._units import far_from_zero
from clusterica.ops.autoencoder import HostArray, activations
from clusterica.ops.kernels import MUCH_DEAD
from clusterica.ops.rbm import DivergenceSums, divergence_sums
from clusterica.optim import LoopState, Step, fit_progress, iterate, stored_draws
from clusterica.preprocessing.whitening import apply_map, moments_about_mean


class _Machine(NamedTuple):
    """Weights, their last moves, and the mean activity of units in the last pass."""

    W: HostArray
    b: HostArray
    a: HostArray
    moves: tuple[HostArray, HostArray, HostArray]
    activity: HostArray
    n_passes: int = 0


class SparseRBM(
    CallbackSupportMixin,
    FloatOutputMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    Estimator,
):
    r"""Restricted Boltzmann machine with Gaussian inputs and binary hidden units that are seldom on.

    The units h and the row x have

    .. math::
        P(h_j = 1 \mid x) = \operatorname{sigmoid}\big((w_j^\top x + b_j) / \sigma^2\big), \qquad
        x \mid h \sim N(W^\top h + a,\; \sigma^2 I) .

    The likelihood of the rows is raised by contrastive divergence with one step of sampling, and
    :math:`-\beta \sum_j (\rho - \operatorname{mean} h_j)^2` by its gradient in :math:`b` [1]_.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of units; there may be more than features. None is the number of features.
    target : float, default=0.02
        The mean activity :math:`\rho`.
    sparsity : float, default=10.0
        The :math:`\beta`.
    sigma : float or "auto", default="auto"
        The :math:`\sigma`; "auto" is 0.4 of the root of the mean variance of features.
    learning_rate : float, default=0.05
        Length of steps, in units of the mean gradient of a batch, for features of unit variance.
    weight_decay : float, default=2e-4
        Share of the weights that a step of length 1 takes off.
    batch_size : int, default=100
        Rows of a batch.
    max_iter : int, default=30
        Number of passes over the rows.
    random_state : int, RandomState, Generator or None, default=None
        Seed of all random draws, the same on every device.

    Attributes
    ----------
    components_ : array of shape (n_components_, n_features)
        The filters W.
    intercept_ : array of shape (n_components_,)
        The b.
    mean_ : array of shape (n_features,)
        The a.
    sigma_ : float
        The :math:`\sigma` in use.
    activity_ : ndarray of shape (n_components_,)
        Mean activity of every unit in the last pass.
    error_history_ : ndarray of shape (n_iter_,)
        Mean of :math:`\|x - \tilde x\|^2` in every pass, with the reconstruction :math:`\tilde x` from
        sampled units. It need not fall to the end: it is not the objective.
    n_iter_ : int
        Number of passes.
    n_dead_ : int
        Number of units with less than a hundredth of the target activity, or with weights that the weight
        decay makes zero.
    n_components_ : int
        Number of units.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has column names.

    Warns
    -----
    UserWarning
        If more than 5 % of the units are dead, with a weight decay that keeps them alive if that is why.

    See Also
    --------
    SparseAutoencoder : Deterministic, with an objective that can be minimised.

    References
    ----------
    .. [1] H. Lee, C. Ekanadham and A. Y. Ng, "Sparse deep belief net model for visual area V2", 2008.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from clusterica.dictionaries import SparseRBM
    >>> X = load_digits().data / 16
    >>> rbm = SparseRBM(25, target=0.1, max_iter=5, random_state=0).fit(X)
    >>> rbm.transform(X).shape
    (1797, 25)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "target": [Interval(Real, 0, 1, closed="neither")],
        "sparsity": [Interval(Real, 0, None, closed="left")],
        "sigma": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "weight_decay": [Interval(Real, 0, None, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state", np.random.Generator],
    }

    def __init__(
        self,
        n_components: int | None = None,
        *,
        target: float = 0.02,
        sparsity: float = 10.0,
        sigma: float | str = "auto",
        learning_rate: float = 0.05,
        weight_decay: float = 2e-4,
        batch_size: int = 100,
        max_iter: int = 30,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.target = target
        self.sparsity = sparsity
        self.sigma = sigma
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the weights.

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
        check_scale(rows)
        rng = as_generator(self.random_state)
        K, d = self.n_components or rows.n_features, rows.n_features
        # The mean is where a begins; the mean variance sets the scale of sigma, of the weights and of the
        # sparsity.
        total = moments_about_mean(rows)
        covariance = np.asarray(to_host(total.second), dtype=np.float64) / rows.n_rows
        variance = float(np.trace(covariance)) / d
        if not 0 < variance < np.inf:
            raise ValueError(
                f"the mean variance of features is {variance:g}, so that there is nothing to learn; give "
                "rows that vary, and scale very large ones down"
            )
        # With 0.7 filters of white patches were noise, with 0.4 edges.
        self.sigma_ = 0.4 * variance**0.5 if self.sigma == "auto" else float(self.sigma)
        # Small weights that break the symmetry; units begin at their target.
        W = 0.01 * variance**0.5 * rng.normal(size=(K, d))
        b = np.full(K, self.sigma_**2 * np.log(self.target / (1 - self.target)))
        a = np.asarray(to_host(total.first), dtype=np.float64)
        start = _Machine(W, b, a, (0 * W, 0 * b, 0 * a), np.zeros(K))
        progress = fit_progress(self, self.max_iter, X=X, y=y)
        result = iterate(
            partial(self._pass, rows, rng, variance),
            LoopState(0, start),
            max_iter=self.max_iter,
            tol=-1.0,  # noise of batches moves the weights for ever: the number of passes is what ends it
            progress=progress,
            fitted=lambda machine: self._learned(rows, machine),
            stored=stored_draws(rng),
        )
        progress.end()
        self.__dict__.update(self._learned(rows, result.params))
        self.activity_ = result.params.activity
        self.error_history_, self.n_iter_ = np.array(result.history), result.n_iter
        self._warn_of_dead(result.params.W, np.asarray(to_host(total.first)), covariance)
        return self

    def transform(self, X: Any) -> Array:
        """Return the probability of each hidden unit to be on.

        Parameters
        ----------
        X : as in fit, (n_samples, n_features)
            The data.

        Returns
        -------
        H : array of shape (n_samples, n_components_)
            In (0, 1), in the library and on the device of X.
        """
        rows = check_fitted_rows(self, X, "components_")
        # The op has no sigma: weights are divided by its square instead.
        scaled = (to_host(p) / self.sigma_**2 for p in (self.components_, self.intercept_))
        return apply_map(activations, rows, *scaled)

    def _pass(self, rows: Rows, rng: np.random.Generator, variance: float, old: _Machine) -> Step:
        """Return the machine after one pass over the rows, batch by batch."""
        # Half while directions still change, then the usual 0.9 (Hinton 2010).
        momentum = 0.5 if old.n_passes < 5 else 0.9
        fn = partial(divergence_sums, sigma=self.sigma_)
        new, error, activity = old, 0.0, np.zeros_like(old.b)
        for _, batch in shuffled_batches(rows, self.batch_size, rng):
            # Drawn on the host, so that all devices see the same numbers.
            draws = rng.random((batch.n_rows, len(old.b)), dtype=np.float32).astype(rows.dtype)
            placed = (p.astype(batch.dtype) for p in (new.W, new.b, new.a))
            total = map_reduce(fn, batch, *placed, aligned=(draws,))
            sums = DivergenceSums(*(np.asarray(to_host(v), dtype=np.float64) for v in total))
            n = batch.n_rows
            # The sparsity moves b alone, as in the paper. b is in the units of σ², the square of those of W
            # and a: times the variance, steps of all three have the same effect whatever the units of rows.
            missing = self.target - sums.activity / n
            ascent = (
                sums.W / n - self.weight_decay * new.W,
                variance * (sums.b / n + self.sparsity * missing),
                sums.a / n,
            )
            # A share of the last move goes on: it averages out the noise of batches.
            moves = tuple(
                momentum * last + self.learning_rate * direction
                for last, direction in zip(new.moves, ascent, strict=True)
            )
            W, b, a = (p + move for p, move in zip(new[:3], moves, strict=True))
            new = new._replace(W=W, b=b, a=a, moves=moves)
            error, activity = error + float(sums.error), activity + sums.activity
        error /= rows.n_rows
        # Weights that diverge oscillate and grow; a machine without units has the variance as its error.
        if not error <= 100 * variance * rows.n_features:
            raise ValueError(
                f"the weights diverge: the mean squared error is {error:.3g}, and that without units is "
                f"about {variance * rows.n_features:.3g}; lower learning_rate={self.learning_rate:g}"
            )
        new = new._replace(activity=activity / rows.n_rows, n_passes=old.n_passes + 1)
        # An infinite change: the loop ends after max_iter passes, and not before.
        return Step(new, error, np.inf)

    def _warn_of_dead(self, W: HostArray, mean: HostArray, covariance: HostArray) -> None:
        """Count the units that are hardly ever on or as often for all rows, and say what may help if many."""
        # Near weights of zero the activity changes by so much with the log-odds times σ², and weights grow
        # only along directions where the decay is below slope times the variance.
        slope = self.target * (1 - self.target) / self.sigma_**2
        most = slope * float(np.linalg.eigvalsh(covariance)[-1])
        # Log-odds of units that learned something vary by several.
        scaled = W / self.sigma_**2  # first, so that no product overflows
        spread = np.sqrt(((scaled @ covariance) * scaled).sum(axis=1))
        still = (spread < 0.1) & (self.weight_decay >= most)
        never = self.activity_ < 0.01 * self.target
        self.n_dead_ = int((never | still).sum())
        if self.n_dead_ <= MUCH_DEAD * len(W):
            return
        if still.any():
            text = (
                "have the same activity for all rows: "
                f"weight_decay={self.weight_decay:g} makes their weights zero"
            )
            advice = (
                f"use one well below {most:.3g}, such as {0.01 * most:.1g}, or a smaller sigma (it is "
                f"{self.sigma_:.3g})"
            )
        else:
            text = f"are active for less than a hundredth of target={self.target:g} of the rows"
            # A step of the sparsity changes the activity by this share of what is missing.
            pull = self.learning_rate * self.sparsity * float(covariance.diagonal().mean()) * slope
            advice = far_from_zero(mean, covariance) or (
                f"lower learning_rate, {'lower' if pull > 1 else 'raise'} sparsity (it is "
                f"{self.sparsity:g}), or use fewer n_components"
            )
        warn_user(f"{self.n_dead_} of {len(W)} units {text}; {advice}")

    def _learned(self, rows: Rows, machine: _Machine) -> dict[str, Any]:
        """Return the attributes that transform needs."""
        names = ("components_", "intercept_", "mean_")
        n = len(machine.b)
        learned = dict(zip(names, map(rows.learned, machine[:3]), strict=True))
        return {**learned, "n_components_": n, "_n_features_out": n}
