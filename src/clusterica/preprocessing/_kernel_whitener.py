"""Whitening in the space of a kernel: ``z = T (k(L, x) - mean)`` over landmarks L, with ``E[z zᵀ] = I``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from clusterica.arrays import (
    Array,
    Estimator,
    FloatOutputMixin,
    Interval,
    Place,
    Rows,
    StrOptions,
    as_generator,
    check_fitted_rows,
    check_rows,
    fit_context,
    map_reduce,
    to_host,
    transform_rows,
)
from clusterica.kernels import KERNEL_NAMES, Kernel, make_kernel
from clusterica.ops.kernel_pca import (
    feature_moments,
    kernel_project,
    landmark_root,
    landmark_values,
)
from clusterica.ops.kernels import scale_rows
from clusterica.ops.moments import spectrum, whiten_by_spectrum


class KernelWhitener(
    FloatOutputMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, Estimator
):
    r"""Whiten rows in the space that a kernel maps them to, by kernel PCA over landmarks.

    A kernel is a product :math:`k(x, y) = \phi(x)^\top \phi(y)` in a space of many dimensions. Some rows,
    the landmarks L, span a part of it, in which a row has the coordinates
    :math:`h(x) = K_{LL}^{-1/2} k(L, x)` [1]_. These are centred and whitened on their leading principal
    components [2]_, so that :math:`E[z z^\top] = I` over all rows. No array of the size rows x rows is made.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of components, those of largest variance: the dimensions of the white space. None keeps all in
        which the mapped rows vary. A learner that follows may have more, as many or fewer components.
    eigenvalue_floor : float, default=0.0
        Least variance of a component as a share of the largest one, in [0, 1): components below it are mostly
        noise, which whitening would amplify to variance 1, and are left out. With a floor n_components is the
        largest number that is kept.
    kernel : str or Kernel, default="rbf"
        "rbf" (:math:`e^{-\gamma \|x - y\|^2}`), "polynomial" (:math:`(1 + x^\top y)^3`), "inverse-distance"
        (:math:`1 / (1 + \|x - y\|)`), "inverse-square-distance" (:math:`1 / (1 + \|x - y\|^2)`),
        "histogram-intersection" (:math:`\sum_i \min(e^{x_i}, e^{y_i})`), or an object that
        :func:`~clusterica.kernels.check_kernel` accepts. Named ones without :math:`k(x, x) = 1` are
        normalised.
    gamma : float or "median", default="median"
        The :math:`\gamma` of "rbf"; "median" is one over the median squared distance of random pairs of rows.
    n_landmarks : int or None, default=None
        Number of landmarks, drawn at random from the rows; at least n_components. None is 1000, or twice
        n_components if that is more, or all rows if there are fewer. With all rows it is exact kernel PCA.
    normalize : bool, default=True
        Whether to scale rows to unit length first. Rows of zeros stay zero.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the landmarks and of the pairs, the same on every device.

    Attributes
    ----------
    landmarks_ : array of shape (n_landmarks, n_features)
        The landmarks, at unit length if normalize.
    whitening_ : array of shape (n_components_, n_landmarks)
        The matrix T of :math:`z = T (k(L, x) - \mu)`. The largest z of a landmark is positive, in every
        component.
    mean_ : array of shape (n_landmarks,)
        Mean :math:`\mu` of :math:`k(L, x)` over the rows.
    eigenvalues_ : array of shape (n_components_,)
        Variance of the mapped rows along the components (divided by n), in decreasing order.
    kernel_ : Kernel
        The kernel in use.
    rank_ : int
        Number of directions in which the mapped rows vary by more than rounding errors.
    n_components_ : int
        Number of components.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has column names.

    See Also
    --------
    clusterica.ica.KernelICA : Looks for independent components of these.
    clusterica.rica.RICA : In a pipeline after this, kernel RICA with whitening.
    clusterica.preprocessing.Whitener : Whitening of the rows themselves.

    Notes
    -----
    fit reads the rows once, for the mean and the products of the m coordinates, and takes the
    eigenvalues of two m x m matrices: about 48 m^2 bytes, and an error if that is over a quarter of the
    memory of this machine, or over the budget that is set by :func:`clusterica.config_context`.

    References
    ----------
    .. [1] C. K. I. Williams and M. Seeger, "Using the Nyström method to speed up kernel machines", 2001.
    .. [2] J. Yang, X. Gao, D. Zhang and J.-Y. Yang, "Kernel ICA: an alternative formulation and its
       application to face recognition", 2005.

    Examples
    --------
    >>> import numpy as np
    >>> from clusterica.preprocessing import KernelWhitener
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> Z = KernelWhitener(n_components=5, random_state=0).fit_transform(X)
    >>> np.allclose(Z.mean(axis=0), 0) and np.allclose(Z.T @ Z / 500, np.eye(5))
    True
    """

    _in_older_files: ClassVar[dict[str, Any]] = {"eigenvalue_floor": 0.0}
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "eigenvalue_floor": [Interval(Real, 0, 1, closed="left")],
        "kernel": [StrOptions(set(KERNEL_NAMES)), callable],
        "gamma": [Interval(Real, 0, None, closed="neither"), StrOptions({"median"})],
        "n_landmarks": [Interval(Integral, 1, None, closed="left"), None],
        "normalize": ["boolean"],
        "random_state": ["random_state", np.random.Generator],
    }

    def __init__(
        self,
        n_components: int | None = None,
        *,
        eigenvalue_floor: float = 0.0,
        kernel: str | Kernel = "rbf",
        gamma: float | str = "median",
        n_landmarks: int | None = None,
        normalize: bool = True,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.eigenvalue_floor = eigenvalue_floor
        self.kernel = kernel
        self.gamma = gamma
        self.n_landmarks = n_landmarks
        self.normalize = normalize
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the whitening.

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
        n_landmarks = self._count_landmarks(rows)
        rng = as_generator(self.random_state)
        # Sorted, as take wants them; which rows they are does not depend on it.
        drawn = rows.take(np.sort(rng.choice(rows.n_rows, size=n_landmarks, replace=False)))
        # In float64, so that the square root of the inverse keeps what it can.
        L = scale_rows(drawn, normalize=self.normalize).astype(np.float64)
        self.kernel_ = make_kernel(self.kernel, gamma=self.gamma, rows=L, rng=rng)
        landmarks = landmark_root(self.kernel_, L, rows.dtype)
        # Sums are taken about the values of some rows: all values of a wide kernel are near one, and their
        # covariance would lose its digits about zero.
        glance = self._bound(landmark_values)(rows.glance().astype(np.float64), L)
        about = glance.mean(axis=0).astype(rows.dtype)
        params = (L.astype(rows.dtype), about, landmarks.root.astype(rows.dtype))
        total = map_reduce(self._bound(feature_moments), rows, *params)
        # From moments about that point to the covariance of the features about their mean.
        shift = to_host(total.first) / rows.n_rows
        centre = rows.place.put(landmarks.root @ shift)
        covariance = total.second / rows.n_rows - centre[:, None] * centre[None, :]
        # Exactly symmetric, as eigenvalue solvers expect it.
        s = spectrum((covariance + covariance.T) / 2, noise=4 * landmarks.noise)
        n = self.n_components or max(1, s.rank)  # one column at least, even for equal rows
        if n > s.rank:
            raise ValueError(
                f"n_components={n} must be at most the rank of the mapped rows, {s.rank}; "
                "use fewer components, more landmarks, or a larger gamma"
            )
        # Eigenvalues fall: those that pass the floor come first, and the largest always does.
        n_above = int((to_host(s.values) >= self.eigenvalue_floor * float(s.values[0])).sum())
        n = max(1, min(n, n_above))
        T = whiten_by_spectrum(s, eps=0.0, n_components=n, rotate_back=False).whitening
        # One matrix for both steps: z = T h(x), and h(x) = root k(L, x).
        T, mean = to_host(T).astype(np.float64) @ landmarks.root, about + shift
        signs = self.signs_of(L, T, mean)
        self.landmarks_, self.whitening_ = rows.learned(L), rows.learned(T * signs[:, None])
        self.mean_, self.eigenvalues_ = rows.learned(mean), rows.learned(s.values[:n])
        self.rank_, self.n_components_ = s.rank, n
        self._n_features_out = n
        return self

    def transform(self, X: Any) -> Array:
        """Whiten the rows.

        Parameters
        ----------
        X : as in fit, (n_samples, n_features)
            The data.

        Returns
        -------
        Z : array of shape (n_samples, n_components_)
            In the library and on the device of X.
        """
        return self.whiten_rows(check_fitted_rows(self, X, "whitening_"))

    def whiten_rows(self, rows: Rows, B: Array | None = None) -> Array:
        """Return ``B (k(L, x) - mean)`` of checked rows, as KernelICA needs it; None is ``whitening_``."""
        B = self.whitening_ if B is None else B
        params = [
            np.asarray(to_host(a), dtype=rows.dtype) for a in (self.landmarks_, B, self.mean_)
        ]
        return transform_rows(self._bound(kernel_project), rows, *params)

    def _count_landmarks(self, rows: Rows) -> int:
        wanted = self.n_components or 1
        # 1000 landmarks take 48 MB, and a second or so for their eigenvalues.
        n = self.n_landmarks or min(rows.n_rows, max(1000, 2 * wanted))
        if n > rows.n_rows:
            raise ValueError(
                f"n_landmarks={n} must be at most the number of rows, n_samples={rows.n_rows}; lower it, or "
                "use None"
            )
        if n < wanted:
            rule, remedy = "n_landmarks", "raise n_landmarks"
            if not self.n_landmarks:
                rule, remedy = "n_samples", "give more rows"
            raise ValueError(
                f"n_components={wanted} must be at most {rule}={n}; lower it, or {remedy}"
            )
        needed, budget = 48 * n * n, Place(None).fit_memory
        if needed > budget:
            raise ValueError(
                f"n_landmarks={n} take about {needed / 2**20:.0f} MiB, over the "
                f"{budget / 2**20:.0f} MiB that they may take; lower it, or raise that with "
                "clusterica.config_context(memory=...)"
            )
        return n

    def signs_of(self, L: np.ndarray, B: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """Return the signs that make the largest of ``B (k(L, l) - mean)`` over landmarks l positive."""
        # So that two fits can be compared: whitening leaves signs open.
        Z = self._bound(kernel_project)(L, L, B, mean)
        signs: np.ndarray = np.sign(Z[np.abs(Z).argmax(axis=0), np.arange(len(B))])
        return signs

    def _bound(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        # What does not vary by block is bound, so that a walk passes arrays only.
        return partial(fn, kernel=self.kernel_, normalize=self.normalize)
