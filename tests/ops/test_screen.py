"""The screen in bfloat16: the labels and sums of the float32 step, whatever the data, and a sound bound."""

from unittest.mock import patch

import llvmlite.binding
import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterica.cluster import KMeans
from clusterica.ops.cpu import assign as cpu
from clusterica.ops.cpu import avx512, screen
from clusterica.ops.cpu.adding import StepArrays
from clusterica.ops.rules import AXIS, DIRECTION, EUCLIDEAN, RULES

needs_bf16 = pytest.mark.skipif(
    not avx512.has_bfloat16(), reason="the processor has no AVX-512 with bfloat16"
)
every_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)


def gaussians(n, k, d, seed=0):
    rng = np.random.default_rng(seed)
    X, C = rng.standard_normal((n, d)), rng.standard_normal((k, d))
    return X.astype(np.float32), C.astype(np.float32)


def exact_scores(X, C, rule):
    """Return all scores in float64, as they are compared."""
    S = X.astype(np.float64) @ C.T.astype(np.float64)
    if rule is EUCLIDEAN:
        return S - (C.astype(np.float64) ** 2).sum(axis=1) / 2
    return abs(S) if rule.ignores_sign else S


def rounding(X, C, rule):
    """Return for every row how far a float32 score may be off."""
    longest = np.linalg.norm(C.astype(np.float64), axis=1).max()
    scale = np.linalg.norm(X.astype(np.float64), axis=1) * longest
    scale += longest**2 / 2 if rule is EUCLIDEAN else 0
    return (X.shape[1] + 4) * 2.0**-23 * scale


def check(X, C, rule, shift=None, weights=None):
    """Check a screened step against float64 scores, ties within float32 apart, and the plain step."""
    weights = np.ones(len(X), np.float32) if weights is None else weights
    found = cpu.assign(X, C, shift, rule=rule, screened=True)
    labels, total = cpu.lloyd_sums(X, C, shift, weights, rule=rule, screened=True)
    np.testing.assert_array_equal(labels, found.labels)
    Y = X if shift is None else X - shift
    S, off = exact_scores(Y, C, rule), rounding(Y, C, rule)
    centers = labels % len(C)
    chosen = S[np.arange(len(X)), centers]
    assert (chosen >= S.max(axis=1) - 2 * off).all()
    compared = abs(found.scores) if rule.ignores_sign else found.scores
    np.testing.assert_array_less(abs(compared - chosen), off + 1e-37)
    plain_labels, plain = cpu.lloyd_sums(X, C, shift, weights, rule=rule, screened=False)
    sure = np.sort(S, axis=1)[:, -2:] @ [-1, 1] > 4 * off if len(C) > 1 else off >= 0
    np.testing.assert_array_equal(labels[sure], plain_labels[sure])
    np.testing.assert_array_equal(
        total.counts, np.bincount(labels, weights, minlength=rule.n_labels(len(C)))
    )
    if (labels == plain_labels).all() and np.isfinite(plain.sums).all():
        size = np.abs(plain.sums).max(initial=0)
        np.testing.assert_allclose(total.sums, plain.sums, rtol=1e-4, atol=1e-5 * size)
        # Gains that have both signs, twice a score or a score over the length of its row, may cancel out.
        lengths = np.linalg.norm(Y.astype(np.float64), axis=1)
        wide = 2 * off if rule is EUCLIDEAN else off / np.where(lengths > 0, lengths, 1)
        atol = 2 * float(weights @ wide) if rule in (EUCLIDEAN, DIRECTION) else 0.0
        np.testing.assert_allclose(total.gain, plain.gain, rtol=1e-4, atol=atol)


# --- The step --------------------------------------------------------------------------------------

# Rows, centres, features: fewer and more than panels of centres, vectors of rows, words of features.
SHAPES = [
    *[(n, 20, 6) for n in (0, 1, 15, 16, 17, 31, 32, 33, 255, 256, 257, 600)],
    *[(70, k, 5) for k in (1, 2, 3, 11, 12, 13, 24, 25, 100)],
    *[(70, 30, d) for d in (1, 2, 3, 15, 16, 17, 31, 32, 33, 63, 64, 65, 130)],
    (40, 2000, 3),
    (40, 5, 3000),
]


