"""check_labels: one label for every row, none missing, whatever holds them."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.exceptions import DataConversionWarning

from clusterica.arrays import check_labels


class Learner(BaseEstimator):
    pass


@pytest.mark.parametrize(
    "y",
    [
        [3, 1, 3],
        (3, 1, 3),
        np.array([3.0, 1.0, 3.0]),
        np.array([3, 1, 3], dtype=">i4"),
        ["dog", "cat", "dog"],
        np.array(["dog", "cat", "dog"], dtype=object),
        [True, False, True],
    ],
    ids=repr,
)
def test_classes_and_codes(y):
    labels = check_labels(Learner(), y, 3)
    np.testing.assert_array_equal(labels.codes, [1, 0, 1])
    np.testing.assert_array_equal(labels.classes[labels.codes], np.asarray(y))
    assert labels.classes.dtype.isnative


def test_tensors(put):
    labels = check_labels(Learner(), put(np.array([5, 5, 2])), 3)
    np.testing.assert_array_equal(labels.classes, [2, 5])
    assert isinstance(labels.codes, np.ndarray)


def test_pandas():
    pd = pytest.importorskip("pandas")
    labels = check_labels(Learner(), pd.Series(["b", "a", "b"], index=[7, 8, 9]), 3)
    assert labels.classes.tolist() == ["a", "b"]
    missing = pd.Series(["b", None, pd.NA], dtype=object)
    with pytest.raises(ValueError, match="Input y contains 2 missing labels; drop the rows"):
        check_labels(Learner(), missing, 3)


def test_a_column_is_taken_with_a_warning():
    with pytest.warns(DataConversionWarning, match="column-vector y was passed"):
        labels = check_labels(Learner(), np.array([[1], [0]]), 2)
    np.testing.assert_array_equal(labels.codes, [1, 0])


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "Learner requires y to be passed, but the target y is None"),
        ([1, 2, 3, 4], "X has 3 rows and y has 4 labels; give one label for every row"),
        ([0.0, np.nan, 1.0], "Input y contains NaN"),
        ([0.0, np.inf, 1.0], "Input y contains infinity"),
        (np.array(["a", None, np.nan], dtype=object), "Input y contains 2 missing labels"),
        ([0.5, 0.25, 0.1], "Unknown label type: continuous"),
        (np.zeros((3, 2)), "y should be a 1d array, got an array of shape"),
    ],
    ids=repr,
)
def test_what_is_refused(y, message):
    with pytest.raises(ValueError, match=message):
        check_labels(Learner(), y, 3)


def test_two_classes():
    assert check_labels(Learner(), [3, 3], 2).classes.tolist() == [3]
    with pytest.raises(
        ValueError, match="Learner needs at least two classes in y, and y has only 3"
    ):
        check_labels(Learner(), [3, 3], 2, min_classes=2)


def test_rows_of_every_class():
    labels = check_labels(Learner(), ["b", "a", "b", "b"], 4)
    labels.check_class_sizes(1, "atoms")
    with pytest.raises(
        ValueError, match="class a has 1 rows, fewer than its 2 atoms; give more rows"
    ):
        labels.check_class_sizes(2, "atoms")
