"""Kernel sparse coding: ``min mean_i |Wᵀ s_i - φ(x_i)|² + λ |s_i|_1`` over a basis W and free codes s."""

from __future__ import annotations

from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.callback import CallbackSupportMixin
from sklearn.exceptions import ConvergenceWarning

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
    lazy_rows,
    map_reduce,
    map_rows_reduce,
    one_blas_thread,
    to_host,
    warn_user,
    working_memory,
)
from clusterica.cluster.starts import kmeans_start
from clusterica.kernels import KERNEL_NAMES, Kernel, Normalized, make_kernel
from clusterica.kernels.solvers import descend_on_host
from clusterica.ops.kernel_coding import (
    CodingSums,
    basis_pull,
    coding_row_bytes,
    coding_sums,
    count_unsolved,
    kernel_codes,
    metric,
)
from clusterica.ops.kernels import MUCH_DEAD, gram, scale_rows
from clusterica.optim import (
    LBFGS,
    Evaluation,
    LoopResult,
    LoopState,
    fit_progress,
    iterate,
)


class KernelSparseCoding(
    CallbackSupportMixin,
    FloatOutputMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    Estimator,
):
    r"""Kernel sparse coding: a basis in which each mapped row is a combination of few mapped vectors (KSR).

    Minimises equation (8) of [2]_, after [1]_,

    .. math::
        \frac1m \sum_i \|W^\top s_i - \phi(x_i)\|^2 + \lambda \|s_i\|_1 ,

    over the basis vectors w, which :math:`\phi` maps as it maps the rows, and over the codes :math:`s_i`,
    which are free: kernel RICA takes the codes :math:`k(w, x_i)` instead.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of basis vectors; there may be more than features. None is the number of features.
    kernel : str or Kernel, default="rbf"
        "rbf" (:math:`e^{-\gamma \|x - y\|^2}`), "polynomial" (:math:`(1 + x^\top y)^3`), "inverse-distance"
        (:math:`1 / (1 + \|x - y\|)`), "inverse-square-distance" (:math:`1 / (1 + \|x - y\|^2)`),
        "histogram-intersection" (:math:`\sum_i \min(e^{x_i}, e^{y_i})`), or an object that
        :func:`~clusterica.kernels.check_kernel` accepts. Kernels without :math:`k(x, x) = 1` are normalised:
        otherwise a long :math:`\phi(w)` would make its codes, and so the penalty, arbitrarily small.
    gamma : float or "median", default="median"
        The :math:`\gamma` of "rbf"; "median" is one over the median squared distance of random pairs of rows.
    sparsity : float, default=0.1
        The :math:`\lambda`. Codes are zero for all rows if it is 2 or more.
    normalize : bool, default=True
        Whether to scale rows to unit length first. Rows of zeros stay zero.
    max_iter : int, default=100
        Maximum number of iterations of L-BFGS over the basis.
    tol : float, default=1e-4
        The fit ends when a step changes neither the objective nor (in squared length) the basis by more than
        this, relative to their size. Codes are found to a duality gap of a tenth of it.
    random_state : int, RandomState, Generator or None, default=None
        Seed of all random draws, the same on every device.

    Attributes
    ----------
    components_ : array of shape (n_components_, n_features)
        The basis W, one vector per row. None is scaled: :math:`\phi(w)` has unit length by itself.
    kernel_ : Kernel
        The kernel in use.
    n_dead_ : int
        Number of basis vectors far from all rows, :math:`\max_i k(w, x_i) < 0.01`.
    objective_history_ : ndarray of shape (n_iter_ + 1,)
        The objective at the start and after every step.
    n_iter_ : int
        Number of steps.
    n_components_ : int
        Number of basis vectors.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has column names.

    Warns
    -----
    UserWarning
        If more than 5 % of the basis are dead.
    ConvergenceWarning
        If the objective was still falling after max_iter steps, or codes were not found well enough.

    See Also
    --------
    clusterica.encoders.KernelSparseEncoder : The codes alone, for any dictionary.
    clusterica.ica.KernelICA : Independent components in the space of a kernel.

    Notes
    -----
    The basis starts at K-means centres of the rows. At the best codes of a basis, which are found as
    :class:`~clusterica.encoders.KernelSparseEncoder` finds them, the derivative of the objective by the basis
    is the one with codes held fixed. So the basis is moved by L-BFGS with one pass over the rows for each
    gradient, and the objective never rises. It is not convex.
    Histogram intersection has kinks where features are equal; the search may end at one.

    References
    ----------
    .. [1] S. Gao, I. W. Tsang and L.-T. Chia, "Kernel sparse representation for image classification and
       face recognition", 2010.
    .. [2] Y. Xiao, Z. Zhu and Y. Zhao, "Kernel reconstruction ICA for sparse representation", 2013.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from clusterica.dictionaries import KernelSparseCoding
    >>> X = load_digits().data[:300]
    >>> coding = KernelSparseCoding(20, max_iter=200, random_state=0).fit(X)
    >>> S = coding.transform(X)
    >>> S.shape, bool((S != 0).mean() < 0.5)
    ((300, 20), True)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "kernel": [StrOptions(set(KERNEL_NAMES)), callable],
        "gamma": [Interval(Real, 0, None, closed="neither"), StrOptions({"median"})],
        "sparsity": [Interval(Real, 0, None, closed="neither")],
        "normalize": ["boolean"],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "random_state": ["random_state", np.random.Generator],
    }

    def __init__(
        self,
        n_components: int | None = None,
        *,
        kernel: str | Kernel = "rbf",
        gamma: float | str = "median",
        sparsity: float = 0.1,
        normalize: bool = True,
        max_iter: int = 100,
        tol: float = 1e-4,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.gamma = gamma
        self.sparsity = sparsity
        self.normalize = normalize
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
        rows = check_rows(self, X, reset=True, min_rows=2)
        n = self.n_components or rows.n_features
        if n > rows.n_rows:
            raise ValueError(
                f"n_components={n} must be at most the number of rows, n_samples={rows.n_rows}; lower it, "
                "or give more rows"
            )
        rng = as_generator(self.random_state)
        # 100 rows for each basis vector, 20,000 at least: a start need not be exact.
        size = min(rows.n_rows, max(20_000, 100 * n))
        drawn = rows.take(np.sort(rng.choice(rows.n_rows, size=size, replace=False)))
        sample = scale_rows(drawn, normalize=self.normalize)
        kernel = make_kernel(self.kernel, gamma=self.gamma, rows=sample, rng=rng)
        # φ(w) must have unit length: else long basis vectors with small codes would cost nothing.
        self.kernel_ = kernel if kernel.unit_diagonal else Normalized(kernel)
        progress = fit_progress(self, 2, X=X, y=y)
        start = kmeans_start(rows, sample, n, rng=rng, progress=progress)
        solver = LBFGS(
            evaluate=partial(self._evaluate, rows),
            precondition=partial(_gauss_newton, metric=metric(self.kernel_, start) / rows.n_rows),
        )
        task = progress.subtask("basis", self.max_iter)
        # Products of small matrices, many times over: handing them to threads costs more than it gains
        # (CPU time of a fit of 40 basis vectors to 800 digits on two shared cores: 0.15 of that without).
        with one_blas_thread():
            position = solver.start(start)
            result = iterate(
                solver.step,
                LoopState(0, position, (position.evaluation.objective,)),
                max_iter=self.max_iter,
                tol=self.tol,
                progress=task,
                fitted=lambda at: {
                    "components_": rows.learned(at.params),
                    "kernel_": self.kernel_,
                    "_n_features_out": len(start),
                },
            )
        task.end()
        self._set_fitted(rows, result)
        progress.end()
        return self

    def transform(self, X: Any) -> Array:
        """Return the codes of the rows, of both signs.

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
        # New rows may have another dtype than those of fit: the work is in theirs.
        W = rows.place.put(np.asarray(to_host(self.components_), dtype=rows.dtype))
        G, settings = gram(self.kernel_, W), self._code_settings()

        @working_memory(coding_row_bytes)
        def codes(X: Array, W: Array, G: Array) -> Array:
            return kernel_codes(X, W, G, **settings).codes

        @working_memory(coding_row_bytes)
        def counted(X: Array, W: Array, G: Array) -> tuple[Array, tuple[Array]]:
            S, gaps = kernel_codes(X, W, G, **settings)
            return S, (count_unsolved(gaps, settings["tol"]),)

        later = lazy_rows(codes, rows, W, G)
        if later is not None:  # there are no codes yet to warn about
            return later
        S, (n_unsolved,) = map_rows_reduce(counted, rows, W, G)
        self._warn_of_unsolved(float(n_unsolved), rows.n_rows)
        return S

    def _evaluate(self, rows: Rows, W: np.ndarray) -> Evaluation:
        """Return the objective and its gradient by the basis, from one walk over the rows."""
        placed = rows.place.put(W.astype(rows.dtype))
        # At the best codes the derivative by the codes is zero (or cancels with the penalty), so that by
        # the basis alone is the whole gradient: Danskin.
        fn = partial(coding_sums, **self._code_settings())
        total = map_reduce(fn, rows, placed, gram(self.kernel_, placed))
        sums = CodingSums(*(to_host(value) for value in total))
        # The basis as the rows have seen it, rounded to their dtype: the gradient must belong to it.
        V = W.astype(rows.dtype).astype(np.float64)
        # The part of k(W, W), which no row enters: added once, after the walk.
        own = basis_pull(self.kernel_, V, gram(self.kernel_, V), sums.products)
        gradient = sums.scale[:, None] * V - sums.vector + own.gradient(V)
        return Evaluation(float(sums.objective) / rows.n_rows, gradient / rows.n_rows, sums)

    def _code_settings(self) -> dict[str, Any]:
        """Return the parameters of the codes of a block, in fit and in transform."""
        return {
            "kernel": self.kernel_,
            "sparsity": float(self.sparsity),
            "normalize": self.normalize,
            "max_iter": 1000,  # sweeps over the basis, as in KernelSparseEncoder
            # Ten times better than the basis, so that errors of the codes do not mislead the line search.
            "tol": 0.1 * float(self.tol),
            "descend": descend_on_host,
        }

    def _set_fitted(self, rows: Rows, result: LoopResult) -> None:
        """Set the fitted attributes, and warn of what went wrong."""
        W, sums = result.params.params, result.params.evaluation.extra
        self.components_ = rows.learned(W)
        self.n_components_ = self._n_features_out = len(W)
        self.objective_history_, self.n_iter_ = np.array(result.history), result.n_iter
        # Counted in the last walk over the rows: no other is needed.
        self.n_dead_ = int((sums.reached == 0).sum())
        # Attributes first: a user who turns warnings into errors still has the basis.
        # With no code at all sparsity is too large, if rows are within reach, and any other warning would
        # only distract from that.
        if not sums.products.any() and self.n_dead_ <= MUCH_DEAD * len(W):
            sample = scale_rows(rows.glance(), normalize=self.normalize)
            most = 2 * float(np.abs(self.kernel_(sample, to_host(self.components_))).max())
            warn_user(
                f"sparsity={self.sparsity:g} makes the codes of all rows zero, so that nothing was learned; "
                f"use a sparsity below {most:.3g}, twice the largest k(w, x), such as {0.1 * most:.2g}"
            )
            return
        result.warn_if_unfinished(self)
        self._warn_of_unsolved(float(sums.unsolved), rows.n_rows)
        if self.n_dead_ > MUCH_DEAD * len(W):
            warn_user(
                f"{self.n_dead_} of {len(W)} basis vectors are dead: no row has k(w, x) of 0.01; use a "
                "smaller gamma, such as gamma='median', fewer n_components, or normalize=True"
            )

    def _warn_of_unsolved(self, n: float, n_rows: int) -> None:
        if n > 0:
            warn_user(
                f"the codes of {n:.0f} of {n_rows} rows did not reach a relative duality gap of "
                f"tol={self.tol:g}; raise tol or sparsity",
                ConvergenceWarning,
            )


def _gauss_newton(gradient: np.ndarray, sums: CodingSums, *, metric: float) -> np.ndarray:
    """Divide by the second derivative of the fit with codes held fixed, without what couples basis vectors.

    By w_p that is about ``2 mean_i s_ip² |dφ(w)/dw|²``.
    """
    curvature = 2 * metric * np.diag(sums.products)
    # A basis vector that hardly any row uses has almost no curvature, and would move very far: at least 5 %
    # of the mean.
    least = max(0.05 * curvature.mean(), np.finfo(float).tiny)
    move: np.ndarray = gradient / np.maximum(curvature, least)[:, None]
    return move
