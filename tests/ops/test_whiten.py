"""Whitening matrices whiten, and their inverses undo it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterica.arrays import namespace_of, to_host
from clusterica.ops.moments import spectrum, whiten_by_cholesky, whiten_by_spectrum


def covariance_of(values, seed=0):
    """Return a covariance with these eigenvalues."""
    Q = np.linalg.qr(np.random.default_rng(seed).standard_normal((len(values),) * 2))[0]
    covariance = (Q * np.asarray(values)) @ Q.T
    return (covariance + covariance.T) / 2


def whitening(covariance, method, eps, n_components=None):
    if method == "cholesky":
        return whiten_by_cholesky(covariance, eps=eps)
    n = n_components or covariance.shape[0]
    return whiten_by_spectrum(
        spectrum(covariance), eps=eps, n_components=n, rotate_back=method == "zca"
    )


every_method = pytest.mark.parametrize("method", ["zca", "pca", "cholesky"])


@every_method
@pytest.mark.parametrize("eps", [0.0, 0.1])
@pytest.mark.parametrize("values", [[2.0], [9.0, 4.0, 1.0, 0.01]], ids=len)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_whitening_whitens_and_its_inverse_undoes_it(put, method, eps, values, dtype):
    covariance = covariance_of(values).astype(dtype)
    T, inverse = (to_host(a) for a in whitening(put(covariance), method, eps))
    assert T.dtype == inverse.dtype == dtype
    tol = 1e-10 if dtype == "float64" else 1e-3
    identity = np.eye(len(values))
    np.testing.assert_allclose(T @ (covariance + eps * identity) @ T.T, identity, atol=tol)
    np.testing.assert_allclose(inverse @ T, identity, atol=tol)
    np.testing.assert_allclose(T @ inverse, identity, atol=tol)


@given(
    values=st.lists(st.floats(0.01, 100), min_size=1, max_size=6),
    eps=st.sampled_from([0.0, 0.01, 1.0]),
    seed=st.integers(0, 2**16),
)
def test_the_three_differ_by_a_rotation(values, eps, seed):
    covariance = covariance_of(values, seed)
    zca, pca, cholesky = (whitening(covariance, m, eps)[0] for m in ("zca", "pca", "cholesky"))
    np.testing.assert_allclose(zca, zca.T, atol=1e-9)
    np.testing.assert_allclose(cholesky, np.tril(cholesky), atol=1e-12)
    for T in (pca, cholesky):
        Q = T @ np.linalg.inv(zca)
        np.testing.assert_allclose(Q @ Q.T, np.eye(len(values)), atol=1e-6)


@pytest.mark.parametrize("method", ["zca", "pca"])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_fewer_components_keep_the_largest(put, method, n):
    covariance = covariance_of([9.0, 4.0, 1.0])
    T, inverse = (to_host(a) for a in whitening(put(covariance), method, 0.0, n))
    s = spectrum(covariance)
    onto = s.vectors[:, :n] @ s.vectors[:, :n].T
    assert T.shape == ((3, 3) if method == "zca" else (n, 3))
    np.testing.assert_allclose(inverse @ T, onto, atol=1e-10)
    np.testing.assert_allclose(
        T @ covariance @ T.T, onto if method == "zca" else np.eye(n), atol=1e-10
    )


@pytest.mark.parametrize("method", ["zca", "pca"])
def test_directions_without_variance_are_left_out(put, method):
    covariance = covariance_of([4.0, 1.0, 0.0, 0.0])
    T, inverse = (to_host(a) for a in whitening(put(covariance), method, 0.0))
    np.testing.assert_allclose(inverse, np.linalg.pinv(T), atol=1e-6)
    np.testing.assert_allclose(np.trace(T @ covariance @ T.T), 2, atol=1e-6)


@pytest.mark.parametrize("method", ["zca", "pca"])
def test_no_variance_at_all(put, method):
    T, inverse = whitening(put(np.zeros((3, 3))), method, 0.0)
    np.testing.assert_array_equal(to_host(T), 0)
    np.testing.assert_array_equal(to_host(inverse), 0)


@pytest.mark.parametrize(
    ("values", "rank"),
    [([3.0, 2.0, 1.0], 3), ([3.0, 1e-3, 0.0], 2), ([1.0, 1e-17, 0.0], 1), ([0.0, 0.0, 0.0], 0)],
)
def test_spectrum(put, values, rank):
    covariance = covariance_of(values)
    s = spectrum(put(covariance))
    V, found = to_host(s.vectors), to_host(s.values)
    np.testing.assert_allclose(found, values, atol=1e-12)
    assert (found >= 0).all()
    assert (np.diff(found) <= 0).all()
    assert s.rank == rank
    np.testing.assert_allclose((V * found) @ V.T, covariance, atol=1e-12)
    np.testing.assert_allclose(V.T @ V, np.eye(3), atol=1e-12)
    assert (V[np.argmax(abs(V), axis=0), range(3)] > 0).all()
    assert namespace_of(s.vectors) is namespace_of(put(covariance))


def test_the_scale_of_the_data_does_not_change_the_rank():
    for scale in (1e-12, 1e12):
        assert spectrum(scale * covariance_of([3.0, 1e-3, 0.0])).rank == 2
