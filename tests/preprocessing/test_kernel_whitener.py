"""Whitening in the space of a kernel: white by definition, kernel PCA as reference, and bad input."""

import dask.array as da
import numpy as np
import pytest
from sklearn.decomposition import PCA, KernelPCA
from sklearn.utils.estimator_checks import parametrize_with_checks

from clusterica import config_context
from clusterica.arrays import device_of, to_host
from clusterica.kernels import KERNEL_NAMES, Gaussian, Linear, Polynomial
from clusterica.preprocessing import KernelWhitener


@parametrize_with_checks(
    [
        KernelWhitener(2),
        KernelWhitener(1, kernel="polynomial", normalize=False),
        KernelWhitener(2, kernel=Gaussian(0.1), n_landmarks=5, normalize=False),
    ],
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture
def X():
    return np.random.default_rng().normal(size=(150, 4)) @ np.diag([2.0, 1.0, 0.7, 0.5])


def assert_white(Z, atol=1e-6):
    Z = to_host(Z)
    np.testing.assert_allclose(Z.mean(axis=0), 0, atol=atol)
    np.testing.assert_allclose(Z.T @ Z / len(Z), np.eye(Z.shape[1]), atol=atol)


@pytest.mark.parametrize(
    "kernel",
    ["rbf", "polynomial", "inverse-distance", "inverse-square-distance", "histogram-intersection"],
)
@pytest.mark.parametrize("n_landmarks", [None, 60])
def test_rows_are_white(X, kernel, n_landmarks):
    whitener = KernelWhitener(6, kernel=kernel, n_landmarks=n_landmarks, random_state=0)
    Z = whitener.fit_transform(X)
    assert_white(Z)
    assert whitener.landmarks_.shape == (n_landmarks or 150, 4)
    np.testing.assert_allclose(np.linalg.norm(whitener.landmarks_, axis=1), 1)
    assert (np.diff(whitener.eigenvalues_) <= 0).all()


def test_all_rows_as_landmarks_are_kernel_pca(X):
    """Against scikit-learn, whose components have the variance that ours are divided by."""
    ours = KernelWhitener(5, gamma=0.3, normalize=False, n_landmarks=150, random_state=0).fit(X)
    peer = KernelPCA(5, kernel="rbf", gamma=0.3).fit(X)
    new = np.random.default_rng().normal(size=(50, 4))
    for rows in (X, new):
        P = peer.transform(rows) / np.sqrt(peer.eigenvalues_ / 150)
        Z = ours.transform(rows)
        signs = np.sign((P * Z).sum(axis=0))
        np.testing.assert_allclose(Z, P * signs, atol=1e-5)
    np.testing.assert_allclose(ours.eigenvalues_, peer.eigenvalues_ / 150, rtol=1e-6)


def test_the_linear_kernel_is_whitened_pca(X):
    X = X + 3  # centred by the whitener
    Z = KernelWhitener(
        kernel=Linear(), normalize=False, n_landmarks=50, random_state=0
    ).fit_transform(X)
    P = PCA(4, whiten=True).fit_transform(X) * np.sqrt(150 / 149)
    assert Z.shape == (150, 4)  # None: as many as the mapped rows vary in
    np.testing.assert_allclose(Z, P * np.sign((P * Z).sum(axis=0)), atol=1e-6)


def test_polynomial_has_the_rank_of_its_features():
    X = np.random.default_rng().normal(size=(200, 2))
    whitener = KernelWhitener(kernel=Polynomial(2), normalize=False).fit(X)
    assert (
        whitener.n_components_ == whitener.rank_ == 5
    )  # x, y, x², xy, y²; the constant has no variance
    assert_white(whitener.transform(X))


@pytest.mark.parametrize("kernel", KERNEL_NAMES)
def test_components_below_the_floor_are_left_out(X, kernel):
    settings = {"kernel": kernel, "random_state": 0}
    whole = KernelWhitener(**settings).fit(X)
    share = whole.eigenvalues_ / whole.eigenvalues_[0]
    for floor in (1e-3, 0.1, 0.999):
        few = KernelWhitener(eigenvalue_floor=floor, **settings).fit(X)
        assert few.n_components_ == (share >= floor).sum() >= 1
        assert few.rank_ == whole.rank_
        Z = few.transform(X)
        np.testing.assert_allclose(Z, whole.transform(X)[:, : few.n_components_], atol=1e-8)
        # Both limits hold.
        fewer = KernelWhitener(2, eigenvalue_floor=floor, **settings).fit(X)
        assert fewer.n_components_ == min(2, few.n_components_)


def test_few_landmarks_are_near_all_of_them(X):
    exact = KernelWhitener(3, gamma=0.1, n_landmarks=150, random_state=0).fit_transform(X)
    few = KernelWhitener(3, gamma=0.1, n_landmarks=60, random_state=0).fit_transform(X)
    cosines = np.linalg.svd(exact.T @ few / 150)[1]
    assert cosines.min() > 0.99


class Blocks:
    def __init__(self, X):
        self.X = X

    def __iter__(self):
        return (self.X[i : i + 71] for i in range(0, len(self.X), 71))


@pytest.mark.parametrize("kind", ["float32", "blocks", "dask", "small memory", "memory map"])
def test_rows_of_all_kinds(rng, kind, tmp_path):
    # The same rows every time: fresh ones may have eigenvalues so near that float32 turns their vectors.
    X = rng.normal(size=(150, 4))
    whitener = KernelWhitener(4, n_landmarks=30, random_state=0)
    expected = whitener.fit_transform(X)
    if kind == "memory map":
        np.save(tmp_path / "X.npy", X)
        given = np.load(tmp_path / "X.npy", mmap_mode="r")
    else:
        given = {
            "float32": X.astype(np.float32),
            "blocks": Blocks(X),
            "dask": da.from_array(X, chunks=(90, 2)),
            "small memory": X,
        }[kind]
    with config_context(memory="64KiB" if kind == "small memory" else "1GiB"):
        Z = to_host(whitener.fit(given).transform(given))
    assert Z.dtype == (np.float32 if kind == "float32" else np.float64)
    np.testing.assert_allclose(Z, expected, atol=5e-3 if kind == "float32" else 1e-6)


def test_array_libraries(put, X):
    whitener = KernelWhitener(4, n_landmarks=30, random_state=0)
    expected = whitener.fit_transform(X)
    Z = whitener.fit(put(X)).transform(put(X))
    for result in (Z, whitener.landmarks_, whitener.whitening_, whitener.mean_):
        assert type(result) is type(put(X))
        assert device_of(result) == device_of(put(X))
    np.testing.assert_allclose(to_host(Z), expected, atol=1e-6)


def test_float32_rows_that_hardly_differ_are_white():
    X = np.random.default_rng(0).normal(size=(2000, 6)).astype(np.float32)
    whitener = KernelWhitener(20, gamma=0.05, n_landmarks=200, random_state=0)
    assert_white(whitener.fit_transform(X).astype(float), atol=0.01)


def test_rows_of_zeros_stay_zero(X):
    """A row of zeros has no direction: normalize leaves it as it is, in fit and in transform."""
    X[[5, 17]] = 0
    by_hand = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-100)
    expected = KernelWhitener(2, normalize=False, random_state=0).fit_transform(by_hand)
    Z = KernelWhitener(2, random_state=0).fit_transform(X)
    np.testing.assert_allclose(Z, expected, atol=1e-6)
    assert_white(Z)
    with pytest.raises(ValueError, match="rows that differ"):
        KernelWhitener(2).fit(np.zeros((150, 4)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"gamma": 0.0}, "'gamma' parameter of KernelWhitener must be"),
        ({"gamma": "mean"}, "'gamma' parameter"),
        ({"kernel": "gauss"}, "'kernel' parameter"),
        ({"n_components": 20, "n_landmarks": 10}, "n_components=20 must be at most n_landmarks=10"),
        ({"n_components": 151}, "n_components=151 must be at most n_samples=150"),
        ({"n_landmarks": 151}, "n_landmarks=151 must be at most the number of rows, n_samples=150"),
        (
            {"n_components": 5, "kernel": Linear(), "normalize": False},
            "n_components=5 must be at most the rank of the mapped rows, 4",
        ),
    ],
)
def test_bad_settings(X, settings, message):
    with pytest.raises(ValueError, match=message):
        KernelWhitener(**settings).fit(X)


