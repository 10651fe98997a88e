r"""Kernel ridge on features too wide to store: :math:`K = \sum_b F_b F_b^\top` over blocks of columns.

A block of features is computed for all rows, standardised, multiplied into K and thrown away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import array_api_compat
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from clusterica.arrays import (
    Array,
    Interval,
    Place,
    StrOptions,
    as_generator,
    check_labels,
    check_rows,
    fit_context,
    namespace_of,
    to_host,
)
from clusterica.linear._gram import (
    Gram,
    Outcome,
    check_block,
    climb,
    energies,
    inverse_of,
    mean_diagonal,
    rbf,
    wide,
)

# Strengths that "auto" tries, over the mean of the diagonal of K: from where float32 sums still leave K
# positive definite to where K is drowned. Half decades, as the accuracy changes little between them.
ALPHAS = tuple(10.0 ** (e / 2) for e in range(-6, 3))
# Widths that "auto" tries, over the median squared distance of two rows. On pooled codes of images the best
# lies between .05 and .2, on rows of few features it is larger.
GAMMAS = (0.05, 0.1, 0.2, 0.5, 1.0)


class KernelRidgeClassifier(ClassifierMixin, BaseEstimator):
    r"""Least squares on targets of 1 and -1 in the space of a kernel, one classifier for each class.

    With the Gram matrix K of standardised features, or an RBF of it, the decisions are :math:`K A + b` with
    :math:`A = (K + \alpha I)^{-1} (Y - b)`. K takes ``n_samples**2`` numbers however many features there
    are, and it is a sum over blocks of them: ``features`` makes the blocks, and none is kept.

    Parameters
    ----------
    kernel : {"linear", "rbf"}, default="rbf"
        K itself, or :math:`\exp(-\gamma \|z_i - z_j\|^2)` of the standardised features z.
    alpha : float or "auto", default="auto"
        Regularisation, as in scikit-learn's ``KernelRidge``. "auto" takes the value with the best
        leave-one-out accuracy on the training rows.
    gamma : float or "auto", default="auto"
        Width of the RBF: 1 over the squared distance at which it falls to 1/e. "auto" chooses it likewise.
    features : callable or None, default=None
        ``features(X)`` returns an iterable of blocks of columns, each of shape (n_samples, n_block), the same
        blocks on every call. None takes X itself as the features.
    standardize : bool, default=True
        Give all features mean 0 and variance 1.
    n_landmarks : int or None, default=None
        Number of training rows, drawn at random, that span the solution (Nystroem's approximation). None
        takes all: exact, for as many rows as memory allows.
    random_state : int, Generator, RandomState or None, default=None
        Draws the landmarks.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    alpha_, gamma_ : float
        The values in use; ``gamma_`` is None for the linear kernel.
    dual_coef_ : array of shape (n_landmarks or n_samples, n_targets)
        The matrix A.
    intercept_ : ndarray of shape (n_targets,)
        The vector b: means of the targets.
    loo_accuracy_ : float
        Leave-one-out accuracy on the training rows; NaN with landmarks, where rows are held out instead.
    search_ : dict
        Values of alpha and gamma that were tried, and their accuracies.
    coef_ : list of arrays (n_block, n_targets)
        Weights of the features, block by block; with the linear kernel, which keeps no rows.
    X_fit_ : array
        Rows that the RBF compares new ones with: all training rows, or the landmarks.
    kept_nbytes_ : int
        Memory of what is kept for predictions.
    n_features_in_ : int
        Number of columns of X, if ``features`` is None.

    Notes
    -----
    fit takes about ``24 * n_samples**2`` bytes (``12 * n_samples * n_landmarks`` with landmarks) and refuses
    if that is over the memory budget of :func:`clusterica.config_context`. A prediction of the linear kernel
    costs the features of the new rows. That of an RBF costs the features of the new rows and of all rows in
    ``X_fit_``, once for every call: predict many rows at a time.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from clusterica.linear import KernelRidgeClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = KernelRidgeClassifier(alpha=0.01, gamma=0.002).fit(X[:1000], y[:1000])
    >>> model.score(X[1000:], y[1000:]) > 0.9
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "kernel": [StrOptions({"linear", "rbf"})],
        "alpha": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "gamma": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "features": [callable, None],
        "standardize": ["boolean"],
        "n_landmarks": [Interval(Integral, 1, None, closed="left"), None],
        "random_state": ["random_state", np.random.Generator],
    }

    def __init__(
        self,
        kernel: str = "rbf",
        *,
        alpha: float | str = "auto",
        gamma: float | str = "auto",
        features: Callable[[Any], Iterable[Array]] | None = None,
        standardize: bool = True,
        n_landmarks: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.alpha = alpha
        self.gamma = gamma
        self.features = features
        self.standardize = standardize
        self.n_landmarks = n_landmarks
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Learn the classifiers.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), or what ``features`` takes
            The data: NumPy array or tensor. The work is done where the blocks of features are.
        y : array-like of shape (n_samples,)
            Labels.

        Returns
        -------
        self : KernelRidgeClassifier
        """
        X = self._checked(X, reset=True)
        n = len(X)
        self.classes_, codes = check_labels(self, y, n)
        Y = np.where(codes[:, None] == np.arange(len(self.classes_)), 1.0, -1.0)
        Y = Y[:, 1:] if len(self.classes_) == 2 else Y
        chosen = None
        if self.n_landmarks is not None and self.n_landmarks < n:
            rng = as_generator(self.random_state)
            chosen = np.sort(rng.choice(n, size=self.n_landmarks, replace=False))
        gram = self._gram(X, chosen)
        self.intercept_ = Y.mean(axis=0)
        if chosen is None:
            self._solve(gram, Y - self.intercept_, codes)
        else:
            self._solve_with_landmarks(gram, chosen, Y - self.intercept_, codes)
        self._keep(X, chosen)
        return self

    def decision_function(self, X: Any) -> Array:
        """Return the decisions: positive for the second of two classes, or one column for each class.

        Parameters
        ----------
        X : as in fit
            The data.

        Returns
        -------
        decisions : array of shape (n_samples,) or (n_samples, n_classes)
        """
        check_is_fitted(self, "dual_coef_")
        X = self._checked(X, reset=False)
        decisions: Any = 0.0
        if self.kernel == "linear":
            for F, W in zip(self._blocks(X), self.coef_, strict=True):
                decisions = decisions + wide(F @ Place(F).put(W))
        else:
            cross: Any = 0.0
            squares: Any = 0.0
            own: Any = 0.0
            for F, L in zip(self._blocks(X), self._blocks(self.X_fit_), strict=True):
                cross = cross + wide(F @ L.T)
                squares, own = squares + energies(F), own + energies(L)
            D = squares[:, None] + own[None, :] - 2 * cross
            decisions = rbf(D, self.gamma_) @ Place(D).put(self.dual_coef_)
        decisions = decisions + Place(decisions).put(self.intercept_)
        return decisions[:, 0] if len(self.classes_) == 2 else decisions

    def predict(self, X: Any) -> np.ndarray:
        """Return the labels.

        Parameters
        ----------
        X : as in fit
            The data.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        decisions = to_host(self.decision_function(X))
        two = len(self.classes_) == 2
        codes = (decisions > 0).astype(int) if two else np.argmax(decisions, axis=1)
        return np.asarray(self.classes_[codes])

    def _checked(self, X: Any, *, reset: bool) -> Any:
        if self.features is not None:
            return X if hasattr(X, "shape") else np.asarray(X)
        if array_api_compat.is_torch_array(X):
            check_rows(self, X, reset=reset, min_rows=2 if reset else 1)
            return X if "float" in str(X.dtype) else X.double()
        return validate_data(
            self,
            X,
            reset=reset,
            dtype=[np.float64, np.float32],
            ensure_min_samples=2 if reset else 1,
        )

    def _raw_blocks(self, X: Any) -> Iterator[Array]:
        """Yield blocks of features as they come."""
        if self.features is not None:
            yield from self.features(X)
            return
        for start in range(0, X.shape[1], 1024):  # columns that are standardised at a time
            yield X[:, start : start + 1024]

    def _blocks(self, X: Any) -> Iterator[Array]:
        """Yield blocks of standardised features, by the mean and deviation of the training rows."""
        for F, (mean, scale) in zip(self._raw_blocks(X), self._standards, strict=True):
            place = Place(F)
            yield (F - place.put(mean)) * place.put(scale) if self.standardize else F

    def _gram(self, X: Any, chosen: np.ndarray | None) -> Gram:
        """Learn means and deviations of the features, and sum products over their blocks."""
        self._standards: list[tuple[np.ndarray, np.ndarray]] = []
        products: Any = None
        squares: Any = 0.0
        for F in self._raw_blocks(X):
            check_block(F, len(X))
            if products is None:
                self._check_memory(F, len(X), None if chosen is None else len(chosen))
            xp = namespace_of(F)
            mean, deviation = xp.mean(F, axis=0), xp.std(F, axis=0)
            # A constant feature has no scale: it stays 0.
            scale = xp.where(deviation > 0, 1 / xp.where(deviation > 0, deviation, 1.0), 0.0)
            self._standards.append((to_host(mean), to_host(scale)))
            Z = (F - mean) * scale if self.standardize else F
            others = Z if chosen is None else xp.take(Z, Place(Z).put(chosen), axis=0)
            # The features may be float32; sums over blocks are float64.
            part = wide(Z @ others.T)
            if products is None:
                products = part
            else:
                products += part
            squares = squares + energies(Z)
        if products is None:
            raise ValueError("features(X) gave no block; it must give at least one")
        return Gram(products, squares)

    def _check_memory(self, F: Array, n: int, n_landmarks: int | None) -> None:
        needed = 24 * n * n if n_landmarks is None else 12 * n * n_landmarks + 24 * n_landmarks**2
        budget = Place(F).memory
        if needed > budget:
            remedy = "set n_landmarks" if n_landmarks is None else "lower n_landmarks"
            raise ValueError(
                f"{n} rows need about {needed / 2**30:.1f} GiB for products of rows, over the memory budget "
                f"of {budget / 2**30:.1f} GiB; raise it with clusterica.config_context(memory=...), or "
                f"{remedy}"
            )

    def _kernels(
        self, gram: Gram, own: Any
    ) -> tuple[tuple[float | None, ...], Callable[[float | None], Array]]:
        """Return the widths to try, and a function from a width to the matrix of the kernel."""
        xp = namespace_of(gram.products)
        if self.kernel == "linear":
            return (None,), lambda gamma: xp.asarray(gram.products, copy=True)
        D = gram.squares[:, None] + own[None, :] - 2 * gram.products
        some = to_host(D[:: max(1, len(D) // 1000), :: max(1, D.shape[1] // 1000)])
        median = float(np.median(some)) or 1.0
        gammas = tuple(g / median for g in GAMMAS) if self.gamma == "auto" else (float(self.gamma),)
        return gammas, lambda gamma: rbf(D, gamma)

    def _solve(self, gram: Gram, Y: np.ndarray, codes: np.ndarray) -> None:
        """Solve exactly, with alpha and gamma by leave-one-out."""
        gammas, kernel = self._kernels(gram, gram.squares)
        targets = Place(gram.products).put(Y)

        def outcome(gamma: float | None, alpha: float | None) -> Outcome:
            G = kernel(gamma)
            strength = float(self.alpha) if alpha is None else alpha * mean_diagonal(G)
            inverse = inverse_of(G, strength)
            if inverse is None:
                return Outcome((-1.0, -np.inf), strength, gamma, None)
            A = inverse @ targets
            # Without row i its residual is A_i / (inverse)_ii.
            left_out = Y - to_host(A) / to_host(namespace_of(G).linalg.diagonal(inverse))[:, None]
            return Outcome(self._score(left_out, Y, codes), strength, gamma, A)

        best = self._search(gammas, outcome)
        self.dual_coef_, self.loo_accuracy_ = best.A, best.score[0]

    def _solve_with_landmarks(
        self, gram: Gram, chosen: np.ndarray, Y: np.ndarray, codes: np.ndarray
    ) -> None:
        """Solve ``min |Y - C A|² + alpha tr(Aᵀ W A)`` with C = k(rows, landmarks), W that of landmarks."""
        xp, place = namespace_of(gram.products), Place(gram.products)
        at = place.put(chosen)
        own = xp.take(gram.squares, at, axis=0)
        gammas, kernel = self._kernels(gram, own)
        is_held = np.arange(len(Y)) % 5 == 0  # every fifth row, to choose alpha and gamma by
        held, rest = (place.put(np.flatnonzero(m)) for m in (is_held, ~is_held))
        targets = place.put(Y)

        def solved(C: Array, rows: Array, strength: float) -> Array | None:
            W, some = xp.take(C, at, axis=0), xp.take(C, rows, axis=0)
            # A little more on the diagonal: rounding leaves the sum indefinite where landmarks are alike.
            normal = some.T @ some + strength * W
            inverse = inverse_of(normal, 1e-10 * mean_diagonal(normal))
            return None if inverse is None else inverse @ (some.T @ xp.take(targets, rows, axis=0))

        def outcome(gamma: float | None, alpha: float | None) -> Outcome:
            C = kernel(gamma)
            W = xp.take(C, at, axis=0)
            strength = float(self.alpha) if alpha is None else alpha * mean_diagonal(W)
            A = solved(C, rest, strength)
            if A is None:
                return Outcome((-1.0, -np.inf), strength, gamma, None)
            found = to_host(xp.take(C, held, axis=0) @ A)
            return Outcome(self._score(found, Y[is_held], codes[is_held]), strength, gamma, A)

        best = self._search(gammas, outcome)
        self.dual_coef_ = solved(kernel(best.gamma), place.put(np.arange(len(Y))), best.alpha)
        self.loo_accuracy_ = np.nan

    def _score(self, found: np.ndarray, Y: np.ndarray, codes: np.ndarray) -> tuple[float, float]:
        """Return the accuracy, and minus the squared error, which decides between equal accuracies."""
        decisions = found + self.intercept_
        labels = np.argmax(decisions, axis=1) if Y.shape[1] > 1 else decisions[:, 0] > 0
        return float(np.mean(labels == codes)), -float(((found - Y) ** 2).mean())

    def _search(
        self,
        gammas: tuple[float | None, ...],
        outcome: Callable[[float | None, float | None], Outcome],
    ) -> Outcome:
        """Return the best of alpha and gamma, climbing from the middle of both lists."""
        tried: list[Outcome] = []

        def at_gamma(i: int, first: int) -> tuple[Outcome, int]:
            def score(j: int) -> Outcome:
                tried.append(outcome(gammas[i], ALPHAS[j] if self.alpha == "auto" else None))
                return tried[-1]

            return climb(score, first, len(ALPHAS) if self.alpha == "auto" else 1)

        begin = len(ALPHAS) // 2 if self.alpha == "auto" else 0
        found: dict[int, tuple[Outcome, int]] = {}

        def at(i: int) -> Outcome:
            nearest = min(found, key=lambda k: abs(k - i), default=None)
            found[i] = at_gamma(i, begin if nearest is None else found[nearest][1])
            return found[i][0]

        best, _ = climb(at, min(1, len(gammas) - 1), len(gammas))
        if best.A is None:
            raise ValueError(
                f"the kernel matrix is not positive definite with alpha={best.alpha:g}; raise alpha"
            )
        self.alpha_, self.gamma_ = best.alpha, best.gamma
        self.search_ = {
            "alpha": np.array([o.alpha for o in tried]),
            "gamma": np.array([np.nan if o.gamma is None else o.gamma for o in tried]),
            "accuracy": np.array([o.score[0] for o in tried]),
        }
        return best

    def _keep(self, X: Any, chosen: np.ndarray | None) -> None:
        """Keep weights of features, or the rows that new ones are compared with."""
        if chosen is not None:
            X = X[chosen] if isinstance(X, np.ndarray) else X[Place(X).put(chosen)]
        if self.kernel == "linear":
            self.coef_ = []
            for F in self._blocks(X):
                xp = namespace_of(F)
                self.coef_.append(xp.astype(wide(F.T) @ self.dual_coef_, F.dtype))
            self.kept_nbytes_ = sum(to_host(W).nbytes for W in self.coef_)
        else:
            self.X_fit_ = X
            self.kept_nbytes_ = int(np.prod(X.shape)) * to_host(X[:1]).itemsize
            self.kept_nbytes_ += to_host(self.dual_coef_).nbytes
