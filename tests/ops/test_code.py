"""Codes of a block against loops over rows and scikit-learn's solvers, on every array library."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.decomposition import sparse_encode

from clusterica.arrays import device_of, to_host
from clusterica.ops import code
from clusterica.ops.linalg import unit_rows

every_dtype = pytest.mark.parametrize("dtype", ["float32", "float64"])
# Rows, atoms, features: one of each, more atoms than features and fewer, more rows than a tile has.
SHAPES = [(1, 1, 1), (5, 1, 3), (3, 4, 1), (40, 7, 5), (30, 5, 16), (25, 60, 8), (2500, 33, 3)]
every_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)
TOLERANCE = {"float32": 2e-5, "float64": 1e-12}


def problem(n_rows, n_atoms, n_features, dtype="float64", *, unit=False, seed=0):
    """Return rows, some of them zero, and a dictionary."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features)).astype(dtype)
    X[rng.random(n_rows) < 0.1] = 0
    D = rng.normal(size=(n_atoms, n_features)).astype(dtype)
    return X, unit_rows(D) if unit else D


def assert_codes(codes, expected, like, tol):
    assert type(codes) is type(like)
    assert codes.dtype == like.dtype
    assert device_of(codes) == device_of(like)
    np.testing.assert_allclose(to_host(codes), expected, rtol=tol, atol=tol)


# --- Nearest atom and triangle ---------------------------------------------------------------------


@every_dtype
@every_shape
def test_one_hot(put, shape, dtype):
    X, D = problem(*shape, dtype)
    expected = np.zeros((len(X), len(D)))
    for i, x in enumerate(X):
        expected[i, np.argmin(np.linalg.norm(x - D, axis=1))] = 1
    codes = code.one_hot(put(X), *code.center(put(D)))
    assert_codes(codes, expected, put(X), 0)


def loop_triangle(X, D):
    Z = np.array([np.linalg.norm(x - D, axis=1) for x in X.astype(np.float64)])
    return np.maximum(0, Z.mean(axis=1, keepdims=True) - Z)


@every_dtype
@every_shape
def test_triangle(put, shape, dtype):
    X, D = problem(*shape, dtype)
    codes = code.triangle(put(X), *code.center(put(D)))
    assert_codes(codes, loop_triangle(X, D), put(X), 10 * TOLERANCE[dtype])


@every_dtype
def test_triangle_reference_on_numpy(dtype):
    X, D = problem(40, 7, 5, dtype)
    codes = code.triangle_reference(X, *code.center(D))
    assert_codes(codes, loop_triangle(X, D), X, 10 * TOLERANCE[dtype])


@every_dtype
def test_rows_that_are_atoms(put, dtype):
    """The distance of zero, which a difference of squares hits only by about the root of its rounding."""
    _, D = problem(1, 7, 5, dtype)
    codes = code.triangle(put(D), *code.center(put(D)))
    np.testing.assert_allclose(
        to_host(codes), loop_triangle(D, D), atol=5 * np.finfo(dtype).eps ** 0.5
    )
    np.testing.assert_array_equal(to_host(code.one_hot(put(D), *code.center(put(D)))), np.eye(7))


def test_far_from_the_origin(put):
    """Where float32 has four digits for each feature, distances are still right."""
    X, D = problem(40, 7, 5)
    X, D = (X + 1e4).astype(np.float32), (D + 1e4).astype(np.float32)
    prepared = code.center(put(D))
    np.testing.assert_allclose(
        to_host(code.triangle(put(X), *prepared)), loop_triangle(X, D.astype(float)), atol=1e-4
    )
    nearest = [np.argmin(np.linalg.norm(x - D.astype(float), axis=1)) for x in X.astype(float)]
    np.testing.assert_array_equal(to_host(code.one_hot(put(X), *prepared)).argmax(axis=1), nearest)


def test_equal_atoms_share_a_triangle_and_one_of_them_is_hot(put):
    X, D = problem(20, 3, 4)
    doubled = code.center(put(np.concatenate([D, D])))
    codes = to_host(code.triangle(put(X), *doubled))
    np.testing.assert_allclose(codes[:, :3], codes[:, 3:], atol=1e-12)
    codes = to_host(code.one_hot(put(X), *doubled))
    np.testing.assert_array_equal(codes[:, :3] + codes[:, 3:], code.one_hot(X, *code.center(D)))


# --- Functions of responses ------------------------------------------------------------------------


