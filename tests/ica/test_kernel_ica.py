"""Kernel ICA: plain ICA where the kernel is linear, kernel PCA + FastICA where it is not, and bad input."""

import warnings

import dask.array as da
import numpy as np
import pytest
import sklearn
from sklearn.decomposition import FastICA, KernelPCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from clusterica import config_context
from clusterica.arrays import LazyRows, as_rows, device_of, to_host
from clusterica.contrasts import Exponential, LogCosh
from clusterica.ica import KernelICA
from clusterica.ica._likelihood import symmetric_fixed_point
from clusterica.kernels import KERNEL_NAMES, Gaussian, Linear
from clusterica.metrics import amari_distance
from clusterica.preprocessing import KernelWhitener, Whitener
from clusterica.rica import RICA


# The checks have some twenty rows, of which nothing is independent.
@pytest.mark.filterwarnings("ignore:.*did not converge")
@parametrize_with_checks(
    [KernelICA(2), KernelICA(1, kernel="polynomial", normalize=False)],
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def matched(A, B):
    """Columns of B in the order and with the signs of those of A that they are most like."""
    C = np.corrcoef(A.T, B.T)[: A.shape[1], A.shape[1] :]
    best = np.abs(C).argmax(axis=1)
    assert sorted(best) == list(range(A.shape[1]))
    return B[:, best] * np.sign(C[np.arange(len(best)), best])


@pytest.fixture(scope="module")
def mixed():
    """A mixture of two sparse sources and a flat one."""
    rng = np.random.default_rng(0)
    S = np.stack(
        [rng.laplace(size=3000), rng.standard_t(5, size=3000), rng.uniform(-1, 1, size=3000)],
        axis=1,
    )
    A = rng.normal(size=(3, 3))
    return S @ A.T + 1, A


def test_a_linear_kernel_gives_plain_ica(mixed):
    X, A = mixed
    ica = KernelICA(3, kernel=Linear(), normalize=False, n_landmarks=40, tol=1e-8, random_state=0)
    S = ica.fit(X).transform(X)
    peer = FastICA(3, tol=1e-8, whiten="unit-variance", random_state=1).fit(X)
    np.testing.assert_allclose(S, matched(S, peer.transform(X)), atol=1e-3)
    # The sources as functions of the rows: their slopes are the unmixing matrix.
    filters = np.linalg.lstsq(X - X.mean(axis=0), S, rcond=None)[0].T
    assert amari_distance(filters, A) < 0.1
    assert (np.diff(ica.kurtosis_) < 0).all()
    assert ica.kurtosis_[0] > 1 > 0 > ica.kurtosis_[-1]


def test_kernel_pca_and_fastica_on_a_nonlinear_mixture():
    """Three blobs on a curve; with all rows as landmarks the white rows are scikit-learn's."""
    rng = np.random.default_rng(0)
    angle = rng.choice([0.0, 1.2, 2.9], size=250) + 0.15 * rng.normal(size=250)
    X = np.stack([np.cos(angle), np.sin(angle)], axis=1) + 0.05 * rng.normal(size=(250, 2))
    ours = KernelICA(2, gamma=1.0, normalize=False, n_landmarks=250, tol=1e-9, random_state=0)
    S = ours.fit(X).transform(X)
    Z = KernelPCA(2, kernel="rbf", gamma=1.0).fit_transform(X)
    peer = FastICA(2, whiten="unit-variance", tol=1e-9, max_iter=1000, random_state=0)
    np.testing.assert_allclose(S, matched(S, peer.fit_transform(Z)), atol=1e-3)
    np.testing.assert_allclose(S.T @ S / 250, np.eye(2), atol=1e-6)
    np.testing.assert_allclose(ours.components_ @ ours.components_.T, np.eye(2), atol=1e-9)


@pytest.mark.parametrize("kernel", KERNEL_NAMES)
def test_with_as_many_vectors_as_white_dimensions_kernel_rica_is_kernel_ica(kernel):
    """Lemma 4.1 of Xiao, Zhu & Zhao: white rows make W orthonormal, and then sparsity alone is left."""
    # One draw: a fixed point of ICA may also be a saddle, which a descent leaves.
    rng = np.random.default_rng(0)
    X = rng.laplace(size=(2000, 3)) @ rng.normal(size=(3, 3))
    X /= X.std()
    settings = {"kernel": kernel, "normalize": False, "n_landmarks": 100}
    settings |= {"gamma": 0.05} if kernel == "rbf" else {}
    ica = KernelICA(3, tol=1e-9, max_iter=1000, random_state=0, **settings).fit(X)
    S, C = ica.transform(X), ica.components_
    gaussian = np.log(np.cosh(rng.normal(size=10**6))).mean()
    # RICA makes all codes sparse, unless it is told which are flat; ICA finds both.
    signs = np.where(np.log(np.cosh(S)).mean(axis=0) < gaussian, 1, -1)
    whitener = KernelWhitener(3, random_state=ica.whitener_.random_state, **settings)
    start = C + 0.1 * rng.normal(size=(3, 3))
    rica = RICA(3, unit_norm=False, sparsity=0.01, signs=signs, init=start, tol=1e-13)
    codes = make_pipeline(whitener, rica).fit_transform(X)
    # The penalty shrinks or stretches rows a little.
    lengths = np.linalg.norm(rica.components_, axis=1)
    np.testing.assert_allclose(lengths, 1, atol=0.01)
    V = rica.components_ / lengths[:, None]
    np.testing.assert_allclose(V @ V.T, np.eye(3), atol=1e-3)
    np.testing.assert_allclose(V, C, atol=1e-2)
    sparse = (np.log(np.cosh(each)).mean(axis=0) for each in (codes / lengths, S))
    np.testing.assert_allclose(*sparse, atol=1e-4)


def test_kernel_rica_finds_the_sparse_sources_of_kernel_ica_from_anywhere():
    rng = np.random.default_rng(2)
    X = rng.standard_t(3, size=(3000, 3)) @ rng.normal(size=(3, 3))
    X /= np.abs(X).max()
    settings = {"gamma": 0.3, "normalize": False, "n_landmarks": 100}
    ica = KernelICA(3, tol=1e-6, random_state=5, **settings).fit(X)
    assert ica.kurtosis_.min() > 1
    whitener = KernelWhitener(3, random_state=ica.whitener_.random_state, **settings)
    rica = RICA(3, unit_norm=False, sparsity=0.01, tol=1e-13, random_state=0)
    codes = make_pipeline(whitener, rica).fit_transform(X)
    codes /= np.linalg.norm(rica.components_, axis=1)
    S = ica.transform(X)
    gaps = (matched(S, codes) - S) ** 2
    assert np.sqrt(gaps.mean()) < 0.05  # of codes with variance 1


def test_the_fixed_point_finds_sparse_and_flat_sources(put, mixed):
    X, A = mixed
    whitener = Whitener("pca", eps=0.0).fit(X)
    Z = put(whitener.transform(X))
    start = np.random.default_rng().normal(size=(3, 3))
    result = symmetric_fixed_point(as_rows(Z), start, contrast=LogCosh(), max_iter=100, tol=1e-6)
    assert result.converged
    np.testing.assert_allclose(result.params @ result.params.T, np.eye(3), atol=1e-9)
    assert amari_distance(result.params @ whitener.whitening_, A) < 0.1


class Blocks:
    def __init__(self, X):
        self.X = X

    def __iter__(self):
        return (self.X[i : i + 271] for i in range(0, len(self.X), 271))


SETTINGS = {"gamma": 0.2, "n_landmarks": 30, "tol": 1e-7, "random_state": 0}


@pytest.fixture(scope="module")
def fitted(mixed):
    return KernelICA(3, **SETTINGS).fit(mixed[0]).transform(mixed[0])


@pytest.mark.parametrize("kind", ["float32", "blocks", "dask", "small memory"])
def test_rows_of_all_kinds(mixed, fitted, kind):
    X = mixed[0]
    given = {
        "float32": X.astype(np.float32),
        "blocks": Blocks(X),
        "dask": da.from_array(X, chunks=(900, 3)),
        "small memory": X,
    }[kind]
    with config_context(memory="64KiB" if kind == "small memory" else "1GiB"):
        ica = KernelICA(3, **SETTINGS).fit(given)
    S = to_host(ica.transform(given))
    assert S.dtype == (np.float32 if kind == "float32" else np.float64)
    # float32 can't tell the weakest directions of the landmarks from none, and leaves them out.
    np.testing.assert_allclose(S, fitted, atol=0.15 if kind == "float32" else 1e-3)


def test_array_libraries(put, mixed, fitted):
    X = put(mixed[0])
    ica = KernelICA(3, **SETTINGS).fit(X)
    for result in (ica.transform(X), ica.components_, ica.unmixing_, ica.kurtosis_):
        assert type(result) is type(X)
        assert device_of(result) == device_of(X)
    np.testing.assert_allclose(to_host(ica.transform(X)), fitted, atol=1e-3)


def test_a_custom_contrast(mixed):
    X, A = mixed
    settings = {"kernel": Linear(), "normalize": False, "random_state": 0}
    ica = KernelICA(3, contrast=Exponential(), **settings).fit(X)
    S = ica.transform(X)
    filters = np.linalg.lstsq(X - X.mean(axis=0), S, rcond=None)[0].T
    assert amari_distance(filters, A) < 0.15
    with pytest.raises(ValueError, match="G' is off by"):
        KernelICA(3, contrast=lambda y: (y**4, y**3, y**2), **settings).fit(X)


def test_a_plain_callback_gets_models_and_stops_the_fit(mixed, watcher):
    X = mixed[0]
    seen = watcher()
    whole = KernelICA(3, **SETTINGS).set_callbacks(seen).fit(X)
    assert seen.names == ["iteration"] * whole.n_iter_ + ["unmixing", "fit"]
    np.testing.assert_array_equal(seen.models[-1].transform(X), whole.transform(X))
    for model in seen.models:
        assert (np.diff(model.kurtosis_) <= 0).all()
        assert len(model.get_feature_names_out()) == 3
    # No warning: it was asked for.
    stopped = KernelICA(3, **SETTINGS).set_callbacks(watcher(stop_after=2)).fit(X)
    assert stopped.n_iter_ == 2
    np.testing.assert_array_equal(stopped.transform(X), seen.models[1].transform(X))


@pytest.mark.parametrize("memory", ["64KiB", "1GiB"])
def test_rows_whitened_to_data_frames(mixed, fitted, memory):
    pytest.importorskip("pandas")
    with config_context(memory=memory), sklearn.config_context(transform_output="pandas"):
        S = KernelICA(3, **SETTINGS).fit_transform(mixed[0])
    np.testing.assert_allclose(S, fitted, atol=1e-3)


def test_bad_input(mixed):
    X = mixed[0].copy()
    with pytest.raises(ValueError, match="'gamma' parameter of KernelICA must be"):
        KernelICA(2, gamma=-1.0).fit(X)
    with pytest.raises(ValueError, match="n_components=5 must be at most n_landmarks=4"):
        KernelICA(5, n_landmarks=4).fit(X)
    with pytest.raises(ValueError, match="at most n_samples=60; lower it, or give more rows"):
        KernelICA(100).fit(X[:60])
    with pytest.raises(ValueError, match=r"gamma=2.0 is that of kernel='rbf'"):
        KernelICA(2, kernel="inverse-distance", gamma=2.0).fit(X)
    with pytest.raises(ValueError, match="must be at most the rank of the mapped rows"):
        KernelICA(4, kernel=Linear(), normalize=False).fit(X)
    with pytest.warns(ConvergenceWarning, match="did not converge in 1 iterations"):
        KernelICA(3, kernel=Gaussian(0.1), n_landmarks=20, max_iter=1).fit(X)


def test_rows_of_zeros_stay_zero(mixed):
    """A row of zeros has no direction: normalize leaves it as it is."""
    X = mixed[0].copy()
    X[7] = 0
    by_hand = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-100)
    expected = KernelICA(3, normalize=False, **SETTINGS).fit_transform(by_hand)
    np.testing.assert_allclose(KernelICA(3, **SETTINGS).fit_transform(X), expected, atol=1e-6)


def test_white_rows_sent_through_a_device_keep_to_the_memory_budget(monkeypatch):
    pytest.importorskip("torch")
    X = np.random.default_rng(0).normal(size=(40_000, 4))
    learner = KernelICA(5, n_landmarks=20, max_iter=1, random_state=0)
    sizes = []
    blocks = LazyRows.blocks

    def seen(self, size):
        sizes.append(size)
        return blocks(self, size)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        right = learner.fit(X).transform(X)
        monkeypatch.setattr(LazyRows, "blocks", seen)
        with config_context(device="cpu", memory="1MiB"):
            S = learner.fit(X).transform(X[:9])
    assert max(sizes) * 5 * X.itemsize <= 2**20
    assert isinstance(S, np.ndarray)
    np.testing.assert_allclose(S, right[:9], atol=1e-6)
