"""scikit-learn's checks of classifiers."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from clusterica.linear import LinearSVC, RidgeClassifier

# scikit-learn documents the same for its own estimators with a cross-validation, such as
# TunedThresholdClassifierCV. test_search.py tests weights where the same rows are held out.
DRAWN = "rows are held out by their order, so that a repeated row may be on both sides"
OF_WEIGHTS = {"check_sample_weight_equivalence_on_dense_data": DRAWN}


def expected_failures(estimator):
    return OF_WEIGHTS if estimator.get_params().get("C") == "auto" else {}


@parametrize_with_checks(
    [LinearSVC(), LinearSVC(C=0.05), RidgeClassifier(alpha=2.0)],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_checks(estimator, check, monkeypatch):
    if isinstance(estimator, RidgeClassifier):
        monkeypatch.setattr(
            "clusterica.linear._base._FEW_ROWS", 0
        )  # so that both solvers are checked
    check(estimator)
