"""Sums of blocks against loops, the density against direct sums, its modes against brute force."""

from itertools import pairwise
from math import pi, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from clusterica.arrays import to_host
from clusterica.ops.density import (
    Spread,
    Turns,
    labels_between,
    merges,
    n_cells_of_spread,
    node_weights,
    sheather_jones,
    smoothed,
    spectrum_of,
    spread,
    standard_errors,
    summarize,
    turns,
)


def on_grid(x, low, step, n_nodes, weights=None):
    w = np.ones(len(x)) if weights is None else weights
    ends = np.array([low]), np.array([step])
    return node_weights(x[:, None], *ends, w, n_nodes=n_nodes).weight


def grid_of(x, sigma, n_nodes=2**12):
    """First node and step of a grid with 8 sigma of room."""
    low, high = x.min() - 8 * sigma, x.max() + 8 * sigma
    return low, (high - low) / (n_nodes - 1)


# --- Sums over a block -----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_node_weights_against_a_loop(put, rng, dtype):
    x, w = rng.normal(size=50).astype(dtype), rng.uniform(size=50).astype(dtype)
    low, step, n = -1.0, 0.1, 25  # some rows lie outside
    expected = np.zeros(n)
    for value, weight in zip(x.astype(float), w, strict=True):
        j = int(np.floor((value - low) / step))
        if 0 <= j < n - 1:
            share = (value - low) / step - j
            expected[j] += weight * (1 - share)
            expected[j + 1] += weight * share
    args = put(x[:, None]), put(np.array([low])), put(np.array([step])), put(w)
    found = to_host(node_weights(*args, n_nodes=n).weight)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
    assert 0 < found.sum() < w.sum()


