"""The private names of scikit-learn that clusterica uses, in one place to adapt when they change."""

from collections.abc import Callable
from typing import Any

from sklearn.base import _fit_context
from sklearn.utils._openmp_helpers import _openmp_effective_n_threads as count_threads
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_feature_names as check_feature_names
from sklearn.utils.validation import _check_n_features as check_n_features
from sklearn.utils.validation import _check_sample_weight as check_sample_weight

__all__ = [
    "Interval",
    "StrOptions",
    "check_feature_names",
    "check_n_features",
    "check_sample_weight",
    "count_threads",
    "fit_context",
]


def fit_context(*, prefer_skip_nested_validation: bool) -> Callable[[Any], Any]:
    """Return scikit-learn's decorator of fit: it checks the parameters and turns callbacks on and off."""
    decorate = _fit_context(prefer_skip_nested_validation=prefer_skip_nested_validation)

    def decorated(fit: Any) -> Any:
        # Python names a function by this in "fit() missing 1 required positional argument: 'X'". It would
        # name the base class that fit is written in, which users do not know.
        fit.__qualname__ = fit.__name__
        return decorate(fit)

    return decorated
