"""A bank of filters D, learned from random patches: ``x -> normalise -> whiten -> D``, and how well it fits.

Patches are one place from each of n equal shares of all places at which a patch fits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, starmap
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from clusterica.arrays import (
    Array,
    Estimator,
    Place,
    active_config,
    as_generator,
    as_rows,
    check_scale,
    get_config,
    in_order,
    is_host_array,
    map_reduce,
    namespace_of,
    to_host,
    to_like,
    warn_user,
    working_memory,
)
from clusterica.cluster import (
    GainShapeKMeans,
    cluster_sizes,
    learned_vectors,
    near_empty,
    with_n_centers,
)
from clusterica.images._source import Images, Part, check_images, for_parts
from clusterica.ops.code import split_signs
from clusterica.ops.linalg import project, row_energies, unit_rows
from clusterica.ops.patch import n_places, normalize_contrast, take_patches
from clusterica.optim import Progress
from clusterica.preprocessing import ContrastNormalizer, GradientDescriptor, Whitener

LEARNERS = ("gain-shape-k-means", "patches")
_AT_ONCE = 2**14  # most patches that are cut together

# --- Random patches ---------------------------------------------------------------------------------


class Box(NamedTuple):
    """A rectangle of pixels of an image."""

    top: int
    left: int
    height: int
    width: int


class Sample(NamedTuple):
    """Patches as rows, shape (n_patches, n_features), float32, and the image that each is of."""

    patches: Array
    images: np.ndarray


def sample_patches(
    X: Any, n_patches: int, *, patch_size: int = 6, random_state: Any = None
) -> Array:
    """Cut patches out of images at random places.

    All places at which a patch fits, of all images, are divided into n_patches shares of equal size, and
    one place is drawn from each. So no patch comes twice, every image gives its share, and large
    images give more than small ones. The images are read in order, block by block.

    Parameters
    ----------
    X : array of shape (n, height, width) or (n, height, width, channels), or list of images
        NumPy array, memory map or tensor; a list may hold images of different sizes.
    n_patches : int
        Number of patches; all there are, if they are fewer.
    patch_size : int, default=6
        Side of a patch in pixels.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the draw; the same places for every library and device.

    Returns
    -------
    patches : array of shape (n_patches, patch_size * patch_size * channels), float32
        In random order, in the library and on the device of X. Reshape a row to ``(patch_size,
        patch_size, channels)`` to see the patch.

    Examples
    --------
    >>> import numpy as np
    >>> from clusterica.images import sample_patches
    >>> X = np.arange(2 * 8 * 8).reshape(2, 8, 8)
    >>> sample_patches(X, 10, patch_size=4, random_state=0).shape
    (10, 16)
    """
    for name, value in (("n_patches", n_patches), ("patch_size", patch_size)):
        if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
            raise ValueError(f"{name} is {value!r}; it must be a whole number of at least 1")
    images = check_images(X, patch_size=patch_size, caller="sample_patches")
    rng = as_generator(random_state)
    return draw(images, n_patches, patch_size=patch_size, rng=rng).patches


def draw(
    images: Images,
    n_patches: int,
    *,
    patch_size: int,
    rng: np.random.Generator,
    box: Callable[[Part], Box] | None = None,
) -> Sample:
    """Draw patches from the boxes of all images, in the library and on the device of the images."""
    boxes = [Box(0, 0, *part.shape[:2]) if box is None else box(part) for part in images.parts]
    per_image = [
        n_places(b.height, patch_size=patch_size) * n_places(b.width, patch_size=patch_size)
        for b in boxes
    ]
    sizes = [part.n_images * n for part, n in zip(images.parts, per_image, strict=True)]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    total = int(offsets[-1])
    n = min(int(n_patches), total)
    # One place from each of n equal shares: no patch comes twice, and the images are read in order.
    shares = np.arange(n + 1) * total // n
    picks = shares[:-1] + (rng.random(n) * np.diff(shares)).astype(np.int64)
    ends = np.searchsorted(picks, offsets)
    mine = [picks[a:b] - start for a, b, start in zip(ends, ends[1:], offsets, strict=False)]
    image = [own // size for own, size in zip(mine, per_image, strict=True)]
    place = [own % size for own, size in zip(mine, per_image, strict=True)]
    cut = for_parts(partial(_cut, patch_size=patch_size), images.parts, boxes, image, place)
    patches = [rows for of_part in cut for rows in of_part]
    which = [part.start + own for part, own in zip(images.parts, image, strict=True)]
    order = rng.permutation(n)
    xp = namespace_of(*patches)
    rows = xp.take(xp.concat(patches, axis=0), to_like(order, patches[0]), axis=0)
    with np.errstate(over="ignore"):  # what becomes infinite is refused by the first step
        rows = images.home.put(xp.astype(rows, xp.float32, copy=False))
    return Sample(rows, np.concatenate(which)[order])


def _cut(
    part: Part, box: Box, image: np.ndarray, place: np.ndarray, *, patch_size: int
) -> list[Array]:
    """Return the patches at the places, which are numbered row by row of the box; images in order."""
    across = n_places(box.width, patch_size=patch_size)
    top, left = box.top + place // across, box.left + place % across
    images = part.images
    on_host = is_host_array(images[0] if isinstance(images, list) else images)
    # A task of each thread and one that waits, with half of the memory: for images, counted as float64, and
    # for the index of every pixel of a patch, which is made twice.
    in_flight = active_config().n_threads + 1 if on_host else 1
    budget = get_config()["memory"] // (4 * in_flight)
    most = max(1, budget // (8 * int(np.prod(part.shape))))
    at_once = max(1, min(_AT_ONCE, budget // (16 * patch_size**2 * part.shape[2])))
    starts = [0]
    while starts[-1] < len(image):
        i = starts[-1]
        starts.append(min(i + at_once, int(np.searchsorted(image, image[i] + most))))

    def some(i: int, j: int) -> Array:
        block = part.cut(int(image[i]), int(image[j - 1]) + 1)
        # Indices go to where the images are: patches are cut there, and only these are moved.
        places = (to_like(a, block) for a in (image[i:j] - image[i], top[i:j], left[i:j]))
        return take_patches(block, *places, patch_size=patch_size)

    # By all threads: one took longer than all the rest of a fit on a GPU.
    run = in_order if on_host and len(starts) > 2 else starmap
    return list(run(some, pairwise(starts)))


# --- The bank of filters ----------------------------------------------------------------------------


class LearnerEncoder(Estimator):
    """Codes of patches by a learner's own transform: an encoder made from the learner.

    Parameters
    ----------
    both_signs : bool, default=False
        Put the positive and the negative parts of the codes side by side.
    learner : fitted transformer or None, default=None
        None until it is fitted; see `with_learner`.
    """

    def __init__(self, *, both_signs: bool = False, learner: Any = None) -> None:
        self.both_signs = both_signs
        self.learner = learner

    def with_learner(self, learner: Any) -> LearnerEncoder:
        """Return the encoder by this learner."""
        return LearnerEncoder(both_signs=self.both_signs, learner=learner)

    def prepare(self, D: Array | None) -> tuple[Array, ...]:
        """Return nothing: the learner has all that is needed, and may have no filters."""
        return ()

    def encode(self, X: Array) -> Array:
        """Return the codes of one block of whitened patches."""
        codes = apply_step(self.learner, X)
        return split_signs(codes) if self.both_signs else codes


# The words for the learner's own transform as an encoder, and whether they take both signs.
OWN_CODES = {"transform": False, "transform-both-signs": True}


@dataclass
class Bank:
    """Fitted steps, None where left out, filters as rows in the white space, and the codes of a patch."""

    normalizer: Any
    whitener: Any
    learner: Any
    filters: Array  # None if the learner has none
    encoder: Any
    n_codes: int

    @property
    def by_learner(self) -> bool:
        """Whether patches are encoded by the learner itself, and not with the filters."""
        return isinstance(self.encoder, LearnerEncoder)

    @property
    def is_plain(self) -> bool:
        """Whether the steps before the encoder are those of this library, or left out."""
        return type(self.normalizer) in (ContrastNormalizer, type(None)) and type(
            self.whitener
        ) in (Whitener, type(None))


def default_eps(patch_size: int) -> float:
    """Return the whitening constant for a size of patches: 0.1 up to 8, 0.01 from 16 on, between by log."""
    return float(10.0 ** -np.clip(1 + (patch_size - 8) / 8, 1, 2))


def make_steps(normalizer: Any, whitener: Any, patch_size: int) -> tuple[Any, Any]:
    """Return unfitted copies of the two steps before the learner, or None."""

    def is_auto(step: Any) -> bool:
        return isinstance(step, str) and step == "auto"  # some estimators raise an error for ==

    normalizer = ContrastNormalizer(eps="auto") if is_auto(normalizer) else normalizer
    whitener = Whitener(eps=default_eps(patch_size)) if is_auto(whitener) else whitener
    for name, step in (("normalizer", normalizer), ("whitener", whitener)):
        if step is not None and not (hasattr(step, "fit") and hasattr(step, "transform")):
            raise TypeError(
                f"{name}={step!r} must be 'auto', None, or an estimator with fit and transform"
            )
    return clone(normalizer, safe=False), clone(whitener, safe=False)


def make_learner(
    learner: Any, n_filters: int, rng: np.random.Generator, *, n_classes: int | None = None
) -> Any:
    """Return an unfitted copy of the learner that learns n_filters, or None for "patches"."""
    if isinstance(learner, str):
        # Older model files call it "spherical-k-means".
        if learner not in (*LEARNERS, "spherical-k-means"):
            raise ValueError(
                f"learner={learner!r} is not known; use one of {LEARNERS}, or an estimator"
            )
        if learner == "patches":
            return None
        # The labels of the patches are not needed: they would cost one more pass.
        learner = GainShapeKMeans(max_iter=20, compute_labels=False)
    if isinstance(learner, type) or not hasattr(learner, "fit"):
        # A class in place of an object has fit too, but could not be fitted.
        raise TypeError(f"learner={learner!r} must be one of {LEARNERS}, or an estimator with fit")
    # Drawn even where the learner has a seed of its own, so that what is drawn after it does not depend on
    # that.
    seed = int(rng.integers(2**31))
    return with_n_centers(learner, n_filters, random_state=seed, n_classes=n_classes)


def learn_bank(
    sample: Sample,
    labels: np.ndarray | None,
    *,
    steps: tuple[Any, Any],
    learner: Any,
    n_filters: int,
    encoder: Any,
    rng: np.random.Generator,
    progress: Progress,
) -> Bank:
    """Learn filters from patches.

    Parameters
    ----------
    sample : Sample
        Patches, and the image that each is of.
    labels : ndarray of shape (n_images,) or None
        Labels of the images, for learners that need them.
    steps : tuple
        The normaliser and the whitener, unfitted, or None.
    learner : estimator or None
        Unfitted; None takes patches themselves.
    n_filters : int
        Number of filters.
    encoder : encoder or LearnerEncoder
        What will encode patches: with the filters, or the learner itself.
    rng : Generator
        Draws the patches where they are the filters.
    progress : Progress
        Task of which the learner's fit is a part.
    """
    rows, of_image = sample
    del sample  # the patches as they were need not be kept beside those that are normalised
    if rows.shape[0] < n_filters:
        raise ValueError(
            f"n_filters={n_filters} is more than the {rows.shape[0]} patches to learn from; raise "
            "n_patches, give more images, or lower n_filters"
        )
    xp = namespace_of(rows)
    if not bool(xp.any(xp.max(rows, axis=1) != xp.min(rows, axis=1))):
        warn_user(
            "all patches are of one colour, so that there is nothing to learn; check that the images are "
            "not blank"
        )
    check_scale(as_rows(rows))
    normalizer, whitener = steps
    for step in steps:
        if step is not None:
            rows = apply_step(step.fit(_input_for(step, rows)), rows)
    if learner is None:
        # Random rows, those of zeros last: they have no direction, but there may be too few others.
        order = rng.permutation(rows.shape[0])
        nonzero = to_host(row_energies(rows) > 0)[order]
        order = np.concatenate([order[nonzero], order[~nonzero]])
        filters = unit_rows(xp.take(rows, to_like(order[:n_filters], rows), axis=0))
        n_codes = encoder.n_features_out(n_filters)
        return Bank(normalizer, whitener, None, filters, encoder, n_codes)
    y = None
    # Every patch has the label of its image: weak, but all that there is for supervised filters.
    last = learner[-1] if isinstance(learner, Pipeline) else learner
    if get_tags(last).target_tags.required:
        if labels is None:
            raise ValueError(
                f"{type(last).__name__} learns from labels; call fit(X, y) with a label for every image"
            )
        y = labels[of_image]
    with progress.lend_to(learner, "filters"):
        learner.fit(_input_for(learner, rows), y)
    _warn_if_near_empty(learner, rows)
    if isinstance(encoder, LearnerEncoder):
        filters = learned_filters(learner, rows, required=False)
        encoder = encoder.with_learner(learner)
        # A transform need not say how many codes it gives: two rows show it.
        n_codes = encoder.encode(rows[:2, :]).shape[1]
    else:
        filters = learned_filters(learner, rows, required=True)
        n_codes = encoder.n_features_out(filters.shape[0])
    return Bank(normalizer, whitener, learner, filters, encoder, n_codes)


def learned_filters(learner: Any, rows: Array, *, required: bool) -> Array:
    """Return what a fitted learner learned, one filter per row, float32 and where the rows are."""
    # Several attributes may hold vectors; filters are those with a number for every whitened pixel.
    for vectors in learned_vectors(learner):
        if vectors.ndim == 2 and vectors.shape[1] == rows.shape[1]:
            return to_like(np.asarray(to_host(vectors), dtype=np.float32), rows)
    if required:
        raise TypeError(
            f"{type(learner).__name__} has neither cluster_centers_ nor components_ that are filters of "
            f"patches, of shape (n_filters, {rows.shape[1]}); use encoder='transform' to encode patches by "
            "its own transform"
        )
    return None


def in_pixels(bank: Bank, *, patterns: bool) -> Array:
    """Return the filters as those of normalised pixels, D T, or as patterns that whiten to them."""
    described = isinstance(bank.normalizer, GradientDescriptor)  # its output is not pixels
    if bank.filters is None or described or not isinstance(bank.whitener, Whitener | None):
        raise AttributeError(
            "there are no filters in pixels: that takes filters_ of patches, and a Whitener or none"
        )
    if bank.whitener is None:
        return bank.filters
    # A response is d·T(x - m) = (dT)·(x - m): the filter is dT. What it looks for whitens to d: T⁻¹ d.
    return bank.filters @ (bank.whitener.dewhitening_.T if patterns else bank.whitener.whitening_)


def apply_step(step: Any, rows: Array) -> Array:
    """Return the rows transformed by a fitted estimator, as float32 and where the rows are."""
    values = step.transform(_input_for(step, rows))
    # Estimators of other libraries may return float64, data frames, or arrays in host memory.
    if type(values) is type(rows) and values.dtype == rows.dtype:
        return values
    return to_like(np.asarray(to_host(values), dtype=np.float32), rows)


def is_ours(estimator: Any) -> bool:
    """Return whether an estimator, or a base of it, is of this library, so that it takes any array.

    A pipeline is if all its steps are.
    """
    if isinstance(estimator, Pipeline):
        return all(is_ours(step) for _, step in estimator.steps)
    return any(base.__module__.startswith("clusterica.") for base in type(estimator).__mro__)


def _input_for(estimator: Any, rows: Array) -> Array:
    """Return rows as an estimator takes them: those of other libraries work in host memory."""
    return rows if is_ours(estimator) else to_host(rows)


def stages(bank: Bank, place: Place) -> list[tuple[str, Callable[[Array], Array]]]:
    """Return what is done to rows of pixels before they are encoded: names and functions of a block."""
    steps: list[tuple[str, Callable[[Array], Array]]] = []
    # Our own steps are functions of a block, without the validation that an estimator repeats for each.
    if type(bank.normalizer) is ContrastNormalizer:
        steps.append(("normalized", partial(normalize_contrast, eps=bank.normalizer.eps_)))
    elif bank.normalizer is not None:
        steps.append(("normalized", partial(apply_step, bank.normalizer)))
    if type(bank.whitener) is Whitener:
        T, mean = (place.put(to_host(a)) for a in (bank.whitener.whitening_, bank.whitener.mean_))
        steps.append(("whitened", partial(project, B=T, mean=mean)))
    elif bank.whitener is not None:
        steps.append(("whitened", partial(apply_step, bank.whitener)))
    return steps


class Unexplained(NamedTuple):
    """Sums over rows of what is left of their squared length, and of all of it."""

    left: Array
    total: Array


def unexplained(patches: Array, bank: Bank) -> Unexplained:
    """Return ``sum_i min over j, s of |x_i - s d_j|^2`` and ``sum_i |x_i|^2`` of whitened patches."""
    if bank.filters is None:
        raise ValueError(
            f"{type(bank.learner).__name__} has no filters to reconstruct patches from; use the score of "
            "the learner itself"
        )
    place = Place.of_work(Place(patches))
    rows = place.put(patches)
    for _, step in stages(bank, place):
        rows = step(rows)
    # The best gain of a unit filter is its response, and leaves |x|² - (d·x)².
    D = unit_rows(np.asarray(to_host(bank.filters), np.float32))
    total: Unexplained = map_reduce(_unexplained, as_rows(rows), D)
    return total


@working_memory(lambda row, D: 3 * row.itemsize * D.shape[0])
def _unexplained(X: Array, D: Array) -> Unexplained:
    xp = namespace_of(X)
    best, total = xp.max((X @ D.T) ** 2, axis=1), row_energies(X)
    return Unexplained(xp.sum(xp.clip(total - best, min=0)), xp.sum(total))


def _warn_if_near_empty(learner: Any, rows: Array) -> None:
    """Warn, with likely causes, if many clusters are nearly empty (Coates & Ng, note 1)."""
    sizes = cluster_sizes(learner)
    if sizes is None:
        return
    (n, d), k = rows.shape, len(sizes)
    n_small = int(near_empty(sizes).sum())
    if n_small <= 0.1 * k:  # a few are normal, and do no harm
        return
    causes = ["the epsilon of the whitening or of the normalisation is too small or too large"]
    # More than 12 x 12 colour pixels, or fewer than 50 patches a filter: rules of thumb. The paper advises
    # patches of 6 or 8 pixels, and 500,000 of them and more.
    if d > 500:
        causes.insert(0, f"patches of {d} numbers are too large for clusters; lower patch_size")
    if n < 50 * k:
        causes.insert(0, f"{n} patches are too few for {k} filters; raise n_patches")
    warn_user(
        f"{n_small} of {k} clusters are near-empty; the likely cause first: {'; or '.join(causes)}"
    )