def test_node_weights_by_hand():
    """A row on a node gives it all, a row in between is shared; the last node is reached by a share."""
    x = np.array([0.0, 1.0, 1.25, 2.5, 3.0, -0.1])
    np.testing.assert_allclose(on_grid(x, 0.0, 1.0, 4), [1, 1.75, 0.75, 0.5])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_spread_against_a_loop(put, rng, dtype):
    x = (10.0 ** rng.uniform(-6, 6, size=60) * rng.choice([-1, 1], size=60)).astype(dtype)
    w = rng.uniform(size=60).astype(dtype)
    about, unit = 0.25, 1e-3
    n_cells = n_cells_of_spread(unit)
    weight, first, square = np.zeros(n_cells), np.zeros(n_cells), 0.0
    for value, share in zip(x.astype(float) - about, w.astype(float), strict=True):
        cell = int(np.floor(64 * np.arcsinh(value / unit))) + n_cells // 2
        weight[cell] += share
        first[cell] += share * value
        square += share * value**2
    args = put(x[:, None]), put(np.array([about])), put(np.array([unit])), put(w)
    found = spread(*args, n_cells=n_cells)
    np.testing.assert_allclose(to_host(found.weight), weight, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(
        to_host(found.first), first, rtol=1e-10, atol=1e-9 * abs(first).max()
    )
    assert float(found.square) == pytest.approx(square)


def test_cells_hold_every_number():
    ends = np.array([[-1.7e308], [1.7e308], [5e-324]])
    for unit in (1e-300, 1e-9, 1.0, 1e20):
        n_cells = n_cells_of_spread(unit)
        args = np.zeros(1), np.array([unit]), np.ones(3)
        with np.errstate(over="ignore"):  # of the square
            weight = spread(ends, *args, n_cells=n_cells).weight
        cells = np.flatnonzero(weight)
        assert cells[0] >= 0
        assert cells[-1] < n_cells
        assert len(cells) == 3


@pytest.mark.parametrize("cuts", [[], [0.5], [-1.0, 0.0, 2.0]])
def test_labels_between_against_a_loop(put, cuts):
    x = np.array([[-2.0], [-1.0], [0.0], [0.5], [0.6], [2.0], [7.0]])
    found = to_host(labels_between(put(x), put(np.array(cuts, dtype=float))))
    assert found.tolist() == [sum(cut <= value for cut in cuts) for value in x[:, 0]]
    assert found.dtype == np.int32


# --- Summary of a column ---------------------------------------------------------------------------


def summary_of(x, weights=None, *, about=None, unit=1e-9, tail=0.001):
    w = np.ones(len(x)) if weights is None else weights
    about = float(np.median(x)) if about is None else about
    args = x[:, None], np.array([about]), np.array([unit]), w
    total = spread(*args, n_cells=n_cells_of_spread(unit))
    return summarize(Spread(*total), about=about, unit=unit, tail=tail)


@given(
    seed=st.integers(0, 2**20),
    offset=st.sampled_from([0, -3, 1e6]),
    n=st.sampled_from([3, 50, 3000]),
)
def test_summary_of_a_sample(seed, offset, n):
    x = np.random.default_rng(seed).standard_t(2, size=n) + offset
    s = summary_of(x)
    assert s.n == n
    assert s.mean == pytest.approx(x.mean(), rel=1e-9, abs=1e-9)
    assert s.variance == pytest.approx(x.var(), rel=1e-6)
    quartiles = np.quantile(x, [0.25, 0.75], method="hazen")
    np.testing.assert_allclose(s.quartiles, quartiles, atol=0.02 * np.diff(quartiles)[0])
    reach = x.max() - x.min()
    assert x.min() - 0.02 * reach <= s.ends[0] <= x.min()
    assert x.max() <= s.ends[1] <= x.max() + 0.02 * reach


def test_quantiles_of_few_values_are_exact():
    x = np.array([1.0, 2.0, 4.0, 8.0, 20.0])
    np.testing.assert_allclose(
        summary_of(x).quartiles, np.quantile(x, [0.25, 0.75], method="hazen")
    )
    repeated = summary_of(np.repeat(x, [1, 3, 2, 1, 2]))
    weighted = summary_of(x, np.array([1.0, 3, 2, 1, 2]), about=float(np.median(x)))
    np.testing.assert_allclose(weighted.quartiles, repeated.quartiles)
    assert weighted.variance == pytest.approx(repeated.variance)


def test_scale_is_the_smaller_of_two(rng):
    x = rng.normal(size=4000)
    s = summary_of(x)
    iqr = np.subtract(*np.quantile(x, [0.75, 0.25]))
    assert s.scale == pytest.approx(min(x.std(), iqr / 1.34), rel=0.01)
    far = summary_of(np.append(x, 1e6))  # one outlier hardly changes it
    assert far.scale == pytest.approx(iqr / 1.34, rel=0.01)
    assert far.width == pytest.approx(x.std(), rel=0.02)
    half = summary_of(np.repeat([0.0, 1.0], [90, 10]))  # no interquartile range
    assert half.scale == pytest.approx(0.3)


# --- The density -----------------------------------------------------------------------------------


@pytest.mark.parametrize("sigma", [0.05, 0.3, 2.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_density_against_direct_sums(rng, sigma, weighted):
    """The error is at most (step / sigma)^2 / 8 of the height of one Gaussian."""
    x = rng.gamma(2.0, size=200)
    w = rng.uniform(size=200) if weighted else np.ones(200)
    low, step = grid_of(x, sigma)
    f = smoothed(spectrum_of(on_grid(x, low, step, 2**12, w)), step, sigma, 2**12)
    grid = low + step * np.arange(2**12)
    expected = stats.gaussian_kde(x, sigma / x.std(ddof=1), weights=w)
    # SciPy multiplies its factor by a weighted deviation: set the width itself.
    expected.set_bandwidth(expected.factor * sigma / sqrt(expected.covariance[0, 0]))
    bound = (step / sigma) ** 2 / 8 * stats.norm.pdf(0, scale=sigma)
    assert np.abs(f - expected(grid)).max() < bound + 1e-12
    assert step * f.sum() == pytest.approx(1)


@pytest.mark.parametrize("n_nodes", [2**9, 2**11])
def test_fewer_nodes_show_the_same_density(rng, n_nodes):
    x = rng.normal(size=100)
    low, step = grid_of(x, 0.3)
    spectrum = spectrum_of(on_grid(x, low, step, 2**12))
    full, few = (smoothed(spectrum, step, 0.3, n) for n in (2**12, n_nodes))
    np.testing.assert_allclose(few, full[:: 2**12 // n_nodes], atol=1e-12)


def test_nothing_is_left_far_from_the_rows():
    x = np.array([0.0, 100.0])
    low, step = grid_of(x, 1.0, 2**14)
    f = smoothed(spectrum_of(on_grid(x, low, step, 2**14)), step, 1.0, 2**14)
    grid = low + step * np.arange(2**14)
    away = (np.abs(grid) > 8) & (np.abs(grid - 100) > 8)
    assert (f[away] == 0).all()
    assert (f[(np.abs(grid) < 7)] > 0).all()


# --- Improved Sheather-Jones -----------------------------------------------------------------------


def slow_norm(x, j, t):
    """‖f^(j)‖² of the sample smoothed by variance t: the mean over all pairs of (-1)^j φ_{2t}^(2j)."""
    s = sqrt(2 * t)
    u = (x[:, None] - x[None, :]).ravel() / s
    hermite = np.polynomial.hermite_e.hermeval(u, [0] * (2 * j) + [1])
    values = hermite * np.exp(-(u**2) / 2) / sqrt(2 * pi)
    return (-1) ** j * values.mean() / s ** (2 * j + 1)


def slow_fixed_point(x, t, stages):
    """One round of the equations, with the norms summed over pairs of rows."""
    for j in range(stages, 0, -1):
        odd = np.prod(np.arange(1, 2 * j, 2), dtype=float)
        factor = (1 + 2 ** -(j + 0.5)) / 3 * odd * sqrt(2 / pi) / len(x)
        t = (factor / slow_norm(x, j + 1, t)) ** (2 / (3 + 2 * j))
    return ((6 * sqrt(2) - 3) / 7) ** 0.4 * t


@pytest.mark.parametrize("stages", [2, 5])
def test_sheather_jones_solves_the_equation(rng, stages):
    x = np.concatenate([rng.normal(0, 1, 60), rng.normal(7, 1, 60)])
    low, step = grid_of(x, 2.0, 2**13)
    sigma = sheather_jones(on_grid(x, low, step, 2**13), step, 120, stages=stages)
    assert slow_fixed_point(x, sigma**2, stages) == pytest.approx(sigma**2, rel=2e-3)


@pytest.mark.parametrize("distribution", [stats.norm(), stats.norm(5, 0.01)])
def test_sheather_jones_is_best_for_normal_samples(rng, distribution):
    """The best width is (4/3)^(1/5) s n^(-1/5), the constant of the normal distribution."""
    n = 20_000
    x = distribution.rvs(size=n, random_state=rng)
    low, step = grid_of(x, distribution.std(), 2**14)
    sigma = sheather_jones(on_grid(x, low, step, 2**14), step, n)
    assert sigma == pytest.approx((4 / 3) ** 0.2 * distribution.std() * n**-0.2, rel=0.1)


def test_sheather_jones_is_best_for_a_mixture(rng):
    """Rules of thumb would blur this one: t = (2 n √π ‖f''‖²)^(-2/5), with the norm integrated."""
    n = 20_000
    x = np.concatenate([rng.normal(0, 1, n // 2), rng.normal(20, 0.5, n // 2)])

    def curvature(z):
        parts = [(0, 1.0), (20, 0.5)]
        f = [stats.norm.pdf(z, m, s) * ((z - m) ** 2 / s**4 - 1 / s**2) for m, s in parts]
        return (0.5 * sum(f)) ** 2

    norm = integrate.quad(curvature, -6, 6)[0] + integrate.quad(curvature, 16, 24)[0]
    best = (2 * n * sqrt(pi) * norm) ** -0.2
    low, step = grid_of(x, 5.0, 2**15)
    sigma = sheather_jones(on_grid(x, low, step, 2**15), step, n)
    assert sigma == pytest.approx(best, rel=0.1)
    assert sigma < 0.05 * x.std() * n**-0.2 * 10  # far under Scott's rule


def test_sheather_jones_of_one_value():
    weights = np.zeros(2**10)
    weights[500] = 100.0
    assert sheather_jones(weights, 0.1, 100) is None


# --- Modes -----------------------------------------------------------------------------------------


def test_turns_by_hand():
    f = np.array([0, 1, 2, 1, 1, 3, 3, 0, 0, 0, 5, 0.0])
    t = turns(f)
    np.testing.assert_allclose(t.modes, [2, 5.5, 10])
    np.testing.assert_allclose(t.heights, [2, 3, 5])
    np.testing.assert_allclose(t.valleys, [3.5, 8])
    np.testing.assert_allclose(t.depths, [1, 0])
    assert turns(np.array([3.0, 1.0, 2.0])).modes.tolist() == [0, 2]  # ends count as well


def test_turns_of_a_parabola_lie_between_nodes():
    place = 10.3
    t = turns(100 - (np.arange(20) - place) ** 2)
    np.testing.assert_allclose(t.modes, [place])


@given(values=st.lists(st.integers(0, 5), min_size=1, max_size=30).filter(any))
def test_turns_against_brute_force(values):
    """A mode is a level stretch with lower values, or the end, at both sides."""
    f = np.array(values, dtype=float)
    stretches, i = [], 0
    while i < len(f):
        j = i
        while j + 1 < len(f) and f[j + 1] == f[i]:
            j += 1
        stretches.append((i, j))
        i = j + 1
    beyond = [0.0, *f, 0.0]
    tops = [f[i] for i, j in stretches if beyond[i] < f[i] > beyond[j + 2]]
    found = turns(f)
    assert found.heights.tolist() == tops
    assert len(found.valleys) == len(tops) - 1
    between = [f[int(np.ceil(a)) : int(b) + 1].min() for a, b in pairwise(found.modes)]
    np.testing.assert_array_equal(found.depths, between)


@pytest.mark.parametrize("distance", [1.5, 1.95, 2.05, 3.0, 6.0])
def test_two_modes_of_a_mixture_from_two_sigma_on(distance):
    """Two equal Gaussians have two modes if and only if they are more than 2 sigma apart."""
    grid = np.linspace(-8, 8, 4001)
    f = 0.5 * (stats.norm.pdf(grid, -distance / 2) + stats.norm.pdf(grid, distance / 2))
    t = turns(f)
    assert len(t.modes) == (2 if distance > 2 else 1)
    if distance > 2:
        np.testing.assert_allclose(np.interp(t.valleys, np.arange(4001), grid), [0], atol=1e-6)


def brute_merges(heights, depths):
    """The persistence of each mode: its height over the highest pass to a higher mode."""
    found = []
    for i, height in enumerate(heights):
        passes = []
        for j, other in enumerate(heights):
            if other > height:
                a, b = sorted((i, j))
                passes.append(min(depths[a:b]))
        if passes:
            found.append(height - max(passes))
    return sorted(found)


@given(data=st.data(), n=st.integers(2, 12))
def test_merges_against_brute_force(data, n):
    order = st.permutations(range(n))
    heights = 10.0 + np.array(data.draw(order))  # no two are alike
    depths = np.array(data.draw(st.permutations(range(n - 1))), dtype=float)
    shares = np.random.default_rng(n).dirichlet(np.ones(n))
    m = merges(Turns(np.arange(n), heights, np.arange(n - 1), depths), shares)
    assert sorted(m.persistence) == brute_merges(heights, depths)
    assert sorted([*m.mode, heights.argmax()]) == list(range(n))  # all but the highest end once
    # Of a mode that ends, the share is that of the modes from which it is reached above the pass.
    for valley, mode in enumerate(m.mode):
        left = right = mode
        while left > 0 and depths[left - 1] > depths[valley]:
            left -= 1
        while right < n - 1 and depths[right] > depths[valley]:
            right += 1
        assert m.share[valley] == pytest.approx(shares[left : right + 1].sum())


def test_standard_errors_of_a_lone_group():
    """k equal rows far from the rest: height k φ(0) / (n σ) and no valley."""
    n, sigma, k = 1000, 0.2, 16
    height = k * stats.norm.pdf(0) / (n * sigma)
    m = merges(
        Turns(np.arange(2), np.array([1.0, height]), np.ones(1), np.zeros(1)), np.array([0.9, 0.1])
    )
    expected = sqrt(k) * stats.norm.pdf(0) / sqrt(stats.norm.pdf(0) / (2 * sqrt(pi)))
    np.testing.assert_allclose(standard_errors(m, n, sigma), [expected])


def test_standard_errors_are_those_of_samples(rng):
    """The height at a point, over many samples, scatters by the standard error."""
    n, sigma, at = 400, 0.15, 0.5
    draws = rng.normal(size=(1000, n))
    heights = stats.norm.pdf(at, draws, sigma).mean(axis=1)
    m = merges(
        Turns(np.arange(2), np.array([9.0, heights.mean()]), np.ones(1), np.zeros(1)),
        np.ones(2) / 2,
    )
    # The formula leaves out -f²/n, which is small where sigma is.
    expected = heights.mean() / standard_errors(m, n, sigma)[0]
    assert heights.std() == pytest.approx(expected, rel=0.15)
