"""Networks and image classifiers on Dask arrays: those of a local fit; features are lazy Dask arrays."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits

from clusterica.arrays import to_host
from clusterica.images import ImageFeatures, sample_patches
from clusterica.linear import KernelRidgeClassifier, LinearSVC
from clusterica.networks import Committee, DependencyGroups, FeatureNetwork, ImageClassifier, Layer

da = pytest.importorskip("dask.array")


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits().images[:300], load_digits().target[:300]
    return X, da.from_array(X, chunks=(90, 8, 4)), y


def network():
    first = Layer(12, patch_size=3, pool_size=2, n_patches=2000)
    groups = DependencyGroups(size=12, n_groups=2)
    # Patches of some of the images only, so that images are drawn.
    second = Layer(8, patch_size=2, pool_size=1, fields=groups, n_patches=300)
    return FeatureNetwork([first, second], random_state=0)


def assert_same_features(model, X, D):
    expected, found = clone(model).fit(X), clone(model).fit(D)
    features = found.transform(D)
    assert isinstance(features, da.Array)
    np.testing.assert_allclose(features.compute(), expected.transform(X), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "settings", [{}, {"regions": (2, 2), "grid": (1, 1)}, {"learner": "patches"}]
)
def test_features_of_images(digits, settings):
    X, D, _ = digits
    model = ImageFeatures(8, patch_size=3, n_patches=1000, random_state=0, **settings)
    assert_same_features(model, X, D)
    assert clone(model).fit(D).score(D) == pytest.approx(clone(model).fit(X).score(X))


def test_features_of_networks(digits):
    X, D, _ = digits
    assert_same_features(network(), X, D)


def test_patches_are_the_same(digits):
    X, D, _ = digits
    np.testing.assert_array_equal(
        sample_patches(D, 100, random_state=3), sample_patches(X, 100, random_state=3)
    )


def test_images_with_nan_are_refused(digits):
    X = digits[0].copy()
    X[200, 1, 1] = np.nan
    with pytest.raises(ValueError, match="Input X contains NaN, among the images from 180 on"):
        ImageFeatures(8, patch_size=3).fit(da.from_array(X, chunks=(90, 8, 8)))


CLASSIFIERS = {
    "linear": LinearSVC(1.0),
    "kernel": KernelRidgeClassifier(),
    "landmarks": KernelRidgeClassifier(n_landmarks=50, random_state=0),
    "weights": KernelRidgeClassifier("linear"),
}


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifiers_of_images(digits, name):
    X, D, y = digits
    model = ImageClassifier([network()], CLASSIFIERS[name], random_state=0)
    expected, found = clone(model).fit(X, y), clone(model).fit(D, y)
    np.testing.assert_allclose(
        to_host(found.decision_function(D)), expected.decision_function(X), atol=1e-2
    )
    np.testing.assert_array_equal(found.predict(X), expected.predict(X))  # the model is a local one


def test_kernel_ridge_of_rows(digits):
    X, D, y = digits
    X, D = X.reshape(300, 64), D.reshape(300, 64)
    expected, found = (KernelRidgeClassifier(alpha=0.1, gamma=0.01).fit(A, y) for A in (X, D))
    assert isinstance(found.X_fit_, np.ndarray)
    decisions = found.decision_function(D)
    assert isinstance(decisions, da.Array)
    np.testing.assert_allclose(decisions.compute(), expected.decision_function(X), atol=1e-9)


def test_committees(digits):
    X, D, y = digits
    members = [
        ImageClassifier([FeatureNetwork([Layer(8, patch_size=p)])], LinearSVC(1.0)) for p in (3, 4)
    ]
    model = Committee(members, random_state=0)
    expected, found = clone(model).fit(X, y), clone(model).fit(D, y)
    np.testing.assert_array_equal(found.predict(D), expected.predict(X))
