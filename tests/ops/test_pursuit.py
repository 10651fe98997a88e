"""Sums of a pursuit against loops in NumPy; contrasts oriented by distributions with known signs."""

import numpy as np
import pytest
from scipy import integrate, stats

from clusterica.arrays import device_of, to_host
from clusterica.contrasts import Exponential, LogCosh, Quartic, SmoothedLaplace
from clusterica.ops.pursuit import column_fourths, orient, pursuit_sums

CONTRASTS = [Quartic(), LogCosh(), Exponential(), SmoothedLaplace()]

LAPLACE = stats.laplace(scale=0.5**0.5)
UNIFORM = stats.uniform(-(3**0.5), 2 * 3**0.5)


def cosine(y):
    """Bounded and not monotone: larger for sub-Gaussian variables, or smaller?"""
    return np.cos(y), -np.sin(y), -np.cos(y)


@pytest.mark.parametrize("contrast", [Quartic(), LogCosh(), Exponential()], ids=str)
def test_sums_of_a_block(contrast, put):
    rng = np.random.default_rng()
    X, F, mean = rng.normal(size=(50, 4)), rng.normal(size=(3, 4)), rng.normal(size=4)
    total = pursuit_sums(put(X), put(F), put(mean), contrast=contrast)
    for j in range(3):
        value, gradient, curvature = 0.0, np.zeros(4), 0.0
        for x in X:
            G, g, h = (float(v) for v in contrast(F[j] @ (x - mean)))
            value, gradient, curvature = value + G, gradient + g * (x - mean), curvature + h
        np.testing.assert_allclose(to_host(total.value)[j], value)
        np.testing.assert_allclose(to_host(total.gradient)[j], gradient)
        np.testing.assert_allclose(to_host(total.curvature)[j], curvature)
    assert type(total.gradient) is type(put(X))
    assert device_of(total.gradient) == device_of(put(X))


def test_tiles_add_up():
    rng = np.random.default_rng()
    X, F = rng.normal(size=(1000, 2)), rng.normal(size=(300, 2))  # some 100 rows a tile
    whole = pursuit_sums(X, F, np.zeros(2), contrast=Quartic())
    parts = [pursuit_sums(X[i::2], F, np.zeros(2), contrast=Quartic()) for i in (0, 1)]
    for total, a, b in zip(whole, *parts, strict=True):
        np.testing.assert_allclose(total, a + b)
    np.testing.assert_allclose(whole.value, ((X @ F.T) ** 4).sum(axis=0))


def test_fourths_of_columns(put):
    X = np.random.default_rng().normal(size=(30, 3))
    mean, scale = np.array([1.0, 0.0, 2.0]), np.array([2.0, np.inf, 0.5])
    (fourths,) = column_fourths(put(X), put(mean), put(scale))
    np.testing.assert_allclose(to_host(fourths), (((X - mean) / scale) ** 4).sum(axis=0))


@pytest.mark.parametrize(
    "contrast",
    [*CONTRASTS, cosine],
    ids=lambda contrast: type(contrast).__name__,
)
def test_negative_for_sub_gaussian_distributions(contrast):
    """Uniform variables and two clusters are below 0, Laplace and logistic ones above, normal ones at 0."""
    oriented = orient(contrast)

    def excess(distribution):
        def G(y):
            return float(oriented.contrast(np.array([y]))[0][0])

        breaks = [-(3**0.5), 0, 3**0.5]  # of the uniform distribution, and of a kink
        mean, _ = integrate.quad(
            lambda y: G(y) * distribution(y), -12, 12, points=breaks, limit=200
        )
        return oriented.excess(np.array([mean]))[0]

    def humps(y):  # two clusters of deviation 0.6 at ±0.8: unit variance
        return (stats.norm.pdf(y, 0.8, 0.6) + stats.norm.pdf(y, -0.8, 0.6)) / 2

    assert excess(stats.norm.pdf) == pytest.approx(0, abs=1e-8)
    assert excess(UNIFORM.pdf) < -1e-3
    assert excess(humps) < -1e-3
    assert excess(LAPLACE.pdf) > 1e-3
    assert excess(stats.logistic(scale=3**0.5 / np.pi).pdf) > 1e-3


def test_moments_of_a_normal_variable():
    """Kurtosis has 3 and √24; exp has the constants of Hyvärinen's approximation of the negentropy."""
    kurtosis, bell = orient(Quartic()), orient(Exponential())
    negentropy = orient(Exponential(), squared=True)
    assert kurtosis.sign == 1
    assert kurtosis.normal_mean == pytest.approx(3, rel=1e-12)
    assert kurtosis.spread == pytest.approx(24**0.5, rel=1e-12)
    assert (bell.sign, bell.normal_mean) == (-1, pytest.approx(-(0.5**0.5), rel=1e-12))
    difference = 0.1
    expected = 24 / (16 * 3**0.5 - 27) * difference**2
    assert negentropy.reported(np.array([difference])) == pytest.approx(expected)
    assert negentropy.reported(np.array([-difference])) == pytest.approx(-expected)
    assert bell.reported(np.array([difference])) == pytest.approx(difference)


def test_standard_error():
    """Of the mean of G over normal values that are scaled to mean 0 and variance 1."""
    rng = np.random.default_rng(0)
    y = rng.normal(size=(4000, 400))
    y = (y - y.mean(axis=1, keepdims=True)) / y.std(axis=1, keepdims=True)
    for contrast in (LogCosh(), Exponential()):
        oriented = orient(contrast)
        means = oriented.contrast(y).value.mean(axis=1)
        assert np.std(means) == pytest.approx(oriented.spread / 20, rel=0.05)


@pytest.mark.parametrize(
    "blind",
    [
        lambda y: (y**2, 2 * y, 2 + 0 * y),
        lambda y: (y**3, 3 * y**2, 6 * y),
        lambda y: (5 + 0 * y, 0 * y, 0 * y),
    ],
    ids=["square", "cube", "constant"],
)
def test_contrasts_with_the_same_mean_for_all_distributions(blind):
    with pytest.raises(ValueError, match=r"can't tell them apart; use another"):
        orient(blind)


def test_noise_shrinks_with_rows_and_grows_with_dimensions():
    for contrast in CONTRASTS:
        oriented = orient(contrast)
        for side in (-1.0, 1.0):
            few, many, wide = (
                side * oriented.noise_level(n, d, side)
                for n, d in ((100, 4), (10_000, 4), (100, 9))
            )
            assert 0 < many < few < wide
    kurtosis = orient(Quartic())
    assert -3 < kurtosis.noise_level(10, 1000, -1.0) < -2
    assert kurtosis.noise_level(10, 1000, 1.0) > 10  # more than ten rows can have
    fourth = orient(lambda y: (y**4, 4 * y**3, 12 * y**2))
    for side in (-1.0, 1.0):
        assert fourth.noise_level(150, 4, side) == pytest.approx(kurtosis.noise_level(150, 4, side))
    # Far from the edge it is a number of standard errors.
    assert kurtosis.noise_level(10**8, 4, 1.0) == pytest.approx(4.6 * (24 / 1e8) ** 0.5, rel=1e-3)
