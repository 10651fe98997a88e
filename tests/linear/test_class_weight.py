"""class_weight multiplies the weights of rows, as in scikit-learn."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import RidgeClassifier as ScikitLearnRidge
from sklearn.svm import LinearSVC as ScikitLearnSVC
from sklearn.utils.class_weight import compute_class_weight

import clusterica
from clusterica.linear import LinearSVC, RidgeClassifier
from clusterica.linear._lbfgs import LBFGSSolver

CLASSIFIERS = [LinearSVC(0.02, tol=1e-12), RidgeClassifier(2.0, tol=1e-12)]
WEIGHTS = ["balanced", {"b": 0.5, "a": 4.0, "c": 1.0}, {"a": 2.5}]


@pytest.fixture
def words():
    """Three classes of 120, 50 and 20 rows."""
    rng = np.random.default_rng(0)
    y = np.repeat(["c", "a", "b"], [120, 50, 20])
    return rng.normal(size=(190, 6)) + (y == "a")[:, None] * np.r_[1, np.zeros(5)], y


def by_hand(class_weight, y, sample_weight=None):
    counts = np.ones(len(y)) if sample_weight is None else sample_weight
    if class_weight == "balanced":
        classes = np.unique(y)
        size = {c: counts.sum() / (len(classes) * counts[y == c].sum()) for c in classes}
    else:
        size = class_weight
    return counts * np.array([size.get(label, 1.0) for label in y.tolist()])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("class_weight", WEIGHTS, ids=str)
@pytest.mark.parametrize("classifier", CLASSIFIERS, ids=str)
def test_same_as_weights_of_rows(words, rng, classifier, class_weight, weighted):
    X, y = words
    weights = rng.integers(0, 4, len(y)).astype(float) if weighted else None
    found = clone(classifier).set_params(class_weight=class_weight).fit(X, y, sample_weight=weights)
    expected = clone(classifier).fit(X, y, sample_weight=by_hand(class_weight, y, weights))
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.intercept_, expected.intercept_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.objective_, expected.objective_, rtol=1e-9)
    plain = clone(classifier).fit(X, y, sample_weight=weights)
    assert not np.allclose(found.coef_, plain.coef_, rtol=1e-3)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("class_weight", ["balanced", {0: 0.3, 1: 5.0}])
def test_ridge_as_in_scikit_learn(tall, class_weight, n_classes):
    X, y = tall.X, np.minimum(tall.y, n_classes - 1)
    ours = RidgeClassifier(2.0, standardize=False, class_weight=class_weight, tol=1e-13).fit(X, y)
    theirs = ScikitLearnRidge(2.0, class_weight=class_weight).fit(X, y)
    np.testing.assert_allclose(ours.coef_, np.atleast_2d(theirs.coef_), atol=1e-5)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-4)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("class_weight", ["balanced", {0: 0.3, 1: 5.0}])
def test_machine_as_in_scikit_learn(wide, class_weight, n_classes, weighted):
    X, y = wide.X, np.minimum(wide.y, n_classes - 1)
    weights = np.random.default_rng(1).uniform(0.5, 2, len(y)) if weighted else None
    product = by_hand(class_weight, y, weights)
    setting = {"fit_intercept": False, "class_weight": class_weight}
    ours = LinearSVC(0.05, standardize=False, tol=1e-12, **setting)
    theirs = ScikitLearnSVC(C=0.05, dual=False, tol=1e-11, max_iter=100_000, **setting)
    ours.fit(X, y, sample_weight=weights)
    if n_classes == 2:
        theirs.fit(X, y, sample_weight=weights)
    else:  # liblinear weighs the rows of the one class only, and not those of the rest
        theirs.set_params(class_weight=None).fit(X, y, sample_weight=product)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)


def test_equal_weights_of_classes_multiply_the_strength(words):
    X, y = words
    plain = LinearSVC(0.14, tol=1e-12).fit(X, y)
    scaled = LinearSVC(0.02, tol=1e-12, class_weight=dict.fromkeys("abc", 7.0)).fit(X, y)
    np.testing.assert_allclose(scaled.coef_, plain.coef_, rtol=1e-9)


@pytest.mark.parametrize("primal", [False, True])
@pytest.mark.parametrize("classifier", [LinearSVC, RidgeClassifier])
def test_strength_is_chosen_with_the_weights(words, monkeypatch, classifier, primal):
    if primal:
        where = "clusterica.linear._base._solver_kind"
        monkeypatch.setattr(where, lambda rows, *, search: LBFGSSolver)
    X, y = words
    found = classifier(class_weight="balanced", random_state=0).fit(X, y)
    expected = classifier(random_state=0).fit(X, y, sample_weight=by_hand("balanced", y))
    np.testing.assert_allclose(found.validation_scores_, expected.validation_scores_, atol=1e-9)
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-3, atol=1e-4)


def test_balanced_finds_the_rare_class():
    rng = np.random.default_rng(2)
    y = (np.arange(1000) < 40).astype(int)
    X = rng.normal(size=(1000, 2)) + 1.5 * y[:, None]
    for classifier in (LinearSVC, RidgeClassifier):
        recall = [
            (classifier(1.0, class_weight=weight).fit(X, y).predict(X)[y == 1] == 1).mean()
            for weight in (None, "balanced")
        ]
        assert recall[0] < 0.5 < recall[1]


@pytest.mark.parametrize("class_weight", [None, *WEIGHTS], ids=str)
def test_saved_and_cloned(tmp_path, words, class_weight):
    X, y = words
    classifier = LinearSVC(3.0, class_weight=class_weight).fit(X, y)
    assert clone(classifier).class_weight == class_weight
    clusterica.save(classifier, tmp_path / "classifier.safetensors")
    again = clusterica.load(tmp_path / "classifier.safetensors")
    assert again.class_weight == class_weight
    np.testing.assert_array_equal(again.predict(X), classifier.predict(X))


def test_keys_that_are_numbers_are_saved(tmp_path, words):
    X, y = words[0], np.unique(words[1], return_inverse=True)[1]
    classifier = LinearSVC(3.0, class_weight={0: 2.0, 1: 1.0}).fit(X, y)
    clusterica.save(classifier, tmp_path / "classifier.safetensors")
    again = clusterica.load(tmp_path / "classifier.safetensors")
    np.testing.assert_array_equal(again.fit(X, y).coef_, classifier.coef_)


def test_weights_of_some_classes(words):
    """scikit-learn's rules: classes without a weight count once, other labels must not take their places."""
    X, y = words
    with pytest.raises(ValueError, match=r"The classes, \['b', 'c'\], are not in class_weight"):
        LinearSVC(1.0, class_weight={"a": 1.0, "z": 2.0}).fit(X, y)
    with pytest.raises(ValueError) as theirs:
        compute_class_weight({"a": 1.0, "z": 2.0}, classes=np.unique(y), y=y)
    assert "The classes, ['b', 'c'], are not in class_weight" in str(theirs.value)
    more = dict.fromkeys("abcz", 2.0)
    LinearSVC(1.0, class_weight=more).fit(X, y)