@needs_bf16
@every_rule
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_gaussian_rows(rule, shape):
    check(*gaussians(*shape), rule)


@needs_bf16
@given(
    n=st.integers(1, 300),
    k=st.integers(1, 60),
    d=st.integers(1, 70),
    rule=st.sampled_from(RULES),
    shifted=st.booleans(),
    seed=st.integers(0, 2**16),
)
def test_any_sizes(n, k, d, rule, shifted, seed):
    X, C = gaussians(n, k, d, seed)
    rng = np.random.default_rng(seed)
    shift = rng.standard_normal(d).astype(np.float32) if shifted else None
    check(X, C, rule, shift, rng.random(n, dtype=np.float32))


@needs_bf16
@every_rule
@pytest.mark.parametrize("most_open", [0.25, 1.0], ids=["gives up", "goes on"])
def test_whole_numbers_with_many_ties(rule, most_open):
    """All scores are exact, so that the lowest index of a tie must win, in one step and in the other."""
    rng = np.random.default_rng(0)
    X = rng.integers(-2, 3, size=(300, 3)).astype(np.float32)
    C = rng.integers(-2, 3, size=(50, 3)).astype(np.float32)
    weights = rng.integers(0, 4, size=300).astype(np.float32)
    with patch.object(screen, "_MOST_OPEN", most_open):
        labels, total = cpu.lloyd_sums(X, C, None, weights, rule=rule, screened=True)
    np.testing.assert_array_equal(labels % 50, exact_scores(X, C, rule).argmax(axis=1))
    plain_labels, plain = cpu.lloyd_sums(X, C, None, weights, rule=rule, screened=False)
    np.testing.assert_array_equal(labels, plain_labels)
    for value, wanted in zip(total, plain, strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-6, atol=1e-6)


@needs_bf16
@every_rule
def test_so_many_centres_that_their_numbers_hide_digits(rule):
    """bfloat16 holds these numbers exactly: what is uncertain is hidden by the numbers of groups."""
    rng = np.random.default_rng(0)
    X = rng.integers(-128, 129, size=(100, 3)).astype(np.float32)
    C = rng.integers(-128, 129, size=(20000, 3)).astype(np.float32)
    with patch.object(screen, "_MOST_OPEN", 1.0):
        labels = cpu.assign(X, C, None, rule=rule, screened=True).labels
    np.testing.assert_array_equal(labels % 20000, exact_scores(X, C, rule).argmax(axis=1))


@needs_bf16
@every_rule
@pytest.mark.parametrize("first", [0, 1, 5, 12, 30])
def test_two_equal_centres(rule, first):
    """In one group, in two groups of a panel, in two panels.

    All scores are exact: BLAS, which scores open rows, may round equal columns differently.
    """
    X, C = (np.round(4 * values) / 4 for values in gaussians(200, 40, 9))
    C[first] *= 5
    C[[first + 1, 38]] = C[first]
    labels = cpu.assign(X, C, None, rule=rule, screened=True).labels % 40
    assert not np.isin(labels, [first + 1, 38]).any()
    check(X, C, rule)


HARD = {
    "near duplicates": lambda X, C, rng: (X, C[:1] + 1e-3 * C),
    "duplicates of a few": lambda X, C, rng: (X, C[rng.integers(0, 4, size=len(C))]),
    "pairs that differ in the last bits": lambda X, C, rng: (X, np.repeat(C, 2, 0)[: len(C)] + 1e-6 * C),
    "one long centre": lambda X, C, rng: (X, np.concatenate([C[:-1], 1e4 * C[-1:]])),
    "centres of all lengths": lambda X, C, rng: (X, C * 10 ** rng.uniform(-6, 6, size=(len(C), 1))),
    "rows of all lengths": lambda X, C, rng: (X * 10 ** rng.uniform(-18, 18, size=(len(X), 1)), C),
    "huge": lambda X, C, rng: (X * 1e17, C * 1e17),
    "rows that overflow": lambda X, C, rng: (X * 10 ** rng.uniform(0, 30, size=(len(X), 1)), C * 1e-3),
    "tiny": lambda X, C, rng: (X * 1e-15, C * 1e-15),
    "tinier than squares": lambda X, C, rng: (X * 1e-30, C),
    "subnormal": lambda X, C, rng: (X * 1e-40, C),
    "zeros": lambda X, C, rng: (X * (rng.random((len(X), 1)) < 0.5), C * (rng.random((len(C), 1)) < 0.9)),
    "all zeros": lambda X, C, rng: (X * 0, C * 0),
    "far from the origin": lambda X, C, rng: (X + 100, C + 100),
    "one feature counts": lambda X, C, rng: (X * np.geomspace(1, 1e-7, X.shape[1]), C),
    "opposite centres": lambda X, C, rng: (X, np.concatenate([C[::2], -C[::2]])),
    "halfway between two of bfloat16": lambda X, C, rng: (
        (np.round(X * 64) + 0.5) / 64 * (1 + 2.0**-9),
        np.round(C * 64) / 64,
    ),
}  # fmt: skip


