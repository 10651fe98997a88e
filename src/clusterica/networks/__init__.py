"""Networks of features: receptive fields by dependency."""

from clusterica.networks._groups import DependencyGroups

__all__ = ["DependencyGroups"]
