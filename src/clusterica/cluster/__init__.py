"""The K-means family: one Lloyd engine, three rules."""

from clusterica.cluster._cosine import CosineKMeans
from clusterica.cluster._kmeans import KMeans
from clusterica.cluster._spherical import SphericalKMeans

__all__ = ["CosineKMeans", "KMeans", "SphericalKMeans"]
