"""Kernel ridge on blocks of features, against scikit-learn's and a loop that leaves one row out."""

import tracemalloc
from functools import partial

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.kernel_ridge import KernelRidge
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import clusterica
from clusterica import config_context
from clusterica.linear import KernelRidgeClassifier, _gram, every_fifth


@pytest.fixture
def data(rng):
    y = rng.integers(3, size=90)
    X = rng.normal(size=(3, 7))[y] + rng.normal(size=(90, 7))
    return X * rng.uniform(0.1, 10, size=7) + 5, y


def targets(y):
    return np.where(y[:, None] == np.unique(y), 1.0, -1.0)


@parametrize_with_checks(
    [KernelRidgeClassifier("linear", alpha=1.0), KernelRidgeClassifier("rbf", alpha=0.1)]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_as_kernel_ridge_of_scikit_learn(data, kernel, dtype):
    X, y = data
    model = KernelRidgeClassifier(kernel, alpha=0.7, gamma=0.05).fit(X.astype(dtype), y)
    Z, Y = StandardScaler().fit_transform(X), targets(y)
    other = KernelRidge(alpha=0.7, kernel=kernel, gamma=0.05).fit(Z, Y - Y.mean(axis=0))
    expected = other.predict(Z) + Y.mean(axis=0)
    np.testing.assert_allclose(model.decision_function(X.astype(dtype)), expected, atol=2e-4)
    np.testing.assert_array_equal(model.predict(X.astype(dtype)), expected.argmax(axis=1))


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_accuracy_is_that_of_leaving_one_out(data, kernel):
    X, y = data
    model = KernelRidgeClassifier(kernel, alpha=0.5, gamma=0.05).fit(X, y)
    Z, Y = StandardScaler().fit_transform(X), targets(y)
    b = Y.mean(axis=0)
    right = 0
    for i in range(len(y)):
        rest = np.arange(len(y)) != i
        one = KernelRidge(alpha=0.5, kernel=kernel, gamma=0.05).fit(Z[rest], Y[rest] - b)
        right += (one.predict(Z[[i]]) + b).argmax() == y[i]
    assert model.validation_accuracy_ == pytest.approx(right / len(y))


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_blocks_of_features_are_never_joined(data, rng, kernel):
    """The same classifier as with the wide features, whose blocks are made from the rows on every pass."""
    X, y = data
    maps = [rng.normal(size=(7, k)) for k in (5, 1, 30)]
    largest = []

    def features(rows):
        for M in maps:
            largest.append(M.shape[1])
            yield np.maximum(rows @ M, 0)

    wide = np.concatenate(list(features(X)), axis=1)
    settings = {"alpha": 0.5, "gamma": 0.01}
    blocks = KernelRidgeClassifier(kernel, features=features, **settings).fit(X, y)
    whole = KernelRidgeClassifier(kernel, **settings).fit(wide, y)
    np.testing.assert_allclose(
        blocks.decision_function(X), whole.decision_function(wide), atol=1e-8
    )
    assert hasattr(blocks, "coef_") is (kernel == "linear")
    assert hasattr(blocks, "X_fit_") is (kernel == "rbf")
    assert blocks.kept_nbytes_ == (36 * 3 * 8 if kernel == "linear" else 90 * 7 * 8 + 90 * 3 * 8)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_landmarks_span_the_solution(data, kernel):
    X, y = data
    exact = KernelRidgeClassifier(kernel, alpha=0.5, gamma=0.01).fit(X, y)
    many = KernelRidgeClassifier(kernel, alpha=0.5, gamma=0.01, n_landmarks=89, random_state=0).fit(
        X, y
    )
    few = KernelRidgeClassifier(kernel, alpha=0.5, gamma=0.01, n_landmarks=30, random_state=0).fit(
        X, y
    )
    D = exact.decision_function(X)
    near, far = (np.abs(m.decision_function(X) - D).max() for m in (many, few))
    assert near < 0.05
    assert far < 0.5
    if kernel == "rbf":
        assert few.X_fit_.shape == (30, 7)


def test_auto_finds_what_a_grid_finds(data):
    X, y = data
    model = KernelRidgeClassifier("rbf").fit(X, y)
    assert model.validation_accuracy_ == model.search_["accuracy"].max()
    assert {len(v) for v in model.search_.values()} == {len(model.search_["alpha"])}
    rng = np.random.default_rng(0)
    for _ in range(5):
        alpha, gamma = 10 ** rng.uniform(-3, 1), 10 ** rng.uniform(-3, 0)
        other = KernelRidgeClassifier("rbf", alpha=alpha, gamma=gamma).fit(X, y)
        assert model.validation_accuracy_ >= other.validation_accuracy_ - 0.05


def test_two_classes_have_one_decision(data):
    X, y = data
    labels = np.where(y == 0, "a", "b")
    model = KernelRidgeClassifier("linear", alpha=1.0).fit(X, labels)
    D = model.decision_function(X)
    assert D.shape == (90,)
    np.testing.assert_array_equal(model.predict(X), np.where(D > 0, "b", "a"))


def test_validation_decisions_leave_rows_out(data):
    """Those of a fit without the row; with landmarks on every fifth row of each class, NaN elsewhere."""
    X, y = data
    model = KernelRidgeClassifier(alpha=0.5, gamma=0.01, standardize=False).fit(X, y)
    decisions = model.validation_decisions_
    others = np.arange(len(y)) != 7
    # The intercept of all rows stays: the formula leaves a row out of the sums only.
    targets = np.where(y[:, None] == model.classes_, 1.0, -1.0) - model.intercept_
    K = np.exp(-0.01 * ((X[:, None] - X) ** 2).sum(axis=2))
    A = np.linalg.solve(K[np.ix_(others, others)] + 0.5 * np.eye(len(y) - 1), targets[others])
    np.testing.assert_allclose(decisions[7], K[7, others] @ A + model.intercept_, rtol=1e-6)
    few = KernelRidgeClassifier(alpha=0.5, gamma=0.01, n_landmarks=30, random_state=0).fit(X, y)
    is_held = np.isfinite(few.validation_decisions_).all(axis=1)
    np.testing.assert_array_equal(is_held, every_fifth(np.unique(y, return_inverse=True)[1]))
    found = model.classes_[np.argmax(decisions, axis=1)]
    assert model.validation_accuracy_ == np.mean(found == y)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_wide_blocks_are_cut(data, kernel, monkeypatch):
    X, y = data
    model = KernelRidgeClassifier(kernel, alpha=0.5, gamma=0.01)
    expected = model.fit(X, y).decision_function(X)
    monkeypatch.setattr("clusterica.linear._kernel_ridge.COLUMNS", 3)
    np.testing.assert_allclose(model.fit(X, y).decision_function(X), expected, rtol=1e-9)
    if kernel == "linear":
        assert [len(W) for W in model.coef_] == [3, 3, 1]


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_a_model_that_learned_wide_blocks_as_a_whole_predicts(data, kernel, tmp_path, monkeypatch):
    """Models that an older version has saved are of blocks as they came."""
    X, y = data
    features = partial(np.split, indices_or_sections=[5], axis=1)
    monkeypatch.setattr("clusterica.linear._kernel_ridge.COLUMNS", 7)
    model = KernelRidgeClassifier(kernel, alpha=0.5, gamma=0.01).fit(X, y)
    blocks = clone(model).set_params(features=features).fit(X, y)
    expected = model.decision_function(X), blocks.decision_function(X)
    clusterica.save(model, tmp_path / "model.safetensors")
    monkeypatch.setattr("clusterica.linear._kernel_ridge.COLUMNS", 3)
    model = clusterica.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(model.decision_function(X), expected[0])
    np.testing.assert_array_equal(blocks.decision_function(X), expected[1])


@pytest.mark.parametrize("widths", [[4, 3], [5], [5, 2, 1]])
def test_blocks_of_other_widths_than_in_fit_are_refused(data, widths):
    X, y = data
    model = KernelRidgeClassifier("linear", alpha=0.5, features=lambda X: [X[:, :5], X[:, 5:]]).fit(
        X, y
    )
    model.features = lambda X: [X[:, :width] for width in widths]
    with pytest.raises(ValueError, match=r"other widths than in fit; it must give the same blocks"):
        model.decision_function(X)


def test_as_many_landmarks_as_fit_the_budget(rng):
    X, y = rng.normal(size=(2000, 4)), rng.integers(0, 3, 2000)
    with config_context(memory="200MiB"):
        model = KernelRidgeClassifier(alpha=1.0, gamma=0.1, n_landmarks="auto").fit(X, y)
        assert len(model.X_fit_) == len(X)
    with config_context(memory="16MiB"):
        model = KernelRidgeClassifier(alpha=1.0, gamma=0.1, n_landmarks="auto").fit(X, y)
    n = len(model.X_fit_)
    assert 300 < n < 2000
    assert 18 * 2000 * n + 16 * n**2 <= 16 * 2**20 < 18 * 2000 * (n + 1) + 16 * (n + 1) ** 2


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("n_landmarks", [None, 40])
def test_tensors(data, kernel, n_landmarks):
    torch = pytest.importorskip("torch")
    X, y = data
    settings = {"alpha": 0.5, "gamma": 0.01, "n_landmarks": n_landmarks, "random_state": 0}
    fitted_on_arrays = KernelRidgeClassifier(kernel, **settings).fit(X, y)
    expected = fitted_on_arrays.decision_function(X)
    np.testing.assert_allclose(fitted_on_arrays.decision_function(torch.asarray(X)), expected)
    model = KernelRidgeClassifier(kernel, **settings).fit(torch.asarray(X), y)
    found = model.decision_function(torch.asarray(X))
    assert isinstance(found, torch.Tensor)
    # Landmarks of a linear kernel on seven features are far from independent.
    np.testing.assert_allclose(found, expected, atol=1e-6 if n_landmarks is None else 1e-4)


@pytest.mark.parametrize(("kernel", "alpha"), [("linear", 1e5), ("rbf", 0.5)])
def test_float16_is_computed_in_float32(data, kernel, alpha):
    """Its squares would overflow from 256 on."""
    torch = pytest.importorskip("torch")
    X, y = (200 * data[0]).round().clip(-2000, 2000).astype(np.float16), data[1]
    model = KernelRidgeClassifier(kernel, alpha=alpha, gamma=0.01, standardize=False)
    expected = model.fit(X.astype(np.float32), y).decision_function(X.astype(np.float32))
    for rows in (X, torch.asarray(X)):
        found = np.asarray(model.fit(rows, y).decision_function(rows))
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)


