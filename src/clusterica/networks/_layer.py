"""One layer of a network: maps -> groups of maps -> filters of each -> codes, pooled locally -> maps."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from clusterica.arrays import (
    Array,
    Estimator,
    Interval,
    StrOptions,
    as_generator,
    fit_context,
    take,
)
from clusterica.encoders import make_encoder
from clusterica.images import GroupFeatures, ImageFeatures
from clusterica.networks._groups import DependencyGroups
from clusterica.ops.patch import n_places
from clusterica.optim import Progress


class Layer(Estimator):
    """A layer of features: from maps to maps, the codes of learned filters pooled over small cells.

    Each group of input maps has filters of its own, learned as :class:`~clusterica.images.ImageFeatures`
    does: patches are normalised and whitened, K-means learns the filters, all patches are encoded, and the
    codes of neighbouring patches are pooled.

    Parameters
    ----------
    n_filters : int, default=1600
        Number of filters of each group.
    patch_size : int, default=6
        Side of a patch, in positions of the input maps; what K-means sees are ``patch_size**2`` numbers of
        each map of a group. For rows without geometry it does not matter.
    stride : int, default=1
        Step from one patch to the next.
    pool_size : int, default=3
        Side of the cells over which codes are pooled, in patches.
    pooling : {"sum", "mean", "max", "l2", "gaussian"}, default="sum"
        How the codes of a cell become one, as in :class:`~clusterica.images.ImageFeatures`. With
        "gaussian" cells overlap, and no fused kernels of GPUs compute them.
    fields : DependencyGroups, sequence of index arrays or None, default=None
        Groups of input maps (receptive fields). None takes all of them as one group, right for the colours
        of an image. A sequence gives groups by hand, such as ``[[0, 1, 2], [3]]`` for colour and depth.
    encoder, normalizer, whitener, learner
        Steps as in :class:`~clusterica.images.ImageFeatures`.
    n_patches : int, default=400_000
        Number of patches that the filters of a group are learned from.
    random_state : int, Generator, RandomState or None, default=None
        Seed of groups, patches and filters. A network gives its own where this is None.

    Attributes
    ----------
    groups_ : list of ndarray
        Input maps of each group.
    features_ : list of ImageFeatures
        The fitted steps of each group.
    maps_shape_ : tuple (height, width, n_maps)
        Shape of the output for one input.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_filters": [Interval(Integral, 1, None, closed="left")],
        "patch_size": [Interval(Integral, 1, None, closed="left")],
        "stride": [Interval(Integral, 1, None, closed="left")],
        "pool_size": [Interval(Integral, 1, None, closed="left")],
        "pooling": [StrOptions({"sum", "mean", "max", "l2", "gaussian"})],
        "fields": [DependencyGroups, list, tuple, None],
        "encoder": "no_validation",
        "normalizer": "no_validation",
        "whitener": "no_validation",
        "learner": "no_validation",
        "n_patches": [Interval(Integral, 2, None, closed="left")],
        "random_state": ["random_state", np.random.Generator],
    }

    # Twelve parameters: a layer is all of ImageFeatures and its receptive fields, and layers of a network
    # usually differ in several of them.
    def __init__(
        self,
        n_filters: int = 1600,
        *,
        patch_size: int = 6,
        stride: int = 1,
        pool_size: int = 3,
        pooling: str = "sum",
        fields: Any = None,
        encoder: Any = "soft-threshold",
        normalizer: Any = "auto",
        whitener: Any = "auto",
        learner: Any = "gain-shape-k-means",
        n_patches: int = 400_000,
        random_state: Any = None,
    ) -> None:
        self.n_filters = n_filters
        self.patch_size = patch_size
        self.stride = stride
        self.pool_size = pool_size
        self.pooling = pooling
        self.fields = fields
        self.encoder = encoder
        self.normalizer = normalizer
        self.whitener = whitener
        self.learner = learner
        self.n_patches = n_patches
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the groups and learn the filters of each.

        Parameters
        ----------
        X : array of shape (n, height, width, n_maps)
            Maps: NumPy array, memory map or tensor.
        y : ignored

        Returns
        -------
        self : Layer
        """
        return self._learn(X, None)

    def _learn(self, X: Any, progress: Progress | None) -> Self:
        rng = as_generator(self.random_state)
        grid = self.cells(X.shape[1], X.shape[2])
        self.groups_ = self._groups(X, rng)
        # Here, since the number of groups is known only now.
        task = None if progress is None else progress.subtask("layer", len(self.groups_))
        features = []
        for group in self.groups_:
            one = ImageFeatures(
                self.n_filters,
                patch_size=self.patch_size,
                stride=self.stride,
                grid=grid,
                pooling=self.pooling,
                encoder=self.encoder,
                # Groups differ in their statistics: each has its own steps. A name such as "auto" is
                # returned by clone as it is.
                normalizer=clone(self.normalizer, safe=False),
                whitener=clone(self.whitener, safe=False),
                learner=clone(self.learner, safe=False),
                n_patches=self.n_patches,
                random_state=int(rng.integers(2**31)),
            )
            if task is None:
                one.fit(_of_group(X, group))
            else:
                # The progress of K-means shows below that of its group.
                with task.lend_to(one, "group"):
                    one.fit(_of_group(X, group))
            features.append(one)
        if task is not None:
            task.end()
        self.features_ = features
        # An encoder may give more codes than there are filters: soft thresholds give one for each sign.
        self.maps_shape_ = (*grid, sum(sum(one.n_codes_) for one in features))
        return self

    def transform(self, X: Any) -> Array:
        """Return the maps of this layer.

        Parameters
        ----------
        X : as in fit, (n, height, width, n_maps)
            Maps of the same size as in fit.

        Returns
        -------
        maps : array of shape (n, height, width, n_maps), float32
            Group by group; in the library and on the device of X.
        """
        return self.group_features().transform(X).reshape(-1, *self.maps_shape_)

    def group_features(self, grids: Sequence[tuple[int, int]] | None = None) -> GroupFeatures:
        """Return what encodes the groups of maps: made once, it can be used for many blocks of images.

        Parameters
        ----------
        grids : sequence of tuples (rows, columns), default=None
            Cells over which codes are pooled, by default those of this layer, whose codes are its maps.

        Returns
        -------
        GroupFeatures
        """
        check_is_fitted(self, "features_")
        height, width, _ = self.maps_shape_
        cells = [(height, width)] if grids is None else list(grids)
        return GroupFeatures(self.features_, self.groups_, cells)

    def cells(self, height: int, width: int) -> tuple[int, int]:
        """Return the height and width of the output for inputs of this size; 0 if no patch fits in."""
        down, across = (-(-n // self.pool_size) for n in self.places(height, width))
        return down, across

    def places(self, height: int, width: int) -> tuple[int, int]:
        """Return how many patches an input of this size has, down and across."""
        down, across = (
            n_places(n, patch_size=self.patch_size, stride=self.stride) for n in (height, width)
        )
        return down, across

    def check_fields(self, n_maps: int) -> None:
        """Refuse fields that so many input maps do not have."""
        if isinstance(self.fields, DependencyGroups):
            self.fields.check_inputs(n_maps)
        elif self.fields is not None:
            self._by_hand(n_maps)

    def n_maps_out(self, n_maps: int) -> int | None:
        """Return the number of output maps for so many input maps, at most; None where only fit knows it."""
        if isinstance(self.encoder, str) and self.encoder.startswith("transform"):
            return None  # the transform of a learner need not say how many codes it gives
        n_codes = int(make_encoder(self.encoder).n_features_out(self.n_filters))
        fields = self.fields
        if fields is None:
            return n_codes
        if not isinstance(fields, DependencyGroups):
            return n_codes * len(fields)
        if fields.measure == "all" or n_maps <= fields.size:
            return n_codes
        return None if fields.n_groups is None else n_codes * fields.n_groups

    def _groups(self, X: Any, rng: np.random.Generator) -> list[np.ndarray]:
        n_maps = int(X.shape[3])
        if self.fields is None:
            return [np.arange(n_maps)]
        if isinstance(self.fields, DependencyGroups):
            fields = clone(self.fields)
            if fields.random_state is None:
                # Groups of two layers must not be drawn by the same seed.
                fields.set_params(random_state=int(rng.integers(2**31)))
            n = int(np.prod(X.shape[:3]))
            # With 100,000 positions a correlation of squares is off by some .003.
            chosen = np.sort(rng.choice(n, size=min(n, 100_000), replace=False))
            # All maps at some positions: a row for each.
            return list(fields.fit(take(X.reshape(n, n_maps), chosen)).groups_)
        return self._by_hand(n_maps)

    def _by_hand(self, n_maps: int) -> list[np.ndarray]:
        """Return the groups that the user gave."""
        # Sorted, so that the ends show whether all indices are valid.
        groups = [np.unique(np.asarray(group, dtype=np.int64)) for group in self.fields]
        if not groups or any(len(g) == 0 or g[0] < 0 or g[-1] >= n_maps for g in groups):
            raise ValueError(
                f"fields={self.fields!r} must be groups of indices from 0 to {n_maps - 1}, the input maps, "
                "none of them empty"
            )
        return groups


def _of_group(X: Any, group: np.ndarray) -> Any:
    """Return the maps of a group; X itself if that is all of them."""
    return X if len(group) == X.shape[3] else take(X, group, axis=3)