@every_dtype
@every_shape
@pytest.mark.parametrize("two_sided", [False, True])
@pytest.mark.parametrize("op", [code.soft_threshold, code.soft_threshold_reference])
def test_soft_threshold(put, op, shape, dtype, two_sided):
    X, D = problem(*shape, dtype)
    S = np.array([(D * x).sum(axis=1) for x in X])
    expected = np.maximum(S - 0.25, 0)
    if two_sided:
        expected = np.hstack([expected, np.maximum(-S - 0.25, 0)])
    codes = op(put(X), put(D), alpha=0.25, two_sided=two_sided)
    assert_codes(codes, expected, put(X), TOLERANCE[dtype])


@every_dtype
@pytest.mark.parametrize("bias", [0.0, -1.5])
def test_sigmoid(put, dtype, bias):
    X, D = problem(40, 7, 5, dtype)
    expected = [1 / (1 + np.exp(-(D * x).sum(axis=1) + bias)) for x in X]
    assert_codes(code.sigmoid(put(X), put(D), bias=bias), expected, put(X), TOLERANCE[dtype])


def test_sigmoid_does_not_overflow(put):
    codes = code.sigmoid(put(np.array([[-1e6], [1e6]])), put(np.ones((1, 1))), bias=0.0)
    np.testing.assert_array_equal(to_host(codes), [[0], [1]])


def test_split_signs(put):
    codes = code.split_signs(put(np.array([[1.0, -2.0, 0.0]])))
    np.testing.assert_array_equal(to_host(codes), [[1, 0, 0, 0, 2, 0]])


# --- Lasso -----------------------------------------------------------------------------------------


def lasso(X, D, alpha, *, max_iter=5000, tol=1e-10, op=code.lasso):
    return op(X, D, *code.gram_and_curvature(D), alpha=alpha, max_iter=max_iter, tol=tol)


def objective(S, X, D, alpha):
    return ((X - S @ D) ** 2).sum(axis=1) / 2 + alpha * abs(S).sum(axis=1)


@pytest.mark.parametrize(
    "shape", [(1, 1, 1), (5, 1, 3), (40, 7, 5), (30, 5, 16), (25, 20, 8)], ids=str
)
@pytest.mark.parametrize("alpha", [0.1, 0.5])
def test_lasso_against_scikit_learn(put, shape, alpha):
    X, D = problem(*shape, unit=True)
    expected = sparse_encode(X, D, algorithm="lasso_lars", alpha=alpha, max_iter=10_000)
    codes, gaps = lasso(put(X), put(D), alpha)
    assert_codes(codes, expected, put(X), 1e-4)
    assert to_host(gaps).max() <= 1e-10


def test_lasso_with_many_atoms_and_a_small_penalty():
    """Where FISTA needs many thousands of steps."""
    X, D = problem(50, 60, 8, unit=True)
    expected = sparse_encode(X, D, algorithm="lasso_lars", alpha=0.02, max_iter=10_000)
    codes, gaps = lasso(X, D, 0.02, max_iter=200)
    np.testing.assert_allclose(codes, expected, atol=1e-4)
    assert gaps.max() <= 1e-10


@pytest.mark.parametrize("size", [2.0**-100, 2.0**-70, 2.0**70, 2.0**100])
def test_lasso_of_rows_whose_squares_are_no_numbers(put, size):
    """In float32 the codes of such rows were all zero."""
    X, D = problem(40, 20, 8, "float32")
    expected = lasso(put(X), put(D), 0.3, tol=1e-5)
    found = lasso(put(np.float32(size) * X), put(D), 0.3 * size, tol=1e-5)
    assert found.codes.dtype == put(X).dtype
    # A gap leaves codes open by its root.
    apart = size * 0.02 * np.linalg.norm(X, axis=1).max()
    np.testing.assert_allclose(to_host(found.codes), size * to_host(expected.codes), atol=apart)
    assert (to_host(found.codes) != 0).any(axis=1).all() == (
        (to_host(expected.codes) != 0).any(axis=1).all()
    )
    assert not to_host(lasso(put(X[:0]), put(D), 0.3).codes).size


@pytest.mark.parametrize("alpha", [0.1, 1.0])
def test_lasso_of_float32(put, alpha):
    X, D = problem(40, 20, 8, "float32")
    codes, gaps = lasso(put(X), put(D), alpha, tol=1e-5)
    best = lasso(X.astype(float), D.astype(float), alpha).codes
    assert codes.dtype == put(X).dtype
    assert to_host(gaps).max() <= 1e-5
    excess = objective(to_host(codes), X, D, alpha) - objective(best, X, D, alpha)
    assert (excess <= 1e-5 * (X**2).sum(axis=1) / 2 + 1e-6).all()


