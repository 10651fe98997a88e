"""One Lloyd step on float32 rows at twice their speed: bfloat16 finds the candidates, float32 decides.

Products of bfloat16 take half the time and are wrong by at most a bound that we know. For a row y (less
the shift), a centre c and their rounded copies y', c', the inequality of Cauchy and Schwarz gives

    |<y, c> - <y', c'>|  <=  |y - y'| |c| + |y'| |c - c'|,

where all four lengths are computed, not guessed. The bound becomes part of the score: one more pair of
features, (|y'|, |y - y'|) of a row and (|c - c'|, |c|) of a centre, adds it in the same product. So what
is ranked is the most that the score of each centre can be. Where the size of a score counts and not its
sign, the centres have unit length, and one margin for all of them is added to the size.

Ranked are the three best groups of two centres. Those of the first group are scored in float32; those of
the second too, if its rank reaches that far. If the third reaches as far, there may be more, and the row
is left open for the plain float32 step. So a label is always that of the best float32 score, and of equal
scores the lowest index, as without the screen. Overflow and underflow widen the bound, and leave rows open
too.

On Gaussian rows, which have no clusters, at most two rows in a hundred stay open. Where it would be
many, as among centres that are nearly the same, the screen gives up and leaves the rest of the block.
"""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

import numpy as np

from clusterica.ops.cpu import avx512
from clusterica.ops.cpu.adding import StepArrays, add_rows, invert_lengths
from clusterica.ops.cpu.avx512 import (
    GROUP,
    LANES,
    PANEL_CENTERS,
    PANEL_ROWS,
    RANKS,
    at,
    prefetch,
    round_row,
    screen_panel,
    transpose_words,
    two_dots,
    word_above,
)
from clusterica.ops.cpu.compiling import compiled, inlined

_MOST_FEATURES, _MOST_CENTERS = 2**14, 2**15  # keep the relative errors in the margin small
# The share of open rows from which the float32 step alone is faster.
_MOST_OPEN = 0.25


class Screened(NamedTuple):
    """How far the screen went, which of the rows before that are open, and the gain of the others."""

    stop: int
    open: np.ndarray
    gain: float


class _Panels(NamedTuple):
    """Centres as the screen reads them: rounded, by panels of PANEL_CENTERS, the last one padded."""

    words: np.ndarray  # (n_panels, n_words, PANEL_CENTERS)
    start: np.ndarray  # (n_panels, PANEL_CENTERS), what a score is before the products
    group_bits: int  # mask of the bits that number a group
    longest: np.float32  # the largest |c|
    worst: np.float32  # the largest |c - c'|
    most_bias: np.float32


def can_screen(X: np.ndarray, C: np.ndarray) -> bool:
    """Whether the processor can screen these rows, and their sizes allow a small margin."""
    k, d = C.shape
    small = 1 <= d <= _MOST_FEATURES and 1 <= k <= _MOST_CENTERS
    return X.dtype == np.float32 and X.flags.c_contiguous and small and avx512.has_bfloat16()


def screen(
    X: np.ndarray,
    C: np.ndarray,
    shift: np.ndarray,
    step: StepArrays,
) -> Screened:
    """Assign rows and add them to the sums and counts as the float32 step does, but leave some open."""
    panels = _make_panels(C, step.bias, step.rule.ignores_sign)
    is_open = np.zeros(X.shape[0], np.bool_)
    # 64 KiB, at most eight panels: the words of the rows of a tile stay in the second cache, while those of
    # the centres pass by.
    size = 2**16 // (2 * X.shape[1]) // PANEL_ROWS * PANEL_ROWS
    size = int(np.clip(size, PANEL_ROWS, 8 * PANEL_ROWS))
    stop, gain = _screen_tiles(X, C, shift, panels, size, _MOST_OPEN, *step, is_open)
    return Screened(stop, is_open[:stop], gain)


def _make_panels(C: np.ndarray, bias: np.ndarray, size_only: bool) -> _Panels:
    k, d = C.shape
    n_panels, n_words = ceil(k / PANEL_CENTERS), ceil(d / 2) + (not size_only)
    words = np.zeros((n_panels, n_words, PANEL_CENTERS), np.int32)
    # Nothing is as bad as the centres that pad the last panel; of a size, 0 is as small as can be.
    start = np.full((n_panels, PANEL_CENTERS), 0 if size_only else -3e38, np.float32)
    start.ravel()[:k] = (_rounding(d) - 1) * bias
    n_groups = n_panels * PANEL_CENTERS // GROUP
    group_bits = 2 ** (n_groups - 1).bit_length() - 1
    longest, worst = _round_centers(C, words, size_only)
    bounds = (np.float32(value) for value in (longest, worst, bias.max()))
    return _Panels(words, start, group_bits, *bounds)


