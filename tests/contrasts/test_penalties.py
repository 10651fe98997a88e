"""Penalties of codes: slopes by finite differences, pools against an explicit matrix, values by hand."""

import numpy as np
import pytest

from clusterica.arrays import device_of, to_host
from clusterica.contrasts import (
    PENALTIES,
    GroupPooling,
    LogCosh,
    Quartic,
    SmoothedL1,
    TorusPooling,
    check_contrast,
    make_penalty,
)
from clusterica.ops.contrast import first_two
from clusterica.ops.penalty import Elementwise, Pooled

SETTINGS = {
    **{name: (name, None) for name in PENALTIES},
    "scaled": (LogCosh(2.0), None),
    "second derivative only by itself": (Quartic(), None),
    "ring": ("logcosh", "1d"),
    "grid": ("logcosh", "2d"),
    "wide ring": ("logcosh", TorusPooling((12,), width=5)),
    "equal groups": ("logcosh", [0, 1, 2] * 4),
    "unequal groups": ("logcosh", [0] * 7 + [1] * 3 + [5, 4]),
}


def signs_of(kind, rng):
    return None if kind == "all sparse" else rng.choice([-1.0, 1.0], size=12)


@pytest.mark.parametrize("signs", ["all sparse", "both"])
@pytest.mark.parametrize("name", SETTINGS)
def test_slopes_by_finite_differences(put, name, signs):
    rng = np.random.default_rng()
    penalty, pooling = SETTINGS[name]
    g = make_penalty(penalty, pooling, n_codes=12, signs=signs_of(signs, rng))
    S, move = rng.normal(size=(2, 9, 12))
    S += 0.1 * np.sign(S)  # away from the corner of the narrow ones
    found = g(put(S))
    assert type(found.slopes) is type(put(S))
    assert device_of(found.slopes) == device_of(put(S))
    step = 1e-6
    above, below = (float(to_host(g(put(S + t * step * move)).value)) for t in (1, -1))
    slope = (to_host(found.slopes) * move).sum()
    np.testing.assert_allclose((above - below) / (2 * step), slope, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", SETTINGS)
def test_precision_is_that_of_the_codes_and_sums_are_wide(put, name, rng):
    g = make_penalty(*SETTINGS[name], n_codes=12, signs=np.tile([1.0, -1.0], 6))
    S = rng.normal(size=(50, 12))
    narrow, wide = g(put(S.astype(np.float32))), g(put(S))
    assert narrow.slopes.dtype == put(S.astype(np.float32)).dtype
    assert narrow.value.dtype == wide.value.dtype == wide.slopes.dtype
    np.testing.assert_allclose(to_host(narrow.value), to_host(wide.value), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(to_host(narrow.slopes), to_host(wide.slopes), atol=2e-3)


def test_the_codes_are_left_as_they_are(rng):
    S = rng.normal(size=(5, 12))
    for penalty, pooling in SETTINGS.values():
        before = S.copy()
        make_penalty(penalty, pooling, n_codes=12)(S)
        np.testing.assert_array_equal(S, before)


@pytest.mark.parametrize("penalty", ["l1", LogCosh(2.0)])
def test_a_penalty_that_pools_would_not_use_is_an_error(penalty):
    make_penalty("logcosh", "2d", n_codes=12)
    with pytest.raises(ValueError, match="is not used with pooling"):
        make_penalty(penalty, "2d", n_codes=12)


def test_values_by_hand(put):
    S = put(np.array([[3.0, 0.0, -4.0], [0.0, 0.0, 0.0]]))

    def value(penalty, pooling=None, signs=None):
        return float(to_host(make_penalty(penalty, pooling, n_codes=3, signs=signs)(S).value))

    np.testing.assert_allclose(value("l1"), 7, atol=0.05)
    np.testing.assert_allclose(value("sqrt"), 7, atol=1e-3)
    np.testing.assert_allclose(value("l1", signs=np.array([1.0, 1, -1])), -1, atol=0.05)
    np.testing.assert_allclose(value("exp"), -4 - np.exp(-4.5) - np.exp(-8))
    np.testing.assert_allclose(value("logcosh"), np.log(np.cosh([3, 4])).sum())
    np.testing.assert_allclose(value(LogCosh(2.0)), np.log(np.cosh([6, 8])).sum() / 2)
    # Pools {1, 2} and {3}: √(9/2) for each of the first two, and 4.
    np.testing.assert_allclose(value("logcosh", [0, 0, 1]), 2 * 4.5**0.5 + 4, atol=4e-3)
    # A ring of three would be one pool of all of them: each is alone.
    np.testing.assert_allclose(value("logcosh", "1d"), 7, atol=5e-3)


@pytest.mark.parametrize("contrast", [*PENALTIES.values(), LogCosh(0.5), SmoothedL1(1.0)], ids=str)
def test_the_contrasts_of_penalties(contrast, rng):
    y = rng.normal(size=(4, 3))
    for found, expected in zip(first_two(contrast, y), contrast(y), strict=False):
        np.testing.assert_array_equal(found, expected)
    if contrast != PENALTIES["sqrt"]:  # too narrow for finite differences
        check_contrast(contrast)


# --- Pools ------------------------------------------------------------------------------------------


def torus_matrix(shape, width):
    """H, from the distance of places around the torus, no place counted twice."""
    places = np.stack(np.unravel_index(np.arange(np.prod(shape)), shape), axis=1)
    away = np.abs(places[:, None] - places)
    away = np.minimum(away, np.array(shape) - away)
    H = ((away <= width // 2) | (np.array(shape) <= width)).all(axis=2).astype(float)
    return H / H.sum(axis=1, keepdims=True)


@pytest.mark.parametrize(
    ("shape", "width"),
    [
        ((7,), 3),
        ((6,), 5),
        ((3,), 3),
        ((5,), 1),
        ((4, 5), 3),
        ((2, 6), 3),
        ((1, 4), 3),
        ((3, 3), 3),
        ((4, 7), 5),
        ((6, 6), 5),
        ((2, 3, 4), 3),
        ((70,), 5),
        ((3, 65), 3),
        ((65, 2), 3),
        ((65, 80), 71),
    ],
)
def test_pools_on_a_torus(put, shape, width, rng):
    pooling = TorusPooling(shape, width=width)
    K = int(np.prod(shape))
    if max(shape) > width:
        pooling.check(K)
    else:
        with pytest.raises(ValueError, match=r"takes all of .* together; one pool of all codes"):
            pooling.check(K)
    H = to_host(pooling.average(put(np.eye(K))))
    np.testing.assert_allclose(H, torus_matrix(shape, width), atol=1e-15)
    np.testing.assert_allclose(H, H.T, atol=1e-15)
    np.testing.assert_allclose(H.sum(axis=1), 1)
    V = rng.normal(size=(3, K))
    np.testing.assert_allclose(to_host(pooling.average(put(V))), V @ H, atol=1e-14)


@pytest.mark.parametrize(
    "groups",
    [(0, 0, 1, 1, 2, 2), (2, 0, 1, 1, 0, 2), (5, 5, 5, -1, -1, 7), (0,) * 6, ("a", "b") * 3],
    ids=str,
)
def test_pools_of_groups(put, groups, rng):
    H = np.equal.outer(groups, groups).astype(float)
    H /= H.sum(axis=1, keepdims=True)
    V = rng.normal(size=(4, 6))
    found = GroupPooling(groups).average(put(V))
    assert device_of(found) == device_of(put(V))
    np.testing.assert_allclose(to_host(found), V @ H, atol=1e-14)
    narrow = GroupPooling(groups).average(put(V.astype(np.float32)))
    assert narrow.dtype == put(V.astype(np.float32)).dtype


@pytest.mark.parametrize(
    ("word", "n_codes", "expected"),
    [
        ("1d", 10, TorusPooling((10,))),
        ("2d", 12, TorusPooling((3, 4))),
        ("2d", 7, TorusPooling((7,))),
        ("2d", 4, TorusPooling((4,))),
        ("2d", 9, TorusPooling((9,))),
        ("1d", 3, TorusPooling((3,), width=1)),
        ("1d", 2, TorusPooling((2,), width=1)),
        ("2d", 1, TorusPooling((1,), width=1)),
    ],
)
def test_pools_by_name(word, n_codes, expected):
    assert make_penalty("logcosh", word, n_codes=n_codes).pooling == expected


def test_pooling_replaces_the_penalty():
    assert isinstance(make_penalty("logcosh", "1d", n_codes=5), Pooled)
    assert isinstance(make_penalty("logcosh", None, n_codes=5), Elementwise)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TorusPooling((6,), width=4), r"width=4 must be odd.*side of \(6,\)"),
        (lambda: TorusPooling((3, 4), width=5), "width=5 must be odd, and at most the longest"),
        (lambda: TorusPooling((6,), width=0), "width=0 must be odd"),
        (lambda: TorusPooling((6,), width=3.0), r"width=3\.0 must be an integer; give an odd one"),
        (lambda: TorusPooling((5,), width="3"), "width='3' must be an integer; give an odd one"),
        (lambda: TorusPooling((5,), width=None), "width=None must be an integer"),
        (lambda: TorusPooling((3, 4)).check(10), r"\(3, 4\) has 12 places, and there are 10 codes"),
        (lambda: make_penalty("logcosh", [0, 0, 1], n_codes=4), "name 3 codes, and there are 4"),
        (lambda: make_penalty("logcosh", "3d", n_codes=4), "pooling='3d' must be '1d', '2d'"),
    ],
)
def test_pools_that_cannot_be(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize(
    ("shape", "width"),
    [((12,), 3), ((7,), 5), ((4,), 3), ((3, 4), 3), ((2, 6), 3), ((6, 2), 3), ((5, 7), 5)],
)
def test_the_compiled_pools_agree_with_the_reference(rng, shape, width, signed, dtype):
    K = int(np.prod(shape))
    signs = np.where(rng.random(K) < 0.5, 1.0, -1.0) if signed else None
    penalty = Pooled(TorusPooling(shape, width), signs)
    S = rng.normal(size=(9, K)).astype(dtype)
    found, expected = penalty(S), penalty.reference(S)
    assert found.slopes.dtype == dtype
    tol = 1e-5 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(found.value, expected.value, rtol=tol)
    np.testing.assert_allclose(found.slopes, expected.slopes, rtol=tol, atol=tol)


def test_pools_of_numpy_integers(rng):
    pooling = TorusPooling((np.int8(20), np.uint8(20)), width=np.int8(3))
    assert pooling == TorusPooling((20, 20))
    assert {type(n) for n in (*pooling.shape, pooling.width)} == {int}
    pooling.check(400)  # more than an int8 can count
    S = rng.normal(size=(2, 400))
    assert Pooled(pooling)(S).value == Pooled(TorusPooling((20, 20)))(S).value


def test_pools_of_every_kind_and_those_of_all_codes():
    assert TorusPooling(6) == TorusPooling((6,))
    assert GroupPooling([0, 0, 1]) == GroupPooling(np.array([0, 0, 1])) == GroupPooling((0, 0, 1))
    for shape in ((0, 6), (), (2.5,), 6.0, None, "6"):
        with pytest.raises(ValueError, match="must be one or more numbers of codes"):
            TorusPooling(shape)
    with pytest.raises(ValueError, match="groups must be finite"):
        make_penalty("logcosh", [0, 0, 1, np.nan], n_codes=4)
    with pytest.raises(ValueError, match="all codes are in one group; one pool of all codes"):
        make_penalty("logcosh", [0] * 4, n_codes=4)
    make_penalty("logcosh", [0], n_codes=1)
