"""Modified Bessel functions, against values of 60 digits and SciPy's where it has them."""

import numpy as np
import pytest
from scipy import special

from clusterica.ops.bessel import log_bessel

# Order, argument, log I, I of the next order / I; by mpmath with 60 digits.
EXACT = [
    (0.0, 0.001, 2.4999998437500175e-07, 0.0004999999375000105),
    (0.0, 2.0, 0.8239935414829563, 0.697774657964008),
    (0.0, 300.0, 296.22958759300224, 0.9983319397905335),
    (0.0, 5000.0, 4994.822489873588, 0.9998999949989997),
    (0.0, 1000000.0, 999992.1733063128, 0.999999499999875),
    (0.5, 0.001, -3.6796688254691348, 0.0003333333111111132),
    (0.5, 2.0, 0.716002429689468, 0.537314720727548),
    (0.5, 300.0, 296.22917022946723, 0.9966666666666667),
    (0.5, 5000.0, 4994.8224648710875, 0.9998),
    (0.5, 1000000.0, 999992.1733061878, 0.999999),
    (1.5, 0.001, -11.686036459786044, 0.00019999999428571455),
    (1.5, 2.0, 0.0948311456613428, 0.3611066502067083),
    (1.5, 300.0, 296.2258313282017, 0.9933444816053512),
    (1.5, 5000.0, 4994.822264851085, 0.9996000400080016),
    (1.5, 1000000.0, 999992.1733051878, 0.999998000001),
    (49.0, 0.001, -517.0099644589069, 9.999999999019608e-06),
    (49.0, 2.0, -144.54574786590388, 0.01999216289021958),
    (49.0, 300.0, 292.23014144732196, 0.8482932360413149),
    (49.0, 5000.0, 4994.582367781082, 0.9901480234522946),
    (49.0, 1000000.0, 999992.1721058122, 0.9999505012003762),
    (499.0, 0.001, -6397.966177672733, 9.99999999999002e-07),
    (499.0, 2.0, -2605.1138503657257, 0.001999992016031681),
    (499.0, 300.0, -61.62213051699342, 0.27701777735262584),
    (499.0, 5000.0, 4969.940517334899, 0.9050686625697957),
    (499.0, 1000000.0, 999992.0488057531, 0.9995006245004917),
    (1999.5, 0.001, -28400.728304638305, 2.4993751562107914e-07),
    (1999.5, 2.0, -13202.723336909068, 0.0004998749063983613),
    (1999.5, 300.0, -3172.742744952472, 0.0745645742154549),
    (1999.5, 5000.0, 4600.074557029739, 0.6770096122768758),
    (1999.5, 1000000.0, 999990.1743058544, 0.998001999000001),
]


@pytest.mark.parametrize(("order", "kappa", "log_value", "ratio"), EXACT)
def test_exact_values(order, kappa, log_value, ratio):
    found = log_bessel(order, np.array([kappa]))
    np.testing.assert_allclose(found.log_value, log_value, rtol=1e-14, atol=1e-12)
    np.testing.assert_allclose(found.ratio, ratio, rtol=1e-14)


def test_as_scipy_where_it_does_not_overflow():
    rng = np.random.default_rng()
    for order in [0.0, 0.5, 1.0, *rng.uniform(0, 60, 20)]:
        kappa = 10 ** rng.uniform(-2, 3, 50)
        value, following = special.ive(order, kappa), special.ive(order + 1, kappa)
        known = following > 1e-290  # above the numbers that lose digits
        found = log_bessel(order, kappa[known])
        np.testing.assert_allclose(
            found.log_value, np.log(value[known]) + kappa[known], rtol=1e-11, atol=1e-11
        )
        np.testing.assert_allclose(found.ratio, (following / value)[known], rtol=1e-11)


def test_the_recurrence_in_ten_thousand_dimensions():
    """``I_{ν-1} = I_{ν+1} + 2ν/κ I_ν``, where every value overflows."""
    rng = np.random.default_rng()
    kappa = 10 ** rng.uniform(-3, 6, 200)
    below, here = log_bessel(4999.0, kappa), log_bessel(5000.0, kappa)
    np.testing.assert_allclose(1 / below.ratio, here.ratio + 10_000 / kappa, rtol=1e-13)
    gap = here.log_value - below.log_value - np.log(below.ratio)
    # The logarithm is a sum of terms as large as the order, also where it is near zero.
    assert (np.abs(gap) <= 1e-13 * (5000 + np.abs(here.log_value))).all()