def test_too_many_rows_are_refused_before_the_work(rng):
    X, y = rng.normal(size=(3000, 3)), rng.integers(2, size=3000)
    with config_context(memory="64MiB"):
        with pytest.raises(ValueError, match=r"3000 rows need about 206 MiB.*or set n_landmarks"):
            KernelRidgeClassifier().fit(X, y)
        KernelRidgeClassifier(alpha=1.0, gamma=0.1, n_landmarks=50).fit(X, y)


def test_constant_features_count_for_nothing(data):
    X, y = data
    more = np.concatenate([X, np.full((90, 2), 3.0)], axis=1)
    D = KernelRidgeClassifier(alpha=0.5, gamma=0.01).fit(X, y).decision_function(X)
    again = KernelRidgeClassifier(alpha=0.5, gamma=0.01).fit(more, y).decision_function(more)
    np.testing.assert_allclose(again, D, atol=1e-9)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_constant_that_is_not_its_own_mean_counts_for_nothing(data, dtype):
    """The mean of many 0.1 is not 0.1: a new row with another value was infinitely far from all others."""
    X, y = data
    X = np.concatenate([X, np.full((90, 1), 0.1)], axis=1).astype(dtype)
    for kernel in ("linear", "rbf"):
        model = KernelRidgeClassifier(kernel, alpha=0.5, gamma=0.01).fit(X, y)
        other = X.copy()
        other[:, -1] = 0.3
        np.testing.assert_array_equal(model.decision_function(other), model.decision_function(X))


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (lambda X: [], "gave no block"),
        (lambda X: [X[:3]], r"block of shape \(3, 7\)"),
        (lambda X: [X[:, 0]], "it must be"),
        (lambda X: [X * np.nan], "NaN or infinity"),
    ],
)
def test_bad_blocks(data, features, message):
    X, y = data
    with pytest.raises(ValueError, match=message):
        KernelRidgeClassifier(features=features).fit(X, y)


