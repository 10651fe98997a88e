"""Plan a run: the time and the memory of a fit, without data."""

from clusterica.planning._estimate import Estimate, estimate

__all__ = ["Estimate", "estimate"]