@needs_bf16
@every_rule
@pytest.mark.parametrize("kind", HARD)
@pytest.mark.parametrize("n_features", [8, 33])
def test_hard_data(rule, kind, n_features):
    X, C = gaussians(500, 60, n_features)
    X, C = (a.astype(np.float32) for a in HARD[kind](X, C, np.random.default_rng(1)))
    with patch.object(screen, "_MOST_OPEN", 1.0):
        if kind == "rows that overflow":
            check_labels_alone(X, C, rule)
        else:
            check(X, C, rule)


def check_labels_alone(X, C, rule):
    """Where sums of squares overflow: the labels, and that nothing is lost or not finite."""
    labels = cpu.assign(X, C, None, rule=rule, screened=True).labels
    S = exact_scores(X, C, rule)
    assert (S[np.arange(len(X)), labels % len(C)] >= S.max(axis=1) - 2 * rounding(X, C, rule)).all()


@needs_bf16
def test_a_shift_saves_the_digits(rng):
    X, C = gaussians(1000, 80, 20)
    shift = (1e4 + 100 * rng.standard_normal(20)).astype(np.float32)
    check(X + shift, C, EUCLIDEAN, shift)


@needs_bf16
@every_rule
def test_arrays_are_not_written_to(rule):
    X, C = gaussians(300, 40, 7)
    copies = X.copy(), C.copy()
    X.flags.writeable = C.flags.writeable = False
    check(X, C, rule)
    np.testing.assert_array_equal(X, copies[0])
    np.testing.assert_array_equal(C, copies[1])


@needs_bf16
@pytest.mark.parametrize("most_open", [0.0, 0.25])
def test_the_rest_of_a_block_goes_the_plain_way(most_open):
    """Rows that are easy, then some that are not: the screen stops after those, at any limit."""
    X, C = gaussians(2000, 60, 10)
    C[30:] = C[0] * (1 + 1e-4 * np.arange(30, dtype=np.float32)[:, None])
    X[1000:1400] = 3 * C[0]
    with patch.object(screen, "_MOST_OPEN", most_open):
        check(X, C, EUCLIDEAN)
        check(X, C, AXIS)


def screened(X, C, rule):
    sums = np.zeros(C.shape), np.zeros(rule.n_labels(len(C)))
    labels, scores = np.empty(len(X), np.int32), np.empty(len(X), np.float32)
    no_shift, weights = np.zeros(X.shape[1], np.float32), np.ones(len(X), np.float32)
    step = StepArrays(rule.center_bias(C), weights, labels, scores, rule.flags, *sums)
    return screen.screen(X, C, no_shift, step)


@needs_bf16
@every_rule
def test_few_rows_stay_open(rule):
    X, C = gaussians(4000, 200, 50)
    C /= np.linalg.norm(C, axis=1, keepdims=True)
    found = screened(X, C, rule)
    assert found.stop == 4000
    assert found.open.mean() < 0.02


@needs_bf16
def test_one_long_centre_does_not_open_all_rows():
    X, C = gaussians(4000, 200, 50)
    C[7] *= 100
    assert screened(X, C, EUCLIDEAN).open.mean() < 0.02


@needs_bf16
@every_rule
def test_the_screen_gives_up_among_equal_centres(rule):
    X, C = gaussians(4000, 200, 50)
    found = screened(X, np.repeat(C[:1], 200, axis=0), rule)
    assert found.stop < 4000
    assert found.open.all()


