"""Centres from sums over rows: the second half of a Lloyd step, for whole data and for batches alike.

A centre c with mass m stands for a sum ``m c`` of rows seen before; new sums are added to it::

    EUCLIDEAN              c <- (m c + sum) / (m + count),        m <- m + count
    unit centres           c <- (m c + sum) / |m c + sum|,        m <- |m c + sum|
    unit and orthogonal    C <- polar factor of (m C + sums),     m <- |m c + sum|

A full step starts from mass 0, or from the damping of Coates & Ng (2012), section 2.2. Batches carry
the mass on, so that the damped update becomes the online rule.
"""

from __future__ import annotations

from typing import NamedTuple

from clusterica.arrays import namespace_of
from clusterica.arrays._namespace import Array
from clusterica.ops.linalg import polar_factor, row_lengths, unit_rows
from clusterica.ops.rules import LloydSums, Rule


class Centers(NamedTuple):
    """Centres (n_centers, n_features), their masses (n_centers,), the weight of each label (n_labels,).

    The weights are those of the rows from which the centres were made.
    """

    C: Array
    mass: Array
    counts: Array


def renew(total: LloydSums, old: Centers, *, rule: Rule, orthogonal: bool = False) -> Centers:
    """Return the centres after one step; a centre that received nothing stays where it was."""
    xp = namespace_of(total.sums)
    C = xp.astype(old.C, xp.float64)
    mass = xp.astype(old.mass, xp.float64)
    M = total.sums + mass[:, None] * C
    if rule is Rule.EUCLIDEAN:
        mass = mass + total.counts
        filled = mass > 0
        C = xp.where(filled[:, None], M / xp.where(filled, mass, 1.0)[:, None], C)
    else:
        mass = row_lengths(M)
        if orthogonal:
            C = polar_factor(xp.where((mass > 0)[:, None], M, C))
        else:
            C = unit_rows(M, fallback=C)
    return Centers(xp.astype(C, old.C.dtype), mass, total.counts)


def center_counts(centers: Centers) -> Array:
    """Return the weight that each free centre received; under AXIS that of its two signs together."""
    n_centers, counts = centers.C.shape[0], centers.counts
    return counts if counts.shape[0] == n_centers else counts[:n_centers] + counts[n_centers:]
