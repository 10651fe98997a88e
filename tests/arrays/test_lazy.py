"""Lazy results of transform: the same rows as an array, within the memory budget."""

import subprocess
import sys

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from clusterica import config_context, set_config
from clusterica.arrays import LazyRows
from clusterica.cluster import KMeans, SphericalKMeans
from clusterica.dictionaries import SparseCoding
from clusterica.encoders import SoftThresholdEncoder, SparseEncoder, TriangleEncoder
from clusterica.ica import ClusterICA
from clusterica.kernels import Gaussian
from clusterica.linear import LinearSVC
from clusterica.preprocessing import ContrastNormalizer, KernelWhitener, Whitener
from clusterica.rica import RICA

SMALL = {"memory": "64KiB", "threads": 1}


@pytest.fixture
def X(rng):
    return rng.laplace(size=(3000, 6)) @ rng.standard_normal((6, 6)) + 2


@pytest.fixture
def file(X, tmp_path):
    np.save(tmp_path / "X.npy", X)
    return np.load(tmp_path / "X.npy", mmap_mode="r")


@pytest.fixture
def Z(X):
    with config_context(lazy=True):
        return Whitener().fit(X).transform(X)


TRANSFORMERS = {
    "contrast": ContrastNormalizer(),
    "whitener": Whitener(),
    "kernel whitener": KernelWhitener(kernel=Gaussian(1.0), n_landmarks=20, random_state=0),
    "K-means": KMeans(3, random_state=0),
    "spherical": SphericalKMeans(3, random_state=0),
    "ICA": ClusterICA(random_state=0),
    "RICA": RICA(4, max_iter=3, random_state=0),
    "triangle": TriangleEncoder(np.eye(6)[:4]),
    "sparse": SparseEncoder(np.eye(6)[:4]),
    "dictionary": SparseCoding(4, max_iter=3, random_state=0),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", TRANSFORMERS)
def test_every_transformer_gives_the_rows_of_the_array(X, name):
    fitted = TRANSFORMERS[name].fit(X)
    right = fitted.transform(X)
    with config_context(lazy=True):
        Z = fitted.transform(X)
    assert isinstance(Z, LazyRows)
    assert (Z.shape, Z.dtype, len(Z)) == (right.shape, right.dtype, len(right))
    np.testing.assert_allclose(np.asarray(Z), right, atol=1e-12)
    np.testing.assert_allclose(np.concatenate(list(Z)), right, atol=1e-12)


def test_the_same_cuts_give_the_same_bits(X):
    whitener = Whitener().fit(X)
    with config_context(lazy=True):
        Z = whitener.transform(X)
    np.testing.assert_array_equal(np.asarray(Z), whitener.transform(X))


def test_lazy_rows_are_indexed_as_an_array_is(X, Z, rng):
    right = Whitener().fit(X).transform(X)
    mask = rng.random(len(X)) < 0.01
    some = rng.integers(-len(X), len(X), size=50)
    keys = [7, -1, slice(5, 90), slice(None, None, -1000), some, some.tolist(), mask, (some, ...)]
    keys += [(slice(3, 9), 2), (4, 2), [], (slice(None, 10), [0, 5])]
    for key in keys:
        np.testing.assert_allclose(Z[key], right[key], atol=1e-12)
    np.testing.assert_allclose(Z.take(np.sort(some % len(X))), right[np.sort(some % len(X))])


@pytest.mark.parametrize("key", [3000, [0, -3001], [0.5], [True, False]])
def test_a_wrong_index_is_named(Z, key):
    with pytest.raises(IndexError, match="3000"):
        Z[key]


def test_auto_is_lazy_for_files_and_blocks_beyond_the_budget(X, file):
    whitener = Whitener().fit(X)
    assert isinstance(whitener.transform(file), np.ndarray)
    with config_context(**SMALL):
        assert isinstance(whitener.transform(X), np.ndarray)
        for rows in (file, [X[:1000], X[1000:]], file[:2500]):
            assert isinstance(whitener.transform(rows), LazyRows)
        assert isinstance(whitener.transform(file[:500]), np.ndarray)
        with config_context(lazy=False):
            assert isinstance(whitener.transform(file), np.ndarray)


def test_tensors_stay_tensors(X):
    torch = pytest.importorskip("torch")
    T = torch.asarray(X)
    with config_context(**SMALL):
        assert isinstance(Whitener().fit_transform(T), torch.Tensor)


def test_a_setting_that_is_none_is_refused():
    with pytest.raises(ValueError, match="lazy='always' must be 'auto', True or False"):
        set_config(lazy="always")


@pytest.mark.parametrize("blocks", [False, True])
def test_a_pipeline_over_a_file_equals_that_over_an_array(X, file, blocks):
    def chain():
        return make_pipeline(
            ContrastNormalizer(), Whitener(n_components=4), SphericalKMeans(4, random_state=0)
        )

    data = [file[:777], file[777:]] if blocks else file
    right = chain().fit(X)
    with config_context(**SMALL):
        found = chain().fit(data)
        np.testing.assert_array_equal(found.predict(data), right.predict(X))
        assert isinstance(found[:-1].transform(data), LazyRows)
    np.testing.assert_allclose(
        found[-1].cluster_centers_, right[-1].cluster_centers_, rtol=1e-6, atol=1e-9
    )


def test_a_classifier_after_lazy_features(X, file):
    y = X[:, 0] > X[:, 1]
    chain = make_pipeline(Whitener(), SoftThresholdEncoder(np.eye(6)), LinearSVC(C=1.0))
    right = chain.fit(X, y).predict(X)
    with config_context(**SMALL):
        np.testing.assert_array_equal(chain.fit(file, y).predict(file), right)


def test_a_step_of_another_library_gets_an_array_or_an_error(X, file):
    chain = make_pipeline(Whitener(), PCA(2))
    with config_context(lazy=True):
        found = chain.fit_transform(file)
    np.testing.assert_allclose(found, chain.fit_transform(X), atol=1e-9)
    error = r"3000 x 6 rows takes 0\.1 MiB, and the memory budget is 0\.1 MiB.*memory=\.\.\."
    with config_context(**SMALL), pytest.raises(MemoryError, match=error):
        chain.fit(file)


def test_scikit_learn_splits_lazy_rows(Z):
    first, second = train_test_split(Z, random_state=0)
    assert first.shape == (2250, 6)
    assert isinstance(second, np.ndarray)


def test_rows_that_are_picked_must_fit_the_budget_too(Z):
    """The folds of a cross-validation are nearly all rows, and are asked for unnoticed."""
    with config_context(**SMALL):
        assert Z[:1000].shape == (1000, 6)
        for pick in (lambda: Z[:2000], lambda: Z[:, 0], lambda: train_test_split(Z)):
            with pytest.raises(
                MemoryError, match=r"of these \d+ x 6 rows takes 0\.1 MiB.*memory=\.\.\."
            ):
                pick()


def test_copy_false_is_refused(Z):
    with pytest.raises(ValueError, match="copy=False"):
        np.array(Z, copy=False)


def test_features_are_counted(Z):
    model = KMeans(2, random_state=0).fit(Z[:100])
    with pytest.raises(ValueError, match="7 features"), config_context(lazy=True):
        model.predict(Whitener().fit_transform(np.random.default_rng(0).normal(size=(50, 7))))


def test_values_that_overflow_are_refused_when_they_are_read(X):
    small = Whitener(eps=0.0).fit(X.astype(np.float32) * 1e-15)
    with config_context(lazy=True):
        Z = small.transform(np.full((9, 6), 1e30, np.float32))
    with pytest.raises(ValueError, match="overflows float32"), np.errstate(all="ignore"):
        KMeans(2).fit(Z)


def test_lazy_rows_go_through_a_device(X):
    pytest.importorskip("torch")
    right = KMeans(3, random_state=0).fit(Whitener().fit_transform(X))
    with config_context(device="cpu", lazy=True):
        Z = Whitener().fit_transform(X)
        found = KMeans(3, random_state=0).fit(Z)
    assert isinstance(Z[:3], np.ndarray)
    np.testing.assert_allclose(found.cluster_centers_, right.cluster_centers_, atol=1e-6)


MEASURE = """
import sys, tracemalloc
import numpy as np
import clusterica
from sklearn.pipeline import make_pipeline
from clusterica.cluster import KMeans, SphericalKMeans
from clusterica.preprocessing import ContrastNormalizer, Whitener

X = np.load(sys.argv[1], mmap_mode="r")
chains = {
    "whitener": [Whitener(), KMeans(8, max_iter=1, compute_labels=False, random_state=0)],
    "contrast": [ContrastNormalizer(), Whitener(),
                 SphericalKMeans(8, max_iter=1, compute_labels=False, random_state=0)],
}
import warnings
warnings.simplefilter("ignore")
# Imports and compiled loops are not what is measured.
make_pipeline(*chains[sys.argv[2]]).fit(np.asarray(X[:5000]))
tracemalloc.start()
with clusterica.config_context(memory="64MiB"):
    make_pipeline(*chains[sys.argv[2]]).fit(X)
print(tracemalloc.get_traced_memory()[1])
"""


@pytest.mark.slow
@pytest.mark.parametrize("chain", ["whitener", "contrast"])
def test_chains_over_a_file_stay_within_the_budget(tmp_path, chain):
    """300 MB of rows with a budget of 64 MiB; a whitened array alone would take 286 MiB."""
    n, path = 700_000, tmp_path / "X.npy"
    X = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(n, 108))
    rng = np.random.default_rng()
    part = rng.standard_normal((10_000, 108), dtype=np.float32)
    for start in range(0, n, len(part)):
        X[start : start + len(part)] = part * rng.uniform(0.5, 2, size=108)
    X.flush()
    command = [sys.executable, "-c", MEASURE, str(path), chain]
    peak = int(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
    # The start of K-means keeps up to three copies of a sample of 20,000 rows, which the budget leaves out.
    assert peak < 2**26 + 3 * 20_000 * 108 * 4
