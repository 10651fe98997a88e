"""Kernel sparse coding: an objective that only falls, codes that are the best, dead vectors, bad input."""

import re

import dask.array as da
import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from clusterica import config_context
from clusterica.arrays import as_rows, device_of, to_host
from clusterica.dictionaries import KernelSparseCoding
from clusterica.encoders import KernelSparseEncoder
from clusterica.images import ImageFeatures
from clusterica.kernels import Gaussian, Linear, Normalized, Polynomial
from clusterica.ops.kernel_coding import coding_objective
from clusterica.ops.kernels import gram
from clusterica.rica import KernelRICA


# The checks allow few steps, and have rows far apart.
@pytest.mark.filterwarnings("ignore:.*did not converge", "ignore:.*are dead")
@parametrize_with_checks(
    [KernelSparseCoding(2), KernelSparseCoding(1, kernel="polynomial", normalize=False)],
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def X():
    # With some noise: where many features are equal, histogram intersection has a kink.
    return load_digits().data[:200] / 16 + np.random.default_rng(0).uniform(0, 0.1, size=(200, 64))


def objective(model, X):
    rows = X / np.linalg.norm(X, axis=1, keepdims=True) if model.normalize else X
    W, kernel = model.components_, model.kernel_
    S = model.transform(X)
    each = coding_objective(
        kernel(rows, W), gram(kernel, W), S, kernel.diagonal(rows), sparsity=model.sparsity
    )
    return each.mean()


@pytest.mark.filterwarnings("ignore:.*did not converge")
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"gamma": 0.5, "sparsity": 0.02},
        {"kernel": "polynomial"},
        {"kernel": "inverse-distance", "sparsity": 0.3},
        {"kernel": "inverse-square-distance"},
        {"kernel": "histogram-intersection"},
        {"kernel": Normalized(Polynomial(2)), "normalize": False},
    ],
    ids=str,
)
def test_the_objective_falls_and_is_that_of_the_codes(X, settings):
    model = KernelSparseCoding(12, max_iter=15, tol=1e-9, random_state=0, **settings).fit(X)
    history = model.objective_history_
    assert len(history) == model.n_iter_ + 1
    assert (np.diff(history) <= 1e-8).all()
    assert history[-1] < 0.995 * history[0]
    assert objective(model, X) == pytest.approx(history[-1], rel=1e-6)


@pytest.mark.parametrize("kernel", ["rbf", "polynomial", Linear()], ids=str)
def test_the_gradient_over_all_rows_against_finite_differences(kernel):
    rng = np.random.default_rng()
    X, W = rng.normal(size=(40, 3)), rng.normal(size=(4, 3))
    gamma = 0.4 if kernel == "rbf" else "median"
    model = KernelSparseCoding(4, kernel=kernel, gamma=gamma, sparsity=0.3, tol=1e-11, max_iter=1)
    with pytest.warns(ConvergenceWarning):
        model.fit(X)
    rows = as_rows(X)
    found = model._evaluate(rows, W)
    expected = np.empty_like(W)
    for at in np.ndindex(W.shape):
        move = np.zeros_like(W)
        move[at] = 1e-5
        values = [model._evaluate(rows, W + sign * move).objective for sign in (1, -1)]
        expected[at] = (values[0] - values[1]) / 2e-5
    scale = np.abs(expected).max()
    np.testing.assert_allclose(found.gradient, expected, atol=1e-4 * scale)


