"""Contrasts and their derivatives, on every array library, against finite differences and values by hand."""

import numpy as np
import pytest

from clusterica.arrays import device_of, to_host
from clusterica.contrasts import (
    Derivatives,
    Exponential,
    LogCosh,
    Quartic,
    SmoothedLaplace,
    check_contrast,
)

CONTRASTS = [SmoothedLaplace(), SmoothedLaplace(width=0.5), LogCosh(), Exponential(), Quartic()]


@pytest.fixture(params=CONTRASTS, ids=str)
def contrast(request):
    return request.param


def test_derivatives_by_finite_differences(contrast, put):
    y = np.random.default_rng().uniform(-4, 4, size=(30, 3))
    step = 1e-5
    here, above, below = (contrast(put(y + shift)) for shift in (0, step, -step))
    for derivative in (1, 2):
        slope = (to_host(above[derivative - 1]) - to_host(below[derivative - 1])) / (2 * step)
        np.testing.assert_allclose(to_host(here[derivative]), slope, rtol=1e-6, atol=1e-6)


def test_results_are_where_the_data_is(contrast, put):
    for dtype in ("float32", "float64"):
        y = put(np.linspace(-2, 2, 6, dtype=dtype).reshape(2, 3))
        for values in contrast(y):
            assert type(values) is type(y)
            assert device_of(values) == device_of(y)
            assert values.dtype == y.dtype
            assert values.shape == y.shape


@pytest.mark.parametrize(
    ("contrast", "y", "expected"),
    [
        (Quartic(), 2.0, (16, 32, 48)),
        (Exponential(), 0.0, (-1, 0, 1)),
        (Exponential(), 1.0, (-np.exp(-0.5), np.exp(-0.5), 0)),
        (LogCosh(), 0.0, (0, 0, 1)),
        (LogCosh(), np.log(2), (np.log(1.25), 0.6, 0.64)),
        (SmoothedLaplace(width=3.0), 4.0, (2**0.5 * 2, 2**0.5 * 0.8, 2**0.5 * 9 / 125)),
        (SmoothedLaplace(), 0.0, (0, 0, 2**0.5 / 0.1)),
    ],
    ids=str,
)
def test_values_by_hand(contrast, y, expected):
    np.testing.assert_allclose(contrast(np.array([y])), np.array(expected)[:, None], atol=1e-15)


def test_log_cosh_of_small_numbers_is_half_their_square():
    y = np.array([1e-9, -1e-5, 1e-3])
    np.testing.assert_allclose(LogCosh()(y).value, y**2 / 2, rtol=1e-6)


def test_even(contrast):
    y = np.random.default_rng().normal(size=20)
    for here, there, sign in zip(contrast(y), contrast(-y), (1, -1, 1), strict=True):
        np.testing.assert_allclose(here, sign * there, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("contrast", [c for c in CONTRASTS if c != Quartic()], ids=str)
def test_far_rows_do_not_overflow(contrast, dtype):
    y = np.array([-1e4, 1e4], dtype=dtype)
    value, first, second = contrast(y)
    growth = {LogCosh: 1, SmoothedLaplace: 2**0.5, Exponential: 0}[type(contrast)]
    np.testing.assert_allclose(value, growth * 1e4, rtol=1e-3, atol=1e-12)
    np.testing.assert_allclose(first, growth * np.sign(y), rtol=1e-3, atol=1e-12)
    np.testing.assert_allclose(second, 0, atol=1e-6)


def test_checker_takes_ours(contrast):
    check_contrast(contrast)


def test_checker_takes_a_plain_tuple():
    check_contrast(lambda y: (np.cos(y), -np.sin(y), -np.cos(y)))


@pytest.mark.parametrize(
    ("contrast", "message"),
    [
        (lambda y: (y**2, 2.001 * y, np.full_like(y, 2)), r"^G' is off by 0\.0005 of its size"),
        (lambda y: (y**4, 4 * y**3, 12 * y), "^G'' is off by"),
        (lambda y: (y**2, 2 * y, 2.0), r"G'' has shape \(\); it must be that of y"),
        (lambda y: ((y**2).sum(), 2 * y, 2 + 0 * y), r"G has shape \(\)"),
        (lambda y: (y**2, np.where(y > 3, np.nan, 2 * y), 2 + 0 * y), "G' is not finite"),
    ],
    ids=["first", "second", "number", "sum", "nan"],
)
def test_checker_finds_errors(contrast, message):
    with pytest.raises(ValueError, match=message):
        check_contrast(contrast)


def test_checker_can_be_lenient():
    def rough(y):
        return Derivatives(y**2, 2.001 * y, np.full_like(y, 2))

    check_contrast(rough, tol=1e-2)
