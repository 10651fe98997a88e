"""Sparse auto-encoder: ``min mean ½ |Uᵀ h + a - x|² + λ/2 (|W|² + |U|²) + β sum_j KL(ρ, mean h_j)``."""

from __future__ import annotations

from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.callback import CallbackSupportMixin

from clusterica.arrays import (
    Array,
    Estimator,
    FloatOutputMixin,
    Interval,
    Rows,
    as_generator,
    check_fitted_rows,
    check_rows,
    check_scale,
    fit_context,
    map_reduce,
    to_host,
    warn_user,
)
from clusterica.dictionaries._units import far_from_zero
from clusterica.ops.autoencoder import (
    AutoencoderSums,
    HostArray,
    Weights,
    activations,
    autoencoder_sums,
    objective,
)
from clusterica.ops.kernels import MUCH_DEAD
from clusterica.ops.linalg import combine
from clusterica.optim import LBFGS, Evaluation, LoopState, fit_progress, iterate
from clusterica.preprocessing.whitening import apply_map, moments_about_mean


class SparseAutoencoder(
    CallbackSupportMixin,
    FloatOutputMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    Estimator,
):
    r"""Sparse auto-encoder: a hidden layer whose units are seldom active and reconstruct the rows.

    With the activations :math:`h = \operatorname{sigmoid}(W x + b)` of the hidden units, minimises

    .. math::
        \frac1m \sum_i \tfrac12 \|U^\top h_i + a - x_i\|^2 + \frac{\lambda}{2} (\|W\|^2 + \|U\|^2)
        + \beta \sum_j \mathrm{KL}\big(\rho \,\|\, \tfrac1m \textstyle\sum_i h_{ij}\big)

    over W, b, U and a: weight decay, and a penalty on units whose mean activation is not :math:`\rho`
    [1]_, [2]_.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of units; there may be more than features. None is the number of features.
    target : float, default=0.02
        The mean activation :math:`\rho`.
    sparsity : float, default=20.0
        The :math:`\beta`.
    weight_decay : float, default=0.01
        The :math:`\lambda`. Too large a value makes all weights zero.
    tied : bool, default=True
        Whether U is W; the weight decay then counts once.
    max_iter : int, default=400
        Maximum number of iterations of L-BFGS.
    tol : float, default=1e-5
        Convergence: the relative change of the objective, and of the squared length of the weights, in a
        step.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the start, the same on every device.

    Attributes
    ----------
    components_ : array of shape (n_components_, n_features)
        The filters W.
    intercept_ : array of shape (n_components_,)
        The b.
    decoder_ : array of shape (n_components_, n_features)
        The U.
    decoder_intercept_ : array of shape (n_features,)
        The a.
    activity_ : ndarray of shape (n_components_,)
        Mean activation of every unit.
    reconstruction_error_ : float
        Mean of :math:`\tfrac12 \|U^\top h + a - x\|^2`.
    objective_history_ : ndarray of shape (n_iter_ + 1,)
        The objective at the start and after every step.
    n_iter_ : int
        Number of steps.
    n_dead_ : int
        Number of units whose activation is the same for all rows.
    n_components_ : int
        Number of units.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has column names.

    Warns
    -----
    UserWarning
        If the weight decay makes all units dead, with a value that does not; if more than 5 % of them are.
    ConvergenceWarning
        If the objective was still falling after max_iter steps.

    See Also
    --------
    SparseRBM : A probabilistic model, learned from mini-batches.
    clusterica.rica.RICA : Linear codes that reconstruct the rows.

    Notes
    -----
    Rows should have about unit variance, such as whitened patches. On 8 x 8 patches of photographs the
    filters become edges with the defaults; free weights, ``tied=False``, need a smaller weight decay and more
    steps. The penalty depends on the mean over all rows, but its gradient is a factor for every unit times
    sums over rows, so that one pass gives objective and gradient.

    References
    ----------
    .. [1] A. Coates, H. Lee and A. Y. Ng, "An analysis of single-layer networks in unsupervised feature
       learning", 2011.
    .. [2] H. Lee, C. Ekanadham and A. Y. Ng, "Sparse deep belief net model for visual area V2", 2008.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from clusterica.dictionaries import SparseAutoencoder
    >>> X = load_digits().data / 16
    >>> model = SparseAutoencoder(25, target=0.1, tol=1e-3, random_state=0).fit(X)
    >>> model.transform(X).shape
    (1797, 25)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "target": [Interval(Real, 0, 1, closed="neither")],
        "sparsity": [Interval(Real, 0, None, closed="left")],
        "weight_decay": [Interval(Real, 0, None, closed="left")],
        "tied": ["boolean"],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state", np.random.Generator],
    }

    def __init__(
        self,
        n_components: int | None = None,
        *,
        target: float = 0.02,
        sparsity: float = 20.0,
        weight_decay: float = 0.01,
        tied: bool = True,
        max_iter: int = 400,
        tol: float = 1e-5,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.target = target
        self.sparsity = sparsity
        self.weight_decay = weight_decay
        self.tied = tied
        self.max_iter = max_iter
        self.tol = tol
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
        # The usual range for units of a sigmoid (Glorot & Bengio 2010); units begin at their target.
        reach = np.sqrt(6 / (K + d + 1))
        W, U = (rng.uniform(-reach, reach, size=(K, d)) for _ in range(2))
        b = np.full(K, np.log(self.target / (1 - self.target)))
        start = self._packed(Weights(W, b, U, np.zeros(d)))
        solver = LBFGS(evaluate=partial(self._evaluate, rows, K))
        progress = fit_progress(self, self.max_iter, X=X, y=y)
        position = solver.start(start)
        result = iterate(
            solver.step,
            LoopState(0, position, (position.evaluation.objective,)),
            max_iter=self.max_iter,
            tol=self.tol,
            progress=progress,
            fitted=lambda at: self._learned(rows, self._unpacked(at.params, K)),
        )
        progress.end()
        # The sums of the last evaluation belong to the final weights: no further pass is needed.
        sums: AutoencoderSums = result.params.evaluation.extra
        self.__dict__.update(self._learned(rows, self._unpacked(result.params.params, K)))
        self.objective_history_, self.n_iter_ = np.array(result.history), result.n_iter
        self.activity_ = sums.activity / rows.n_rows
        self.reconstruction_error_ = float(sums.error) / rows.n_rows
        result.warn_if_unfinished(self)
        self._warn_of_dead(rows, sums)
        return self

    def transform(self, X: Any) -> Array:
        """Return the activations of the hidden units.

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
        return apply_map(activations, rows, self.components_, self.intercept_)

    def inverse_transform(self, H: Any) -> Array:
        """Return the rows reconstructed from activations, ``Uᵀ h + a``.

        Parameters
        ----------
        H : as returned by transform, (n_samples, n_components_)
            Activations.

        Returns
        -------
        X : array of shape (n_samples, n_features)
        """
        rows = check_fitted_rows(self, H, "components_", is_output=True)
        return apply_map(combine, rows, to_host(self.decoder_).T, self.decoder_intercept_)

    def _evaluate(self, rows: Rows, n_units: int, params: HostArray) -> Evaluation:
        """Return the objective and its gradient, from one walk over the rows."""
        weights = self._unpacked(params, n_units)
        total = map_reduce(autoencoder_sums, rows, *(w.astype(rows.dtype) for w in weights))
        sums = AutoencoderSums(*(np.asarray(to_host(v), dtype=np.float64) for v in total))
        value, gradients = objective(
            sums,
            weights,
            rows.n_rows,
            # Of W and U, which are the same where they are tied.
            weight_decay=float(self.weight_decay) / (2 if self.tied else 1),
            sparsity=float(self.sparsity),
            target=float(self.target),
        )
        # The gradient by shared weights is the sum of both parts.
        if self.tied:
            gradients = gradients._replace(W=gradients.W + gradients.U)
        return Evaluation(value, self._packed(gradients), sums)

    def _packed(self, weights: Weights) -> HostArray:
        """Return all weights as one vector; U is left out where it is W."""
        # L-BFGS moves one vector.
        parts = [w for name, w in weights._asdict().items() if not (self.tied and name == "U")]
        return np.concatenate([np.ravel(w) for w in parts])

    def _unpacked(self, params: HostArray, K: int) -> Weights:
        """Return the weights in a vector."""
        d = self.n_features_in_
        shapes = [(K, d), (K,), (K, d), (d,)]
        if self.tied:
            shapes.pop(2)
        cuts = np.cumsum([np.prod(shape) for shape in shapes])[:-1]
        parts = [p.reshape(s) for p, s in zip(np.split(params, cuts), shapes, strict=True)]
        if self.tied:
            parts.insert(2, parts[0])
        return Weights(*parts)

    def _learned(self, rows: Rows, weights: Weights) -> dict[str, Any]:
        """Return the attributes that transform and its inverse need."""
        names = ("components_", "intercept_", "decoder_", "decoder_intercept_")
        n = len(weights.b)
        learned = dict(zip(names, map(rows.learned, weights), strict=True))
        return {**learned, "n_components_": n, "_n_features_out": n}

    def _warn_of_dead(self, rows: Rows, sums: AutoencoderSums) -> None:
        """Count the units whose activation is constant, and warn if they are many."""
        variance = sums.squares / rows.n_rows - self.activity_**2
        K = len(variance)
        # A unit whose activity varies by less than a thousandth, over the rows, says nothing about them.
        self.n_dead_ = int((variance < 1e-6).sum())
        if self.n_dead_ <= MUCH_DEAD * K:
            return
        text = f"{self.n_dead_} of {K} units have the same activity for all rows"
        # Weights of zero are a minimum where the decay is above ρ (1 - ρ) times the largest eigenvalue of the
        # covariance: from the second derivative of the objective there, with units at their target.
        # One more pass over the rows, which only a warning costs.
        moments = moments_about_mean(rows)
        covariance = np.asarray(to_host(moments.second)) / rows.n_rows
        most = self.target * (1 - self.target) * float(np.linalg.eigvalsh(covariance)[-1])
        most *= 2 if self.tied else 1
        if self.weight_decay >= most > 0:
            text += (
                f": weight_decay={self.weight_decay:g} makes their weights zero; use one well below "
                f"{most:.3g}, such as {0.01 * most:.1g}"
            )
        else:
            advice = far_from_zero(np.asarray(to_host(moments.first)), covariance) or (
                "use fewer n_components, a smaller weight_decay or sparsity, or rows that vary"
            )
            text += f"; {advice}"
        warn_user(text)
