"""The same result wherever the rows live, in whatever order, blocks and threads they are walked."""

import pickle

import numpy as np
import pytest
from scipy import sparse

import clusterica
from clusterica.arrays import device_of, to_host
from clusterica.cluster import CosineKMeans, KMeans


class Blocks:
    """An object that gives blocks of rows, anew each time it is walked."""

    def __init__(self, X, size=171):
        self.X, self.size = X, size

    def __iter__(self):
        return (self.X[i : i + self.size] for i in range(0, self.X.shape[0], self.size))


def memory_map(X, path):
    np.save(path / "X.npy", X)
    return np.load(path / "X.npy", mmap_mode="r")


def csr_with_long_indices(X, path):
    S = sparse.csr_array(X)
    S.indices, S.indptr = S.indices.astype(np.int64), S.indptr.astype(np.int64)
    return S


def blocks_of_tensors(X, path):
    return Blocks(pytest.importorskip("torch").asarray(np.array(X)))


def data_frame(X, path):
    return pytest.importorskip("pandas").DataFrame(X, columns=list("abcd"))


def data_frames(X, path):
    frame = data_frame(X, path)
    return [frame[:300], frame[300:]]


LAYOUTS = {
    "fortran order": lambda X, path: np.asfortranarray(X),
    "every other row": lambda X, path: np.repeat(X, 2, axis=0)[::2],
    "memory map": memory_map,
    "nested lists": lambda X, path: X.tolist(),
    "csc matrix": lambda X, path: sparse.csc_matrix(X),
    "csr with long indices": csr_with_long_indices,
    "iterable of blocks": lambda X, path: Blocks(X),
    "iterable of csr": lambda X, path: Blocks(sparse.csr_array(X)),
    "iterable of tensors": blocks_of_tensors,
    "data frame": data_frame,
    "list of data frames": data_frames,
}


def assert_same_model(model, expected, atol):
    np.testing.assert_allclose(
        to_host(model.cluster_centers_), expected.cluster_centers_, atol=atol
    )
    np.testing.assert_array_equal(to_host(model.labels_), expected.labels_)
    np.testing.assert_allclose(to_host(model.counts_), expected.counts_, rtol=atol)
    np.testing.assert_allclose(model.objective_history_, expected.objective_history_, rtol=atol)
    assert model.n_iter_ == expected.n_iter_


def assert_same_from(X, make, heavy, **parameters):
    """Fit to X and to the same rows as a NumPy array, and compare everything."""
    weights = np.random.default_rng(5).uniform(0.5, 2, size=600)
    expected = make(6, random_state=0, **parameters).fit(heavy, sample_weight=weights)
    model = make(6, random_state=0, **parameters).fit(X, sample_weight=weights)
    assert_same_model(model, expected, 1e-9)
    np.testing.assert_array_equal(to_host(model.predict(X)), expected.predict(heavy))
    np.testing.assert_allclose(
        to_host(model.transform(X)), expected.transform(heavy), rtol=1e-6, atol=1e-6
    )
    assert model.score(X, sample_weight=weights) == pytest.approx(
        expected.score(heavy, sample_weight=weights)
    )


@pytest.mark.parametrize("init", ["k-means++", "orthogonal"])
def test_kinds_of_data(make, as_kind, init, heavy):
    assert_same_from(as_kind(heavy), make, heavy, init=init)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_of_data(make, layout, heavy, tmp_path):
    assert_same_from(LAYOUTS[layout](heavy, tmp_path), make, heavy, init="k-means++")


def test_results_are_where_the_data_is(make, put, heavy):
    X = put(heavy)
    model = make(6, random_state=0).fit(X)
    results = [model.cluster_centers_, model.labels_, model.counts_]
    results += [model.predict(X), model.transform(X)]
    for result in results:
        assert type(result) is type(X)
        assert device_of(result) == device_of(X)