@given(st.integers(0, 10**6), st.sampled_from([0.01, 0.1, 1.0]))
def test_gaps_bound_the_distance_to_the_optimum(seed, alpha):
    """Codes that are far from solved: their objective exceeds the least one by no more than the gap."""
    X, D = problem(10, 12, 5, seed=seed)
    rough = lasso(X, D, alpha, max_iter=3, tol=0.0, op=code.lasso_reference)
    least = objective(lasso(X, D, alpha).codes, X, D, alpha)
    excess = objective(rough.codes, X, D, alpha) - least
    half = (X**2).sum(axis=1) / 2
    assert (excess <= rough.gaps * half + 1e-8).all()
    assert (excess >= -1e-8).all()


def test_gaps_of_both_solvers_are_those_of_the_definition():
    """Primal less dual objective at the scaled residual, over the objective of zero."""
    X, D = problem(20, 30, 6)
    X = X[X.any(axis=1)]
    for op in (code.lasso, code.lasso_reference):
        S, gaps = lasso(X, D, 0.3, max_iter=4, tol=0.0, op=op)
        R = X - S @ D
        c = np.minimum(1, 0.3 / abs(R @ D.T).max(axis=1))[:, None]
        dual = ((X**2).sum(axis=1) - ((X - c * R) ** 2).sum(axis=1)) / 2
        wanted = (objective(S, X, D, 0.3) - dual) / ((X**2).sum(axis=1) / 2)
        np.testing.assert_allclose(gaps, wanted, atol=1e-12)


def test_a_large_penalty_gives_zeros(put):
    X, D = problem(20, 30, 6)
    codes, gaps = lasso(put(X), put(D), 1.01 * float(abs(X @ D.T).max()))
    assert not to_host(codes).any()
    assert to_host(gaps).max() <= 1e-15


def test_lasso_with_equal_and_zero_atoms(put):
    """The codes are not unique, and the objective is; an atom of zeros is never used."""
    X, D = problem(30, 6, 4)
    doubled = np.concatenate([D, D, np.zeros((1, 4))])
    codes, gaps = lasso(put(X), put(doubled), 0.2)
    codes = to_host(codes)
    assert to_host(gaps).max() <= 1e-10
    assert not codes[:, -1].any()
    np.testing.assert_allclose(
        objective(codes, X, doubled, 0.2), objective(lasso(X, D, 0.2).codes, X, D, 0.2), atol=1e-8
    )


def test_lasso_of_zeros_only(put):
    codes, gaps = lasso(put(np.zeros((3, 4))), put(np.zeros((5, 4))), 0.2)
    assert not to_host(codes).any()
    assert not to_host(gaps).any()
    assert codes.shape == (3, 5)


def test_max_iter_ends_the_search(put):
    X, D = problem(30, 60, 8)
    few, gaps = lasso(put(X), put(D), 0.01, max_iter=2, tol=1e-12)
    assert to_host(gaps).max() > 1e-12
    assert np.isfinite(to_host(few)).all()


def test_newton_steps_solve_what_coordinate_descent_can_not():
    """Atoms that nearly agree: hundreds of thousands of sweeps would be needed."""
    rng = np.random.default_rng(0)
    D = unit_rows(np.ones((6, 8)) + 1e-2 * rng.normal(size=(6, 8)))
    X = rng.normal(size=(50, 6)) @ D + rng.normal(size=(50, 8))
    assert lasso(X, D, 1e-4, max_iter=200).gaps.max() <= 1e-10


# --- Orthogonal matching pursuit -------------------------------------------------------------------


def loop_omp(X, D, n_nonzero):
    """Pick the atom nearest in direction to the rest, fit all picked ones by least squares, repeat."""
    codes = np.zeros((len(X), len(D)))
    lengths = np.linalg.norm(D, axis=1)
    for x, s in zip(X.astype(float), codes, strict=True):
        picked = []
        for _ in range(n_nonzero):
            rest = x - s @ D
            if np.linalg.norm(rest) <= 1e-9 * np.linalg.norm(x):
                break
            picked.append(np.argmax(abs(D @ rest) / lengths))
            s[picked] = np.linalg.lstsq(D[picked].T, x, rcond=None)[0]
    return codes


