"""A network of layers of features, learned one after the other from unlabeled data."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from copy import copy
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import (
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    clone,
)
from sklearn.callback import CallbackSupportMixin
from sklearn.utils.validation import check_is_fitted

from clusterica.arrays import (
    Array,
    Estimator,
    Interval,
    Place,
    StrOptions,
    as_chunks,
    as_generator,
    engine_name,
    fit_context,
    map_chunks,
    namespace_of,
    take,
)
from clusterica.images import GroupFeatures
from clusterica.networks._layer import Layer
from clusterica.ops.patch import CellPooling, grid_cells, pool
from clusterica.optim import fit_progress
from clusterica.preprocessing import ContrastNormalizer


class FeatureNetwork(
    CallbackSupportMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, Estimator
):
    """Layers of features, each learned from the maps of the one before; no labels, no back-propagation.

    Section 5 of [1]_. A layer after the first sees hundreds or thousands of maps. K-means learns little
    from so many inputs at once, so each layer may split them into receptive fields, groups of maps that
    depend on each other: ``Layer(fields=DependencyGroups(...))``.

    Parameters
    ----------
    layers : sequence of Layer
        From the images to the last maps.
    grid : tuple (rows, columns) or list of such tuples, default=(2, 2)
        Cells over which a layer is pooled to features, as :class:`~clusterica.images.ImageFeatures` does; a
        list makes a spatial pyramid. The last layer pools its codes, the others their maps.
    output : {"all", "last"}, default="all"
        Features of all layers joined, or those of the last layer.
    power : float, default=1.0
        Exponent of the features, which must not be negative unless it is 1. The square root, 0.5, keeps a few
        large features of an image from drowning the others.
    mirror : bool, default=False
        Whether features are the means of those of an image and its mirror image. Right for photographs, not
        for digits or letters; it doubles the time.
    random_state : int, Generator, RandomState or None, default=None
        Seed of layers without a seed of their own, and of the images they are learned from.

    Attributes
    ----------
    layers_ : list of Layer
        The fitted layers.
    image_shape_ : tuple (height, width, channels)
        Shape of an image, (1, 1, n_features) for rows.
    n_features_out_ : int
        Number of features of an image.

    Notes
    -----
    fit and transform work on blocks of images: the maps of a block and of one layer are in memory, never
    those of all images. What a layer is learned from are the maps of as many images as its patches need;
    where these are over the memory budget of :func:`clusterica.config_context` they are kept in a temporary
    file, or cut to a quarter of the memory of a device.

    References
    ----------
    .. [1] A. Coates and A. Y. Ng, "Learning feature representations with K-means", 2012.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from clusterica.networks import DependencyGroups, FeatureNetwork, Layer
    >>> X = load_digits().images
    >>> first = Layer(24, patch_size=3, pool_size=2, n_patches=5000)
    >>> groups = DependencyGroups(size=12, n_groups=3)
    >>> second = Layer(16, patch_size=2, pool_size=1, fields=groups, n_patches=5000)
    >>> network = FeatureNetwork([first, second], random_state=0)
    >>> Z = network.fit_transform(X)
    >>> len(Z)
    1797
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "layers": [list, tuple],
        "grid": [tuple, list],
        "output": [StrOptions({"all", "last"})],
        "power": [Interval(Real, 0, None, closed="neither")],
        "mirror": ["boolean"],
        "random_state": ["random_state", np.random.Generator],
    }

    def __init__(
        self,
        layers: Sequence[Layer],
        *,
        grid: tuple[int, int] | list[tuple[int, int]] = (2, 2),
        output: str = "all",
        power: float = 1.0,
        mirror: bool = False,
        random_state: Any = None,
    ) -> None:
        self.layers = layers
        self.grid = grid
        self.output = output
        self.power = power
        self.mirror = mirror
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the layers, one after the other.

        Parameters
        ----------
        X : array of shape (n, height, width), (n, height, width, channels) or (n, n_features)
            Images of one size, or rows without geometry. NumPy array, memory map, tensor or Dask array.
        y : ignored

        Returns
        -------
        self : FeatureNetwork
        """
        if not self.layers or not all(isinstance(layer, Layer) for layer in self.layers):
            raise ValueError("layers must be one Layer or more, such as [Layer(), Layer(...)]")
        _as_grids(self.grid)  # a wrong one is refused before hours are spent
        images = _as_images(X)
        layers = [clone(layer) for layer in self.layers]
        self._prepare(layers, images)
        rng = as_generator(self.random_state)
        # Layers have seeds of their own, drawn in turn, so that a layer does not depend on those after it.
        progress = fit_progress(self, len(layers), X=X)
        learned: list[Layer] = []
        # One folder for all layers: the maps of a layer overwrite those of the one before, which are not
        # needed any more.
        with tempfile.TemporaryDirectory(prefix="clusterica-") as folder:
            for layer in layers:
                if layer.random_state is None:
                    layer.set_params(random_state=int(rng.integers(2**31)))
                inputs = self._inputs(images, learned, layer, rng, Path(folder))
                learned.append(layer._learn(inputs, progress))
                del inputs
        progress.end()
        self.layers_ = learned
        self.image_shape_ = tuple(int(n) for n in images.shape[1:])
        return self

    @property
    def n_features_out_(self) -> int:
        """Number of features of an image."""
        check_is_fitted(self, "layers_")
        return sum(
            layer.maps_shape_[2] * sum(down * across for down, across in self._grids(i))
            for i, layer in self._shown()
        )

    @property
    def _n_features_out(self) -> int:
        return self.n_features_out_

    def transform(self, X: Any) -> Array:
        """Return the features of images: the maps of every layer, pooled over the grid.

        Parameters
        ----------
        X : as in fit
            Images of the same size as in fit, or rows.

        Returns
        -------
        features : array of shape (n, n_features_out_), float32
            Layer by layer, cell by cell; in the library and on the device of X, of a Dask array a lazy one.
        """
        check_is_fitted(self, "layers_")
        images = _as_images(X)
        if tuple(images.shape[1:]) != self.image_shape_:
            raise ValueError(
                f"images have shape {tuple(images.shape[1:])} and those in fit had {self.image_shape_}; "
                "resize them"
            )
        chunks = as_chunks(images)
        if chunks is not None:
            like = np.empty((1, self.n_features_out_), np.float32)
            # A copy: the result is lazy, and must not change if this network is fitted again.
            return map_chunks(copy(self).transform, chunks, like=like)
        xp, place = namespace_of(images), Place(images)
        features = None
        # The maps of the last layer are not computed: its codes are pooled over the grid directly.
        encoders = [layer.group_features() for layer in self.layers_[:-1]]
        encoders.append(self.layers_[-1].group_features(self._grids(len(self.layers_) - 1)))
        encoders[0].warn_of_range(images)
        # Block by block: the maps of all images together would not fit.
        for start, stop in self._cuts(images, self.layers_):
            block = self._pooled(images[start:stop, ...], encoders)
            if self.mirror:
                flipped = xp.flip(images[start:stop, ...], axis=2)
                block = (block + self._pooled(flipped, encoders)) / 2
            if self.power != 1:
                # A root of a negative number would be NaN, and only the classifier would notice.
                if float(xp.min(block)) < 0:
                    raise ValueError(
                        f"power={self.power} needs features that are not negative; use an encoder such as "
                        "'soft-threshold', or power=1"
                    )
                block = block**self.power
            if features is None:
                # Made at the first block, which has the dtype and the device that the layers return.
                shape = (images.shape[0], self.n_features_out_)
                features = xp.empty(shape, dtype=block.dtype, device=block.device)
            features[start:stop, :] = block
        return place.put(features)

    def _pooled(self, images: Any, encoders: list[GroupFeatures]) -> Array:
        """Return the features of a few images: the layers shown, pooled over the grid."""
        xp, maps, parts = namespace_of(images), images, []
        shown = dict(self._shown())
        for i, encoder in enumerate(encoders):
            codes = encoder.transform(maps)
            if i == len(encoders) - 1:
                parts.append(codes)
                break
            maps = codes.reshape(-1, *self.layers_[i].maps_shape_)
            if i in shown:
                cells = grid_cells(maps.shape[1:3], self._grids(i))
                parts.append(pool(maps, cells, pooling=CellPooling[shown[i].pooling.upper()]))
        flat = [xp.reshape(part, (len(images), -1)) for part in parts]
        return flat[0] if len(flat) == 1 else xp.concat(flat, axis=1)

    def _shown(self) -> list[tuple[int, Layer]]:
        """Return the layers whose features are the output, with their places in the network."""
        layers = list(enumerate(self.layers_))
        return layers if self.output == "all" else layers[-1:]

    def _grids(self, i: int) -> list[tuple[int, int]]:
        """Return the grids of a layer, none finer than what is pooled."""
        height, width, _ = self.layers_[i].maps_shape_
        if i == len(self.layers_) - 1:
            # The last layer pools its codes: its grid is over the places of patches, not over its cells.
            before = self.layers_[i - 1].maps_shape_ if i > 0 else self.image_shape_
            height, width = self.layers_[i].places(*before[:2])
        return [(min(down, height), min(across, width)) for down, across in _as_grids(self.grid)]

    def _prepare(self, layers: list[Layer], images: Any) -> None:
        """Set what depends on the kind of input, and refuse what a layer would refuse hours later."""
        height, width = int(images.shape[1]), int(images.shape[2])
        n_maps: int | None = int(images.shape[3])
        # Rows without geometry are images of one pixel, with one patch and nothing to pool.
        rows = height == width == 1
        for i, layer in enumerate(layers):
            layer._validate_params()
            if rows:
                layer.set_params(patch_size=1, stride=1, pool_size=1)
            if isinstance(layer.normalizer, str) and layer.normalizer == "auto" and (rows or i > 0):
                # Maps have no nominal range as pixels do. The paper's constant is about this share of
                # the variance of patches of photographs.
                layer.set_params(normalizer=ContrastNormalizer("1%"))
            cells = layer.cells(height, width)
            if min(cells) < 1:
                raise ValueError(
                    f"the input of layer {i + 1} is {height} x {width}, smaller than its "
                    f"patch_size={layer.patch_size}; use smaller patches, a smaller pool_size or stride "
                    "in the layers before, or larger images"
                )
            if n_maps is not None:
                layer.check_fields(n_maps)
                n_maps = layer.n_maps_out(n_maps)
            # What this layer returns is what the next one sees.
            height, width = cells
            if n_maps is not None and i + 1 < len(layers):
                self._room(images, layers[i + 1], (height, width, n_maps), tempfile.gettempdir())

    def _room(
        self, images: Any, layer: Layer, shape: tuple[int, ...], folder: Path | str
    ) -> tuple[int, bool]:
        """Return of how many images the maps are needed, and whether they go to disk; refuse too many."""
        on_cluster = engine_name(images) is not None
        place = Place(None if on_cluster else images)
        down, across = (max(1, n - layer.patch_size + 1) for n in shape[:2])
        per_image = 4 * int(np.prod(shape))
        # Half of the positions of an image: neighbouring patches overlap, and have much the same information.
        n_images = min(len(images), -(-2 * layer.n_patches // (down * across)))
        if not place.on_host:
            # A block may take a sixteenth of the memory of a device (place.memory), so this is a quarter of
            # it.
            return max(1, min(n_images, 4 * place.memory // per_image)), False
        needed = n_images * per_image
        to_disk = needed > place.memory and not on_cluster
        free = shutil.disk_usage(folder).free if to_disk else 0
        if to_disk and needed > free:
            raise OSError(
                f"the maps to learn from take {needed / 2**30:.1f} GiB, more than the memory budget, and "
                f"{folder} has {free / 2**30:.1f} GiB free; lower n_patches, raise the budget with "
                "clusterica.config_context(memory=...), or set TMPDIR to a larger disk"
            )
        return n_images, to_disk

    def _inputs(
        self,
        images: Any,
        learned: list[Layer],
        layer: Layer,
        rng: np.random.Generator,
        folder: Path,
    ) -> Any:
        """Return the maps that a layer is learned from, of as many images as its patches need."""
        if not learned:
            return images
        n_images, to_disk = self._room(images, layer, learned[-1].maps_shape_, folder)
        chosen = np.sort(rng.choice(len(images), size=n_images, replace=False))
        some = images if n_images == len(images) else take(images, chosen)
        encoders = [before.group_features() for before in learned]
        chunks = as_chunks(some)
        shape = (n_images, *learned[-1].maps_shape_)
        if chunks is not None:
            like = np.empty((1, *shape[1:]), np.float32)
            return map_chunks(_last_maps, chunks, learned, encoders, like=like, keep=True)
        maps: Any
        if to_disk:
            # Where the patches of the next layer are drawn from as from memory.
            maps = np.lib.format.open_memmap(folder / "maps.npy", "w+", np.float32, shape)
        else:
            maps = Place(images).empty(shape)
        for start, stop in self._cuts(some, learned):
            maps[start:stop, ...] = _last_maps(some[start:stop, ...], learned, encoders)
        return maps

    def _cuts(self, images: Any, layers: list[Layer]) -> Iterator[tuple[int, int]]:
        """Yield where blocks of images begin and end that fit the memory budget with all their maps."""
        sizes = [int(np.prod(images.shape[1:])), *(int(np.prod(m.maps_shape_)) for m in layers)]
        # Maps of all layers, and the input of one, gathered group by group.
        per_image = 4 * (sum(sizes) + max(sizes))
        size = max(1, Place(images).memory // per_image)
        for start in range(0, len(images), size):
            yield start, min(start + size, len(images))


def _as_images(X: Any) -> Any:
    """Return images with channels; rows become images of one pixel."""
    if not hasattr(X, "shape"):
        X = np.asarray(X)
    if len(X.shape) not in (2, 3, 4):
        raise ValueError(
            f"X has shape {tuple(X.shape)}; give images (n, height, width) or (n, height, width, channels), "
            "or rows (n, n_features)"
        )
    if X.shape[0] == 0:
        raise ValueError(
            f"Found array with 0 sample(s) (shape={tuple(X.shape)}) while a minimum of 1 is required by "
            "FeatureNetwork."
        )
    if len(X.shape) == 2:
        # A row is an image of one pixel whose features are channels: no other code needs to handle rows.
        return X[:, None, None, :]
    return X[..., None] if len(X.shape) == 3 else X


def _as_grids(grid: Any) -> list[tuple[int, int]]:
    """Return one grid or several as a list of (rows, columns)."""
    grids = grid if grid and isinstance(grid[0], tuple | list) else [grid]
    for one in grids:
        if len(one) != 2 or not all(isinstance(n, Integral) and int(n) >= 1 for n in one):
            raise ValueError(f"grid={grid!r} must be (rows, columns), or a list of such tuples")
    return [(int(down), int(across)) for down, across in grids]


def _last_maps(images: Any, layers: list[Layer], encoders: list[GroupFeatures]) -> Array:
    """Return the maps of the last of some layers."""
    for layer, encoder in zip(layers, encoders, strict=True):
        images = encoder.transform(images).reshape(-1, *layer.maps_shape_)
    return images