def test_results_of_dask_are_lazy(make, heavy):
    X = pytest.importorskip("dask.array").from_array(heavy, chunks=(171, 2))
    model = make(6, random_state=0).fit(X)
    for rows in (model.predict(X), model.transform(X)):
        assert type(rows) is type(X)
        assert rows.shape[0] == 600
        assert rows.chunks[0] == X.chunks[0]
    for name, value in vars(model).items():  # the model itself needs no cluster
        assert not type(value).__module__.startswith("dask"), name
    assert isinstance(model.labels_, np.ndarray)


def test_dask_with_an_empty_chunk(heavy):
    """What a filter leaves behind."""
    da = pytest.importorskip("dask.array")
    X = da.from_array(heavy, chunks=((300, 0, 300), (4,)))
    model, expected = (KMeans(3, random_state=0).fit(data) for data in (X, heavy))
    assert_same_model(model, expected, 1e-9)


def test_a_model_of_dask_can_be_pickled(heavy):
    X = pytest.importorskip("dask.array").from_array(heavy, chunks=(100, 4))
    model = KMeans(3, random_state=0).fit(X)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(heavy), to_host(model.labels_))


def test_csr_with_repeated_entries(make):
    """Entries of one place add up, as SciPy has it: here (2 + 3) e_0 + e_1 and e_0 + 4 e_1."""
    data, columns = np.array([2.0, 1.0, 3.0, 4.0, 1.0]), np.array([0, 1, 0, 1, 0])
    X = sparse.csr_array((data, columns, np.array([0, 3, 5])), shape=(2, 2))
    n_clusters = 2 if isinstance(make(2), CosineKMeans) else 1
    model = make(n_clusters, init=np.eye(1, 2), max_iter=3).fit(X)
    expected = make(n_clusters, init=np.eye(1, 2), max_iter=3).fit(X.toarray())
    assert_same_model(model, expected, 1e-9)
    assert len(X.data) == 5  # and the user's matrix is left alone


def test_dask_of_unknown_length(heavy):
    da = pytest.importorskip("dask.array")
    X = da.from_array(heavy, chunks=(100, 4))
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        KMeans(2).fit(X[X[:, 0] > 0])


def test_streamed_through_a_device(make, heavy):
    pytest.importorskip("torch")
    expected = make(6, random_state=0).fit(heavy)
    with clusterica.config_context(device="cpu", memory="64KiB"):
        model = make(6, random_state=0).fit(heavy)
        assert isinstance(model.cluster_centers_, np.ndarray)
        assert_same_model(model, expected, 1e-9)
        np.testing.assert_array_equal(model.predict(heavy), expected.labels_)
        np.testing.assert_allclose(model.transform(heavy), expected.transform(heavy), atol=1e-6)


def test_streamed_csr_is_the_same(make, heavy):
    pytest.importorskip("torch")
    expected = make(6, random_state=0).fit(heavy)
    with clusterica.config_context(device="cpu"):
        assert_same_model(make(6, random_state=0).fit(sparse.csr_array(heavy)), expected, 1e-9)


def test_partial_fit_goes_on_in_another_precision(make, heavy):
    """A model of float32 learns from float64 rows, by any path."""
    pytest.importorskip("torch")
    model = make(4, random_state=0).partial_fit(heavy.astype(np.float32))
    expected = make(4, random_state=0).partial_fit(heavy.astype(np.float32)).partial_fit(heavy)
    with clusterica.config_context(device="cpu"):
        model.partial_fit(heavy)
    np.testing.assert_allclose(model.cluster_centers_, expected.cluster_centers_, atol=1e-5)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("memory", ["64KiB", "300KiB", "1GiB"])
def test_blocks_and_threads(make, threads, memory):
    X = np.random.default_rng(2).laplace(size=(5000, 4))
    expected = make(6, random_state=0, max_iter=20).fit(X)
    with clusterica.config_context(threads=threads, memory=memory):
        model = make(6, random_state=0, max_iter=20).fit(X)
        assert_same_model(model, expected, 1e-9)
        np.testing.assert_array_equal(model.predict(X), expected.labels_)
        np.testing.assert_allclose(model.transform(X), expected.transform(X), atol=1e-6)


