"""Kernel RICA's objective and gradient against loops, finite differences and the paper's equations."""

import numpy as np
import pytest

from clusterica.arrays import namespace_of, to_host
from clusterica.contrasts import TorusPooling, make_penalty
from clusterica.kernels import (
    Gaussian,
    HistogramIntersection,
    InverseDistance,
    InverseSquareDistance,
    Linear,
    Normalized,
    Polynomial,
)
from clusterica.ops.discrimination import Discrimination
from clusterica.ops.kernel_rica import (
    KernelSums,
    Model,
    codes,
    kernel_sums,
    landscape,
    reached,
    sweep,
)
from clusterica.ops.kernels import gram

KERNELS = [
    Gaussian(0.4),
    InverseDistance(),
    InverseSquareDistance(0.7),
    Normalized(Polynomial(3)),
    Normalized(HistogramIntersection()),
    Polynomial(2),
    HistogramIntersection(0.5),
    Linear(),
]
RADIAL = KERNELS[:3]
FACTORS = [1.0, 0.3, None]
K = 4
TERMS = {
    "logcosh": ("logcosh", None),
    "l1": ("l1", None),
    "exp": ("exp", None),
    "sqrt": ("sqrt", None),
    "1d": ("logcosh", "1d"),
    "2d": ("logcosh", "2d"),
    "groups": ("logcosh", [0, 1, 1, 0]),
    "torus": ("logcosh", TorusPooling((4, 1))),
}


def model_of(kernel, term="2d", *, sparsity=0.3, n=K, **settings):
    penalty, pooling = TERMS[term]
    return Model(kernel, make_penalty(penalty, pooling, n_codes=n), sparsity, **settings)


def best_factor(X, W, model):
    """The a that makes the rows of a WᵀW φ(x) nearest to φ(x), from a grid and its parabola."""
    at = np.array([0.0, 0.5, 1.0])
    plain = model._replace(discrimination=None)
    values = [looped(X, W, plain._replace(factor=a))[0] for a in at]
    square, slope, _ = np.polyfit(at, values, 2)
    return -slope / (2 * square)


def looped(X, W, model, labels=None):
    """Equation (6), row by row and term by term, with k(x, x) for its 1; the terms, weighted."""
    a = best_factor(X, W, model) if model.factor is None else model.factor
    k = model.kernel
    G = k(W, W)
    np.fill_diagonal(G, k.diagonal(W))
    terms = np.zeros(3)
    for i, x in enumerate(X):
        x = x / np.linalg.norm(x) if model.normalize else x
        s = k(x[None], W)[0]
        terms[0] += k.diagonal(x[None])[0] - 2 * a * (s**2).sum()
        terms[0] += sum(a * s[u] * G[u, v] * a * s[v] for u, v in np.ndindex(G.shape))
        terms[1] += model.sparsity * float(model.penalty(s[None]).value)
        if model.discrimination is not None:
            d = model.discrimination.of_codes(s[None], labels[i : i + 1])
            terms[2] += model.strength * float(d.value)
    return terms / len(X)


def evaluate(X, W, model, labels=None):
    G = gram(model.kernel, W)
    total = kernel_sums(X, W, G, labels, model=model)
    xp = namespace_of(X)
    total = KernelSums(*(xp.astype(part, xp.float64) for part in total))
    W, G = (xp.astype(a, xp.float64) for a in (W, G))
    return landscape(total, W, G, n_rows=X.shape[0], model=model)


def differences(value, W, step=1e-5):
    slopes = np.empty_like(W)
    for at in np.ndindex(W.shape):
        move = np.zeros_like(W)
        move[at] = step
        slopes[at] = (value(W + move) - value(W - move)) / (2 * step)
    return slopes


@pytest.fixture
def problem():
    """Six rows and four basis vectors; no two numbers are so near that differences meet a kink."""
    rng = np.random.default_rng()
    while True:
        numbers = rng.permutation(30) / 10 - 1.5 + rng.uniform(-0.04, 0.04, size=30)
        X, W = numbers[:18].reshape(6, 3), numbers[18:].reshape(K, 3)
        unit = X / np.linalg.norm(X, axis=1, keepdims=True)  # which models may take in their place
        if np.abs(unit[:, None] - W).min() > 1e-4:
            return X, W


