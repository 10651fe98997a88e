"""scikit-learn's checks of estimators, and by hand those that ask for what a rule does not have."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from clusterica.cluster import CosineKMeans, GainShapeKMeans, KMeans, SphericalKMeans

# The checks fit 8 clusters to a handful of rows.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

ORDER = (
    "as of scikit-learn's KMeans: draws depend on the order of rows; see test_weights_count_rows"
)
CHECKS_OF_WEIGHTS = {
    "check_sample_weight_equivalence_on_dense_data": ORDER,
    "check_sample_weight_equivalence_on_sparse_data": ORDER,
}


def expected_failures(estimator):
    if not isinstance(estimator, CosineKMeans):
        return CHECKS_OF_WEIGHTS
    # Orthonormal axes that stay orthogonal are drawn without a look at the rows.
    by_rows = not (estimator.orthogonal and estimator.init == "orthonormal")
    return CHECKS_OF_WEIGHTS if by_rows else {}


@parametrize_with_checks(
    [
        KMeans(),
        KMeans(batch_size=10, n_init=2),
        GainShapeKMeans(),
        SphericalKMeans(),
        CosineKMeans(),
        CosineKMeans(n_axes=1, orthogonal=True, init="orthonormal"),
        CosineKMeans(n_axes=4, init="k-means++", empty="drop"),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_clustering_of_blobs_by_pairs():
    """What check_clustering asks, with as many blobs as two pairs of centres have directions."""
    axes = 4 * np.array([[1, 0], [0, 1], [-1, 0], [0, -1]])
    X, y = make_blobs(n_samples=60, centers=axes, cluster_std=0.5, random_state=1)
    model = CosineKMeans(n_axes=2, random_state=0)
    labels = model.fit(X).labels_
    assert adjusted_rand_score(labels, y) == 1
    assert labels.dtype == np.int32
    assert sorted(set(labels)) == [0, 1, 2, 3]
    np.testing.assert_array_equal(model.fit_predict(X.tolist()), labels)
