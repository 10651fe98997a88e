"""What each encoder computes, from loops over rows and from scikit-learn; and what they share."""

import pickle
import tracemalloc

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.decomposition import sparse_encode
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from clusterica import config_context
from clusterica.arrays import Row, row_bytes_of
from clusterica.cluster import GainShapeKMeans
from clusterica.encoders import (
    ENCODER_NAMES,
    HardEncoder,
    KernelSparseEncoder,
    LLCEncoder,
    OMPEncoder,
    SigmoidEncoder,
    SoftThresholdEncoder,
    SparseEncoder,
    TriangleEncoder,
    make_encoder,
)
from clusterica.kernels import Linear


def split(S):
    return np.hstack([np.maximum(S, 0), np.maximum(-S, 0)])


def test_hard_is_the_label_of_k_means(rows):
    kmeans = KMeans(5, n_init=1, random_state=0).fit(rows)
    codes = HardEncoder(kmeans.cluster_centers_).fit_transform(rows)
    np.testing.assert_array_equal(codes, np.eye(5)[kmeans.labels_])


def test_triangle(rows, atoms):
    Z = np.array([[np.linalg.norm(x - d) for d in atoms] for x in rows])
    expected = [[max(0, z.mean() - z_k) for z_k in z] for z in Z]
    np.testing.assert_allclose(TriangleEncoder(atoms).fit_transform(rows), expected, atol=1e-12)


@pytest.mark.parametrize("alpha", [0, 0.25, np.float32(1)])
def test_soft_threshold(rows, atoms, alpha):
    S = rows @ atoms.T
    one = SoftThresholdEncoder(atoms, alpha=alpha, two_sided=False).fit_transform(rows)
    np.testing.assert_allclose(one, np.where(alpha < S, S - alpha, 0), atol=1e-12)
    two = SoftThresholdEncoder(atoms, alpha=alpha).fit_transform(rows)
    np.testing.assert_array_equal(two[:, :9], one)
    np.testing.assert_allclose(two[:, 9:], np.where(alpha < -S, -S - alpha, 0), atol=1e-12)


@pytest.mark.parametrize("bias", [0, -0.5])
def test_sigmoid(rows, atoms, bias):
    expected = 1 / (1 + np.exp(-rows @ atoms.T + bias))
    codes = SigmoidEncoder(atoms, bias=bias).fit_transform(rows)
    np.testing.assert_allclose(codes, expected, atol=1e-12)


@pytest.mark.parametrize("alpha", [0.05, 1.0])
def test_sparse(rows, atoms, alpha):
    expected = sparse_encode(rows, atoms, algorithm="lasso_cd", alpha=alpha, max_iter=10_000)
    signed = SparseEncoder(atoms, alpha=alpha, tol=1e-10, split_signs=False).fit_transform(rows)
    np.testing.assert_allclose(signed, expected, atol=1e-3)
    codes = SparseEncoder(atoms, alpha=alpha, tol=1e-10).fit_transform(rows)
    np.testing.assert_array_equal(codes, split(signed))


def test_kernel_sparse_with_a_linear_kernel_is_sparse(rows, atoms):
    """The squared distance has no factor ½, so that alpha is half of the sparsity."""
    settings = {"normalize": False, "tol": 1e-10}
    codes = KernelSparseEncoder(atoms, kernel=Linear(), sparsity=0.5, **settings).fit_transform(
        rows
    )
    expected = SparseEncoder(atoms, alpha=0.25, tol=1e-10).fit_transform(rows)
    np.testing.assert_allclose(codes, expected, atol=1e-6)


@pytest.mark.parametrize("normalize", [False, True])
def test_kernel_sparse_is_optimal(rows, atoms, normalize):
    """|k(W, x) - k(W, W) s| is at most λ / 2, and that with the sign of the code where there is one."""
    settings = {"gamma": 0.3, "sparsity": 0.2, "split_signs": False, "tol": 1e-12}
    S = KernelSparseEncoder(atoms, normalize=normalize, **settings).fit_transform(rows)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    X = rows / np.where(lengths > 0, lengths, 1) if normalize else rows
    K, G = rbf_kernel(X, atoms, gamma=0.3), rbf_kernel(atoms, gamma=0.3)
    Q = K - S @ G
    assert np.abs(Q).max() <= 0.1 + 1e-5
    np.testing.assert_allclose(Q[S != 0], 0.1 * np.sign(S[S != 0]), atol=1e-5)
    assert 0 < (S != 0).mean() < 0.8


def test_kernel_sparse_takes_gamma_from_the_atoms(rows, atoms):
    squares = ((atoms[:, None] - atoms[None]) ** 2).sum(axis=2)[np.triu_indices(9, 1)]
    codes = KernelSparseEncoder(atoms).fit_transform(rows)
    expected = KernelSparseEncoder(atoms, gamma=1 / np.median(squares)).fit_transform(rows)
    np.testing.assert_allclose(codes, expected, atol=0.05)


