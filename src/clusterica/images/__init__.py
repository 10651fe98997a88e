"""Images in, features out: patches, filters learned from them, codes, pooling."""

from clusterica.images._bank import sample_patches
from clusterica.images._features import ImageFeatures

__all__ = ["ImageFeatures", "sample_patches"]
