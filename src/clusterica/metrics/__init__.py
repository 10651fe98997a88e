"""How well sources were found: recovery and Amari distances, kurtosis, and the RISS test of clusterers."""

from clusterica.metrics._kurtosis import excess_kurtosis
from clusterica.metrics._recovery import amari_distance, recovery_distance
from clusterica.metrics._riss import RissReport, check_riss

__all__ = ["RissReport", "amari_distance", "check_riss", "excess_kurtosis", "recovery_distance"]
