"""Kernels: values against loops of their formulas, pulls against finite differences, and the checker."""

from dataclasses import dataclass

import numpy as np
import pytest

from clusterica.arrays import to_host
from clusterica.kernels import (
    KERNEL_NAMES,
    Gaussian,
    HistogramIntersection,
    InverseDistance,
    InverseSquareDistance,
    Linear,
    Normalized,
    Polynomial,
    Pull,
    basis_gamma,
    check_kernel,
    make_kernel,
    median_gamma,
    near_gamma,
)
from clusterica.kernels._check import check_kernel_on

FORMULAS = {
    Gaussian(0.7): lambda x, w: np.exp(-0.7 * ((x - w) ** 2).sum()),
    InverseDistance(0.8): lambda x, w: 1 / (1 + 0.8 * np.sqrt(((x - w) ** 2).sum())),
    InverseSquareDistance(1.3): lambda x, w: 1 / (1 + 1.3 * ((x - w) ** 2).sum()),
    Polynomial(3): lambda x, w: (1 + x @ w) ** 3,
    Polynomial(1): lambda x, w: 1 + x @ w,
    HistogramIntersection(0.9): lambda x, w: np.minimum(np.exp(0.9 * x), np.exp(0.9 * w)).sum(),
    Linear(): lambda x, w: x @ w,
}
KERNELS = [*FORMULAS, *(Normalized(kernel) for kernel in FORMULAS)]


def formula(kernel):
    if not isinstance(kernel, Normalized):
        return FORMULAS[kernel]
    f = FORMULAS[kernel.kernel]
    return lambda x, w: f(x, w) / np.sqrt(f(x, x) * f(w, w))


@pytest.fixture
def data():
    rng = np.random.default_rng()
    X, W = rng.normal(size=(9, 4)), rng.normal(size=(5, 4))
    # No two numbers are so near that the differences of the histogram kernel meet its kink.
    while np.abs(X[:, None] - W).min() < 1e-4:
        X = rng.normal(size=(9, 4))
    # Even a product that is negative has a positive diagonal, and nothing else is asked of a kernel here.
    return X, W, rng.normal(size=(9, 5)), rng.normal(size=5)


def slopes(value, W, step=1e-5):
    """Central differences of a number by every entry of W."""
    found = np.empty_like(W)
    for at in np.ndindex(W.shape):
        move = np.zeros_like(W)
        move[at] = step
        found[at] = (value(W + move) - value(W - move)) / (2 * step)
    return found


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_values_against_a_loop(kernel, put, data):
    X, W, _, _ = data
    f = formula(kernel)
    values = kernel(put(X), put(W))
    assert values.dtype == put(X).dtype
    expected = [[f(x, w) for w in W] for x in X]
    np.testing.assert_allclose(to_host(values), expected, rtol=1e-9, atol=1e-12)
    diagonal = to_host(kernel.diagonal(put(X)))
    np.testing.assert_allclose(diagonal, [f(x, x) for x in X], rtol=1e-9)
    assert kernel.unit_diagonal == (isinstance(kernel, Normalized) or np.allclose(diagonal, 1))


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_pulls_against_finite_differences(kernel, put, data):
    X, W, Q, q = data
    f = formula(kernel)
    values = kernel(put(X), put(W))
    pull = kernel.pull(put(X), put(W), values, put(Q))
    assert type(pull.vector) is type(put(X))
    expected = slopes(lambda V: sum(Q[i, p] * f(X[i], V[p]) for i in range(9) for p in range(5)), W)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(to_host(pull.gradient(put(W))), expected, atol=1e-6 * scale + 1e-8)
    own = kernel.diagonal_pull(put(W), put(q))
    expected = slopes(lambda V: sum(q[p] * f(V[p], V[p]) for p in range(5)), W)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(to_host(own.gradient(put(W))), expected, atol=1e-6 * scale + 1e-8)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_float32_stays_and_is_near(kernel, put, data):
    X, W, Q, _ = data
    narrow = [put(a.astype(np.float32)) for a in (X, W, Q)]
    values = kernel(*narrow[:2])
    assert values.dtype == narrow[0].dtype
    expected = kernel(X, W)
    np.testing.assert_allclose(to_host(values), expected, rtol=1e-3, atol=1e-4)
    found = kernel.pull(*narrow[:2], values, narrow[2]).gradient(narrow[1])
    assert found.dtype == narrow[0].dtype
    best = kernel.pull(X, W, expected, Q).gradient(W)
    np.testing.assert_allclose(to_host(found), best, atol=1e-3 * np.abs(best).max())


