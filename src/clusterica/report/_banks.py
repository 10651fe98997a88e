"""Summaries of the filters of first layers: pictures, cluster sizes, and numbers of their responses."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.pipeline import Pipeline

from clusterica.arrays import to_host
from clusterica.cluster import cluster_sizes, near_empty
from clusterica.display import tile_images
from clusterica.images import ImageFeatures, sample_patches
from clusterica.networks import Committee, FeatureNetwork, ImageClassifier
from clusterica.report._measures import as_bytes, measure_responses, spectral_peaks

# Patches that excite a filter most: a row of them fits on a phone.
N_STRONGEST = 8
# Bytes of pictures of filters and of patches for the whole summary, and filters whose patches are kept. In
# base64 they take a third more, so that a page stays under 10 MB.
FILTER_BYTES, PATCH_BYTES, MOST_WITH_PATCHES = 3_000_000, 2_500_000, 400


class Network(NamedTuple):
    """Image features or a network inside a model, by name, and the steps of a pipeline before it."""

    name: str
    features: Any
    before: Any = None


class FilterBank(NamedTuple):
    """One set of filters of a first layer: of a region or of a group of channels."""

    name: str
    features: ImageFeatures
    region: int
    channels: np.ndarray | None
    before: Any

    def of_region(self, value: Any) -> Any:
        """Return the part of an attribute that belongs to the region; with one region there is no list."""
        return value[self.region] if isinstance(value, list) else value

    def patches(
        self, images: Any, n: int, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return patches of the images as rows, of its channels, and what the learner got of them."""
        if self.before is not None:
            images = self.before.transform(images)
        size = self.features.patch_shape_[0]
        rows = np.asarray(to_host(sample_patches(images, n, patch_size=size, random_state=rng)))
        if self.channels is not None:
            pixels = rows.reshape(len(rows), size * size, -1)
            rows = pixels[:, :, self.channels].reshape(len(rows), -1)
        white = rows
        for step in (self.features.normalizer_, self.features.whitener_):
            step = self.of_region(step)
            if step is not None:
                white = np.asarray(to_host(step.transform(white)), np.float32)
        return rows, white

    def pictures(self, filters: np.ndarray) -> np.ndarray:
        """Return the patterns of pixels that whiten to the filters, shape (n, height, width, channels)."""
        try:
            patterns = np.asarray(
                to_host(self.of_region(self.features.pixel_patterns_)), np.float32
            )
        except AttributeError:
            # Another whitener, which can't be undone: filters as they are, if they fit.
            patterns = filters
        if patterns.shape[1] != np.prod(self.features.patch_shape_):
            return np.zeros((len(filters), *self.features.patch_shape_), np.float32)
        return patterns.reshape(-1, *self.features.patch_shape_)


def find_networks(model: Any) -> list[Network]:
    """Return the image features and networks inside a model; none in a learner of rows."""
    if isinstance(model, ImageFeatures | FeatureNetwork):
        return [Network("", model)]
    if isinstance(model, ImageClassifier):
        many = len(model.networks_) > 1
        return [
            Network(f"network {i}" if many else "", n) for i, n in enumerate(model.networks_, 1)
        ]
    if isinstance(model, Committee):
        return [
            found._replace(name=f"member {i} {found.name}".strip())
            for i, member in enumerate(model.members_, 1)
            for found in find_networks(member)
        ]
    if isinstance(model, Pipeline):
        for i, (_, step) in enumerate(model.steps):
            inner = find_networks(step)
            if inner:
                return [n._replace(before=model[:i] if i else None) for n in inner]
    return []


def layer_rows(networks: list[Network]) -> list[dict[str, Any]]:
    """Return a row for every layer: where it is, its filters, groups, patches, and shape of its output."""
    rows = []
    for name, model, _ in networks:
        if isinstance(model, ImageFeatures):
            shape = "x".join(map(str, model.patch_shape_))
            rows.append(
                {
                    "network": name,
                    "layer": 1,
                    "groups": [model.n_channels_in_],
                    "n_filters": model.n_filters,
                    "patch": shape,
                    "output": f"{model.n_features_out_} features",
                }
            )
            continue
        for i, layer in enumerate(model.layers_, 1):
            rows.append(
                {
                    "network": name,
                    "layer": i,
                    "groups": [len(group) for group in layer.groups_],
                    "n_filters": layer.n_filters,
                    "patch": "x".join(map(str, layer.features_[0].patch_shape_)),
                    "output": "x".join(map(str, layer.maps_shape_)),
                }
            )
    return rows


def summarize_banks(
    networks: list[Network], images: Any, *, n_patches: int, rng: np.random.Generator
) -> list[dict[str, Any]]:
    """Summarize the filters of every first layer; see `clusterica.report.summarize`."""
    banks: list[FilterBank] = []
    for name, model, before in networks:
        parts: list[tuple[str, ImageFeatures, np.ndarray | None]] = [(name, model, None)]
        if not isinstance(model, ImageFeatures):
            first = model.layers_[0]
            several = len(first.features_) > 1
            parts = [
                (f"{name} group {i}".strip() if several else name, one, group if several else None)
                for i, (one, group) in enumerate(
                    zip(first.features_, first.groups_, strict=True), 1
                )
            ]
        for title, features, channels in parts:
            n_regions = len(features.n_codes_)
            for region in range(n_regions):
                where = f"{title} region {region + 1}".strip() if n_regions > 1 else title
                banks.append(FilterBank(where, features, region, channels, before))
    # A first image of rows without geometry is one pixel: there is nothing to show in its place.
    banks = [bank for bank in banks if bank.features.patch_shape_[0] > 1]
    return [_summarize_bank(bank, images, n_patches, rng, share=len(banks)) for bank in banks]