# --- When ------------------------------------------------------------------------------------------


@needs_bf16
@pytest.mark.parametrize("asked", [None, True, False])
def test_the_screen_is_used_where_it_pays_or_is_asked_for(asked):
    with patch.object(cpu, "screen", wraps=screen.screen) as spy:
        for n, k, d, pays in [(300, 100, 50, True), (200, 100, 50, False), (300, 9, 50, False)]:
            spy.reset_mock()
            cpu.assign(*gaussians(n, k, d), None, rule=EUCLIDEAN, screened=asked)
            assert spy.called is (pays if asked is None else asked)


@pytest.mark.parametrize("change", [lambda X: X.astype(np.float64), np.asfortranarray])
def test_other_rows_go_the_plain_way(change):
    X, C = gaussians(300, 100, 50)
    assert not screen.can_screen(change(X), C)


def test_sizes_that_the_bound_is_not_made_for():
    X = np.empty((1, 20000), np.float32)
    assert not screen.can_screen(X, X)
    assert not screen.can_screen(X[:, :1], np.empty((40000, 1), np.float32))


def test_processors_without_the_instructions():
    with patch.object(llvmlite.binding, "get_host_cpu_features", return_value={"avx512f": True}):
        assert not avx512._is_available.__wrapped__("avx512bf16")
    with patch.object(llvmlite.binding, "get_host_cpu_features", side_effect=RuntimeError):
        assert not avx512._is_available.__wrapped__("avx512bf16")
    X, C = gaussians(300, 100, 50)
    with (
        patch.object(avx512, "has_bfloat16", return_value=False),
        patch.object(cpu, "screen", side_effect=AssertionError),
    ):
        labels = cpu.assign(X, C, None, rule=DIRECTION, screened=True).labels
    np.testing.assert_array_equal(labels, exact_scores(X, C, DIRECTION).argmax(axis=1))


@needs_bf16
def test_a_fit_is_that_of_float64(rng):
    """Clusters that are apart, far from the origin."""
    truth = rng.standard_normal((120, 40)) * 3
    X = (truth[rng.integers(0, 120, size=5000)] + rng.standard_normal((5000, 40)) + 300).astype(
        np.float32
    )
    init = truth.astype(np.float32) + 300
    with patch.object(cpu, "screen", wraps=screen.screen) as spy:
        found = KMeans(120, init=init, max_iter=5).fit(X)
    assert spy.called
    exact = KMeans(120, init=init, max_iter=5).fit(X.astype(np.float64))
    np.testing.assert_array_equal(found.labels_, exact.labels_)
    np.testing.assert_allclose(found.cluster_centers_, exact.cluster_centers_, rtol=1e-5)
    np.testing.assert_allclose(found.inertia_, exact.inertia_, rtol=1e-5)


# --- The bound -------------------------------------------------------------------------------------


