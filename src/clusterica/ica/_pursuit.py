"""Kurtosis pursuit: the unit vector b for which ``E (b·y)⁴ - 3`` over white rows y is least, or largest."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import (
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    clone,
)
from sklearn.callback import CallbackSupportMixin
from sklearn.exceptions import ConvergenceWarning

from clusterica.arrays import (
    Array,
    Estimator,
    FloatOutputMixin,
    Interval,
    StrOptions,
    as_generator,
    check_fitted_rows,
    check_not_transposed,
    check_rows,
    fit_context,
    map_reduce,
    to_host,
    warn_user,
)
from clusterica.contrasts import Contrast, Exponential, LogCosh, Quartic, check_contrast
from clusterica.ica._search import DirectionSearch, FoundDirection, PursuitSpace, pursuit_space
from clusterica.ica._whitening import fit_whitener, warn_of_few_rows
from clusterica.ops.linalg import project
from clusterica.ops.moments import response_moments
from clusterica.ops.pursuit import OrientedContrast, column_fourths, orient
from clusterica.optim import Progress, fit_progress
from clusterica.preprocessing import Whitener
from clusterica.preprocessing.whitening import apply_map

_CONTRASTS: dict[str, Contrast] = {
    "kurtosis": Quartic(),
    "logcosh": LogCosh(),
    "exp": Exponential(),
    # Reported squared, as the approximation of the negentropy by one contrast is.
    "negentropy": Exponential(),
}
# The sides that a start is sent to: 1 down to the least excess, -1 up to the largest.
_SIDES = {"min": (1.0,), "max": (-1.0,), "abs": (1.0, -1.0)}


class KurtosisPursuit(
    CallbackSupportMixin,
    FloatOutputMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    Estimator,
):
    r"""Directions in which data is least Gaussian; the one of least kurtosis shows clusters.

    A projection on a line along which there are two clusters is flat or has two peaks: its kurtosis is
    negative. So the direction :math:`a` of least excess kurtosis (2.1) of [1]_,

    .. math::
        \kappa(a) = \frac{E (a^\top (x - \mu))^4}{(E (a^\top (x - \mu))^2)^2} - 3 ,

    is one to look at for clusters (sub-ICA). Followed by a
    :class:`~clusterica.cluster.DensityClusterer` it clusters data of many dimensions.

    Parameters
    ----------
    n_components : int, default=1
        Number of directions. Each is the best of those whose projections are uncorrelated with the ones
        before it (deflation).
    objective : {"min", "max", "abs"}, default="min"
        Which kind of direction, whatever the contrast: the most sub-Gaussian (clusters), the most
        super-Gaussian (sparse sources, outliers), or the one farthest from Gaussian on either side. Bugrien
        & Kent call them sub-, super- and standard ICA.
    contrast : {"kurtosis", "logcosh", "exp", "negentropy"} or callable, default="kurtosis"
        What measures it, for projections p of unit variance. Each is oriented to be negative for
        sub-Gaussian p:

        - "kurtosis": :math:`E p^4 - 3`. A single row some standard deviations away can turn the direction;
          the other contrasts withstand several. Rows far away spoil the whitening, and so every contrast.
        - "logcosh": :math:`E \log\cosh \nu - E \log\cosh p`, with :math:`\nu` normal.
        - "exp": :math:`E e^{-p^2/2} - E e^{-\nu^2/2}`, the least sensitive to outliers.
        - "negentropy": the square of the last one, scaled to approximate the negentropy in nats, with the
          sign of the difference. It has the directions of "exp".
        - a function of your own, ``y -> (G(y), G'(y), G''(y))`` for every element: :math:`E G(p) - E G(\nu)`,
          with the sign for which a uniform variable has a negative value. Its derivatives are checked by
          :func:`~clusterica.contrasts.check_contrast`.
    n_init : int, default=20
        Number of random starts for each direction. All are followed at the same time, so that a pass over
        the data serves all of them; with "abs" both ways.
    max_iter : int, default=200
        Maximum number of passes over the data for each direction.
    tol : float, default=1e-6
        A start ends when its next step would turn the direction by at most this angle, in radians.
    whitener : Whitener or None, default=None
        Where to look: a copy is fitted, and directions are combinations of its columns. None is
        ``Whitener("pca", eps=0.0)``, all directions in which the data varies; with its n_components those
        of largest variance only. Whatever its eps, projections have unit variance.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the starts, the same on every device.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        The directions, in the order they were found, so that ``(X - mean_) @ components_.T`` has unit
        variance (divided by n - 1). The entry of largest size is positive.
    mixing_ : array of shape (n_features, n_components)
        What a unit of every projection adds to the features: their covariance with it, which is the column
        of A where the projection is a source of ``x = A s``. Not the pseudo-inverse of ``components_``,
        which depends on the directions that were not looked for.
    mean_ : array of shape (n_features,)
        Mean of the data.
    kurtosis_ : array of shape (n_components,)
        Excess kurtosis of every projection, whatever the contrast.
    objective_ : ndarray of shape (n_components,)
        Oriented contrast of every projection.
    start_objectives_ : ndarray of shape (n_components, n_init)
        Where every start ended. Few that reach the best one are a sign that n_init should be larger.
    whitener_ : Whitener
        The fitted whitener.
    n_iter_ : int
        Passes over the data, of the direction that took most.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has column names.

    Warns
    -----
    UserWarning
        If no direction of the kind that was asked for stands out from the sampling noise of Gaussian rows:
        the projection need not show anything then. If a few rows make up the variance of a feature, as with
        Cauchy data. If the rows are no more than the dimensions.

    See Also
    --------
    clusterica.cluster.DensityClusterer : Clusters the projection.
    clusterica.ica.ClusterICA : All sparse sources at once.

    Notes
    -----
    [1]_ minimises :math:`\Phi(b) = E (b^\top y)^4 / |b|^4 - 3 + (|b|^2 - 1)^2` (3.3) over all vectors b, for
    white rows y. Its first terms do not change when b is scaled, and the penalty is least, zero, at
    :math:`|b| = 1`. So the minimum over a ray is on the unit sphere, where :math:`\Phi` is the kurtosis, and
    minimising over the sphere gives the same b and the same value.

    If :math:`y = A s` with independent sources, :math:`\kappa(b) = \sum_i \gamma_i^4 \kappa_i` with
    :math:`\gamma = A^\top b` (2.2), and the minimum is the source of least kurtosis provided that this is
    negative (Lemma 3). The largest :math:`|\kappa|` is :math:`|\kappa_1|` (Lemma 2, where [1]_ prints
    :math:`\kappa_1`).

    The least kurtosis over all directions of n Gaussian rows in d dimensions is never zero: it is about
    :math:`1.8 \sqrt d` standard errors :math:`\sqrt{24 / n}` below. What is not beyond
    :math:`1.8 \sqrt d + 1` of them (on the scale of :math:`1 / (\kappa + 3)`, which is less skewed) is put
    down to noise; so for every contrast, with its own standard error. With less than some twenty rows for a
    dimension the rule is rough.

    References
    ----------
    .. [1] J. B. Bugrien and J. T. Kent, "Independent component analysis: an approach to clustering", 2005.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from clusterica.ica import KurtosisPursuit
    >>> X, y = load_iris(return_X_y=True)
    >>> pursuit = KurtosisPursuit(random_state=0).fit(X)
    >>> pursuit.kurtosis_.round(3)
    array([-1.448])
    >>> p = pursuit.transform(X)[:, 0]
    >>> bool(p[y == 0].min() > p[y != 0].max() or p[y == 0].max() < p[y != 0].min())  # setosa apart
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "objective": [StrOptions(set(_SIDES))],
        "contrast": [StrOptions(set(_CONTRASTS)), callable],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "whitener": [Whitener, None],
        "random_state": ["random_state", np.random.Generator],
    }

    def __init__(
        self,
        n_components: int = 1,
        *,
        objective: str = "min",
        contrast: str | Contrast = "kurtosis",
        n_init: int = 20,
        max_iter: int = 200,
        tol: float = 1e-6,
        whitener: Whitener | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.objective = objective
        self.contrast = contrast
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.whitener = whitener
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the directions.

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
        check_not_transposed(self, rows)
        # Named contrasts are known to be right; the derivatives of a custom one are checked.
        if isinstance(self.contrast, str):
            squared = self.contrast == "negentropy"
            contrast = orient(_CONTRASTS[self.contrast], squared=squared)
        else:
            check_contrast(self.contrast)
            contrast = orient(self.contrast)
        rng = as_generator(self.random_state)
        default = Whitener("pca", eps=0.0)
        whitener = default if self.whitener is None else clone(self.whitener)
        self.whitener_ = fit_whitener(whitener, X)
        white = pursuit_space(rows, self.whitener_)
        if self.n_components > white.n_dims:
            raise ValueError(
                f"n_components={self.n_components} is more than the {white.n_dims} dimensions in which "
                "the data varies (a constant column has none, one that depends on others adds none); use "
                "at most that many, and data that is not constant"
            )
        # The excess kurtosis of every feature, -3 for a constant one.
        variances = np.diag(to_host(self.whitener_.covariance_))
        scale = np.sqrt(np.where(variances > 0, variances, np.inf)).astype(rows.dtype)
        (fourths,) = map_reduce(column_fourths, rows, self.whitener_.mean_, scale)
        warn_of_few_rows(to_host(fourths) / rows.n_rows - 3, rows.n_rows, "feature")
        progress = fit_progress(self, self.n_components, X=X, y=y)
        found: list[FoundDirection] = []
        for _ in range(self.n_components):
            task = progress.subtask("component", self.max_iter)
            found.append(self._find(white, contrast, found, rng, task))
            if task.end():
                break  # a callback asked to stop: the directions so far are kept
        self._set_fitted(white, contrast, found)
        progress.end()
        self._warn_of_chance(white, contrast, found)
        return self

    def transform(self, X: Any) -> Array:
        """Project the rows on the directions.

        Parameters
        ----------
        X : as in fit, (n_samples, n_features)
            The data.

        Returns
        -------
        P : array of shape (n_samples, n_components)
            In the library and on the device of X; of unit variance on the data of fit.
        """
        rows = check_fitted_rows(self, X, "components_")
        return apply_map(project, rows, self.components_, self.mean_)

    def _find(
        self,
        white: PursuitSpace,
        contrast: OrientedContrast,
        found: list[FoundDirection],
        rng: np.random.Generator,
        task: Progress,
    ) -> FoundDirection:
        """Return the best direction among those orthogonal, in the white space, to the ones found."""
        # Orthogonal directions of the white space have uncorrelated projections.
        before = np.array([f.direction for f in found]).reshape(-1, white.n_dims)
        result = DirectionSearch(white, contrast, _SIDES[self.objective], before).run(
            self.n_init,
            rng,
            max_iter=self.max_iter,
            tol=self.tol,
            progress=task,
            fitted=lambda direction: _learned(white, [*before, direction]),
        )
        if not result.converged:
            warn_user(
                f"KurtosisPursuit did not converge: the best of {self.n_init} starts was still moving after "
                f"{self.max_iter} iterations; raise max_iter or tol",
                ConvergenceWarning,
            )
        return result

    def _set_fitted(
        self, white: PursuitSpace, contrast: OrientedContrast, found: list[FoundDirection]
    ) -> None:
        """Set the fitted attributes."""
        for name, value in _learned(white, [f.direction for f in found]).items():
            setattr(self, name, value)
        rows = white.rows
        covariance, F = (
            to_host(a).astype(np.float64) for a in (self.whitener_.covariance_, self.components_)
        )
        # Where a projection is a source, its covariance with the features is a column of A.
        self.mixing_ = rows.learned(covariance @ F.T)
        total = map_reduce(response_moments, rows, self.components_, self.mean_)
        second, fourth = (to_host(m) / rows.n_rows for m in total)
        self.kurtosis_ = rows.learned(fourth / second**2 - 3)
        self.objective_ = contrast.reported(np.array([f.excess for f in found]))
        self.start_objectives_ = contrast.reported(np.array([f.start_excesses for f in found]))
        self.n_iter_ = max(f.n_iter for f in found)

    def _warn_of_chance(
        self, white: PursuitSpace, contrast: OrientedContrast, found: list[FoundDirection]
    ) -> None:
        """Warn of the first direction that Gaussian rows may have as well."""
        n, d = white.rows.n_rows, white.n_dims
        # As many points as this can be cut into any two groups by a plane.
        if n <= d + 1:
            warn_user(
                f"n_samples={n} rows vary in {d} dimensions, so that there is a direction that separates any "
                "two groups of them, and the one found means nothing; give more rows, or look in fewer "
                "dimensions with whitener=Whitener('pca', eps=0.0, n_components=...)"
            )
            return
        for j, f in enumerate(found):
            side = {"min": -1.0, "max": 1.0, "abs": np.sign(f.excess)}[self.objective]
            # Each direction found takes one dimension from the next.
            level = contrast.noise_level(n, d - j, side)
            if side * f.excess > side * level:
                continue
            value, chance = contrast.reported(np.array([f.excess, level]))
            kind, extreme = ("cluster", "least") if side < 0 else ("super-Gaussian", "largest")
            name = "excess kurtosis" if self.contrast == "kurtosis" else "contrast"
            warn_user(
                f"no {kind} direction was found (component {j}): the {extreme} {name} over all directions is "
                f"{value:.3g}, and {n} Gaussian rows in {d - j} dimensions may have {chance:.3g} by chance. "
                "The projection need not show anything; try more rows, fewer dimensions with "
                "whitener=Whitener('pca', eps=0.0, n_components=...), or another objective"
            )
            return


def _learned(white: PursuitSpace, directions: list[np.ndarray]) -> dict[str, Any]:
    """Return the attributes of a model with these directions of the white space."""
    rows = white.rows
    # The search divides moments by n; learned directions have unit variance divided by n - 1.
    F = np.array(directions) @ white.T * np.sqrt((rows.n_rows - 1) / rows.n_rows)
    largest = np.take_along_axis(F, np.abs(F).argmax(axis=1)[:, None], axis=1)
    F = np.where(largest < 0, -F, F)  # a sign that two fits share
    return {
        "components_": rows.learned(F),
        "mean_": rows.learned(white.mean),
        "_n_features_out": len(F),
    }
