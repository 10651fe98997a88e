"""The private names of scikit-learn that clusterica uses, in one place to adapt when they change."""

from sklearn.base import _fit_context as fit_context
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
