"""Ready classifiers of images: ``make_classifier("fast")``, ``"accurate"`` and ``"best"``.

All learn their features without labels. What depends on the data they choose on training images that a trial
classifier does not see: "fast" the strength of the regularisation, the others also whether an image and its
mirror image count as the same, and the cells of the pooling.
"""

from __future__ import annotations

from typing import Any

from clusterica.linear import KernelRidgeClassifier, LinearSVC
from clusterica.networks._classifier import ImageClassifier
from clusterica.networks._committee import Committee
from clusterica.networks._groups import DependencyGroups
from clusterica.networks._layer import Layer
from clusterica.networks._network import FeatureNetwork
from clusterica.preprocessing import ContrastNormalizer

__all__ = ["RECIPES", "make_classifier"]

RECIPES = {
    "fast": "one layer of 1600 filters and a linear classifier; for two cores",
    "accurate": "one layer of 4096 filters and kernel ridge with an RBF; for a GPU, or few labels",
    "best": "four patch sizes and two layers, a committee of kernel ridges with an RBF; for a GPU",
}
"""Names of the recipes, and what each of them is."""

# Of the variance of patches; about 150 for photographs in 0..255, where Coates & Ng start from 10. Training
# images that a trial classifier did not see spoke for 30 to 100 on CIFAR-10, for 300 to 1000 there with
# few labels, and for 100 on STL-10 (P1-table1 to 3); on those of Fashion-MNIST 1 to 30 % did the same.
_CONTRAST = "10%"


def make_classifier(
    name: str = "fast",
    image_shape: tuple[int, ...] = (32, 32, 3),
    *,
    n_filters: int | None = None,
    random_state: Any = None,
) -> ImageClassifier | Committee:
    """Return a classifier of images by the name of its recipe, not fitted yet.

    Parameters
    ----------
    name : {"fast", "accurate", "best"}, default="fast"
        The recipe; see ``RECIPES``.
    image_shape : tuple (height, width) or (height, width, channels), default=(32, 32, 3)
        Shape of the images, such as ``images.shape[1:]``. Patches and cells depend on it.
    n_filters : int or None, default=None
        Number of filters of the first layer, for each patch size. None takes that of the recipe; fewer are
        faster.
    random_state : int, Generator, RandomState or None, default=None
        Seed.

    Returns
    -------
    classifier : ImageClassifier or Committee

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from clusterica.networks.recipes import make_classifier
    >>> X, y = load_digits().images, load_digits().target
    >>> model = make_classifier("accurate", X.shape[1:], n_filters=64, random_state=0)
    >>> model.fit(X[:1000], y[:1000]).score(X[1000:], y[1000:]) > 0.9
    True
    """
    if name not in RECIPES:
        raise ValueError(f"there is no recipe {name!r}; the recipes are {', '.join(RECIPES)}")
    if len(image_shape) not in (2, 3) or min(image_shape[:2]) < 4:
        raise ValueError(
            f"image_shape={image_shape} must be (height, width) or (height, width, channels) with at least "
            "4 x 4 pixels"
        )
    if n_filters is not None and n_filters < 1:
        raise ValueError(
            f"n_filters={n_filters} must be at least 1, or None for that of the recipe"
        )
    side = min(image_shape[:2])
    # Photographs at their own size rather than thumbnails: larger patches, and a pyramid of cells, did better
    # on STL-10 (96 x 96), smaller ones on CIFAR-10 (32 x 32).
    large = side >= 64
    size = 8 if large else min(6, side // 2)
    if name == "fast":
        network = _one_layer(n_filters or 1600, size, large=large)
        return ImageClassifier([network], LinearSVC(random_state=0), random_state=random_state)
    if name == "accurate":
        return _kernel([_one_layer(n_filters or 4096, size, large=large)], large, random_state)
    # 4, 6, 8 and 11 pixels were measured on CIFAR-10. Larger images have larger patches; none is over half of
    # an image.
    sizes = (6, 8, 12, 16) if large else sorted({min(p, side // 2) for p in (4, 6, 8, 11)})
    wide = [_one_layer(n_filters or 4096, size, large=large) for size in sizes]
    # Features of all patch sizes are joined in one kernel; those of the second layer did harm there, and
    # help as a second member, whose decisions are added (measured on CIFAR-10).
    members = [_kernel(wide, large, None)]
    if side >= 16:  # a second layer needs some maps to look at
        n_first = n_filters or 1600
        first = _first_layer(n_first, size, pool_size=5 if large else 3)
        # Groups of 200 maps, as in Coates & Ng 2012; each filter gives two maps.
        groups = DependencyGroups(size=min(200, n_first), n_groups=min(32, 2 * n_first))
        second = Layer(100, patch_size=2, pool_size=2, fields=groups, n_patches=50_000)
        members.append(_kernel([FeatureNetwork([first, second], power=0.5)], large, None))
    return Committee(members, random_state=random_state)


def _kernel(networks: list[FeatureNetwork], large: bool, random_state: Any) -> ImageClassifier:
    """Return an RBF kernel ridge on networks; mirror images and cells by validation."""
    grids = [[(1, 1), (2, 2), (3, 3)], (3, 3)] if large else [(2, 2), (3, 3)]
    return ImageClassifier(
        networks,
        KernelRidgeClassifier("rbf", n_landmarks="auto", random_state=0),
        tune={"mirror": [True, False], "grid": grids},
        random_state=random_state,
    )


def _one_layer(n_filters: int, patch_size: int, *, large: bool) -> FeatureNetwork:
    """Return a network of one layer, the features of Coates & Ng 2012 with a square root."""
    grid: Any = [(1, 1), (2, 2), (3, 3)] if large else (2, 2)
    # Gaussian means were 1.0 to 2.6 points more accurate than sums, on training images of CIFAR-10 and STL-10
    # that the classifiers did not see.
    layer = _first_layer(n_filters, patch_size, pooling="gaussian")
    # The square root keeps a few large codes from drowning the others.
    return FeatureNetwork([layer], grid=grid, power=0.5)


def _first_layer(
    n_filters: int, patch_size: int, *, pool_size: int = 3, pooling: str = "sum"
) -> Layer:
    return Layer(
        n_filters,
        patch_size=patch_size,
        pool_size=pool_size,
        pooling=pooling,
        normalizer=ContrastNormalizer(_CONTRAST),
    )
