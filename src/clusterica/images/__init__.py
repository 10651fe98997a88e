"""Images in, features out: patches, filters learned from them, codes, pooling."""

from clusterica.images._features import ImageFeatures
from clusterica.images._sampling import sample_patches

__all__ = ["ImageFeatures", "sample_patches"]
