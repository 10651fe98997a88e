"""Contrast normalisation: its formula, its constant for data of any range, its one warning."""

import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

from clusterica.arrays import device_of, to_host
from clusterica.preprocessing import ContrastNormalizer


def patches(low=0, high=256, n=200, dtype=np.uint8):
    return np.random.default_rng(0).integers(low, high, size=(n, 16)).astype(dtype)


def by_hand(X, eps):
    X = np.asarray(X, np.float64)
    return np.stack([(x - x.mean()) / np.sqrt(x.var() + eps) for x in X])


@pytest.mark.parametrize("eps", [0.0, 1, 10.0, 1e4])
@pytest.mark.parametrize(
    ("dtype", "out", "rtol"),
    [(np.float64, np.float64, 1e-12), (np.float32, np.float32, 1e-5), (np.uint8, np.float32, 1e-5)],
)
@pytest.mark.filterwarnings("ignore:rows have a typical spread")
def test_formula(eps, dtype, out, rtol):
    X = patches(dtype=dtype)
    Y = ContrastNormalizer(eps).fit_transform(X)
    np.testing.assert_allclose(Y, by_hand(X, eps), rtol=rtol, atol=rtol)
    assert Y.dtype == out


def test_known_values():
    """var = 4, so that sqrt(4 + 12) = 4."""
    Y = ContrastNormalizer(12.0).fit_transform([[1.0, 5.0], [-2.0, 2.0]])
    np.testing.assert_array_equal(Y, [[-0.5, 0.5], [-0.5, 0.5]])


@pytest.mark.parametrize("eps", [0.0, 10.0])
@pytest.mark.parametrize("value", [0, 7, 255, 1e6])
def test_flat_rows_become_zero(eps, value):
    X = np.full((3, 8), value, np.float64)
    Y = ContrastNormalizer(eps).fit_transform(X)
    np.testing.assert_allclose(Y, 0, atol=1e-6)


def test_flat_float32_rows_stay_flat():
    """The mean of equal float32 values may be off in the last digit; that is no contrast."""
    X = np.full((5, 100), 0.1, np.float32)
    Y = ContrastNormalizer(eps=0.0).fit_transform(X)
    np.testing.assert_array_equal(Y, 0)


def test_one_feature():
    assert not ContrastNormalizer(0.0).fit_transform([[3.0], [4.0]]).any()


@given(
    st.integers(0, 10**6),
    st.floats(-1e3, 1e3),
    st.floats(0.1, 10),
)
def test_brightness_and_contrast_are_removed(seed, brightness, contrast):
    X = np.random.default_rng(seed).normal(size=(4, 9))
    normalizer = ContrastNormalizer(eps=0.0).fit(X)
    np.testing.assert_allclose(
        normalizer.transform(brightness + contrast * X), normalizer.transform(X), atol=1e-9
    )


# --- eps="auto" ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("X", "eps"),
    [
        (patches(), 10.0),
        (patches(0, 2), 10 / 255**2),  # no value above 1
        (patches() / 255, 10 / 255**2),
        ((patches() / 255).astype(np.float32), 10 / 255**2),
        (patches(0, 65536, dtype=np.uint16), 10 * (65535 / 255) ** 2),
        (patches(0, 1000, dtype=np.int32), 10 * (65535 / 255) ** 2),
        (1e6 * patches() / 255, 10 * (1e6 / 255) ** 2),
        (patches() / 255 - 0.5, 10 / 255**2),
        (patches() * 2.0 - 255, 10 * 2.0**2),
        (np.zeros((3, 4)), 10 / 255**2),
        (np.full((3, 4), -2.0), 0.0),
    ],
    ids=[
        "uint8",
        "dark",
        "unit",
        "unit float32",
        "uint16",
        "12 bits",
        "large",
        "centred",
        "centred pixels",
        "zeros",
        "one negative value",
    ],
)
def test_auto(X, eps):
    assert ContrastNormalizer("auto").fit(X).eps_ == pytest.approx(eps, rel=0.02)


@pytest.mark.parametrize("scale", [1 / 255, 257.0])
def test_auto_gives_the_same_rows_at_any_scale(scale):
    """Pixels as bytes, as numbers in [0, 1] and as 16 bits."""
    X = patches()
    X[0, 0] = 255
    Y = ContrastNormalizer("auto").fit_transform(X * scale)
    np.testing.assert_allclose(Y, ContrastNormalizer(10.0).fit_transform(X), atol=1e-6)


def test_auto_is_learned_from_the_rows_of_fit():
    normalizer = ContrastNormalizer("auto").fit(patches())
    np.testing.assert_allclose(
        normalizer.transform(patches() / 255), by_hand(patches() / 255, 10.0), atol=1e-6
    )