@pytest.mark.parametrize(
    "kernel", [Gaussian(0.05), InverseDistance(0.5), InverseSquareDistance(0.5)], ids=str
)
def test_float32_similarities_of_rows_far_from_the_origin(kernel, put):
    X, W = (1000 + np.random.default_rng().normal(size=(n, 20)) for n in (50, 8))
    narrow = [A.astype(np.float32) for A in (X, W)]
    expected = kernel(*(A.astype(np.float64) for A in narrow))
    np.testing.assert_allclose(to_host(kernel(*(put(A) for A in narrow))), expected, atol=1e-4)


def test_a_normalised_kernel_is_zero_where_its_diagonal_is(put):
    kernel = Normalized(Linear())
    X, W = np.random.default_rng().normal(size=(2, 4, 3))
    X[1] = W[2] = 0
    values = kernel(put(X), put(W))
    pull = kernel.pull(put(X), put(W), values, put(np.ones((4, 4))))
    assert not to_host(values)[1].any()
    assert not to_host(values)[:, 2].any()
    assert np.isfinite(to_host(pull.gradient(put(W)))).all()
    np.testing.assert_array_equal(to_host(kernel.diagonal(put(X))), [1, 0, 1, 1])
    # Elsewhere it is as it was without the zeros.
    np.testing.assert_allclose(to_host(values)[[0, 2, 3]][:, :2], kernel(X[[0, 2, 3]], W[:2]))


def test_pulls_of_blocks_add_up(data):
    X, W, Q, _ = data
    kernel = Normalized(Polynomial(2))
    K = kernel(X, W)
    parts = [kernel.pull(X[at], W, K[at], Q[at]) for at in (slice(0, 4), slice(4, 9))]
    whole = kernel.pull(X, W, K, Q)
    np.testing.assert_allclose(parts[0].scale + parts[1].scale, whole.scale)
    np.testing.assert_allclose(parts[0].vector + parts[1].vector, whole.vector)


def test_a_fixed_point_is_where_scale_times_w_is_the_vector():
    """With one basis vector and weights k, the Gaussian pull is zero at the mean-shift mode."""
    X = np.random.default_rng().normal(size=(50, 2))
    kernel, w = Gaussian(0.5), np.zeros((1, 2))
    for _ in range(500):
        K = kernel(X, w)
        pull = kernel.pull(X, w, K, np.ones_like(K))
        w = pull.vector / pull.scale[:, None]
    np.testing.assert_allclose(
        kernel.pull(X, w, kernel(X, w), np.ones((50, 1))).gradient(w), 0, atol=1e-9
    )


@pytest.mark.parametrize("kernel", [InverseDistance(2.0), HistogramIntersection()], ids=str)
def test_where_a_row_is_a_basis_vector_the_derivative_is_finite(kernel, put):
    X = np.random.default_rng().normal(size=(4, 3))
    values = kernel(put(X), put(X))
    pull = kernel.pull(put(X), put(X), values, put(np.ones((4, 4))))
    assert np.isfinite(to_host(pull.gradient(put(X)))).all()


