"""Networks of features: receptive fields by dependency, and layers learned one after the other."""

from clusterica.networks._groups import DependencyGroups
from clusterica.networks._layer import Layer
from clusterica.networks._network import FeatureNetwork

__all__ = ["DependencyGroups", "FeatureNetwork", "Layer"]