# --- The objective and its gradient -----------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("factor", FACTORS)
def test_terms_are_those_of_a_loop(put, problem, kernel, dtype, factor):
    model = model_of(kernel, normalize=True, factor=factor)
    found = evaluate(*(put(a.astype(dtype)) for a in problem), model)
    terms = [found.reconstruction, found.penalty, found.discrimination]
    rtol = 1e-10 if dtype == "float64" else 1e-4
    np.testing.assert_allclose(terms, looped(*problem, model), rtol=rtol, atol=rtol)
    assert found.total == pytest.approx(sum(terms))


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("term", TERMS)
@pytest.mark.parametrize("factor", FACTORS)
def test_the_gradient_is_that_of_the_objective(put, problem, kernel, term, factor):
    X, W = problem
    model = model_of(kernel, term, factor=factor)
    gradient = to_host(evaluate(put(X), put(W), model).pull.gradient(put(W)))
    slopes = differences(lambda V: evaluate(X, V, model).total, W)
    # A penalty with a sharp bend at zero has rough differences.
    rtol = 1e-2 if term == "sqrt" else 1e-5
    np.testing.assert_allclose(gradient, slopes, atol=rtol * max(1, np.abs(slopes).max()))


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("homogeneous", [True, False])
@pytest.mark.parametrize("factor", FACTORS)
def test_the_gradient_with_labels(put, problem, kernel, homogeneous, factor):
    X, W = problem
    labels = np.array([0, 1, 1, 0, 1, 0])
    term = Discrimination(2, 3.0, homogeneous=homogeneous)
    model = model_of(kernel, discrimination=term, strength=0.7, normalize=True, factor=factor)
    found = evaluate(put(X), put(W), model, put(labels))
    terms = [found.reconstruction, found.penalty, found.discrimination]
    np.testing.assert_allclose(terms, looped(X, W, model, labels), rtol=1e-9)
    slopes = differences(lambda V: evaluate(X, V, model, labels).total, W)
    gradient = to_host(found.pull.gradient(put(W)))
    np.testing.assert_allclose(gradient, slopes, atol=1e-5 * max(1, np.abs(slopes).max()))


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("sparsity", [0.0, 0.3])
def test_the_best_factor(put, problem, kernel, sparsity):
    """No other gives a lower error, and with it held the objective has the same gradient."""
    X, W = problem
    model = model_of(kernel, sparsity=sparsity, factor=None)
    found = evaluate(put(X), put(W), model)
    assert found.factor == pytest.approx(best_factor(X, W, model), rel=1e-6)
    held = evaluate(X, W, model._replace(factor=found.factor))
    assert found.total == pytest.approx(held.total)
    for part, right in zip(found.pull, held.pull, strict=True):
        np.testing.assert_allclose(to_host(part), right, atol=1e-9 * np.abs(right).max())
    for other in (0.9, 1.1):
        worse = evaluate(X, W, model._replace(factor=other * found.factor))
        assert worse.reconstruction > found.reconstruction


def test_codes_that_are_all_zero_need_no_factor(put):
    model = model_of(Gaussian(1.0), factor=None)
    found = evaluate(put(np.zeros((3, 2))), put(np.full((K, 2), 1e3)), model)
    assert (found.factor, found.reconstruction) == (0.0, 1.0)
    np.testing.assert_array_equal(to_host(found.pull.vector), 0)


@pytest.mark.parametrize("factor", FACTORS)
def test_blocks_add_up(problem, factor):
    X, W = problem
    model = model_of(Gaussian(0.4), normalize=True, factor=factor)
    G = gram(model.kernel, W)
    whole = kernel_sums(X, W, G, model=model)
    parts = [kernel_sums(part, W, G, model=model) for part in (X[:1], X[1:5], X[5:])]
    for name, value, right in zip(
        KernelSums._fields, map(sum, zip(*parts, strict=True)), whole, strict=True
    ):
        np.testing.assert_allclose(value, right, rtol=1e-12, atol=1e-14, err_msg=name)


def test_no_penalty_is_evaluated_without_sparsity(problem):
    X, W = problem

    def penalty(S):
        raise AssertionError("not asked for")

    model = Model(Gaussian(0.4), penalty, 0.0)
    assert evaluate(X, W, model).total == pytest.approx(
        looped(X, W, model_of(Gaussian(0.4), sparsity=0.0)).sum()
    )


# --- The equations of the paper ---------------------------------------------------------------------


def equation_7(X, W, p, gamma, sparsity, H, eps, power):
    """The derivative by w_p, with k(w_p, x) to a power in its second and third terms; 1 as printed."""
    k = Gaussian(gamma)
    S, G = k(X, W), k(W, W)
    total = np.zeros(W.shape[1])
    for i, x in enumerate(X):
        for v in range(len(W)):
            pair = 4 * S[i, p] * G[p, v] * S[i, v]
            total += pair * ((W[p] - x) + (W[p] - W[v]))
        total -= 8 * S[i, p] ** power * (W[p] - x)
        for j in range(len(W)):
            root = np.sqrt(eps + H[j] @ S[i] ** 2)
            total += 2 * sparsity * H[j, p] * S[i, p] ** power * (W[p] - x) / root
    return -gamma / len(X) * total


def test_equation_7_has_squares_that_the_paper_lost(rng):
    X, W = rng.normal(size=(20, 3)), rng.normal(size=(K, 3))
    model = model_of(Gaussian(0.4))
    H = model.penalty.pooling.average(np.eye(K)).T
    gradient = evaluate(X, W, model).pull.gradient(W)
    right, printed = (
        np.array([equation_7(X, W, p, 0.4, 0.3, H, model.penalty.eps, power) for p in range(K)])
        for power in (2, 1)
    )
    np.testing.assert_allclose(gradient, right, rtol=1e-9, atol=1e-12)
    assert np.linalg.norm(printed - gradient) > 0.3 * np.linalg.norm(gradient)


