"""scikit-learn's checks of estimators."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from clusterica.preprocessing import ContrastNormalizer, Whitener


# The checks use rows of small spread, at which ContrastNormalizer warns.
@pytest.mark.filterwarnings("ignore:rows have a typical spread")
@parametrize_with_checks(
    [
        ContrastNormalizer(),
        ContrastNormalizer(eps="auto"),
        Whitener(),
        Whitener("pca"),
        Whitener("cholesky"),
        Whitener("pca", eps=0.0),
        Whitener(eps="1%", n_components=1),
    ],
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
