"""Five loops in AVX-512, most of them with bfloat16, written as LLVM code for use inside Numba's.

A bfloat16 number is the upper half of a float32: its exponent, and eight bits of precision. The
processor multiplies and adds pairs of them, ``acc += x[0] c[0] + x[1] c[1]`` in float32, twice as fast
as it does float32. A *word* here is such a pair of neighbouring features, 32 bits.

Numba has no vectors, so the loops that need them are spelled out: :func:`round_row`,
:func:`transpose_words`, :func:`screen_panel`, :func:`best_of_panel` and :func:`two_dots`. Each is inlined
where it is called, as is the single instruction of :func:`prefetch`.
Arrays are passed as pointers made by :func:`at`; nothing here checks a bound.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import llvmlite.binding
import numba.core.cgutils
import numba.extending
from llvmlite import ir
from numba.core import config
from numba.core.registry import cpu_target

# Without types: those of Numba do not know that an intrinsic is called without its first parameter.
intrinsic: Any = numba.extending.intrinsic
types: Any = numba.types
cgutils: Any = numba.core.cgutils

LANES = 16  # numbers of 32 bits in a vector
# 12 x 2 sums of the product stay in registers, of which there are 32: the rest hold the operands.
PANEL_CENTERS, PANEL_ROWS = 12, 2 * LANES
GROUP = 2  # centres that share a place in the ranking of a row
# Best groups of a row that are kept: two may be scored again, and the third tells whether another is better.
RANKS = 3


_I32, _I64, _F32 = ir.IntType(32), ir.IntType(64), ir.FloatType()
_FLOATS, _WORDS = ir.VectorType(_F32, LANES), ir.VectorType(_I32, LANES)
_HALVES = ir.VectorType(ir.IntType(16), LANES)
_int32_p, _float32_p = types.CPointer(types.int32), types.CPointer(types.float32)
_two_floats = types.UniTuple(types.float32, 2)


def has_bfloat16() -> bool:
    """Whether all loops may be called."""
    return _is_available("avx512f", "avx512bw", "avx512bf16")


def has_float32() -> bool:
    """Whether those without bfloat16 may be called."""
    return _is_available("avx512f")


@cache
def _is_available(*needed: str) -> bool:
    """Whether this processor has the instructions, and Numba compiles for it with them."""
    if config.DISABLE_JIT:  # type: ignore[attr-defined]
        return False
    try:
        host = llvmlite.binding.get_host_cpu_features()
    except RuntimeError:  # LLVM does not know the processor
        return False
    compiled_for = cpu_target.target_context.codegen().magic_tuple()[2].split(",")
    return all(host.get(name, False) and f"+{name}" in compiled_for for name in needed)


@intrinsic
def at(typing_context, array, index):  # type: ignore[no-untyped-def]
    """Return the address of an element of a contiguous array, counted in its memory."""

    def generate(context, b, signature, args):  # type: ignore[no-untyped-def]
        data = cgutils.create_struct_proxy(signature.args[0])(context, b, args[0]).data
        return b.gep(data, [args[1]])

    return types.CPointer(array.dtype)(array, types.int64), generate


@intrinsic
def prefetch(typing_context, place):  # type: ignore[no-untyped-def]
    """Begin to load the cache line of an address into the second cache, without waiting for it."""

    def generate(context, b, signature, args):  # type: ignore[no-untyped-def]
        place = b.bitcast(args[0], ir.IntType(8).as_pointer())
        # To read, into the second cache, as data.
        settings = [ir.Constant(_I32, value) for value in (0, 2, 1)]
        _call(b, "llvm.prefetch.p0", ir.VoidType(), place, *settings)
        return context.get_dummy_value()

    return types.void(place), generate


@intrinsic
def round_row(typing_context, x, shift, n_features, words):  # type: ignore[no-untyped-def]
    """Write the row ``y = x - shift``, rounded to bfloat16, to `words`.

    Returns ``|y|^2`` and ``|y - rounded y|^2``. Writes whole vectors, with zeros after the last feature.
    """

    def generate(context, b, signature, args):  # type: ignore[no-untyped-def]
        x, shift, n, words = args
        out = b.bitcast(words, ir.IntType(16).as_pointer())

        def body(i: ir.Value, sums: list[Any]) -> list[Any]:
            mask = _below(b, i, n)
            y = b.fsub(_load_some(b, x, i, mask), _load_some(b, shift, i, mask))
            rounded = _call(b, "llvm.x86.avx512bf16.cvtneps2bf16.512", _HALVES, y)
            _store(b, rounded, b.gep(out, [i]))
            upper = b.shl(b.zext(rounded, _WORDS), ir.Constant(_WORDS, [16] * LANES))
            error = b.fsub(y, b.bitcast(upper, _FLOATS))
            return [_fma(b, v, v, total) for v, total in zip((y, error), sums, strict=True)]

        sums = _loop(b, n, LANES, [ir.Constant(_FLOATS, [0.0] * LANES)] * 2, body)
        return context.make_tuple(b, signature.return_type, [_sum(b, v) for v in sums])

    return _two_floats(_float32_p, _float32_p, types.int64, _int32_p), generate


@intrinsic
def word_above(typing_context, first, second):  # type: ignore[no-untyped-def]
    """Return the word of two positive float32 numbers, each rounded up to bfloat16, or one step more."""

    def generate(context, b, signature, args):  # type: ignore[no-untyped-def]
        first, second = (b.add(b.bitcast(a, _I32), ir.Constant(_I32, 0x1FFFF)) for a in args)
        high = b.and_(second, ir.Constant(_I32, -0x10000))
        return b.or_(b.lshr(first, ir.Constant(_I32, 16)), high)

    return types.int32(types.float32, types.float32), generate


@intrinsic
def transpose_words(typing_context, rows, stride, columns):  # type: ignore[no-untyped-def]
    """Write 16 words of 16 rows, `stride` apart, as columns that are PANEL_ROWS apart."""

    def generate(context, b, signature, args):  # type: ignore[no-untyped-def]
        rows, stride, columns = args
        v = [_load(b, b.gep(rows, [b.mul(stride, _i64(r))]), _WORDS) for r in range(LANES)]
        for h in (8, 4, 2, 1):  # swap the off-diagonal blocks of h x h words
            keep = [lane if not lane & h else LANES + lane - h for lane in range(LANES)]
            take = [lane + h if not lane & h else LANES + lane for lane in range(LANES)]
            for r in (r for r in range(LANES) if not r & h):
                v[r], v[r + h] = (
                    b.shuffle_vector(v[r], v[r + h], ir.Constant(_WORDS, lanes))
                    for lanes in (keep, take)
                )
        for column, values in enumerate(v):
            _store(b, values, b.gep(columns, [_i64(column * PANEL_ROWS)]))
        return context.get_dummy_value()

    return types.void(_int32_p, types.int64, _int32_p), generate


@intrinsic
def screen_panel(  # type: ignore[no-untyped-def]
    typing_context, rows, centers, start, n_words, group, group_bits, size_only, ranks
):
    """Score PANEL_ROWS rows with PANEL_CENTERS centres and update the ranks of the rows.

    Parameters are the words of the rows, (n_words, PANEL_ROWS); those of the centres, (n_words,
    PANEL_CENTERS); the scores before the first product, (PANEL_CENTERS,); the number of words; the
    number of the first group of centres; a mask of the bits that hold that number; whether the sign of
    a score does not count; and the ranks, (RANKS, PANEL_ROWS).

    A rank is the best score of a group, whose last bits are replaced by the number of the group. So the
    ranking needs neither a branch nor a second array.
    """

    def generate(context, b, signature, args):  # type: ignore[no-untyped-def]
        rows, centers, start, n_words, group, group_bits, size_only, ranks = args
        halves = range(PANEL_ROWS // LANES)

        def body(i: ir.Value, sums: list[Any]) -> list[Any]:
            row = b.gep(rows, [b.mul(i, _i64(PANEL_ROWS))])
            x = [_load(b, b.gep(row, [_i64(LANES * h)]), _WORDS) for h in halves]
            center = b.gep(centers, [b.mul(i, _i64(PANEL_CENTERS))])
            result = []
            for c in range(PANEL_CENTERS):
                word = _splat(b, b.load(b.gep(center, [_i64(c)])))
                # total + x[0] c[0] + x[1] c[1] in every lane. LLVM 16 and later have vectors of bfloat for
                # this, but take integers too, as LLVM 15 does.
                name = "llvm.x86.avx512bf16.dpbf16ps.512"
                totals = sums[len(halves) * c : len(halves) * (c + 1)]
                result += [_call(b, name, _FLOATS, totals[h], x[h], word) for h in halves]
            return result

        firsts = [_splat(b, b.load(b.gep(start, [_i64(c)]))) for c in range(PANEL_CENTERS)]
        sums = _loop(b, n_words, 1, [first for first in firsts for _ in halves], body)
        with b.if_else(size_only) as (sizes, values):
            with sizes:
                unsigned = [_call(b, "llvm.fabs.v16f32", _FLOATS, s) for s in sums]
                _update_ranks(b, unsigned, group, group_bits, ranks)
            with values:
                _update_ranks(b, sums, group, group_bits, ranks)
        return context.get_dummy_value()

    sizes = (types.int64, types.int32, types.int32, types.boolean)
    return types.void(_int32_p, _int32_p, _float32_p, *sizes, _float32_p), generate


def _update_ranks(
    b: ir.IRBuilder, scores: list[Any], group: ir.Value, group_bits: ir.Value, ranks: ir.Value
) -> None:
    n_halves = PANEL_ROWS // LANES
    others = _splat(b, b.not_(group_bits))
    numbers = [_splat(b, b.add(group, ir.Constant(_I32, g))) for g in range(PANEL_CENTERS // GROUP)]
    for h in range(n_halves):
        places = [b.gep(ranks, [_i64(PANEL_ROWS * q + LANES * h)]) for q in range(RANKS)]
        best = [_load(b, place, _FLOATS) for place in places]
        of_half = scores[h::n_halves]
        for number, first, second in zip(numbers, of_half[::2], of_half[1::2], strict=True):
            top = b.and_(b.bitcast(_extreme(b, ">", first, second), _WORDS), others)
            value = b.bitcast(b.or_(top, number), _FLOATS)
            # Put it in its place among the best, in decreasing order, and drop the least.
            for q, other in enumerate(best):
                best[q] = _extreme(b, ">", other, value)
                value = _extreme(b, "<", other, value)
        for place, value in zip(places, best, strict=True):
            _store(b, value, place)


@intrinsic
def best_of_panel(  # type: ignore[no-untyped-def]
    typing_context, rows, centers, bias, n_features, first, size_only, top, score, label
):
    """Score PANEL_ROWS rows with PANEL_CENTERS centres in float32, and keep the best centre of every row.

    Parameters are the rows, (n_features, PANEL_ROWS); the centres, (n_features, PANEL_CENTERS); what is
    taken from the scores, (PANEL_CENTERS,), NaN for a centre that is none; the number of features; the
    index of the first centre; whether the sign of a score does not count; and for every row the best
    value so far, the score of which it is, and the centre, each (PANEL_ROWS,).
    """

    def generate(context, b, signature, args):  # type: ignore[no-untyped-def]
        rows, centers, bias, n_features, first, size_only, top, score, label = args
        halves = range(PANEL_ROWS // LANES)

        def body(i: ir.Value, sums: list[Any]) -> list[Any]:
            row = b.gep(rows, [b.mul(i, _i64(PANEL_ROWS))])
            x = [_load(b, b.gep(row, [_i64(LANES * h)]), _FLOATS) for h in halves]
            center = b.gep(centers, [b.mul(i, _i64(PANEL_CENTERS))])
            result = []
            for c in range(PANEL_CENTERS):
                value = _splat(b, b.load(b.gep(center, [_i64(c)])))
                result += [_fma(b, x[h], value, sums[len(halves) * c + h]) for h in halves]
            return result

        zeros = [ir.Constant(_FLOATS, [0.0] * LANES)] * (PANEL_CENTERS * len(halves))
        sums = _loop(b, n_features, 1, zeros, body)
        for c in range(PANEL_CENTERS):
            off = _splat(b, b.load(b.gep(bias, [_i64(c)])))
            for h in halves:
                sums[len(halves) * c + h] = b.fsub(sums[len(halves) * c + h], off)
        indices = [_splat(b, b.add(first, ir.Constant(_I32, c))) for c in range(PANEL_CENTERS)]
        with b.if_else(size_only) as (sizes, values):
            with sizes:
                _update_best(b, sums, indices, top, score, label, size_only=True)
            with values:
                _update_best(b, sums, indices, top, score, label, size_only=False)
        return context.get_dummy_value()

    inputs = (*[_float32_p] * 3, types.int64, types.int32, types.boolean)
    return types.void(*inputs, _float32_p, _float32_p, _int32_p), generate


def _update_best(
    b: ir.IRBuilder,
    sums: list[Any],
    indices: list[Any],
    top: ir.Value,
    score: ir.Value,
    label: ir.Value,
    *,
    size_only: bool,
) -> None:
    n_halves = PANEL_ROWS // LANES
    for h in range(n_halves):
        tops, scores, labels = (b.gep(array, [_i64(LANES * h)]) for array in (top, score, label))
        best, chosen = _load(b, tops, _FLOATS), _load(b, labels, _WORDS)
        signed = _load(b, scores, _FLOATS)
        for value, index in zip(sums[h::n_halves], indices, strict=True):
            size = _call(b, "llvm.fabs.v16f32", _FLOATS, value) if size_only else value
            # Of equal scores the first; NaN never is the best.
            better = b.fcmp_ordered(">", size, best)
            best, chosen = b.select(better, size, best), b.select(better, index, chosen)
            signed = b.select(better, value, signed) if size_only else best
        for place, result in ((tops, best), (scores, signed), (labels, chosen)):
            _store(b, result, place)


@intrinsic
def two_dots(typing_context, x, shift, first, second, n_features):  # type: ignore[no-untyped-def]
    """Return ``<x - shift, first>`` and ``<x - shift, second>``, in float32."""

    def generate(context, b, signature, args):  # type: ignore[no-untyped-def]
        x, shift, first, second, n = args

        def body(i: ir.Value, sums: list[Any]) -> list[Any]:
            mask = _below(b, i, n)
            y = b.fsub(_load_some(b, x, i, mask), _load_some(b, shift, i, mask))
            centers = [_load_some(b, center, i, mask) for center in (first, second)]
            return [_fma(b, y, c, total) for c, total in zip(centers, sums, strict=True)]

        sums = _loop(b, n, LANES, [ir.Constant(_FLOATS, [0.0] * LANES)] * 2, body)
        return context.make_tuple(b, signature.return_type, [_sum(b, v) for v in sums])

    return _two_floats(*[_float32_p] * 4, types.int64), generate


# --- Words of LLVM -----------------------------------------------------------------------------------


def _i64(value: int) -> ir.Constant:
    return ir.Constant(_I64, value)


def _loop(
    b: ir.IRBuilder,
    stop: ir.Value,
    step: int,
    start: list[Any],
    body: Callable[[ir.Value, list[Any]], list[Any]],
) -> list[Any]:
    """Return the values after ``values = body(i, values)`` for i = 0, step, ... < stop; at least once."""
    before, inside, after = b.block, b.append_basic_block(), b.append_basic_block()
    b.branch(inside)
    b.position_at_end(inside)
    i, values = b.phi(_I64), [b.phi(value.type) for value in start]
    results = [b.add(i, _i64(step)), *body(i, values)]
    for phi, first, result in zip([i, *values], [_i64(0), *start], results, strict=True):
        phi.add_incoming(first, before)
        phi.add_incoming(result, inside)
    b.cbranch(b.icmp_signed("<", results[0], stop), inside, after)
    b.position_at_end(after)
    return results[1:]


def _call(
    b: ir.IRBuilder, name: str, result: ir.Type, *args: Any, fastmath: tuple[str, ...] = ()
) -> Any:
    kind = ir.FunctionType(result, [arg.type for arg in args])
    function = cgutils.get_or_insert_function(b.module, kind, name)
    return b.call(function, args, fastmath=fastmath)


def _load(b: ir.IRBuilder, place: ir.Value, kind: ir.Type) -> ir.Value:
    return b.load(b.bitcast(place, kind.as_pointer()), align=4)


def _store(b: ir.IRBuilder, value: ir.Value, place: ir.Value) -> None:
    b.store(value, b.bitcast(place, value.type.as_pointer()), align=2)


def _below(b: ir.IRBuilder, i: ir.Value, stop: ir.Value) -> ir.Value:
    """Return which of the lanes i, i + 1, ... are below stop."""
    left = _splat(b, b.trunc(b.sub(stop, i), _I32))
    return b.icmp_signed("<", ir.Constant(_WORDS, list(range(LANES))), left)


def _load_some(b: ir.IRBuilder, array: ir.Value, i: ir.Value, mask: ir.Value) -> ir.Value:
    """Return array[i], array[i + 1], ...; 0 where the mask is not set."""
    place = b.bitcast(b.gep(array, [i]), _FLOATS.as_pointer())
    zeros = ir.Constant(_FLOATS, [0.0] * LANES)
    name = "llvm.masked.load.v16f32.p0"
    return _call(b, name, _FLOATS, place, ir.Constant(_I32, 4), mask, zeros)


def _splat(b: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """Return a vector of one number repeated."""
    empty = ir.Constant(ir.VectorType(value.type, LANES), ir.Undefined)
    one = b.insert_element(empty, value, ir.Constant(_I32, 0))
    return b.shuffle_vector(one, empty, ir.Constant(_WORDS, [0] * LANES))


def _fma(b: ir.IRBuilder, x: ir.Value, y: ir.Value, z: ir.Value) -> ir.Value:
    return _call(b, "llvm.fma.v16f32", _FLOATS, x, y, z)


def _sum(b: ir.IRBuilder, vector: ir.Value) -> ir.Value:
    zero = ir.Constant(_F32, 0.0)
    any_order = ("reassoc",)
    return _call(b, "llvm.vector.reduce.fadd.v16f32", _F32, zero, vector, fastmath=any_order)


def _extreme(b: ir.IRBuilder, sign: str, x: ir.Value, y: ir.Value) -> ir.Value:
    return b.select(b.fcmp_ordered(sign, x, y), x, y)
