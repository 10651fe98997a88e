"""Sparse coding: ``min mean_i ½ |x_i - Dᵀ s_i|² + α |s_i|_1`` over unit atoms D and codes s."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from clusterica.arrays import (
    Interval,
    Rows,
    as_generator,
    as_rows,
    check_model_device,
    check_rows,
    check_scale,
    fit_context,
    map_reduce,
    one_blas_thread,
    shuffled_batches,
    to_host,
    warn_user,
)
from clusterica.dictionaries._alternate import (
    Alternation,
    Coded,
    HostArray,
    draw_candidates,
    first_atoms,
    sums_on_host,
    worst_rows,
)
from clusterica.dictionaries._base import BaseDictionary
from clusterica.encoders import BaseEncoder, SparseEncoder
from clusterica.ops.dictionary import CodeSums, coding_error, lasso_sums, renew_atoms
from clusterica.ops.linalg import row_lengths
from clusterica.optim import LoopResult, LoopState, Step, fit_progress, iterate, stored_draws

# Relative duality gap of the codes of a batch: the atoms need no better codes while they move.
_BATCH_GAP = 1e-3


class Stream(NamedTuple):
    """Where batches go on: faded sums of codes, the number of rows so far, and of atoms replaced."""

    products: HostArray
    moments: HostArray
    uses: HostArray
    n_rows: int
    n_replaced: int


class SparseCoding(BaseDictionary):
    r"""Sparse coding: a dictionary of unit atoms for codes with an L1 penalty, by the lasso.

    Minimises, as [1]_ and [2]_ do,

    .. math::
        \frac1m \sum_i \tfrac12 \|x_i - D^\top s_i\|^2 + \alpha \|s_i\|_1 , \qquad \|d_j\| = 1 ,

    over the atoms :math:`d_j` and the codes :math:`s_i`, alternating: a lasso for every row, then every
    atom in turn. The atoms depend on the rows by :math:`\sum s s^\top` and :math:`\sum s x^\top` alone,
    which a pass over the rows sums up.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of atoms; there may be more than features. None is the number of features.
    alpha : float, default=1.0
        Weight of the penalty. A row whose :math:`|D x|` are all at most :math:`\alpha` has the code zero.
    batch_size : int or None, default=None
        None updates the atoms once per pass over all rows, and the objective never rises. A number updates
        them after every batch of this many rows [2]_; the sums of earlier batches are discounted, since
        their codes are older.
        That needs a few passes over many rows in place of tens. Some thousand rows are a good size.
    init : array-like of shape (n_components, n_features) or None, default=None
        Atoms to begin with; None takes random rows.
    max_iter : int, default=100
        Maximum number of passes over the rows.
    tol : float, default=1e-4
        Ends the fit when a pass changes neither the objective nor (in squared length) the atoms by more than
        this, relative to their size.
    random_state : int, RandomState, Generator or None, default=None
        Seed of all random draws, the same on every device.

    Attributes
    ----------
    components_ : array of shape (n_components_, n_features)
        The atoms D, of unit length, one per row.
    objective_history_ : ndarray
        The objective. Without batches: at the start and after every pass, shape ``(n_iter_ + 1,)``. With
        batches: of every pass, each row with the atoms of its batch, shape ``(n_iter_,)``.
    n_iter_ : int
        Number of passes over the rows, and of batches of partial_fit.
    n_replaced_ : int
        Number of atoms that no row used and that were replaced.
    n_dead_ : int
        Number of atoms that no row uses at the end.
    n_components_ : int
        Number of atoms.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has column names.

    Warns
    -----
    UserWarning
        If alpha makes all codes zero, with a value that does not; if more than 5 % of the atoms are dead.
    ConvergenceWarning
        If the fit did not converge in max_iter passes, or codes were not found well enough.

    See Also
    --------
    clusterica.encoders.SparseEncoder : The codes alone, for any dictionary.
    KSVD : With a number of atoms for every row in place of the penalty.
    KernelSparseCoding : In the space of a kernel.

    Notes
    -----
    An atom that no row uses is replaced by the row that is explained worst, of 2,000 rows drawn at random or
    of 1,000 of the batch. That can't raise the objective, to which an unused atom adds nothing.

    transform returns the codes of :class:`~clusterica.encoders.SparseEncoder`, with their signs.

    References
    ----------
    .. [1] B. A. Olshausen and D. J. Field, "Emergence of simple-cell receptive field properties by learning
       a sparse code for natural images", 1996.
    .. [2] J. Mairal, F. Bach, J. Ponce and G. Sapiro, "Online dictionary learning for sparse coding", 2009.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from clusterica.dictionaries import SparseCoding
    >>> X = load_digits().data / 16
    >>> coding = SparseCoding(32, alpha=0.2, tol=1e-2, random_state=0).fit(X)
    >>> S = coding.transform(X)
    >>> S.shape, bool((S != 0).mean() < 0.5)
    ((1797, 32), True)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseDictionary._parameter_constraints,
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "batch_size": [Interval(Integral, 1, None, closed="left"), None],
    }

    def __init__(
        self,
        n_components: int | None = None,
        *,
        alpha: float = 1.0,
        batch_size: int | None = None,
        init: Any = None,
        max_iter: int = 100,
        tol: float = 1e-4,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.alpha = alpha
        self.batch_size = batch_size
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the atoms.

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
        check_scale(rows, np.float64)  # sums of squares are float64
        rng = as_generator(self.random_state)
        n = self.n_components or rows.n_features
        candidates, _ = draw_candidates(rows, n, rng)
        D = first_atoms(self.init, candidates, n, rng)
        progress = fit_progress(self, self.max_iter, X=X, y=y)
        step: Callable[[Any], Step]
        if self.batch_size is None:
            problem = Alternation(
                rows.n_rows,
                # A tenth of tol for the codes, so that their errors do not pass for changes of the
                # objective.
                partial(self._code, rows, tol=0.1 * self.tol),
                candidates,
                partial(_explain, alpha=float(self.alpha)),
                float(self.alpha),
            )
            coded = problem.start(D)
            step, start = problem.step, LoopState(0, coded, (coded.objective,))
        else:
            step, start = partial(self._pass, rows, rng), LoopState(0, (D, None, _no_batches(D)))
        result = iterate(
            step,
            start,
            max_iter=self.max_iter,
            tol=self.tol,
            progress=progress,
            fitted=lambda params: self._learned(rows, params[0]),
            stored=stored_draws(rng),
        )
        # Both kinds of parameters begin with the atoms and their sums.
        D, sums, *rest = result.params
        if isinstance(result.params, Coded):
            n = result.params.n_replaced
            self._stream = Stream(sums.products, sums.moments, sums.uses, rows.n_rows, n)
        else:
            self._stream = rest[0]
        progress.end()
        self.__dict__.update(self._learned(rows, D))
        self.objective_history_, self.n_iter_ = np.array(result.history), result.n_iter
        self.n_replaced_ = self._stream.n_replaced
        self._warn(result, sums, candidates)
        return self

    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Update the atoms with one batch of rows.

        Without init the first batch chooses the atoms to begin with, as fit does, and has a row for each of
        them at least.
        After fit it goes on from its atoms.

        Parameters
        ----------
        X : as in fit, (n_samples, n_features)
            The batch; some hundred rows at least.
        y : ignored

        Returns
        -------
        self
        """
        first = not hasattr(self, "components_")
        rows = check_rows(self, X, reset=first)
        check_scale(rows, np.float64)  # sums of squares are float64
        if first:
            rng = as_generator(self.random_state)
            n = self.n_components or rows.n_features
            given = self.init is not None  # then the batch may have fewer rows than there are atoms
            sample = rows.glance() if given else draw_candidates(rows, n, rng)[0]
            D = first_atoms(self.init, np.asarray(sample), n, rng)
        else:
            check_model_device(self, rows.home, self.components_)
            D = np.asarray(to_host(self.components_), dtype=np.float64)
        stream = getattr(self, "_stream", None) or _no_batches(D)
        D, self._stream, sums = self._after_batch(rows, D, stream)
        self._are_zero(sums, np.asarray(rows.glance()))
        self.__dict__.update(self._learned(rows, D))
        self.n_iter_ = getattr(self, "n_iter_", 0) + 1
        self.n_replaced_ = self._stream.n_replaced
        self.__dict__.pop("objective_history_", None)  # of an earlier fit
        return self

    def _encoder(self) -> BaseEncoder:
        return SparseEncoder(alpha=self.alpha, split_signs=False)

    def _code(self, rows: Rows, D: HostArray, *, tol: float) -> CodeSums:
        """Return the sums over all rows with the codes by D."""
        fn = partial(lasso_sums, alpha=float(self.alpha), max_iter=1000, tol=tol)
        prepared = SparseEncoder().prepare(D.astype(rows.dtype))
        return sums_on_host(map_reduce(fn, rows, *prepared))

    def _pass(
        self,
        rows: Rows,
        rng: np.random.Generator,
        params: tuple[HostArray, CodeSums | None, Stream],
    ) -> Step:
        """Move the atoms after every batch of one pass over the rows."""
        old, _, stream = params
        D, objective, total = old, 0.0, None
        assert self.batch_size is not None
        for _, batch in shuffled_batches(rows, self.batch_size, rng):
            # A batch counts with the atoms before it moved them, so that no row is coded by atoms that were
            # fitted to it.
            before = D
            D, stream, sums = self._after_batch(batch, D, stream)
            objective += coding_error(sums, before) / 2 + self.alpha * float(sums.length)
            total = sums if total is None else CodeSums(*map(np.add, total, sums))
        change = float(((D - old) ** 2).sum()) / len(D)
        return Step((D, total, stream), objective / rows.n_rows, change)

    def _after_batch(
        self, batch: Rows, D: HostArray, stream: Stream
    ) -> tuple[HostArray, Stream, CodeSums]:
        """Return atoms and sums after a batch, and the sums of the batch."""
        sums = self._code(batch, D, tol=_BATCH_GAP)
        n = stream.n_rows + batch.n_rows
        # The first rows count as if ten for each atom had come before: with few rows in the sums the atoms
        # follow noise. 8,192 rows in batches of 1,024 with 256 atoms: objective 25.99 with 0, 25.86, 25.80,
        # 25.85 with 10, 30, 100; after 24,576 rows 24.78, 24.76, 24.78, 24.96.
        head = 10 * len(D)
        # Codes of early rows belong to early atoms, and fade: the i-th of n rows counts (i / n)^10.
        # Objectives after six passes over 20,000 white patches with powers 1, 3, 10 and 30: 18.03, 17.70,
        # 17.44, 17.32 with 128 atoms, 15.15, 14.96, 14.80, 14.79 with 400; after one pass 30 is the worst.
        fade = ((stream.n_rows + head) / (n + head)) ** 10
        A, B = fade * stream.products + sums.products, fade * stream.moments + sums.moments
        uses, n_replaced = fade * stream.uses + sums.uses, stream.n_replaced
        with one_blas_thread():  # products of small matrices, many times over
            D = renew_atoms(D, A, B)
        # After 100 rows for each atom, one that none of the last tenth of them uses is replaced by a row.
        bad = np.flatnonzero(uses < 0.5) if n >= 100 * len(D) else np.empty(0, int)
        if bad.size:
            sample = np.asarray(batch.glance(), dtype=np.float64)
            sample = sample[row_lengths(sample) > 0]
            bad = bad[: len(sample)]
            D[bad] = worst_rows(sample, _explain(sample, D, alpha=float(self.alpha)), len(bad))
            # What was summed belongs to the atom that is gone.
            A[bad] = B[bad] = A[:, bad] = 0
            n_replaced += bad.size
        return D, Stream(A, B, uses, n, n_replaced), sums

    def _warn(self, result: LoopResult, sums: CodeSums, candidates: HostArray) -> None:
        # With no code at all alpha is too large, and any other warning would only distract from that.
        if self._are_zero(sums, candidates):
            self.n_dead_ = len(sums.uses)
            return
        result.warn_if_unfinished(self)
        # Batches are coded roughly on purpose.
        if float(sums.unsolved) > 0 and self.batch_size is None:
            warn_user(
                f"the codes of {sums.unsolved:.0f} rows did not reach a relative duality gap of a tenth of "
                f"tol={self.tol:g}; raise tol or alpha",
                ConvergenceWarning,
            )
        self._warn_of_dead(sums.uses, "use fewer n_components, a smaller alpha, or more rows")

    def _are_zero(self, sums: CodeSums, some: HostArray) -> bool:
        """Return whether no row has a code; say so, with an alpha for some of the rows."""
        longest = float(row_lengths(some).max())
        are_zero = not sums.uses.any()
        if are_zero and longest > 0:
            warn_user(
                f"alpha={self.alpha:g} makes the codes of all rows zero, so that nothing was learned; use an "
                f"alpha below {longest:.3g}, the length of the longest of {len(some)} rows, such as "
                f"{0.1 * longest:.2g}"
            )
        return are_zero


def _no_batches(D: HostArray) -> Stream:
    """Return the state before the first batch."""
    return Stream(np.zeros((len(D), len(D))), np.zeros_like(D), np.zeros(len(D)), 0, 0)


def _explain(X: HostArray, D: HostArray, *, alpha: float) -> HostArray:
    """Return ``S D`` for rows on the host."""
    S = SparseEncoder(alpha=alpha, split_signs=False, tol=_BATCH_GAP).encode_rows(as_rows(X), D)
    explained: HostArray = S @ D
    return explained
