r"""Kernel ridge on features too wide to store: :math:`K = \sum_b F_b F_b^\top` over blocks of columns.

A block of features is computed for all rows, standardised, multiplied into K and thrown away.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import array_api_compat
import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from clusterica.arrays import (
    AccuracyMixin,
    Array,
    Estimator,
    Interval,
    Place,
    Rows,
    StrOptions,
    as_chunks,
    as_generator,
    as_rows,
    check_labels,
    check_rows,
    check_scale,
    device_of,
    engine_name,
    fit_context,
    map_chunks,
    namespace_of,
    take,
    to_host,
    working_dtype,
)
from clusterica.linear._gram import (
    Gram,
    GramProblem,
    check_block,
    energies,
    here,
    rbf,
    row_pieces,
    wide,
)
from clusterica.linear._held_out import fit_temperature, probabilities
from clusterica.ops.margin import winners

# From 1,024 to 32,768 columns at a time take the same time within a tenth.
COLUMNS = 4096


class KernelRidgeClassifier(AccuracyMixin, ClassifierMixin, Estimator):
    r"""Kernel ridge regression to targets of 1 and -1, one classifier for each class.

    With the Gram matrix K of standardised features, or an RBF of it, the decisions are :math:`K A + b` with
    :math:`A = (K + \alpha I)^{-1} (Y - b)`. K takes ``n_samples**2`` numbers however many features there
    are, and it is a sum over blocks of them: ``features`` makes the blocks, and none is kept.

    Parameters
    ----------
    kernel : {"linear", "rbf"}, default="rbf"
        K itself, or :math:`\exp(-\gamma \|z_i - z_j\|^2)` of the standardised features z.
    alpha : float or "auto", default="auto"
        Regularisation, as in scikit-learn's ``KernelRidge``. "auto" takes the value with the best accuracy on
        training rows that are left out: one at a time without landmarks, and with them every fifth row of
        each class. Of more than 20,000 rows or landmarks 20,000 are drawn at random, and values are compared
        on these, one left out at a time.
    gamma : float or "auto", default="auto"
        Width of the RBF: 1 over the squared distance at which it falls to 1/e. "auto" chooses it likewise.
    features : callable or None, default=None
        ``features(X)`` returns an iterable of blocks of columns, each of shape (n_samples, n_block), the same
        blocks on every call. None takes X itself as the features.
    standardize : bool, default=True
        Give all features mean 0 and variance 1.
    n_landmarks : int, "auto" or None, default=None
        Number of training rows, drawn at random, that span the solution (Nystroem's approximation). None
        takes all: exact, for as many rows as memory allows. "auto" takes all rows if their products fit in
        memory (see Notes), and else as many landmarks as do.
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
    validation_accuracy_ : float
        Accuracy on training rows that the classifier did not see: leave-one-out, and with landmarks that on
        every fifth row of each class. Means, deviations and the intercept are those of all rows.
    validation_decisions_ : ndarray of shape (n_samples,) or (n_samples, n_classes)
        The decisions on these rows; NaN with landmarks on rows that were not held out.
    temperature_ : float
        Divides the decisions in :meth:`predict_proba`: the value with the smallest log loss on
        ``validation_decisions_``.
    search_ : dict
        Values of alpha and gamma that were tried, and their accuracies, on the rows that ``alpha`` names.
    coef_ : list of arrays (n_block, n_targets)
        Weights of the features, block by block, of wide blocks in parts; with the linear kernel, which keeps
        no rows.
    X_fit_ : array
        Rows that the RBF compares new ones with: all training rows, or the landmarks.
    kept_nbytes_ : int
        Memory of what is kept for predictions.
    n_features_in_ : int
        Number of columns of X, if ``features`` is None.

    Notes
    -----
    Besides the features, of which at most 4,096 columns of a block are standardised at a time, fit takes up
    to ``24 * n_samples**2`` bytes, or ``18 * n_samples * n_landmarks + 16 * n_landmarks**2`` with landmarks.
    It refuses if that is over a quarter of the memory of this machine, half of that of a GPU, or the budget
    that is set by :func:`clusterica.config_context`. A prediction of the linear kernel
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
        "n_landmarks": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"}), None],
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
        n_landmarks: int | str | None = None,
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
            The data: array, tensor, Dask array, file or blocks. The work is done where the blocks of features
            are; of a Dask array the products of rows are fetched, and the rows in ``X_fit_``. Files and
            blocks are read into memory.
        y : array-like of shape (n_samples,), or the labels of every block of X
            Labels.

        Returns
        -------
        self : KernelRidgeClassifier
        """
        X = self._checked(X, reset=True)
        n = len(X)
        self.classes_, codes = check_labels(self, y, n, min_classes=2)
        Y = np.where(codes[:, None] == np.arange(len(self.classes_)), 1.0, -1.0)
        # Of two classes one column is enough: the other is its negative.
        Y = Y[:, 1:] if len(self.classes_) == 2 else Y
        gram, chosen = self._gram(X)
        # The intercept is not penalised: it is the mean of the targets, since features are centred.
        self.intercept_ = Y.mean(axis=0)
        problem = GramProblem(
            gram,
            Y - self.intercept_,
            codes,
            self.intercept_,
            kernel=self.kernel,
            alpha=self.alpha,
            gamma=self.gamma,
            landmarks=chosen,
        )
        best = problem.solve()
        self.dual_coef_, self.alpha_, self.gamma_ = best.A, best.alpha, best.gamma
        self.validation_accuracy_ = best.score[0]
        assert best.decisions is not None
        decisions = best.decisions + self.intercept_
        self.validation_decisions_ = decisions[:, 0] if len(self.classes_) == 2 else decisions
        self.temperature_ = fit_temperature(decisions, codes)
        self.search_ = {
            "alpha": np.array([o.alpha for o in problem.tried]),
            "gamma": np.array([np.nan if o.gamma is None else o.gamma for o in problem.tried]),
            "accuracy": np.array([o.score[0] for o in problem.tried]),
        }
        self._set_kept(X, chosen)
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
        chunks = as_chunks(X)
        if chunks is not None:
            n_classes = len(self.classes_)
            like = np.empty((1,) if n_classes == 2 else (1, n_classes))
            # A copy: the result is lazy, and must not change if this classifier is fitted again.
            frozen = copy(self)
            return map_chunks(lambda X: to_host(frozen.decision_function(X)), chunks, like=like)
        # Summed over the blocks of features, of which only one is in memory.
        decisions: Any = 0.0
        if self.kernel == "linear":
            for F, W in zip(self._blocks(X), self.coef_, strict=True):
                decisions = decisions + wide(F @ Place(F).put(W))
        else:
            cross: Any = 0.0
            squares: Any = 0.0
            own: Any = 0.0
            for F, L in zip(self._blocks(X), self._blocks(self.X_fit_), strict=True):
                L = Place(F).put(L)  # new rows may be tensors where the rows of fit were arrays
                cross = cross + wide(F @ L.T)
                squares, own = squares + energies(F), own + energies(L)
            D = squares[:, None] + own[None, :] - 2 * cross
            decisions = rbf(D, self.gamma_) @ Place(D).put(self.dual_coef_)
        decisions = decisions + Place(decisions).put(self.intercept_)
        return decisions[:, 0] if len(self.classes_) == 2 else decisions

    def predict(self, X: Any) -> np.ndarray:
        """Return the predicted class of every row.

        Parameters
        ----------
        X : as in fit
            The data.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        decisions = np.asarray(to_host(self.decision_function(X)))
        return np.asarray(self.classes_[winners(decisions.reshape(len(decisions), -1))])

    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities of the classes.

        They are the softmax of the decisions (for two classes the sigmoid of the one decision) divided by
        ``temperature_``.

        Parameters
        ----------
        X : as in fit
            The data.

        Returns
        -------
        probabilities : array of shape (n_samples, n_classes)
            In the order of ``classes_``.
        """
        return probabilities(self.decision_function(X), self.temperature_)

    def _checked(self, X: Any, *, reset: bool) -> Any:
        if self.features is not None:
            # Only the function itself can check what it takes.
            return X if hasattr(X, "shape") else np.asarray(X)
        least = 2 if reset else 1
        if array_api_compat.is_torch_array(X) or engine_name(X) is not None:
            check_rows(self, X, reset=reset, min_rows=least)
            xp = namespace_of(X)
            return xp.astype(X, getattr(xp, working_dtype(X.dtype).name), copy=False)
        rows = check_rows(self, X, reset=reset, min_rows=least)
        X = self._read(rows)
        check_scale(as_rows(X))
        return X

    def _read(self, rows: Rows) -> np.ndarray:
        """Return all rows as one array, contiguous, so that the last bits do not depend on the layout."""
        size, room = rows.n_rows * rows.row_nbytes, rows.place.fit_memory
        # Rows in memory, and in a mapped file, are there already.
        if rows.streamed and not rows.indexable and size > room:
            raise ValueError(
                "KernelRidgeClassifier reads all rows of a file or of blocks at once: these take "
                f"{size / 2**20:.4g} MiB, over the {room / 2**20:.4g} MiB that they may take; pass fewer "
                "rows, or raise that with clusterica.config_context(memory=...)"
            )
        parts = [load() for _, _, load in rows.source_blocks(rows.n_rows)]
        return np.asarray(parts[0] if len(parts) == 1 else np.concatenate(parts))

    def _raw_blocks(self, X: Any) -> Iterator[Array]:
        """Yield blocks of features as they come; on a cluster they stay there until the next one."""
        for F in (X,) if self.features is None else self.features(X):
            check_block(F, len(X))
            chunks = as_chunks(F)
            if chunks is not None:
                F = map_chunks(lambda F: F, chunks, like=F[:1], keep=True)
            yield F

    def _blocks(self, X: Any) -> Iterator[Array]:
        """Yield blocks of standardised features, by the mean and deviation of the training rows.

        They are cut as fit did: a model of an older version may have learned wide blocks as a whole.
        """
        standards = iter(self._standards)
        for block in self._raw_blocks(X):
            start, width = 0, block.shape[1]
            while start < width:
                mean, scale = next(standards, (None, None))
                if mean is None or start + len(mean) > width:
                    raise _other_blocks()
                F = block[:, start : start + len(mean)]
                start += len(mean)
                place = Place(F)
                yield (F - place.put(mean)) * place.put(scale) if self.standardize else F
        if next(standards, None) is not None:
            raise _other_blocks()

    def _gram(self, X: Any) -> tuple[Gram, np.ndarray | None]:
        """Learn means and deviations of the features, and sum products over their blocks.

        Returns the sums, and the rows that are landmarks, None for all.
        """
        self._standards: list[tuple[np.ndarray, np.ndarray]] = []
        products: Any = None
        chosen = None
        squares: Any = 0.0
        for F in narrow_blocks(self._raw_blocks(X)):
            # The first block shows where the work is done, and so how much memory there is.
            if products is None:
                chosen = self._landmarks(len(X), Place(F).fit_memory)
            xp = namespace_of(F)
            mean, deviation = here(xp.mean(F, axis=0)), here(xp.std(F, axis=0))
            # A constant feature has no scale: it stays 0. Its deviation is the rounding of the mean, by which
            # a new row with another value would be as far from all training rows as floats go.
            varies = here(xp.any(F[:1, :] != F, axis=0))
            xp = namespace_of(mean)
            varies = varies & (deviation > 0)
            scale = xp.where(varies, 1 / xp.where(varies, deviation, 1.0), 0.0)
            self._standards.append((to_host(mean), to_host(scale)))
            Z = (F - mean) * scale if self.standardize else F
            squares = squares + here(energies(Z))
            others = Z if chosen is None else take(Z, chosen)
            # The features may be float32; sums over blocks are float64.
            if products is None:
                shape = (len(X), len(X) if chosen is None else len(chosen))
                products = xp.zeros(shape, dtype=xp.float64, device=device_of(mean))
            if engine_name(Z) is not None:
                products += here(wide(Z @ others.T))
                continue
            # Some rows at a time, without copies as large as the sum; of all pairs of rows one triangle.
            for rows in row_pieces(len(X)):
                first = rows.start if chosen is None else 0
                products[rows, first:] += wide(Z[rows, :] @ others[first:, :].T)
        if products is None:
            raise ValueError("features(X) gave no block; it must give at least one")
        if chosen is None:
            for rows in row_pieces(len(X)):
                products[rows.stop :, rows] = products[rows, rows.stop :].T
        return Gram(products, squares), chosen

    def _landmarks(self, n: int, budget: int) -> np.ndarray | None:
        """Return the rows that span the solution, None for all, if their products fit the budget."""

        def needed(n_landmarks: int) -> int:
            if n_landmarks >= n:
                return 24 * n * n
            # K, the kernel of it and an eighth for pieces of both: 17 or 18; the normal equations and a sum.
            return 18 * n * n_landmarks + 16 * n_landmarks**2

        if self.n_landmarks is None:
            n_landmarks = n
        elif self.n_landmarks == "auto":
            # The larger root of 16 m² + 18 n m = budget, or all rows.
            largest = int((math.sqrt(324 * n * n + 64 * budget) - 18 * n) / 32)
            n_landmarks = n if needed(n) <= budget else max(1, largest)
        else:
            n_landmarks = min(n, int(self.n_landmarks))
        if needed(n_landmarks) > budget:
            remedy = "lower n_landmarks" if n_landmarks < n else "set n_landmarks"
            raise ValueError(
                f"{n} rows need about {needed(n_landmarks) / 2**20:.4g} MiB for products of rows, over the "
                f"{budget / 2**20:.4g} MiB that they may take; raise that with "
                f"clusterica.config_context(memory=...), or {remedy}"
            )
        if n_landmarks == n:
            return None
        rng = as_generator(self.random_state)
        return np.asarray(np.sort(rng.choice(n, size=n_landmarks, replace=False)))

    def _set_kept(self, X: Any, chosen: np.ndarray | None) -> None:
        """Keep weights of features, or the rows that new ones are compared with."""
        # New rows are compared with the landmarks only.
        if chosen is not None:
            X = take(X, chosen)
        if self.kernel == "linear":
            # Weights of the features take the place of the rows: predictions need no training data.
            self.coef_ = []
            for F in self._blocks(X):
                xp = namespace_of(F)
                self.coef_.append(here(xp.astype(wide(F.T) @ self.dual_coef_, F.dtype)))
            self.kept_nbytes_ = sum(to_host(W).nbytes for W in self.coef_)
        else:
            self.X_fit_ = here(X)
            self.kept_nbytes_ = int(np.prod(X.shape)) * to_host(X[:1]).itemsize
            self.kept_nbytes_ += to_host(self.dual_coef_).nbytes


def narrow_blocks(blocks: Iterable[Array]) -> Iterator[Array]:
    """Yield parts of at most COLUMNS columns of each block."""
    # Standardising makes copies: of some columns at a time, since a block may fill half of memory.
    for F in blocks:
        for start in range(0, F.shape[1], COLUMNS):
            yield F[:, start : start + COLUMNS]


def _other_blocks() -> ValueError:
    return ValueError(
        "features(X) gave blocks of other widths than in fit; it must give the same blocks on every call"
    )
