"""A model and the images that it is used on, read in blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from clusterica import __version__
from clusterica.arrays import get_config, to_host
from clusterica.cli._console import note, progress_of, stop
from clusterica.cli._files import Partial, file_checksum, fingerprint
from clusterica.cli._learn import networks_of
from clusterica.cli.inputs.usable import Found, OnError, find_usable, open_folder_or_array


class _Input(NamedTuple):
    """What a model takes: number of channels, the size of images where it is fixed, and the least side."""

    channels: int
    size: tuple[int, int] | None
    smallest: int = 1


class Job:
    """A model and the images it is used on."""

    def __init__(self, path: Path, images: str, on_error: OnError) -> None:
        from clusterica.io import load, load_summary

        self.model = load(path)
        summary = load_summary(path) or {}
        needs = _input_of(self.model, summary.get("size"))
        if needs is None:
            kind = type(self.model).__name__
            stop(f"{path} holds {kind}, which takes rows of numbers and not images.")
        self.path, self.needs, self.on_error = path, needs, on_error
        self.source = open_folder_or_array(images)
        self.is_own_data = (summary.get("data") or {}).get("source") == images

    def key(self, *options: Any) -> str:
        """Return a checksum of all that decides the result; only a run of the same may go on."""
        images = (self.source.key, len(self.source.names))
        return fingerprint(__version__, file_checksum(self.path), images, self.on_error, options)

    def _find(self, start: int, stop_at: int) -> Found:
        color = "grey" if self.needs.channels == 1 else "rgb"
        return find_usable(
            self.source,
            start,
            stop_at,
            color=color,
            size=self.needs.size,
            smallest=self.needs.smallest,
            on_error=self.on_error,
        )

    def blocks(self, done: int, size: int) -> Iterator[tuple[int, int, Found]]:
        """Yield start, stop and images of the blocks that are not done, with a progress bar."""
        n = len(self.source.names)
        with progress_of(n, "images", done=done) as advance:
            for start in range(done, n, size):
                stop_at = min(start + size, n)
                yield start, stop_at, self._find(start, stop_at)
                advance(stop_at - start)

    def block_size(self) -> int:
        """Return how many images are read at a time: a function of the memory, not of the machine."""
        for i in range(len(self.source.names)):
            first = self._find(i, i + 1).images
            if len(first):
                break
        else:
            stop(f"none of the images in {self.source.path} can be used.")
        # Pixels as bytes and as float32, and the features.
        per_image = 5 * first.size + 4 * int(getattr(self.model, "n_features_out_", 0))
        # A quarter of the memory, for what is computed on the way. At most 1,000: more are not faster, and a
        # run that is stopped loses its block.
        return int(min(1000, max(1, get_config()["memory"] // (4 * per_image))))

    def rows(self, compute: Callable[[Any], np.ndarray], found: Found, n_rows: int) -> np.ndarray:
        """Return the features of a block, NaN for images that are skipped."""
        if len(found.places) == n_rows:
            return compute(found.images)
        images = found.images
        if not found.places:  # any image tells how many features there are
            side = self.needs.size or (self.needs.smallest, self.needs.smallest)
            images = np.zeros((1, *side, self.needs.channels), np.uint8)
        values = compute(images)
        rows = np.full((n_rows, values.shape[1]), np.nan, values.dtype)
        rows[found.places] = values[: len(found.places)]
        return rows

    def features(self) -> Callable[[Any], np.ndarray] | None:
        """Return the function from images to features, of a classifier that of its networks; or None."""
        from sklearn.pipeline import Pipeline

        from clusterica.networks import Committee, ImageClassifier

        model = self.model
        if isinstance(model, Pipeline) and hasattr(model, "predict"):
            model = model[:-1]
        if isinstance(model, Committee | ImageClassifier):
            networks = networks_of(model)
            return lambda X: np.concatenate([to_host(one.transform(X)) for one in networks], axis=1)
        if not hasattr(model, "transform"):
            return None
        return lambda X: np.asarray(to_host(model.transform(X)))

    @contextmanager
    def stopped_at(self, partial: Partial) -> Iterator[None]:
        """Say after Ctrl-C or an error how to go on; where nothing is done, leave nothing."""
        try:
            yield
        except BaseException:
            done, n = partial.state.get("done", 0), len(self.source.names)
            if done:
                note(f"{done:,} of {n:,} images are done. Run the same command again to resume.")
            else:
                partial.discard()
            raise


def _input_of(model: Any, size: Any) -> _Input | None:
    """Return what a model of images takes; None for models of rows."""
    from sklearn.pipeline import Pipeline

    from clusterica.images import ImageFeatures
    from clusterica.networks import Committee, FeatureNetwork, ImageClassifier

    if isinstance(model, Pipeline):
        return _input_of(model.steps[0][1], size)
    if isinstance(model, Committee):
        return _input_of(model.members_[0], size)
    if isinstance(model, ImageClassifier):
        return _input_of(model.networks_[0], size)
    if isinstance(model, FeatureNetwork):
        height, width, channels = model.image_shape_
        return None if height == width == 1 else _Input(channels, (height, width))
    if isinstance(model, ImageFeatures):
        if size is not None:
            return _Input(model.n_channels_in_, (int(size[0]), int(size[1])))
        # So many pixels that every cell has a place for a patch.
        grids = model.grid if isinstance(model.grid, list) else [model.grid]
        cells = max(n * m for grid in grids for n, m in zip(grid, model.regions, strict=True))
        return _Input(model.n_channels_in_, None, model.patch_size + (cells - 1) * model.stride)
    return None
