"""Lengths, unit rows and the polar factor."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from clusterica.arrays import to_host
from clusterica.ops.linalg import (
    gram_of_columns,
    inverse_lengths,
    polar_factor,
    row_energies,
    row_lengths,
    sum_by_label,
    sum_in_order,
    unit_rows,
)

X = np.array([[3.0, 4.0], [0.0, 0.0], [-5.0, 12.0]])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_lengths(put, dtype):
    block = put(X.astype(dtype))
    for op, expected in [
        (row_energies, [25, 0, 169]),
        (row_lengths, [5, 0, 13]),
        (inverse_lengths, [1 / 5, 0, 1 / 13]),
    ]:
        result = to_host(op(block))
        assert result.dtype == dtype
        np.testing.assert_allclose(result, expected, rtol=1e-6)


@pytest.mark.parametrize("container", [sp.csr_array, sp.csr_matrix])
def test_lengths_of_csr(container):
    S = container(X)
    np.testing.assert_array_equal(row_energies(S), [25, 0, 169])
    np.testing.assert_array_equal(row_lengths(S), [5, 0, 13])
    np.testing.assert_allclose(inverse_lengths(S), [1 / 5, 0, 1 / 13])


def test_lengths_of_csr_with_an_entry_in_two_parts():
    S = sp.csr_array(([1.0, 2.0, 4.0], [0, 0, 1], [0, 3]), shape=(1, 2))
    np.testing.assert_array_equal(row_energies(S), [25])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_unit_rows(put, dtype):
    unit = to_host(unit_rows(put(X.astype(dtype))))
    assert unit.dtype == dtype
    np.testing.assert_allclose(unit, [[0.6, 0.8], [0, 0], [-5 / 13, 12 / 13]], rtol=1e-6)


@pytest.mark.parametrize(
    ("dtype", "size"),
    [("float32", 1e-42), ("float32", 1e37), ("float64", 1e-320), ("float64", 1e300)],
)
def test_unit_rows_of_any_size(put, dtype, size):
    unit = to_host(unit_rows(put((X * size).astype(dtype))))
    np.testing.assert_allclose(unit, [[0.6, 0.8], [0, 0], [-5 / 13, 12 / 13]], atol=1e-3)


def test_unit_rows_with_a_fallback(put):
    fallback = np.array([[7.0, 7.0], [0.0, 1.0], [7.0, 7.0]])
    unit = to_host(unit_rows(put(X), fallback=put(fallback)))
    np.testing.assert_allclose(unit, [[0.6, 0.8], [0, 1], [-5 / 13, 12 / 13]])


shapes = st.integers(1, 5).flatmap(lambda k: st.tuples(st.just(k), st.integers(k, 7)))


@given(shape=shapes, seed=st.integers(0, 2**16))
def test_polar_factor_has_orthonormal_rows_and_the_largest_trace(shape, seed):
    rng = np.random.default_rng(seed)
    M = rng.standard_normal(shape)
    C = polar_factor(M)
    np.testing.assert_allclose(C @ C.T, np.eye(shape[0]), atol=1e-12)
    for _ in range(20):
        other = np.linalg.qr(rng.standard_normal(shape[::-1]))[0].T
        assert np.trace(other @ M.T) <= np.trace(C @ M.T) + 1e-12


@given(shape=shapes, seed=st.integers(0, 2**16))
def test_polar_factor_turns_with_the_matrix(shape, seed):
    rng = np.random.default_rng(seed)
    M = rng.standard_normal(shape)
    Q = np.linalg.qr(rng.standard_normal((shape[1], shape[1])))[0]
    C = polar_factor(M)
    np.testing.assert_allclose(polar_factor(M @ Q), C @ Q, atol=1e-8)
    np.testing.assert_allclose(polar_factor(3 * C), C, atol=1e-12)


def test_polar_factor_in_every_library(put, rng):
    M = rng.standard_normal((3, 5))
    np.testing.assert_allclose(to_host(polar_factor(put(M))), polar_factor(M), atol=1e-12)


def test_polar_factor_of_a_matrix_without_full_rank(put):
    C = to_host(polar_factor(put(np.array([[1.0, 0, 0], [2.0, 0, 0]]))))
    np.testing.assert_allclose(C @ C.T, np.eye(2), atol=1e-12)


@pytest.mark.parametrize("n", [255, 256, 300])
def test_polar_factor_of_a_large_matrix_is_that_of_its_decomposition(put, rng, n):
    """Singular values over six decades, with signs that rows of orthogonal matrices may have."""
    U, V = (np.linalg.qr(rng.standard_normal((n, n)))[0] for _ in range(2))
    M = U * np.logspace(-3, 3, n) @ V
    C = to_host(polar_factor(put(M)))
    np.testing.assert_allclose(C, U @ V, atol=1e-9)
    np.testing.assert_allclose(C @ C.T, np.eye(n), atol=1e-12)


@pytest.mark.parametrize("rank", [0, 200, 255])
def test_polar_factor_of_a_large_matrix_without_full_rank(put, rng, rank):
    M = rng.standard_normal((256, rank)) @ rng.standard_normal((rank, 256))
    C = to_host(polar_factor(put(M)))
    np.testing.assert_allclose(C @ C.T, np.eye(256), atol=1e-10)
    assert abs(np.trace(C @ M.T) - np.linalg.norm(M, "nuc")) < 1e-6 * max(1, np.linalg.norm(M))


@pytest.mark.parametrize("sums", [sum_by_label, sum_in_order])
@pytest.mark.parametrize(
    ("n_rows", "n_labels", "shape"), [(1000, 3, (5,)), (7, 20, (2,)), (500, 1, ()), (0, 4, (2,))]
)
def test_sums_by_label(sums, n_rows, n_labels, shape):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng()
    values, labels = rng.normal(size=(n_rows, *shape)), rng.integers(n_labels, size=n_rows)
    expected = np.zeros((n_labels, *shape))
    for value, label in zip(values, labels, strict=True):
        expected[label] += value
    found = sums(torch.asarray(values), torch.asarray(labels.astype(np.int32)), n_labels)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("n", [1, 7, 512, 700, 1100])
def test_gram_of_columns(rng, n):
    Z = rng.normal(size=(n, 50))
    parts = (Z[:, :20], Z[:, 20:21], np.asfortranarray(Z[:, 21:]))
    K = gram_of_columns(parts, n)
    np.testing.assert_allclose(K, Z @ Z.T, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(K, K.T)
    assert K.flags.c_contiguous