@pytest.mark.parametrize("n_landmarks", [None, 70])
def test_values_are_compared_on_some_rows_and_the_solution_has_all(data, monkeypatch, n_landmarks):
    X, y = data
    monkeypatch.setattr("clusterica.linear._gram.SEARCH_ROWS", 60)
    shapes, outcome = [], _gram.GramProblem._outcome

    def with_shape(self, gamma, alpha):
        shapes.append(self.gram.products.shape)
        return outcome(self, gamma, alpha)

    monkeypatch.setattr(_gram.GramProblem, "_outcome", with_shape)
    model = KernelRidgeClassifier(n_landmarks=n_landmarks, random_state=0).fit(X, y)
    *compared, last = shapes
    assert len(compared) > 3
    assert set(compared) == {(60, 60)}
    assert last == (90, n_landmarks or 90)
    assert [len(found) for found in model.search_.values()] == 3 * [len(compared)]
    assert model.alpha_ in model.search_["alpha"]
    # All accuracies are shares of the same 60 rows.
    np.testing.assert_allclose(model.search_["accuracy"] * 60 % 1, 0, atol=1e-9)
    given = {"alpha": model.alpha_, "gamma": model.gamma_}
    other = KernelRidgeClassifier(n_landmarks=n_landmarks, random_state=0, **given).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), other.decision_function(X), atol=1e-9)
    assert model.validation_accuracy_ == other.validation_accuracy_


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize(
    ("n", "n_landmarks", "alpha"),
    [(900, None, "auto"), (1500, None, 0.1), (12000, 60, "auto"), (2000, 700, 0.1)],
)
def test_memory_is_what_the_docstring_says(rng, kernel, n, n_landmarks, alpha):
    X, y = rng.normal(size=(n, 4)), rng.integers(2, size=n)
    model = KernelRidgeClassifier(kernel, alpha=alpha, n_landmarks=n_landmarks, random_state=0)
    clone(model).set_params(n_landmarks=10).fit(
        X[:60], y[:60]
    )  # what is imported and compiled once
    tracemalloc.start()
    try:
        model.fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    said = 24 * n**2 if n_landmarks is None else 18 * n * n_landmarks + 16 * n_landmarks**2
    # A few columns of features, targets and decisions come on top.
    assert said / 2 < peak < said + 200 * n


