"""Features of images: ``pool(encode(whiten(normalise(patch)); D))`` with filters D learned from patches."""

from __future__ import annotations

from contextlib import nullcontext
from copy import copy
from numbers import Integral
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
    check_model_device,
    fit_context,
    map_chunks,
    one_blas_thread,
    to_host,
    warn_user,
)
from clusterica.encoders import make_encoder
from clusterica.images._bank import (
    OWN_CODES,
    Bank,
    Box,
    LearnerEncoder,
    Sample,
    draw,
    in_pixels,
    learn_bank,
    make_learner,
    make_steps,
    stages,
    unexplained,
)
from clusterica.images._convolve import (
    Encoded,
    PatchEncoder,
    Shape,
    encode_images,
    make_coder,
)
from clusterica.images._source import (
    Images,
    Part,
    check_grid,
    check_image_labels,
    check_images,
    warn_if_alpha,
)
from clusterica.ops.patch import CellPooling, Grid
from clusterica.optim import fit_progress


class ImageFeatures(
    CallbackSupportMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, Estimator
):
    r"""Features of images by filters learned from their patches.

    The pipeline of [1]_. fit draws patches at random, normalises their contrast, whitens them and learns
    a dictionary of filters :math:`D`. transform takes all patches of an image, encodes each as
    :math:`f(x; D)`, and pools the codes over the cells of a grid. No label is used, unless the learner
    asks for labels.

    Parameters
    ----------
    n_filters : int, default=1600
        Number of filters; more almost always help. :func:`clusterica.cluster.with_n_centers` sets it on the
        learner, mostly as ``n_clusters`` or ``n_components``.
    patch_size : int, default=6
        Side of a patch in pixels. 6 and 8 work well; much larger patches need very many of them.
    n_patches : int, default=400_000
        Number of patches to learn from; see :func:`sample_patches`.
    normalizer : "auto", transformer or None, default="auto"
        First step on a patch: by default a :class:`~clusterica.preprocessing.ContrastNormalizer` with the
        constant of [1]_, 10 for pixels in 0..255, scaled to the range of the pixels.
    whitener : "auto", transformer or None, default="auto"
        Second step: by default a :class:`~clusterica.preprocessing.Whitener` with the constants of
        [1]_, 0.1 up to 8 x 8 pixels and 0.01 from 16 x 16 on, between them interpolated.
    learner : {"gain-shape-k-means", "patches"} or estimator, default="gain-shape-k-means"
        What learns the filters: 20 iterations of :class:`~clusterica.cluster.GainShapeKMeans`, or any
        estimator with ``cluster_centers_`` or ``components_``, of this library or of scikit-learn.
        "patches" takes random whitened patches of unit length as they are. A pipeline, whose last step gets
        the number of filters, encodes by its own transform, such as kernel RICA in white kernel space:
        ``make_pipeline(KernelWhitener(100), RICA(unit_norm=False, pooling="2d"))``.
    encoder : str or encoder, default="soft-threshold"
        How a patch is encoded: "hard", "triangle", "soft-threshold", "sigmoid", "sparse", "omp",
        "kernel-sparse", "llc", or an encoder of :mod:`clusterica.encoders`. "transform" calls the learner's
        own transform, whose codes must not cancel out when pooled; "transform-both-signs" puts their positive
        and negative parts side by side.
    stride : int, default=1
        Step from one patch of an image to the next, in pixels.
    pooling : {"sum", "mean", "max", "l2", "gaussian"}, default="sum"
        How the codes of a cell become one. "gaussian" is a mean over the whole image, or region, with
        Gaussian weights about the middle of the cell; their standard deviations are half its height and
        half its width; no fused kernels of GPUs compute it. For images of different sizes "mean" and
        "gaussian" do not depend on the size.
    grid : tuple (rows, columns) or list of such tuples, default=(2, 2)
        Cells over which codes are pooled. Several grids make a spatial pyramid, such as
        ``[(1, 1), (2, 2), (4, 4)]``. Where the places of patches can't be divided evenly, the first
        cells are one place larger.
    regions : tuple (rows, columns), default=(1, 1)
        Learn filters of their own, n_filters from n_patches patches, in every region of the image
        (section 5 of [1]_). Each region is pooled over a grid of its own, and the features of all
        regions are put side by side. Meant for images that are aligned, such as faces.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the patches and of a learner without a seed of its own; the same on every device.

    Attributes
    ----------
    filters_ : array of shape (n_filters, n_white)
        The dictionary, in the space of whitened patches; a list of them if there are several regions.
        Not there if the learner encodes patches itself and has none.
    normalizer_, whitener_, learner_ : estimators
        The fitted steps, None where left out; lists of them if there are several regions.
    encoder_ : encoder
        The encoder in use.
    n_codes_ : list of int
        Number of codes of a patch, for every region.
    patch_shape_ : tuple (patch_size, patch_size, channels)
        Shape of a patch as a picture.
    largest_pixel_ : float
        The largest value in a few of the images; transform warns if others are in another range.
    n_channels_in_ : int
        Number of channels of the images.
    n_features_out_ : int
        Number of features of an image: regions x cells x codes of a patch.

    Notes
    -----
    Features are float32, region by region, cell by cell and code by code. On the CPU the steps from
    patch to feature are compiled into one for the encoders hard, triangle, soft threshold and sigmoid,
    with the whitening folded into the filters, so that codes of single patches are never written to
    memory. Everything else runs step by step on blocks of images within the memory budget of
    :func:`clusterica.config_context`. Besides, fit holds the patches it learns from, twice.

    References
    ----------
    .. [1] A. Coates and A. Y. Ng, "Learning feature representations with K-means", 2012.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from clusterica.images import ImageFeatures
    >>> X = load_digits().images
    >>> features = ImageFeatures(n_filters=32, patch_size=4, random_state=0).fit_transform(X)
    >>> features.shape  # 2 x 2 cells, 32 filters of both signs
    (1797, 256)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_filters": [Interval(Integral, 1, None, closed="left")],
        "patch_size": [Interval(Integral, 1, None, closed="left")],
        "n_patches": [Interval(Integral, 2, None, closed="left")],
        "normalizer": "no_validation",
        "whitener": "no_validation",
        "learner": "no_validation",
        "encoder": "no_validation",
        "stride": [Interval(Integral, 1, None, closed="left")],
        "pooling": [StrOptions({"sum", "mean", "max", "l2", "gaussian"})],
        "grid": [tuple, list],
        "regions": [tuple, list],
        "random_state": ["random_state", np.random.Generator],
    }

    # Twelve parameters: one for each step of the pipeline, and the sizes that the steps share.
    def __init__(
        self,
        n_filters: int = 1600,
        *,
        patch_size: int = 6,
        n_patches: int = 400_000,
        normalizer: Any = "auto",
        whitener: Any = "auto",
        learner: Any = "gain-shape-k-means",
        encoder: Any = "soft-threshold",
        stride: int = 1,
        pooling: str = "sum",
        grid: Any = (2, 2),
        regions: Grid = (1, 1),
        random_state: Any = None,
    ) -> None:
        self.n_filters = n_filters
        self.patch_size = patch_size
        self.n_patches = n_patches
        self.normalizer = normalizer
        self.whitener = whitener
        self.learner = learner
        self.encoder = encoder
        self.stride = stride
        self.pooling = pooling
        self.grid = grid
        self.regions = regions
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the filters from patches of the images.

        Parameters
        ----------
        X : array of shape (n, height, width) or (n, height, width, channels), or list of images
            NumPy array, memory map, tensor or Dask array, of integers or floats; a list may hold images
            of different sizes. Read in order, in blocks, and not as a whole.
        y : array-like of shape (n,), optional
            Labels of the images. Each patch gets that of its image, if the learner needs labels.

        Returns
        -------
        self
        """
        # First, so that a wrong encoder is an error before the images are read.
        encoder = self._make_encoder()
        images = self._checked(X, reset=True)
        labels = None if y is None else check_image_labels(y, images.n_images)
        rng, shape = as_generator(self.random_state), self._shape()
        n_regions = int(np.prod(shape.regions))
        n_classes = None if labels is None else len(np.unique(labels))
        progress = fit_progress(self, n_regions, X=X, y=y)
        # For patches of usual size, products between two walks are small. BLAS threads that they wake would
        # wait for more beside the worker threads: a fit of 20,000 patches is a quarter slower then.
        small = self.patch_size**2 * images.n_channels <= 1024
        with one_blas_thread() if small else nullcontext():
            banks = [
                learn_bank(
                    self._draw(images, self.n_patches, region, rng),
                    labels,
                    steps=make_steps(self.normalizer, self.whitener, self.patch_size),
                    learner=make_learner(self.learner, self.n_filters, rng, n_classes=n_classes),
                    n_filters=self.n_filters,
                    encoder=encoder,
                    rng=rng,
                    progress=progress,
                )
                for region in range(n_regions)
            ]
        # With one region the attributes are the steps themselves, not lists of one.
        self.normalizer_ = _one_or_all([bank.normalizer for bank in banks])
        self.whitener_ = _one_or_all([bank.whitener for bank in banks])
        self.learner_ = _one_or_all([bank.learner for bank in banks])
        self.__dict__.pop("filters_", None)  # of an earlier fit, with another learner
        if all(bank.filters is not None for bank in banks):
            self.filters_ = _one_or_all([bank.filters for bank in banks])
        self.encoder_ = encoder
        self.patch_shape_ = (self.patch_size, self.patch_size, images.n_channels)
        self.n_channels_in_ = images.n_channels
        # So that transform can warn of images in another range, which would go unnoticed otherwise.
        self.largest_pixel_ = images.largest_pixel()
        self.n_codes_ = [bank.n_codes for bank in banks]
        self.n_features_out_ = sum(self.n_codes_) * shape.n_cells
        progress.end()
        return self

    def transform(self, X: Any) -> Array:
        """Encode all patches of the images, and pool the codes.

        Parameters
        ----------
        X : as in fit, (n, height, width) or (n, height, width, channels)
            The images; they may have another size than those in fit.

        Returns
        -------
        features : array of shape (n, n_features_out_), float32
            In the library and on the device of X; of a Dask array a lazy one.
        """
        check_is_fitted(self, "n_features_out_")
        images = self._checked(X, reset=False)
        warn_of_range(images, self.largest_pixel_)
        chunks = as_chunks(X)
        if chunks is not None:
            like = np.empty((1, self.n_features_out_), np.float32)
            frozen = copy(self)  # the result is lazy, and must not change if this is fitted again
            # The images of a chunk have been checked with the others; here they are brought into their form.
            return map_chunks(
                lambda X: frozen._encoded(frozen._checked(X, reset=False)).values, chunks, like=like
            )
        features, n_failed = self._encoded(images)
        if n_failed:
            self.encoder_.warn_not_converged(n_failed)
        return features

    def _encoded(self, images: Images) -> Encoded:
        shape = self._shape()
        coders = [make_coder(bank, images.place, shape) for bank in self._banks()]
        return encode_images(images, coders, shape, self.n_codes_)

    def score(self, X: Any, y: Any = None) -> float:
        r"""Return minus the relative error with which single filters reconstruct whitened patches.

        The error is that of equation (1) of the paper, the sum over patches x of the smallest
        :math:`\|x - s d\|^2` over all filters d and gains s, divided by the sum of :math:`\|x\|^2`.
        It lies in [0, 1] and needs no labels, so that settings can be compared on held-out images.

        Parameters
        ----------
        X : as in fit
            Images, of which up to 10,000 patches are drawn for every region.
        y : ignored

        Returns
        -------
        score : float
            From -1 to 0, larger is better.
        """
        check_is_fitted(self, "n_features_out_")
        images = self._checked(X, reset=False)
        rng, n = as_generator(self.random_state), min(self.n_patches, 10_000)  # as documented
        # Sums of all regions, not a mean of ratios: a region with little contrast counts little.
        parts = [
            unexplained(self._draw(images, n, i, rng).patches, bank)
            for i, bank in enumerate(self._banks())
        ]
        left, total = (sum(map(float, sums)) for sums in zip(*parts, strict=True))
        return -left / total if total > 0 else 0.0

    def stages(self, patches: Any, *, region: int = 0) -> dict[str, Array]:
        """Return patches after every step, to find out which step spoils the features.

        Parameters
        ----------
        patches : array of shape (n_patches, patch_size * patch_size * channels)
            Rows of pixels, such as :func:`sample_patches` gives.
        region : int, default=0
            The region whose filters are meant, if there are several.

        Returns
        -------
        dict
            "raw", "normalized", "whitened" and "codes", each with a row for every patch. A step that
            was left out is not there.
        """
        check_is_fitted(self, "n_features_out_")
        bank, d = self._banks()[region], int(np.prod(self.patch_shape_))
        if len(patches.shape) != 2 or patches.shape[1] != d:
            raise ValueError(
                f"patches have shape {tuple(patches.shape)}; they must be rows of {d} numbers, as "
                "sample_patches gives them"
            )
        # The work is done where the configuration asks for it; results go back to where the patches are.
        home = Place(patches)
        place = Place.of_work(home)
        rows = place.put(np.asarray(to_host(patches), np.float32))
        found = {"raw": rows}
        for name, step in stages(bank, place):
            rows = found[name] = step(rows)
        found["codes"], n_failed = PatchEncoder(bank, place)(rows)
        if n_failed:
            self.encoder_.warn_not_converged(n_failed)
        return {name: home.put(values) for name, values in found.items()}

    @property
    def pixel_filters_(self) -> Any:
        """Filters of normalised pixels, D T: they respond as ``filters_`` do to whitened patches."""
        check_is_fitted(self, "n_features_out_")
        return _one_or_all([in_pixels(bank, patterns=False) for bank in self._banks()])

    @property
    def pixel_patterns_(self) -> Any:
        """Patterns of normalised pixels that whiten to the filters: what each of them looks for."""
        check_is_fitted(self, "n_features_out_")
        return _one_or_all([in_pixels(bank, patterns=True) for bank in self._banks()])

    def _make_encoder(self) -> Any:
        """Return the encoder, once it is checked that it can go with the learner."""
        if isinstance(self.encoder, str) and self.encoder in OWN_CODES:
            if isinstance(self.learner, str):
                has_transform = self.learner != "patches"
            else:
                has_transform = hasattr(self.learner, "transform")
            if not has_transform:
                raise ValueError(
                    f"encoder={self.encoder!r} needs a learner with a transform, and learner="
                    f"{self.learner!r} has none; name an encoder, such as 'soft-threshold'"
                )
            return LearnerEncoder(both_signs=OWN_CODES[self.encoder])
        return make_encoder(clone(self.encoder, safe=False))

    def _draw(self, images: Images, n: int, region: int, rng: np.random.Generator) -> Sample:
        """Draw patches of a region."""
        shape = self._shape()

        def box(part: Part) -> Box:
            height, width, _ = part.shape
            # All of an image, not only what patches at a stride reach, where it is one region.
            if shape.regions == (1, 1):
                return Box(0, 0, height, width)
            return shape.box(region, height, width)

        return draw(images, n, patch_size=self.patch_size, rng=rng, box=box)

    def _banks(self) -> list[Bank]:
        """Return the fitted steps of every region."""

        def each(value: Any) -> list[Any]:
            return value if isinstance(value, list) else [value] * len(self.n_codes_)

        filters = getattr(self, "filters_", None)
        steps = (self.normalizer_, self.whitener_, self.learner_, filters, self.encoder_)
        banks = [Bank(*parts) for parts in zip(*map(each, steps), self.n_codes_, strict=True)]
        for bank in banks:
            # The fitted encoder_ is one for all regions, without a learner; each region has its own.
            if bank.by_learner:
                bank.encoder = bank.encoder.with_learner(bank.learner)
        return banks

    def _checked(self, X: Any, *, reset: bool) -> Images:
        """Validate images, and that every cell of every region gets a patch."""
        shape = self._shape()
        images = check_images(
            X,
            patch_size=self.patch_size,
            caller=type(self).__name__,
            n_channels=None if reset else self.n_channels_in_,
        )
        check_cells(images, shape, f"regions={self.regions} and grid={self.grid}")
        if reset:
            warn_if_alpha(images)
        elif hasattr(self, "filters_"):
            check_model_device(self, images.home, self._banks()[0].filters)
        return images

    def _shape(self, grid: Any = None) -> Shape:
        """Return how patches are cut and pooled, over another grid if one is given; grids are checked."""
        grid = self.grid if grid is None else grid
        several = len(grid) > 0 and all(isinstance(one, tuple | list) for one in grid)
        return Shape(
            self.patch_size,
            self.stride,
            CellPooling[self.pooling.upper()],
            regions=check_grid("regions", self.regions),
            grids=tuple(check_grid("grid", g) for g in (grid if several else [grid])),
        )

    @property
    def _n_features_out(self) -> int:
        return self.n_features_out_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # scikit-learn then skips its checks with tables, which the tests replace by checks with images.
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags


def check_cells(images: Images, shape: Shape, settings: str) -> None:
    """Refuse images of which a cell would have no patch."""
    # Places of patches that an image must have, down and across, for no cell to be empty.
    need = [shape.regions[axis] * max(grid[axis] for grid in shape.grids) for axis in (0, 1)]
    for part in images.parts:
        places = shape.places(*part.shape[:2])
        if places[0] < need[0] or places[1] < need[1]:
            raise ValueError(
                f"image {part.start} has {places[0]} x {places[1]} places for patches, fewer than the "
                f"{need[0]} x {need[1]} cells of {settings}; use fewer cells, smaller patches, or larger "
                "images"
            )


def warn_of_range(images: Images, known: float) -> None:
    """Warn if images have values up to 1 and those in fit had up to 255, or the other way round."""
    largest = images.largest_pixel()
    low, high = sorted((largest, known))
    if 0 < low <= 1 and high > 2:
        warn_user(
            f"the images have values up to {largest:.3g}, and those in fit had up to {known:.3g}; give "
            "both in the same range, such as bytes in 0..255"
        )


def _one_or_all(values: list[Any]) -> Any:
    """Return what there is one of, or the list of those of all regions."""
    return values[0] if len(values) == 1 else values