@every_dtype
@pytest.mark.parametrize("n_nonzero", [1, 2, 5])
@pytest.mark.parametrize("shape", [(40, 7, 5), (30, 5, 16), (25, 60, 8)], ids=str)
def test_omp_against_a_loop(put, shape, n_nonzero, dtype):
    X, D = problem(*shape, dtype)
    codes = code.omp(put(X), *code.unit_atoms(put(D)), n_nonzero=n_nonzero)
    tol = 2e-3 if dtype == "float32" else 1e-9
    assert_codes(codes, loop_omp(X, D, n_nonzero), put(X), tol)


@pytest.mark.parametrize("n_nonzero", [1, 3, 6])
def test_omp_against_scikit_learn(put, n_nonzero):
    X, D = problem(30, 40, 9, unit=True, seed=3)
    X = X[X.any(axis=1)]
    expected = sparse_encode(X, D, algorithm="omp", n_nonzero_coefs=n_nonzero)
    codes = code.omp(put(X), *code.unit_atoms(put(D)), n_nonzero=n_nonzero)
    np.testing.assert_allclose(to_host(codes), expected, atol=1e-9)
    assert ((to_host(codes) != 0).sum(axis=1) == n_nonzero).all()


@pytest.mark.parametrize("op", [code.omp, code.omp_reference])
def test_omp_stops_when_nothing_is_left(put, op):
    """Rows of a few atoms, and a dictionary that holds every atom twice and an atom of zeros."""
    D = unit_rows(np.random.default_rng(0).normal(size=(4, 6)))
    combine = np.array([[2.0, 0, 0, -1], [0, 0, 0, 0], [0, 3, 0, 0]])
    doubled = np.concatenate([np.zeros((1, 6)), D, D])
    codes = to_host(op(put(combine @ D), *code.unit_atoms(put(doubled)), n_nonzero=9))
    np.testing.assert_allclose(codes[:, 1:5] + codes[:, 5:], combine, atol=1e-12)
    assert (codes != 0).sum(axis=1)[1:].tolist() == [0, 1]
    assert not codes[:, 0].any()


def test_omp_of_more_atoms_than_features(put):
    """As many atoms as features fit any row; one more can't be fitted."""
    X, D = problem(20, 12, 5)
    codes = to_host(code.omp(put(X), *code.unit_atoms(put(D)), n_nonzero=12))
    np.testing.assert_allclose(codes @ D, X, atol=1e-8)
    assert (codes != 0).sum(axis=1).max() <= 5


@given(st.integers(0, 10**6))
def test_the_rest_is_orthogonal_to_the_chosen_atoms(seed):
    X, D = problem(5, 20, 8, seed=seed)
    codes = code.omp(X, *code.unit_atoms(D), n_nonzero=4)
    responses = (X - codes @ D) @ D.T
    np.testing.assert_allclose(responses * (codes != 0), 0, atol=1e-9)


# --- All -------------------------------------------------------------------------------------------


OPS = {
    "one_hot": (code.one_hot, code.center, {}),
    "triangle": (code.triangle, code.center, {}),
    "soft_threshold": (code.soft_threshold, lambda D: (D,), {"alpha": 0.2, "two_sided": True}),
    "sigmoid": (code.sigmoid, lambda D: (D,), {"bias": 0.2}),
    "lasso": (
        lambda *args, **settings: code.lasso(*args, **settings).codes,
        lambda D: (D, *code.gram_and_curvature(D)),
        {"alpha": 0.2, "max_iter": 2000, "tol": 1e-10},
    ),
    "omp": (code.omp, code.unit_atoms, {"n_nonzero": 3}),
}
every_op = pytest.mark.parametrize(("op", "prepare", "settings"), OPS.values(), ids=OPS)


@every_op
def test_inputs_are_not_written_to(put, op, prepare, settings):
    X, D = problem(30, 7, 5)
    x, prepared = put(X.copy()), prepare(put(D.copy()))
    before = [to_host(a).copy() for a in prepared]
    op(x, *prepared, **settings)
    np.testing.assert_array_equal(to_host(x), X)
    for a, b in zip(prepared, before, strict=True):
        np.testing.assert_array_equal(to_host(a), b)


@every_op
def test_no_rows(put, op, prepare, settings):
    _, D = problem(1, 7, 5)
    codes = op(put(np.empty((0, 5))), *prepare(put(D)), **settings)
    assert codes.shape == (0, 14 if settings.get("two_sided") else 7)
