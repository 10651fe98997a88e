"""One Lloyd step on a CUDA tensor by Triton kernels: twins of the ops in :mod:`clusterica.ops.assign`.

`precision` is that of the products that choose the labels:

=============  ==================================================================================
"float32"      float32; from 1,024 centres on, a screen of float16 first rules out most of them
"tf32"         matrix units of float32, with 10 bits of the mantissa
"bfloat16"     halves with 7 bits; rows and centres are rounded as they are read
"float16"      halves with 10 bits, each row and all centres divided by a power of two
=============  ==================================================================================

float32 decides by three products of TF32, which matrix units multiply with its digits. Of equal scores the
lowest index wins under "float32", and any of them under the others.

Scores, gains, sums and losses are of float32 numbers under all of them, added up in float64.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
import triton

from clusterica.arrays import Array, Row, working_memory
from clusterica.ops import assign as reference
from clusterica.ops.assign import FitSums
from clusterica.ops.gpu import nearest, sums
from clusterica.ops.gpu.tiling import DOT, KernelTiling, chunk_widths, tiling_for
from clusterica.ops.rules import Assignment, LloydSums, Rule

# Rows of a piece of a cluster. Fewer make more programs and more partial sums: with 512 of them, 400,000 rows
# in 1,600 clusters make at most 2,381 partial sums, 18 for each multiprocessor of an H200. Not measured yet.
PIECE = 512

# Centres from which a screen pays. Below, its look at every row takes longer than the products that it saves.
SCREENED_CENTERS = 1024

_HALVES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "screened": torch.float16}


class RoundedCenters(NamedTuple):
    """Centres as the kernels read them."""

    C: Array
    """In float32, (n_centers, n_features)."""
    bias: Array
    """Of the float32 scores, (n_centers,)."""
    words: Array
    """In the precision of the products, padded by zeros to whole tiles."""
    word_bias: Array
    """Of the rounded scores."""
    bounds: Array
    """The largest |c|^2, |c - c'|^2 and |bias|, as rounded scores have them; for a screen."""


@working_memory(lambda row, C, shift: _bytes(row), wide_sums=True)
def best_labels(X: Array, C: Array, shift: Array | None, *, rule: Rule, precision: str) -> Array:
    """Return the label of every row; see :func:`clusterica.ops.assign.best_labels`."""
    return assign(X, C, shift, rule=rule, precision=precision).labels


@working_memory(lambda row, C, shift: _bytes(row), wide_sums=True)
def center_sums(
    X: Array, C: Array, shift: Array | None, weights: Array, *, rule: Rule, precision: str
) -> LloydSums:
    """Assign a block and return its sums; see :func:`clusterica.ops.assign.center_sums`."""
    X, C, shift = _contiguous(X, C, shift)
    labels, centers = _labels(X, C, shift, rule, precision)
    return _sums(X, centers, shift, labels, weights, rule)


# The reference of the losses makes three arrays of the size of the block.
@working_memory(lambda row, C, shift: 3 * row.nbytes + _bytes(row), wide_sums=True)
def fit_sums(
    X: Array, C: Array, shift: Array | None, weights: Array, *, rule: Rule, precision: str
) -> tuple[Array, FitSums]:
    """Assign a block and say how well the centres fit; see :func:`clusterica.ops.assign.fit_sums`."""
    X, C, shift = _contiguous(X, C, shift)
    free, centers = _labels(X, C, shift, rule, precision)
    counts = _sums(X, centers, shift, free, weights, rule).counts
    labels, best = _scored(X, centers, shift, free, rule)
    value = (
        rule.gains(best, None)
        if rule.maximized
        else reference.losses(X, C, shift, labels, best, rule)
    )
    return labels, FitSums(counts, torch.sum(value * weights, dtype=torch.float64))


@working_memory(lambda row, C, shift: 3 * row.nbytes + _bytes(row))
def row_losses(X: Array, C: Array, shift: Array | None, *, rule: Rule, precision: str) -> Array:
    """Return what the best centre leaves of every row; see :func:`clusterica.ops.assign.row_losses`."""
    labels, best = assign(X, C, shift, rule=rule, precision=precision)
    return reference.losses(X, C, shift, labels, best, rule)


def assign(X: Array, C: Array, shift: Array | None, *, rule: Rule, precision: str) -> Assignment:
    """Return the label of every row and its score; see :func:`clusterica.ops.assign.assign`."""
    X, C, shift = _contiguous(X, C, shift)
    labels, centers = _labels(X, C, shift, rule, precision)
    return _scored(X, centers, shift, labels, rule)