def test_matrices_are_worked_on_in_pieces(data, monkeypatch):
    """The triangle of the Gram matrix, the kernel, and the diagonal of its inverse."""
    torch = pytest.importorskip("torch")
    X, y = data
    expected = KernelRidgeClassifier(alpha=0.5, gamma=0.05).fit(X, y)
    monkeypatch.setattr("clusterica.linear._gram.ROWS", 13)
    for rows in (X, torch.asarray(X)):
        model = KernelRidgeClassifier(alpha=0.5, gamma=0.05).fit(rows, y)
        found, decisions = np.asarray(model.dual_coef_), expected.validation_decisions_
        np.testing.assert_allclose(found, expected.dual_coef_, atol=1e-9)
        np.testing.assert_allclose(model.validation_decisions_, decisions, atol=1e-9)


def test_blocks_and_files_are_read_as_a_whole(data, tmp_path):
    h5py = pytest.importorskip("h5py")
    X, y = data
    X = np.tile(X, 20)  # 98 KiB
    right = KernelRidgeClassifier(alpha=0.5, gamma=0.05).fit(X, y)
    with h5py.File(tmp_path / "X.h5", "w") as file:
        stored = file.create_dataset("X", data=X, chunks=(20, 7))
        # Blocks of one shape look like an array of three dimensions.
        for rows, labels in (
            ([X[:45], X[45:]], [y[:45], y[45:]]),
            ([X[:9], X[9:]], y),
            (stored, y),
        ):
            found = clone(right).fit(rows, labels)
            np.testing.assert_array_equal(found.dual_coef_, right.dual_coef_)
            np.testing.assert_array_equal(found.predict(rows), right.predict(X))
        with (
            config_context(memory="64KiB"),
            pytest.raises(ValueError, match="of a file or of blocks"),
        ):
            clone(right).fit(stored, y)