def spectrum_of(whitener: Any) -> dict[str, Any] | None:
    """Return the eigenvalues of a fitted whitener and its eps, None if it has none."""
    eigenvalues = getattr(whitener, "eigenvalues_", None)
    if eigenvalues is None:
        return None
    return {
        "eigenvalues": np.asarray(to_host(eigenvalues), np.float64),
        "eps": float(getattr(whitener, "eps_", 0.0)),
    }


def history_of(learner: Any) -> dict[str, Any] | None:
    """Return the objective of a fitted learner after each iteration, None if it has none."""
    history = np.asarray(to_host(getattr(learner, "objective_history_", [])), np.float64)
    if len(history) < 2:
        return None
    return {
        "objective": history,
        "n_iter": int(getattr(learner, "n_iter_", len(history) - 1)),
        "max_iter": getattr(learner, "max_iter", None),
        "learner": type(learner).__name__,
    }


def _summarize_bank(
    bank: FilterBank, images: Any, n_patches: int, rng: np.random.Generator, *, share: int
) -> dict[str, Any]:
    """Summarize one bank, within its share of the bytes of a page."""
    features = bank.features
    learner, whitener = map(bank.of_region, (features.learner_, features.whitener_))
    sizes = cluster_sizes(learner)
    seen = getattr(whitener, "n_samples_seen_", None)
    found: dict[str, Any] = {
        "name": bank.name,
        "learner": "patches" if learner is None else type(learner).__name__,
        "n_learned_from": seen if seen is not None or sizes is None else int(sizes.sum()),
        "spectrum": spectrum_of(whitener),
        "history": history_of(learner),
        "n_filters": 0,
    }
    if not hasattr(features, "filters_"):
        return found
    filters = np.asarray(to_host(bank.of_region(features.filters_)), np.float32)
    pictures = bank.pictures(filters)
    rank = np.arange(len(filters), 0, -1.0)  # the first ones, if nothing else is known
    if images is not None:
        rows, white = bank.patches(images, n_patches, rng)
        responses = measure_responses(white, filters, n_strongest=N_STRONGEST)
        sizes = np.bincount(responses.nearest, minlength=len(filters)) if sizes is None else sizes
        # A filter that is the nearest of no patch says nothing, however sparse it is.
        known = np.isfinite(responses.kurtosis) & ~near_empty(sizes)
        rank = np.where(known, responses.kurtosis, -np.inf)
    kept = np.sort(_largest(rank, FILTER_BYTES // (share * pictures[0].size)))
    found |= _look(pictures, sizes, kept, features.patch_shape_)
    if images is not None:
        n_shown = min(
            MOST_WITH_PATCHES // share, PATCH_BYTES // (share * N_STRONGEST * rows.shape[1])
        )
        chosen = np.sort(_largest(rank, n_shown))
        # Each over its own range, shape (n_shown, N_STRONGEST, height, width, channels).
        patches = as_bytes(rows[responses.strongest[chosen]], 2)
        patches = patches.reshape(*patches.shape[:2], *features.patch_shape_)
        if patches.shape[4] not in (1, 3):
            patches = patches.mean(axis=4, keepdims=True).astype(np.uint8)
        found |= {
            "n_sampled": len(rows),
            "kurtosis": responses.kurtosis.astype(np.float32),
            "histogram": responses.histogram[kept],
            "patches_of": chosen,
            "patches": patches,
        }
    return found


def _look(
    pictures: np.ndarray, sizes: np.ndarray | None, kept: np.ndarray, patch_shape: tuple[int, ...]
) -> dict[str, Any]:
    """Return pictures of the kept filters, and the peaks of the spectra and the sizes of all."""
    peaks = spectral_peaks(pictures.astype(np.float64))
    shown = pictures[kept]
    if shown.shape[3] not in (1, 3):  # of other numbers of channels, their mean
        shown = shown.mean(axis=3, keepdims=True)
    # Each is scaled by its largest value, as FiltersDisplay does.
    shape = shown.shape[1:3] if shown.shape[3] == 1 else shown.shape[1:]
    column = tile_images(shown.reshape(len(shown), -1), shape=shape, n_columns=1, pad=0)
    found: dict[str, Any] = {
        "n_filters": len(pictures),
        "patch_shape": list(patch_shape),
        "frequency": peaks.frequency.astype(np.float32),
        "orientation": peaks.orientation.astype(np.float32),
        "index": kept,
        "pixels": np.rint(255 * column).astype(np.uint8).reshape(shown.shape),
    }
    if sizes is not None:
        shares = np.asarray(sizes, np.float64) / (float(np.sum(sizes)) or 1.0)
        found |= {"size": shares.astype(np.float32), "empty": near_empty(sizes)}
    return found


def _largest(values: np.ndarray, n: int) -> np.ndarray:
    """Return the indices of the n largest values, the largest first."""
    return np.argsort(-values, kind="stable")[: max(1, n)]
