"""The rules of the K-means family: what a row gains from its best centre, and what it adds to it.

The score of a row x and a centre c is the inner product, minus ``|c|^2 / 2`` under the Euclidean rule.
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

Only this file knows the rules apart, and of the kernels for GPUs `_gain_and_share` in ``ops/gpu/sums.py``. To
add a rule, write a subclass of `Rule` with a ``code`` of its own, give the code a line in both functions of
that name, and add an instance to `RULES`, so that the tests of all rules cover it. Its estimator subclasses
``clusterica.cluster._base.BaseKMeans``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from clusterica.arrays import Array, namespace_of
from clusterica.ops.cpu.compiling import compiled
from clusterica.ops.linalg import polar_factor, row_energies, row_lengths, unit_rows


class Assignment(NamedTuple):
    """The best centre of every row and its score, each of shape (n_rows,).

    Where a rule has labels for both signs, a negative score has the label of the centre's negative,
    j + n_centers.
    """

    labels: Array
    scores: Array


class LloydSums(NamedTuple):
    """Sums over rows: what each centre receives, the weight of each label, the gain.

    Shapes (n_centers, n_features), (n_labels,), ().
    """

    sums: Array
    counts: Array
    gain: Array


class Centers(NamedTuple):
    """Centres (n_centers, n_features), their masses (n_centers,), the weight of each label (n_labels,).

    The weights are those of the rows from which the centres were made.
    """

    C: Array
    mass: Array
    counts: Array


class Flags(NamedTuple):
    """What compiled code needs to know of a rule; the names are those of `Rule`."""

    code: int
    ignores_sign: bool
    unit_rows: bool
    both_signs: bool


@dataclass(frozen=True)
class Rule(ABC):
    """How rows and centres are compared, and how centres are made from sums over rows."""

    name: ClassVar[str]
    code: ClassVar[int]
    """Number of the rule in `gain_and_share`."""
    ignores_sign: ClassVar[bool] = False
    """Whether c and -c attract the same rows."""
    unit_centers: ClassVar[bool] = True
    """Whether centres have unit length. Else only differences count: rows and centres may be shifted."""
    unit_rows: ClassVar[bool] = False
    """Whether a row counts by its direction only."""
    both_signs: ClassVar[bool] = False
    """Whether -c has a label of its own: n_centers free centres then make 2 n_centers clusters."""
    maximized: ClassVar[bool] = False
    """Whether the mean gain is reported, larger is better, in place of the inertia."""
    damping: ClassVar[float] = 0.0
    """Mass of a centre before it has received any row."""

    @property
    def flags(self) -> Flags:
        """What compiled code needs to know."""
        return Flags(self.code, self.ignores_sign, self.unit_rows, self.both_signs)

    @property
    def can_be_empty(self) -> bool:
        """Whether a centre that received nothing has to be moved to a row."""
        return True

    @property
    def replayable(self) -> bool:
        """Whether `renew` and `center_bias` never wait for a device, so that a step can be recorded there.

        That is known of the rules of this file; one that is derived from them may override anything.
        """
        return type(self) in (Euclidean, GainShape, Direction, Axis)

    @abstractmethod
    def gains(self, scores: Array, inverse_length: Array | float | None) -> Array:
        """Return what each row adds to the objective; the lengths are used if `unit_rows`."""

    @abstractmethod
    def shares(self, scores: Array, inverse_length: Array | None) -> Array:
        """Return the factor with which each row is added to its centre."""

    def center_bias(self, C: Array) -> Array:
        """Return what is taken from every score of a centre, shape (n_centers,)."""
        return C[:, 0] * 0  # zeros in the library, dtype and on the device of the centres

    def whole(self, X: Array) -> Array:
        """Return the most that each row can gain, shape (n_rows,); the gain falls short by its loss."""
        return row_energies(X)

    def n_labels(self, n_centers: int) -> int:
        """Return the number of clusters that ``n_centers`` free centres make."""
        return n_centers * (2 if self.both_signs else 1)

    def all_centers(self, C: Array) -> Array:
        """Return the centre of every label: after the free ones their negatives, if `both_signs`."""
        return namespace_of(C).concat([C, -C], axis=0) if self.both_signs else C

    def free_centers(self, C: Array) -> Array:
        """Return the free centres among those of all labels."""
        return C[: C.shape[0] // 2, ...] if self.both_signs else C

    def start(self, C: Array) -> Array:
        """Return initial centres as the rule allows them."""
        return C

    def renew(self, total: LloydSums, old: Centers, *, massless: bool = False) -> Centers:
        """Return the centres after one step; a centre that received nothing stays where it was.

        A centre c with mass m stands for a sum ``m c`` of rows seen before; new sums are added to it. A
        full step starts from mass 0, or from the damping of Coates & Ng (2012), section 2.2. Batches
        carry the mass on, so that the damped update becomes the online rule. `massless` says that all
        masses are zero.
        """
        xp = namespace_of(total.sums)
        # In float64: a heavy centre moves by less than the last digit of float32.
        C, mass = xp.astype(old.C, xp.float64), xp.astype(old.mass, xp.float64)
        # Nothing is carried on in most full steps: then a pass over all centres is saved.
        M = total.sums if massless else total.sums + mass[:, None] * C
        C, mass = self._renewed(M, C, mass, total.counts)
        return Centers(xp.astype(C, old.C.dtype), mass, total.counts)

    def _renewed(self, M: Array, C: Array, mass: Array, counts: Array) -> tuple[Array, Array]:
        """Return centres and masses from the sums M: ``c <- M / |M|``, ``m <- |M|``."""
        return unit_rows(M, fallback=C), row_lengths(M)


@dataclass(frozen=True)
class Euclidean(Rule):
    """Plain K-means: a centre is the mean of its rows."""

    name = "euclidean"
    code = 0
    unit_centers = False

    def gains(self, scores: Array, inverse_length: Array | float | None) -> Array:
        """Return ``2 score``."""
        return 2 * scores

    def shares(self, scores: Array, inverse_length: Array | None) -> Array:
        """Return one."""
        return namespace_of(scores).ones_like(scores)

    def center_bias(self, C: Array) -> Array:
        """Return ``|c|^2 / 2``."""
        return row_energies(C) / 2

    def _renewed(self, M: Array, C: Array, mass: Array, counts: Array) -> tuple[Array, Array]:
        """Return ``c <- M / m``, ``m <- m + count``."""
        xp = namespace_of(M)
        mass = mass + counts
        filled = mass > 0  # an empty centre stays, and its 0 / 0 is never computed
        return xp.where(filled[:, None], M / xp.where(filled, mass, 1.0)[:, None], C), mass


@dataclass(frozen=True)
class GainShape(Rule):
    """A row is a unit vector times a gain of either sign."""

    name = "gain-shape"
    code = 1
    ignores_sign = True
    damping: float = 1.0  # type: ignore[misc]  # a setting of this rule, a constant of the others

    def gains(self, scores: Array, inverse_length: Array | float | None) -> Array:
        """Return ``score^2``."""
        return scores * scores

    def shares(self, scores: Array, inverse_length: Array | None) -> Array:
        """Return the score."""
        return scores


@dataclass(frozen=True)
class Direction(Rule):
    """Cosines: all rows are scaled to unit length."""

    name = "direction"
    code = 2
    unit_rows = True

    def gains(self, scores: Array, inverse_length: Array | float | None) -> Array:
        """Return ``score / |x|``, the cosine."""
        return scores * inverse_length

    def shares(self, scores: Array, inverse_length: Array | None) -> Array:
        """Return ``1 / |x|``."""
        return inverse_length

    def whole(self, X: Array) -> Array:
        """Return one, and 0 for a row of zeros."""
        energies = row_energies(X)
        return namespace_of(energies).astype(energies > 0, energies.dtype)


@dataclass(frozen=True)
class Axis(Rule):
    """Pairs of opposite centres; `orthogonal` keeps the axes at right angles."""

    name = "axis"
    code = 3
    ignores_sign = True
    both_signs = True
    maximized = True
    orthogonal: bool = False

    @property
    def can_be_empty(self) -> bool:
        """Whether a centre that received nothing has to be moved to a row: not under the constraint."""
        # The polar factor gives every orthogonal centre a direction of its own, rows or none.
        return not self.orthogonal

    @property
    def replayable(self) -> bool:
        """Whether centres are free, too: a polar factor waits for the device."""
        return super().replayable and not self.orthogonal

    def gains(self, scores: Array, inverse_length: Array | float | None) -> Array:
        """Return ``|score|``."""
        return abs(scores)

    def shares(self, scores: Array, inverse_length: Array | None) -> Array:
        """Return ``sign(score)``."""
        return namespace_of(scores).sign(scores)

    def whole(self, X: Array) -> Array:
        """Return ``|x|``."""
        return row_lengths(X)

    def start(self, C: Array) -> Array:
        """Return the polar factor of the centres, if they are kept orthogonal."""
        return polar_factor(C) if self.orthogonal else C

    def _renewed(self, M: Array, C: Array, mass: Array, counts: Array) -> tuple[Array, Array]:
        """Return the unit sums, or under the constraint their polar factor."""
        if not self.orthogonal:
            return super()._renewed(M, C, mass, counts)
        # A row of zeros would make the polar factor arbitrary: the old axis takes its place.
        lengths = row_lengths(M)
        return polar_factor(namespace_of(M).where((lengths > 0)[:, None], M, C)), lengths


EUCLIDEAN, GAIN_SHAPE, DIRECTION, AXIS = Euclidean(), GainShape(), Direction(), Axis()
RULES: tuple[Rule, ...] = (EUCLIDEAN, GAIN_SHAPE, DIRECTION, AXIS)


@compiled
def gain_and_share(score, inverse_length, code):  # type: ignore[no-untyped-def]
    """Return `gains` and `shares` of one row for compiled code.

    Numba keeps compiled code as long as the file of the calling function does not change. After an edit
    here, touch the files in ``ops/cpu`` that call it, or clear ``__pycache__``.
    """
    # By number: compiled code can't call the methods of a rule.
    if code == 0:
        return 2 * score, score - score + 1  # one, of the type of the score
    if code == 1:
        return score * score, score
    if code == 2:
        return score * inverse_length, inverse_length
    return abs(score), score - score + (score > 0) - (score < 0)


def center_counts(centers: Centers) -> Array:
    """Return the weight that each free centre received, that of both its signs together."""
    n_centers, counts = centers.C.shape[0], centers.counts
    return counts if counts.shape[0] == n_centers else counts[:n_centers] + counts[n_centers:]
