"""Kernel RICA: its ways down, its fixed points, dead vectors and their remedy, inputs and faults."""

import pickle
import re
import warnings

import hypothesis
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import clusterica
from clusterica.arrays import as_rows, to_host
from clusterica.contrasts import Derivatives, TorusPooling, make_penalty
from clusterica.kernels import KERNEL_NAMES, Gaussian, Linear, Normalized, Polynomial, Pull
from clusterica.ops.kernel_rica import Model, sweep
from clusterica.preprocessing import KernelWhitener
from clusterica.rica import RICA, DiscriminativeKernelRICA, DiscriminativeRICA, KernelRICA
from clusterica.rica._kernel_descent import KernelProblem, descend

OPTIMIZERS = ["auto", "fixed-point", "lbfgs"]
quiet = pytest.mark.filterwarnings("ignore:.*max_iter", "ignore:.*are dead")


@pytest.fixture(scope="module")
def digits():
    return load_digits().data[:300]


def paper_rica(n_components=None, **settings):
    """Kernel RICA with the paper's objective, on rows of unit length."""
    paper = {"gamma": "median", "scale": 1.0, "sparsity": 0.01, "normalize": True, "tol": 1e-5}
    paper["unit_codes"] = False
    return KernelRICA(n_components, **{**paper, **settings})


def unit(X):
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def problem_of(X, gamma, K, *, sparsity=0.01, pooling="2d"):
    model = Model(Gaussian(gamma), make_penalty("logcosh", pooling, n_codes=K), sparsity)
    return KernelProblem(as_rows(X), model)


@quiet
@pytest.mark.parametrize("kernel", ["rbf", "inverse-square-distance"])
def test_auto_sparsity_is_a_hundredth_of_the_error_at_the_start(kernel):
    rng = np.random.default_rng()
    X = 10.0 ** rng.uniform(-2, 2) * rng.normal(size=(60, 4))
    rica = KernelRICA(8, kernel=kernel, normalize=kernel != "rbf", random_state=0).fit(X)
    start = {name: values[0] for name, values in rica.term_histories_.items()}
    assert start["penalty"] == pytest.approx(start["reconstruction"] / 100)
    given = KernelRICA(8, kernel=kernel, normalize=kernel != "rbf", sparsity=rica.sparsity_)
    again = given.set_params(random_state=0).fit(X)
    np.testing.assert_allclose(again.components_, rica.components_)


class Shifted:
    """``G(y) = a y² - c``, whose sum over codes may be zero."""

    def __init__(self, a, c):
        self.a, self.c = a, c

    def __call__(self, y):
        return Derivatives(self.a * y * y - self.c, 2 * self.a * y, 2 * self.a + 0 * y)


@quiet
def test_auto_sparsity_does_not_grow_where_the_values_of_a_contrast_cancel_out():
    X = np.random.default_rng().normal(size=(60, 4))

    def sparsity(a, c):
        penalty = {"penalty": Shifted(a, c), "pooling": None}
        return KernelRICA(8, max_iter=1, tol=1.0, random_state=0, **penalty).fit(X).sparsity_

    # One over the sum of y², over that of ones: the mean square of the codes. Less it, they sum up to zero.
    squares = sparsity(1.0, 0.0)
    mean = sparsity(0.0, -1.0) / squares
    assert sparsity(1.0, mean) < 1000 * squares


@quiet
def test_codes_have_unit_length_unless_there_is_only_one():
    rng = np.random.default_rng()
    X = rng.normal(size=(50, 3))
    rica = KernelRICA(6, max_iter=2, tol=0.1, random_state=0).fit(X)
    S = Gaussian(rica.gamma_)(X, rica.components_)
    np.testing.assert_allclose(rica.transform(X), unit(S))
    np.testing.assert_allclose(rica.set_params(unit_codes=False).transform(X), S)
    # Far from all basis vectors k is zero in floating point, and stays zero.
    assert not rica.set_params(unit_codes=True).transform(1e6 + X).any()
    one = KernelRICA(1, random_state=0).fit(X)
    assert one.transform(X).std() > 0.01


