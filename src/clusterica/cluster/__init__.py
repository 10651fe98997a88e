"""Clusterers: the K-means family, one Lloyd engine with four rules, and the valleys of a density."""

from clusterica.cluster._base import BaseKMeans
from clusterica.cluster._cosine import CosineKMeans
from clusterica.cluster._density import DensityClusterer
from clusterica.cluster._gain_shape import GainShapeKMeans
from clusterica.cluster._kmeans import KMeans
from clusterica.cluster._protocol import cluster_sizes, near_empty, with_n_centers
from clusterica.cluster._spherical import SphericalKMeans

__all__ = [
    "BaseKMeans",
    "CosineKMeans",
    "DensityClusterer",
    "GainShapeKMeans",
    "KMeans",
    "SphericalKMeans",
    "cluster_sizes",
    "near_empty",
    "with_n_centers",
]