# --- The warning -----------------------------------------------------------------------------------


def test_warns_of_an_eps_for_other_data():
    with pytest.warns(UserWarning, match=r"eps=10 is large.*use eps='auto'") as record:
        ContrastNormalizer().fit(patches() / 255)
    assert len(record) == 1
    assert record[0].filename == __file__


def test_warns_in_fit_transform_once():
    with pytest.warns(UserWarning, match="typical spread") as record:
        ContrastNormalizer().fit_transform(patches() / 255)
    assert len(record) == 1


@pytest.mark.parametrize(
    ("eps", "X"),
    [
        (10.0, patches()),
        ("auto", patches() / 255),
        (10 / 255**2, patches() / 255),
        (0.0, 1e-9 * patches()),
        (10.0, np.zeros((5, 4))),
        (10.0, patches(100, 120)),  # low contrast, but pixels
        ("10%", np.concatenate([patches(127, 129), patches()[:10]])),  # most of them are flat
    ],
)
def test_does_not_warn(eps, X):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        normalizer = ContrastNormalizer(eps).fit(X)
        normalizer.transform(X / 1000)


def test_the_advice_is_not_what_was_done():
    """Rows of little contrast within their range: "auto" can't be the remedy for "auto"."""
    X = 100 + np.random.default_rng(0).normal(size=(100, 16)) / 10
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        ContrastNormalizer("auto").fit(X)
    assert not any("use eps='auto'" in str(w.message) for w in record)


# --- Where the rows live, and faults ---------------------------------------------------------------


@pytest.mark.parametrize("eps", [10.0, "auto"])
def test_array_libraries(put, eps):
    X = patches(dtype=np.float32)
    normalizer = ContrastNormalizer(eps).fit(put(X))
    Y = normalizer.transform(put(X))
    assert type(Y) is type(put(X))
    assert device_of(Y) == device_of(put(X))
    expected = ContrastNormalizer(eps).fit(X)
    assert normalizer.eps_ == expected.eps_
    np.testing.assert_allclose(to_host(Y), expected.transform(X), atol=1e-6)


def test_dask():
    da = pytest.importorskip("dask.array")
    X = patches()
    Y = ContrastNormalizer("auto").fit_transform(da.from_array(X, chunks=(30, 5)))
    assert isinstance(Y, da.Array)
    np.testing.assert_allclose(Y, ContrastNormalizer("auto").fit_transform(X), atol=1e-6)


def test_blocks():
    X = patches()
    Y = ContrastNormalizer("auto").fit_transform([X[:30], X[30:]])
    np.testing.assert_array_equal(Y, ContrastNormalizer("auto").fit_transform(X))


def test_data_frames():
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame(patches(), columns=[f"p{i}" for i in range(16)])
    Y = ContrastNormalizer().set_output(transform="pandas").fit_transform(X)
    assert Y.columns.tolist() == X.columns.tolist()


def test_feature_names_and_pickle():
    normalizer = ContrastNormalizer("auto").fit(patches())
    assert normalizer.get_feature_names_out().tolist() == [f"x{i}" for i in range(16)]
    assert pickle.loads(pickle.dumps(normalizer)).eps_ == normalizer.eps_


@pytest.mark.parametrize("eps", [-1, "automatic", None, np.nan])
def test_bad_eps(eps):
    with pytest.raises(ValueError, match=r"eps.*must be"):
        ContrastNormalizer(eps).fit(patches())


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([[1.0, np.nan]], "NaN"),
        ([[1.0, np.inf]], "infinity"),
        ([1.0, 2.0], "Expected 2D array"),
        (np.zeros((0, 3)), "0 sample"),
    ],
)
def test_bad_data(X, message):
    with pytest.raises(ValueError, match=message):
        ContrastNormalizer().fit(X)


def test_not_fitted_and_wrong_columns():
    with pytest.raises(NotFittedError):
        ContrastNormalizer().transform(patches())
    with pytest.raises(
        ValueError, match="X has 3 features, but ContrastNormalizer is expecting 16"
    ):
        ContrastNormalizer().fit(patches()).transform(patches()[:, :3])


def test_a_percentage_is_a_share_of_the_mean_variance(rng):
    X = rng.normal(size=(50, 8)) * rng.uniform(1, 30, size=(50, 1))
    model = ContrastNormalizer("2%").fit(X)
    assert model.eps_ == pytest.approx(0.02 * X.var(axis=1).mean())
    with pytest.raises(ValueError, match="must be a number, or a percentage"):
        ContrastNormalizer("much").fit(X)
