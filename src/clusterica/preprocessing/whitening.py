"""Whitening: ``y = T (x - mean)`` so that the covariance of y is the identity.

Other packages use :func:`moments_about_mean`, the one pass over the rows that it takes, and
:func:`apply_map`, a linear map of all rows.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from clusterica.arrays import (
    Array,
    Estimator,
    FloatOutputMixin,
    Interval,
    Rows,
    StrOptions,
    check_fitted_rows,
    check_model_device,
    check_rows,
    check_scale,
    fit_context,
    map_reduce,
    namespace_of,
    to_host,
    transform_rows,
    warn_user,
)
from clusterica.ops.linalg import combine, project
from clusterica.ops.moments import (
    Moments,
    about_mean,
    merge,
    moments,
    spectrum,
    whiten_by_cholesky,
    whiten_by_spectrum,
)


class Whitener(FloatOutputMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, Estimator):
    r"""Remove the correlations between features and give all directions unit variance.

    Learns a matrix :math:`T` with :math:`T (\Sigma + \epsilon I) T^\top = I`, where :math:`\Sigma` is
    the covariance of the data, from one pass over it. All methods are equally valid for what follows,
    since they differ by a rotation [2]_; zca keeps whitened image patches most like the patches.

    Parameters
    ----------
    method : {"zca", "pca", "cholesky"}, default="zca"
        Which of the whitening matrices: :math:`V (E + \epsilon)^{-1/2} V^\top`,
        :math:`(E + \epsilon)^{-1/2} V^\top` with components in the order of falling variance, or the
        inverse of the Cholesky factor of :math:`\Sigma + \epsilon I`.
    eps : float or str, default=0.01
        Added to every eigenvalue, to keep noise from being amplified. For contrast-normalised image
        patches, 0.1 is a good start for 8 x 8 pixels and smaller, and 0.01 for 16 x 16 [1]_. A
        percentage such as ``"1%"`` is that share of the mean eigenvalue, which fits data of any scale.
    n_components : int or None, default=None
        How many directions of largest variance to keep. None keeps all; with ``eps=0`` pca keeps as many
        as the rank of the data. zca returns as many columns as there are features in any case. The
        components of cholesky have no order of variance but that of the features: the first n_components
        whiten the first n_components features, and no other feature counts.

    Attributes
    ----------
    whitening_ : array of shape (n_components_, n_features)
        The matrix T.
    dewhitening_ : array of shape (n_features, n_components_)
        Its inverse; the pseudo-inverse where directions were left out.
    eigenvalues_ : array of shape (n_features,)
        Eigenvalues of the covariance (divided by n - 1), in decreasing order.
    mean_ : array of shape (n_features,)
        Mean of the data.
    covariance_ : array of shape (n_features, n_features)
        Covariance of the data.
    eps_ : float
        The constant in use.
    rank_ : int
        Numerical rank of the covariance.
    n_components_ : int
        Number of columns of the whitened data.
    n_samples_seen_ : int
        Number of rows seen by fit, or by all calls of partial_fit.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has column names.

    Notes
    -----
    Directions in which the data has no variance are mapped to zero if ``eps`` is 0, or so small that
    the rounding errors of the eigenvalues exceed it, and come back as the mean.

    The eigenvalues of a d x d matrix take about 32 d^2 bytes. If that is over a quarter of the memory of
    this machine, half of that of a GPU, or the budget that is set by :func:`clusterica.config_context`, fit
    refuses at once: it is better then to split the features into groups that depend on each other and to
    whiten each [1]_.

    References
    ----------
    .. [1] A. Coates and A. Y. Ng, "Learning feature representations with K-means", 2012.
    .. [2] A. Vinnikov and S. Shalev-Shwartz, "K-means recovers ICA filters when independent components
       are sparse", 2014.

    Examples
    --------
    >>> import numpy as np
    >>> from clusterica.preprocessing import Whitener
    >>> X = np.random.default_rng(0).normal(size=(1000, 2)) @ np.array([[2.0, 1.0], [0.0, 0.5]])
    >>> whitener = Whitener(eps=0.0).fit(X)
    >>> Y = whitener.transform(X)
    >>> np.allclose(np.cov(Y.T), np.eye(2)) and np.allclose(whitener.inverse_transform(Y), X)
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "method": [StrOptions({"zca", "pca", "cholesky"})],
        "eps": [Interval(Real, 0, None, closed="left"), str],
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
    }

    def __init__(
        self, method: str = "zca", *, eps: float | str = 0.01, n_components: int | None = None
    ) -> None:
        self.method = method
        self.eps = eps
        self.n_components = n_components

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the whitening matrix.

        Parameters
        ----------
        X : array-like, tensor, Dask array or iterable of blocks, (n_samples, n_features)
            The data, at least two rows.
        y : ignored

        Returns
        -------
        self
        """
        rows = check_rows(self, X, reset=True, min_rows=2)
        check_scale(rows)
        self._check_settings(rows)
        total = moments_about_mean(rows)
        self._moments = Moments(*(to_host(m) for m in total))  # where partial_fit goes on
        self._learn(rows, total)
        self._warn_of_scale()
        return self

    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn from one more batch of rows; the result is that of fit on all batches together.

        Cholesky whitening with ``eps=0`` is there only once more rows than features were seen.

        Parameters
        ----------
        X : as in fit, (n_samples, n_features)
            The batch.
        y : ignored

        Returns
        -------
        self
        """
        first = not hasattr(self, "_moments")
        rows = check_rows(self, X, reset=first, min_rows=2 if first else 1)
        check_scale(rows)
        self._check_settings(rows)
        total = moments_about_mean(rows)
        if not first:
            if hasattr(self, "mean_"):
                check_model_device(self, rows.home, self.mean_)
            # Exact, and not an average over batches: the order of the rows does not matter.
            total = merge(Moments(*(rows.place.put(m) for m in self._moments)), total)
        # The factor exists once the covariance has full rank, which takes more rows than features.
        needs_rank = self.method == "cholesky" and float(str(self.eps).rstrip("%")) == 0
        if not (needs_rank and int(total.n) <= rows.n_features):
            self._learn(rows, total)
            if first:  # once, and not at every batch
                self._warn_of_scale()
        # Last, so that a batch that raises an error is not counted.
        self._moments = Moments(*(to_host(m) for m in total))
        return self

    def transform(self, X: Any) -> Array:
        """Whiten the rows.

        Parameters
        ----------
        X : as in fit, (n_samples, n_features)
            The data.

        Returns
        -------
        Y : array of shape (n_samples, n_components_)
            In the library and on the device of X.
        """
        return self.whiten_rows(check_fitted_rows(self, X, "whitening_"))

    def whiten_rows(self, rows: Rows) -> Array:
        """Whiten rows that are checked already, as other estimators have them."""
        return apply_map(project, rows, self.whitening_, self.mean_)

    def inverse_transform(self, Y: Any) -> Array:
        """Undo the whitening.

        Parameters
        ----------
        Y : as returned by transform, (n_samples, n_components_)
            Whitened rows, or directions in the white space, such as centroids.

        Returns
        -------
        X : array of shape (n_samples, n_features)
        """
        rows = check_fitted_rows(self, Y, "dewhitening_", is_output=True)
        return apply_map(combine, rows, self.dewhitening_, self.mean_)

    def _check_settings(self, rows: Rows) -> None:
        d = rows.n_features
        # Four matrices of this size in float64: the covariance, its eigenvectors, and work for them.
        needed, budget = 32 * d * d, rows.place.fit_memory
        if needed > budget:
            raise ValueError(
                f"whitening {d} features takes about {needed / 2**20:.0f} MiB, over the "
                f"{budget / 2**20:.0f} MiB that it may take; split the features into groups and whiten each, "
                "or raise that with clusterica.config_context(memory=...)"
            )
        if self.n_components is not None and self.n_components > d:
            raise ValueError(
                f"n_components={self.n_components} must be at most n_features={d}; lower it, or use None for "
                "all components"
            )
        if isinstance(self.eps, str):
            percentage(self.eps)  # a wrong text is an error before the pass over the rows

    def _warn_of_scale(self) -> None:
        """Warn if eps is so much larger than all eigenvalues that little variance is left."""
        largest = float(to_host(self.eigenvalues_)[0])
        # From a factor of 10 on no direction keeps a tenth of the unit variance. Patches of photographs are
        # far from that: of 6 x 6 pixels between 0 and 1 the largest eigenvalue is 3.3, and 3.7 after
        # normalisation of contrast.
        if isinstance(self.eps, str) or self.rank_ == 0 or self.eps_ < 10 * largest:
            return
        warn_user(
            f"eps={self.eps_:.3g} is much larger than the eigenvalues of the covariance, which are at most "
            f"{largest:.3g}: the whitened data has a variance of {largest / (largest + self.eps_):.2g} or "
            f"less in every direction. Use a share of them, such as eps='1%', or a number below {largest:.2g}"
        )

    def _learn(self, rows: Rows, total: Moments) -> None:
        """Set the fitted attributes from moments about the mean (their `first` is the mean)."""
        covariance = total.second / (total.n - 1)  # without bias, as numpy.cov
        # Rows are rounded to their dtype, mean included: a feature that depends on others exactly still seems
        # to have this much variance of its own.
        xp = namespace_of(covariance)
        largest = float(xp.max(xp.linalg.diagonal(covariance) + total.first**2))
        noise = 4 * covariance.shape[0] ** 0.5 * float(np.finfo(rows.dtype).eps) ** 2 * largest
        s = spectrum(covariance, noise=noise)
        # A percentage refers to the mean variance, which does not change if the features are rotated.
        mean_eigenvalue = float(xp.mean(s.values))
        eps = self.eps if not isinstance(self.eps, str) else percentage(self.eps) * mean_eigenvalue
        d, eps = rows.n_features, float(eps)
        if self.method == "cholesky":
            if eps <= s.rounding and s.rank < d:
                raise ValueError(
                    f"the covariance has rank {s.rank} of {d}, so that method='cholesky' needs "
                    f"eps > {s.rounding:.2g}, the rounding error of its eigenvalues, and eps={eps:.2g}; "
                    "raise eps, for instance to '1%', or use 'zca' or 'pca', which leave directions "
                    "without variance out"
                )
            matrices = whiten_by_cholesky(covariance, eps=eps, n_components=self.n_components)
        else:
            # zca rotates back to the features, and so has all of them, with or without variance. pca leaves
            # directions without variance out, unless eps gives them some.
            rotate_back = self.method == "zca"
            n = self.n_components or (d if rotate_back or eps > 0 else max(1, s.rank))
            matrices = whiten_by_spectrum(s, eps=eps, n_components=n, rotate_back=rotate_back)
        self.whitening_ = rows.learned(matrices.whitening)
        self.dewhitening_ = rows.learned(matrices.dewhitening)
        self.eigenvalues_, self.mean_ = rows.learned(s.values), rows.learned(total.first)
        self.covariance_ = rows.learned(covariance)
        self.eps_, self.rank_ = eps, s.rank
        self.n_components_ = self._n_features_out = matrices.whitening.shape[0]
        self.n_samples_seen_ = int(total.n)


def moments_about_mean(rows: Rows) -> Moments:
    """Return n, the mean, and the sums of products about it, in float64."""
    # Sums about a point near the mean keep their digits, and a few rows are enough to find one.
    about = rows.glance(100).mean(axis=0, dtype=np.float64)
    total = map_reduce(moments, rows, about)
    with np.errstate(over="ignore", invalid="ignore"):  # callers look at the result
        return about_mean(total, rows.place.put(about))


def apply_map(fn: Callable[..., Array], rows: Rows, matrix: Array, mean: Array) -> Array:
    """Return ``fn(block, matrix, mean)`` of all rows, in the library and on the device of the data."""
    # In the dtype of the rows: what was learned from float64 rows must not make float32 ones float64.
    params = [np.asarray(to_host(a), dtype=rows.dtype) for a in (matrix, mean)]
    return transform_rows(fn, rows, *params)


def percentage(text: str) -> float:
    """Return ``"1%"`` as 0.01."""
    try:
        share = float(text.removesuffix("%")) / 100
    except ValueError:
        share = -1.0
    if not text.endswith("%") or not 0 <= share < np.inf:
        raise ValueError(f"eps={text!r} must be a number, or a percentage such as '1%'")
    return share
