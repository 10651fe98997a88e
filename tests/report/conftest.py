"""Small fitted models of the digits, once for all tests of reports."""

import numpy as np
import pytest

from clusterica.datasets import load_digits_images
from clusterica.images import ImageFeatures
from clusterica.networks import FeatureNetwork, ImageClassifier, Layer
from clusterica.report import summarize


@pytest.fixture(scope="session")
def digits():
    found = load_digits_images()
    return found.images[:500], found.labels[:500]


@pytest.fixture(scope="session")
def features(digits):
    return ImageFeatures(24, patch_size=4, n_patches=4000, random_state=0).fit(digits[0])


@pytest.fixture(scope="session")
def classifier(digits):
    network = FeatureNetwork([Layer(16, patch_size=4, n_patches=3000)])
    return ImageClassifier([network], random_state=0).fit(digits[0][:300], digits[1][:300])


@pytest.fixture(scope="session")
def summary(classifier, digits):
    X, y = digits
    return summarize(
        classifier,
        X[:300],
        labels=y[:300],
        validation=(X[300:], y[300:]),
        source="<digits>",
        seconds=1.5,
    )


@pytest.fixture(scope="session")
def many_filters():
    """The summary of a bank of 4,000 colour filters, as if they had been learned."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (40, 24, 24, 3), dtype=np.uint8)
    model = ImageFeatures(
        4000, patch_size=12, n_patches=4100, learner="patches", random_state=0
    ).fit(images)
    return model, summarize(model, images)
