"""Faulty data and settings: the right error with a remedy, or the documented result."""

import numpy as np
import pytest

from clusterica.arrays import to_host
from clusterica.linear import LinearSVC, RidgeClassifier

HEADS = [LinearSVC, RidgeClassifier]


@pytest.fixture(params=HEADS, ids=lambda head: head.__name__)
def head(request):
    return request.param


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_rows_that_are_not_finite(head, put, tall, value):
    X, y = np.array(tall.X), tall.y
    X[3, 2] = value
    with pytest.raises(ValueError, match="Input X contains"):
        head().fit(put(X), y)
    model = head(0.02).fit(put(tall.X), y)
    with pytest.raises(ValueError, match="Input X contains"):
        model.predict(put(X))


def test_labels_that_are_not_finite(head, tall):
    with pytest.raises(ValueError, match="Input y contains NaN"):
        head().fit(tall.X, np.where(tall.y == 0, np.nan, tall.y))


def test_as_many_labels_as_rows(head, put, tall):
    X, y = tall
    with pytest.raises(ValueError, match="X has 400 rows and y has 399 labels"):
        head().fit(put(X), y[:-1])
    with pytest.raises(ValueError, match="X has 400 rows and y has 399 labels"):
        head(0.02).fit(put(X), y).score(put(X), y[:-1])


def test_one_class_only(head, put, tall):
    with pytest.raises(ValueError, match=r"needs at least two classes in y.*of class 'cat'"):
        head().fit(put(tall.X), ["cat"] * 400)


def test_weights_that_leave_one_class(head, tall):
    with pytest.raises(
        ValueError, match="at least two classes in y, and rows with a positive weight"
    ):
        head().fit(tall.X, tall.y, sample_weight=(tall.y == 2).astype(float))


def test_no_labels(head, tall):
    with pytest.raises(ValueError, match="requires y to be passed, but the target y is None"):
        head().fit(tall.X, None)


def test_several_labels_a_row(head, tall):
    with pytest.raises(ValueError, match="y should be a 1d array, got an array of shape"):
        head().fit(tall.X, np.stack([tall.y, tall.y], axis=1))


def test_measured_targets(head, tall):
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        head().fit(tall.X, tall.X[:, 0])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"C": 0}, r"'C' parameter of LinearSVC must be a float in the range \(0.*'auto'"),
        ({"C": -1.0}, "'C' parameter of LinearSVC"),
        ({"C": "best"}, "'C' parameter of LinearSVC"),
        ({"tol": 0}, "'tol' parameter"),
        ({"max_iter": 0}, "'max_iter' parameter"),
        ({"validation": 1.0}, "'validation' parameter"),
    ],
)
def test_settings(tall, parameters, message):
    with pytest.raises(ValueError, match=message):
        LinearSVC(**parameters).fit(*tall)


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (
            np.ones(399, bool),
            r"array of bool of shape \(399,\); it must be .*which of the 400 rows",
        ),
        (np.arange(100), r"array of int64 of shape \(100,\); it must be a share of the rows"),
        (np.zeros(400, bool), "holds out 0 of 400 rows"),
        (np.ones(400, bool), "holds out 400 of 400 rows and leaves 0 classes"),
    ],
)
def test_rows_to_hold_out(head, tall, mask, message):
    with pytest.raises(ValueError, match=message):
        head(validation=mask).fit(*tall)


@pytest.mark.parametrize("alpha", [0, -1.0, "best"])
def test_penalties(tall, alpha):
    with pytest.raises(ValueError, match="'alpha' parameter of RidgeClassifier"):
        RidgeClassifier(alpha=alpha).fit(*tall)


@pytest.mark.parametrize("bad", [-1.0, np.nan])
def test_weights(head, tall, bad):
    weights = np.ones(400)
    weights[7] = bad
    with pytest.raises(ValueError, match=r"Negative values|contains NaN"):
        head().fit(*tall, sample_weight=weights)


def test_wrong_number_of_features(head, put, tall):
    model = head(0.02).fit(put(tall.X), tall.y)
    with pytest.raises(ValueError, match=r"X has 29 features, but .* is expecting 30 features"):
        model.predict(put(tall.X[:, 1:]))


@pytest.mark.parametrize("value", [0.0, 0.1, 1e6])
@pytest.mark.parametrize("shape", ["tall", "wide"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_constant_features_get_no_weight(request, head, shape, value, dtype):
    X, y = request.getfixturevalue(shape)
    padded = np.hstack([X, np.full((len(X), 2), value)]).astype(dtype)
    model = head(0.02).fit(padded, y)
    bare = head(0.02).fit(X.astype(dtype), y)
    np.testing.assert_array_equal(model.coef_[:, -2:], 0)
    np.testing.assert_allclose(model.coef_[:, :-2], bare.coef_, atol=2e-3)
    assert np.isfinite(model.decision_function(padded)).all()


@pytest.mark.parametrize("size", [1e-15, 1e-24, 1e-33])
@pytest.mark.parametrize("shape", ["tall", "wide"])
def test_features_whose_squares_vanish(request, head, shape, size):
    """Codes of basis vectors that are far from all rows; beside features of the usual size too."""
    X, y = request.getfixturevalue(shape)
    X = X.astype(np.float32)
    expected = head(0.02).fit(X, y).decision_function(X)
    for sizes in (np.full(X.shape[1], size), np.resize([size, 1.0], X.shape[1])):
        small = X * sizes.astype(np.float32)
        found = head(0.02).fit(small, y).decision_function(small)
        np.testing.assert_allclose(found, expected, atol=5e-3)


@pytest.mark.parametrize("size", [1e-36, 1e-38, 1e-42])
@pytest.mark.parametrize("shape", ["tall", "wide"])
def test_features_that_weights_can_not_be_divided_by(request, head, shape, size):
    """They count as constant, and the others as ever."""
    X, y = request.getfixturevalue(shape)
    X = X.astype(np.float32)
    dead = (size * np.random.default_rng().random((len(X), 2))).astype(np.float32)
    model = head(0.02).fit(np.hstack([X, dead]), y)
    np.testing.assert_array_equal(model.coef_[:, -2:], 0)
    np.testing.assert_allclose(model.coef_[:, :-2], head(0.02).fit(X, y).coef_, atol=2e-3)


def test_all_features_constant(head, put):
    """Nothing to go by but the shares of the classes."""
    X, y = put(np.ones((10, 3))), np.repeat([0, 1], [3, 7])
    model = head(0.02).fit(X, y)
    np.testing.assert_array_equal(to_host(model.coef_), 0)
    np.testing.assert_array_equal(to_host(model.predict(X)), 1)


def test_sparse_rows(head):
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        head().fit(sparse.csr_array(np.eye(4)), [0, 1, 0, 1])


def test_separable_rows_at_any_strength():
    """Margins beyond which nothing is lost: the smallest weights that reach them are the limit."""
    X, y = np.array([[-2.0], [-1.0], [1.0], [2.0]]), [0, 0, 1, 1]
    model = LinearSVC(C=1e6, standardize=False, tol=1e-12).fit(X, y)
    assert model.coef_[0, 0] == pytest.approx(1, abs=1e-4)
    assert model.intercept_[0] == pytest.approx(0, abs=1e-4)
