"""Kernel ICA: whiten by kernel PCA over landmarks, ``z = T (k(L, x) - mean)``, then ICA, ``s = C z``."""

from __future__ import annotations

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
    StrOptions,
    as_generator,
    check_fitted_rows,
    check_rows,
    fit_context,
    map_reduce,
    to_host,
)
from clusterica.contrasts import Contrast, LogCosh, check_contrast
from clusterica.ica._centroids import all_white_rows
from clusterica.ica._likelihood import symmetric_fixed_point
from clusterica.kernels import KERNEL_NAMES, Kernel
from clusterica.ops.moments import response_moments
from clusterica.optim import fit_progress
from clusterica.preprocessing import KernelWhitener


class KernelICA(
    CallbackSupportMixin,
    FloatOutputMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    Estimator,
):
    r"""Kernel ICA: whitened kernel PCA, then ICA of the white rows (KICA).

    Rows are mapped by :math:`\phi`, whitened there by :class:`~clusterica.preprocessing.KernelWhitener`, and
    the white rows z are unmixed [1]_: the sources :math:`s = C z` are nonlinear functions of a row. It is
    what kernel RICA is compared with in [2]_; there can't be more sources than dimensions of z.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of sources, and of dimensions that are kept by kernel PCA. None is the number of features.
    kernel : str or Kernel, default="rbf"
        "rbf", "polynomial", "inverse-distance", "inverse-square-distance", "histogram-intersection", or an
        object that :func:`~clusterica.kernels.check_kernel` accepts; see KernelWhitener.
    gamma : float or "median", default="median"
        The :math:`\gamma` of "rbf"; "median" is one over the median squared distance of random pairs of rows.
    n_landmarks : int or None, default=None
        Number of landmarks, drawn at random from the rows; at least n_components. None is 1000, or twice
        n_components if that is more, or all rows if there are fewer.
    normalize : bool, default=True
        Whether to scale rows to unit length first. Rows of zeros stay zero.
    contrast : contrast or None, default=None
        Measures how far a source is from Gaussian, such as ``Exponential()`` or an object of your own that
        :func:`~clusterica.contrasts.check_contrast` accepts. None is ``LogCosh()``.
    max_iter : int, default=200
        Maximum number of iterations of the fixed point, each a pass over the white rows.
    tol : float, default=1e-4
        The fit ends when every direction turns by at most an angle :math:`\theta` with
        :math:`1 - \cos\theta` equal to tol.
    random_state : int, RandomState, Generator or None, default=None
        Seed of all random draws, the same on every device.

    Attributes
    ----------
    components_ : array of shape (n_components_, n_components_)
        The unmixing matrix C of the white rows, which is orthogonal. Sorted by decreasing ``kurtosis_``; the
        largest value of a source over the landmarks is positive.
    unmixing_ : array of shape (n_components_, n_landmarks)
        The same for kernel values: :math:`s = U (k(L, x) - \mu)`, where L and :math:`\mu` are ``landmarks_``
        and ``mean_`` of ``whitener_``.
    kurtosis_ : array of shape (n_components_,)
        Excess kurtosis of every source: 0 for a Gaussian one, over 0 for a sparse one.
    whitener_ : KernelWhitener
        The fitted whitener.
    n_components_ : int
        Number of sources.
    n_iter_ : int
        Steps of the fixed point.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has column names.

    See Also
    --------
    clusterica.dictionaries.KernelSparseCoding : Sparse codes in the space of a kernel.
    clusterica.ica.ClusterICA : Sources that are linear in the rows.

    Notes
    -----
    The white rows are unmixed by the symmetric fixed point of FastICA, which finds sparse sources and flat
    ones. White rows are kept in memory where they fit the budget of :func:`clusterica.config_context`;
    otherwise they are computed again, block by block, on every pass.

    References
    ----------
    .. [1] J. Yang, X. Gao, D. Zhang and J.-Y. Yang, "Kernel ICA: an alternative formulation and its
       application to face recognition", 2005.
    .. [2] Y. Xiao, Z. Zhu and Y. Zhao, "Kernel reconstruction ICA for sparse representation", 2013.

    Examples
    --------
    >>> import numpy as np
    >>> from clusterica.datasets import make_sparse_sources
    >>> from clusterica.ica import KernelICA
    >>> X, _, _ = make_sparse_sources(2000, 4, random_state=0)
    >>> ica = KernelICA(3, random_state=0).fit(X)
    >>> S = ica.transform(X)
    >>> S.shape, bool(abs(S.T @ S / 2000 - np.eye(3)).max() < 1e-9)
    ((2000, 3), True)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "kernel": [StrOptions(set(KERNEL_NAMES)), callable],
        "gamma": [Interval(Real, 0, None, closed="neither"), StrOptions({"median"})],
        "n_landmarks": [Interval(Integral, 1, None, closed="left"), None],
        "normalize": ["boolean"],
        "contrast": [callable, None],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state", np.random.Generator],
    }

    def __init__(
        self,
        n_components: int | None = None,
        *,
        kernel: str | Kernel = "rbf",
        gamma: float | str = "median",
        n_landmarks: int | None = None,
        normalize: bool = True,
        contrast: Contrast | None = None,
        max_iter: int = 200,
        tol: float = 1e-4,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.gamma = gamma
        self.n_landmarks = n_landmarks
        self.normalize = normalize
        self.contrast = contrast
        self.max_iter = max_iter
        self.tol = tol
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
        rng = as_generator(self.random_state)
        # The usual contrast of FastICA: it finds sparse sources and flat ones.
        contrast = LogCosh() if self.contrast is None else self.contrast
        check_contrast(contrast)
        progress = fit_progress(self, 1, X=X, y=y)
        self.whitener_ = KernelWhitener(
            self.n_components or rows.n_features,
            kernel=self.kernel,
            gamma=self.gamma,
            n_landmarks=self.n_landmarks,
            normalize=self.normalize,
            # A number, so that the whitener can be cloned and gives the same landmarks again.
            random_state=int(rng.integers(2**31)),
        ).fit(X)
        Z = all_white_rows(X, rows, self.whitener_)
        task = progress.subtask("unmixing", self.max_iter)
        result = symmetric_fixed_point(
            Z,
            rng.standard_normal((Z.n_features, Z.n_features)),
            contrast=contrast,
            max_iter=self.max_iter,
            tol=self.tol,
            progress=task,
            fitted=lambda C: self._learned(rows, Z, C),
        )
        task.end()
        self.n_iter_ = result.n_iter
        result.warn_if_unfinished(
            self,
            "raise max_iter or tol, or lower n_components: directions of Gaussian sources never converge",
        )
        self.__dict__.update(self._learned(rows, Z, result.params))
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
            In the library and on the device of X.
        """
        rows = check_fitted_rows(self, X, "components_")
        return self.whitener_.whiten_rows(rows, self.unmixing_)

    def _learned(self, rows: Rows, Z: Rows, C: np.ndarray) -> dict[str, Any]:
        """Return the attributes for directions C of the white rows Z, signed and sorted by the convention."""
        # White rows have mean zero already.
        about = np.zeros(len(C), rows.dtype)
        total = map_reduce(response_moments, Z, C.astype(rows.dtype), about)
        second, fourth = (to_host(m) / rows.n_rows for m in total)
        kurtosis = fourth / second**2 - 3
        # Sparsest source first, as in ClusterICA.
        order = np.argsort(-kurtosis, kind="stable")
        white = self.whitener_
        L, T, mean = (
            to_host(a).astype(np.float64) for a in (white.landmarks_, white.whitening_, white.mean_)
        )
        # The largest value of a source over the landmarks is positive, so that two fits can be compared.
        C = (C * white.signs_of(L, C @ T, mean)[:, None])[order]
        return {
            "components_": rows.learned(C),
            "kurtosis_": rows.learned(kurtosis[order]),
            "unmixing_": rows.learned(C @ T),
            "whitener_": white,
            "n_components_": len(C),
            "_n_features_out": len(C),
        }