@compiled
def _round_centers(C, words, size_only):  # type: ignore[no-untyped-def]
    """Fill the words of all panels; return the largest length of a centre and of its rounding error."""
    k, d = C.shape
    no_shift = np.zeros(d, np.float32)
    row = np.empty(_width(d), np.int32)
    longest, worst = np.float32(0), np.float32(0)
    for j in range(k):
        energy, error = round_row(at(C, j * d), at(no_shift, 0), d, at(row, 0))
        length, error = _length(energy, d), _length(error, d)
        longest = longest if length <= longest else length  # in this order, so that NaN stays
        worst = worst if error <= worst else error
        if not size_only:
            row[words.shape[1] - 1] = word_above(error, length)
        for w in range(words.shape[1]):
            words[j // PANEL_CENTERS, w, j % PANEL_CENTERS] = row[w]
    return longest, worst


@compiled
def _width(n_features):  # type: ignore[no-untyped-def]
    """Words of a row and one more, in whole vectors."""
    return ((n_features + 1) // 2 + LANES) // LANES * LANES


@compiled
def _length(energy, n_features):  # type: ignore[no-untyped-def]
    """An upper bound of a length, from the sum of its squares in float32, where tiny ones are lost.

    The product of two such bounds also exceeds all products of bfloat16 that are lost in a sum.
    """
    tiny = np.float32(np.sqrt(n_features) * 2.0**-61)
    return np.sqrt(energy) * np.float32(1 + (n_features + 4) * 2.0**-23) + tiny


@compiled
def _rounding(n_features):  # type: ignore[no-untyped-def]
    """How far scores may be off as sums, in units of |y| |c| + bias: the rounded one and two in float32.

    Each addition may be off by 2^-24 of its size. The rounded score has at most n_features + 3, which we
    take to be off by twice as much, whatever the processor does inside a pair; the score in float32 has
    n_features + 1, here and in the plain step, with which it is to agree. Lengths of rounded rows and
    centres are up to 2^-8 longer. Together less than (2.1 n_features + 6) 2^-23.
    """
    return (3 * n_features + 8) * 2.0**-23


@compiled
def _screen_tiles(  # type: ignore[no-untyped-def]
    X, C, shift, panels, size, most_open, bias, weights, labels, scores, rule, sums, counts, is_open
):
    (n, d), k = X.shape, C.shape[0]
    words = np.zeros((size // PANEL_ROWS, _width(d), PANEL_ROWS), np.int32)
    ranks = np.empty((size // PANEL_ROWS, RANKS, PANEL_ROWS), np.float32)
    energy, margin = np.empty(size, np.float32), np.empty(size, np.float32)
    best, todo = np.empty(size, np.int32), np.empty(size, np.int32)
    w = np.empty(size, weights.dtype)
    negatives = k if rule.both_signs else 0
    gain, n_open, stop = 0.0, 0, 0
    while stop < n and n_open <= most_open * stop:
        start, stop = stop, min(stop + size, n)
        tile, score, label = X[start:stop], scores[start:stop], labels[start:stop]
        _round_tile(tile, shift, panels, rule, words, energy, margin)
        _rank(words, panels, rule, stop - start, ranks, X[stop : stop + size])
        n_left = _decide(
            tile, C, shift, bias, panels.group_bits, rule, margin, ranks, best, score, todo
        )
        for t in range(n_left):
            is_open[start + todo[t]] = True
            score[todo[t]], energy[todo[t]] = 0, 1  # finite, so that it adds nothing with weight 0
        n_open += n_left
        for i in range(stop - start):
            label[i] = best[i] + negatives * (score[i] < 0)
        if sums.shape[0]:
            for i in range(stop - start):
                w[i] = weights[start + i] * (not is_open[start + i])
                counts[label[i]] += w[i]
            if rule.unit_rows:
                invert_lengths(tile, shift, energy)
            gain += add_rows(tile, shift, best, score, energy, w, rule, sums)
    return stop, gain


@inlined
def _round_tile(X, shift, panels, rule, words, energy, margin):  # type: ignore[no-untyped-def]
    """Round rows to bfloat16, and turn sixteen at a time so that a vector holds one word of each.

    The margin is the bound where it is not part of the scores, and infinite where they may overflow.
    """
    (n, d), width, last = X.shape, words.shape[1], panels.words.shape[1] - 1
    longest, worst, most_bias = panels.longest, panels.worst, panels.most_bias
    rounding = np.float32(_rounding(d))
    rounded = np.zeros((LANES, width), np.int32)
    length, error = np.empty(LANES, np.float32), np.empty(LANES, np.float32)
    for first in range(0, n, LANES):
        some = min(LANES, n - first)
        for r in range(some):
            energy[first + r], error[r] = round_row(
                at(X, (first + r) * d), at(shift, 0), d, at(rounded, r * width)
            )
        # The two factors of the bound, in a loop of its own, which vectorises.
        for r in range(some):
            off = _length(error[r], d)
            length[r] = _length(energy[first + r], d) + off
            error[r] = off + rounding * length[r]
            # A little more than the bound, since it is rounded itself.
            bound = np.float32(1.001) * (length[r] * worst + error[r] * longest)
            fits = length[r] * (longest + worst) + most_bias < np.float32(1e37)  # no sum overflows
            reach = bound if rule.ignores_sign else np.float32(0)
            margin[first + r] = reach if fits else np.float32(np.inf)
        if not rule.ignores_sign:
            for r in range(some):
                rounded[r, last] = word_above(length[r], error[r])
        panel, lane = divmod(first, PANEL_ROWS)
        for word in range(0, width, LANES):
            place = (panel * width + word) * PANEL_ROWS + lane
            transpose_words(at(rounded, word), width, at(words, place))


@inlined
def _rank(rows, panels, rule, n_rows, ranks, following):  # type: ignore[no-untyped-def]
    """Rank the groups of centres for every row of a tile by what their scores can be at most.

    The products do not need the memory, so the following tile is loaded meanwhile, a part at a time.
    """
    n_panels, n_words, _ = panels.words.shape
    n_row_panels = (n_rows + PANEL_ROWS - 1) // PANEL_ROWS
    size_only = rule.ignores_sign
    ranks[:] = -np.inf
    part = following.size // (n_panels * n_row_panels) + 1
    place = 0
    for p in range(n_panels):
        group = np.int32(p * (PANEL_CENTERS // GROUP))
        for r in range(n_row_panels):
            until = min(place + part, following.size)
            while place < until:
                prefetch(at(following, place))
                place += LANES
            screen_panel(
                at(rows, r * rows.shape[1] * PANEL_ROWS),
                at(panels.words, p * n_words * PANEL_CENTERS),
                at(panels.start, p * PANEL_CENTERS),
                n_words,
                group,
                np.int32(panels.group_bits),
                size_only,
                at(ranks, r * RANKS * PANEL_ROWS),
            )


@inlined
def _decide(  # type: ignore[no-untyped-def]
    X, C, shift, bias, group_bits, rule, margin, ranks, best, score, todo
):
    """Find the best float32 score of every row among the groups that reach it.

    Returns the number of rows for which there may be more groups; their indices are the first in todo.
    """
    numbers, unit = ranks.view(np.int32), np.float32((group_bits + 1) * 2.0**-23)
    size_only = rule.ignores_sign
    n = X.shape[0]
    score[:] = -np.inf
    best[:] = 0
    for i in range(n):
        todo[i] = i
    for q in range(RANKS):
        n_before, n = n, 0
        for t in range(n_before):  # without a branch: nobody can predict these
            i = todo[t]
            rank = ranks[i // PANEL_ROWS, q, i % PANEL_ROWS]
            # The bits of the number in a rank may hide that much of the score.
            todo[n] = i
            n += not rank + unit * abs(rank) + margin[i] < _size(score[i], size_only)
        if q == RANKS - 1:
            break
        for t in range(n):
            i = todo[t]
            if margin[i] < np.inf:
                group = numbers[i // PANEL_ROWS, q, i % PANEL_ROWS] & group_bits
                best[i], score[i] = _better(
                    X, C, shift, bias, i, GROUP * group, size_only, best[i], score[i]
                )
    return n


@compiled
def _better(X, C, shift, bias, i, first, size_only, c, score):  # type: ignore[no-untyped-def]
    """Return the better of the best centre so far and a group, with its score, in float32."""
    k, d = C.shape
    if first >= k:
        return c, score
    second = min(first + 1, k - 1)
    s0, s1 = two_dots(at(X, i * d), at(shift, 0), at(C, first * d), at(C, second * d), d)
    s0, s1 = s0 - bias[first], s1 - bias[second]
    v0, v1, top = _size(s0, size_only), _size(s1, size_only), _size(score, size_only)
    j, s, v = (second, s1, v1) if v1 > v0 else (first, s0, v0)
    better = v > top or (v == top and j < c)
    return (np.int32(j), s) if better else (c, score)


@compiled
def _size(score, size_only):  # type: ignore[no-untyped-def]
    """What is compared; minus infinity stands for no score yet."""
    return abs(score) if size_only and score > -np.inf else score
