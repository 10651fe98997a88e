"""How well filters explain patches: ``sum_i min over j, s of |x_i - s d_j|^2`` beside ``sum_i |x_i|^2``."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from clusterica.arrays import Array, Place, as_rows, map_reduce, namespace_of, to_host
from clusterica.images._bank import Bank
from clusterica.images._convolve import stages
from clusterica.ops.linalg import row_energies, unit_rows


class Unexplained(NamedTuple):
    """Sums over rows of what is left of their squared length, and of all of it."""

    left: Array
    total: Array


def unexplained(patches: Array, bank: Bank) -> Unexplained:
    """Return what the best filter of each whitened patch leaves of them."""
    if bank.filters is None:
        raise ValueError(
            f"{type(bank.learner).__name__} has no filters to reconstruct patches from; use the score of "
            "the learner itself"
        )
    place = Place.of_work(Place(patches))
    rows = place.put(patches)
    for _, step in stages(bank, place):
        rows = step(rows)
    D = unit_rows(np.asarray(to_host(bank.filters), np.float32))
    return map_reduce(_unexplained, as_rows(rows), D, row_bytes=12 * D.shape[0])


def _unexplained(X: Array, D: Array) -> Unexplained:
    xp = namespace_of(X)
    best, total = xp.max((X @ D.T) ** 2, axis=1), row_energies(X)
    return Unexplained(xp.sum(xp.clip(total - best, min=0)), xp.sum(total))
