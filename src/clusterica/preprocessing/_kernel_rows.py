"""What learners with a kernel ask of rows: a direction, ``x / |x|``, and a scale γ for the kernel."""

from __future__ import annotations

import numpy as np

from clusterica.arrays import Rows, map_reduce, map_rows, namespace_of, to_host
from clusterica.arrays._namespace import Array
from clusterica.ops.kernel_check import check_kernel_on
from clusterica.ops.kernels import Kernel, check_gamma, make_kernel, median_gamma
from clusterica.ops.linalg import unit_rows

_NAMED_ROWS = 5  # that an error lists


def check_directions(rows: Rows) -> None:
    """Raise an error that names rows of zeros, which can't be scaled to unit length.

    So it does for rows of a single feature, which would become 1 or -1.
    """
    if rows.n_features == 1:
        raise ValueError(
            "normalize=True leaves nothing but the sign of a row, since X has n_features=1; use "
            "normalize=False"
        )
    (n_zero,) = map_reduce(_count_zero_rows, rows, row_bytes=8 * rows.n_features)
    if float(n_zero) == 0:
        return
    is_zero = to_host(map_rows(_is_zero, rows, row_bytes=8 * rows.n_features))
    found = np.flatnonzero(is_zero)
    named = ", ".join(map(str, found[:_NAMED_ROWS])) + (", ..." if len(found) > _NAMED_ROWS else "")
    raise ValueError(
        f"{len(found)} of {rows.n_rows} rows are zero (row {named}) and can't be scaled to unit length; "
        "leave them out, or use normalize=False"
    )


def draw_rows(rows: Rows, n: int, rng: np.random.Generator, *, normalize: bool) -> np.ndarray:
    """Return n different rows drawn at random, in host memory, at unit length if asked."""
    chosen = np.sort(rng.choice(rows.n_rows, size=min(n, rows.n_rows), replace=False))
    X = rows.take(chosen)
    return unit_rows(X) if normalize else X


def kernel_for(
    kernel: str | Kernel, gamma: float | str, X: np.ndarray, rng: np.random.Generator
) -> Kernel:
    """Return the kernel that a learner was asked for; γ="median" is found from some rows X.

    A kernel that is given as an object is checked on these rows.
    """
    check_gamma(kernel, gamma)
    if not isinstance(kernel, str):
        check_kernel_on(kernel, X)
        return kernel
    if kernel == "rbf" and isinstance(gamma, str):
        return make_kernel(kernel, gamma=median_gamma(X, rng))
    return make_kernel(kernel, gamma=1.0 if isinstance(gamma, str) else float(gamma))


def _is_zero(X: Array) -> Array:
    return namespace_of(X).all(X == 0, axis=1)


def _count_zero_rows(X: Array) -> tuple[Array]:
    xp = namespace_of(X)
    return (xp.sum(xp.astype(_is_zero(X), xp.int64)),)