def test_omp(rows, atoms):
    unit = atoms / np.linalg.norm(atoms, axis=1, keepdims=True)
    some = rows[:7]
    expected = sparse_encode(some, unit, algorithm="omp", n_nonzero_coefs=2)
    signed = OMPEncoder(unit, n_nonzero=2, split_signs=False).fit_transform(some)
    np.testing.assert_allclose(signed, expected, atol=1e-10)
    np.testing.assert_array_equal(OMPEncoder(unit, n_nonzero=2).fit_transform(some), split(signed))


def test_omp_does_not_care_how_long_the_atoms_are(rows, atoms):
    lengths = np.geomspace(0.01, 100, 9)
    codes = OMPEncoder(atoms, n_nonzero=3, split_signs=False).fit_transform(rows)
    scaled = OMPEncoder(atoms * lengths[:, None], n_nonzero=3, split_signs=False).fit_transform(
        rows
    )
    np.testing.assert_allclose(scaled * lengths, codes, atol=1e-9)


def test_omp_of_one_atom_is_the_code_of_spherical_k_means(rows):
    kmeans = GainShapeKMeans(6, random_state=0).fit(rows)
    codes = OMPEncoder(kmeans.cluster_centers_, n_nonzero=1, split_signs=False).fit_transform(rows)
    nonzero = rows.any(axis=1)
    np.testing.assert_array_equal(abs(codes).argmax(axis=1)[nonzero], kmeans.labels_[nonzero])
    np.testing.assert_allclose(
        ((rows - codes @ kmeans.cluster_centers_) ** 2).sum(), kmeans.inertia_
    )


@pytest.mark.parametrize("n_neighbors", [1, 2, 5, 9])
def test_llc(rows, atoms, n_neighbors):
    """The small systems one by one, as the paper's text has them."""
    encoder = LLCEncoder(atoms, n_neighbors=n_neighbors, ridge=1e-3)
    codes = encoder.fit_transform(rows)
    for x, code in zip(rows[:50], codes, strict=False):
        nearest = np.argsort(((atoms - x) ** 2).sum(axis=1))[:n_neighbors]
        Z = atoms[nearest] - x
        C = Z @ Z.T
        w = np.linalg.solve(C + 1e-3 * np.trace(C) * np.eye(n_neighbors), np.ones(n_neighbors))
        expected = np.zeros(9)
        expected[nearest] = w / w.sum()
        np.testing.assert_allclose(code, expected, atol=1e-9)


def test_llc_of_a_row_on_an_atom(atoms):
    """The row is that atom; where all neighbours are alike, they share the weight."""
    codes = LLCEncoder(atoms, n_neighbors=3, ridge=1e-6).fit_transform(atoms)
    np.testing.assert_allclose(codes, np.eye(9), atol=1e-3)
    same = np.repeat(atoms[:1], 4, axis=0)
    codes = LLCEncoder(same, n_neighbors=2).fit_transform(atoms[:1])
    np.testing.assert_allclose(np.sort(codes), [[0, 0, 0.5, 0.5]])


# --- The interface of blocks -----------------------------------------------------------------------


@pytest.mark.parametrize("size", [2.0**-100, 2.0**-60, 2.0**60, 2.0**100])
def test_local_codes_do_not_depend_on_units(size):
    """In float32 the nearest atoms of such rows had equal weights, or there was an error."""
    rng = np.random.default_rng()
    X, D = (rng.normal(size=(n, 5)).astype(np.float32) for n in (30, 9))
    found = LLCEncoder(np.float32(size) * D, n_neighbors=3).fit_transform(np.float32(size) * X)
    np.testing.assert_array_equal(found, LLCEncoder(D, n_neighbors=3).fit_transform(X))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_encode_is_transform(make, rows, atoms, dtype):
    X, D = rows.astype(dtype), atoms.astype(dtype)
    encoder = make()
    codes = encoder.encode(X, *encoder.prepare(D))
    expected = make(atoms).fit_transform(X)
    assert codes.dtype == expected.dtype == dtype
    assert codes.shape == (600, encoder.n_features_out(9))
    np.testing.assert_allclose(codes, expected, atol=1e-5 if dtype == np.float32 else 1e-7)


def test_rows_of_zeros(make, atoms):
    """They have no part of any atom, no response to one, and still a nearest one."""
    codes, encoder = make(atoms).fit_transform(np.zeros((3, 4))), make()
    nearest = np.argmin(np.linalg.norm(atoms, axis=1))
    if isinstance(encoder, SparseEncoder | OMPEncoder | SoftThresholdEncoder):
        assert not codes.any()
    elif isinstance(encoder, SigmoidEncoder):
        np.testing.assert_array_equal(codes, 0.5)
    else:
        np.testing.assert_array_equal(codes.argmax(axis=1), nearest)


def test_encode_needs_the_memory_it_states(make):
    """In array API text, which takes more memory than compiled code, seen through NumPy's own allocator."""
    xp = pytest.importorskip("array_api_strict")
    rng = np.random.default_rng(0)
    X, D = (xp.asarray(rng.normal(size=(n, 6))) for n in (2000, 30))
    encoder = make()
    if isinstance(encoder, SparseEncoder):
        encoder.set_params(alpha=1.0, tol=1e-3)
    prepared = encoder.prepare(D)
    encoder.encode(
        X[:2, :], *prepared
    )  # what the first call loads and compiles is not of the block
    tracemalloc.start()
    encoder.encode(X, *prepared)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    row = Row(n_features=6, itemsize=8, nbytes=48, is_numpy=False)
    assert peak <= 2000 * row_bytes_of(encoder.encode, row, prepared)


