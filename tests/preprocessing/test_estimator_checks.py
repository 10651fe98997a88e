"""scikit-learn's checks of estimators."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from clusterica.preprocessing import ContrastNormalizer, Whitener

COMPONENTS = "asks for n_components, which cholesky does not have; the same is in test_whitener.py"
CHECKS_OF_COMPONENTS = {
    "check_dont_overwrite_parameters": COMPONENTS,
    "check_fit2d_1feature": COMPONENTS,
    "check_fit2d_predict1d": COMPONENTS,
    "check_methods_sample_order_invariance": COMPONENTS,
    "check_methods_subset_invariance": COMPONENTS,
}


def expected_failures(estimator):
    return CHECKS_OF_COMPONENTS if getattr(estimator, "method", None) == "cholesky" else {}


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
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
