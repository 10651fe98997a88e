"""The rules of the K-means family: what a row gains from its best centre and what it adds to it.

The score of a row x and a centre c is the inner product, less ``|c|^2 / 2`` under the Euclidean rule.
The rules differ in three small functions of the best score:

===========  =================  ====================  =========================  ===================
rule         best centre        gain of a row         a row adds to its centre   objective
===========  =================  ====================  =========================  ===================
EUCLIDEAN    argmax score       2 score               x                          sum |x|^2 - gain
GAIN_SHAPE   argmax |score|     score^2               score x                    sum |x|^2 - gain
DIRECTION    argmax score       score / |x|           x / |x|                    sum 1 - gain
AXIS         argmax |score|     |score|               sign(score) x              mean gain
===========  =================  ====================  =========================  ===================

EUCLIDEAN is plain K-means, GAIN_SHAPE equation (1) of Coates & Ng (2012), DIRECTION the spherical
K-means of Dhillon & Modha (2001), AXIS equation (4) of Vinnikov & Shalev-Shwartz (2014).
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from clusterica.arrays import namespace_of
from clusterica.arrays._namespace import Array
from clusterica.ops.linalg import row_energies


class Rule(IntEnum):
    """How rows and centres are compared; see the table of this module."""

    EUCLIDEAN = 0
    GAIN_SHAPE = 1
    DIRECTION = 2
    AXIS = 3

    @property
    def ignores_sign(self) -> bool:
        """Whether c and -c attract the same rows."""
        return self in (Rule.GAIN_SHAPE, Rule.AXIS)

    @property
    def unit_centers(self) -> bool:
        """Whether centres have unit length."""
        return self is not Rule.EUCLIDEAN


class Assignment(NamedTuple):
    """The best centre of every row and its score, each of shape (n_rows,).

    Under AXIS the label of a negative score is that of the centre's negative, j + n_centers.
    """

    labels: Array
    scores: Array


class LloydSums(NamedTuple):
    """Sums over rows: what each centre receives, the weight of each label, the gain.

    Shapes (n_centers, n_features), (n_labels,), (); n_labels is 2 n_centers under AXIS.
    """

    sums: Array
    counts: Array
    gain: Array


class FitSums(NamedTuple):
    """Sums over rows: the weight of each label, shape (n_labels,), and the loss (the gain under AXIS)."""

    counts: Array
    objective: Array


def n_labels(C: Array, rule: Rule) -> int:
    """Return how many different labels n_centers free centres give."""
    return C.shape[0] * (2 if rule is Rule.AXIS else 1)


def gains(scores: Array, inverse_length: Array | None, rule: Rule) -> Array:
    """Return what each row adds to the objective."""
    if rule is Rule.EUCLIDEAN:
        return 2 * scores
    if rule is Rule.GAIN_SHAPE:
        return scores * scores
    if rule is Rule.DIRECTION:
        return scores * inverse_length
    return abs(scores)


def shares(scores: Array, inverse_length: Array | None, rule: Rule) -> Array:
    """Return the factor with which each row is added to its centre."""
    xp = namespace_of(scores)
    if rule is Rule.EUCLIDEAN:
        return xp.ones_like(scores)
    if rule is Rule.GAIN_SHAPE:
        return scores
    if rule is Rule.DIRECTION:
        return inverse_length
    return xp.sign(scores)


def center_bias(C: Array, rule: Rule) -> Array:
    """Return what is taken from every score of a centre: ``|c|^2 / 2`` under EUCLIDEAN, else 0."""
    energies = row_energies(C)
    return energies / 2 if rule is Rule.EUCLIDEAN else energies * 0
