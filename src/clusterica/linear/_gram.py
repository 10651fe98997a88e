"""Kernel ridge ``A = (K + alpha I)^-1 Y`` from a Gram matrix K of rows, with alpha and the width chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from clusterica.arrays import (
    Array,
    Place,
    engine_name,
    namespace_of,
    one_blas_thread,
    pieces,
    take,
    to_host,
)
from clusterica.linear._held_out import every_fifth
from clusterica.ops.margin import winners

# Strengths that "auto" tries, over the mean of the diagonal of K: from where float32 sums still leave K
# positive definite to where K is drowned. Half decades, as the accuracy changes little between them.
ALPHAS = tuple(10.0 ** (e / 2) for e in range(-6, 3))
# Widths that "auto" tries, over the median squared distance of two rows. On pooled codes of images the best
# lies between .05 and .2, on rows of few features it is larger.
GAMMAS = (0.05, 0.1, 0.2, 0.5, 1.0)
# Rows on which "auto" compares values, if there are more: the time of a value grows as the cube of the rows.
SEARCH_ROWS = 20_000
# Most rows of a matrix that are worked on at a time, where a copy of the whole would take too much memory.
ROWS = 4096


class Gram(NamedTuple):
    """Products of standardised rows with all rows or landmarks, and the squared length of each row."""

    products: Array
    squares: Array


class Trial(NamedTuple):
    """A solution for one alpha and gamma; A is None where there is none.

    ``decisions`` are those on rows that the solution did not see, without the intercept; NaN on others.
    """

    score: tuple[float, float]
    alpha: float
    gamma: float | None
    A: Array | None
    decisions: np.ndarray | None = None


@dataclass
class GramProblem:
    """Kernel ridge of targets Y on a Gram matrix, with alpha and gamma given or to be chosen.

    ``landmarks`` are rows that span the solution; None takes all.
    """

    gram: Gram
    Y: np.ndarray
    codes: np.ndarray
    intercept: np.ndarray
    kernel: str
    alpha: float | str
    gamma: float | str
    landmarks: np.ndarray | None = None
    tried: list[Trial] = field(default_factory=list)

    def solve(self) -> Trial:
        """Return the solution on all rows, with the best alpha and gamma on rows that are left out."""
        is_auto = self.alpha == "auto" or (self.kernel == "rbf" and self.gamma == "auto")
        on_some_rows = is_auto and self.gram.products.shape[1] > SEARCH_ROWS
        if on_some_rows:
            fewer = self._of_some_rows()
            chosen = fewer.solve()
            self.alpha, self.gamma = chosen.alpha, chosen.gamma or self.gamma
            self.tried = fewer.tried
            del fewer
        # A given alpha is the only one: there is no search.
        alphas = ALPHAS if self.alpha == "auto" else (None,)
        gammas: tuple[float | None, ...] = (None,)
        if self.kernel == "rbf" and self.gamma == "auto":
            typical = self._typical_distance()
            gammas = tuple(g / typical for g in GAMMAS)
        elif self.kernel == "rbf":
            gammas = (float(self.gamma),)
        found: dict[int, tuple[Trial, int]] = {}

        def at_gamma(i: int) -> Trial:
            def at_alpha(j: int) -> Trial:
                one = self._outcome(gammas[i], alphas[j])
                # An accuracy on all rows would not compare with those on some. Solutions are not kept.
                if not on_some_rows:
                    self.tried.append(one._replace(A=None, decisions=None))
                return one

            # The best alpha of the nearest width is near that of this one.
            nearest = min(found, key=lambda k: abs(k - i), default=None)
            first = len(alphas) // 2 if nearest is None else found[nearest][1]
            found[i] = search_grid(at_alpha, first, len(alphas))
            return found[i][0]

        best, _ = search_grid(at_gamma, min(1, len(gammas) - 1), len(gammas))
        if best.A is None:
            raise ValueError(
                f"the kernel matrix is not positive definite with alpha={best.alpha:g}; raise alpha"
            )
        if self.landmarks is None:
            return best
        # The search solved on four fifths of the rows.
        rows = np.arange(len(self.Y))
        return best._replace(A=self._spanned(self._matrix(best.gamma), rows, best.alpha))

    def _of_some_rows(self) -> GramProblem:
        """Return the same problem with some rows alone, which span its solution; drawn with a fixed seed."""
        n = self.gram.products.shape[1]
        columns = np.sort(np.random.default_rng(0).choice(n, size=SEARCH_ROWS, replace=False))
        rows = columns if self.landmarks is None else self.landmarks[columns]
        products = take(take(self.gram.products, rows), columns, axis=1)
        some = Gram(products, take(self.gram.squares, rows))
        return replace(
            self, gram=some, Y=self.Y[rows], codes=self.codes[rows], landmarks=None, tried=[]
        )

    def _distances(self, every: tuple[int, int] = (1, 1)) -> Array:
        """Return the squared distances, or those of every so many rows and columns; a new array."""
        squares = self.gram.squares
        own = squares if self.landmarks is None else take(squares, self.landmarks)
        # In place: on a GPU two of these matrices may be all that memory holds.
        D = -2 * self.gram.products[:: every[0], :: every[1]]
        D += squares[:: every[0], None]
        D += own[None, :: every[1]]
        return D

    def _typical_distance(self) -> float:
        """Return the median squared distance, or 1 where most rows are equal."""
        n, m = self.gram.products.shape
        # Up to a million pairs are enough for a median.
        some = to_host(self._distances((max(1, n // 1000), max(1, m // 1000))))
        typical = float(np.median(some, overwrite_input=True))
        # Distances of equal rows are rounding, which may be negative.
        rounding = 16 * float(np.finfo(np.float32).eps) * float(np.max(to_host(self.gram.squares)))
        return typical if typical > rounding else 1.0

    def _matrix(self, gamma: float | None) -> Array:
        """Return the kernel of all rows with all rows, or with the landmarks; a new array."""
        if self.kernel == "linear":
            return namespace_of(self.gram.products).asarray(self.gram.products, copy=True)
        D = self._distances()
        for part in row_pieces(len(D)):
            D[part, :] = rbf(D[part, :], gamma)
        return D

    def _outcome(self, gamma: float | None, alpha: float | None) -> Trial:
        """Solve for one width and strength; alpha is that over the mean of the diagonal.

        Where all rows span the solution, the decisions are leave-one-out. With landmarks the solution is that
        of four fifths of the rows, and the decisions are those on the others.
        """
        G = self._matrix(gamma)
        if alpha is None:
            strength = float(self.alpha)
        else:
            own = G if self.landmarks is None else take(G, self.landmarks)
            strength = alpha * mean_diagonal(own)
            del own  # another matrix, with landmarks
        A: Array | None
        decisions = np.full(self.Y.shape, np.nan)
        if self.landmarks is None:
            A, diagonal = solve_ridge(G, strength, Place(G).put(self.Y))
            if A is not None:
                # A fit without row i misses it by A_i / (G + alpha I)^-1_ii: no fit is repeated.
                decisions = self.Y - to_host(A) / to_host(diagonal)[:, None]
        else:
            is_held = every_fifth(self.codes)
            A = self._spanned(G, np.flatnonzero(~is_held), strength)
            if A is not None:
                decisions[is_held] = to_host(take(G, np.flatnonzero(is_held)) @ A)
        if A is None:
            return Trial((-1.0, -np.inf), strength, gamma, None)
        seen = ~np.isnan(decisions[:, 0])
        if not seen.any():
            raise ValueError(
                "no class has two rows, so that none can be held out; give more rows, or n_landmarks=None"
            )
        right = winners(decisions[seen] + self.intercept) == self.codes[seen]
        # The squared error decides between equal accuracies.
        score = float(np.mean(right)), -float(((decisions[seen] - self.Y[seen]) ** 2).mean())
        return Trial(score, strength, gamma, A, decisions)

    def _spanned(self, C: Array, rows: np.ndarray, strength: float) -> Array | None:
        """Solve ``min |Y - C A|² + strength tr(Aᵀ W A)`` with C = k(rows, landmarks), W that of landmarks."""
        assert self.landmarks is not None
        normal, right = 0.0, 0.0
        # Some rows at a time: a copy of all would be nearly as large as C.
        for part in row_pieces(len(rows)):
            some = take(C, rows[part])
            normal += some.T @ some
            right += some.T @ Place(C).put(self.Y[rows[part]])
        own = take(C, self.landmarks)
        own *= strength
        normal += own
        del own
        # A little more on the diagonal: rounding leaves the sum indefinite where landmarks are alike.
        return solve_ridge(normal, 1e-10 * mean_diagonal(normal), right)[0]


def row_pieces(n: int) -> Iterator[slice]:
    """Return slices of n rows, of an eighth of them at most: little beside the matrix, also a small one."""
    return pieces(n, min(ROWS, max(64, n // 8)))


def here(values: Array) -> Array:
    """Return what is computed of a Dask array as NumPy; other arrays as they are, on their device."""
    return values if engine_name(values) is None else to_host(values)


def search_grid(score: Callable[[int], Trial], first: int, n: int) -> tuple[Trial, int]:
    """Return the best of n values on a list and its place, going up from the first until it gets worse."""
    best, at = score(first), first
    for step in (1, -1):
        i = first + step
        while 0 <= i < n and (i - at) * step <= 2:  # past one that is worse: scores are noisy
            one = score(i)
            # Scores are tuples: the accuracy, and of equal ones the smaller error.
            if one.score > best.score:
                best, at = one, i
            i += step
        # Better on this side: scores have one peak, and the other side is not tried.
        if at != first:
            break
    return best, at


def solve_ridge(G: Array, strength: float, B: Array) -> tuple[Array | None, Array | None]:
    """Return ``(G + strength I)^-1 B`` and the diagonal of that inverse; G is overwritten.

    Both are None if the matrix is not positive definite.
    """
    if not isinstance(G, np.ndarray):
        import torch

        G.diagonal().add_(strength)
        # G is symmetric: its transpose is the same matrix in the order that LAPACK takes without a copy.
        factor, info = G.mT, torch.empty((), dtype=torch.int32, device=G.device)
        torch.linalg.cholesky_ex(factor, out=(factor, info))
        if int(info):
            return None, None
        half = torch.linalg.solve_triangular(factor, B, upper=False)
        solution = torch.linalg.solve_triangular(factor.mT, half, upper=True)
        return solution, _inverse_diagonal(factor)
    G.flat[:: len(G) + 1] += strength
    # Threads of BLAS that wait for each other cost more than they gain on small matrices: 8 times the
    # whole fit with 400 rows on a busy machine. From 1,500 rows on they are faster, on two cores.
    with one_blas_thread() if len(G) < 1500 else nullcontext():
        # G is symmetric: its transpose is the same matrix in the order that LAPACK takes without a copy.
        factor, info = scipy.linalg.lapack.dpotrf(G.T, lower=1, overwrite_a=1)
        if info != 0:
            return None, None
        solution, _ = scipy.linalg.lapack.dpotrs(factor, B, lower=1)
        inverse, info = scipy.linalg.lapack.dpotri(factor, lower=1, overwrite_c=1)
    return (None, None) if info != 0 else (solution, inverse.diagonal().copy())


def _inverse_diagonal(L: Any) -> Any:
    """Return the diagonal of ``(L Lᵀ)^-1``, the squared lengths of the columns of ``L^-1``, for a tensor.

    The columns are computed some at a time, with a third of the products of the whole inverse by
    ``torch.cholesky_inverse``, and none of its memory.
    """
    import torch

    cuts = list(row_pieces(len(L)))
    eye = torch.eye(cuts[0].stop, dtype=L.dtype, device=L.device)
    own = [
        torch.linalg.solve_triangular(
            L[cut, cut], eye[: cut.stop - cut.start, : cut.stop - cut.start], upper=False
        )
        for cut in cuts
    ]
    lengths = []
    for i, first in enumerate(cuts):
        columns = torch.zeros((len(L) - first.start, len(own[i])), dtype=L.dtype, device=L.device)
        columns[: len(own[i])] = own[i]
        # Forward substitution, block by block of rows.
        for cut, inverse in zip(cuts[i + 1 :], own[i + 1 :], strict=True):
            top = cut.start - first.start
            seen = L[cut, first.start : cut.start] @ columns[:top]
            columns[top : top + len(inverse)] = -(inverse @ seen)
        lengths.append((columns * columns).sum(dim=0))
    return torch.cat(lengths)


def mean_diagonal(G: Array) -> float:
    """Return the mean of the diagonal."""
    xp = namespace_of(G)
    return float(xp.mean(xp.linalg.diagonal(G)))


def energies(F: Array) -> Array:
    """Return the squared lengths of rows, in float64."""
    return namespace_of(F).sum(wide(F * F), axis=1)


def wide(F: Array) -> Array:
    """Return an array in float64."""
    xp = namespace_of(F)
    return xp.astype(F, xp.float64, copy=False)


def rbf(D: Array, gamma: float | None) -> Array:
    """Return ``exp(-gamma D)`` of squared distances, which rounding may leave below zero."""
    xp = namespace_of(D)
    return xp.exp(-(gamma or 0.0) * xp.clip(D, min=0))


def check_block(F: Any, n_rows: int) -> None:
    """Refuse a block of features that is not a matrix of finite numbers with a row for every sample."""
    if getattr(F, "ndim", 0) != 2 or F.shape[0] != n_rows:
        raise ValueError(
            f"features(X) gave a block of shape {getattr(F, 'shape', None)}; it must be (n_samples, n_block) "
            f"with {n_rows} rows"
        )
    if not bool(namespace_of(F).all(namespace_of(F).isfinite(F))):
        raise ValueError("features(X) gave NaN or infinity; all features must be finite")