# --- The ways down ----------------------------------------------------------------------------------


@quiet
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("kernel", KERNEL_NAMES)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("scale", [1.0, "best"])
def test_the_objective_never_rises(digits, optimizer, kernel, dtype, scale):
    X = digits[:100].astype(dtype)
    settings = {"kernel": kernel, "optimizer": optimizer, "max_iter": 12, "scale": scale}
    rica = paper_rica(6, sparsity=0.1, random_state=0, **settings).fit(X)
    history = rica.objective_history_
    assert len(history) == rica.n_iter_ + 1 == len(rica.n_uphill_)
    assert (np.diff(history) <= 1e-8 * np.abs(history[:-1])).all()
    # The best factor leaves less to do.
    assert history[-1] < (0.9 if scale == 1.0 else 0.99) * history[0]
    assert set(rica.term_histories_) == {"reconstruction", "penalty"}
    np.testing.assert_allclose(sum(rica.term_histories_.values()), history)
    assert rica.reconstruction_error_ == rica.term_histories_["reconstruction"][-1]
    assert rica.components_.dtype == dtype


def test_fixed_points_uphill_are_not_taken():
    """Digits / 16, gamma = 0.1: the paper's sweep raises the objective threefold; all c are negative."""
    X = load_digits().data[::3] / 16
    W = X[np.random.default_rng(0).choice(len(X), size=40, replace=False)]
    problem = problem_of(X, 0.1, 40)
    here = problem.evaluate(W)
    swept = problem.evaluate(sweep(X, W, model=problem.model))
    assert (here.extra.scale <= 0).all()
    assert swept.objective > 2 * here.objective
    found = descend(problem, W, optimizer="fixed-point", reach=1.0, max_iter=3, tol=0)
    assert found.n_uphill[0] == 40
    assert found.result.history[-1] < 0.1 * here.objective


@pytest.mark.parametrize("pooling", ["2d", None])
def test_batched_and_row_by_row_reach_the_same_fixed_point(pooling):
    rng = np.random.default_rng()
    centres = 6 * np.eye(4)
    X = np.repeat(centres, 20, axis=0) + rng.normal(size=(80, 4))
    W = centres + 0.5 * rng.normal(size=(4, 4))
    problem = problem_of(X, 0.1, 4, sparsity=0.1, pooling=pooling)
    row_by_row = W
    for _ in range(500):
        row_by_row, before = sweep(X, row_by_row, model=problem.model), row_by_row
        if np.abs(row_by_row - before).max() < 1e-12:
            break
    np.testing.assert_allclose(problem.evaluate(row_by_row).gradient, 0, atol=1e-9)
    for optimizer in OPTIMIZERS:
        found = descend(problem, W, optimizer=optimizer, reach=2.0, max_iter=500, tol=1e-14)
        np.testing.assert_allclose(found.result.params, row_by_row, atol=1e-4)
        assert found.n_uphill[-1] == 0


def test_a_full_step_of_one_vector_is_mean_shift():
    X = np.random.default_rng().normal(size=(50, 3))
    problem = problem_of(X, 0.2, 1, sparsity=0.0)
    found = descend(problem, X[:1], optimizer="fixed-point", reach=100.0, max_iter=1, tol=0)
    weights = Gaussian(0.2)(X, X[:1]) ** 2
    expected = (weights * X).sum(axis=0) / weights.sum()
    np.testing.assert_allclose(found.result.params[0], expected)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("scale", [1.0, "best"])
def test_float32_comes_as_far_as_float64(digits, optimizer, scale):
    ends = []
    settings = {"gamma": 4.0, "scale": scale, "optimizer": optimizer, "max_iter": 500}
    for dtype in ("float32", "float64"):
        rica = paper_rica(10, random_state=0, **settings)
        ends.append(rica.fit(digits.astype(dtype)).objective_history_[-1])
    assert ends[0] == pytest.approx(ends[1], rel=2e-3)


