"""The step in registers: the labels and sums of the plain float32 step, whatever the data."""

from unittest.mock import patch

import numpy as np
import pytest

from clusterica.cluster import KMeans
from clusterica.ops.cpu import assign as cpu
from clusterica.ops.cpu import avx512, panels
from clusterica.ops.rules import AXIS, EUCLIDEAN, RULES

pytestmark = pytest.mark.skipif(not avx512.has_float32(), reason="the processor has no AVX-512")
every_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)


@pytest.fixture
def rng():
    return np.random.default_rng()


def gaussians(rng, n, k, d):
    return (rng.standard_normal(shape).astype(np.float32) for shape in ((n, d), (k, d)))


def check(X, C, rule, shift=None, weights=None):
    """Check a step against scores in float64, ties within float32 apart, and against the plain step."""
    weights = np.ones(len(X), np.float32) if weights is None else weights
    ways = {"screened": False, "rule": rule}
    with patch.object(panels, "_FEWEST_ROWS", 0):
        found = cpu.assign(X, C, shift, panelled=True, **ways)
        labels, total = cpu.lloyd_sums(X, C, shift, weights, panelled=True, **ways)
    plain_labels, plain = cpu.lloyd_sums(X, C, shift, weights, panelled=False, **ways)
    np.testing.assert_array_equal(labels, found.labels)
    Y, k = X.astype(np.float64), len(C)
    Y = Y if shift is None else Y - shift
    S = Y @ C.T.astype(np.float64)
    S -= (C.astype(np.float64) ** 2).sum(axis=1) / 2 if rule is EUCLIDEAN else 0
    scale = np.linalg.norm(Y, axis=1) * np.linalg.norm(C, axis=1).max() + abs(S).max(initial=0)
    off = (X.shape[1] + 4) * 2.0**-23 * scale
    chosen = S[np.arange(len(X)), labels % k]
    np.testing.assert_array_less(abs(found.scores - chosen), off + 1e-37)
    compared = abs(S) if rule.ignores_sign else S
    best = abs(chosen) if rule.ignores_sign else chosen
    assert (best >= compared.max(axis=1) - 2 * off).all()
    sure = np.sort(compared, axis=1)[:, -2:] @ [-1, 1] > 4 * off if k > 1 else abs(best) > off
    np.testing.assert_array_equal(labels[sure], plain_labels[sure])
    np.testing.assert_allclose(
        total.counts, np.bincount(labels, weights, minlength=rule.n_labels(k))
    )
    if (labels == plain_labels).all():
        size = np.abs(plain.sums).max(initial=0)
        np.testing.assert_allclose(total.sums, plain.sums, rtol=1e-4, atol=1e-5 * size)
        np.testing.assert_allclose(total.gain, plain.gain, rtol=1e-4, atol=1e-4)


# Fewer and more rows than vectors, panels and tiles; centres than panels; features than vectors.
SHAPES = [
    *[(n, 20, 6) for n in (1, 15, 16, 17, 31, 32, 33, 255, 256, 257, 600)],
    *[(70, k, 5) for k in (1, 2, 11, 12, 13, 24, 25, 100)],
    *[(70, 30, d) for d in (1, 2, 15, 16, 17, 33, 64, 65, 130, 512)],
    (2000, 300, 20),
]


@every_rule
@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape(rng, shape, rule):
    check(*gaussians(rng, *shape), rule)


@every_rule
def test_shifts_and_weights(rng, rule):
    X, C = gaussians(rng, 500, 40, 21)
    shift = rng.normal(size=21).astype(np.float32)
    weights = rng.uniform(0, 2, size=500).astype(np.float32)
    check(X, C, rule, None if rule.unit_centers else shift, weights)


@every_rule
def test_of_equal_scores_the_first(rng, rule):
    C = np.repeat(rng.integers(-3, 4, size=(20, 7)), 3, axis=0).astype(np.float32)
    X = np.concatenate([rng.integers(-3, 4, size=(90, 7)), np.zeros((5, 7))]).astype(np.float32)
    check(X, C, rule)
    with patch.object(panels, "_FEWEST_ROWS", 0):
        labels = cpu.assign(X, C, None, rule=rule, screened=False, panelled=True).labels
    plain = cpu.assign(X, C, None, rule=rule, screened=False, panelled=False).labels
    np.testing.assert_array_equal(labels, plain)  # sums of small integers are exact


@every_rule
def test_scores_that_overflow(rng, rule):
    """They are as they are without panels: NaN is never the best, and nothing else is chosen in its place."""
    X, C = gaussians(rng, 64, 30, 8)
    X[3], X[40] = 3e38, -3e38
    X[7], C[5] = np.inf, np.inf
    with np.errstate(all="ignore"), patch.object(panels, "_FEWEST_ROWS", 0):
        found = cpu.assign(X, C, None, rule=rule, screened=False, panelled=True)
        plain = cpu.assign(X, C, None, rule=rule, screened=False, panelled=False)
    finite = np.isfinite(plain.scores)
    np.testing.assert_array_equal(np.isfinite(found.scores), finite)
    np.testing.assert_array_equal(found.labels[finite], plain.labels[finite])


@pytest.mark.parametrize(
    "change",
    [
        lambda X: X.astype(np.float64),
        lambda X: np.asfortranarray(X),
        lambda X: X[:1000],
        lambda X: np.tile(X, 20),
    ],
)
def test_other_rows_go_the_plain_way(rng, change):
    X, _ = gaussians(rng, 2000, 1, 30)
    assert panels.can_use_panels(X)
    assert not panels.can_use_panels(np.asarray(change(X)))


@pytest.mark.parametrize("k", [200, 201])
def test_without_bfloat16_a_fit_takes_them(rng, k):
    X, C = gaussians(rng, 20_000, k, 24)
    settings = {"init": C, "max_iter": 3, "tol": 0, "random_state": 0}  # for centres that end empty
    right = KMeans(k, **settings).fit(X)
    step = panels.panel_step
    with (
        patch.object(avx512, "has_bfloat16", return_value=False),
        patch.object(cpu, "panel_step", side_effect=step) as called,
    ):
        found = KMeans(k, **settings).fit(X)
        np.testing.assert_array_equal(found.predict(X), found.labels_)
    assert called.call_count
    # a tie within rounding moves the centre of a small cluster, and then some of the rows around it
    assert (found.labels_ == right.labels_).mean() > 0.95
    np.testing.assert_allclose(found.inertia_, right.inertia_, rtol=1e-4)


def test_processors_without_the_instructions(rng):
    X, C = gaussians(rng, 2000, 100, 50)
    with (
        patch.object(avx512, "_is_available", return_value=False),
        patch.object(cpu, "panel_step", side_effect=AssertionError),
    ):
        labels = cpu.assign(X, C, None, rule=AXIS, panelled=True).labels
    assert labels.max() > 99
