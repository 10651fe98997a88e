"""The discrimination term of labelled codes against a loop, and where it is convex."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterica.arrays import to_host
from clusterica.ops.discrimination import Discrimination
from clusterica.ops.rica import class_moments


def looped(S, labels, term):
    """Sum of d(s) over rows, from equation (10) with its row vectors D+ and D-."""
    k = S.shape[1] // term.n_classes
    total = 0.0
    for s, label in zip(S, labels, strict=True):
        own = np.zeros(len(s))
        own[label * k : (label + 1) * k] = 1
        total += ((1 - own) @ s) ** 2
        if term.homogeneous:
            total += term.eta * s @ s - (own @ s) ** 2
    return total


@pytest.mark.parametrize("homogeneous", [True, False])
@pytest.mark.parametrize(("n_classes", "k"), [(2, 1), (3, 4), (5, 2)])
def test_codes_against_a_loop(put, n_classes, k, homogeneous):
    rng = np.random.default_rng()
    term = Discrimination(n_classes, eta=rng.uniform(0, 5), homogeneous=homogeneous)
    S, move = rng.normal(size=(2, 20, n_classes * k))
    labels = rng.integers(n_classes, size=20)
    value, slopes = term.of_codes(put(S), put(labels))
    np.testing.assert_allclose(to_host(value), looped(S, labels, term))
    # d is a parabola: its difference quotient is exact at any step.
    slope = (looped(S + move, labels, term) - looped(S - move, labels, term)) / 2
    np.testing.assert_allclose((to_host(slopes) * move).sum(), slope, rtol=1e-9)
    narrow = term.of_codes(put(S.astype(np.float32)), put(labels))
    assert narrow.slopes.dtype == put(S.astype(np.float32)).dtype
    np.testing.assert_allclose(to_host(narrow.value), to_host(value), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("homogeneous", [True, False])
def test_moments_against_codes(homogeneous):
    rng = np.random.default_rng()
    term = Discrimination(3, eta=1.7, homogeneous=homogeneous)
    X, labels = rng.normal(size=(30, 5)), rng.integers(3, size=30)
    W, move = rng.normal(size=(2, 6, 5))
    moments = np.stack([X[labels == c].T @ X[labels == c] for c in range(3)])
    value, gradient = term.of_moments(W, moments)
    codes = term.of_codes(X @ W.T, labels)
    np.testing.assert_allclose(value, codes.value)
    np.testing.assert_allclose(gradient, codes.slopes.T @ X, rtol=1e-9, atol=1e-9)
    slope = sum(sign * looped(X @ (W + sign * move).T, labels, term) for sign in (1, -1)) / 2
    np.testing.assert_allclose((gradient * move).sum(), slope, rtol=1e-9)


def test_class_moments_against_a_loop(put):
    rng = np.random.default_rng()
    X, labels = rng.normal(size=(25, 3)) + 4, rng.integers(3, size=25)
    labels[labels == 1] = 2  # no row of the second class in this block
    about = np.array([1.0, 2, 3])
    for dtype in ("float32", "float64"):
        expected = [np.zeros(3), np.zeros((3, 3)), np.zeros((3, 3, 3))]
        for x, label in zip(X.astype(dtype) - about, labels, strict=True):
            expected[0][label] += 1
            expected[1][label] += x
            expected[2][label] += np.outer(x, x)
        found = class_moments(put(X.astype(dtype)), put(about), put(labels), n_classes=3)
        for values, right in zip(found, expected, strict=True):
            np.testing.assert_allclose(to_host(values), right, rtol=1e-12, atol=1e-12)


def hessian(k, n_classes, label, eta):
    """Half the second derivative of d, from its slopes: they are linear."""
    K = k * n_classes
    labels = np.full(K, label)
    return Discrimination(n_classes, eta).of_codes(np.eye(K), labels).slopes / 2


@given(
    st.integers(1, 6),
    st.integers(2, 5),
    st.floats(0, 12),
    st.integers(0, 10),
)
def test_convex_exactly_above_k(k, n_classes, eta, label):
    """The least eigenvalue is η - k: Appendix B's k + 1 is enough, and more than is needed."""
    A = hessian(k, n_classes, label % n_classes, eta)
    np.testing.assert_allclose(A, A.T)
    np.testing.assert_allclose(np.linalg.eigvalsh(A)[0], eta - k, atol=1e-9)
    own = np.zeros(k * n_classes)
    own[(label % n_classes) * k : (label % n_classes + 1) * k] = 1
    np.testing.assert_allclose(own @ A @ own, k * (eta - k), atol=1e-9)


@given(st.integers(1, 6), st.integers(2, 5), st.integers(0, 2**32 - 1))
def test_the_usual_eta_never_rewards(k, n_classes, seed):
    """With η = k + 1, d(s) >= |own s|², and equal for own codes that are all the same."""
    rng = np.random.default_rng(seed)
    term, label = Discrimination(n_classes, k + 1.0), np.array([rng.integers(n_classes)])
    s = rng.normal(size=(1, k * n_classes))
    own = s.reshape(n_classes, k)[label[0]]
    assert term.of_codes(s, label).value >= (own**2).sum() * (1 - 1e-12)
    alike = np.zeros((n_classes, k))
    alike[label[0]] = 1
    np.testing.assert_allclose(term.of_codes(alike.reshape(1, -1), label).value, k)
