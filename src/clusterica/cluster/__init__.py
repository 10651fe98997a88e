"""Clustering: the K-means family, von Mises-Fisher mixtures, and clusters of one column by its density."""

from clusterica.cluster._base import BaseKMeans
from clusterica.cluster._cosine import CosineKMeans
from clusterica.cluster._density import DensityClusterer
from clusterica.cluster._gain_shape import GainShapeKMeans
from clusterica.cluster._kmeans import KMeans
from clusterica.cluster._protocol import (
    cluster_sizes,
    learned_vectors,
    near_empty,
    with_n_centers,
)
from clusterica.cluster._spherical import SphericalKMeans
from clusterica.cluster._von_mises_fisher import VonMisesFisherMixture

__all__ = [
    "BaseKMeans",
    "CosineKMeans",
    "DensityClusterer",
    "GainShapeKMeans",
    "KMeans",
    "SphericalKMeans",
    "VonMisesFisherMixture",
    "cluster_sizes",
    "learned_vectors",
    "near_empty",
    "with_n_centers",
]