def test_histogram_intersection_at_equal_features_takes_half():
    x = np.array([[0.3, 1.0]])
    pull = HistogramIntersection(2.0).pull(x, x, np.zeros((1, 1)), np.ones((1, 1)))
    np.testing.assert_allclose(pull.gradient(x), np.exp(2 * x))  # b exp(b w) / 2 with b = 2


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_histogram_intersection_overflows_with_an_error(put, dtype):
    W = put(np.zeros((1, 3), dtype))
    limit = np.log(np.finfo(dtype).max) - np.log(3)
    kernel = HistogramIntersection(2.0)
    below = np.full((1, 3), 0.499 * limit, dtype)
    assert np.isfinite(to_host(kernel(put(below), put(below)))).all()
    with pytest.raises(ValueError, match=r"overflows: b times the largest.*normalize=True.*b=2"):
        kernel(put(np.full((1, 3), 0.501 * limit, dtype)), W)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Gaussian(0.0), "gamma=0.0 must be a positive number"),
        (lambda: Gaussian(-1.0), "gamma=-1.0 must be a positive number"),
        (lambda: Gaussian(float("nan")), "gamma=nan must be"),
        (lambda: InverseDistance(-2), "b=-2 must be"),
        (lambda: InverseSquareDistance(0), "b=0 must be"),
        (lambda: HistogramIntersection(float("inf")), "b=inf must be"),
        (lambda: Polynomial(0), "degree=0 must be a whole number"),
        (lambda: Polynomial(1.5), "degree=1.5 must be"),
        (lambda: make_kernel("gauss"), "'gauss' is not known; use one of .*'rbf'"),
        (lambda: make_kernel("polynomial", gamma=1.0), "gamma=1.0 is that of kernel='rbf'"),
        (lambda: make_kernel("rbf"), "gamma='median' is computed from rows, and none are given"),
    ],
)
def test_bad_constants(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("name", KERNEL_NAMES)
def test_kernels_by_name_have_a_unit_diagonal(name):
    kernel = make_kernel(name, rows=np.random.default_rng(0).normal(size=(20, 3)))
    assert kernel.unit_diagonal
    check_kernel(kernel)


def test_constants_of_the_paper():
    assert make_kernel("rbf", gamma=0.3) == Gaussian(0.3)
    assert make_kernel("polynomial") == Normalized(Polynomial(3))
    assert make_kernel("inverse-distance") == InverseDistance(1.0)
    own = Linear()
    assert make_kernel(own) is own


def test_median_gamma():
    rng = np.random.default_rng()
    X = 3 * rng.normal(size=(400, 20))
    squares = ((X[:, None] - X[None]) ** 2).sum(axis=2)[np.triu_indices(400, 1)]
    assert median_gamma(X, rng) == pytest.approx(1 / np.median(squares), rel=0.03)
    assert median_gamma(X, np.random.default_rng(3)) == median_gamma(X, np.random.default_rng(3))


@pytest.mark.parametrize("size", [1e-170, 1e160])
def test_median_gamma_of_rows_whose_squares_are_no_numbers(size):
    X = size * np.random.default_rng().normal(size=(30, 3))
    with pytest.raises(ValueError, match="gamma='median'"):
        median_gamma(X, np.random.default_rng())


def test_median_gamma_of_equal_rows():
    with pytest.raises(ValueError, match="needs rows that differ"):
        median_gamma(np.ones((5, 2)), np.random.default_rng(0))


def test_basis_gamma():
    rng = np.random.default_rng()
    W = 10.0 ** rng.uniform(-3, 3) * rng.normal(size=(20, 3))
    # Equal vectors say nothing.
    gamma = basis_gamma(np.concatenate([W, W[:1]]), mean=0.3)
    pairs = np.triu_indices(21, 1)
    k = Gaussian(gamma)(*2 * [np.concatenate([W, W[:1]])])[pairs]
    np.testing.assert_allclose(k[k < 1 - 1e-9].mean(), 0.3, rtol=1e-6)
    two = np.array([[0.0], [2.0]])
    assert basis_gamma(two) == pytest.approx(np.log(5) / 4)
    # Equal up to rounding: centres of equal rows are means of many of them.
    W = rng.normal(size=(2, 5))
    nearly = np.repeat(W, 4, axis=0) * (1 + 4e-16 * rng.normal(size=(8, 1)))
    assert basis_gamma(nearly, rows=W) == pytest.approx(basis_gamma(W))


def test_basis_gamma_reaches_half_of_the_rows():
    rng = np.random.default_rng()
    X, W = rng.normal(size=(99, 40)), 0.01 * rng.normal(size=(5, 40))
    gamma = basis_gamma(W, rows=X)
    assert gamma == near_gamma(X, W) < basis_gamma(W)
    nearest = np.exp(-gamma * ((X[:, None] - W) ** 2).sum(axis=2)).max(axis=1)
    np.testing.assert_allclose(np.median(nearest), 0.1)
    # Rows that are near anyway change nothing.
    assert basis_gamma(X, rows=X + 0.01) == basis_gamma(X)
    assert near_gamma(X, X) == np.inf


def test_basis_gamma_of_vectors_that_give_none():
    with pytest.raises(ValueError, match="two basis vectors that differ"):
        basis_gamma(np.ones((4, 2)))
    with pytest.raises(ValueError, match="two basis vectors that differ"):
        basis_gamma(np.ones((1, 2)))
    with pytest.raises(ValueError, match="gamma='basis'"):
        basis_gamma(1e160 * np.random.default_rng().normal(size=(4, 2)))
    with pytest.raises(ValueError, match="gamma='widest' is not known"):
        make_kernel("rbf", gamma="widest", rows=np.ones((2, 2)))


# --- The checker -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_the_checker_accepts(kernel):
    check_kernel(kernel)
    check_kernel(kernel, n_features=200)


SCALES = {
    "unit rows": lambda X: X / np.linalg.norm(X, axis=1, keepdims=True),
    "long rows": lambda X: 1e4 * X,
    "far from the origin": lambda X: X + 1000,
    "equal features": np.round,
    "float32": lambda X: X.astype(np.float32),
    "two rows": lambda X: X[:2],
}


@pytest.mark.parametrize("scale", list(SCALES))
@pytest.mark.parametrize("n_features", [3, 80])
def test_the_checker_accepts_on_rows(scale, n_features):
    X = SCALES[scale](np.random.default_rng().normal(size=(40, n_features)))
    gamma = median_gamma(X, np.random.default_rng())
    kernels = [Gaussian(times * gamma) for times in (0.01, 1, 100)]
    kernels += [InverseDistance(gamma**0.5), InverseSquareDistance(gamma), Linear(), Polynomial(3)]
    kernels += [Normalized(Linear()), Normalized(HistogramIntersection(gamma**0.5))]
    for kernel in kernels:
        check_kernel_on(kernel, X)


def test_the_checker_accepts_a_kernel_of_directions_on_opposite_rows():
    """Half way between them there is no direction."""
    half = np.eye(3)
    X = np.concatenate([half, -half])
    for _ in range(20):
        check_kernel_on(Normalized(Linear()), np.random.default_rng().permutation(X))


class WrongSign(Gaussian):
    def pull(self, X, W, values, Q):
        return Pull(*(-part for part in super().pull(X, W, values, Q)))


@pytest.mark.parametrize("gamma", [0.001, 1.0, 16.0, 400.0])
@pytest.mark.parametrize("n_features", [2, 64])
def test_the_checker_says_how_far_derivatives_are_off_whatever_their_size(gamma, n_features):
    with pytest.raises(ValueError, match=r"^pull is off by 2 of its size"):
        check_kernel(WrongSign(gamma), n_features=n_features)


def test_the_checker_tries_rows_of_the_data(kernel_of_roots):
    X = np.random.default_rng().uniform(0.1, 5, size=(30, 6))
    check_kernel_on(kernel_of_roots, X)


@pytest.mark.parametrize(("gamma", "scale"), [(1e7, 1.0), (1.0, 0.0), (1.0, 1e-9)])
def test_the_checker_needs_derivatives_that_do_not_vanish(gamma, scale):
    X = scale * np.random.default_rng().normal(size=(30, 6))
    with pytest.raises(ValueError, match=r"derivatives of the kernel vanish.*scale the rows"):
        check_kernel_on(Gaussian(gamma), X)


class WrongSlope(Gaussian):
    def _twice_slope(self, values):
        return -self.gamma * values


class WrongAtTheOrigin(Linear):
    def diagonal_pull(self, W, q):
        return Pull(q, 0 * W)


class Asymmetric(Linear):
    def __call__(self, X, W):
        return X @ W.T + X[:, :1]

    def diagonal(self, X):
        return super().diagonal(X) + X[:, 0]


class WrongDiagonal(Linear):
    def diagonal(self, X):
        return 2 * super().diagonal(X)


class NoUnitDiagonal(Linear):
    unit_diagonal = True


class Transposed(Linear):
    def __call__(self, X, W):
        return W @ X.T


@dataclass(frozen=True)
class Infinite(Linear):
    def __call__(self, X, W):
        return X @ W.T / 0.0


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (WrongSlope(1.0), "^pull is off by 0.5 of its size"),
        (WrongAtTheOrigin(), "^diagonal_pull is off by"),
        (Asymmetric(), "not symmetric"),
        (WrongDiagonal(), r"diagonal\(W\) differs"),
        (NoUnitDiagonal(), "unit_diagonal is true"),
        (Transposed(), r"shape \(4, 7\); it must be \(7, 4\)"),
        (Infinite(), "not finite"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_checker_finds(kernel, message):
    with (
        np.errstate(divide="ignore", invalid="ignore"),
        pytest.raises(ValueError, match=message),
    ):
        check_kernel(kernel)


def test_the_checker_accepts_narrow_kernels():
    """On rows of which only the nearest are alike at all."""
    X = np.random.default_rng().normal(size=(40, 4)) * [10, 1, 1, 1]
    for gamma in (3.0, 10.0, 30.0):
        check_kernel_on(Gaussian(gamma), X)
    with pytest.raises(ValueError, match="pull is off"):
        check_kernel_on(WrongSign(3.0), X)


def test_the_checker_asks_for_an_object():
    with pytest.raises(TypeError, match=r"the class Gaussian; give an object, Gaussian\(\)"):
        check_kernel(Gaussian)


def test_the_checker_asks_for_all_methods():
    with pytest.raises(TypeError, match="the kernel has no diagonal"):
        check_kernel(lambda X, W: X @ W.T)
