"""Features of images whose channels come in groups, each encoded with filters of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from clusterica.arrays import Array, as_chunks, check_model_device, map_chunks, namespace_of
from clusterica.images._bank import Bank
from clusterica.images._convolve import Coder, encode_images, make_coder
from clusterica.images._features import ImageFeatures, check_cells, warn_of_range
from clusterica.images._source import Images, check_images


class GroupFeatures:
    """Encode groups of channels, each by an :class:`ImageFeatures` of its own, in one walk over the images.

    What every one of them gives for its channels, side by side. The channels of a group are gathered while a
    few images are in cache: where there are hundreds of maps and many groups, this takes much less time than
    to copy them out of all images.

    Parameters
    ----------
    features : sequence of ImageFeatures
        Fitted, without regions, and all with the same patch size, stride and pooling.
    groups : sequence of ndarray
        Channels that each of them sees.
    grid : tuple (rows, columns) or list of such tuples
        Cells over which codes are pooled, in place of those of ``features``.

    Examples
    --------
    >>> import numpy as np
    >>> from clusterica.images import GroupFeatures, ImageFeatures
    >>> X = np.random.default_rng(0).integers(0, 256, size=(50, 8, 8, 4))
    >>> groups = [np.array([0, 1, 2]), np.array([3])]  # colour and depth
    >>> parts = [ImageFeatures(5, patch_size=3, random_state=0).fit(X[..., g]) for g in groups]
    >>> GroupFeatures(parts, groups, (2, 2)).transform(X).shape  # 5 filters of both signs, twice
    (50, 4, 20)
    """

    def __init__(
        self, features: Sequence[ImageFeatures], groups: Sequence[np.ndarray], grid: Any
    ) -> None:
        for one in features:
            check_is_fitted(one, "n_features_out_")
        self._features, self._groups = list(features), list(groups)
        self._shape = features[0]._shape(grid)
        self._banks: list[Bank] = [one._banks()[0] for one in features]
        self._coders: dict[tuple[str, bool], list[Coder]] = {}

    @property
    def n_codes(self) -> list[int]:
        """Number of codes of a patch, for every group."""
        return [bank.n_codes for bank in self._banks]

    def transform(self, X: Any) -> Array:
        """Return the pooled codes of all groups.

        Parameters
        ----------
        X : array of shape (n, height, width, n_channels)
            Images: NumPy array, memory map, tensor or Dask array.

        Returns
        -------
        codes : array of shape (n, n_cells, n_codes), float32
            Group by group within a cell; in the library and on the device of X.
        """
        images = self._checked(X)
        chunks = as_chunks(X)
        if chunks is not None:
            like = np.empty((1, self._shape.n_cells, sum(self.n_codes)), np.float32)
            return map_chunks(self.transform, chunks, like=like)
        features, n_failed = encode_images(
            images,
            self._coders_at(images),
            self._shape,
            self.n_codes,
            groups=self._groups,
        )
        if n_failed:
            self._features[0].encoder_.warn_not_converged(n_failed)
        # Cells first: a cell of all groups is a pixel of the maps that the next layer sees.
        parts, end, xp = [], 0, namespace_of(features)
        for n in self.n_codes:
            start, end = end, end + n * self._shape.n_cells
            parts.append(xp.reshape(features[:, start:end], (-1, self._shape.n_cells, n)))
        return parts[0] if len(parts) == 1 else xp.concat(parts, axis=2)

    def warn_of_range(self, X: Any) -> None:
        """Warn if images have values up to 1 and those in fit had up to 255, or the other way round."""
        if as_chunks(X) is None:
            warn_of_range(self._checked(X), max(one.largest_pixel_ for one in self._features))

    def _checked(self, X: Any) -> Images:
        images = check_images(X, patch_size=self._shape.patch_size, caller="GroupFeatures")
        check_cells(images, self._shape, f"grid={self._shape.grids}")
        last = max(int(group.max()) for group in self._groups)
        if last >= images.n_channels:
            raise ValueError(
                f"X has {images.n_channels} channels, and a group has channel {last}; give images or maps "
                "with as many channels as those in fit"
            )
        if self._banks[0].filters is not None:
            check_model_device(self._features[0], images.home, self._banks[0].filters)
        return images

    def _coders_at(self, images: Images) -> list[Coder]:
        """Return the coders where the images are worked on, made once for all calls."""
        place = images.place
        key = place.name, place.is_numpy  # a tensor of the host is worked on by other coders
        if key not in self._coders:
            self._coders[key] = [make_coder(bank, place, self._shape) for bank in self._banks]
        return self._coders[key]