def test_a_basis_vector_does_not_hold_itself(problem):
    """The coefficient of w_p leaves out v = p, where (w_p - w_v) is zero whatever w_p is."""
    X, W = problem
    kernel = Gaussian(0.4)
    S, G = kernel(X, W), kernel(W, W)
    M = S.T @ S
    pairs = 4 * (S * (S @ G)).sum(axis=0) + 4 * (G * M).sum(axis=0) - 4 * np.diag(M)
    expected = -0.4 / len(X) * (pairs - 8 * np.diag(M))
    found = evaluate(X, W, model_of(kernel, sparsity=0.0))
    np.testing.assert_allclose(found.pull.scale, expected, rtol=1e-10)


def test_one_vector_moves_by_mean_shift_with_squared_weights(put, rng):
    X, W = rng.normal(size=(30, 3)), rng.normal(size=(1, 3))
    model = model_of(Gaussian(0.3), sparsity=0.0, n=1)
    pull = evaluate(put(X), put(W), model).pull
    weights = Gaussian(0.3)(X, W) ** 2
    expected = (weights * X).sum(axis=0) / weights.sum()
    np.testing.assert_allclose(to_host(pull.vector / pull.scale[:, None])[0], expected)
    np.testing.assert_allclose(to_host(sweep(put(X), put(W), model=model))[0], expected)


def test_a_linear_kernel_gives_the_objective_of_rica(problem):
    X, W = problem
    model = model_of(Linear())
    expected = np.mean(np.sum((X @ W.T @ W - X) ** 2, axis=1))
    expected += 0.3 * float(model.penalty(X @ W.T).value) / len(X)
    assert evaluate(X, W, model).total == pytest.approx(expected)


def test_with_the_size_of_codes_for_a_penalty_it_is_that_of_sparse_coding(problem):
    """Section 4.3: |Wᵀ s - φ(x)|² + λ |s|₁ where s = k(W, x); codes of a Gaussian are positive."""
    X, W = problem
    kernel = Gaussian(0.4)
    S, G = kernel(X, W), kernel(W, W)
    coded = [1 - 2 * s @ s + s @ G @ s + 0.3 * np.abs(s).sum() for s in S]
    assert evaluate(X, W, model_of(kernel, "sqrt")).total == pytest.approx(np.mean(coded), rel=1e-4)


def test_the_objective_is_not_convex():
    """Unlike section 4.2 says: of one row and one vector it is 1 - k², which levels off."""
    X = np.zeros((1, 2))
    near, middle, far = (
        evaluate(X, np.array([[r, 0.0]]), model_of(Gaussian(1.0), sparsity=0.0, n=1)).total
        for r in (1, 2, 3)
    )
    assert middle > (near + far) / 2 + 0.05


# --- Row by row, and the rest -----------------------------------------------------------------------


@pytest.mark.parametrize("kernel", RADIAL, ids=str)
@pytest.mark.parametrize("term", TERMS)
def test_a_sweep_solves_for_each_vector_in_turn(put, problem, kernel, term):
    X, W = problem
    model = model_of(kernel, term, normalize=True)
    V = W.copy()
    for p in range(K):
        pull = evaluate(X, V, model).pull
        V[p] = pull.vector[p] / pull.scale[p]
    given = put(W)
    np.testing.assert_allclose(to_host(sweep(put(X), given, model=model)), V, rtol=1e-6, atol=1e-8)
    np.testing.assert_array_equal(to_host(given), W)


def test_a_sweep_knows_signs(problem):
    X, W = problem
    signs = np.array([1.0, -1.0, 1.0, -1.0])
    for pooling in (None, "2d"):
        penalty = make_penalty("logcosh", pooling, n_codes=K, signs=signs)
        model = Model(Gaussian(0.4), penalty, 0.3)
        pull = evaluate(X, W, model).pull
        first = sweep(X, W, model=model)[0]
        np.testing.assert_allclose(first, pull.vector[0] / pull.scale[0])


def test_codes_and_how_many_rows_each_vector_reaches(put, problem):
    X, W = problem
    settings = {"kernel": Gaussian(0.4), "normalize": True}
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    expected = np.exp(-0.4 * ((unit[:, None] - W[None]) ** 2).sum(axis=2))
    np.testing.assert_allclose(to_host(codes(put(X), put(W), **settings)), expected)
    (counts,) = reached(put(X), put(W), least=0.5, **settings)
    np.testing.assert_array_equal(to_host(counts), (expected >= 0.5).sum(axis=0))


@pytest.mark.parametrize("factor", FACTORS)
def test_tiles_change_nothing(rng, factor):
    """Blocks are cut into tiles on the CPU; labels are cut with them."""
    X, W, labels = rng.normal(size=(50, 5)), rng.normal(size=(6, 5)), rng.integers(3, size=50)
    model = Model(
        Gaussian(0.4),
        make_penalty("logcosh", "1d", n_codes=6),
        0.3,
        Discrimination(3, 2.5),
        0.7,
        factor=factor,
    )
    G = gram(model.kernel, W)
    whole = kernel_sums(X, W, G, labels, model=model)
    cut = kernel_sums(X, W, G, labels, model=model, tile=6 * 7)
    for a, b in zip(whole, cut, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