def test_no_vector_moves_farther_than_its_reach(digits):
    X = unit(digits)
    problem = problem_of(X, 1.0, 9)
    for optimizer in OPTIMIZERS:
        found = descend(problem, X[:9], optimizer=optimizer, reach=0.05, max_iter=1, tol=0)
        moves = np.linalg.norm(found.result.params - X[:9], axis=1)
        assert 0.01 < moves.max() <= 0.05 * (1 + 1e-9)


# --- The factor of the reconstruction ---------------------------------------------------------------


def test_the_objective_of_the_paper_as_it_was(digits):
    """Numbers of KernelRICA before it had a scale."""
    rica = paper_rica(10, gamma=4.0, max_iter=20, random_state=0)
    with pytest.warns(ConvergenceWarning):
        codes = rica.fit_transform(digits)
    np.testing.assert_allclose(rica.objective_history_[[0, -1]], [1.18278729, 0.67609895])
    assert codes.sum() == pytest.approx(368.7196075, rel=1e-4)
    assert rica.scale_ == 1.0


@quiet
@pytest.mark.parametrize("kernel", KERNEL_NAMES)
def test_the_best_scale_has_the_least_error(digits, kernel):
    settings = {"kernel": kernel, "normalize": True, "max_iter": 5, "random_state": 0}
    rica = KernelRICA(6, unit_codes=False, **settings).fit(digits)
    S, W = rica.transform(digits), rica.components_
    squares, doubled = (S**2).sum(), np.einsum("ip,pq,iq->", S, rica.kernel_(W, W), S)
    assert rica.scale_ == pytest.approx(squares / doubled, rel=1e-6)
    error = 1 - squares**2 / doubled / len(S)
    assert rica.reconstruction_error_ == pytest.approx(error, rel=1e-6)
    fixed = KernelRICA(6, scale=0.2, **settings)
    assert fixed.fit(digits).scale_ == 0.2


# --- Dead vectors -----------------------------------------------------------------------------------


def test_dead_vectors_are_counted_and_the_remedy_that_is_named_helps(digits):
    rica = paper_rica(40, random_state=0, max_iter=300)
    with pytest.warns(
        UserWarning,
        match=r"of 40 basis vectors are dead.*use scale='best' \(it is 1\).*raise gamma .*try ([\d.]+)",
    ):
        rica.fit(digits)
    largest = rica.transform(digits).max(axis=0)
    assert rica.n_dead_ == (largest < 0.01).sum() > 2
    # Without a warning, which would be an error here.
    cured = paper_rica(40, gamma=4 * rica.gamma_, random_state=0, max_iter=300).fit(digits)
    assert cured.n_dead_ == 0
    assert cured.median_similarity_ < 0.2
    settings = {"scale": "best", "gamma": "basis", "random_state": 0, "max_iter": 300}
    assert paper_rica(40, **settings).fit(digits).n_dead_ == 0
    fewer = paper_rica(5, gamma=rica.gamma_, random_state=0).fit(digits)
    assert fewer.n_dead_ == 0
    with pytest.warns(ConvergenceWarning, match="did not converge in 2 iterations"):
        stopped = paper_rica(40, max_iter=2, random_state=0).fit(digits)
    assert stopped.n_dead_ == 0


@pytest.mark.filterwarnings("ignore:.*did not converge")
@pytest.mark.parametrize(("load", "K"), [(load_digits, 50), (load_wine, 42), (load_iris, 30)])
def test_with_the_defaults_few_die(load, K):
    """Without a warning of dead vectors, which would be an error here."""
    X = load().data
    X = X if load is load_digits else StandardScaler().fit_transform(X)
    rica = KernelRICA(K, random_state=np.random.default_rng().integers(100)).fit(X)
    assert rica.n_dead_ <= 0.05 * K
    assert 0.2 < rica.scale_ < 1
    # Any unit: gamma follows it.
    wider = KernelRICA(K, max_iter=3, random_state=0).fit(7 * X)
    same = KernelRICA(K, max_iter=3, random_state=0).fit(X)
    assert wider.gamma_ == pytest.approx(same.gamma_ / 49, rel=1e-6)
    np.testing.assert_allclose(wider.transform(7 * X), same.transform(X), atol=1e-4)