@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf])
@pytest.mark.parametrize("classifier", [LinearSVC, RidgeClassifier])
def test_weights_that_are_none(words, classifier, value):
    with pytest.raises(ValueError, match=r"class_weight of class 'b' is .*not negative"):
        classifier(1.0, class_weight={"a": 1.0, "b": value}).fit(*words)


def test_class_weight_of_another_kind(words):
    with pytest.raises(ValueError, match="'class_weight' parameter of LinearSVC must be"):
        LinearSVC(1.0, class_weight="equal").fit(*words)


def test_classes_of_weight_zero(words):
    X, y = words
    found = RidgeClassifier(1.0, class_weight={"b": 0.0}).fit(X, y)
    two = RidgeClassifier(1.0).fit(X[y != "b"], y[y != "b"])
    np.testing.assert_allclose(found.coef_[2] - found.coef_[0], 2 * two.coef_[0], atol=1e-6)
    with pytest.raises(
        ValueError, match="at least two classes in y, and rows with a positive weight"
    ):
        RidgeClassifier(1.0, class_weight={"b": 0.0, "a": 0.0}).fit(X, y)


def test_balanced_leaves_out_classes_without_weight(words):
    X, y = words
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = LinearSVC(1.0, class_weight="balanced", tol=1e-12)
        found.fit(X, y, sample_weight=(y != "b").astype(float))
    two = LinearSVC(1.0, class_weight="balanced", tol=1e-12).fit(X[y != "b"], y[y != "b"])
    np.testing.assert_allclose(found.coef_[2], two.coef_[0], atol=1e-6)


@pytest.mark.parametrize("classifier", [LinearSVC, RidgeClassifier])
def test_a_dict_may_name_a_class_whose_rows_have_no_weight(words, classifier):
    X, y = words
    found, expected = (
        classifier(1.0, class_weight=named).fit(X, y, sample_weight=(y != "b").astype(float))
        for named in ({"a": 2.0, "b": 3.0}, {"a": 2.0})
    )
    np.testing.assert_array_equal(found.coef_, expected.coef_)


@pytest.mark.parametrize("classifier", CLASSIFIERS, ids=str)
def test_wherever_rows_live(put, words, classifier):
    X, y = words
    classifier = clone(classifier).set_params(class_weight="balanced")
    expected = clone(classifier).fit(X, y).predict(X)
    np.testing.assert_array_equal(classifier.fit(put(X), y).predict(put(X)), expected)
