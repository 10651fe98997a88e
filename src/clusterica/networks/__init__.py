"""Networks of features: receptive fields by dependency, layers learned one after the other, classifiers."""

from clusterica.networks._classifier import ImageClassifier
from clusterica.networks._committee import Committee
from clusterica.networks._groups import DependencyGroups
from clusterica.networks._layer import Layer
from clusterica.networks._network import FeatureNetwork

__all__ = ["Committee", "DependencyGroups", "FeatureNetwork", "ImageClassifier", "Layer"]
