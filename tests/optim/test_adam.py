"""Adam against its equations, step by step."""

import numpy as np

from clusterica.optim import adam, no_averages


def test_steps_are_those_of_the_equations(rng):
    averages, g, v = no_averages(np.zeros((3, 2))), 0.0, 0.0
    for n in range(1, 20):
        gradient = rng.normal(size=(3, 2))
        g, v = 0.9 * g + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2
        averages, step = adam(averages, gradient)
        assert averages.n_steps == n
        np.testing.assert_allclose(step, -(g / (1 - 0.9**n)) / np.sqrt(v / (1 - 0.999**n)))


def test_the_first_step_is_one_against_the_slope_at_any_scale():
    gradient = np.array([1e-200, -3.0, 0.0, 1e10])
    _, step = adam(no_averages(gradient), gradient)
    np.testing.assert_allclose(step[1:], [1, 0, -1])
    assert np.isfinite(step).all()


def test_the_minimum_of_a_parabola(rng):
    x, averages = rng.normal(size=4), no_averages(np.zeros(4))
    for n in range(500):
        averages, step = adam(averages, [1.0, 10, 100, 1000] * x + 0.01 * rng.normal(size=4))
        x = x + 0.1 / np.sqrt(1 + n) * step
    np.testing.assert_allclose(x, 0, atol=0.02)