def _bytes(row: Row) -> int:
    """Return the memory for each row: two labels, keys and indices of a sort and its copies, partial sums."""
    return 64 + 8 * row.n_features // PIECE


def _contiguous(X: Array, C: Array, shift: Array | None) -> tuple[Array, Array, Array | None]:
    """Return float32 arrays whose features lie side by side; rows of X may be apart."""
    X = X if X.stride(1) == 1 else X.contiguous()
    C = C.to(torch.float32).contiguous()
    return X, C, None if shift is None else shift.to(torch.float32).contiguous()


def _labels(
    X: Array, C: Array, shift: Array | None, rule: Rule, precision: str
) -> tuple[Array, RoundedCenters]:
    """Return the index of the best free centre of every row, int32, and the centres as they were compared."""
    n, d = X.shape
    is_screen = precision == "float32" and C.shape[0] >= SCREENED_CENTERS
    precision = "screened" if is_screen else precision
    tiling = tiling_for(X.device, precision, d)
    centers = round_centers(C, rule, precision, tiling)
    labels = torch.empty(n, dtype=torch.int32, device=X.device)
    # Rows that a screen leaves open, and how many there are; the host need not know.
    index = torch.empty(n if is_screen else 1, dtype=torch.int32, device=X.device)
    n_open = torch.zeros(1, dtype=torch.int32, device=X.device)
    launch_nearest(X, centers, shift, labels, index, n_open, rule, precision, tiling)
    if is_screen:
        tiling = tiling_for(X.device, "float32", d)
        exact = round_centers(C, rule, "float32", tiling)
        launch_nearest(X, exact, shift, labels, index, n_open, rule, "float32", tiling, listed=True)
    return labels, centers


def launch_nearest(
    X: Array,
    centers: RoundedCenters,
    shift: Array | None,
    labels: Array,
    index: Array,
    n_open: Array,
    rule: Rule,
    precision: str,
    tiling: KernelTiling,
    *,
    listed: bool = False,
) -> None:
    """Fill the labels of all rows, or of those listed: the first `n_open` of the index.

    "screened" lists the rows that it leaves open, for "float32", which here has no screen.
    """
    (n, d), k = X.shape, centers.C.shape[0]
    settings: dict[str, Any] = {
        "BM": tiling.rows,
        "BN": tiling.centers,
        "DOT": DOT.get(precision, "ieee"),
        "PACKED": precision != "float32",
        "HALF": precision in _HALVES,
        "SCREEN": precision == "screened",
        "SIGNLESS": rule.ignores_sign,
        "BIASED": not rule.unit_centers,
        "EVEN": k % tiling.centers == 0,
        "SHIFTED": shift is not None,
        "INDEXED": listed,
        "num_warps": tiling.warps,
        "num_stages": tiling.stages,
    }
    widths = chunk_widths(d)
    if widths is None:
        kernel, settings = nearest.nearest_looped, settings | {"WIDTH": tiling.features}
    else:
        named = {f"W{i}": w for i, w in enumerate((*widths, 0, 0, 0)[:4])}
        kernel, settings = nearest.nearest_held, settings | named
    at_once = _loaded_at_once(X)
    kernel[(triton.cdiv(n, tiling.rows),)](
        X, centers.words, centers.word_bias, X if shift is None else shift, centers.bounds, index,
        n_open, labels, n, d // at_once, X.stride(0) // at_once, centers.words.stride(0), k,
        VEC=at_once, **settings,
    )  # fmt: skip