def upper_bounds(X, c, rule):
    """Return what the screen takes as the most that the scores of one centre can be."""
    C, (n, d) = c[None], X.shape
    panels = screen._make_panels(C, rule.center_bias(C), rule.ignores_sign)
    size = -(-n // avx512.PANEL_ROWS)
    words = np.zeros((size, screen._width(d), avx512.PANEL_ROWS), np.int32)
    ranks = np.empty((size, avx512.RANKS, avx512.PANEL_ROWS), np.float32)
    energy, margin = np.empty(n, np.float32), np.empty(n, np.float32)
    screen._round_tile(X, np.zeros(d, np.float32), panels, rule.flags, words, energy, margin)
    screen._rank(words, panels, rule.flags, n, ranks, X)  # any rows may follow
    rank = ranks[:, 0].ravel()[:n].astype(np.float64)
    return rank + (panels.group_bits + 1) * 2.0**-23 * abs(rank) + margin


@needs_bf16
@given(
    d=st.integers(1, 40) | st.sampled_from([127, 500]),
    rule=st.sampled_from(RULES),
    row_scale=st.floats(-25, 16),
    center_scale=st.floats(-25, 16),
    spread=st.floats(0, 8),
    seed=st.integers(0, 2**16),
)
def test_no_score_exceeds_its_bound(d, rule, row_scale, center_scale, spread, seed):
    """Also where features differ by many orders, and where products are lost to underflow."""
    rng = np.random.default_rng(seed)
    X, c = rng.standard_normal((50, d)), rng.standard_normal(d)
    X[:10] = np.abs(X[:10]) * np.sign(c)  # all errors may go the same way
    X *= 10 ** (row_scale - spread * rng.random(d))
    c *= 10 ** (center_scale - spread * rng.random(d))
    X, c = X.astype(np.float32), c.astype(np.float32)
    scores = exact_scores(X, c[None], rule)[:, 0]
    found = upper_bounds(X, c, rule)
    assert (found >= scores).all()
    lengths = np.linalg.norm(X.astype(float), axis=1), np.linalg.norm(c.astype(float))
    if min(row_scale, center_scale) > -12 and spread == 0:
        scale = lengths[0] * lengths[1] + lengths[1] ** 2 / 2 * (rule is EUCLIDEAN)
        assert (found - scores <= (2**-5 + 1e-5 * d) * scale)[np.isfinite(found)].all()


@needs_bf16
def test_the_bound_is_nearly_reached():
    """All numbers rounded up by almost half a step: the bound is needed in full."""
    x = np.full((1, 64), 1 + 2.0**-8 - 2.0**-20, np.float32)
    score = exact_scores(x, x, AXIS)[0, 0]
    found = upper_bounds(x, x[0], AXIS)[0]
    assert score < found < score * (1 + 2.0**-5)


# --- The instructions ------------------------------------------------------------------------------


@numba.njit
def _round(x, shift, words):
    return avx512.round_row(avx512.at(x, 0), avx512.at(shift, 0), x.shape[0], avx512.at(words, 0))


@numba.njit
def _transpose(rows, columns):
    avx512.transpose_words(avx512.at(rows, 0), rows.shape[1], avx512.at(columns, 0))


@numba.njit
def _dots(x, shift, a, b):
    at = avx512.at
    return avx512.two_dots(at(x, 0), at(shift, 0), at(a, 0), at(b, 0), x.shape[0])


def to_bfloat16(x):
    """Return float32 numbers rounded to eight bits, halves to even, as integers."""
    bits = x.view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


@needs_bf16
@pytest.mark.parametrize("d", [1, 2, 15, 16, 17, 50])
def test_rows_are_rounded_to_nearest(rng, d):
    x, shift = rng.standard_normal((2, d)).astype(np.float32)
    words = np.full(d // 2 + 16, -1, np.int32)
    energy, error = _round(x, shift, words)
    y = x - shift
    halves = to_bfloat16(y)
    found = words.view(np.uint16)
    np.testing.assert_array_equal(found[:d], halves)
    end = -(-d // 16) * 16
    assert not found[d:end].any()
    assert (found[end:] == 0xFFFF).all()
    rounded = (halves.astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_allclose(energy, (y.astype(float) ** 2).sum(), rtol=1e-6)
    np.testing.assert_allclose(error, ((y - rounded).astype(float) ** 2).sum(), rtol=1e-6)


@needs_bf16
def test_halves_are_rounded_to_even():
    x = np.array([1 + 2.0**-8, 1 + 3 * 2.0**-8, -1 - 2.0**-8, 0.0], np.float32)
    words = np.zeros(16, np.int32)
    _round(x, np.zeros(4, np.float32), words)
    np.testing.assert_array_equal(words.view(np.uint16)[:4], [0x3F80, 0x3F82, 0xBF80, 0])


@needs_bf16
def test_words_are_transposed(rng):
    rows = rng.integers(-(2**31), 2**31, size=(16, 40)).astype(np.int32)
    columns = np.zeros((16, avx512.PANEL_ROWS), np.int32)
    _transpose(rows, columns)
    np.testing.assert_array_equal(columns[:, :16], rows[:, :16].T)
    assert not columns[:, 16:].any()


@needs_bf16
@pytest.mark.parametrize("d", [1, 15, 16, 17, 100])
def test_two_inner_products(rng, d):
    x, shift, a, b = rng.standard_normal((4, d)).astype(np.float32)
    np.testing.assert_allclose(_dots(x, shift, a, b), [(x - shift) @ a, (x - shift) @ b], atol=1e-4)