def test_names_make_encoders():
    assert ENCODER_NAMES == (
        "hard",
        "triangle",
        "soft-threshold",
        "sigmoid",
        "sparse",
        "omp",
        "kernel-sparse",
        "llc",
    )
    made = [type(make_encoder(name)) for name in ENCODER_NAMES]
    assert made == [
        HardEncoder,
        TriangleEncoder,
        SoftThresholdEncoder,
        SigmoidEncoder,
        SparseEncoder,
        OMPEncoder,
        KernelSparseEncoder,
        LLCEncoder,
    ]


def test_an_encoder_is_passed_through(make):
    encoder = make()
    assert make_encoder(encoder) is encoder


def test_a_custom_encoder_is_passed_through():
    class Linear:
        def prepare(self, D):
            return (D,)

        def encode(self, X, D):
            return X @ D.T

        def n_features_out(self, n_atoms):
            return n_atoms

    linear = Linear()
    assert make_encoder(linear) is linear


# --- As estimators ---------------------------------------------------------------------------------


def test_in_a_pipeline(make, rows, atoms):
    pipeline = make_pipeline(StandardScaler(), make(atoms)).fit(rows)
    expected = make(atoms).fit_transform(StandardScaler().fit_transform(rows))
    np.testing.assert_array_equal(pipeline.transform(rows), expected)
    assert pipeline.get_feature_names_out().shape == (expected.shape[1],)


def test_names_and_data_frames(rows, atoms):
    pd = pytest.importorskip("pandas")
    encoder = SoftThresholdEncoder(atoms[:2]).set_output(transform="pandas")
    codes = encoder.fit_transform(pd.DataFrame(rows, columns=list("abcd")))
    assert codes.columns.tolist() == [f"softthresholdencoder{i}" for i in range(4)]
    assert encoder.feature_names_in_.tolist() == list("abcd")
    assert codes.shape == (600, 4)


def test_clone_and_pickle(make, rows, atoms):
    encoder = make(atoms)
    codes = encoder.fit_transform(rows)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(encoder)).transform(rows), codes)
    copy = clone(encoder)
    assert not hasattr(copy, "dictionary_")
    np.testing.assert_array_equal(copy.fit_transform(rows), codes)


def test_the_data_is_left_alone(make, rows, atoms):
    X, D = np.array(rows), np.array(atoms)
    make(D).fit(X).transform(X)
    np.testing.assert_array_equal(X, rows)
    np.testing.assert_array_equal(D, atoms)


def test_the_dictionary_takes_the_dtype_of_the_rows(make, rows, atoms):
    encoder = make(atoms.tolist()).fit(rows.astype(np.float32))
    assert encoder.dictionary_.dtype == np.float32
    assert encoder.transform(rows.astype(np.float32)).dtype == np.float32
    assert encoder.transform(rows).dtype == np.float64
    whole = (10 * rows).astype(np.uint8)
    assert make(atoms).fit_transform(whole).dtype == np.float32


def test_warns_of_codes_that_are_not_found(rows):
    D = np.random.default_rng(0).normal(size=(40, 4))
    encoder = SparseEncoder(D, alpha=1e-3, transform_max_iter=1, tol=1e-9).fit(rows)
    with pytest.warns(
        ConvergenceWarning, match=r"tol=1e-09 in transform_max_iter=1 .*raise transform_max_iter"
    ):
        encoder.transform(rows)


@pytest.mark.parametrize("kind", ["sparse", "kernel"])
def test_warns_once_of_all_rows(rows, kind):
    """Whatever the number of blocks, one warning counts the rows of all of them, at the line of the user."""
    D = np.random.default_rng(0).normal(size=(40, 4))
    if kind == "sparse":
        encoder = SparseEncoder(D, alpha=1e-3, transform_max_iter=1, tol=1e-9)
    else:
        encoder = KernelSparseEncoder(D, sparsity=1e-3, transform_max_iter=1, tol=1e-9)
    encoder.fit(rows)
    many = np.tile(rows, (20, 1))
    with pytest.warns(ConvergenceWarning) as found, config_context(memory="256KiB", threads=2):
        encoder.transform(many)
    with pytest.warns(ConvergenceWarning) as whole:
        encoder.transform(many)
    assert len(found) == len(whole) == 1
    assert found[0].filename == __file__
    assert str(found[0].message) == str(whole[0].message)
    assert f"the codes of {len(many) // 20} rows" not in str(found[0].message)


def test_a_dask_array_stays_lazy(rows, atoms):
    da = pytest.importorskip("dask.array")
    encoder = SparseEncoder(atoms).fit(rows)
    codes = encoder.transform(da.from_array(rows, chunks=(100, 4)))
    assert hasattr(codes, "dask")
    np.testing.assert_allclose(codes.compute(), encoder.transform(rows), atol=1e-6)