@quiet
def test_gamma_makes_the_start_nearly_orthogonal(digits):
    rica = KernelRICA(30, max_iter=1, random_state=0).fit(digits)
    G = rica.kernel_(rica.components_, rica.components_)
    assert 0.03 < G[np.triu_indices(30, 1)].mean() < 0.12  # 0.1, and less after a step
    # One vector has no other, and gets the median.
    one = KernelRICA(1, random_state=0).fit(digits).gamma_
    assert one == KernelRICA(1, gamma="median", random_state=0).fit(digits).gamma_


@pytest.mark.filterwarnings("ignore:.*did not converge")
def test_a_penalty_that_kills_is_named_with_one_that_does_not(digits):
    message = r"8 of 8 .* are dead.*; lower sparsity \(it is 10000; try [\d.e-]+\)"
    with pytest.warns(UserWarning, match=message) as caught:
        KernelRICA(8, sparsity=1e4, random_state=0).fit(digits)
    (said,) = (str(w.message) for w in caught if "dead" in str(w.message))
    less = float(re.search(r"try ([\d.e-]+)\)", said)[1])
    # Without a warning, which would be an error here.
    assert KernelRICA(8, sparsity=less, random_state=0).fit(digits).n_dead_ == 0


@pytest.mark.filterwarnings("ignore:.*did not converge")
def test_vectors_that_were_dead_at_the_start_ask_for_a_wider_kernel(digits):
    for kernel in ({"gamma": 1000.0}, {"kernel": Gaussian(1000.0)}):
        with pytest.warns(
            UserWarning, match=r"are dead.*lower gamma \(it is 1e\+03; try"
        ) as caught:
            rica = paper_rica(5, random_state=0, **kernel).fit(digits)
        assert rica.n_dead_ == 5
        assert not any("raise gamma" in str(w.message) for w in caught)
        wide = float(re.search(r"try ([\d.e-]+)\)", str(caught[-1].message))[1])
        # With the remedy, and without a warning, which would be an error here.
        assert paper_rica(5, gamma=wide, random_state=0).fit(digits).n_dead_ == 0


