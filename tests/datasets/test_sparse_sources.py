"""Sources have the distributions, the variance and the mixture that were asked for."""

import numpy as np
import pytest
from scipy import stats

from clusterica.datasets import make_sparse_sources

DISTRIBUTIONS = {
    "laplace": stats.laplace(scale=np.sqrt(0.5)),
    "hypsecant": stats.hypsecant(scale=2 / np.pi),
    "logistic": stats.logistic(scale=np.sqrt(3) / np.pi),
    "t": stats.t(5, scale=np.sqrt(3 / 5)),
    "cauchy": stats.cauchy(),
    "uniform": stats.uniform(-np.sqrt(3), 2 * np.sqrt(3)),
    "gaussian": stats.norm(),
}


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_distribution(distribution):
    S = make_sparse_sources(4000, 2, distribution=distribution, random_state=0).S
    assert np.isfinite(S).all()
    assert stats.kstest(S.ravel(), DISTRIBUTIONS[distribution].cdf).pvalue > 0.01


@pytest.mark.parametrize("distribution", [name for name in DISTRIBUTIONS if name != "cauchy"])
def test_unit_variance(distribution):
    # That of the distribution which the test before this one finds.
    assert DISTRIBUTIONS[distribution].var() == pytest.approx(1)
    S = make_sparse_sources(100_000, 1, distribution=distribution, random_state=1).S
    assert S.var() == pytest.approx(1, rel=0.05)


def test_student_below_two_degrees_is_not_scaled():
    S = make_sparse_sources(4000, 1, distribution="t", df=1.5, random_state=0).S
    assert stats.kstest(S.ravel(), stats.t(1.5).cdf).pvalue > 0.01


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            stats.gennorm(0.7, loc=5, scale=9),
            stats.gennorm(0.7, scale=1 / stats.gennorm(0.7).std()),
        ),
        (stats.expon(), stats.expon(loc=-1)),  # its mean is 1
        (stats.t(1.5, loc=2), stats.t(1.5)),  # a mean, but no variance
        (stats.cauchy(loc=1), stats.cauchy(loc=1)),  # neither
    ],
    ids=["gennorm", "expon", "t", "cauchy"],
)
def test_frozen_distribution_of_scipy(given, expected):
    S = make_sparse_sources(4000, 1, distribution=given, random_state=0).S
    assert S.shape == (4000, 1)
    assert stats.kstest(S.ravel(), expected.cdf).pvalue > 0.01
    again = make_sparse_sources(4000, 1, distribution=given, random_state=0).S
    assert np.array_equal(S, again)


def test_no_mixing_is_the_identity():
    X, S, A = make_sparse_sources(10, 3, random_state=0)
    assert np.array_equal(X, S)
    assert np.array_equal(A, np.eye(3))


def test_mixing_matrix():
    A = [[1, 2], [0, 1], [3, 0]]
    draw = make_sparse_sources(10, 2, mixing=A, random_state=0)
    assert draw.X.shape == (10, 3)
    np.testing.assert_allclose(draw.X[:, 2], 3 * draw.S[:, 0])
    np.testing.assert_allclose(draw.X[:, 0], draw.S[:, 0] + 2 * draw.S[:, 1])


def test_orthogonal_mixing():
    X, S, A = make_sparse_sources(10, 4, mixing="orthogonal", random_state=0)
    np.testing.assert_allclose(A @ A.T, np.eye(4), atol=1e-12)
    np.testing.assert_allclose(X @ A, S, atol=1e-12)
    assert not np.allclose(np.abs(A), np.eye(4))


def test_seeds():
    first = make_sparse_sources(5, 2, mixing="orthogonal", random_state=3)
    again = make_sparse_sources(5, 2, mixing="orthogonal", random_state=3)
    other = make_sparse_sources(5, 2, mixing="orthogonal", random_state=4)
    assert np.array_equal(first.X, again.X)
    assert not np.array_equal(first.X, other.X)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"distribution": "gauss"}, "the sources is 'gauss'.*laplace"),
        ({"distribution": stats.t}, "the sources is <scipy.*with its parameters"),
        ({"distribution": 3}, "the sources is 3"),
        ({"distribution": "t", "df": 0}, "df is 0"),
        ({"mixing": "random"}, "mixing is 'random'"),
        ({"mixing": np.eye(3)}, r"mixing has shape \(3, 3\).*n_features=2"),
    ],
)
def test_errors(settings, message):
    with pytest.raises(ValueError, match=message):
        make_sparse_sources(10, 2, **settings)
