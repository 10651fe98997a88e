"""Cluster-ICA: whiten ``y = T x``, cluster y, read filters ``Tᵀ c`` off the centroids c, refine them."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
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
    check_fitted_rows,
    check_not_transposed,
    check_rows,
    fit_context,
    map_reduce,
    one_blas_thread,
    to_host,
    warn_user,
)
from clusterica.contrasts import Contrast, check_contrast
from clusterica.ica._centroids import centroids_of, prepared, white_rows, white_rows_in_float32
from clusterica.ica._likelihood import check_density
from clusterica.ica._refine import WhiteMap, find_start, refine, white_map
from clusterica.ica._whitening import count_sources, fit_source_whitener, warn_of_sources
from clusterica.ica.folding import fold, fold_overcomplete
from clusterica.ops.linalg import combine, project, unit_rows
from clusterica.ops.moments import response_moments, winning_energies
from clusterica.ops.pursuit import orient
from clusterica.optim import Progress, fit_progress
from clusterica.preprocessing import Whitener
from clusterica.preprocessing.whitening import apply_map


class Unmixing(NamedTuple):
    """Filters, shape (n_sources, n_features), and columns of the mixing matrix, (n_features, n_sources)."""

    filters: np.ndarray
    columns: np.ndarray


class ClusterICA(
    CallbackSupportMixin,
    FloatOutputMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    Estimator,
):
    r"""Independent components of data, found by clustering and refined by maximum likelihood.

    If :math:`x = A s` with independent sparse sources s, then white data :math:`y = T x` is a rotation of
    s, and clusters of y lie on both sides of every source's direction (Algorithm 1 of [1]_). The centroids
    c give the filters :math:`T^\top c`, rows of :math:`A^{-1}`, and the columns :math:`T^{-1} c` of A. By
    default they are a start: a distribution is fitted to every source, with heavy or light tails, and the
    likelihood of all is maximised. ``refine=None`` is the method of [1]_.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of sources. None takes as many as the white data has dimensions. Fewer than n_features are
        looked for after reduction to that many principal components; a whitener of your own that is not
        "pca", or has an n_components, is left as it is, and that many pairs of clusters are looked for in all
        of its white space. With more than the features (overcomplete), that many pairs of centroids are
        scattered over the sphere, copies are merged and those with little energy dropped, so that there may
        be fewer in the end: see ``n_components_``. Up to n_features there are never more sources than
        dimensions in which the data varies.
    clusterer : clusterer or None, default=None
        Any clusterer with ``cluster_centers_``, scikit-learn's included. A copy is fitted, with
        twice n_components centroids (see :func:`~clusterica.cluster.with_n_centers`) and, where it has
        none, a seed from random_state. None is
        :class:`~clusterica.cluster.CosineKMeans`, whose orthogonal start avoids poor local optima; the best
        of five starts for overcomplete sources, for which there is no such start.
    whitener : Whitener or None, default=None
        A copy is fitted. None is ``Whitener("pca", eps=0.0)``, which leaves directions without variance out.
        All methods are equally valid; a regularised one is for data with noise, such as image patches.
    refine : {"ml"}, contrast or None, default="ml"
        "ml" starts from the centroids and maximises the likelihood, with a distribution fitted to every
        source [2]_, so that sources with light tails are found too. It needs as many sources as the white
        data has dimensions, all of them with variance; elsewhere (overcomplete sources, a whitener of your
        own with more dimensions than n_components, or one that keeps constant directions) the centroids are
        the result. A contrast G, such as ``LogCosh()`` or an object of your own, is minus the log-density
        of all sources, and an error where the likelihood can't be used; see
        :func:`~clusterica.contrasts.check_contrast`. :math:`e^{-G}` must be a density, which that of a
        bounded G, such as ``Exponential()``, is not. None leaves the centroids as they are.
    cluster_rows : int or None, default=None
        Number of rows, drawn at random, that the clusterer sees. Without refine, None is all rows. With
        refine, for which the clusters are only a start, None is half of the rows, but at least 100 and at
        most 400 for each component (1,000 and 4,000 for fewer than ten components).
    max_iter : int, default=500
        Maximum number of iterations of refine.
    random_state : int, RandomState, Generator or None, default=None
        Seed of all random draws, the same on every device.

    Attributes
    ----------
    components_ : array of shape (n_components_, n_features)
        The filters, scaled so that the sources ``(X - mean_) @ components_.T`` have unit variance (divided
        by n - 1, as in PCA; FastICA divides by n). Sorted by decreasing ``kurtosis_``, sparsest source first;
        the largest entry of every column of ``mixing_`` is positive. Sources of almost the same kurtosis may
        change places from one fit to another: match them to compare fits, as
        :func:`~clusterica.metrics.recovery_distance` does.
    mixing_ : array of shape (n_features, n_components_)
        The columns :math:`T^{-1} c` of A, in the same order and scale. With refine it is the pseudo-inverse
        of ``components_``, and also for orthogonal centroids, as many as the white data has dimensions, and
        a whitener with eps=0; otherwise the two differ by as much as the centroids are from orthogonal, or
        as directions were left out.
    kurtosis_ : array of shape (n_components_,)
        Excess kurtosis of every source: 0 for a Gaussian, 3 for a Laplace and -1.2 for a uniform
        distribution.
    filter_centroids_ : array of shape (n_clusters, n_features)
        :math:`T^\top c` for all centroids.
    mixing_centroids_ : array of shape (n_clusters, n_features)
        :math:`T^{-1} c` for all centroids.
    mean_ : array of shape (n_features,)
        Mean of the data.
    whitening_ : array of shape (n_white, n_features)
        The matrix T of the whitener.
    clusterer_, whitener_ : estimators
        The fitted estimators.
    n_components_ : int
        Number of sources found.
    n_iter_ : int
        Steps of refine, or without it iterations of the clusterer. 0 where the likelihood ended with two
        copies of a source, and a rotation of the white rows is returned in its place.
    objective_history_ : ndarray of shape (n_iter_ + 1,)
        Minus the mean log-likelihood, up to a constant, at the start and after every step; empty without
        refine, and where ``n_iter_`` is 0.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has column names.

    See Also
    --------
    clusterica.cluster.CosineKMeans : The default clusterer.
    clusterica.metrics.check_riss : Whether a clusterer finds sources at all.
    clusterica.ica.KurtosisPursuit : The other way round, a direction that shows clusters.

    Notes
    -----
    Whitened rows are kept in memory where they fit the budget of :func:`clusterica.config_context`;
    otherwise clusterers of this library read them block by block. The steps of refine need no whitened
    rows, only passes over X.

    One source may be Gaussian. Two or more can't be separated by any method: their space is found, but the
    directions in it mean nothing, and the fit warns. Without refine sources must be sparse (excess kurtosis
    well above 0), since clusters do not lie along others.

    References
    ----------
    .. [1] A. Vinnikov and S. Shalev-Shwartz, "K-means recovers ICA filters when independent components
       are sparse", 2014.
    .. [2] D. T. Pham and P. Garat, "Blind separation of mixture of independent sources through a
       quasi-maximum likelihood approach", 1997.

    Examples
    --------
    >>> from clusterica.datasets import make_sparse_sources
    >>> from clusterica.ica import ClusterICA
    >>> from clusterica.metrics import amari_distance
    >>> X, S, A = make_sparse_sources(20_000, 5, mixing="orthogonal", random_state=0)
    >>> ica = ClusterICA(random_state=0).fit(X)
    >>> ica.transform(X).shape
    (20000, 5)
    >>> bool(amari_distance(ica.components_, A) < 0.02)
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "clusterer": [BaseEstimator, None],
        "whitener": [Whitener, None],
        "refine": [StrOptions({"ml"}), callable, None],
        "cluster_rows": [Interval(Integral, 2, None, closed="left"), None],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state", np.random.Generator],
    }

    def __init__(
        self,
        n_components: int | None = None,
        *,
        clusterer: Any = None,
        whitener: Whitener | None = None,
        refine: str | Contrast | None = "ml",
        cluster_rows: int | None = None,
        max_iter: int = 500,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.clusterer = clusterer
        self.whitener = whitener
        self.refine = refine
        self.cluster_rows = cluster_rows
        self.max_iter = max_iter
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the sources.

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
        rng, contrast = as_generator(self.random_state), self._contrast()
        progress = fit_progress(self, 2, X=X, y=y)
        self.whitener_ = fit_source_whitener(self.whitener, X, rows.n_features, self.n_components)
        space = self._space_to_refine()
        Y, C = self._cluster(X, rows, rng, progress, is_start=space is not None)
        if space is None:
            T, back = self._white_space()
            # Clusterers of other libraries may not count iterations.
            self.n_iter_ = getattr(self.clusterer_, "n_iter_", 1)
            self.objective_history_ = np.empty(0)
            found = Unmixing(C @ T, back @ C.T)
        else:
            settings: dict[str, Any] = {"space": space, "contrast": contrast, "rng": rng}
            # Small matrices in every step: threads of BLAS cost more than they gain (CPU time of a fit of 20
            # sources to 20,000 rows on two shared cores: 0.3 of that without the limit).
            with one_blas_thread():
                W = find_start(rows, Y, C, **settings)
                del Y  # its memory is not needed any more
                refined = refine(rows, W, max_iter=self.max_iter, progress=progress, **settings)
            refined.warn_if_unfinished(self, "raise max_iter")
            self.n_iter_, self.objective_history_ = refined.n_iter, np.array(refined.history)
            found = Unmixing(refined.params, np.linalg.pinv(refined.params))
        self._set_components(rows, found, is_refined=space is not None)
        progress.end()
        return self

    def transform(self, X: Any) -> Array:
        """Return the sources of the rows.

        Parameters
        ----------
        X : as in fit, (n_samples, n_features)
            The data.

        Returns
        -------
        S : array of shape (n_samples, n_components_)
            In the library and on the device of X; of unit variance on the data of fit.
        """
        rows = check_fitted_rows(self, X, "components_")
        return apply_map(project, rows, self.components_, self.mean_)

    def inverse_transform(self, S: Any) -> Array:
        """Return the rows that have these sources: ``S @ pinv(components_).T + mean_``.

        Exact where there are as many sources as features; of all rows with these sources the one nearest to
        the mean where there are fewer.

        Parameters
        ----------
        S : as returned by transform, (n_samples, n_components_)
            Sources.

        Returns
        -------
        X : array of shape (n_samples, n_features)
        """
        rows = check_fitted_rows(self, S, "components_", is_output=True)
        back = np.linalg.pinv(to_host(self.components_).astype(np.float64))
        return apply_map(combine, rows, back, self.mean_)

    @property
    def whitening_(self) -> Array:
        """The matrix of the whitener, under the name that it has in scikit-learn's FastICA."""
        check_is_fitted(self, "whitener_")
        return self.whitener_.whitening_

    def _space_to_refine(self) -> WhiteMap | None:
        """Return the white space that refine works in; None where the centroids are the answer."""
        if self.refine is None:
            return None
        n_white, n_lines = (
            self.whitener_.n_components_,
            count_sources(self.whitener_, self.n_components),
        )
        space = white_map(self.whitener_)
        if n_lines == n_white and space is not None:
            return space
        if isinstance(self.refine, str):
            return None
        if n_lines == n_white:
            raise ValueError(
                f"refine={self.refine!r} needs white data without constant directions, and the data varies "
                f"in {self.whitener_.rank_} of {n_white}; use refine=None, or a whitener that leaves them "
                "out, such as Whitener('pca', eps=0.0)"
            )
        remedy = f"n_components={n_white}"
        if n_lines < n_white:
            remedy = f"whitener=Whitener('pca', eps=..., n_components={n_lines})"
        raise ValueError(
            f"refine={self.refine!r} needs as many sources as the white data has dimensions, and "
            f"n_components={n_lines} differs from {n_white}; use refine=None, or {remedy}"
        )

    def _cluster(
        self, X: Any, rows: Rows, rng: np.random.Generator, progress: Progress, *, is_start: bool
    ) -> tuple[Array, np.ndarray]:
        """Return the white rows that were clustered, and directions of sources, (n_sources, n_white)."""
        n_white = self.whitener_.n_components_
        n_lines = count_sources(self.whitener_, self.n_components)
        n_rows = self._count_cluster_rows(rows, n_lines, is_start=is_start)
        if n_rows < 2 * n_lines:
            given, more = ("n_samples", "give more rows")
            if n_rows < rows.n_rows:
                given, more = ("cluster_rows", "give more")
            raise ValueError(
                f"{given}={n_rows} should be >= {2 * n_lines}, twice the number of sources; {more} or a "
                "smaller n_components"
            )
        # Five starts where there is no orthogonal one: one in two may end in a poor optimum.
        n_init = 1 if n_lines <= n_white else 5
        # Sparse sources are found in 5 to 10 iterations. On 50 light-tailed ones 110 took half of the
        # time of a fit, and found nothing.
        settings = {"max_iter": 15} if is_start else {}
        clusterer = prepared(
            self.clusterer, n_centers=2 * n_lines, n_init=n_init, rng=rng, **settings
        )
        in_memory = rows.place.is_numpy and rows.engine is None and rows.indexable
        if is_start and self.cluster_rows is None and in_memory:
            Y = white_rows_in_float32(rows, self.whitener_, n_rows, rng)
        else:
            Y = white_rows(X, rows, self.whitener_, n_rows, clusterer, rng)
        with progress.lend_to(clusterer, "clustering"):
            self.clusterer_ = clusterer.fit(Y)
        centroids, counts = centroids_of(self.clusterer_, n_white)
        T, back = self._white_space()
        self.filter_centroids_ = rows.learned(centroids @ T)
        self.mixing_centroids_ = rows.learned(centroids @ back.T)
        if n_lines > n_white:
            # Energy of the white rows, each along the centroid that it is most alike to.
            F, mean = (unit_rows(centroids) @ T).astype(rows.dtype), to_host(self.whitener_.mean_)
            (energies,) = map_reduce(winning_energies, rows, F, mean)
            return Y, fold_overcomplete(centroids, to_host(energies), n_lines)
        return Y, fold(centroids, counts, n_lines)

    def _count_cluster_rows(self, rows: Rows, n_lines: int, *, is_start: bool) -> int:
        if self.cluster_rows is not None:
            return min(self.cluster_rows, rows.n_rows)
        if not is_start:
            return rows.n_rows
        # A start does not need all rows; the docstring of cluster_rows states this rule.
        n = max(n_lines, 10)
        return min(rows.n_rows, 400 * n, max(rows.n_rows // 2, 100 * n))

    def _white_space(self) -> tuple[np.ndarray, np.ndarray]:
        """Return T and its inverse, in float64 on the host."""
        T, back = self.whitener_.whitening_, self.whitener_.dewhitening_
        return to_host(T).astype(np.float64), to_host(back).astype(np.float64)

    def _contrast(self) -> Contrast | None:
        if self.refine is None or isinstance(self.refine, str):
            return None
        check_contrast(self.refine)
        light_tails = orient(self.refine).sign > 0
        check_density(self.refine)
        if light_tails:
            warn_user(
                f"refine={self.refine!r} is for sources with lighter tails than a Gaussian, and clusters lie "
                "along sparse ones, which have heavier tails; use refine='ml' or LogCosh()"
            )
        return self.refine

    def _set_components(self, rows: Rows, found: Unmixing, *, is_refined: bool) -> None:
        """Scale the sources to unit variance, and set signs and order by the convention."""
        mean = to_host(self.whitener_.mean_)
        B = found.filters.astype(rows.dtype)
        total = map_reduce(response_moments, rows, B, mean)
        second, fourth = (to_host(m) / rows.n_rows for m in total)
        # No division by zero for a source without variance.
        kurtosis = fourth / np.maximum(second**2, np.finfo(float).tiny) - 3
        largest = np.abs(found.columns).argmax(axis=0)
        signs = np.where(found.columns[largest, np.arange(len(B))] < 0, -1.0, 1.0)
        order = np.argsort(-kurtosis, kind="stable")
        scale = (signs * np.sqrt(second * rows.n_rows / (rows.n_rows - 1)))[order]
        self.components_ = rows.learned(found.filters[order] / scale[:, None])
        self.mixing_ = rows.learned(found.columns[:, order] * scale)
        self.kurtosis_, self.mean_ = rows.learned(kurtosis[order]), self.whitener_.mean_
        self.n_components_ = self._n_features_out = len(B)
        warn_of_sources(kurtosis[order], rows.n_rows, is_refined=is_refined)
