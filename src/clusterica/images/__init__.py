"""Images in, features out: patches, filters learned from them, codes, pooling."""

from clusterica.images._bank import sample_patches
from clusterica.images._features import ImageFeatures
from clusterica.images._groups import GroupFeatures

__all__ = ["GroupFeatures", "ImageFeatures", "sample_patches"]
