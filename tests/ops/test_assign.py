"""Assignments and sums of all rules against a plain loop, in the compiled twin and in the reference."""

from functools import partial
from unittest.mock import patch

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from clusterica import config_context
from clusterica.arrays import as_rows, map_reduce, map_rows_reduce, to_host
from clusterica.ops.assign import (
    assign,
    cosines,
    distances,
    lloyd_sums,
    lloyd_sums_reference,
    scores,
)
from clusterica.ops.cpu import assign as cpu
from clusterica.ops.rules import AXIS, DIRECTION, EUCLIDEAN, GAIN_SHAPE, RULES

every_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
every_dtype = pytest.mark.parametrize("dtype", ["float32", "float64"])
every_csr = pytest.mark.parametrize(
    ("container", "index_dtype"),
    [(sp.csr_array, np.int32), (sp.csr_array, np.int64), (sp.csr_matrix, np.int32)],
)
# Rows, centres, features: one of each, multiples of four and not, few features and many.
SHAPES = [
    (1, 1, 1),
    (1, 4, 3),
    (5, 1, 2),
    (40, 7, 5),
    (40, 8, 1),
    (33, 65, 4),
    (50, 6, 64),
    (50, 6, 65),
]
every_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)


def problem(n_rows, n_centers, n_features, dtype="float64", seed=0):
    """Return rows, centres and weights of small whole numbers: exact, with ties and rows of zeros."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-2, 3, size=(n_rows, n_features))
    X[rng.random(n_rows) < 0.1] = 0
    C = rng.integers(-2, 3, size=(n_centers, n_features))
    return X.astype(dtype), C.astype(dtype), rng.integers(0, 4, size=n_rows).astype(dtype)


def loop(X, C, weights, rule):
    """Return labels, scores, sums, counts and gain, row by row, from the table of the rules."""
    labels, best = [], []
    sums, counts, gain = np.zeros(C.shape), np.zeros(rule.n_labels(len(C))), 0.0
    for x, w in zip(X.astype(float), weights, strict=True):
        s = C @ x
        if rule is EUCLIDEAN:
            squared = ((x - C) ** 2).sum(axis=1)
            j = np.argmin(squared)
            score, g, add = s[j] - C[j] @ C[j] / 2, x @ x - squared[j], x
        elif rule is GAIN_SHAPE:
            j = np.argmax(abs(s))
            score, g, add = s[j], s[j] ** 2, s[j] * x
        elif rule is DIRECTION:
            j = np.argmax(s)
            add = x / np.linalg.norm(x) if x.any() else x
            score, g = s[j], C[j] @ add
        else:
            j = np.argmax(abs(s))
            score, g, add = s[j], abs(s[j]), np.sign(s[j]) * x
        labels.append(j + len(C) if rule is AXIS and score < 0 else j)
        best.append(score)
        sums[j] += w * add
        counts[labels[-1]] += w
        gain += w * g
    return np.array(labels, dtype=np.int32), np.array(best), sums, counts, gain


def check_against_loop(block, centers, weights, rule, problem, op=lloyd_sums, tol=1e-12):
    expected_labels, _, *expected = loop(*problem, rule)
    labels, total = op(block, centers, None, weights, rule=rule)
    assert str(labels.dtype).endswith("int32")
    np.testing.assert_array_equal(to_host(labels), expected_labels)
    for value, wanted in zip(total, expected, strict=True):
        np.testing.assert_allclose(to_host(value), wanted, rtol=tol, atol=tol)


def tolerance(dtype):
    return 1e-5 if dtype == "float32" else 1e-12


@every_rule
@every_dtype
@every_shape
def test_sums_of_dense_blocks(put, rule, dtype, shape):
    p = problem(*shape, dtype)
    check_against_loop(*map(put, p), rule, p, tol=tolerance(dtype))


@every_rule
@every_dtype
@every_shape
@every_csr
def test_sums_of_csr_blocks(container, index_dtype, rule, dtype, shape):
    X, C, weights = problem(*shape, dtype)
    S = container(X)
    S.indices, S.indptr = S.indices.astype(index_dtype), S.indptr.astype(index_dtype)
    check_against_loop(S, C, weights, rule, (X, C, weights), tol=tolerance(dtype))


@every_rule
@every_dtype
def test_the_reference_on_numpy(rule, dtype):
    p = problem(40, 7, 5, dtype)
    check_against_loop(*p, rule, p, op=lloyd_sums_reference, tol=tolerance(dtype))


@every_rule
@every_dtype
def test_assign_of_dense_blocks(put, rule, dtype):
    X, C, weights = problem(40, 7, 5, dtype)
    labels, best, *_ = loop(X, C, weights, rule)
    found = assign(put(X), put(C), None, rule=rule)
    np.testing.assert_array_equal(to_host(found.labels), labels)
    np.testing.assert_array_equal(to_host(found.scores), best)
    assert str(found.scores.dtype).endswith(dtype)


@every_rule
def test_assign_of_csr_blocks(rule):
    X, C, weights = problem(40, 7, 5)
    labels, best, *_ = loop(X, C, weights, rule)
    found = assign(sp.csr_array(X), C, None, rule=rule)
    np.testing.assert_array_equal(found.labels, labels)
    np.testing.assert_array_equal(found.scores, best)


@every_rule
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_no_rows(rule, make):
    _, C, _ = problem(1, 3, 2)
    X = make(np.empty((0, 2)))
    assert assign(X, C, None, rule=rule).labels.shape == (0,)
    labels, total = lloyd_sums(X, C, None, np.empty(0), rule=rule)
    assert labels.shape == (0,)
    assert not total.sums.any()
    assert not total.counts.any()
    assert total.gain == 0


@every_rule
def test_ties_go_to_the_lowest_index(put, rule):
    """Nine centres of which four are the same, so that the tie crosses groups of any size."""
    x = np.array([[3.0, 4.0]])
    C = np.zeros((9, 2))
    C[[2, 3, 6, 8]] = [0.6, 0.8]
    assert int(to_host(assign(put(x), put(C), None, rule=rule).labels)[0]) == 2
    assert assign(sp.csr_array(x), C, None, rule=rule).labels[0] == 2


@pytest.mark.parametrize("order", [(1, -1), (-1, 1)])
@pytest.mark.parametrize("rule", [GAIN_SHAPE, AXIS], ids=lambda r: r.name)
def test_ties_of_opposite_centres_go_to_the_lowest_index(put, rule, order):
    x, C = np.array([[3.0, 4.0]]), np.outer(order, [0.6, 0.8])
    negative = 2 if rule is AXIS and order[0] < 0 else 0
    found = assign(put(x), put(C), None, rule=rule)
    assert int(to_host(found.labels)[0]) == negative
    assert float(to_host(found.scores)[0]) == pytest.approx(order[0] * 5)


@every_rule
def test_rows_of_zeros_add_nothing(put, rule):
    C = np.eye(3)
    labels, total = lloyd_sums(put(np.zeros((4, 3))), put(C), None, put(np.ones(4)), rule=rule)
    np.testing.assert_array_equal(to_host(labels), 0)
    np.testing.assert_array_equal(to_host(total.sums), 0)
    assert to_host(total.counts)[0] == 4
    assert np.isfinite(float(total.gain))


@every_rule
def test_a_weight_is_a_number_of_copies(put, rule):
    X, C, weights = problem(30, 5, 4)
    repeated = np.repeat(X, weights.astype(int), axis=0)
    _, weighted = lloyd_sums(put(X), put(C), None, put(weights), rule=rule)
    _, copied = lloyd_sums(put(repeated), put(C), None, put(np.ones(len(repeated))), rule=rule)
    for a, b in zip(weighted, copied, strict=True):
        np.testing.assert_allclose(to_host(a), to_host(b), rtol=1e-12, atol=1e-12)


@every_rule
@every_dtype
@pytest.mark.parametrize("n_features", [3, 80])
def test_a_shift_is_taken_from_the_rows(put, rule, dtype, n_features):
    X, C, weights = problem(60, 5, n_features, dtype)
    shift = np.resize(np.array([100, -50, 7], dtype), n_features)
    shifted = put(X + shift), put(C), put(shift)
    expected_labels, expected = lloyd_sums(put(X), put(C), None, put(weights), rule=rule)
    labels, total = lloyd_sums(*shifted, put(weights), rule=rule)
    np.testing.assert_array_equal(to_host(labels), to_host(expected_labels))
    for a, b in zip(total, expected, strict=True):
        np.testing.assert_allclose(to_host(a), to_host(b), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(to_host(assign(*shifted, rule=rule).labels), to_host(labels))


def test_a_shift_saves_the_digits_of_float32(put, rng):
    """Clusters one apart, ten thousand away: without the shift, labels are noise."""
    C = rng.standard_normal((4, 3)) * 2
    truth = rng.integers(0, 4, size=500)
    X = (C[truth] + 0.05 * rng.standard_normal((500, 3)) + 1e4).astype(np.float32)
    shift = np.full(3, 1e4, np.float32)
    found = assign(put(X), put(C.astype(np.float32)), put(shift), rule=EUCLIDEAN)
    np.testing.assert_array_equal(to_host(found.labels), truth)


def test_blocks_are_not_written_to(put):
    for rule in RULES:
        p = problem(40, 7, 5)
        moved = [put(a.copy()) for a in p]
        lloyd_sums(moved[0], moved[1], put(np.ones(5)), moved[2], rule=rule)
        for before, after in zip(p, moved, strict=True):
            np.testing.assert_array_equal(to_host(after), before)


@every_rule
def test_read_only_arrays_and_centres_in_f_order(rule):
    p = problem(40, 7, 5)
    X, C, weights = p[0].copy(), np.asfortranarray(p[1]), p[2].copy()
    for a in (X, C, weights):
        a.flags.writeable = False
    check_against_loop(X, C, weights, rule, p)


@every_rule
def test_csr_entries_in_any_order_and_in_parts(rule):
    """Zeros that are stored, columns that are not sorted, and an entry in two parts: 1 + 2 = 3."""
    S = sp.csr_array(([4.0, 0.0, 1.0, 2.0, 5.0], [2, 1, 0, 0, 1], [0, 4, 5]), shape=(2, 3))
    X, C = np.array([[3.0, 0, 4], [0, 5, 0]]), np.array([[0.0, 1, 0], [1, 0, 0]])
    weights = np.array([1.0, 2.0])

    def walk(S, C, shift, weights, *, rule):
        fn = partial(lloyd_sums, rule=rule)
        return map_rows_reduce(fn, as_rows(S), C, shift, aligned=(weights,))

    check_against_loop(S, C, weights, rule, (X, C, weights), op=walk)
    assert S.nnz == 5


# --- The compiled twin -----------------------------------------------------------------------------


@given(
    n_rows=st.integers(0, 70),
    n_centers=st.integers(1, 13),
    n_features=st.integers(1, 6) | st.sampled_from([63, 64, 65, 130]),
    rule=st.sampled_from(RULES),
    place=st.sampled_from(["dense", "shifted", "csr"]),
    dtype=st.sampled_from(["float32", "float64"]),
    size=st.integers(1, 40),
    turn=st.booleans(),
    seed=st.integers(0, 2**16),
)
def test_compiled_is_the_reference(
    n_rows, n_centers, n_features, rule, place, dtype, size, turn, seed
):
    """On tiles of a few rows, so that blocks have many."""
    X, C, weights = problem(n_rows, n_centers, n_features, dtype, seed)
    shift = np.arange(n_features, dtype=dtype) - 1 if place == "shifted" else None
    block = sp.csr_array(X) if place == "csr" else X
    with patch.object(cpu, "_tiling", return_value=(size, turn or place == "shifted")):
        labels, total = cpu.lloyd_sums(block, C, shift, weights, rule=rule)
    expected_labels, expected = lloyd_sums_reference(X, C, shift, weights, rule=rule)
    np.testing.assert_array_equal(labels, expected_labels)
    for value, wanted in zip(total, expected, strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("n_rows", "n_centers", "n_features"),
    [
        *[(n, 5000, 3) for n in (63, 64, 65, 128, 129)],
        *[(n, 2, 3) for n in (655, 656, 657, 1312, 1313)],
        *[(n, 3000, 10) for n in (175, 176, 177, 352, 353)],
    ],
)
@every_dtype
@pytest.mark.parametrize("rule", [EUCLIDEAN, AXIS], ids=lambda r: r.name)
def test_borders_of_tiles(n_rows, n_centers, n_features, rule, dtype):
    """Around the fewest and the most rows of a tile."""
    X, C, weights = problem(n_rows, n_centers, n_features, dtype)
    labels, total = cpu.lloyd_sums(X, C, None, weights, rule=rule)
    expected_labels, expected = lloyd_sums_reference(X, C, None, weights, rule=rule)
    np.testing.assert_array_equal(labels, expected_labels)
    for value, wanted in zip(total, expected, strict=True):
        np.testing.assert_array_equal(value, wanted)


@given(seed=st.integers(0, 2**16), rule=st.sampled_from(RULES), cut=st.integers(0, 50))
def test_sums_of_two_blocks_add_up(seed, rule, cut):
    X, C, weights = problem(50, 6, 4, seed=seed)
    _, whole = lloyd_sums(X, C, None, weights, rule=rule)
    _, first = lloyd_sums(X[:cut], C, None, weights[:cut], rule=rule)
    _, second = lloyd_sums(X[cut:], C, None, weights[cut:], rule=rule)
    for w, a, b in zip(whole, first, second, strict=True):
        np.testing.assert_allclose(a + b, w, rtol=1e-12, atol=1e-12)


@given(seed=st.integers(0, 2**16), rule=st.sampled_from(RULES))
def test_a_rotation_of_rows_and_centres_turns_the_sums(seed, rule):
    rng = np.random.default_rng(seed)
    X, C, weights = rng.standard_normal((60, 4)), rng.standard_normal((5, 4)), rng.random(60)
    Q = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    labels, total = lloyd_sums(X, C, None, weights, rule=rule)
    turned_labels, turned = lloyd_sums(X @ Q, C @ Q, None, weights, rule=rule)
    np.testing.assert_array_equal(turned_labels, labels)
    np.testing.assert_allclose(turned.sums, total.sums @ Q, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(turned.gain, total.gain, rtol=1e-9)


@every_rule
@pytest.mark.parametrize("n_rows", [100_000, pytest.param(5_000_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_float32_sums_are_as_good_as_the_data(rng, rule, n_rows, spread):
    """A feature that is the same in all rows is the worst case: rounding goes one way."""
    X = np.full((n_rows, 2), 0.1, dtype=np.float32)
    X += np.float32(spread) * rng.random(X.shape, dtype=np.float32)
    C, weights = np.array([[0.6, 0.8]], np.float32), np.ones(n_rows, np.float32)

    def sums(*args):
        return lloyd_sums(*args, rule=rule)[1]

    found = map_reduce(sums, as_rows(X), C, None, aligned=(weights,))
    exact = map_reduce(sums, as_rows(X.astype(np.float64)), C, None, aligned=(weights,))
    for value, wanted in zip(found, exact, strict=True):
        np.testing.assert_allclose(value, wanted, rtol=2e-6)


@every_rule
def test_any_number_of_threads_and_blocks(rule):
    X, C, weights = problem(5000, 9, 4)
    expected = lloyd_sums(X, C, None, weights, rule=rule)[1]
    with config_context(threads=3, memory="64KiB"):
        found = map_reduce(
            lambda *args: lloyd_sums(*args, rule=rule)[1], as_rows(X), C, None, aligned=(weights,)
        )
    for value, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-12, atol=1e-12)


# --- All scores ------------------------------------------------------------------------------------


def check_all_scores(block, centers, X, C, tol):
    np.testing.assert_allclose(to_host(scores(block, centers)), X @ C.T, rtol=tol, atol=tol)
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    cosine = np.divide(X @ C.T, lengths, out=np.zeros((len(X), len(C)), X.dtype), where=lengths > 0)
    np.testing.assert_allclose(to_host(cosines(block, centers)), cosine, rtol=tol, atol=tol)
    found = to_host(distances(block, centers, None))
    assert type(found) is np.ndarray
    distance = np.linalg.norm(X[:, None] - C[None], axis=2)
    np.testing.assert_allclose(found, distance, rtol=tol, atol=tol)


@every_dtype
def test_scores_cosines_and_distances(put, dtype):
    X, C, _ = problem(30, 5, 4, dtype)
    C = C + np.asarray(0.5, dtype)  # no row is a centre
    check_all_scores(put(X), put(C), X, C, tolerance(dtype))


@every_dtype
@pytest.mark.parametrize("container", [sp.csr_array, sp.csr_matrix])
def test_scores_cosines_and_distances_of_csr(container, dtype):
    X, C, _ = problem(30, 5, 4, dtype)
    C = C + np.asarray(0.5, dtype)
    check_all_scores(container(X), C, X, C, tolerance(dtype))


def test_distances_with_a_shift(put):
    X, C, _ = problem(30, 5, 4)
    shift = np.array([1e6, -1e6, 3, 0])
    found = distances(put(X + shift), put(C), put(shift))
    np.testing.assert_allclose(
        to_host(found), np.linalg.norm(X[:, None] - C[None], axis=2), atol=1e-7
    )


def test_distance_of_a_row_to_itself_is_not_nan(put, rng):
    X = (rng.standard_normal((50, 8)) * 100).astype(np.float32)
    found = to_host(distances(put(X), put(X), None))
    assert np.isfinite(found).all()
    assert np.diagonal(found).max() < 1