def test_the_same_bits_twice(make):
    X = np.random.default_rng(2).laplace(size=(5000, 4)).astype(np.float32)
    first, second = (make(6, random_state=0).fit(X) for _ in range(2))
    np.testing.assert_array_equal(first.cluster_centers_, second.cluster_centers_)
    np.testing.assert_array_equal(first.objective_history_, second.objective_history_)


def test_several_blocks_of_float32_keep_their_digits():
    """Sums over 200,000 rows whose float32 total would stand still."""
    X = np.random.default_rng(0).random((200_000, 2)).astype(np.float32)
    model = KMeans(1, random_state=0).fit(X)
    np.testing.assert_allclose(
        model.cluster_centers_[0], X.mean(axis=0, dtype=np.float64), rtol=1e-6
    )


@pytest.mark.parametrize(
    ("given", "learned"),
    [
        ("float32", "float32"),
        ("float64", "float64"),
        ("float16", "float32"),
        ("uint8", "float32"),
        ("int16", "float32"),
        ("bool", "float32"),
        ("int32", "float64"),
        ("int64", "float64"),
        (">f4", "float32"),
        (">f8", "float64"),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_dtypes(make, given, learned):
    X = np.random.default_rng(0).integers(0, 200, size=(100, 4)).astype(given)
    model = make(4, random_state=0).fit(X)
    expected = make(4, random_state=0).fit(X.astype(learned))
    assert model.cluster_centers_.dtype == learned
    assert model.transform(X).dtype == learned
    np.testing.assert_array_equal(model.cluster_centers_, expected.cluster_centers_)
    np.testing.assert_array_equal(model.labels_, expected.labels_)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "uint8"])
def test_torch_dtypes(dtype, heavy):
    torch = pytest.importorskip("torch")
    X = torch.asarray(np.array(20 * np.abs(heavy))).to(getattr(torch, dtype))
    model = CosineKMeans(2, random_state=0).fit(X)
    expected = CosineKMeans(2, random_state=0).fit(X.double().numpy())
    assert model.cluster_centers_.dtype == (torch.float64 if dtype == "float64" else torch.float32)
    np.testing.assert_allclose(model.cluster_centers_, expected.cluster_centers_, atol=1e-4)


def test_a_tensor_that_needs_a_gradient(heavy):
    torch = pytest.importorskip("torch")
    X = torch.asarray(np.array(heavy)).requires_grad_()
    model = KMeans(3, random_state=0).fit(X)
    assert not model.cluster_centers_.requires_grad
    np.testing.assert_array_equal(model.labels_, KMeans(3, random_state=0).fit(heavy).labels_)


def test_a_numpy_model_serves_tensors_in_host_memory(heavy):
    torch = pytest.importorskip("torch")
    model = KMeans(3, random_state=0).fit(heavy)
    labels = model.predict(torch.asarray(np.array(heavy)))
    assert isinstance(labels, torch.Tensor)
    np.testing.assert_array_equal(labels, model.labels_)


@pytest.mark.parametrize("method", ["predict", "transform", "score", "partial_fit"])
def test_data_on_another_device_than_the_model(make, method, heavy):
    xp = pytest.importorskip("array_api_strict")
    model = make(4, random_state=0).fit(xp.asarray(heavy, device=xp.Device("device1")))
    with pytest.raises(ValueError, match=r"fitted on device .*device1.*move X there first"):
        getattr(model, method)(xp.asarray(heavy))
    with pytest.raises(ValueError, match="fitted on device"):
        getattr(model, method)(heavy)


def test_the_data_is_left_alone(make, heavy):
    X = np.array(heavy)
    make(4, random_state=0, batch_size=50).fit(X).partial_fit(X).score(X)
    np.testing.assert_array_equal(X, heavy)
