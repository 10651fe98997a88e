"""Whitening: identity covariance, its inverse, batches, rank, and every kind of rows."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import clusterica
from clusterica.arrays import as_rows, device_of, to_host
from clusterica.preprocessing import ContrastNormalizer, Whitener

METHODS = ("zca", "pca", "cholesky")


@pytest.fixture(params=METHODS, scope="session")
def method(request):
    return request.param


def correlated(n=500, d=5, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + 3 * rng.normal(size=d)


# --- The matrices ----------------------------------------------------------------------------------


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6), d=st.integers(1, 6))
def test_covariance_is_the_identity(method, seed, d):
    X = correlated(100, d, seed)
    whitener = Whitener(method, eps=0.0)
    Y = whitener.fit_transform(X)
    # A covariance has the squared condition of its rows, and some draws of these are nearly singular.
    condition = np.linalg.cond(X - X.mean(axis=0))
    tol = 1e-6 + 10 * np.finfo(float).eps * condition**2
    np.testing.assert_allclose(np.cov(Y.T).reshape(d, d), np.eye(d), atol=tol)
    np.testing.assert_allclose(Y.mean(axis=0), 0, atol=tol)
    np.testing.assert_allclose(whitener.inverse_transform(Y), X, rtol=tol, atol=tol)


@pytest.mark.parametrize("eps", [0.0, 0.01, 2.0])
def test_matrices(method, eps):
    X = correlated()
    whitener = Whitener(method, eps=eps).fit(X)
    cov = np.cov(X.T)
    T = whitener.whitening_
    np.testing.assert_allclose(T @ (cov + eps * np.eye(5)) @ T.T, np.eye(5), atol=1e-9)
    np.testing.assert_allclose(T @ whitener.dewhitening_, np.eye(5), atol=1e-9)
    np.testing.assert_allclose(whitener.covariance_, cov)
    np.testing.assert_allclose(whitener.mean_, X.mean(axis=0))
    np.testing.assert_allclose(whitener.eigenvalues_, np.linalg.eigvalsh(cov)[::-1])
    assert (whitener.eps_, whitener.rank_, whitener.n_components_) == (eps, 5, 5)
    assert whitener.n_samples_seen_ == 500


def test_forms_of_the_matrices():
    X = correlated()
    cov = np.cov(X.T) + 0.5 * np.eye(5)
    values, V = np.linalg.eigh(cov)
    zca, pca, cholesky = (Whitener(m, eps=0.5).fit(X).whitening_ for m in METHODS)
    np.testing.assert_allclose(zca, (V / np.sqrt(values)) @ V.T)
    np.testing.assert_allclose(np.abs(pca), np.abs((V / np.sqrt(values)).T[::-1]))
    np.testing.assert_allclose(cholesky, np.linalg.inv(np.linalg.cholesky(cov)), atol=1e-12)
    np.testing.assert_array_equal(np.triu(cholesky, 1), 0)


def test_eps_by_hand():
    """Variances 4 and 1 with eps = 5 and 0: divided by 3 and sqrt(6)."""
    X = np.array([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]]) * np.sqrt(1.5)
    assert Whitener(eps=0.0).fit(X).eigenvalues_.tolist() == pytest.approx([4, 1])
    Y = Whitener(eps=5.0).fit_transform(X)
    np.testing.assert_allclose(Y, X / [3, np.sqrt(6)])
    Y = Whitener("pca", eps=5.0).fit_transform(X)
    np.testing.assert_allclose(Y, X / [3, np.sqrt(6)])


@pytest.mark.parametrize(
    ("text", "share"), [("1%", 0.01), ("0%", 0), ("250%", 2.5), ("1e-1%", 1e-3)]
)
def test_percentage_is_a_share_of_the_mean_eigenvalue(method, text, share):
    X = correlated()
    eps = share * np.trace(np.cov(X.T)) / 5
    by_share, by_number = (Whitener(method, eps=e).fit(X) for e in (text, eps))
    assert by_share.eps_ == pytest.approx(eps)
    np.testing.assert_allclose(by_share.whitening_, by_number.whitening_)


def test_percentage_fits_any_scale(method):
    X = correlated()
    np.testing.assert_allclose(
        Whitener(method, eps="1%").fit_transform(1e-6 * X),
        Whitener(method, eps="1%").fit_transform(X),
        atol=1e-8,
    )


def test_signs_and_order_are_settled():
    """The largest entry of each component is positive, so that two fits can be compared."""
    X = correlated()
    whitener = Whitener("pca", eps=0.0).fit(X)
    T = whitener.whitening_
    assert (T[np.arange(5), np.abs(T).argmax(axis=1)] > 0).all()
    assert (np.diff(whitener.eigenvalues_) <= 0).all()
    np.testing.assert_allclose(Whitener("pca", eps=0.0).fit(X[::-1]).whitening_, T, atol=1e-9)
    np.testing.assert_allclose(Whitener("pca", eps=0.0).fit(-X).whitening_, T, atol=1e-9)


def test_data_that_was_white_stays_as_it_is():
    Y = Whitener(eps=0.0).fit_transform(correlated())
    np.testing.assert_allclose(Whitener(eps=0.0).fit_transform(Y), Y, atol=1e-9)


# --- Components and rank ---------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 3, 5])
def test_n_components(n):
    X = correlated()
    pca = Whitener("pca", eps=0.0, n_components=n).fit(X)
    Y = pca.transform(X)
    assert Y.shape == (500, n)
    np.testing.assert_allclose(Y, Whitener("pca", eps=0.0).fit_transform(X)[:, :n], atol=1e-9)
    zca = Whitener("zca", eps=0.0, n_components=n).fit(X)
    Z = zca.transform(X)
    assert Z.shape == (500, 5)
    assert np.linalg.matrix_rank(Z, tol=1e-6) == n
    # Both come back as the projection on the kept directions.
    centred = X - X.mean(axis=0)
    V = np.linalg.eigh(np.cov(X.T))[1][:, ::-1][:, :n]
    projected = centred @ V @ V.T + X.mean(axis=0)
    np.testing.assert_allclose(pca.inverse_transform(Y), projected, atol=1e-9)
    np.testing.assert_allclose(zca.inverse_transform(Z), projected, atol=1e-9)


def deficient(kind, dtype, seed=0):
    """16 features of rank 15, up to rounding."""
    X = np.random.default_rng(seed).normal(size=(5000, 16))
    if kind == "constant":
        X[:, 3] = 17.3
    elif kind == "duplicated":
        X[:, 3] = X[:, 0]
    elif kind == "sum":
        X[:, 3] = X[:, 0] + X[:, 1]
    else:
        X = ContrastNormalizer(eps=0.0).fit_transform(X.astype(dtype))
    return X.astype(dtype)


@pytest.mark.parametrize("kind", ["constant", "duplicated", "sum", "contrast-normalised"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
class TestRankDeficient:
    def test_rank(self, kind, dtype):
        """Rounding makes the last eigenvalue a little more or less than zero, as the seed has it."""
        ranks = [Whitener(eps=0.0).fit(deficient(kind, dtype, seed)).rank_ for seed in range(5)]
        assert ranks == 5 * [15]

    def test_zca_leaves_the_direction_out(self, kind, dtype):
        X = deficient(kind, dtype)
        whitener = Whitener(eps=0.0)
        Y = whitener.fit_transform(X)
        values = np.linalg.eigvalsh(np.cov(Y.T.astype(np.float64)))
        np.testing.assert_allclose(values, [0] + 15 * [1], atol=1e-3)
        np.testing.assert_allclose(whitener.inverse_transform(Y), X, atol=1e-3)

    def test_pca_has_fewer_columns(self, kind, dtype):
        X = deficient(kind, dtype)
        whitener = Whitener("pca", eps=0.0)
        Y = whitener.fit_transform(X)
        assert Y.shape == (5000, 15)
        np.testing.assert_allclose(np.cov(Y.T), np.eye(15), atol=1e-3)
        np.testing.assert_allclose(whitener.inverse_transform(Y), X, atol=1e-3)
        assert len(whitener.get_feature_names_out()) == 15

    def test_cholesky_needs_eps(self, kind, dtype):
        X = deficient(kind, dtype)
        with pytest.raises(
            ValueError, match=r"rank 15 of 16.*needs eps > .*eps=0;.*'zca' or 'pca'"
        ):
            Whitener("cholesky", eps=0.0).fit(X)
        whitener = Whitener("cholesky", eps=0.1).fit(X)
        np.testing.assert_allclose(whitener.inverse_transform(whitener.transform(X)), X, atol=1e-4)

    def test_eps_keeps_all_directions(self, kind, dtype, method):
        Y = Whitener(method, eps=0.1).fit_transform(deficient(kind, dtype))
        assert Y.shape == (5000, 16)
        assert np.isfinite(Y).all()
        assert np.abs(Y).max() < 10


def test_fewer_rows_than_features():
    X = correlated(4, 10)
    whitener = Whitener("pca", eps=0.0)
    Y = whitener.fit_transform(X)
    assert whitener.rank_ == 3
    np.testing.assert_allclose(np.cov(Y.T), np.eye(3), atol=1e-9)
    np.testing.assert_allclose(whitener.inverse_transform(Y), X, atol=1e-9)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_eps_below_the_rounding_of_eigenvalues(dtype):
    """Two directions of variance 1e12: 1e-6 is less than their rounding errors, and acts as 0."""
    X = (1e6 * np.random.default_rng(0).standard_normal((3, 33))).astype(dtype)
    with pytest.raises(ValueError, match=r"rank 2 of 33.*needs eps > .*eps=1e-06;.*'zca' or 'pca'"):
        Whitener("cholesky", eps=1e-6).fit(X)
    for method in ("zca", "pca"):
        whitener = Whitener(method, eps=1e-6)
        Y = whitener.fit_transform(X).astype(np.float64)
        assert Y.shape == X.shape
        values = np.linalg.eigvalsh(np.cov(Y.T))
        np.testing.assert_allclose(values, [0] * 31 + [1] * 2, atol=1e-5)
        np.testing.assert_allclose(whitener.inverse_transform(Y), X, rtol=1e-4, atol=10)


@pytest.mark.filterwarnings("ignore:eps=.* is much larger than the eigenvalues")
@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1.0, 1e6, 1e12])
@pytest.mark.parametrize("n_rows", [3, 200])
@pytest.mark.parametrize("columns", ["plain", "constant", "duplicated"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_any_scale(method, scale, n_rows, columns, dtype):
    """Whitened rows follow their definition, or cholesky says which eps it needs."""
    X = np.random.default_rng(0).standard_normal((n_rows, 8))
    X[:, 0] = {"plain": X[:, 0], "constant": 1.0, "duplicated": X[:, 1]}[columns]
    X = (scale * X).astype(dtype)
    S = np.cov(X.T, dtype=np.float64)
    for eps in (0.0, 1e-12, 1e-6, 1e-3, 1.0, "1%"):
        whitener = Whitener(method, eps=eps)
        message = None
        try:
            Y = whitener.fit_transform(X).astype(np.float64)
        except ValueError as error:
            message = str(error)
        if message is not None:
            assert "needs eps >" in message  # not NumPy's LinAlgError
            assert method == "cholesky"
            assert whitener.set_params(eps="1%").fit(X).rank_ < 8
            continue
        assert np.isfinite(Y).all()
        # Directions of no variance stay zero, all others follow e / (e + eps).
        r = whitener.rank_
        e = np.linalg.eigvalsh(S)[::-1]
        expected = np.concatenate([e[:r] / (e[:r] + whitener.eps_), np.zeros(8 - r)])
        whitened = np.linalg.eigvalsh(np.cov(Y.T))[::-1]
        # A digit of the matrix weighs as much as the largest and the smallest variance differ.
        condition = e[0] / (min(whitener.eps_, e[r - 1]) or e[r - 1])
        atol = 1e-4 + 20 * np.finfo(dtype).eps * condition**0.5
        np.testing.assert_allclose(whitened, expected[: len(whitened)], atol=atol)


@pytest.mark.parametrize("eps", [0.0, 0.01, "1%"])
@pytest.mark.parametrize("method", ["zca", "pca"])
def test_constant_data(method, eps):
    X = np.full((6, 3), 2.5)
    whitener = Whitener(method, eps=eps)
    Y = whitener.fit_transform(X)
    assert not Y.any()
    assert whitener.rank_ == 0
    np.testing.assert_allclose(whitener.inverse_transform(Y), X)


# --- Precision -------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [0, 1e3, 1e4])
def test_float32(method, offset):
    X = (correlated() + offset).astype(np.float32)
    whitener = Whitener(method, eps=0.0).fit(X)
    exact = Whitener(method, eps=0.0).fit(X.astype(np.float64))
    for name in ("whitening_", "dewhitening_", "eigenvalues_", "mean_", "covariance_"):
        assert getattr(whitener, name).dtype == np.float32
    np.testing.assert_allclose(whitener.covariance_, exact.covariance_, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(
        whitener.transform(X), exact.transform(X.astype(np.float64)), atol=0.02
    )
    np.testing.assert_allclose(
        np.cov(whitener.transform(X).T.astype(np.float64)), np.eye(5), atol=5e-3
    )


def test_float64_far_from_the_origin(method):
    X = correlated()
    near, far = (Whitener(method, eps=0.0).fit_transform(X + offset) for offset in (0, 1e8))
    np.testing.assert_allclose(far, near, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.float16])
def test_other_dtypes(method, dtype):
    X = np.random.default_rng(0).integers(0, 200, size=(300, 4)).astype(dtype)
    exact = Whitener(method).fit(X.astype(np.float64))
    Y = Whitener(method).fit_transform(X)
    assert Y.dtype == (np.float64 if dtype is np.int64 else np.float32)
    np.testing.assert_allclose(Y, exact.transform(X.astype(np.float64)), atol=1e-4)


# --- Batches ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [0, 1e4])
@pytest.mark.parametrize("sizes", [(250, 250), (2, 498), (100, 1, 1, 398), (499, 1)])
def test_partial_fit_is_fit(method, sizes, offset):
    X = correlated() + offset
    whole, part = Whitener(method).fit(X), Whitener(method)
    for batch in np.split(X, np.cumsum(sizes)[:-1]):
        part.partial_fit(batch)
    assert part.n_samples_seen_ == 500
    np.testing.assert_allclose(part.mean_, whole.mean_)
    np.testing.assert_allclose(part.covariance_, whole.covariance_, atol=1e-8)
    np.testing.assert_allclose(part.whitening_, whole.whitening_, atol=1e-7)


def test_partial_fit_when_the_mean_drifts():
    batches = [correlated(100, 3, seed) + 50 * seed for seed in range(5)]
    part = Whitener(eps=0.0)
    for batch in batches:
        part.partial_fit(batch)
    whole = Whitener(eps=0.0).fit(np.concatenate(batches))
    np.testing.assert_allclose(part.covariance_, whole.covariance_)


def test_partial_fit_goes_on_after_fit():
    X = correlated()
    part = Whitener().fit(X[:300]).partial_fit(X[300:])
    np.testing.assert_allclose(part.whitening_, Whitener().fit(X).whitening_)


def test_fit_begins_anew():
    X = correlated()
    again = Whitener().partial_fit(3 * X).fit(X)
    np.testing.assert_array_equal(again.whitening_, Whitener().fit(X).whitening_)
    assert again.n_samples_seen_ == 500


def test_first_batch_of_few_rows(method):
    """Fewer rows than features at first: the later batches make up for it."""
    X = correlated()
    part = Whitener(method, eps=0.0)
    for batch in (X[:3], X[3:]):
        part.partial_fit(batch)
    np.testing.assert_allclose(part.whitening_, Whitener(method, eps=0.0).fit(X).whitening_)


def test_a_failed_partial_fit_changes_nothing():
    X = correlated()
    whitener = Whitener().fit(X)
    before = np.array(whitener.whitening_)
    with pytest.raises(ValueError, match="NaN"):
        whitener.partial_fit(np.full((3, 5), np.nan))
    with pytest.raises(ValueError, match="X has 4 features, but Whitener is expecting 5"):
        whitener.partial_fit(X[:, :4])
    np.testing.assert_array_equal(whitener.whitening_, before)
    assert whitener.n_samples_seen_ == 500


# --- Where the rows live ---------------------------------------------------------------------------


def assert_same(whitener, X, expected, host):
    for name in ("whitening_", "dewhitening_", "eigenvalues_", "mean_", "covariance_"):
        np.testing.assert_allclose(
            to_host(getattr(whitener, name)), getattr(expected, name), atol=1e-9, err_msg=name
        )
    Y = whitener.transform(X)
    np.testing.assert_allclose(to_host(Y), expected.transform(host), atol=1e-9)
    np.testing.assert_allclose(to_host(whitener.inverse_transform(Y)), host, atol=1e-9)


def test_array_libraries(method, put):
    host = correlated()
    X = put(host)
    expected = Whitener(method, eps="1%").fit(host)
    whitener = Whitener(method, eps="1%").fit(X)
    assert_same(whitener, X, expected, host)
    for result in (whitener.whitening_, whitener.mean_, whitener.transform(X)):
        assert type(result) is type(X)
        assert device_of(result) == device_of(X)
    part = Whitener(method, eps="1%").partial_fit(X[:100, :]).partial_fit(X[100:, :])
    assert_same(part, X, expected, host)


def test_dask(method):
    da = pytest.importorskip("dask.array")
    host = correlated()
    X = da.from_array(host, chunks=(70, 2))
    whitener = Whitener(method).fit(X)
    assert_same(whitener, X, Whitener(method).fit(host), host)
    assert isinstance(whitener.transform(X), da.Array)
    assert isinstance(whitener.whitening_, np.ndarray)


@pytest.mark.parametrize(
    "layout",
    [
        lambda X: [X[:7], X[7:7], X[7:]],
        np.asfortranarray,
        lambda X: np.repeat(X, 2, axis=0)[::2],
        np.ndarray.tolist,
    ],
    ids=["blocks", "fortran order", "every other row", "nested lists"],
)
def test_layouts(method, layout):
    host = correlated()
    whitener = Whitener(method).fit(layout(host))
    assert_same(whitener, layout(host), Whitener(method).fit(host), host)


def test_memory_map(tmp_path):
    host = correlated()
    np.save(tmp_path / "X.npy", host)
    X = np.load(tmp_path / "X.npy", mmap_mode="r")
    assert_same(Whitener().fit(X), X, Whitener().fit(host), host)


@pytest.mark.parametrize("threads", [1, 3])
def test_blocks_and_threads(method, threads):
    host = correlated(5000)
    expected = Whitener(method).fit(host)
    with clusterica.config_context(memory="64KiB", threads=threads):
        assert_same(Whitener(method).fit(host), host, expected, host)


def test_streamed_through_a_device(method):
    pytest.importorskip("torch")
    host = correlated()
    expected = Whitener(method).fit(host)
    with clusterica.config_context(device="cpu", memory="64KiB"):
        whitener = Whitener(method).fit(host)
        assert isinstance(whitener.whitening_, np.ndarray)
        assert_same(whitener, host, expected, host)


@pytest.mark.parametrize("use", ["transform", "inverse_transform", "partial_fit"])
def test_another_device_than_the_model(use):
    xp = pytest.importorskip("array_api_strict")
    X = correlated()
    whitener = Whitener().fit(xp.asarray(X, device=xp.Device("device1")))
    with pytest.raises(ValueError, match=r"Whitener was fitted on device .*device1"):
        getattr(whitener, use)(xp.asarray(X))


# --- The interface ---------------------------------------------------------------------------------


def test_rows_are_whitened_one_by_one(method):
    """What check_methods_subset_invariance and check_methods_sample_order_invariance ask."""
    X = correlated()
    whitener = Whitener(method).fit(X)
    Y = whitener.transform(X)
    order = np.random.default_rng(0).permutation(500)
    np.testing.assert_allclose(whitener.transform(X[order]), Y[order], atol=1e-12)
    one_by_one = np.concatenate([whitener.transform(X[i : i + 1]) for i in range(10)])
    np.testing.assert_allclose(one_by_one, Y[:10], atol=1e-12)


def test_parameters_stay(method):
    """What check_dont_overwrite_parameters and check_fit2d_predict1d ask."""
    whitener = Whitener(method, eps="1%").fit(correlated())
    assert whitener.get_params() == {"method": method, "eps": "1%", "n_components": None}
    assert clone(whitener).get_params() == whitener.get_params()
    with pytest.raises(ValueError, match="Reshape your data"):
        whitener.transform(np.ones(5))


def test_one_feature(method):
    Y = Whitener(method, eps=0.0).fit_transform(np.array([[1.0], [3.0], [5.0]]))
    np.testing.assert_allclose(np.abs(Y).ravel(), [1, 0, 1])


def test_feature_names_pickle_and_frames(method):
    whitener = Whitener(method).fit(correlated())
    assert whitener.get_feature_names_out().tolist() == [f"whitener{i}" for i in range(5)]
    again = pickle.loads(pickle.dumps(whitener)).partial_fit(correlated())
    assert again.n_samples_seen_ == 1000


def test_data_frames():
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame(correlated(), columns=list("abcde"), index=range(7, 507))
    whitener = Whitener("pca", n_components=2).set_output(transform="pandas").fit(X)
    Y = whitener.transform(X)
    assert Y.columns.tolist() == ["whitener0", "whitener1"]
    assert Y.index.tolist() == list(range(7, 507))
    # What transform gave can be passed back as it is.
    back = whitener.inverse_transform(Y)
    np.testing.assert_allclose(np.asarray(back).mean(axis=0), X.mean())


def test_not_fitted():
    for use in (Whitener().transform, Whitener().inverse_transform):
        with pytest.raises(NotFittedError, match="Whitener instance is not fitted"):
            use(np.ones((2, 2)))


# --- Faults ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("eps", ["1", "one%", "-1%", "", "%", "nan%", "inf%", "1%%"])
def test_bad_percentages(eps):
    with pytest.raises(ValueError, match=r"must be a number, or a percentage such as '1%'"):
        Whitener(eps=eps).fit(correlated())


@pytest.mark.parametrize(
    "bad",
    [{"eps": -0.1}, {"eps": np.nan}, {"eps": None}, {"method": "ica"}, {"n_components": 0}],
    ids=str,
)
def test_bad_settings(bad):
    with pytest.raises(ValueError, match=f"The '{next(iter(bad))}' parameter of Whitener must be"):
        Whitener(**bad).fit(correlated())


@pytest.mark.parametrize("use", ["fit", "partial_fit"])
def test_bad_n_components(use):
    with pytest.raises(ValueError, match="n_components=6 must be at most n_features=5"):
        getattr(Whitener(n_components=6), use)(correlated())


def test_first_components_of_cholesky_whiten_the_first_features():
    X = correlated()
    whitener = Whitener("cholesky", eps=0.0, n_components=2).fit(X)
    Y = whitener.transform(X)
    expected = Whitener("cholesky", eps=0.0).fit_transform(X[:, :2])
    np.testing.assert_allclose(Y, expected, atol=1e-10)
    centred = X - X.mean(axis=0)
    predicted = Y @ np.linalg.lstsq(Y, centred, rcond=None)[0] + X.mean(axis=0)
    np.testing.assert_allclose(whitener.inverse_transform(Y), predicted, atol=1e-10)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.ones((1, 3)), "minimum of 2 is required"),
        (np.ones((0, 3)), "0 sample"),
        (np.ones(3), "Expected 2D array"),
        ([[1.0, np.nan], [1.0, 2.0]], "NaN"),
        ([[1.0, np.inf], [1.0, 2.0]], "infinity"),
    ],
)
@pytest.mark.parametrize("use", ["fit", "partial_fit"])
def test_bad_data(use, X, message):
    with pytest.raises(ValueError, match=message):
        getattr(Whitener(), use)(X)


def test_sparse_data_is_refused():
    with pytest.raises(TypeError, match="Sparse data was passed"):
        Whitener().fit(sparse.csr_array(np.eye(4)))


def test_iterable_for_one_walk():
    with pytest.raises(TypeError, match="can be read only once"):
        Whitener().fit(iter([correlated()]))


def test_memory_budget():
    X = np.zeros((3, 200))
    with (
        clusterica.config_context(memory="1MiB"),
        pytest.raises(
            ValueError, match=r"whitening 200 features .*split the features.*config_context"
        ),
    ):
        Whitener().fit(X)


def test_a_budget_that_nobody_set_is_a_quarter_of_the_memory(monkeypatch):
    monkeypatch.setattr("clusterica.arrays._place.host_memory", lambda: 2**30)
    X = np.zeros((2, 4200), np.float32)
    with pytest.raises(ValueError, match="538 MiB, over the 512 MiB that it may take; split"):
        Whitener().fit(X)
    monkeypatch.setattr("clusterica.arrays._place.host_memory", lambda: 4 * 2**30)
    Whitener()._check_settings(as_rows(X))


def test_wrong_number_of_columns():
    whitener = Whitener("pca", n_components=2).fit(correlated())
    with pytest.raises(ValueError, match="X has 4 features, but Whitener is expecting 5 features"):
        whitener.transform(np.ones((3, 4)))
    with pytest.raises(ValueError, match="X has 5 features, but Whitener is expecting 2 features"):
        whitener.inverse_transform(np.ones((3, 5)))
    with pytest.raises(ValueError, match="NaN"):
        whitener.inverse_transform(np.full((3, 2), np.nan))


def test_a_failed_fit_leaves_the_model_usable():
    X = correlated()
    whitener = Whitener().fit(X)
    Y = whitener.transform(X)
    with pytest.raises(ValueError, match="NaN"):
        whitener.fit(np.full((3, 2), np.nan))
    np.testing.assert_array_equal(whitener.transform(X), Y)


def test_small_directions_of_float32_rows_are_kept(rng):
    """Condition 10,000: the smallest eigenvalue is 1e-8 of the largest, below the digits of float32."""
    Q, _ = np.linalg.qr(rng.standard_normal((10, 10)))
    X = rng.standard_normal((5000, 10)) @ np.diag(np.geomspace(1, 1e-4, 10)) @ Q.T
    whitener = Whitener("pca", eps=0.0).fit(X.astype(np.float32))
    assert whitener.rank_ == 10
    Z = whitener.transform(X.astype(np.float32)).astype(np.float64)
    np.testing.assert_allclose(np.cov(Z.T), np.eye(10), atol=5e-3)