@pytest.mark.filterwarnings("ignore:.*did not converge")
@pytest.mark.parametrize("n", [6, 9, 60])
def test_default_basis_of_noise_lives(n):
    """K-means centres of noise lie nearer to each other than to any row: a kernel for them reaches no row."""
    X = np.random.default_rng(n).normal(size=(800, 100))
    assert KernelRICA(n, random_state=0).fit(X).n_dead_ == 0
    y = np.arange(800) % 3
    assert DiscriminativeKernelRICA(n // 3, random_state=0).fit(X, y).n_dead_ == 0


@pytest.mark.filterwarnings("ignore:.*did not converge")
def test_vectors_that_rows_are_hardly_like_ask_for_a_wider_kernel_too():
    """They were not dead at the start, and raising gamma, as for those that are alike, would kill all."""
    X, y = np.random.default_rng(0).normal(size=(800, 100)), np.arange(800) % 3
    with pytest.warns(UserWarning, match=r"are dead.*lower gamma \(it is 0.05; try") as caught:
        DiscriminativeKernelRICA(20, gamma=0.05, random_state=0).fit(X, y)
    wide = float(re.search(r"try ([\d.e-]+)\)", str(caught[-1].message))[1])
    assert DiscriminativeKernelRICA(20, gamma=wide, random_state=0).fit(X, y).n_dead_ == 0


def test_the_median_similarity_is_that_of_codes(digits):
    rica = paper_rica(8, gamma=4.0, random_state=0).fit(digits)
    assert rica.median_similarity_ == pytest.approx(np.median(rica.transform(digits)))


# --- Codes, kernels and scale -----------------------------------------------------------------------


def test_codes_are_similarities_of_unit_rows(digits):
    rica = paper_rica(8, gamma=4.0, random_state=0).fit(digits)
    squares = ((unit(digits)[:, None] - rica.components_[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(rica.transform(digits), np.exp(-4 * squares), rtol=1e-9)
    np.testing.assert_allclose(rica.transform(7 * digits), rica.transform(digits))
    lengths = (rica.components_**2).sum(axis=1)
    np.testing.assert_allclose(rica.transform(0 * digits[:1])[0], np.exp(-4 * lengths))
    assert (rica.gamma_, rica.kernel_) == (4.0, Gaussian(4.0))


def test_rows_as_they_are(digits):
    X = digits / 16
    rica = paper_rica(4, gamma=0.2, normalize=False, random_state=0).fit(X)
    squares = ((X[:, None] - rica.components_[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(rica.transform(X), np.exp(-0.2 * squares), rtol=1e-9)


def test_gamma_is_one_over_the_median_squared_distance(digits):
    rica = paper_rica(4, random_state=0).fit(digits)
    U = unit(digits)
    i, j = np.triu_indices(len(U), k=1)
    assert rica.gamma_ == pytest.approx(1 / np.median(((U[i] - U[j]) ** 2).sum(axis=1)), rel=0.05)


@quiet
def test_a_custom_kernel(digits):
    named = paper_rica(4, kernel="polynomial", random_state=0, max_iter=5).fit(digits)
    own = paper_rica(4, kernel=Normalized(Polynomial(3)), random_state=0, max_iter=5).fit(digits)
    np.testing.assert_array_equal(own.components_, named.components_)
    assert own.gamma_ is None


@quiet
def test_with_a_linear_kernel_it_is_rica(digits):
    X = unit(digits)
    settings = {"pooling": None, "sparsity": 0.2, "max_iter": 5}
    rica = paper_rica(6, kernel=Linear(), normalize=False, random_state=0, **settings).fit(X)
    W = rica.components_
    S = X @ W.T
    expected = np.mean(((S @ W - X) ** 2).sum(axis=1) + 0.2 * np.log(np.cosh(S)).sum(axis=1))
    assert rica.objective_history_[-1] == pytest.approx(expected)


# --- Whitened ---------------------------------------------------------------------------------------


def whitened(K, *, n_white=None, n_landmarks=None, kernel="rbf", seed=0, **settings):
    """Kernel RICA with whitening: RICA of rows that a kernel whitener has mapped."""
    whitener = KernelWhitener(n_white, kernel=kernel, n_landmarks=n_landmarks, random_state=seed)
    settings = {"sparsity": 0.01, "pooling": "2d", "max_iter": 200, "tol": 1e-5, **settings}
    return make_pipeline(whitener, RICA(K, unit_norm=False, random_state=seed, **settings))


@pytest.mark.parametrize("K", [5, 30])
def test_in_white_space_the_reconstruction_is_the_distance_from_orthonormal(digits, K):
    """Lemma 4.1: mean |WᵀW z - z|² = |WᵀW - I|² for white z."""
    pipeline = whitened(K, n_white=K, n_landmarks=60, sparsity=0.5).fit(digits)
    whitener, rica = pipeline
    Z = whitener.transform(digits)
    W = rica.components_
    error = ((Z @ W.T @ W - Z) ** 2).sum(axis=1).mean()
    assert error == pytest.approx(((W.T @ W - np.eye(K)) ** 2).sum(), rel=1e-6)
    assert rica.reconstruction_error_ == pytest.approx(error, rel=1e-6)
    np.testing.assert_allclose(pipeline.transform(digits), Z @ W.T, atol=1e-8)


def test_the_whitened_objective_as_it_was(digits):
    """Numbers of KernelRICA(5, whiten=True, ...), of which the pipeline took the place."""
    rng = np.random.default_rng(0)
    whitener = KernelWhitener(5, gamma=4.0, n_landmarks=30, random_state=int(rng.integers(2**31)))
    rica = RICA(5, sparsity=0.5, pooling="2d", unit_norm=False, tol=1e-5, random_state=rng)
    codes = make_pipeline(whitener, rica).fit_transform(digits)
    np.testing.assert_allclose(rica.objective_history_[[0, -1]], [6.00891783, 2.07232106])
    sizes = [0.60822058, 0.62850323, 0.68379433, 0.67700959, 0.58530891]
    np.testing.assert_allclose(np.abs(codes).mean(axis=0), sizes, rtol=1e-4)


def test_the_whitened_objective_is_that_of_mapped_rows(digits):
    """What the pipeline minimises, written with k(L, x) alone: codes are W T (k(L, x) - mean)."""
    pipeline = whitened(6, n_white=6, n_landmarks=40, sparsity=0.1).fit(digits)
    whitener, rica = pipeline
    K = whitener.kernel_(unit(digits), whitener.landmarks_) - whitener.mean_
    U = rica.components_ @ whitener.whitening_
    S = K @ U.T
    np.testing.assert_allclose(pipeline.transform(digits), S, atol=1e-8)
    Z = K @ whitener.whitening_.T
    error = ((S @ rica.components_ - Z) ** 2).sum(axis=1).mean()
    penalty = make_penalty("logcosh", "2d", n_codes=6)(S).value / len(digits)
    assert rica.objective_history_[-1] == pytest.approx(error + 0.1 * penalty)
    # The penalty grows with codes, and the reconstruction alone holds them: near orthonormal, not quite.
    assert 0 < rica.reconstruction_error_ < 1


@given(
    seed=st.integers(0, 2**32 - 1),
    K=st.integers(1, 12),
    kernel=st.sampled_from([*KERNEL_NAMES, Linear(), Gaussian(0.3)]),
    n_landmarks=st.integers(12, 40),
)
@hypothesis.settings(max_examples=15, deadline=None)
@quiet
def test_lemma_4_1_for_any_basis(seed, K, kernel, n_landmarks):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 5))
    pipeline = whitened(K, kernel=kernel, n_landmarks=n_landmarks, seed=seed, max_iter=3).fit(X)
    whitener, rica = pipeline
    Z = whitener.transform(X)
    W = rng.normal(size=(K, Z.shape[1])) / K**0.5
    error = ((Z @ W.T @ W - Z) ** 2).sum(axis=1).mean()
    assert error == pytest.approx(((W.T @ W - np.eye(Z.shape[1])) ** 2).sum(), rel=1e-4)
    V = rica.components_
    distance = ((V.T @ V - np.eye(V.shape[1])) ** 2).sum()
    assert rica.reconstruction_error_ == pytest.approx(distance, rel=1e-4, abs=1e-8)


@quiet
@pytest.mark.parametrize("kernel", KERNEL_NAMES)
@pytest.mark.parametrize("K", [3, 8, 20])
def test_fewer_as_many_and_more_vectors_than_white_dimensions(digits, kernel, K):
    pipeline = whitened(K, n_white=8, n_landmarks=60, kernel=kernel, max_iter=30).fit(digits)
    whitener, rica = pipeline
    assert rica.components_.shape == (K, 8)
    W, Z = rica.components_, whitener.transform(digits)
    error = ((Z @ W.T @ W - Z) ** 2).sum(axis=1).mean()
    assert rica.reconstruction_error_ == pytest.approx(error)
    # Fewer vectors leave at least the other dimensions, and more are enough for all.
    assert max(0, 8 - K) <= error < max(0, 8 - K) + 0.2
    y = np.arange(300) % 2
    labeled = DiscriminativeRICA(2, unit_norm=False, pooling="2d", max_iter=5, random_state=0)
    codes = make_pipeline(whitener, labeled).fit_transform(digits, y)
    assert codes.shape == (300, 4)


def test_more_vectors_than_white_dimensions():
    X = np.random.default_rng(0).normal(size=(200, 3))
    pipeline = whitened(12, kernel=Polynomial(1)).set_params(kernelwhitener__normalize=False)
    assert pipeline.fit_transform(X).shape == (200, 12)
    assert pipeline[-1].components_.shape == (12, 3)


# --- Where rows live --------------------------------------------------------------------------------


def test_blocks_of_any_size_give_the_same_basis(digits):
    settings = {"gamma": 4.0, "max_iter": 50, "random_state": 0}
    whole = paper_rica(6, **settings).fit(digits)
    with clusterica.config_context(memory="64KiB", threads=2):
        cut = paper_rica(6, **settings).fit(digits)
    np.testing.assert_allclose(cut.components_, whole.components_, atol=1e-4)
    in_blocks = paper_rica(6, **settings).fit([digits[:150], digits[150:]])
    np.testing.assert_allclose(in_blocks.components_, whole.components_, atol=1e-4)
    assert in_blocks.n_dead_ == whole.n_dead_ == 0


@quiet
def test_tensors_stay_tensors(put, digits):
    settings = {"gamma": 4.0, "max_iter": 8, "random_state": 0}
    right = paper_rica(6, **settings).fit(digits)
    X = put(digits)
    rica = paper_rica(6, **settings).fit(X)
    S = rica.transform(X)
    assert type(S) is type(X)
    assert type(rica.components_) is type(X)
    np.testing.assert_allclose(to_host(S), right.transform(digits), atol=1e-6)
    np.testing.assert_allclose(rica.objective_history_, right.objective_history_, rtol=1e-7)


@quiet
@pytest.mark.parametrize("kernel", KERNEL_NAMES)
def test_blocks_sent_through_a_device(digits, kernel):
    """With torch on the CPU for the device, and rows that are nowhere equal to a centre."""
    pytest.importorskip("torch")
    digits = digits + np.random.default_rng(0).uniform(size=digits.shape)
    settings = {"kernel": kernel, "max_iter": 4, "random_state": 0}
    right = paper_rica(6, **settings).fit(digits)
    with clusterica.config_context(device="cpu", memory="256KiB"):
        rica = paper_rica(6, **settings).fit(digits)
        S = rica.transform(digits)
    assert isinstance(S, np.ndarray)
    np.testing.assert_allclose(rica.objective_history_, right.objective_history_, rtol=1e-7)
    np.testing.assert_allclose(S, right.transform(digits), atol=1e-6)


@quiet
def test_dask_arrays(digits):
    da = pytest.importorskip("dask.array")
    settings = {"gamma": 4.0, "max_iter": 8, "random_state": 0}
    X = da.from_array(digits, chunks=(130, 64))
    rica = paper_rica(6, **settings).fit(X)
    right = paper_rica(6, **settings).fit(digits)
    np.testing.assert_allclose(rica.components_, right.components_, atol=1e-6)
    np.testing.assert_allclose(rica.transform(X).compute(), right.transform(digits), atol=1e-6)


# --- Bad input --------------------------------------------------------------------------------------


class Wrong(Gaussian):
    def pull(self, X, W, values, Q):
        return Pull(*(2 * part for part in super().pull(X, W, values, Q)))


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"gamma": 0}, ValueError, "'gamma' parameter"),
        ({"gamma": -1.0}, ValueError, "'gamma' parameter"),
        ({"gamma": "mean"}, ValueError, "'gamma' parameter"),
        ({"scale": 0.0}, ValueError, "'scale' parameter"),
        ({"scale": "median"}, ValueError, "'scale' parameter"),
        ({"sparsity": -0.1}, ValueError, "'sparsity' parameter"),
        ({"kernel": "cosine"}, ValueError, "'kernel' parameter"),
        ({"kernel": Wrong(1.0)}, ValueError, "pull is off by 1 of its size"),
        ({"kernel": Wrong(100.0)}, ValueError, "pull is off by 1 of its size"),
        ({"kernel": lambda X, W: X @ W.T}, TypeError, "has no diagonal"),
        ({"optimizer": "newton"}, ValueError, "'optimizer' parameter"),
        (
            {"n_components": 500},
            ValueError,
            "n_components=500 must be at most.*n_samples=300; lower",
        ),
        ({"pooling": TorusPooling((3, 3))}, ValueError, "has 9 places"),
        ({"pooling": "3d"}, ValueError, "pooling='3d'"),
        (
            {"kernel": "inverse-distance", "gamma": 7.0},
            ValueError,
            r"gamma=7.0 is that of kernel='rbf', and kernel='inverse-distance' does not read it",
        ),
        ({"kernel": Gaussian(2.0), "gamma": 7.0}, ValueError, "does not read it"),
        ({"kernel": "histogram-intersection", "normalize": False}, ValueError, "overflows"),
    ],
)
def test_bad_settings(digits, settings, error, message):
    with pytest.raises(error, match=message):
        paper_rica(**{"n_components": 4, "random_state": 0, **settings}).fit(100 * digits)


def test_rows_of_zeros_stay_zero(digits):
    """A row of zeros has no direction: normalize leaves it as it is, in fit and in transform."""
    X = digits.copy()
    X[17] = 0
    rica = paper_rica(4, gamma=4.0, random_state=0).fit(X)
    by_hand = unit(digits)
    by_hand[17] = 0
    plain = paper_rica(4, gamma=4.0, normalize=False, random_state=0).fit(by_hand)
    np.testing.assert_allclose(rica.components_, plain.components_, atol=1e-6)
    S = rica.transform(X)
    np.testing.assert_allclose(S[17], np.exp(-4.0 * (rica.components_**2).sum(axis=1)))
    with pytest.raises(ValueError, match="rows that differ"):
        paper_rica(1).fit(np.zeros((10, 3)))


def test_bad_rows(digits):
    X = digits.copy()
    X[3, 5] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        paper_rica(4).fit(X)
    with pytest.raises(ValueError, match="rows that differ"):
        paper_rica(1).fit(np.ones((10, 3)))
    with pytest.raises(ValueError, match="two basis vectors that differ at the start"):
        KernelRICA(2).fit(np.ones((10, 3)))
    with pytest.raises(ValueError, match="64 features"):
        paper_rica(4, gamma=4.0, random_state=0).fit(digits).transform(digits[:, :9])


# --- Conventions ------------------------------------------------------------------------------------


def test_a_seed_repeats_and_models_survive_files(digits, tmp_path):
    for settings in ({"gamma": 4.0}, {"kernel": "polynomial"}):
        make = paper_rica(4, random_state=3, **settings)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*are dead")
            rica = make.fit(digits)
            S = rica.transform(digits)
            np.testing.assert_array_equal(make.fit(digits).transform(digits), S)
        loaded = clusterica.load(clusterica.save(rica, tmp_path / "model.safetensors"))
        for copy in (loaded, pickle.loads(pickle.dumps(rica))):
            np.testing.assert_array_equal(copy.transform(digits), S)
            np.testing.assert_array_equal(copy.objective_history_, rica.objective_history_)


def test_names_of_outputs(digits):
    rica = paper_rica(3, gamma=4.0, random_state=0).set_output(transform="pandas").fit(digits)
    assert list(rica.transform(digits).columns) == ["kernelrica0", "kernelrica1", "kernelrica2"]


@quiet
def test_progress(digits, bar):
    settings = {"gamma": 4.0, "max_iter": 5, "random_state": 0}
    rica = paper_rica(4, **settings).set_callbacks(bar).fit(digits)
    assert bar.names[-1] == "fit"
    assert bar.names.count("iteration") >= rica.n_iter_
    assert "basis" in bar.names


def test_a_plain_callback_gets_models_and_stops_the_fit(digits, watcher):
    settings = {"gamma": 4.0, "random_state": 0}
    seen = watcher()
    whole = paper_rica(4, **settings).set_callbacks(seen).fit(digits)
    assert whole.n_iter_ > 3
    assert seen.names == ["iteration"] * whole.n_iter_ + ["basis", "fit"]
    S = whole.transform(digits)
    np.testing.assert_allclose(seen.models[-1].transform(digits), S, atol=1e-10)
    assert len(seen.models[0].get_feature_names_out()) == 4
    # No warning: it was asked for.
    stopped = paper_rica(4, **settings).set_callbacks(watcher(stop_after=3)).fit(digits)
    assert stopped.n_iter_ == 3
    np.testing.assert_array_equal(stopped.objective_history_, whole.objective_history_[:4])
    found = seen.models[2].transform(digits)
    np.testing.assert_allclose(found, stopped.transform(digits), atol=1e-10)


@quiet
@parametrize_with_checks(
    [
        KernelRICA(3, max_iter=5),
        KernelRICA(3, optimizer="fixed-point", normalize=False, max_iter=5),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
