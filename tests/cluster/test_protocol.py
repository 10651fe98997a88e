"""How many centres other estimators ask a clusterer for."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.cluster import KMeans as ScikitKMeans
from sklearn.cluster import MeanShift
from sklearn.decomposition import FastICA

from clusterica.cluster import CosineKMeans, GainShapeKMeans, with_n_centers


class PerClass(BaseEstimator):
    def __init__(self, n_components_per_class=1):
        self.n_components_per_class = n_components_per_class


@pytest.mark.parametrize(
    ("estimator", "name", "value"),
    [
        (CosineKMeans(), "n_axes", 6),
        (GainShapeKMeans(), "n_clusters", 12),
        (ScikitKMeans(), "n_clusters", 12),
        (FastICA(), "n_components", 12),
        (PerClass(), "n_components_per_class", 4),
    ],
    ids=str,
)
def test_every_name_for_the_number_of_centers(estimator, name, value):
    before = getattr(estimator, name)
    found = with_n_centers(estimator, 12, n_classes=3)
    assert getattr(found, name) == value
    assert getattr(estimator, name) == before


def test_estimators_without_a_number_are_left_alone():
    assert (
        with_n_centers(MeanShift(bandwidth=2), 5).get_params()
        == MeanShift(bandwidth=2).get_params()
    )


def test_seeds():
    assert with_n_centers(CosineKMeans(), 4).random_state is None
    assert with_n_centers(CosineKMeans(), 4, random_state=3).random_state == 3
    assert with_n_centers(CosineKMeans(random_state=5), 4, random_state=3).random_state == 5
    drawn = with_n_centers(CosineKMeans(), 4, random_state=np.random.default_rng(0)).random_state
    assert drawn == np.random.default_rng(0).integers(2**31)


def test_numbers_that_cannot_be():
    with pytest.raises(ValueError, match=r"CosineKMeans finds 2 centers .* can't find 5; .* of 2"):
        with_n_centers(CosineKMeans(), 5)
    with pytest.raises(ValueError, match=r"PerClass has n_components_per_class.* give labels"):
        with_n_centers(PerClass(), 5)
