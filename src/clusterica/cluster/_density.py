"""Clusters of one column, cut at the valleys of its density ``f(x) = 1/n Σ w_i φ_σ(x - x_i)``."""

from __future__ import annotations

from math import ceil, sqrt
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClusterMixin
from sklearn.exceptions import ConvergenceWarning

from clusterica.arrays import (
    Array,
    Estimator,
    Interval,
    Rows,
    StrOptions,
    check_fitted_rows,
    check_rows,
    check_scale,
    check_weights,
    fit_context,
    map_rows,
    warn_user,
)
from clusterica.cluster._scale_space import (
    MOST_NODES,
    GridDensity,
    Level,
    binned,
    finest_sigma,
    lifetimes,
    longest_lived,
    summary_of,
)
from clusterica.ops.density import Summary, labels_between, sheather_jones

RULES = {"scott": 1.0, "silverman": 0.9}


class DensityClusterer(ClusterMixin, Estimator):
    r"""Cluster one-dimensional data at the valleys of its density.

    The density is smoothed by a Gaussian of width :math:`\sigma`,
    :math:`f(x) = \frac{1}{n} \sum_i \varphi_\sigma(x - x_i)`. Each of its modes is a cluster, which
    ends at the lowest points between it and its neighbours. Data with many columns has to be projected
    first, on the direction of least kurtosis for instance [1]_.

    Parameters
    ----------
    n_clusters : int or None, default=None
        Number of clusters. None takes as many as there are modes. With a number, modes join a neighbour until
        so many are left: first those that do not count (see Notes), then those that stand out least, by their
        height over the higher of their two valleys. If there are fewer modes, each of them is a cluster, and
        a ``ConvergenceWarning`` is raised, as in scikit-learn's ``KMeans``.
    method : {"kde", "scale-space"}, default="kde"
        How the smoothing is given: by a bandwidth that suits the density, or by its scale [2]_, which
        is tried at all values if it is None.
    bandwidth : {"scott", "silverman", "isj"} or float, default="scott"
        The width :math:`\sigma`, for ``method="kde"`` only. Scott's rule is :math:`s\,n^{-1/5}` and
        Silverman's [3]_ :math:`0.9\,s\,n^{-1/5}`, where s is the standard deviation or the
        interquartile range over 1.34, whichever is smaller. ``"isj"`` is Improved Sheather-Jones
        [4]_, which assumes no shape. It needs some fifty rows, and resolves many narrow clusters that
        the rules blur, but also takes the bumps near a steep edge for modes. A number is in the units
        of the data.
    scale : float or None, default=None
        Lindeberg's t, for ``method="scale-space"`` only: the variance of the Gaussian in units of the
        variance of the data, so that :math:`\sigma = \sqrt{t}` where that is 1. None takes the number
        of modes that lives longest over all scales.

    Attributes
    ----------
    labels_ : integer array of shape (n_samples,)
        Cluster of each row; clusters are numbered from left to right.
    n_clusters_ : int
        Number of clusters.
    modes_ : array of shape (n_clusters_,)
        Where the density of each cluster is highest.
    valleys_ : array of shape (n_clusters_ - 1,)
        Where the clusters are cut; a row on a valley belongs to the right of it.
    grid_ : array of shape (n_nodes,)
        Where the density is given, evenly spaced, to 4 sigma beyond the data.
    density_ : array of shape (n_nodes,)
        Density on the grid.
    bandwidth_ : float
        Width :math:`\sigma` of the Gaussian, in the units of the data.
    scale_ : float
        Its variance in units of the variance of the data, :math:`t = \sigma^2 / \mathrm{var}`.
    n_features_in_ : int
        1.
    feature_names_in_ : ndarray of shape (1,)
        Name of the column, where X has one.

    Notes
    -----
    With a number for the bandwidth or the scale, all modes of the density are clusters, even if an
    outlier makes one. Where the smoothing is left to a rule or to the lifetimes, only modes count that
    hold 5 % of the rows, or stand out by 5 standard errors of the estimated density (a group of some
    20 rows far from all others does). What does not count joins the neighbour beyond its higher
    valley. A rule still takes some bumps of a small sample or of a flat density for clusters; the
    lifetimes are more careful.

    Lifetimes are measured in :math:`\log t`, from a tenth of Scott's bandwidth up to t = 1 (for the
    data without 0.1 % of the rows at each end). One mode takes part in the comparison, and to win
    against it more of them have to live for a factor of :math:`e^2` in t, which those of noise rarely
    do. The scale is the middle of the lifetime, in the logarithm. With `n_clusters`, it is the middle
    of the longest lifetime of that many modes, or else the largest scale with that many. Values
    that were rounded so much that they lie more than two sigma apart are modes of their own.

    Two passes over the rows add them to a grid of 4096 to 131072 nodes, in linear time, and the
    Gaussian is applied by the FFT. A row is shared between the two nodes beside it, which changes the
    density by at most :math:`(\mathrm{step} / \sigma)^2 / 8` of the height of the Gaussian,
    :math:`0.4 / \sigma`. There are at least 32 steps to a sigma as long as the largest grid allows.
    If it does not allow 8, a few far values make the range: then 0.1 % of the rows at each end are
    left out of the density, and belong to the outermost clusters. A rule takes no sigma of less
    than 4 steps; there is a warning if that more than doubles it.

    Where all rows are equal there is one cluster, and the absolute value of the rows (or 1) stands in
    for their standard deviation.

    References
    ----------
    .. [1] J. B. Bugrien and J. T. Kent, "Independent component analysis: an approach to clustering",
       2005.
    .. [2] T. Lindeberg, "Scale-space theory in computer vision", 1994.
    .. [3] B. W. Silverman, "Density estimation for statistics and data analysis", 1986.
    .. [4] Z. I. Botev, J. F. Grotowski and D. P. Kroese, "Kernel density estimation via diffusion",
       Annals of Statistics 38, 2010.

    Examples
    --------
    >>> import numpy as np
    >>> from clusterica.cluster import DensityClusterer
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(0, 1, 300), rng.normal(9, 1, 200)])[:, None]
    >>> model = DensityClusterer().fit(X)
    >>> model.n_clusters_, np.bincount(model.labels_).tolist()
    (2, [300, 200])
    >>> model.predict([[0.5], [7.0]])
    array([0, 1], dtype=int32)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_clusters": [Interval(Integral, 1, None, closed="left"), None],
        "method": [StrOptions({"kde", "scale-space"})],
        "bandwidth": [StrOptions({*RULES, "isj"}), Interval(Real, 0, None, closed="neither")],
        "scale": [Interval(Real, 0, None, closed="neither"), None],
    }

    def __init__(
        self,
        n_clusters: int | None = None,
        *,
        method: str = "kde",
        bandwidth: str | float = "scott",
        scale: float | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.method = method
        self.bandwidth = bandwidth
        self.scale = scale

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Estimate the density and cut it at its valleys.

        Parameters
        ----------
        X : array-like, tensor, Dask array or iterable of blocks, (n_samples, 1)
            The data, one column.
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            Weight of each row, as if it were repeated that many times: the sum of the weights is the
            sample size of the bandwidth rules.

        Returns
        -------
        self
        """
        if self.method == "kde" and self.scale is not None:
            raise ValueError(
                f"scale={self.scale!r} is for method='scale-space', and method is 'kde'; set that method, "
                "or give a bandwidth"
            )
        if self.method == "scale-space" and self.bandwidth != "scott":
            raise ValueError(
                f"bandwidth={self.bandwidth!r} is for method='kde', and method is 'scale-space'; set that "
                "method, or give a scale"
            )
        rows = check_rows(self, X, reset=True)
        self._check_columns(rows)
        # Equal rows are one cluster; large ones are found in the sums.
        if 0 < np.ptp(rows.glance()) < 1:
            check_scale(rows, np.float64)
        weights = check_weights(sample_weight, rows)
        # Two walks: where the rows lie, and their weights on a grid that suits it.
        summary = summary_of(rows, weights)
        density, level, cuts = self._smooth(rows, weights, summary)
        self._set_fitted(rows, summary, density, level, cuts)
        self.labels_ = rows.in_model(self._labels(rows))
        return self

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> Array:
        """Cut the density and return the cluster of every row; the parameters are those of fit."""
        return self.fit(X, sample_weight=sample_weight).labels_

    def predict(self, X: Any) -> Array:
        """Return the cluster of every row: the number of valleys at or below it.

        Parameters
        ----------
        X : as in fit, (n_samples, 1)
            The data.

        Returns
        -------
        labels : integer array of shape (n_samples,)
            In the library and on the device of X.
        """
        rows = check_fitted_rows(self, X, "valleys_")
        return self._labels(rows)

    def _labels(self, rows: Rows) -> Array:
        return map_rows(labels_between, rows, self.valleys_)

    # A method, so that tests can run scikit-learn's checks, whose tables have several columns, on the first.
    def _check_columns(self, rows: Rows) -> None:
        if rows.n_features != 1:
            raise ValueError(
                f"{type(self).__name__} takes one column, and X has {rows.n_features}; choose one, or "
                "project X first, as in make_pipeline(KurtosisPursuit(), DensityClusterer())"
            )

    def _smooth(
        self, rows: Rows, weights: np.ndarray, summary: Summary
    ) -> tuple[GridDensity, Level, np.ndarray]:
        """Return the binned density, the smoothed one, and which of its valleys are cuts."""
        scott = summary.scale * summary.n**-0.2  # s n^(-1/5)
        if self.method == "scale-space" and self.scale is None:
            # Down to a tenth of Scott's bandwidth, where noise splits all modes.
            density = binned(rows, weights, summary, fine=0.1 * scott, wide=summary.width)
            low = max(0.1 * scott, finest_sigma(density))
            return density, *self._by_lifetime(density, low, max(low, summary.width))
        if self.method == "kde" and self.bandwidth == "isj":
            # On a grid for a quarter of Scott's bandwidth: for many narrow clusters the result is far finer
            # than Scott's rule, and for one broad one it may be wider.
            density = binned(rows, weights, summary, fine=scott / 4, wide=summary.width)
            found = sheather_jones(density.weight, density.step, density.n)
            if found is not None and found <= summary.width:
                sigma = found
            else:
                sigma = RULES["silverman"] * scott
                warn_user(
                    f"bandwidth='isj' has no solution for these {density.n:.5g} rows, which may be too few, "
                    "too often the same, or too far apart for the grid; Silverman's rule is used instead",
                    RuntimeWarning,
                )
        else:
            # The scale is the variance of the Gaussian in units of that of the data.
            if self.scale is not None:
                sigma = sqrt(self.scale * summary.variance)
            elif isinstance(self.bandwidth, str):
                sigma = RULES[self.bandwidth] * scott
            else:
                sigma = float(self.bandwidth)
            density = binned(rows, weights, summary, fine=sigma, wide=sigma)
        if sigma < finest_sigma(density):
            sigma = self._too_fine(sigma, finest_sigma(density), summary)
        level = density.at(sigma)
        return density, level, self._cuts(density, level)

    def _by_lifetime(
        self, density: GridDensity, low: float, high: float
    ) -> tuple[Level, np.ndarray]:
        """Return the density at the scale that the lifetimes of its modes choose, and its cuts."""
        if self.n_clusters is None:
            best = longest_lived(density, low, high)
            level = density.at(best.middle)
            return level, level.strongest(best.n)
        found = [life for life in lifetimes(density, low, high) if life.n == self.n_clusters]
        # That many modes may live only between two of the scales tried: then bisection finds them.
        if found:
            sigma: float | None = max(found, key=lambda life: life.length).middle
        else:
            sigma = density.largest_sigma(self.n_clusters, low, high)
        if sigma is None:
            # The finest level has as many modes as there are at any scale.
            level = density.at(low)
            self._warn_of_few(level, "at any scale", "lower n_clusters")
            return level, level.real
        level = density.at(sigma)
        return level, level.strongest(self.n_clusters)

    def _cuts(self, density: GridDensity, level: Level) -> np.ndarray:
        """Return which valleys of the density at a given smoothing are cuts."""
        if self.n_clusters is None:
            # A user who gives a number wants to see all modes; a rule must not split noise.
            by_rule = self.method == "kde" and isinstance(self.bandwidth, str)
            return level.counts if by_rule else level.real
        if level.n_modes >= self.n_clusters:
            return level.strongest(self.n_clusters)
        # The warning says which smoothing would show as many modes.
        sigma = density.largest_sigma(self.n_clusters, finest_sigma(density), level.sigma)
        remedy = "lower n_clusters"
        if sigma is not None and self.scale is not None:
            scale = self.scale * (sigma / level.sigma) ** 2
            remedy = f"give a scale of {scale:.3g} or less, leave it None, or lower n_clusters"
        elif sigma is not None:
            remedy = (
                f"give a bandwidth of {sigma:.3g} or less, let method='scale-space' choose the smoothing, or "
                "lower n_clusters"
            )
        self._warn_of_few(level, f"with a bandwidth of {level.sigma:.3g}", remedy)
        return level.real

    def _warn_of_few(self, level: Level, where: str, remedy: str) -> None:
        n = level.n_modes
        warn_user(
            f"the density has {n} mode{'s'[: n != 1]} {where}, fewer than n_clusters={self.n_clusters}, and "
            f"as many clusters are found; {remedy}",
            ConvergenceWarning,
        )

    def _too_fine(self, sigma: float, finest: float, summary: Summary) -> float:
        """Return the finest sigma that the grid can show, where that may take the place of sigma."""
        low, high = summary.ends
        if self.method == "kde" and isinstance(self.bandwidth, str):
            if finest <= 2 * sigma:
                return finest  # so little more smoothing joins no clusters that are worth a warning
            warn_user(
                f"bandwidth={self.bandwidth!r} gives {sigma:.3g}, too fine for data from {low:.3g} to "
                f"{high:.3g} on the {MOST_NODES} nodes of the largest grid; {finest:.3g} is used, which may "
                "join clusters. Remove rows that are far from all others"
            )
            return finest
        raise ValueError(
            f"a Gaussian of width {sigma:.3g} is too fine for data from {low:.3g} to {high:.3g} on the "
            f"{MOST_NODES} nodes of the largest grid; make it {finest:.3g} or more, or remove rows that are "
            "far from all others"
        )

    def _set_fitted(
        self, rows: Rows, summary: Summary, density: GridDensity, level: Level, cuts: np.ndarray
    ) -> None:
        """Set the fitted attributes."""
        t = level.turns
        valleys = t.valleys[cuts]
        # The highest of the modes between each two cuts: sorted by cluster, then by falling height, it is the
        # first of its cluster.
        order = np.lexsort((-t.heights, np.searchsorted(valleys, t.modes)))
        cluster = np.searchsorted(valleys, t.modes)[order]
        modes = t.modes[order][np.flatnonzero(np.diff(cluster, prepend=-1))]
        used = np.flatnonzero(density.weight)
        # Beyond 4 sigma the Gaussian is below 1e-3 of its height: there is nothing to be seen.
        margin = ceil(4 * level.sigma / density.step)
        shown = np.arange(max(0, used[0] - margin), min(len(level.f), used[-1] + margin + 1))

        def export(values: np.ndarray) -> Array:
            return rows.home.put(values.astype(rows.dtype))

        self.modes_ = export(density.low + density.step * modes)
        self.valleys_ = export(density.low + density.step * valleys)
        self.grid_ = export(density.low + density.step * shown)
        self.density_ = export(level.f[shown])
        self.bandwidth_ = level.sigma
        self.scale_ = level.sigma**2 / summary.variance
        self.n_clusters_ = len(modes)
