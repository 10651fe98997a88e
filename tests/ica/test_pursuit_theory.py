"""What P2 proves, as properties: (2.2), Lemmas 1 to 3, and that (3.3) and the unit sphere agree."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.datasets import load_iris

from clusterica.ica import KurtosisPursuit
from clusterica.preprocessing import Whitener


def discrete_distribution(rng, n_atoms=3):
    """Atoms and probabilities of a distribution of mean 0 and variance 1."""
    shares = rng.dirichlet(np.ones(n_atoms)) * 0.9 + 0.1 / n_atoms
    atoms = rng.normal(size=n_atoms)
    atoms -= shares @ atoms
    return atoms / np.sqrt(shares @ atoms**2), shares


def excess(atoms, shares):
    return shares @ atoms**4 / (shares @ atoms**2) ** 2 - 3


def unit(vector):
    return vector / np.linalg.norm(vector)


@st.composite
def kurtoses(draw, **bounds):
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    return rng, rng.uniform(
        bounds.get("low", -2), bounds.get("high", 6), size=draw(st.integers(2, 6))
    )


@given(seed=st.integers(0, 2**32), d=st.integers(1, 4))
def test_kurtosis_of_a_sum_of_sources(seed, d):
    """(2.2): the sum over all atoms of the product distribution is exact: no sampling error."""
    rng = np.random.default_rng(seed)
    distributions = [discrete_distribution(rng) for _ in range(d)]
    gamma = unit(rng.normal(size=d))
    atoms, shares = np.zeros(1), np.ones(1)
    for weight, (values, p) in zip(gamma, distributions, strict=True):
        atoms = (atoms[:, None] + weight * values).ravel()
        shares = (shares[:, None] * p).ravel()
    expected = sum(
        g**4 * excess(*distribution) for g, distribution in zip(gamma, distributions, strict=True)
    )
    np.testing.assert_allclose(excess(atoms, shares), expected, rtol=1e-9, atol=1e-9)


@given(kurtoses())
def test_lemma_1_largest_kurtosis(case):
    rng, kappa = case
    kappa[0] = abs(kappa).max() + 0.1  # positive, and larger than all others
    gammas = [unit(rng.normal(size=len(kappa))) for _ in range(50)]
    assert all(gamma**4 @ kappa <= kappa[0] for gamma in gammas)
    assert np.eye(len(kappa))[0] ** 4 @ kappa == kappa[0]


@given(kurtoses(), st.sampled_from([-1, 1]))
def test_lemma_2_largest_absolute_kurtosis(case, sign):
    """The maximum is ``|kappa_1|``; without the bars, as printed, it fails for a negative one."""
    rng, kappa = case
    kappa[0] = sign * (abs(kappa).max() + 0.1)
    gammas = [unit(rng.normal(size=len(kappa))) for _ in range(50)]
    assert all(abs(gamma**4 @ kappa) <= abs(kappa[0]) for gamma in gammas)
    assert abs(np.eye(len(kappa))[0] ** 4 @ kappa) == abs(kappa[0])


@given(kurtoses())
def test_lemma_3_least_kurtosis(case):
    rng, kappa = case
    kappa[-1] = min(kappa.min(), 0) - 0.1  # negative, and smaller than all others
    gammas = [unit(rng.normal(size=len(kappa))) for _ in range(50)]
    assert all(gamma**4 @ kappa >= kappa[-1] for gamma in gammas)
    assert np.eye(len(kappa))[-1] ** 4 @ kappa == kappa[-1]


@given(kurtoses(low=0.1))
def test_lemma_3_needs_a_negative_kurtosis(case):
    """Where all are positive a mixture has less kurtosis than any source."""
    _, kappa = case
    gamma = np.sqrt(1 / kappa / (1 / kappa).sum())
    assert gamma**4 @ kappa == pytest.approx(1 / (1 / kappa).sum())
    assert gamma**4 @ kappa < kappa.min()


def phi(b, Y):
    """(3.3), with its gradient."""
    length2, p = b @ b, Y @ b
    fourth = (p**4).mean()
    gradient = 4 * (p**3 @ Y) / len(Y) / length2**2 - 4 * fourth / length2**3 * b
    return fourth / length2**2 - 3 + (length2 - 1) ** 2, gradient + 4 * (length2 - 1) * b


@pytest.mark.parametrize("data", ["iris", "clusters"])
def test_penalised_objective_has_the_same_minimum(data):
    rng = np.random.default_rng(0)
    if data == "iris":
        X = load_iris().data
    else:
        X = rng.normal(size=(400, 3))
        X[:, 1] = np.where(rng.random(400) < 0.4, -2, 2) + 0.5 * X[:, 1]
        X = X @ rng.normal(size=(3, 3))
    Y = Whitener("pca", eps=0.0).fit_transform(X) * np.sqrt(len(X) / (len(X) - 1))
    runs = [
        minimize(phi, 3 * rng.normal(size=Y.shape[1]), args=(Y,), jac=True, tol=1e-12)
        for _ in range(20)
    ]
    best = min(runs, key=lambda r: r.fun)
    pursuit = KurtosisPursuit(random_state=0).fit(X)
    assert best.x @ best.x == pytest.approx(1, abs=1e-5)
    assert pursuit.objective_[0] == pytest.approx(best.fun, abs=1e-9)
    p = pursuit.transform(X)[:, 0]
    assert abs(np.corrcoef(p, Y @ best.x)[0, 1]) == pytest.approx(1, abs=1e-9)