def test_a_basis_that_is_there_is_found():
    """Rows that are near a few points: basis vectors come to lie on them, and a row uses its own."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(5, 8))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    X = centres[rng.integers(5, size=400)] + 0.01 * rng.normal(size=(400, 8))
    model = KernelSparseCoding(5, gamma=2.0, max_iter=300, random_state=0).fit(X)
    distances = np.linalg.norm(model.components_[:, None] - centres[None], axis=2)
    assert distances.min(axis=0).max() < 0.05
    S = model.transform(X)
    np.testing.assert_allclose(np.sort(S, axis=1)[:, -1], 0.95, atol=0.02)  # 1 - λ / 2
    assert (S != 0).sum(axis=1).mean() < 1.5


def test_codes_are_those_of_the_encoder(X):
    model = KernelSparseCoding(10, gamma=1.0, sparsity=0.2, max_iter=200, random_state=0).fit(X)
    encoder = KernelSparseEncoder(
        model.components_, gamma=1.0, sparsity=0.2, split_signs=False, tol=1e-5
    )
    np.testing.assert_allclose(model.transform(X), encoder.fit_transform(X), atol=1e-6)
    assert model.kernel_ == Gaussian(1.0)


def test_a_kernel_without_a_unit_diagonal_is_normalised(X):
    model = KernelSparseCoding(5, kernel=Linear(), tol=1e-2, random_state=0).fit(X)
    assert model.kernel_ == Normalized(Linear())


class Blocks:
    def __init__(self, X):
        self.X = X

    def __iter__(self):
        return (self.X[i : i + 71] for i in range(0, len(self.X), 71))


SETTINGS = {"max_iter": 5, "tol": 1e-5, "random_state": 0}


@pytest.fixture(scope="module")
def fitted(X):
    with pytest.warns(ConvergenceWarning):
        return KernelSparseCoding(8, **SETTINGS).fit(X)


@pytest.mark.filterwarnings("ignore:.*did not converge")
@pytest.mark.parametrize("kind", ["float32", "blocks", "dask", "small memory"])
def test_rows_of_all_kinds(X, fitted, kind):
    given = {
        "float32": X.astype(np.float32),
        "blocks": Blocks(X),
        "dask": da.from_array(X, chunks=(90, 64)),
        "small memory": X,
    }[kind]
    with config_context(memory="64KiB" if kind == "small memory" else "1GiB"):
        model = KernelSparseCoding(8, **SETTINGS).fit(given)
        S = to_host(model.transform(given))
    assert S.dtype == (np.float32 if kind == "float32" else np.float64)
    np.testing.assert_allclose(model.objective_history_, fitted.objective_history_, rtol=1e-4)
    np.testing.assert_allclose(S, fitted.transform(X), atol=0.02)


@pytest.mark.filterwarnings("ignore:.*did not converge")
def test_array_libraries(put, X, fitted):
    model = KernelSparseCoding(8, **SETTINGS).fit(put(X))
    S = model.transform(put(X))
    for result in (S, model.components_):
        assert type(result) is type(put(X))
        assert device_of(result) == device_of(put(X))
    np.testing.assert_allclose(model.objective_history_, fitted.objective_history_, rtol=1e-4)
    np.testing.assert_allclose(to_host(S), fitted.transform(X), atol=0.02)


@pytest.mark.filterwarnings("ignore:.*did not converge")
def test_image_features_by_the_learner_and_by_the_encoder(rng):
    images = rng.integers(0, 256, size=(12, 8, 8), dtype=np.uint8)
    settings = {"n_filters": 6, "patch_size": 3, "n_patches": 200, "random_state": 0}
    learner = KernelSparseCoding(max_iter=2)
    own = ImageFeatures(**settings, learner=learner, encoder="transform").fit_transform(images)
    assert own.shape[0] == 12
    assert own.shape[1] % 6 == 0
    assert np.abs(own).sum() > 0
    named = ImageFeatures(**settings, encoder="kernel-sparse").fit_transform(images)
    assert named.shape[1] == 2 * own.shape[1]
    assert np.abs(named).sum() > 0


def test_dead_basis_vectors_are_counted_and_the_remedy_helps():
    """A start in the middle of rows that are far apart for so large a gamma."""
    X = np.random.default_rng(0).normal(size=(300, 30))
    with pytest.warns(UserWarning, match=r"4 of 4 basis vectors are dead.*smaller gamma"):
        model = KernelSparseCoding(4, gamma=30.0, tol=1e-2, random_state=0).fit(X)
    assert model.n_dead_ == 4
    assert KernelSparseCoding(4, tol=1e-2, random_state=0).fit(X).n_dead_ == 0


@pytest.mark.filterwarnings("ignore:.*did not converge")
def test_codes_that_are_not_found_are_counted_in_fit_and_in_transform(X, monkeypatch):
    settings = KernelSparseCoding._code_settings
    monkeypatch.setattr(
        KernelSparseCoding, "_code_settings", lambda self: {**settings(self), "max_iter": 1}
    )
    model = KernelSparseCoding(20, gamma=0.1, sparsity=0.01, max_iter=1, random_state=0)
    message = r"the codes of \d+ of 200 rows did not reach .* tol=0.0001; raise tol or sparsity"
    with pytest.warns(ConvergenceWarning, match=message):
        model.fit(X)
    # Once for all blocks, and at the line that called the library.
    with config_context(memory="64KiB"), pytest.warns(ConvergenceWarning, match=message) as caught:
        model.transform(X)
    assert [w.filename for w in caught] == [__file__]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kernel": "polynomial", "gamma": 1.0}, "gamma=1.0 is that of kernel='rbf'"),
        ({"gamma": 0.0}, "'gamma' parameter of KernelSparseCoding must be"),
        ({"sparsity": 0.0}, "'sparsity' parameter"),
        ({"kernel": "gauss"}, "'kernel' parameter"),
        (
            {"n_components": 201},
            "n_components=201 must be at most the number of rows, n_samples=200",
        ),
    ],
)
def test_bad_settings(X, settings, message):
    with pytest.raises(ValueError, match=message):
        KernelSparseCoding(**settings).fit(X)


def test_a_penalty_that_makes_all_codes_zero_is_said_once(X):
    model = KernelSparseCoding(3, sparsity=5.0, random_state=0)
    with pytest.warns(UserWarning, match="sparsity=5 makes the codes of all rows zero") as caught:
        model.fit(X)
    assert [w.filename for w in caught] == [__file__]
    assert not model.transform(X).any()
    numbers = re.findall(r"below ([\d.]+),.*such as ([\d.]+)", str(caught[0].message))
    below, such_as = map(float, numbers[0])
    assert below <= 2.01
    assert model.set_params(sparsity=such_as).fit(X).transform(X).any()


def test_bad_rows(X):
    X = X.copy()
    with pytest.raises(ValueError, match=r"overflows.*normalize=True"):
        KernelSparseCoding(3, kernel="histogram-intersection", normalize=False).fit(1000 * X)
    with pytest.raises(ValueError, match="the kernel is not symmetric"):
        KernelSparseCoding(3, kernel=_Asymmetric(), normalize=False).fit(X)
    X[5, 2] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        KernelSparseCoding(3).fit(X)


def test_rows_of_zeros_stay_zero(X):
    """A row of zeros has no direction: normalize leaves it as it is."""
    X = X.copy()
    X[3] = 0
    by_hand = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-100)
    settings = {"n_components": 3, "gamma": 2.0, "random_state": 0}
    expected = KernelSparseCoding(normalize=False, **settings).fit_transform(by_hand)
    found = KernelSparseCoding(**settings).fit_transform(X)
    np.testing.assert_allclose(found, expected, atol=1e-6)


class _Asymmetric(Linear):
    def __call__(self, X, W):
        return X @ W.T + X[:, :1]

    def diagonal(self, X):
        return super().diagonal(X) + X[:, 0]


@pytest.mark.filterwarnings("ignore::UserWarning")  # dead vectors, and few steps
@pytest.mark.parametrize(("dtype", "largest"), [(np.float32, 75), (np.float64, 600)])
def test_a_step_that_overflows_is_shortened(dtype, largest):
    """The kernel has values of all rows, and not of all that a search tries."""
    rows = np.random.default_rng().uniform(0, largest, size=(100, 5)).astype(dtype)
    settings = {"kernel": "histogram-intersection", "normalize": False, "random_state": 0}
    for model in (
        KernelSparseCoding(6, max_iter=5, **settings),
        KernelRICA(6, max_iter=20, **settings),
    ):
        history = model.fit(rows).objective_history_
        assert np.isfinite(history).all()
        assert history[-1] <= history[0]
