"""The private names of scikit-learn that clusterica uses, in one place to adapt when they change."""

import sys
from functools import cache
from importlib.metadata import metadata

from sklearn.base import BaseEstimator
from sklearn.base import _fit_context as fit_context
from sklearn.utils._openmp_helpers import _openmp_effective_n_threads as count_threads
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_feature_names as check_feature_names
from sklearn.utils.validation import _check_n_features as check_n_features
from sklearn.utils.validation import _check_sample_weight as check_sample_weight

__all__ = [
    "Estimator",
    "Interval",
    "StrOptions",
    "check_feature_names",
    "check_n_features",
    "check_sample_weight",
    "count_threads",
    "fit_context",
]


@cache
def documentation_address() -> str:
    """Return where the documentation is published: the project's address of that name, empty without one."""
    found: list[str] = metadata("clusterica").get_all("Project-URL") or []
    return dict(line.split(", ", 1) for line in found).get("Documentation", "").rstrip("/")


class Estimator(BaseEstimator):
    """scikit-learn's base of all estimators; in notebooks it links to their pages in our documentation."""

    def _get_doc_link(self) -> str:
        package, name = ".".join(type(self).__module__.split(".")[:2]), type(self).__name__
        address = documentation_address()
        # Only what a package of clusterica lists has a page.
        listed = package.startswith("clusterica.") and name in sys.modules[package].__all__
        return f"{address}/reference/generated/{package}.{name}.html" if address and listed else ""