def test_a_kernel_with_a_wrong_derivative_is_found(X):
    class Wrong(Gaussian):
        def _twice_slope(self, values):
            return values

    with pytest.raises(ValueError, match="pull is off by"):
        KernelWhitener(2, kernel=Wrong()).fit(X)


@pytest.mark.filterwarnings("error")
def test_a_kernel_is_tried_on_the_rows(X, kernel_of_roots):
    assert_white(
        KernelWhitener(3, kernel=kernel_of_roots, random_state=0).fit_transform(abs(X) + 0.1)
    )


def test_other_bad_rows(X):
    with pytest.raises(ValueError, match=r"leaves nothing but the sign.*n_features=1"):
        KernelWhitener(1).fit(X[:, :1])
    with pytest.raises(ValueError, match="needs rows that differ"):
        KernelWhitener(1).fit(np.ones((5, 2)))
    with pytest.raises(ValueError, match="NaN"):
        KernelWhitener(1).fit(np.full((5, 2), np.nan))
    with config_context(memory="100KiB"), pytest.raises(ValueError, match="that they may take"):
        KernelWhitener(1).fit(X)


def test_a_seed_repeats(X):
    Z = [KernelWhitener(3, n_landmarks=20, random_state=s).fit_transform(X) for s in (1, 1, 2)]
    np.testing.assert_array_equal(Z[0], Z[1])
    assert not np.allclose(Z[0], Z[2])
