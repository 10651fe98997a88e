"""Kernel RICA: ``min_W mean_i |WᵀW φ(x_i) - φ(x_i)|² + λ g(k(W, x_i))``, with codes ``k(w, x)``."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np

from clusterica.arrays import Rows, as_generator, check_rows, to_host, worker_pool
from clusterica.arrays._namespace import Array
from clusterica.arrays._sklearn import Interval, fit_context
from clusterica.ica._base_kernel_rica import BaseKernelRICA
from clusterica.ica._base_rica import host_moments
from clusterica.ica._centroids import all_white_rows
from clusterica.ica._reconstruction import Minimum, minimize
from clusterica.ica._rica import RICA
from clusterica.ops.kernels import Gaussian, Kernel
from clusterica.optim import Progress, fit_progress
from clusterica.preprocessing import KernelWhitener

_FEWEST_LANDMARKS = 1000
# What a fit in one space has and one in the other lacks.
_OF_BASIS = ("n_uphill_", "n_dead_", "median_similarity_")
_OF_WHITENING = ("whitener_", "unmixing_")


class KernelRICA(BaseKernelRICA):
    r"""Sparse codes :math:`s = k(W, x)` in the space of a kernel (kRICA).

    Reconstruction ICA of mapped rows :math:`\phi(x)`, with :math:`k(x, y) = \phi(x)^\top \phi(y)`, over basis
    vectors w in the space of the rows (equations (5) and (6) of [1]_):

    .. math::
        \min_W \; \frac1m \sum_i k(x_i, x_i) + s_i^\top k(W, W)\, s_i - 2\, s_i^\top s_i + \lambda\, g(s_i),
        \qquad s_i = k(W, x_i) .

    Parameters
    ----------
    n_components : int or None, default=None
        Number of basis vectors, K; there may be more than features. None is the number of features.
    kernel : str or Kernel, default="rbf"
        "rbf" (:math:`e^{-\gamma \|x - y\|^2}`), "polynomial" (:math:`(1 + x^\top y)^3`), "inverse-distance"
        (:math:`1 / (1 + \|x - y\|)`), "inverse-square-distance" (:math:`1 / (1 + \|x - y\|^2)`),
        "histogram-intersection" (:math:`\sum_i \min(e^{x_i}, e^{y_i})`), or an object that
        :func:`~clusterica.ica.check_kernel` accepts. Named kernels without :math:`k(x, x) = 1` are
        normalised; objects are taken as they are.
    gamma : float or "median", default="median"
        The :math:`\gamma` of "rbf"; "median" is one over the median squared distance of random pairs of rows.
        The more basis vectors, the larger it should be: see Notes.
    sparsity : float, default=0.01
        The :math:`\lambda`.
    penalty : {"logcosh", "l1", "exp", "sqrt"} or contrast, default="logcosh"
        The g of ``pooling=None``, as in :class:`RICA`; an error if it is changed with pooling.
    pooling : {"1d", "2d"}, array-like of shape (n_components,), pooling object or None, default="2d"
        L2 pooling, :math:`g(s) = \sum_j \sqrt{\epsilon + H_j s^2}`, as in :class:`RICA`; by default over
        3 x 3 neighbours on a grid whose edges are joined.
    normalize : bool, default=True
        Whether to scale rows to unit length first. fit then refuses rows of zeros; transform lets them be.
    optimizer : {"auto", "fixed-point", "lbfgs"}, default="auto"
        "fixed-point" moves all basis vectors to the fixed points of [1]_ at once, or down the gradient where
        these lie uphill; "lbfgs" is L-BFGS; "auto" begins with the former and ends with the latter, when a
        step gains less than a ten-thousandth. With all of them the objective never rises. See Notes.
    whiten : bool, default=False
        Whether to whiten the mapped rows first, by kernel PCA over landmarks. W is then a matrix in that
        space of n_components dimensions, or less, and is found by L-BFGS; optimizer is not used.
    n_landmarks : int or None, default=None
        Number of landmarks, for whiten only, at least n_components; None is 1000, or twice n_components if
        that is more, or all rows if there are less.
    max_iter : int, default=200
        Maximum number of iterations.
    tol : float, default=1e-5
        Convergence: the relative change of the objective, and of the squared length of W, in a step.
    random_state : int, RandomState, Generator or None, default=None
        Seed of all random draws, the same on every device.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        The basis W; of shape (n_components, n_white) if whiten.
    kernel_ : Kernel
        The kernel in use.
    gamma_ : float or None
        Its :math:`\gamma`, if it is "rbf".
    reconstruction_error_ : float
        Mean of :math:`\|W^\top W \phi(x) - \phi(x)\|^2` over the data.
    median_similarity_ : float
        Median of :math:`k(w, x)` over basis vectors and some rows. Not with whiten, as the next two.
    n_dead_ : int
        Number of basis vectors that no row is like, :math:`\max_i k(w, x_i) < 0.01`.
    n_uphill_ : ndarray of shape (n_iter_ + 1,)
        Number of basis vectors whose fixed point lay uphill, at the start and after every step.
    whitener_ : KernelWhitener
        As it was fitted, if whiten.
    unmixing_ : array of shape (n_components, n_landmarks)
        From centred similarities to landmarks to codes, if whiten.
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

    Warns
    -----
    UserWarning
        If more than 5 % of the basis are dead.
    ConvergenceWarning
        If the objective was still falling after max_iter steps.

    See Also
    --------
    clusterica.ica.RICA : Without a kernel.
    clusterica.ica.DiscriminativeKernelRICA : With a part of the basis for every class.
    clusterica.ica.KernelSparseCoding : With free codes.

    Notes
    -----
    The basis starts at K-means centres of the rows. The objective is not convex. It asks of the mapped basis
    to be nearly orthogonal, so that basis vectors that are like the same rows push each other away, out of
    the reach of all rows if need be: dead. Then raise gamma, to 3 to 6 times the median. No basis vector
    moves farther in one step than the width of the kernel, since nothing leads back from where no row is
    near.

    With the gradient by w written as :math:`c\, w - v`, the fixed point :math:`v / c` leads down only where
    c > 0: often nowhere at the start, and nearly everywhere at the end where no vector died. How the
    optimizers end, and after how many steps, is in the table of P4-bases, which
    ``clusterica reproduce P4-bases`` prints.

    Data is read block by block wherever it lives; one evaluation costs about
    :math:`4 m K^2 + 4 m n K` operations in matrix products, and no array of the size rows x rows is made.

    References
    ----------
    .. [1] Y. Xiao, Z. Zhu and Y. Zhao, "Kernel reconstruction ICA for sparse representation", 2013.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from clusterica.ica import KernelRICA
    >>> X = load_digits().data
    >>> rica = KernelRICA(20, gamma=5.0, random_state=0).fit(X)
    >>> rica.transform(X).shape, rica.n_dead_
    ((1797, 20), 0)
    """

    _parameter_constraints: ClassVar[dict] = {
        **BaseKernelRICA._parameter_constraints,
        "whiten": ["boolean"],
        "n_landmarks": [Interval(Integral, 1, None, closed="left"), None],
    }

    def __init__(
        self,
        n_components: int | None = None,
        *,
        kernel: str | Kernel = "rbf",
        gamma: float | str = "median",
        sparsity: float = 0.01,
        penalty: Any = "logcosh",
        pooling: Any = "2d",
        normalize: bool = True,
        optimizer: str = "auto",
        whiten: bool = False,
        n_landmarks: int | None = None,
        max_iter: int = 200,
        tol: float = 1e-5,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.gamma = gamma
        self.sparsity = sparsity
        self.penalty = penalty
        self.pooling = pooling
        self.normalize = normalize
        self.optimizer = optimizer
        self.whiten = whiten
        self.n_landmarks = n_landmarks
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the basis.

        Parameters
        ----------
        X : array-like, tensor, Dask array or iterable of blocks, (n_samples, n_features)
            The data.
        y : ignored

        Returns
        -------
        self
        """
        if self.n_landmarks is not None and not self.whiten:
            raise ValueError(
                f"n_landmarks={self.n_landmarks} is for whiten=True; set that, or leave n_landmarks at None"
            )
        for name in _OF_BASIS if self.whiten else _OF_WHITENING:
            self.__dict__.pop(name, None)  # of an earlier fit
        if self.whiten:
            self._fit_white(X, y)
        else:
            self._fit(X, y)
        return self

    def _codes(self, rows: Rows) -> Array:
        if not hasattr(self, "whitener_"):
            return super()._codes(rows)
        return self.whitener_._project(rows, self.unmixing_)

    def _fit_white(self, X: Any, y: Any) -> None:
        """Whiten the mapped rows, and learn a basis by RICA there."""
        rows = check_rows(self, X, reset=True, min_rows=2)
        K = self._n_components(rows, y)
        self._check_size(rows, K)
        n_landmarks = self._count_landmarks(rows, K)
        rng = as_generator(self.random_state)
        with worker_pool():
            progress = fit_progress(self, 1, X=X, y=y)
            self.whitener_ = self._whitener(X, n_landmarks, K, rng)
            self.kernel_ = self.whitener_.kernel_
            self.gamma_ = self.kernel_.gamma if isinstance(self.kernel_, Gaussian) else None
            Z = all_white_rows(X, rows, self.whitener_)
            found = self._minimize(rows, Z, K, rng, progress)
        progress.end()
        self.__dict__.update(self._learned(rows, found.result.params))
        self._keep_course(found)

    def _minimize(
        self, rows: Rows, Z: Rows, K: int, rng: np.random.Generator, progress: Progress
    ) -> Minimum:
        """Return the basis of the white rows Z."""
        # In white space the reconstruction alone keeps the basis from shrinking.
        rica = RICA(K, sparsity=self.sparsity, unit_norm=False, random_state=rng)
        total = host_moments(Z)
        no_null = np.empty((0, Z.n_features))
        task = progress.subtask("basis", self.max_iter)
        found = minimize(
            rica._problem(Z, total, self._penalty(K), no_null),
            rica._start(Z, K, total.first),
            max_iter=self.max_iter,
            tol=self.tol,
            progress=task,
            fitted=lambda W: self._learned(rows, W),
        )
        task.end()
        return found

    def _learned(self, rows: Rows, W: Array) -> dict[str, Any]:
        """Return the attributes that transform needs, for a basis W of the white space."""
        W = to_host(W)
        return {
            "components_": rows.learned(W),
            "unmixing_": rows.learned(W @ to_host(self.whitener_.whitening_)),
            "whitener_": self.whitener_,
            "_n_features_out": len(W),
        }

    def _whitener(
        self, X: Any, n_landmarks: int, K: int, rng: np.random.Generator
    ) -> KernelWhitener:
        """Return a whitener to K dimensions, or to as many as the mapped rows have."""
        whitener = KernelWhitener(
            kernel=self.kernel,
            gamma=self.gamma,
            n_landmarks=n_landmarks,
            normalize=self.normalize,
            random_state=int(rng.integers(2**31)),
        ).fit(X)
        if whitener.n_components_ > K:
            whitener.set_params(n_components=K).fit(X)  # the same landmarks
        return whitener

    def _count_landmarks(self, rows: Rows, K: int) -> int:
        if self.n_landmarks is None:
            return min(rows.n_rows, max(_FEWEST_LANDMARKS, 2 * K))
        if self.n_landmarks < K:
            raise ValueError(
                f"n_landmarks={self.n_landmarks} must be at least n_components={K}; raise it, or use None"
            )
        return self.n_landmarks
