"""What an op asks of a kernel k(w, x): values, and their pull ``sum_i Q_ip dk(w_p, x_i)/dw_p``.

Every pull has the form ``scale_p w_p - vector_p``: what multiplies the old basis vector, and the rest. Set
to zero it is the linear equation of a fixed point, ``w_p = vector_p / scale_p``. The kernels themselves
are in ``clusterica.kernels``.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from clusterica.arrays import Array, namespace_of
from clusterica.ops.linalg import unit_rows


class Pull(NamedTuple):
    """A gradient by basis vectors, ``scale[:, None] * W - vector``; sums over blocks add up."""

    scale: Array
    """What multiplies each basis vector, shape (n_basis,)."""
    vector: Array
    """The rest, shape (n_basis, n_features)."""

    def gradient(self, W: Array) -> Array:
        """Return the gradient by W, shape (n_basis, n_features)."""
        return self.scale[:, None] * W - self.vector


class Kernel(Protocol):
    """Methods that a custom kernel must have, in the array API; see :func:`check_kernel`."""

    @property
    def unit_diagonal(self) -> bool:
        """Whether k(x, x) = 1 for all x."""

    def __call__(self, X: Array, W: Array) -> Array:
        """Return k(w_p, x_i), shape (n_rows, n_basis)."""

    def diagonal(self, X: Array) -> Array:
        """Return k(x_i, x_i), shape (n_rows,)."""

    def pull(self, X: Array, W: Array, values: Array, Q: Array) -> Pull:
        """Return ``sum_i Q_ip dk(w_p, x_i)/dw_p``, where `values` is what the kernel returned."""

    def diagonal_pull(self, W: Array, q: Array) -> Pull:
        """Return ``q_p dk(w_p, w_p)/dw_p``."""


# A basis vector is dead if no row has a k(w, x) of this. All its codes are then small, and so are the
# slopes of a kernel of the distance, which would move it back to the rows.
DEAD = 0.01
# Share of dead basis vectors above which a fit warns; the docstrings of the learners promise it.
MUCH_DEAD = 0.05


def gram(kernel: Kernel, W: Array) -> Array:
    """Return k(w_p, w_q), shape (n_basis, n_basis): symmetric, and exact on the diagonal.

    Distances that are a rounding away from zero would make the diagonal of a kernel with a peak jump from one
    W to the next.
    """
    xp = namespace_of(W)
    G = kernel(W, W)
    G = (G + G.T) / 2  # products in another order round differently
    own = xp.eye(W.shape[0], dtype=xp.bool, device=W.device)
    return xp.where(own, kernel.diagonal(W)[:, None], G)


def scale_rows(X: Array, *, normalize: bool) -> Array:
    """Return rows as a kernel sees them: at unit length if `normalize`; rows of zeros stay as they are.

    Rows of a single feature would become 1 or -1, and are refused.
    """
    if not normalize:
        return X
    if X.shape[1] == 1:
        raise ValueError(
            "normalize=True leaves nothing but the sign of a row, since X has n_features=1; use "
            "normalize=False"
        )
    return unit_rows(X)
