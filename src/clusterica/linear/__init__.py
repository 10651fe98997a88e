"""Linear classifiers for wide features of many rows: a support vector machine and ridge."""

from clusterica.linear._held_out import every_fifth, fit_temperature, probabilities
from clusterica.linear._kernel_ridge import KernelRidgeClassifier
from clusterica.linear._ridge import RidgeClassifier
from clusterica.linear._svc import LinearSVC

__all__ = [
    "KernelRidgeClassifier",
    "LinearSVC",
    "RidgeClassifier",
    "every_fifth",
    "fit_temperature",
    "probabilities",
]
