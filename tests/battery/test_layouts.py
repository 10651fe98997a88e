"""Layouts and dtypes of arrays, weights, as many clusters as rows: right results, or errors that say why."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone


def rows(n=40, d=6):
    rng = np.random.default_rng()
    return rng.integers(-8, 9, size=(n, d)) + 20 * (np.arange(n)[:, None] % 3)


def strided(X):
    wide = np.full([2 * n for n in X.shape], 7, X.dtype)
    every_second = (slice(None, None, 2),) * X.ndim
    wide[every_second] = X
    return wide[every_second]


def backwards(X):
    turn = (slice(None, None, -1),) * X.ndim
    return X[turn].copy()[turn]


def read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


LAYOUTS = {
    "Fortran order": np.asfortranarray,
    "every second entry": strided,
    "negative strides": backwards,
    "read-only": read_only,
    "other byte order": lambda X: X.astype(X.dtype.newbyteorder()),
    "not masked": np.ma.masked_array,
}
# Every value is exact in the dtype that the work is done in.
DTYPES = {
    np.float16: np.float32,
    np.int8: np.float32,
    np.uint8: np.float32,
    np.int32: np.float64,
    np.int64: np.float64,
}


def assert_same(found, expected, what=""):
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert_array_equal(found[name], values, err_msg=f"{what} {name}")


def test_layouts_do_not_matter(battery):
    X = battery.shaped(rows().astype(np.float64))
    expected = battery.results(battery.fit(X), X)
    for layout, change in LAYOUTS.items():
        Y = change(X)
        assert_same(battery.results(battery.fit(Y), Y), expected, layout)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.__name__)
def test_dtypes_do_not_matter(battery, dtype):
    """Rows of small integers are worked on in float32, and others in float64, with the same result."""
    X = battery.shaped(np.abs(rows()).astype(dtype))
    Y = X.astype(DTYPES[dtype])
    assert_same(battery.results(battery.fit(X), X), battery.results(battery.fit(Y), Y))


def test_masked_entries_are_refused(battery):
    X = battery.shaped(rows().astype(np.float64))
    masked = np.ma.masked_array(X, mask=np.arange(X.size).reshape(X.shape) % 7 == 0)
    with pytest.raises(ValueError, match="masked"):
        battery.fit(masked)
    fitted = battery.fit(X)
    for method in ("transform", "predict"):
        if hasattr(fitted, method):
            with pytest.raises(ValueError, match="masked"):
                getattr(fitted, method)(masked)


def half_masked(values):
    return np.ma.masked_array(values, mask=np.arange(values.size).reshape(values.shape) % 2 == 0)


def test_masked_labels_are_refused(battery):
    X, y = battery.shaped(rows().astype(np.float64)), half_masked(np.arange(40) % 2)
    model = battery.fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        # Learners without labels ignore y.
        if hasattr(model, "classes_"):
            with pytest.raises(ValueError, match="y is a masked array with 20 masked entries"):
                battery.make(6).fit(X, y)
        if hasattr(model, "classes_") and hasattr(model, "score"):
            with pytest.raises(ValueError, match="y is a masked array"):
                model.score(X, y)


def test_masked_weights_are_refused(weighted):
    X, weights = weighted.shaped(rows().astype(np.float64)), half_masked(np.ones(40))
    with pytest.raises(ValueError, match="sample_weight is a masked array with 20 masked"):
        weighted.fit(X, sample_weight=weights)
    model = weighted.fit(X)
    if hasattr(model, "score"):
        with pytest.raises(ValueError, match="sample_weight is a masked array"):
            model.score(X, np.arange(40) % 2, sample_weight=weights)


@pytest.mark.parametrize("name", ["init", "dictionary"])
def test_masked_parameters_are_refused(battery, name):
    size = {"KSVD": 4, "DiscriminativeKSVD": 4, "LabelConsistentKSVD": 4, "RICA": 4}
    size |= {"SparseCoding": 4, "VonMisesFisherMixture": 2, "CosineKMeans": 6}
    model = battery.make(6)
    if name not in model.get_params():
        pytest.skip("has no such parameter")
    given = half_masked(np.random.default_rng().standard_normal((size.get(battery.name, 3), 6)))
    make = battery.make
    battery.make = lambda d: clone(make(d)).set_params(**{name: given})
    with pytest.raises(ValueError, match=f"{name} is a masked array"):
        battery.fit(battery.shaped(rows().astype(np.float64)))


WEIGHTS = {
    "some zero": lambda n: np.arange(n) % 4.0,
    "1e20": lambda n: np.full(n, 1e20),
    "zero and 1e20": lambda n: np.where(np.arange(n) % 4, 1e20, 0.0),
    "1 and 1e20": lambda n: np.where(np.arange(n) % 4, 1.0, 1e20),
    "1e-20": lambda n: np.full(n, 1e-20),
    "one row counts": lambda n: (np.arange(n) == 5) * 1.0,
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("name", WEIGHTS)
def test_weights(weighted, checked, name, dtype):
    X = weighted.shaped(rows().astype(dtype))
    found = checked(weighted, X, sample_weight=WEIGHTS[name](len(X)))
    # One row makes one cluster and one class; all other weights leave enough.
    assert found is not None or name == "one row counts"


SIZES = (
    "n_clusters",
    "n_components",
    "n_axes",
    "n_components_per_class",
    "n_filters",
    "n_neighbors",
)


@pytest.mark.parametrize("n", [3, 8])
def test_as_many_as_rows(battery, checked, n):
    """As many clusters, components or atoms as rows."""
    size = next((s for s in SIZES if s in battery.make(6).get_params()), None)
    if size is None or (size == "n_neighbors" and n > 5):
        pytest.skip("has no size, or no larger one")
    make = battery.make
    X = battery.shaped(np.random.default_rng().laplace(size=(n, 6)))
    found = checked(battery, X, make=lambda d: clone(make(d)).set_params(**{size: n}))
    if battery.name == "KMeans" and found is not None:
        # Centres are rows up to the rounding of taking a shift from them and adding it again.
        assert found[".inertia_"] <= 100 * np.finfo(X.dtype).eps ** 2 * np.sum(X * X)
        assert len(set(found["predict"].tolist())) == n


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("n", [1, 3])
def test_skewed_sizes(battery, checked, n, dtype):
    """Hundreds of rows in one place, and a few far away."""
    rng = np.random.default_rng()
    X = np.concatenate([rng.normal(size=(300, 6)), rng.normal(size=(n, 6)) + 50])
    X = battery.shaped(X.astype(dtype))
    found = checked(battery, X)
    assert found is not None
    if battery.name == "KMeans":
        assert len(set(found["predict"][-n:].tolist()) & set(found["predict"][:-n].tolist())) == 0