def round_centers(C: Array, rule: Rule, precision: str, tiling: KernelTiling) -> RoundedCenters:
    """Return the centres in the precision of the products, padded to whole tiles."""
    (k, d), like = C.shape, {"dtype": torch.float32, "device": C.device}
    widths = chunk_widths(d)
    wide = -(-d // tiling.features) * tiling.features if widths is None else sum(widths)
    padded = -(-k // tiling.centers) * tiling.centers
    words = torch.empty((padded, wide), dtype=_HALVES.get(precision, C.dtype), device=C.device)
    word_bias, bounds = (torch.empty(shape, **like) for shape in (padded, (padded, 3)))
    # In float64: that of large centres would overflow before it is scaled.
    bias = rule.center_bias(C.to(torch.float64)).contiguous()
    # Unit centres are within the range of halves as they are; others are divided by a power of two.
    scaled = precision in _HALVES and not rule.unit_centers
    largest = torch.linalg.vector_norm(C, ord=torch.inf) if scaled else C
    nearest.round_tile[(padded // 16,)](
        C, bias, largest, words, word_bias, bounds, k, d, wide,
        BN=16, WIDTH=min(triton.next_power_of_2(wide), 256), SCALED=scaled,
    )  # fmt: skip
    if precision == "screened":
        bounds = bounds.amax(dim=0)
    return RoundedCenters(C, bias.to(torch.float32), words, word_bias, bounds)


def _scored(
    X: Array, centers: RoundedCenters, shift: Array | None, free: Array, rule: Rule
) -> Assignment:
    """Return labels and scores of rows from their free centres: a negative score may change the label."""
    (n, d), C = X.shape, centers.C
    labels, scores = free.clone(), torch.empty(n, dtype=torch.float32, device=X.device)
    tile, width, at_once = 16, min(triton.next_power_of_2(d), 256), _loaded_at_once(X)
    sums.row_scores[(triton.cdiv(n, tile),)](
        X, C, centers.bias, C if shift is None else shift, labels, scores, n, d // at_once,
        X.stride(0) // at_once, C.shape[0], VEC=at_once, BM=tile, WIDTH=width,
        SHIFTED=shift is not None, BOTH_SIGNS=rule.both_signs,
    )  # fmt: skip
    return Assignment(labels, scores)


def _loaded_at_once(X: Array) -> int:
    """Return how many numbers of a row a thread can load at once: rows begin at multiples of so many.

    The kernels get numbers of features and strides divided by it, so that the compiler sees the multiples.
    """
    return math.gcd(4, X.shape[1], X.stride(0))


def _sums(
    X: Array,
    centers: RoundedCenters,
    shift: Array | None,
    labels: Array,
    weights: Array,
    rule: Rule,
) -> LloydSums:
    """Return what the centres receive from rows with these labels of free centres."""
    C, device = centers.C, X.device
    (n, d), k = X.shape, C.shape[0]
    # A radix sort takes a pass for each byte of its keys.
    narrow = torch.uint8 if k <= 256 else torch.int16 if k <= 2**15 else torch.int32
    ordered, order = torch.sort(labels.to(narrow), stable=True)
    ends = torch.arange(k + 1, dtype=torch.int32, device=device)
    offsets = torch.searchsorted(ordered.to(torch.int32), ends)
    first_pieces = torch.zeros(k + 1, dtype=torch.int64, device=device)
    first_pieces[1:] = torch.cumsum((offsets.diff() + PIECE - 1) // PIECE, dim=0)
    n_pieces = n // PIECE + k  # no fewer than there are, without asking the device
    clusters = torch.searchsorted(
        first_pieces[1:], torch.arange(n_pieces, device=device), right=True
    )
    wide = {"dtype": torch.float64, "device": device}
    partial, counted = torch.empty((n_pieces, d), **wide), torch.empty((n_pieces, 2), **wide)
    gains = torch.zeros(n_pieces, **wide)
    width = min(triton.next_power_of_2(d), 1024)
    chunks, at_once = triton.cdiv(d, width), _loaded_at_once(X)
    # By the compiler for Hopper GPUs none spills registers, and up to 128 features three programs or more
    # share a multiprocessor.
    tile, warps = (min(32, 2048 // width), 4) if width <= 128 else (4096 // width, 8)
    weights = weights.to(torch.float32)
    sums.piece_sums[(n_pieces, chunks)](
        X, C, centers.bias, C if shift is None else shift, weights, order,
        offsets, first_pieces, clusters, partial, counted, gains, d // at_once,
        X.stride(0) // at_once, weights.stride(0), k,
        PIECE=PIECE, VEC=at_once, BM=tile, WIDTH=width, num_warps=warps, CODE=rule.code,
        UNIT_ROWS=rule.unit_rows, SHIFTED=shift is not None, ONE_CHUNK=chunks == 1,
    )  # fmt: skip
    total, counts = torch.empty((k, d), **wide), torch.empty(rule.n_labels(k), **wide)
    sums.joined_pieces[(k, chunks)](
        partial, counted, first_pieces, total, counts, d, k,
        BP=min(16, 4096 // width), WIDTH=width, BOTH_SIGNS=rule.both_signs,
    )  # fmt: skip
    return LloydSums(total, counts, torch.sum(gains))
