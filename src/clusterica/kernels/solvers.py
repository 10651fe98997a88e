"""Sparse codes of tensors by coordinate descent on the host: ``min_s 0.5 sᵀ G s - bᵀ s + alpha |s|_1``."""

from __future__ import annotations

import numpy as np

from clusterica.arrays import Array, active_config, in_order, to_host, to_like
from clusterica.ops.cpu import lasso as cpu_lasso
from clusterica.ops.cpu.lasso import LassoCodes


def descend_on_host(
    B: Array, energies: Array, G: Array, *, alpha: float, max_iter: int, tol: float
) -> LassoCodes:
    """Copy rows of a tensor to the host, solve them on all threads, and return codes where B is.

    Pass it as ``descend`` to :func:`clusterica.ops.gram_lasso.lasso_of_gram`, which describes the parameters.
    """
    B_host, energies_host, G_host = (to_host(a) for a in (B, energies, G))

    def solve(part: slice) -> LassoCodes:
        args = B_host[part], energies_host[part], G_host
        return cpu_lasso.lasso(*args, alpha=alpha, max_iter=max_iter, tol=tol)

    # One part for each thread, since each call needs work space of its own.
    size = -(-len(B_host) // active_config().n_threads)
    parts = ((slice(start, start + size),) for start in range(0, len(B_host), size))
    found = list(in_order(solve, parts))
    return LassoCodes(*(to_like(np.concatenate(a), B) for a in zip(*found, strict=True)))
