"""Data sets: readers of images, patches of photographs, and generators of sparse sources and images."""

from clusterica.datasets._bundled import load_digits_images, photo_patches
from clusterica.datasets._cifar import load_cifar10
from clusterica.datasets._common import ImageSet
from clusterica.datasets._files import data_folder
from clusterica.datasets._folder import load_caltech101, load_image_folder
from clusterica.datasets._mnist import load_fashion_mnist, load_mnist
from clusterica.datasets._parquet import ParquetBlocks, open_parquet
from clusterica.datasets._pictures import UnreadableImageError, read_picture
from clusterica.datasets._sources import SparseSources, make_sparse_sources
from clusterica.datasets._stl import load_stl10
from clusterica.datasets._synthetic_images import SparseImages, make_rectangles, make_sparse_images

__all__ = [
    "ImageSet",
    "ParquetBlocks",
    "SparseImages",
    "SparseSources",
    "UnreadableImageError",
    "data_folder",
    "load_caltech101",
    "load_cifar10",
    "load_digits_images",
    "load_fashion_mnist",
    "load_image_folder",
    "load_mnist",
    "load_stl10",
    "make_rectangles",
    "make_sparse_images",
    "make_sparse_sources",
    "open_parquet",
    "photo_patches",
    "read_picture",
]
